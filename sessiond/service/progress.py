"""`$/progress`: reports to one client about its request, while the work goes on elsewhere.

Rule 1: `begin` comes first, `end` comes right before the answer, and both are sent or neither:
work that reports nothing, or never found room, sends neither.
Rule 2: between them at most one `report` every PROGRESS_SECONDS, and only of changes. A report
that finds the outbox full is dropped: the next report says more.
"""

from __future__ import annotations

from typing import Literal

import anyio

from sessiond.limits import PROGRESS_SECONDS
from sessiond.model.events import Figures, ProgressTold, ProgressValue
from sessiond.service.log.events import notification
from sessiond.service.ports import Progress, Ticket


class LatestProgress:
    """Progress of work that several requests wait for: the latest report. From any thread."""

    token: str | int | None = None

    def __init__(self) -> None:
        self.latest: Figures | None = None
        self.followers: tuple[Progress, ...] = ()
        """Progress of requests, which gets each report too."""

    def report(self, done: int, total: int | None, unit: str) -> None:
        """Report `done` of `total` (None: unknown) in `unit`, a plural like "lines"."""
        self.latest = (done, total, unit)
        for follower in self.followers:
            follower.report(done, total, unit)


class ProgressTeller:
    """Sender of progress to a client that waits for a ticket's answer and gave a token."""

    def __init__(self, ticket: Ticket, progress: Progress | None = None) -> None:
        """Tell of the ticket's own progress, or of `progress` under the ticket's token."""
        self._progress = ticket.progress if progress is None else progress
        self._token = ticket.progress.token
        self._listener = ticket.client.listener
        self._telling = anyio.CancelScope()
        self._told: Figures | None = None
        self._over = False

    def start(self) -> None:
        """Begin to report, in a task of the client's connection."""
        self._listener.start(self._keep_telling)

    def end(self) -> None:
        """Queue the last report; the answer follows. Sends nothing."""
        self._over = True
        self._telling.cancel()
        if self._progress.latest is not None and self._begun():
            # `put` cannot drop it: a client that got `begin` must get `end`.
            self._listener.put(self._frame("end", self._progress.latest))

    async def _keep_telling(self) -> None:
        with self._telling:
            while True:
                await anyio.sleep(PROGRESS_SECONDS)
                # Cancelling does not reach a task whose sleep is already over.
                if self._over:
                    return
                self._tell()

    def _tell(self) -> None:
        latest = self._progress.latest
        if latest is None or not self._begun():
            return
        done, total, _ = latest
        # The completion of the work is told by `end`.
        if latest != self._told and done != total and self._offer("report", latest):
            self._told = latest
        self._listener.flush()

    def _begun(self) -> bool:
        """Return whether the client has got `begin` by now."""
        if self._told is None and self._progress.latest is not None:
            _, total, unit = self._progress.latest
            nothing_done = (0, total, unit)
            if self._offer("begin", nothing_done):
                self._told = nothing_done
        return self._told is not None

    def _offer(self, kind: Literal["begin", "report"], figures: Figures) -> bool:
        return bool(self._listener.offer(self._frame(kind, figures)))

    def _frame(self, kind: Literal["begin", "report", "end"], figures: Figures) -> bytes:
        assert self._token is not None, "started for a token only"
        value = ProgressValue(kind, *figures)
        told = ProgressTold(self._token, value)
        framed: bytes = self._listener.encode(notification("$/progress", told))
        return framed
