"""How far the work on one request is: written by whoever does it, read by whoever tells the client.

Law: `report` is one assignment. It may be called for every item, from any
thread, and never waits; how often a client hears of it is not decided here.
"""

from __future__ import annotations

from typing import Final

from sessiond.model.events import Figures

__all__ = ["NO_PROGRESS", "Progress"]


class Progress:
    """What was reported last; `token` is what the client calls this request by."""

    __slots__ = ("latest", "token")

    def __init__(self, token: str | int | None) -> None:
        self.token = token
        self.latest: Figures | None = None

    def report(self, done: int, total: int | None, unit: str) -> None:
        """So much is done, of so much (None: not known); `unit` is a plural, like "lines"."""
        self.latest = (done, total, unit)


class _Unheard(Progress):
    """For a request that did not ask: shared by all of them, so it keeps nothing."""

    __slots__ = ()

    def report(self, done: int, total: int | None, unit: str) -> None:
        pass


NO_PROGRESS: Final[Progress] = _Unheard(None)
