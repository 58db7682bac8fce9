"""The opening of a session: its file is read, or created if there is none.

Law: order is kept. Requests for a missing session that came before the request to create it are
refused. Requests that came afterwards use the created session. No request is answered from a reading
that began before the request came and found no session: another daemon may have stored one since. A
session that is not found is looked for once where programs put files, before it counts as missing. Before
a session is created under an id that its caller chose, the daemon looks whether a new file there has the id.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

import anyio
from anyio import to_thread

from sessiond.errors import SessiondError, SessionNotFound
from sessiond.service.actor.inbox import Command, Inbox
from sessiond.service.log.open_session import OpenSession
from sessiond.service.ports import Progress
from sessiond.service.progress import LatestProgress
from sessiond.service.thread_pool import ThreadPool


class Opening:
    """The opening of one session, and its outcome."""

    def __init__(
        self,
        load: Callable[[], OpenSession],
        progress: LatestProgress,
        look_around: Callable[[], Awaitable[bool]],
        look_before_creation: Callable[[], Awaitable[None]],
        threads: ThreadPool,
    ) -> None:
        """Open by `load`, which reports to `progress` how far it is, in one of `threads`.

        `look_around` looks for files that came meanwhile, and returns whether any may have come.
        `look_before_creation` does so only where something has changed.
        """
        self.progress = progress
        self._load = load
        self._look_around = look_around
        self._look_before_creation = look_before_creation
        self._threads = threads
        self._instead: Callable[[], OpenSession] | None = None
        self._is_drawn = False
        self._too_early: tuple[Command, ...] = ()
        self._asked = 0
        """Number of calls that wait for the outcome."""
        self.tried = anyio.Event()
        """Event of the end of the first try, behind which a session that was not found is looked for."""
        self.is_making = False
        """True once the session is being made: no list has to read the new file. False again if the making fails."""
        self._settled = anyio.Event()
        self._opened: OpenSession | None = None
        self._failure: SessiondError | None = None

    def create_instead(
        self, load: Callable[[], OpenSession], waiting: tuple[Command, ...], *, is_drawn: bool
    ) -> bool:
        """Use `load` to create the session if there is none; refuse the commands in `waiting` then.

        `is_drawn` tells that the daemon has drawn the id, which no file has. Returns False if the session is
        open, or if another `load` was set before.
        """
        if self._opened is not None or self._instead is not None:
            return False
        self._instead = load
        self._is_drawn = is_drawn
        self._too_early = waiting
        return True

    async def run(
        self, refuse: Callable[[Iterable[Command], SessiondError], None], inbox: Inbox
    ) -> OpenSession:
        """Open the session in a worker thread. Raises the refusal of the file."""
        has_looked = False
        if self._instead is not None:
            await self._look_for_the_id()
        while True:
            early, came = inbox.commands, inbox.count + self._asked
            try:
                if self._instead is None:
                    return await self._threads.finish(self._load)
                return await self._make(self._load)
            except SessionNotFound as error:
                self.tried.set()
                if self._instead is not None:
                    refuse(self._too_early, error)
                    await self._look_for_the_id()
                    return await self._make(self._instead)
                if not has_looked:
                    has_looked = True
                    if await self._look_around():
                        continue
                if inbox.count + self._asked == came:
                    raise
                refuse(early, error)

    async def _make(self, make: Callable[[], OpenSession]) -> OpenSession:
        """Create the session; a creation is in the profile, and waits for no opening elsewhere."""
        self.is_making = True
        try:
            return await to_thread.run_sync(make)
        except BaseException:
            self.is_making = False
            raise

    async def _look_for_the_id(self) -> None:
        """Look whether a new file has the id of the session that is about to be created."""
        if not self._is_drawn:
            await self._look_before_creation()

    def done(self, opened: OpenSession) -> None:
        """Record that the session is open and serves requests."""
        self._opened = opened
        self.tried.set()
        self._settled.set()

    def failed(self, error: SessiondError) -> None:
        """Record that opening failed; do nothing after a success."""
        if self._opened is None:
            self._failure = error
        self.tried.set()
        self._settled.set()

    async def outcome(self, progress: Progress | None = None) -> OpenSession:
        """Wait for the open session and return it. Raises the error of a failed opening.

        `progress` is told how far the opening is.
        """
        if progress is not None and not self._settled.is_set():
            self.progress.followers += (progress,)
        self._asked += 1
        await self._settled.wait()
        if self._failure is not None:
            raise self._failure
        assert self._opened is not None, "it is settled"
        return self._opened
