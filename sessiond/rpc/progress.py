"""Progress of one request: the worker writes it, the sender of `$/progress` reads it.

Law: `report` is one assignment. A worker may call `report` for every item, from any thread;
`report` never waits. How often a client is notified is decided elsewhere.
"""

from __future__ import annotations

from typing import Final

from sessiond.model.events import Figures


class Progress:
    """The latest report; `token` is the client's name for the request."""

    __slots__ = ("latest", "token")

    def __init__(self, token: str | int | None) -> None:
        self.token = token
        self.latest: Figures | None = None

    def report(self, done: int, total: int | None, unit: str) -> None:
        """Report `done` of `total` (None: unknown) in `unit`, a plural like "lines"."""
        self.latest = (done, total, unit)


class _Unheard(Progress):
    """Progress of a request that did not ask for reports.

    Shared by all of them, so it keeps nothing.
    """

    __slots__ = ()

    def report(self, done: int, total: int | None, unit: str) -> None:
        pass


NO_PROGRESS: Final[Progress] = _Unheard(None)
