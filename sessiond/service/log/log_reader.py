"""Reader of an open session's lines that never blocks the loop.

Small reads come from the page cache and happen in place, larger ones in a worker thread. A reader
sees the lines that were durable when the question was asked.
"""

from __future__ import annotations

from collections.abc import Sequence

from anyio import to_thread
from anyio.lowlevel import checkpoint

from sessiond.model.row import Kind
from sessiond.service.log.events import Event
from sessiond.service.log.open_session import OpenSession
from sessiond.service.log.rewritten import NOT_AS_INDEXED, changed


class LogReader:
    """Stored lines of one session."""

    def __init__(self, opened: OpenSession) -> None:
        self._opened = opened

    @property
    def seq(self) -> int:
        """Last durable line."""
        return self._opened.session.seq

    def span(self, after: int, upto: int, bytes_max: int) -> int:
        """Return the last seq of a chunk after `after`: at least one line, about `bytes_max`."""
        line_bytes = self._opened.journal.line_bytes
        last, size = after + 1, line_bytes(after + 1)
        while last < upto and size < bytes_max:
            last += 1
            size += line_bytes(last)
        return last

    async def read_events(self, first: int, last: int) -> list[Event]:
        """Return the entries of these lines as events without origin."""
        if self._opened.journal.span_bytes(first, last) <= self._opened.inline_bytes:
            await checkpoint()
            return self._events(first, last)
        return await to_thread.run_sync(self._events, first, last)

    def _events(self, first: int, last: int) -> list[Event]:
        opened = self._opened
        kinds = opened.session.kinds
        lines = opened.journal.read(first, last)
        try:
            return [
                opened.event(seq, line)
                for seq, line in enumerate(lines, first)
                if kinds[seq] != Kind.NONE
            ]
        except NOT_AS_INDEXED as error:
            raise changed(opened.path) from error

    async def read_many(self, seqs: Sequence[int]) -> list[bytes]:
        """Return the lines at these ordinals, in that order."""
        journal = self._opened.journal
        if sum(map(journal.line_bytes, seqs)) <= self._opened.inline_bytes:
            return journal.read_many(seqs)
        return await to_thread.run_sync(journal.read_many, seqs)
