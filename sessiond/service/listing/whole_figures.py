"""Figures of large files of other programs, which a list first has of a part: each file is read whole, one at a time.

Law: no list waits for the figures but one that is sorted by them. A file is read once its program has left it
alone for as long as the reading may take, the newest first; behind each file the reader rests as long as it read,
so that half of a processor is left. A reading ends with the daemon, or with its asker, at the next lines.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import anyio
from anyio import from_thread, to_thread

from sessiond.catalog.rows import Mark, Stored
from sessiond.limits import FIGURES_QUIET_SECONDS
from sessiond.service.ports import Progress
from sessiond.service.progress import LatestProgress
from sessiond.service.store.listed import SampledSession, Scanner

Put = Callable[[Stored, Mark | None], Awaitable[None]]
Reporting = Callable[[Callable[[], Awaitable[None]]], Awaitable[bool]]


class _Cancellable(LatestProgress):
    """Progress of a reading in a worker thread, which ends there once it is cancelled."""

    def report(self, done: int, total: int | None, unit: str) -> None:
        from_thread.check_cancelled()
        super().report(done, total, unit)


class WholeFigures:
    """The reader of whole files."""

    def __init__(
        self, scanner: Scanner, put: Put, reporting: Reporting, monotonic: Callable[[], float]
    ) -> None:
        """Take `put`, which stores a row unless the session has another mark by now.

        `reporting` does a job and reports a failure.
        """
        self._scanner = scanner
        self._put = put
        self._reporting = reporting
        self._monotonic = monotonic
        self._turn = anyio.Lock()
        self._wake = anyio.Event()
        self._wait: float | None = None

    def wake(self) -> None:
        """Look for files of which lists have only a part, behind a scan."""
        self._wake.set()

    async def run(self) -> None:
        """Read the files as they become due."""
        while True:
            self._wake = anyio.Event()
            self._wait = FIGURES_QUIET_SECONDS
            await self._reporting(self._read_due)
            with anyio.move_on_after(self._wait):
                await self._wake.wait()

    async def _read_due(self) -> None:
        """Read the files that are due, and note how long the next one takes to be due."""
        while True:
            async with self._turn:
                part, _ = await to_thread.run_sync(self._scanner.next_part, ())
                began = self._monotonic()
                if part is None or part.due > began:
                    self._wait = None if part is None else part.due - began
                    return
                await self._read(part, soon=False)
            await anyio.sleep(self._monotonic() - began)

    async def complete(self, progress: Progress) -> int:
        """Read all files of which lists have only a part, those too that were just written to; return how many."""
        done = set[str]()
        while True:
            async with self._turn:
                part, left = await to_thread.run_sync(self._scanner.next_part, done)
                if part is None:
                    return len(done)
                await self._read(part, soon=True)
            done.add(part.session_id)
            progress.report(len(done), len(done) + left - 1, "sessions")

    async def _read(self, part: SampledSession, *, soon: bool) -> None:
        work = partial(self._scanner.read_whole, part, _Cancellable(), soon=soon)
        read = await to_thread.run_sync(work)
        if read is not None:
            await self._put(*read)
