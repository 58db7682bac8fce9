"""A session as a document shows it: one state of it, with redacted lines."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct

from sessiond.service.exporting.documents.redaction import Redaction
from sessiond.service.log.annotations import summed
from sessiond.service.log.chunks import chunks
from sessiond.service.log.open_session import OpenSession
from sessiond.service.log.rewritten import as_stored
from sessiond.service.log.session_info import HeadInfo, SessionInfo
from sessiond.service.ports import Progress


class State(Struct, frozen=True):
    """State of a session at the moment of the request."""

    upto: int
    leaf: int
    """Leaf of the head that the document follows; 0 before the first entry."""
    heads: list[HeadInfo]
    info: SessionInfo


class DocumentSource:
    """Lines and facts of a session in one state."""

    def __init__(
        self, opened: OpenSession, state: State, redaction: Redaction, progress: Progress
    ) -> None:
        self.opened = opened
        self.session = opened.session
        self.dialect = opened.dialect
        self.state = state
        self._redaction = redaction
        self._progress = progress

    def lines(self, seqs: Iterable[int]) -> Iterator[tuple[int, bytes]]:
        """Yield stored lines with their seqs. Raise StorageError, InvalidParams."""
        return as_stored(self.opened, self._lines(seqs))

    def _lines(self, seqs: Iterable[int]) -> Iterator[tuple[int, bytes]]:
        done, total = 0, self.state.upto + 1
        self._progress.report(0, total, "lines")
        for chunk in chunks(self.opened.journal, seqs):
            stored = deque(self._redaction.lines(self.opened.journal.read_many(chunk)))
            for seq in chunk:
                # A long line goes once its reader has made something of it.
                yield seq, stored.popleft()
            done += len(chunk)
            self._progress.report(done, total, "lines")
        self._progress.report(total, total, "lines")

    def value(self, value: Any) -> Any:
        """Return a JSON value with redacted texts."""
        return self._redaction.value(value)

    def annotations(self, seq: int) -> dict[str, Any]:
        """Return what the annotations of an entry say, redacted."""
        seqs = self.session.annotations_at(seq, self.state.upto)
        if not seqs:
            return {}
        return summed(self.dialect, self._redaction.lines(self.opened.journal.read_many(seqs)))

    def labels(self) -> dict[int, str]:
        """Return the labels of entries, redacted, by seq."""
        upto = self.state.upto
        found = {seq: self.session.label_at(seq, upto) for seq in list(self.session.label_states)}
        kept = {str(seq): label for seq, label in sorted(found.items()) if label is not None}
        return {int(seq): label for seq, label in self.value(kept).items()}
