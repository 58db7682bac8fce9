"""How a session comes to be open: its file is read, or made when there is none.

Law: order is kept. Who asked for a session that is not there, before the one that
creates it, is told so; who asked afterwards is served by what was created.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import anyio
from anyio import to_thread

from sessiond.errors import SessiondError, SessionNotFound
from sessiond.service.actor.inbox import Command
from sessiond.service.log.open_session import OpenSession

__all__ = ["Opening"]


class Opening:
    """The opening of one session, and what it came to."""

    def __init__(self, load: Callable[[], OpenSession]) -> None:
        self._load = load
        self._instead: Callable[[], OpenSession] | None = None
        self._too_early: tuple[Command, ...] = ()
        self._settled = anyio.Event()
        self._opened: OpenSession | None = None
        self._failure: SessiondError | None = None

    def create_instead(self, load: Callable[[], OpenSession], waiting: tuple[Command, ...]) -> bool:
        """`load` the session in case there is none, which those who wait will not see.

        False when it is open, or when somebody else's `load` came first.
        """
        if self._opened is not None or self._instead is not None:
            return False
        self._instead = load
        self._too_early = waiting
        return True

    async def run(self, refuse: Callable[[Iterable[Command], SessiondError], None]) -> OpenSession:
        """Open it, in a worker thread. Raises what the file is refused for."""
        try:
            return await to_thread.run_sync(self._load)
        except SessionNotFound as error:
            if self._instead is None:
                raise
            refuse(self._too_early, error)
            return await to_thread.run_sync(self._instead)

    def done(self, opened: OpenSession) -> None:
        """It is open, and requests are served."""
        self._opened = opened
        self._settled.set()

    def failed(self, error: SessiondError) -> None:
        """It cannot be opened; nothing else, once it was, for whoever waited for that."""
        if self._opened is None:
            self._failure = error
        self._settled.set()

    async def outcome(self) -> OpenSession:
        """The open session, once it is. Raises what the opening came to."""
        await self._settled.wait()
        if self._failure is not None:
            raise self._failure
        assert self._opened is not None, "it is settled"
        return self._opened
