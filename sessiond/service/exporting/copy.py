"""The copy that an export writes: its index, and the lines that are not handed out yet.

Law: the copy grows as a session of its dialect grows, by drafts, so that the dialect checks every entry
and the index knows where the heads of the copy stand.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import Final

from sessiond.dialects.base import Dialect
from sessiond.errors import EntryInvalid, EntryNotFound, TooLarge
from sessiond.model.digests import sha256_hex
from sessiond.model.ids import MAIN
from sessiond.model.row import CONTEXT_KINDS, Kind
from sessiond.service.exporting.forms import Form
from sessiond.session.draft import Draft
from sessiond.session.index import Session
from sessiond.session.moves import BranchRequest, branch, reset

_ID_CHARS: Final = 8
# Kinds that may stand below the leaf without any effect on the context there.
_SILENT: Final = frozenset(Kind) - CONTEXT_KINDS - {Kind.COMPACTION}


class Copy:
    """Copy of a session in another dialect. `seed` makes the ids of added entries, `now` their time."""

    def __init__(self, dialect: Dialect, seed: str, now: str) -> None:
        self.dialect = dialect
        self.session = Session(dialect.rules)
        self._seed = seed
        self._numbers = count(1)
        self._now = now
        self._draft = self._new_draft()

    def add(self, forms: Iterable[Form], parent: int) -> tuple[int, str]:
        """Add the first form that the dialect takes, below a line of the copy.

        Return the line, and what was lost; line 0 and the reason if the dialect takes no form.
        """
        refused = ""
        for entry, loss in forms:
            try:
                return self._draft.stage(entry, head=MAIN, parent=parent), loss
            except (EntryInvalid, EntryNotFound, TooLarge) as bad:
                refused = refused or str(bad)
        return 0, refused

    def put_main(self, wanted: int) -> None:
        """Move main to a line of the copy, unless what stands below the line says nothing."""
        draft = self._draft
        at = draft.leaf(MAIN)
        while at > wanted and draft.kind(at) in _SILENT:
            at = draft.parent(at)
        if at == wanted:
            return
        if wanted:
            branch(draft, BranchRequest(draft.id_of(wanted)))
        else:
            reset(draft, MAIN)

    def kind(self, seq: int) -> int:
        """Return the kind of a line of the copy."""
        return self._draft.kind(seq)

    def line_of(self, seq: int) -> bytes:
        """Return a line that was not taken yet."""
        return self._draft.line_of(seq)

    def id_of(self, seq: int) -> str | None:
        """Return the id of a line of the copy; None for 0."""
        return self._draft.id_of(seq)

    def take_lines(self) -> list[bytes]:
        """Return the lines since the last call."""
        draft = self._draft
        draft.commit()
        self._draft = self._new_draft()
        return draft.lines

    def _new_draft(self) -> Draft:
        return Draft(self.session, self.dialect, new_id=self._new_id, now=self._now, stored={})

    def _new_id(self) -> str:
        # Every export of the same lines gives the same ids.
        return sha256_hex(f"{self._seed}\0{next(self._numbers)}".encode())[:_ID_CHARS]
