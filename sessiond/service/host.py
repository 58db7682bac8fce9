"""One open session: who asks, who writes, who watches.

A host is there from the first request that names its session: what comes while
the file is being read waits in the inbox. Questions are answered at once, or
after the asker's own mutations; mutations go to the one writer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any
from weakref import WeakSet

import anyio
from anyio import CapacityLimiter, to_thread
from msgspec import Struct

from sessiond.errors import Internal, SessiondError, exhausted
from sessiond.journal.store import Replaced, ReplacedReason
from sessiond.limits import RETRY_AFTER_MS
from sessiond.service.attention import Attention
from sessiond.service.contexts import ContextCache
from sessiond.service.estimating import Estimates
from sessiond.service.hub import Hub, HubStatistics
from sessiond.service.inbox import LATER, Command, Inbox
from sessiond.service.jobs import answer_later
from sessiond.service.leases import Leases
from sessiond.service.log import LogReader
from sessiond.service.opened import Opened
from sessiond.service.opening import Opening
from sessiond.service.planning import KeptFiles
from sessiond.service.ports import Environment, Ticket
from sessiond.service.retirement import Retirement
from sessiond.service.subscription import Subscription
from sessiond.service.watching import Watching
from sessiond.service.writer import Writer, WriterStatistics
from sessiond.session.tree import ChildIndex

__all__ = ["Host", "HostStatistics", "Keeper"]


class HostStatistics(Struct, frozen=True):
    """How busy a session is."""

    seq: int
    inbox: int
    writer: WriterStatistics
    hub: HubStatistics


class _Reader:
    """Keeps a session open. It is held by a job and goes with it, run or never started."""

    __slots__ = ("__weakref__",)


class Keeper(Struct, frozen=True):
    """Whoever keeps the open sessions, as each of them sees it.

    `on_ready` hears of commands for a session in memory, `on_change` of every change;
    `threads` are for writing.
    """

    on_ready: Callable[[Host], None]
    on_change: Callable[[Host], None]
    threads: CapacityLimiter
    next_lease_epoch: Callable[[], int]
    reopen: Callable[[Opened], Opened]
    watching: Watching


class Host:
    """A session that is open, or about to be."""

    def __init__(
        self,
        session_id: str,
        load: Callable[[], Opened],
        environment: Environment,
        keeper: Keeper,
    ) -> None:
        self.session_id = session_id
        self.environment = environment
        self._opening = Opening(load)
        self._keeper = keeper
        self._opened: Opened | None = None
        self._log: LogReader | None = None
        self._hub: Hub | None = None
        self._writer: Writer | None = None
        self._leases: Leases | None = None
        self._estimates: Estimates | None = None
        self._inbox = Inbox()
        self._stopping = False
        self._wake = anyio.Event()
        self._readers: WeakSet[_Reader] = WeakSet()
        self._taken: list[Command] = []
        self._attention = Attention(keeper.watching, lambda: self._wake.set())
        self._reopening = False
        self._watchers: list[Subscription] = []
        self.meant_for_memory = False
        self.retirement: Retirement | None = None
        """What is to be done with the file when this host has let go of it."""
        self.released = anyio.Event()
        """Set when that is done: the next one may have the file."""
        self.contexts = ContextCache()
        self.plan_files = KeptFiles()
        self.children = ChildIndex()
        self.last_used = environment.monotonic()

    # -- what is open ----------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether the file was read and commands are being served."""
        return self._opened is not None

    @property
    def opened(self) -> Opened:
        """The open session; only asked by what runs after the opening."""
        assert self._opened is not None, "the session is not open yet"
        return self._opened

    @property
    def hub(self) -> Hub:
        """The session's subscribers."""
        assert self._hub is not None, "the session is not open yet"
        return self._hub

    @property
    def writer(self) -> Writer:
        """Who alone changes the session."""
        assert self._writer is not None, "the session is not open yet"
        return self._writer

    @property
    def leases(self) -> Leases:
        """Who alone may move which head."""
        assert self._leases is not None, "the session is not open yet"
        return self._leases

    @property
    def estimates(self) -> Estimates:
        """How many tokens the model sees where."""
        assert self._estimates is not None, "the session is not open yet"
        return self._estimates

    @property
    def log(self) -> LogReader:
        """The session's stored lines."""
        assert self._log is not None, "the session is not open yet"
        return self._log

    @property
    def seq(self) -> int:
        """The last durable line."""
        return self.opened.session.seq

    @property
    def in_memory(self) -> bool:
        """A session of persist "never": no disk to wait for, nothing to unload."""
        return self._opened is not None and not self._opened.journal.blocking

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
        """Nobody waits for it, reads, watches or leases it, and its entries are in a file."""
        if not self.is_open or self.in_memory or self._stopping:
            return False
        if len(self._inbox) or self.writer.writing or len(self._readers):
            return False
        return not (self.hub or self.hub.presence or self.leases.in_use)

    def touch(self) -> None:
        """Somebody used it just now."""
        self.last_used = self.environment.monotonic()

    # -- requests ----------------------------------------------------------------

    def ask(self, ticket: Ticket, question: Callable[[], Any]) -> Any:
        """Answer a question now, or LATER when the asker's own commands come first."""
        self.touch()
        if self.is_open and not self._reopening and not self._inbox.holds(ticket.client):
            return question()
        return self.ask_in_turn(ticket, question)

    def ask_in_turn(self, ticket: Ticket, question: Callable[[], Any]) -> Any:
        """Answer LATER, between two batches: what was asked before is stored, or was refused."""
        return self.submit(Command(ticket, lambda _receipt, _durability: question(), entries=0))

    def submit(self, command: Command) -> Any:
        """Give a command a place in line; its answer comes LATER. Raises Overloaded."""
        self.touch()
        self._inbox.put(command)
        if not self.in_memory:
            self._wake.set()
        elif len(self._inbox) == 1:
            self._keeper.on_ready(self)
        return LATER

    def later(self, ticket: Ticket, job: Callable[[], Awaitable[Any]]) -> Any:
        """Answer a question LATER; until then the session stays open."""
        reader = _Reader()
        self._readers.add(reader)

        async def read(held: _Reader = reader) -> Any:
            try:
                async with ticket.client.reads:
                    return await job()
            finally:
                self._readers.discard(held)
                self._wake.set()

        answer_later(ticket, read, self.environment)
        return LATER

    def leases_changed(self) -> None:
        """A head may be free, or be free at another time: whoever waits is looked after."""
        self._wake.set()

    def create_instead(self, load: Callable[[], Opened]) -> bool:
        """While the session is being opened: `load` it in case there is none.

        False when it is open, or when somebody else's `load` came first.
        """
        return self._opening.create_instead(load, self._inbox.commands)

    async def ready(self) -> Opened:
        """The open session, once it is. Raises what the opening came to."""
        return await self._opening.outcome()

    # -- the writer ----------------------------------------------------------------

    async def run(self) -> None:
        """Open the session and serve its inbox until `stop`; everyone waiting gets an answer."""
        error: SessiondError = Internal("the session's writer ended")
        try:
            opened = await self._opening.run(self._refuse)
            self._hub = Hub(LogReader(opened), self.session_id, opened.epoch, opened.session.rules)
            self._serve_opened(opened)
            self._keeper.on_change(self)
            self._opening.done(opened)
            self._attention.turn_to(opened)
            while self._taken or len(self._inbox) or len(self._readers) or not self._stopping:
                self.leases.serve()
                try:
                    await self._turn()
                except Replaced as replaced:
                    await self._open_again(replaced.reason)
        except SessiondError as refusal:
            error = refusal
        except Exception as bug:  # noqa: BLE001 - a bug here closes this session only
            error = self._closed_by(bug)
        finally:
            self._attention.end()
            self._opening.failed(error)
            self._refuse([*self._taken, *self._inbox.commands], error)
            if self._leases is not None:
                self._leases.close()
            if self._hub is not None:
                self._watchers = self._hub.close()
                if not self._stopping:
                    self.tell_watchers(error.kind)

    def _serve_opened(self, opened: Opened) -> None:
        """From here on this is the session."""
        self._opened = opened
        self._log = LogReader(opened)
        self._estimates = Estimates(opened, self.environment.policies)
        self._leases = Leases(self.environment, self._keeper.next_lease_epoch, opened.session.rules)
        self._writer = Writer(
            opened, self.hub, self._inbox, self._leases, self.environment, self._keeper.threads
        )
        self.contexts = ContextCache()
        self.plan_files = KeptFiles()
        self.children = ChildIndex()

    async def _turn(self) -> None:
        """Serve a batch, or look at what others wrote, or wait. Raises Replaced."""
        if not self._taken and len(self._inbox):
            self._taken = self._inbox.take()
        if self._taken:
            changed = await self.writer.write(self._taken)
            self._taken = []
        elif self._attention.is_due(self.opened, self.writer):
            changed = await self._attention.look(self.opened, self.writer)
        else:
            await self._rest()
            return
        if changed:
            # Still in the step that answered: a list asked for next shows it.
            self._keeper.on_change(self)

    async def _rest(self) -> None:
        """Until there is something to do; a clock runs only for those who wait for a moment."""
        self._wake = anyio.Event()
        due_in = self.writer.others.half_due_in
        if self.leases.waiting:
            due_in = min(due_in, self.leases.due_in())
        with anyio.move_on_after(due_in):
            await self._wake.wait()

    # -- what others do to the file --------------------------------------------------

    async def _open_again(self, reason: ReplacedReason) -> None:
        """Serve the file that took the place of the one that was open, to the same subscribers."""
        self._reopening = True
        opened = await to_thread.run_sync(self._keeper.reopen, self.opened)
        self._reopening = False
        self.leases.close()
        self._serve_opened(opened)
        self.hub.begin_again(self.log, opened.epoch, opened.session.rules, reason)
        self._attention.turn_to(opened)
        self._keeper.on_change(self)

    def stop(self) -> None:
        """Let `run` end once the inbox is empty."""
        self._stopping = True
        self._wake.set()

    def run_ready(self) -> None:
        """Serve what waits for a session in memory, at once: there is no disk to wait for."""
        while len(self._inbox) and not self.writer.writing:
            if self._inbox.needs_thread:
                # `run` serves it and what comes behind it.
                self._wake.set()
                return
            self._taken = self._inbox.take()
            try:
                changed = self.writer.write_in_memory(self._taken)
                self._taken = []
                if changed:
                    self._keeper.on_change(self)
            except Exception as bug:  # noqa: BLE001 - a bug here closes this session only
                # `run` waits meanwhile and would not know why it ends.
                error = self._closed_by(bug)
                self._refuse([*self._taken, *self._inbox.commands], error)
                self._taken = []
                self._watchers = self.hub.close()
                self.tell_watchers(error.kind)
                self.stop()

    def tell_watchers(self, reason: str) -> None:
        """Tell who watched to the end why there are no more events."""
        watchers, self._watchers = self._watchers, []
        for subscription in watchers:
            self.hub.tell_closed(subscription, reason)

    def _closed_by(self, bug: Exception) -> SessiondError:
        short = exhausted(bug, RETRY_AFTER_MS)
        if short is not None and not self.is_open:
            return short
        incident_id = self.environment.report_bug(f"writer of {self.session_id}", bug)
        return Internal("the session was closed by a bug in sessiond", incident_id=incident_id)

    def _refuse(self, commands: Iterable[Command], error: SessiondError) -> None:
        """Answer whoever has no answer yet, also those whom the writer had taken."""
        for command in commands:
            if not command.settled:
                self._inbox.drop(command)
                self._inbox.settled(command)
                command.fail(error)
                command.ticket.flush()

    def statistics(self) -> HostStatistics:
        """How busy it is."""
        return HostStatistics(
            seq=self.seq,
            inbox=len(self._inbox),
            writer=self.writer.statistics(),
            hub=self.hub.statistics(),
        )
