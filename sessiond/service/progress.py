"""`$/progress`: telling one client how far its request is, while the work goes on elsewhere.

Rule 1: `begin` comes first, `end` comes right before the answer, and either both
do or none: work that reports nothing, or never found room, is not spoken of.
Rule 2: between them at most one `report` every PROGRESS_SECONDS, and only of
what changed. One that finds the outbox full is dropped: the next one says more.
"""

from __future__ import annotations

from typing import Literal

import anyio

from sessiond.limits import PROGRESS_SECONDS
from sessiond.model.events import Figures, ProgressTold, ProgressValue
from sessiond.service.log.events import notification
from sessiond.service.ports import Ticket

__all__ = ["ProgressTeller"]


class ProgressTeller:
    """Tells whoever waits for a ticket's answer, and gave a token for it."""

    def __init__(self, ticket: Ticket) -> None:
        self._progress = ticket.progress
        self._listener = ticket.client.listener
        self._telling = anyio.CancelScope()
        self._told: Figures | None = None
        self._over = False

    def start(self) -> None:
        """Tell from now on, in a task of the asker's connection."""
        self._listener.start(self._keep_telling)

    def end(self) -> None:
        """The work is over: what comes next is the answer. Queues, and does not send."""
        self._over = True
        self._telling.cancel()
        if self._progress.latest is not None and self._begun():
            # Not offered: a client that was told of a beginning is told of its end.
            self._listener.put(self._frame("end", self._progress.latest))

    async def _keep_telling(self) -> None:
        with self._telling:
            while True:
                await anyio.sleep(PROGRESS_SECONDS)
                # Cancelling does not reach a task whose sleep is over already.
                if self._over:
                    return
                self._tell()

    def _tell(self) -> None:
        latest = self._progress.latest
        if latest is None or not self._begun():
            return
        done, total, _ = latest
        # That all is done is for `end` to say.
        if latest != self._told and done != total and self._offer("report", latest):
            self._told = latest
        self._listener.flush()

    def _begun(self) -> bool:
        """Whether the client knows of the work by now."""
        if self._told is None and self._progress.latest is not None:
            _, total, unit = self._progress.latest
            nothing_done = (0, total, unit)
            if self._offer("begin", nothing_done):
                self._told = nothing_done
        return self._told is not None

    def _offer(self, kind: Literal["begin", "report"], figures: Figures) -> bool:
        return bool(self._listener.offer(self._frame(kind, figures)))

    def _frame(self, kind: Literal["begin", "report", "end"], figures: Figures) -> bytes:
        assert self._progress.token is not None, "only who gave a token is told"
        value = ProgressValue(kind, *figures)
        told = ProgressTold(self._progress.token, value)
        framed: bytes = self._listener.encode(notification("$/progress", told))
        return framed
