"""Files that the latest plans of compactions named, kept until a compaction needs them."""

from __future__ import annotations

from collections import OrderedDict

from sessiond.limits import PLANS_KEPT_MAX
from sessiond.session.compaction.touched_files import TouchedFiles


class PlanFiles:
    """Touched files by plan id, of the latest plans."""

    def __init__(self) -> None:
        self._files: OrderedDict[str, TouchedFiles] = OrderedDict()

    def put(self, plan_id: str, files: TouchedFiles) -> None:
        """Remember the files of a plan; forget the oldest plans."""
        self._files[plan_id] = files
        self._files.move_to_end(plan_id)
        while len(self._files) > PLANS_KEPT_MAX:
            self._files.popitem(last=False)

    def get(self, plan_id: str) -> TouchedFiles | None:
        """Return the files of a plan; None if they are forgotten."""
        return self._files.get(plan_id)
