"""The actor of one open session: its commands, its writer, its subscribers.

An actor exists from the first request that names its session. Requests that come while the file is
being read wait in the inbox. Questions are answered at once, or after the mutations of their own
client; mutations go to the one writer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any
from weakref import WeakSet

import anyio
from anyio import CancelScope, sleep, to_thread
from msgspec import Struct

from sessiond.errors import Overloaded, SessiondError
from sessiond.limits import DATABASE_POLL_SECONDS, DATABASE_READ_SECONDS, RETRY_AFTER_MS
from sessiond.model.deferred import DEFERRED
from sessiond.service.actor.background import run_in_background
from sessiond.service.actor.exclusive import ExclusiveOperation
from sessiond.service.actor.inbox import Command, Inbox
from sessiond.service.actor.leases import Leases
from sessiond.service.actor.live import HostStatistics, Live, SessionDeps
from sessiond.service.actor.loop import Loop
from sessiond.service.actor.opening import Opening
from sessiond.service.actor.plan_files import PlanFiles
from sessiond.service.actor.writer import SessionWriter
from sessiond.service.context.context_cache import ContextCache
from sessiond.service.context.token_counts import TokenCounts
from sessiond.service.context.view_cache import ViewCache
from sessiond.service.log.log_reader import LogReader
from sessiond.service.log.open_session import OpenSession
from sessiond.service.log.out_of_sight import out_of_sight, stale_meta
from sessiond.service.log.rewritten import changed, is_rewritten
from sessiond.service.ports import Progress, Ticket
from sessiond.service.progress import LatestProgress
from sessiond.service.pubsub.hub import Hub
from sessiond.service.pubsub.messenger import Messenger
from sessiond.session.tree import ChildIndex


class _Reader:
    """Keeps a session open. It is held by a job and goes with it, run or never started."""

    __slots__ = ("__weakref__",)


class Chunk:
    """One read of a connection, while its requests are handled one after another."""

    __slots__ = ("client", "ready")

    def __init__(self) -> None:
        self.client: Any = None
        """The client of the connection; None while no chunk is under way."""
        self.ready: list[Loop] = []
        """The sessions that have commands to serve at the end of it."""


class RegistryCallbacks(Struct, frozen=True):
    """The registry of open sessions, as an actor sees it.

    `chunk` collects sessions with commands to serve. `on_change` is called with every change. `begin` begins
    an opening: in a turn of the client that asks, or at once for None.
    """

    chunk: Chunk
    on_change: Callable[[SessionActor], None]
    begin: Callable[[SessionActor, Any], None]
    deps: SessionDeps


class SessionActor:
    """A session that is open, or about to be.

    The attributes without a value are there from the opening on; another file that takes the place
    of the open one brings new ones.
    """

    live: Live
    opened: OpenSession
    log: LogReader
    """The session's stored lines."""
    hub: Hub
    """The session's subscribers."""
    messenger: Messenger
    """Signals and presence, here and at other daemons."""
    leases: Leases
    """The leases on heads."""
    writer: SessionWriter
    """The single writer of the session."""
    estimates: TokenCounts
    """Token counts of the messages at each head."""
    contexts: ContextCache
    """Recently built contexts, by place in the tree."""
    views: ViewCache
    """Recently built views of contexts, by place and shape."""
    plan_files: PlanFiles
    """The files of the plans that were made last."""
    children: ChildIndex
    """The children of each entry."""

    def __init__(
        self,
        session_id: str,
        load: Callable[[], OpenSession],
        keeper: RegistryCallbacks,
        progress: LatestProgress,
    ) -> None:
        """Open the session by `load`, which reports to `progress` how far it is."""
        self.session_id = session_id
        self.environment = keeper.deps.environment
        self._keeper = keeper
        deps = keeper.deps
        self._opening = Opening(
            load, progress, deps.look_around, deps.look_before_creation, deps.opening_threads
        )
        self._inbox = Inbox()
        self._readers: WeakSet[_Reader] = WeakSet()
        self._loop = Loop(
            session_id,
            self._opening,
            self._inbox,
            self._readers,
            keeper.deps,
            self._install,
            partial(keeper.on_change, self),
        )
        self.is_open = False
        """True once the file was read, while commands are being served."""
        self.has_room = False
        """True once the session counts among the open ones; its opening waits for its turn before."""
        self.meant_for_memory = False
        self.retirement: ExclusiveOperation | None = None
        """The operation on the file that runs once this actor has released the file."""
        self.released = anyio.Event()
        """Set when that is done: the next one may have the file."""
        self.last_used = self.environment.monotonic()

    # -- what is open ----------------------------------------------------------

    def _install(self, live: Live) -> None:
        """Install the parts for the file that is served from here on."""
        self.is_open = True
        self.live = live
        self.opened = live.opened
        self.log = live.log
        self.hub = live.hub
        self.messenger = live.messenger
        self.leases = live.leases
        self.writer = live.writer
        self.estimates = live.estimates
        self.contexts = live.contexts
        self.views = live.views
        self.plan_files = live.plan_files
        self.children = live.children

    @property
    def seq(self) -> int:
        """The last durable line."""
        return self.opened.session.seq

    @property
    def in_memory(self) -> bool:
        """True for a session of persist "never": no disk to wait for, nothing to unload."""
        return self.is_open and not self.opened.journal.blocking

    @property
    def has_ended(self) -> bool:
        """True once the session is served no longer; another actor may serve the session."""
        return self._loop.has_ended

    @property
    def is_gone(self) -> bool:
        """True if the actor has ended because another daemon deleted the session."""
        return self._loop.is_gone

    @property
    def is_shut(self) -> bool:
        """True if the actor has ended because no log could take the place of its log, which is closed."""
        return self._loop.is_shut

    @property
    def is_without_file(self) -> bool:
        """True if the session's file, which another program may have moved, is not where it was."""
        return self.is_open and self.opened.elsewhere and self.writer.foreign_lines.lost

    @property
    def is_out_of_sight(self) -> bool:
        """True if other daemons may have changed the session since the store last answered."""
        return self.opened.journal.is_shared and self.writer.foreign_lines.lost

    @property
    def stale_since(self) -> str | None:
        """Time from which on the store has not answered, if other daemons may write to the session."""
        return self.writer.foreign_lines.lost_since if self.opened.journal.is_shared else None

    @property
    def counts_as_memory(self) -> bool:
        """Against which limit it counts; before it is open, by what it is meant to be."""
        return self.in_memory if self.is_open else self.meant_for_memory

    @property
    def waiting(self) -> int:
        """Commands that wait for the writer."""
        return len(self._inbox)

    @property
    def can_unload(self) -> bool:
        """True if no client waits for, reads, watches or leases the session, and it has a file."""
        if not self.is_open or self.in_memory or self._loop.stopping:
            return False
        if len(self._inbox) or self._loop.taken or len(self._readers):
            return False
        return not self.is_kept

    @property
    def is_kept(self) -> bool:
        """True if a client watches or leases the session, is present in it, or waits for a lease."""
        return self.is_open and bool(self.hub or self.hub.presence or self.leases.in_use)

    @property
    def is_held(self) -> bool:
        """True if a client keeps or reads the session."""
        return bool(self._readers) or self.is_kept

    def do_behind_batch(self, job: Callable[[], None]) -> None:
        """Do a job once the commands that are being served are settled; at once if none is."""
        if self._loop.taken:
            self._loop.behind_batch = job
        else:
            job()

    def touch(self) -> None:
        """Record that the session was used just now."""
        self.last_used = self.environment.monotonic()

    # -- requests ----------------------------------------------------------------

    def ask(self, ticket: Ticket, question: Callable[[], Any]) -> Any:
        """Answer a question now; return DEFERRED if earlier commands of its client come first."""
        self.touch()
        if self.is_open and not self._loop.reopening:
            journal = self.opened.journal
            if journal.is_shared or journal.is_doubted:
                return self.ask_behind_a_look(ticket, question)
            if not self._inbox.holds(ticket.client):
                return self._answered(ticket, question)
        return self.ask_in_turn(ticket, question)

    def ask_behind_a_look(self, ticket: Ticket, question: Callable[[], Any]) -> Any:
        """Answer a question once the store was looked at, after every earlier command; return DEFERRED."""
        if not self.is_open or self._loop.reopening:
            return self.ask_in_turn(ticket, question)
        self._loop.doubt()
        is_first = not (self.writer.writing or self._loop.taken or len(self._inbox))
        if is_first or not self.opened.journal.is_shared:
            return self.ask_in_turn(ticket, question)
        command, waits = self._question(ticket, question), CancelScope()
        command.on_end = waits.cancel
        deferred = self.submit(command)
        ticket.client.listener.start(self._answer_late, command, waits)
        return deferred

    async def _answer_late(self, command: Command, waits: CancelScope) -> None:
        """Answer a question with what is known, once a batch before it waits for a silent store."""
        asked, wait = self.environment.now(), DATABASE_READ_SECONDS
        with waits:
            while True:
                await sleep(wait)
                if self._is_held_up(command):
                    break
                # A look has bounds of its own.
                wait = DATABASE_POLL_SECONDS
        if command.settled:
            return
        lines = self.writer.foreign_lines
        lines.lost, lines.lost_since = True, lines.lost_since or min(asked, self.writer.began)
        # What the writer has taken is passed over there.
        self._inbox.drop(command)
        command.settle(None, self.opened.durability, self.environment.report_bug)
        command.ticket.flush()

    def _is_held_up(self, question: Command) -> bool:
        """Return whether a question waits for the store's answer to changes that are not its client's."""
        return self.writer.writing and all(
            one.asks or one.ticket.client is not question.ticket.client
            for one in (*self._loop.taken, *self._inbox.line)
            if one.number < question.number
        )

    def ask_of_the_file(self, ticket: Ticket, question: Callable[[], Any]) -> Any:
        """Answer a question that is about the lines in the file now; return DEFERRED.

        A batch that is on its way has looked at the file, and the question does not wait for it.
        """
        if self._loop.taken:
            return self.ask(ticket, question)
        return self.ask_behind_a_look(ticket, question)

    def ask_in_turn(self, ticket: Ticket, question: Callable[[], Any]) -> Any:
        """Answer a question between two batches, after every earlier command; return DEFERRED."""
        return self.submit(self._question(ticket, question))

    def _question(self, ticket: Ticket, question: Callable[[], Any]) -> Command:
        return Command(
            ticket, lambda _receipt, _durability: self._answered(ticket, question), entries=0
        )

    def _answered(self, ticket: Ticket, question: Callable[[], Any]) -> Any:
        """Answer a question. Raises StorageError where the file was written anew in place."""
        opened = self.opened
        if opened.journal.is_shared:
            since = self.stale_since
            if since is not None:
                ticket.result_meta = stale_meta(since)
        try:
            return question()
        except SessiondError as refusal:
            self._doubt(opened)
            raise self._judged(refusal) from None
        except Exception as bug:
            if not is_rewritten(opened.journal):
                raise
            self._doubt(opened)
            raise changed(opened.path) from bug

    def _judged(self, refusal: SessiondError) -> SessiondError:
        """Return a refusal, or why none can be given: what is missing here may be in the store."""
        return out_of_sight(self.session_id) if self.is_out_of_sight else refusal

    def _doubt(self, opened: OpenSession) -> None:
        if opened.journal.is_doubted and opened is self.opened:
            self._loop.doubt()

    def submit(self, command: Command) -> Any:
        """Put a command into the inbox; return DEFERRED. Raises Overloaded."""
        if self._loop.has_ended:
            raise Overloaded(
                "the session was closed meanwhile: try again", retry_after_ms=RETRY_AFTER_MS
            )
        self.last_used = self.environment.monotonic()
        if not self.is_open:
            self._keeper.begin(self, command.ticket.client)
            if command.ticket.progress.token is not None:
                command.tell(self._opening.progress)
        # The line is served as a whole, so only its first command has to be announced.
        if self._inbox.put(command):
            live, chunk = self._loop.live, self._keeper.chunk
            if live is not None and (chunk.client is not None or not live.opened.journal.blocking):
                chunk.ready.append(self._loop)
            else:
                self._loop.wake()
        return DEFERRED

    def later(self, ticket: Ticket, job: Callable[[], Awaitable[Any]]) -> Any:
        """Answer by a job, until whose end the session stays open; return DEFERRED."""
        ticket.client.require_room_to_read(self)
        release = self.retain(ticket.client.readers)
        opened = self.opened

        async def read() -> Any:
            try:
                async with ticket.client.reads:
                    return await job()
            except SessiondError as refusal:
                self._doubt(opened)
                raise self._judged(refusal) from None
            except Exception as bug:
                if not await to_thread.run_sync(is_rewritten, opened.journal):
                    raise
                self._doubt(opened)
                raise changed(opened.path) from bug
            finally:
                release()

        run_in_background(ticket, read, self.environment)
        return DEFERRED

    def retain(self, readers: WeakSet[object] | None = None) -> Callable[[], None]:
        """Keep the session open; return the function that ends this, as its collection does.

        `readers` are all that a client has.
        """
        reader = _Reader()
        self._readers.add(reader)
        if readers is not None:
            readers.add(reader)

        def release(held: _Reader = reader) -> None:
            self._readers.discard(held)
            if readers is not None:
                readers.discard(held)
            self._loop.wake()

        return release

    def leases_changed(self) -> None:
        """Wake the calls that wait for a lease: a head may be free now, or at another time."""
        self._loop.wake()

    def create_instead(self, load: Callable[[], OpenSession], *, is_drawn: bool) -> bool:
        """Make the opening call `load` if the session does not exist; `is_drawn` as in `Opening`.

        Return False if the session is open, or if another caller's `load` came first.
        """
        return self._opening.create_instead(load, self._inbox.commands, is_drawn=is_drawn)

    async def ready(self, progress: Progress | None = None) -> OpenSession:
        """Wait for the opening and return the open session. Raises the error of a failed opening.

        `progress` is told how far the opening is.
        Another program may have replaced the file since: the answer is the session of the new file.
        """
        self._keeper.begin(self, None)
        await self._opening.outcome(progress)
        return self.opened

    @property
    def is_making(self) -> bool:
        """Return whether the session is being made here."""
        return self._opening.is_making

    async def tried(self) -> None:
        """Wait until the file was read, or was not found at its place."""
        await self._opening.tried.wait()

    # -- its life ------------------------------------------------------------------

    async def run(self, find_room: Callable[[], Awaitable[None]]) -> None:
        """Open the session once there is room, and serve it until `stop`; everyone waiting gets an answer."""
        await self._loop.run(find_room)

    def run_ready(self) -> None:
        """Serve the waiting commands, as far as they wait for nothing but the disk."""
        self._loop.run_ready()

    def stop(self, why: SessiondError | None = None) -> None:
        """Let `run` end once the inbox is empty; `why` is for who waits for a lease."""
        self._loop.stop(why)

    def tell_watchers(self, reason: str) -> None:
        """Tell who watched to the end why there are no more events."""
        self._loop.tell_watchers(reason)

    def statistics(self) -> HostStatistics:
        """Return the counters of the session."""
        return self.live.statistics(waiting=self.waiting)
