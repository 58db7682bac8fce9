"""Sessions and clients of one daemon.

Requests on one session go to its actor. Requests on several sessions, or on a file that may be no
session, are served here, in worker threads.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import anyio
from anyio import CancelScope, to_thread
from anyio.abc import TaskGroup
from msgspec import UNSET, Struct, UnsetType

from sessiond.catalog.finding import listed_files
from sessiond.errors import SessionNotFound, StorageError, as_outage
from sessiond.journal.disk.files import Files
from sessiond.limits import NAMED_FILES_THREADS_MAX, Bounds
from sessiond.service.actor.actor import SessionActor
from sessiond.service.actor.background import run_in_background
from sessiond.service.actor.internal_commands import look_again
from sessiond.service.actor.live import HostStatistics
from sessiond.service.byte_budget import ByteBudget, HoldingsStatistics
from sessiond.service.compaction.runner import CompactionRunner
from sessiond.service.environment import Environment
from sessiond.service.hooks import Hooks
from sessiond.service.listing.live_catalog import LiveCatalog, RosterStatistics
from sessiond.service.listing.searching import IndexStatistics, Search
from sessiond.service.log.session_info import SessionInfo
from sessiond.service.ports import Asker, Consulted, Ticket
from sessiond.service.queues import Queues
from sessiond.service.registry.registry import SessionRegistry
from sessiond.service.states.secrets import Secrets
from sessiond.service.states.states import States, StateStatistics
from sessiond.service.store.refusals import id_is_taken, was_deleted
from sessiond.service.store.roots import RootOfCopy, ShownAt
from sessiond.service.store.session_store import DatabaseStatus, SessionStore
from sessiond.service.summaries.runs import SummaryRuns
from sessiond.service.summaries.summarizers import Summarizers
from sessiond.service.thread_pool import ThreadPool

T = TypeVar("T")


class ServiceStatistics(Struct, frozen=True):
    """Counters of the daemon."""

    sessions_open: int
    sessions_in_memory: int
    clients: int
    requests_waiting: int
    draining: bool
    holdings: HoldingsStatistics
    catalog: RosterStatistics
    index: IndexStatistics
    state: StateStatistics
    sessions: dict[str, HostStatistics]
    database: DatabaseStatus | UnsetType = UNSET
    """The database of the sessions; absent where sessions are files."""


class Service:
    """Open sessions and clients of one daemon."""

    def __init__(  # noqa: PLR0913 - the parts of one daemon
        self,
        store: SessionStore,
        files: Files,
        environment: Environment,
        tasks: TaskGroup,
        *,
        profile: str,
        request_stop: Callable[[], None],
    ) -> None:
        self.store = store
        self.files = files
        """The disk of this machine, for files that clients name."""
        self.environment = environment
        self.profile = profile
        self.data_folder = store.data_folder
        self.instance_id = environment.new_session_id()
        self.started_at = environment.now()
        self.request_stop = request_stop
        self.clients: dict[Consulted, None] = {}
        self.byte_budget = ByteBudget()
        self.live_catalog = LiveCatalog(
            store,
            environment,
            tasks,
            actors=lambda: self.registry.open_actors(),
            has_open=lambda session_id: self.registry.describes(session_id),
        )
        self.search = Search(self.live_catalog, store, environment.monotonic)
        self.roots = store.root_list(self._roots_changed)
        self.hooks = Hooks()
        summaries = Summarizers(lambda: self.clients, environment.summarizer)
        self.runs = SummaryRuns(tasks, environment, summaries)
        self.compactions = CompactionRunner(self.runs, self.hooks, store.claim)
        self.registry = SessionRegistry(
            store,
            files,
            environment,
            tasks,
            self.live_catalog,
            self.compactions,
            on_leave=self.note_use,
        )
        self.states = States(store.documents, environment, tasks)
        self.secrets = Secrets(store.secrets, environment, tasks)
        self.queues = Queues(self.states, environment)
        tasks.start_soon(self.states.run)
        tasks.start_soon(self.secrets.resume)
        tasks.start_soon(self.live_catalog.run)
        tasks.start_soon(self.live_catalog.figures.run)
        lists = self.live_catalog
        tasks.start_soon(store.run, lists.wake, lambda: lists.is_watched)
        # Files that clients name may lie on disks that do not answer.
        self._named_files = ThreadPool(NAMED_FILES_THREADS_MAX)
        self.pools = (*self.registry.pools, *self.runs.pools, self._named_files)
        """The threads of the service; `end_service` ends them."""
        self._tasks = tasks
        self._deserted = anyio.Event()
        self._use = anyio.Event()

    # -- clients -------------------------------------------------------------------

    def welcome(self, client: Consulted) -> None:
        """Count a new client in."""
        self.clients[client] = None
        self.registry.eviction.spare_descriptors()
        self.note_use()

    def forget(self, client: Consulted) -> None:
        """Count out a client whose connection ended."""
        self.clients.pop(client, None)
        self.hooks.offer(client, frozenset())
        self.note_use()
        if not self.clients:
            self._deserted.set()

    @property
    def bounds(self) -> Bounds:
        """Configured limits of open sessions, connections and buffers."""
        return self.registry.eviction.bounds

    @bounds.setter
    def bounds(self, bounds: Bounds) -> None:
        self.registry.eviction.bounds = bounds
        self.byte_budget.bytes_max = bounds.buffered_bytes
        self.search.take_bound(bounds.index_bytes)

    @property
    def in_use(self) -> bool:
        """True if a client is connected, or a session would be lost with the daemon."""
        return bool(self.clients) or self.registry.any_in_memory

    def configure_roots(
        self, folders: Mapping[str, Sequence[str]], no_outputs: Sequence[str]
    ) -> None:
        """Take over the roots of another configuration, by kind, and those of which no outputs are searched."""

        async def configure() -> None:
            try:
                with as_outage():
                    await self.roots.configure(folders, no_outputs)
            except StorageError as error:
                self.environment.report_trouble(f"the configured roots are not in force: {error}")

        self._tasks.start_soon(configure)

    async def _roots_changed(self, shown: ShownAt) -> None:
        await self.live_catalog.roots_changed(shown)
        self.search.roots_changed()

    def note_use(self) -> None:
        """Wake the waiters of `use_changed`: `in_use` or a setting may have changed."""
        self._use.set()
        self._use = anyio.Event()

    async def use_changed(self) -> None:
        """Wait for the next `note_use`."""
        await self._use.wait()

    # -- sessions ------------------------------------------------------------------

    def actor(self, session_id: str) -> SessionActor:
        """Return the actor of a session, opened on demand. Raise Overloaded, Draining."""
        return self.registry.actor(session_id)

    def find(self, session_id: str) -> SessionActor | None:
        """Return the actor of a session that is open or being opened, else None."""
        return self.registry.find(session_id)

    def unload_idle(self) -> None:
        """Close every session that was idle for long."""
        self.registry.eviction.unload_idle()

    @property
    def draining(self) -> bool:
        """True if the daemon is stopping and takes no new requests."""
        return self.registry.draining

    # -- work on several sessions, or on files ---------------------------------------

    def work(self, ticket: Ticket, job: Callable[[], Awaitable[Any]]) -> None:
        """Answer a request from a task that ends with the asker's connection."""

        run_in_background(ticket, job, self.environment)

    def look(self, ticket: Ticket, job: Callable[[], Awaitable[Any]]) -> None:
        """Answer a question about many sessions by a job, in a turn of the reads of the asker's connection."""

        async def in_turn() -> Any:
            async with ticket.client.reads:
                return await job()

        self.work(ticket, in_turn)

    async def info(self, session_id: str) -> SessionInfo:
        """Return the description of a session as its store has the session now. Raise StorageError too."""
        actor = self.actor(session_id)
        release = actor.retain()
        try:
            opened = await actor.ready()
            if opened.journal.is_shared:
                # The opening may have begun before an answer elsewhere.
                await look_again(actor)
            return actor.opened.whole()
        finally:
            release()

    async def opened_actor(self, session_id: str) -> SessionActor:
        """Return the open actor of a session. Raise the errors of opening."""
        while True:
            actor = self.actor(session_id)
            await actor.ready()
            # The actor may have been closed before this task had its turn.
            if self.find(session_id) is actor:
                return actor

    def may_be_gone(self, session_id: str) -> bool:
        """Return whether another daemon may have deleted a session that is open here."""
        actor = self.find(session_id)
        return actor is not None and actor.is_open and actor.opened.journal.is_shared

    async def let_go_if_gone(self, session_id: str) -> None:
        """Close an open session that another daemon has deleted, so that its id is free here too.

        Raises StorageError.
        """
        actor = self.find(session_id)
        if actor is not None and self.may_be_gone(session_id):
            try:
                await look_again(actor)
            except SessionNotFound:
                await actor.released.wait()

    async def make(
        self, session_id: str, chunks: Iterable[Sequence[bytes]], root: RootOfCopy | None = None
    ) -> SessionInfo:
        """Make a new session of these lines, durable as a whole. Raise SessionExists, StorageError.

        Once begun the work is not cancelled: the session may exist although its asker cancelled.
        """
        await self.let_go_if_gone(session_id)
        first = self.registry.begin(session_id, lambda: self.store.make(session_id, chunks, root))
        actor = self.actor(session_id)
        # A stop of the daemon waits for the answer: the session exists, and the asker must know.
        release = actor.retain()
        try:
            with CancelScope(shield=True):
                await actor.ready()
            if not (first and actor.opened.created):
                raise id_is_taken(session_id)
            return actor.opened.whole()
        except SessionNotFound:
            # Another program has deleted the session, or the one that had its id.
            raise was_deleted(session_id) from None
        finally:
            release()

    async def is_known(self, session_id: str) -> bool:
        """Return whether a session of this id is stored, listed or not. Raise StorageError."""
        return await to_thread.run_sync(self.store.has, session_id)

    async def with_named_file(self, path: str, work: Callable[[], T]) -> T:
        """Do work with a file or folder that a client names, in a thread; return its result."""
        return await self._named_files.finish(work, place=str(Path(path).parent))

    async def identify(self, path: Path) -> str:
        """Return the session id of a file."""
        actors = list(self.registry.open_actors())
        held = {
            actor.session_id: actor.opened.path
            for actor in actors
            if actor.opened.elsewhere and actor.opened.path is not None
        }
        return await self.registry.openings.finish(partial(self.store.identify, path, held))

    async def find_entry(self, entry_id: str, asker: Asker) -> str | None:
        """Return a session that has the entry: an open one, else the first file that has it.

        Raises StorageError.
        """
        if (found := self._open_with(entry_id)) is not None:
            return found
        listed = await self.live_catalog.ask(lambda catalog: catalog.ask(listed_files), asker)
        if (found := self._open_with(entry_id)) is not None:
            return found
        # The file of an open session may hold lines that are not durable yet: its index decides. Of a session
        # that other daemons write to, the store may have more than the index.
        actors = self.registry.open_actors()
        known = {one.session_id for one in actors if not one.opened.journal.is_shared}
        return await to_thread.run_sync(self.store.find_entry, entry_id, listed, known)

    def _open_with(self, entry_id: str) -> str | None:
        """Return an open session that has the entry."""
        for actor in self.registry.open_actors():
            if entry_id in actor.opened.session.ids:
                return actor.session_id
        return None

    # -- the end -------------------------------------------------------------------

    async def deserted(self) -> None:
        """Wait until the last client is gone."""
        while self.clients:
            self._deserted = anyio.Event()
            await self._deserted.wait()

    def statistics(self) -> ServiceStatistics:
        """Return the counters."""
        actors = list(self.registry.open_actors())
        return ServiceStatistics(
            sessions_open=len(actors),
            sessions_in_memory=sum(actor.in_memory for actor in actors),
            clients=len(self.clients),
            requests_waiting=self.registry.requests_waiting(),
            draining=self.draining,
            holdings=self.byte_budget.statistics(),
            catalog=self.live_catalog.statistics(),
            index=self.search.statistics(),
            state=self.states.statistics(),
            sessions={actor.session_id: actor.statistics() for actor in actors},
            database=self.store.database or UNSET,
        )
