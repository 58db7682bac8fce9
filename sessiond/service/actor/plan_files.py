"""The files that the last plans of compactions named, kept until a compaction needs them."""

from __future__ import annotations

from collections import OrderedDict

from sessiond.limits import PLANS_KEPT_MAX
from sessiond.session.compaction.touched_files import Files

__all__ = ["KeptFiles"]


class KeptFiles:
    """The files of the plans that were made last, by plan."""

    def __init__(self) -> None:
        self._files: OrderedDict[str, Files] = OrderedDict()

    def put(self, plan_id: str, files: Files) -> None:
        """Remember those of a plan; the oldest are forgotten."""
        self._files[plan_id] = files
        self._files.move_to_end(plan_id)
        while len(self._files) > PLANS_KEPT_MAX:
            self._files.popitem(last=False)

    def get(self, plan_id: str) -> Files | None:
        """Those of a plan; None if they are not known any more."""
        return self._files.get(plan_id)
