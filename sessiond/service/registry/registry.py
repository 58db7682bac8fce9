"""The open sessions, and the owner of each session's file.

Law: a session's file has one owner at a time: an actor, or an operation on the whole file (a
delete, a repair). The next owner waits until the file is released. To look an actor up and to
retire it are synchronous: requests queue in its inbox while a worker thread reads the file, so
their order is kept and no request waits for another session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Final

import anyio
import msgspec
from anyio import to_thread
from anyio.abc import TaskGroup
from anyio.lowlevel import current_token

from sessiond.errors import (
    Cancelled,
    Draining,
    Overloaded,
    SessiondError,
    SessionExists,
    SessionNotFound,
    exhausted,
)
from sessiond.limits import (
    DATABASE_APPENDS_MAX,
    DATABASE_CHANGES_MAX,
    DATABASE_HOLDS_MAX,
    OPENINGS_MAX,
    PLACE_PATIENCE_SECONDS,
    RETRY_AFTER_MS,
    ROOM_LOOK_SECONDS,
    ROOM_PATIENCE_SECONDS,
    WRITER_THREADS_MAX,
)
from sessiond.model.entries import Header
from sessiond.model.events import CatalogChange
from sessiond.service.actor.actor import Chunk, RegistryCallbacks, SessionActor
from sessiond.service.actor.exclusive import ExclusiveOperation
from sessiond.service.actor.live import SessionDeps
from sessiond.service.compaction.recommender import Recommender
from sessiond.service.compaction.runner import CompactionRunner
from sessiond.service.context.cache_budget import CacheBudget
from sessiond.service.environment import Environment
from sessiond.service.listing.live_catalog import LiveCatalog
from sessiond.service.log.open_session import OpenSession
from sessiond.service.log.session_info import Persist
from sessiond.service.progress import LatestProgress
from sessiond.service.registry.closed_sessions import ClosedSessions
from sessiond.service.registry.creation_times import CreationTimes
from sessiond.service.registry.eviction import Descriptors, EvictionPolicy
from sessiond.service.store.session_store import SessionStore
from sessiond.service.thread_pool import StoreThreads, ThreadPool

# What an act on the file as a whole means for lists, by its reason.
_TRIES: Final = 3
_CHANGES: Final[dict[str, CatalogChange]] = {
    "deleted": "deleted",
    "repaired": "updated",
    "restored": "created",
}


class _Unopened(msgspec.Struct):
    """An opening that has not begun: what must be over before, and the turns that it waits for, one a client."""

    predecessor: anyio.Event | None
    turns: list[anyio.Semaphore] = []


class SessionRegistry:
    """The open sessions of one daemon."""

    def __init__(  # noqa: PLR0913 - what one daemon has
        self,
        store: SessionStore,
        descriptors: Descriptors,
        environment: Environment,
        tasks: TaskGroup,
        live_catalog: LiveCatalog,
        runs: CompactionRunner,
        *,
        on_leave: Callable[[], None],
    ) -> None:
        self.draining = False
        self.caches = CacheBudget()
        self._on_leave = on_leave
        self._live_catalog = live_catalog
        self._store = store
        self._environment = environment
        self._tasks = tasks
        self._creation_times = CreationTimes()
        self._closed = ClosedSessions()
        self.by_id: dict[str, SessionActor] = {}
        """Public, for a look without a call; only this object changes it."""
        # Sessions whose file is somebody's who does not take requests any more, until it is let go.
        self._leaving: dict[str, anyio.Event] = {}
        self.eviction = EvictionPolicy(
            self.by_id, self._leaving, descriptors, environment.monotonic, self._dismiss
        )
        self.chunk = Chunk()
        # Openings that have not begun: what each must wait for, and the clients in whose turns it is.
        self._unopened: dict[SessionActor, _Unopened] = {}
        self._room_turn = anyio.Lock()
        self._last_client: object = None
        self._is_scheduled = False
        self._call_soon = getattr(current_token().native_token, "call_soon", None)
        # Writers do not queue behind the openings and reads of other sessions.
        of_files, looks = ThreadPool(WRITER_THREADS_MAX), ThreadPool(WRITER_THREADS_MAX)
        files = StoreThreads(of_files, looks, looks)
        shared = StoreThreads(
            ThreadPool(DATABASE_APPENDS_MAX),
            # An append whose row is held does not wait behind those that wait for rows.
            ThreadPool(DATABASE_APPENDS_MAX + DATABASE_HOLDS_MAX),
            ThreadPool(WRITER_THREADS_MAX),
        )
        # Openings may wait for the disks of other programs, and nothing else waits for openings.
        self.openings = ThreadPool(OPENINGS_MAX)
        leases = ThreadPool(DATABASE_CHANGES_MAX)
        self.pools = (
            of_files,
            looks,
            shared.disk,
            shared.batches,
            shared.looks,
            self.openings,
            leases,
        )
        """The threads that wait for the stores of all sessions."""
        self._runs = runs
        self._recommender = Recommender(tasks, runs)
        self._keeper = RegistryCallbacks(
            chunk=self.chunk,
            on_change=self._changed,
            begin=self._begin_for,
            deps=SessionDeps(
                environment=environment,
                files=files,
                shared=shared,
                lease_threads=leases,
                opening_threads=self.openings,
                next_lease_epoch=store.next_lease_epoch,
                lease_table=store.lease_table,
                company=store.company,
                reopen=store.reopen,
                look_around=live_catalog.look_for_files,
                look_before_creation=live_catalog.look_before_creation,
                place_of=store.place_of,
                watch=store.watch,
                was_closed=self._count_closed,
                caches=self.caches,
            ),
        )

    def _changed(self, actor: SessionActor) -> None:
        self._live_catalog.touch(actor)
        self._recommender.touch(actor)

    # -- one session ---------------------------------------------------------------

    def actor(self, session_id: str) -> SessionActor:
        """Return the actor of a session, opened on demand. Raises Overloaded, Draining."""
        found = self.by_id.get(session_id)
        if found is not None:
            return found
        progress = LatestProgress()
        return self._start(session_id, lambda: self._store.open(session_id, progress), progress)

    def find(self, session_id: str) -> SessionActor | None:
        """Return the actor of a session if the session is open or about to be."""
        return self.by_id.get(session_id)

    def is_free(self, session_id: str) -> bool:
        """Return whether the session's file has no owner and no actor waits for it."""
        return session_id not in self.by_id and session_id not in self._leaving

    def create(
        self, header: Header, persist: Persist, root: str | None = None, *, is_drawn: bool = False
    ) -> bool:
        """Let the session's actor create the session, or open it when the file is there.

        `actor.opened.created` will say which. `is_drawn` tells that the daemon has drawn the id, which no
        file has. Return False if the session is open already, or if another caller is about to create it.
        """
        time = self._creation_times.give(header.id, str(header.timestamp))
        header = msgspec.structs.replace(header, timestamp=time)

        def make() -> OpenSession:
            return self._store.create(header, persist, root)

        return self.begin(
            header.id,
            make,
            in_memory=persist == "never",
            tries=_TRIES,
            is_drawn=is_drawn,
        )

    def begin(
        self,
        session_id: str,
        make: Callable[[], OpenSession],
        *,
        in_memory: bool = False,
        tries: int = 1,
        is_drawn: bool = False,
    ) -> bool:
        """Create a session by `make`, which raises SessionExists where the session exists.

        `is_drawn` as in `create`. `tries` says how often `make` may be called: the lines of a copy, for one, are there once.
        """

        progress = LatestProgress()

        def load() -> OpenSession:
            nonlocal tries
            while tries:
                tries -= 1
                # Another daemon may delete the session, or take back a creation that it could not finish.
                with suppress(SessionNotFound):
                    return make_or_open()
            return self._store.open(session_id, progress)

        def make_or_open() -> OpenSession:
            try:
                return make()
            except SessionExists:
                return self._store.open(session_id, progress)

        actor = self.by_id.get(session_id)
        if actor is None:
            actor = self._start(session_id, load, progress, in_memory=in_memory)
        return actor.create_instead(load, is_drawn=is_drawn)

    def retire(
        self, session_id: str, reason: str, act: Callable[[OpenSession | None], Any]
    ) -> ExclusiveOperation:
        """End a session's actor and let `act` have the file, in a worker thread.

        What was asked before is served first; what is asked from here on waits for the act
        and then opens the session again. `act` is given the session that was open, let go
        of by then, or None. When it is done its subscribers are told `reason`, or why it
        failed. Raises Draining.
        """
        self._require_running()
        retirement = ExclusiveOperation(reason, act, self._environment)
        actor = self.by_id.get(session_id)
        if actor is not None:
            actor.retirement = retirement
            self._dismiss(actor)
        else:
            predecessor = self._leaving.get(session_id)
            released = self._leaving[session_id] = anyio.Event()
            self._tasks.start_soon(self._act, session_id, retirement, predecessor, released)
        return retirement

    def _start(
        self,
        session_id: str,
        load: Callable[[], OpenSession],
        progress: LatestProgress,
        *,
        in_memory: bool = False,
    ) -> SessionActor:
        self._require_running()
        actor = SessionActor(session_id, load, self._keeper, progress)
        actor.meant_for_memory = in_memory
        self.by_id[session_id] = actor
        self._unopened[actor] = _Unopened(self._leaving.get(session_id))
        self._begin_for(actor, self.chunk.client)
        return actor

    def _begin_for(self, actor: SessionActor, client: Any) -> None:
        """Begin an opening in a turn of the client that asks; at once for the daemon, and for work that runs."""
        waiting = self._unopened.get(actor)
        if waiting is None:
            return
        turns: anyio.Semaphore | None = None if client is None else client.openings
        if turns is None:
            self._begin(actor)
        elif turns not in waiting.turns:
            waiting.turns.append(turns)
            self._tasks.start_soon(self._begin_in_turn, actor, turns)

    def _begin(self, actor: SessionActor) -> bool:
        """Begin an opening; return False if it has begun already."""
        waiting = self._unopened.pop(actor, None)
        if waiting is not None:
            self._tasks.start_soon(self._serve, actor, waiting.predecessor)
        return waiting is not None

    async def _begin_in_turn(self, actor: SessionActor, turns: anyio.Semaphore) -> None:
        async with turns:
            if self._begin(actor):
                with anyio.move_on_after(PLACE_PATIENCE_SECONDS):
                    await actor.tried()

    async def _find_room(self, actor: SessionActor) -> None:
        """Wait for room among the open sessions, as long as calls that run will make some. Raise Overloaded."""
        until = anyio.current_time() + ROOM_PATIENCE_SECONDS
        awaited: list[anyio.Event] = []
        async with self._room_turn:
            while True:
                try:
                    awaited = self.eviction.make(in_memory=actor.meant_for_memory)
                except Overloaded:
                    is_over = anyio.current_time() >= until or not self.eviction.will_have_room
                    if actor.meant_for_memory or is_over:
                        raise
                    await anyio.sleep(ROOM_LOOK_SECONDS)
                else:
                    break
            actor.has_room = True
        for released in awaited:
            await released.wait()

    def _require_running(self) -> None:
        if self.draining:
            raise _stopping()

    # -- turns -----------------------------------------------------------------------

    async def _serve(self, actor: SessionActor, predecessor: anyio.Event | None) -> None:
        """Run an actor to its end, once the file is released and there is room for one more session."""
        if predecessor is not None:
            await predecessor.wait()
        await actor.run(partial(self._find_room, actor))
        self._recommender.forget(actor)
        self._end_runs(actor)
        if self.by_id.get(actor.session_id) is actor:
            self._leave(actor)
        with anyio.CancelScope(shield=True):
            try:
                if actor.is_open:
                    await self._let_go(actor)
            except Exception as bug:  # noqa: BLE001 - one session's end must not be the daemon's
                short = exhausted(bug, RETRY_AFTER_MS)
                if short is None:
                    self._environment.report_bug(f"closing {actor.session_id}", bug)
                else:
                    # The next scan reads what was not noted.
                    self._environment.report_trouble(f"closing {actor.session_id}: {short}")
            if actor.retirement is not None:
                await actor.retirement.run(actor.opened if actor.is_open else None)
                self._tell_catalog(actor.session_id, actor.retirement)
                actor.tell_watchers(actor.retirement.told)
                actor.retirement.done.set()
        self._release(actor.session_id, actor.released)
        if actor.is_open:
            self._count_closed(actor.opened)

    def _count_closed(self, opened: OpenSession) -> None:
        """Free closed sessions now and then, in a task of its own: the caller still has this one."""
        if self._closed.add(opened.session.seq) and not self.draining:
            self._tasks.start_soon(self._closed.free)

    async def _let_go(self, actor: SessionActor) -> None:
        try:
            if not actor.is_shut:
                await to_thread.run_sync(self._store.settle, actor.opened)
            await self._live_catalog.let_go(actor)
        finally:
            await _surely(actor.opened.journal.close)

    async def _act(
        self,
        session_id: str,
        retirement: ExclusiveOperation,
        predecessor: anyio.Event | None,
        released: anyio.Event,
    ) -> None:
        """Run an operation on the file of a session that is not open."""
        if predecessor is not None:
            await predecessor.wait()
        with anyio.CancelScope(shield=True):
            await retirement.run(None)
        self._tell_catalog(session_id, retirement)
        retirement.done.set()
        self._release(session_id, released)

    def _tell_catalog(self, session_id: str, retirement: ExclusiveOperation) -> None:
        change = _CHANGES.get(retirement.told)
        if change is not None:
            self._live_catalog.changed(session_id, change)

    def _leave(self, actor: SessionActor) -> None:
        """Make every later call on the session wait until this actor has released the file."""
        del self.by_id[actor.session_id]
        self._leaving[actor.session_id] = actor.released
        self._on_leave()

    def _release(self, session_id: str, released: anyio.Event) -> None:
        if self._leaving.get(session_id) is released:
            del self._leaving[session_id]
        released.set()

    def _dismiss(self, actor: SessionActor) -> None:
        self._leave(actor)
        self._stop(actor)

    def _stop(self, actor: SessionActor) -> None:
        # They would keep it open.
        self._end_runs(actor)
        actor.stop(_stopping() if self.draining else None)

    def _end_runs(self, actor: SessionActor) -> None:
        if self.draining:
            error: SessiondError = _stopping()
        else:
            error = Cancelled("the session was closed while a summary of it was being written")
        self._runs.end(actor, error)

    def unload_unused(self, actor: SessionActor) -> None:
        """Let go of a session that its last user has closed, unless another client uses the session.

        The batch of a `session/close` may have commands that make other clients users.
        """

        def unload() -> None:
            if actor.can_unload and self.by_id.get(actor.session_id) is actor:
                self._dismiss(actor)

        actor.do_behind_batch(unload)

    def end_chunk(self, client: object) -> None:
        """End a chunk of requests: serve the sessions that the chunk has left to serve.

        The requests of clients that take turns often arrive together. Sessions in memory are then
        served in the next turn of the event loop, and what has arrived by then is one batch. With a
        disk, the requests that arrive while a batch is stored are the next batch anyway.
        """
        chunk = self.chunk
        chunk.client = None
        if not chunk.ready:
            return
        is_alone, self._last_client = client is self._last_client, client
        if is_alone or self._call_soon is None or any(one.has_disk for one in chunk.ready):
            self.run_ready()
        elif not self._is_scheduled:
            self._is_scheduled = True
            self._call_soon(self._run_scheduled)

    def _run_scheduled(self) -> None:
        self._is_scheduled = False
        self.run_ready()

    def run_ready(self) -> None:
        """Serve the sessions that requests have left, as far as only the disk is waited for."""
        ready, self.chunk.ready = self.chunk.ready, []
        for loop in ready:
            loop.run_ready()

    async def drain(self) -> None:
        """Serve what was asked, close every session; nothing new is taken."""
        self.draining = True
        actors = list(self.by_id.values())
        for actor in actors:
            self._stop(actor)
        for actor in actors:
            await actor.released.wait()
        for released in list(self._leaving.values()):
            await released.wait()

    # -- all of them -----------------------------------------------------------------

    def open_actors(self) -> Iterator[SessionActor]:
        """Return the sessions that are open now."""
        return (actor for actor in self.by_id.values() if actor.is_open)

    def describes(self, session_id: str) -> bool:
        """Return whether an actor that makes, has or closes the file describes it. Safe in any thread."""
        actor = self.by_id.get(session_id)
        if actor is None:
            return session_id in self._leaving
        return actor.is_open or actor.is_making

    @property
    def any_in_memory(self) -> bool:
        """Return whether a session would be lost with the daemon."""
        return any(actor.counts_as_memory for actor in self.by_id.values())

    def requests_waiting(self) -> int:
        """Commands that wait for a writer."""
        return sum(actor.waiting for actor in self.by_id.values())


async def _surely(work: Callable[[], None]) -> None:
    """Run work in a worker thread, or here if there is none: a lock that stays shuts the next owner out."""
    try:
        await to_thread.run_sync(work)
    except RuntimeError as error:
        if exhausted(error, RETRY_AFTER_MS) is None:
            raise
        work()


def _stopping() -> Draining:
    return Draining("the daemon is stopping", retry_after_ms=RETRY_AFTER_MS)
