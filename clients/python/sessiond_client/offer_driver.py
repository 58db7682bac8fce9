"""Moves an offering over its sockets, and the answers of whoever serves it, from anywhere."""

from __future__ import annotations

from collections.abc import Generator

from sessiond_client.asked import Asked
from sessiond_client.driver import StreamDriver
from sessiond_client.limits import LAST_ANSWERS_SECONDS
from sessiond_client.offering import Offering
from sessiond_client.steps import Outside, Wait

__all__ = ["OfferDriver"]


class OfferDriver(StreamDriver[Offering]):
    """The requests of the daemon."""

    def __init__(self, offering: Offering, outside: Outside) -> None:
        super().__init__(offering, outside)
        offering.reply = self._reply

    def finish(self) -> Generator[Wait, None, None]:
        """Goes on until what was answered is sent, for a while."""
        until = self._outside.clock() + LAST_ANSWERS_SECONDS
        outgoing = self.conversation.outgoing
        if self._waiting is not None:
            return  # who waits there sends it
        for wait in self._drive(lambda: not outgoing or self._outside.clock() >= until):
            yield Wait(wait.on, write=wait.write, until=min(wait.until, until))

    def _reply(self, asked: Asked, frame: bytes) -> None:
        with self._outside.waiter.lock:
            self.conversation.put(asked, frame)
            self._push()
