"""One open session: its inbox, its single writer, its subscribers.

The writer takes all that waits and makes one batch of it, in six steps that
read in this order below: stage, encode, persist, commit, publish, answer. Only
persist awaits. So no task ever sees half a batch, nothing is visible before it
is durable, and whatever arrives while the disk works is the next batch.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from anyio import CancelScope, to_thread
from msgspec import Struct

from sessiond.errors import Internal, SessiondError
from sessiond.service.batch import Batch, stage
from sessiond.service.contexts import ContextCache
from sessiond.service.events import Event
from sessiond.service.hub import Hub, HubStatistics
from sessiond.service.inbox import LATER, Command, Inbox
from sessiond.service.jobs import answer_later
from sessiond.service.log import LogReader
from sessiond.service.opened import Opened
from sessiond.service.ports import Environment, Listener, Ticket
from sessiond.session.tree import ChildIndex

__all__ = ["Host", "HostStatistics"]


class HostStatistics(Struct, frozen=True):
    """How busy a session is."""

    seq: int
    inbox: int
    batches: int
    entries: int
    batch_entries_max: int
    failures: int
    hub: HubStatistics


class Host:
    """A session that is open, or about to be."""

    def __init__(
        self,
        session_id: str,
        load: Callable[[], Opened],
        environment: Environment,
        on_ready: Callable[[Host], None],
    ) -> None:
        self.session_id = session_id
        self.environment = environment
        self._load = load
        self._on_ready = on_ready
        self._opened: Opened | None = None
        self._log: LogReader | None = None
        self._hub: Hub | None = None
        self._inbox = Inbox()
        self._writing = False
        self._stopping = False
        self._wake = anyio.Event()
        self._readers = 0
        self.meant_for_memory = False
        self.ended = anyio.Event()
        self._settled = anyio.Event()
        self._failure: SessiondError | None = None
        self.contexts = ContextCache()
        self.children = ChildIndex()
        self.last_used = environment.monotonic()
        self._batches = self._entries = self._batch_entries_max = self._failures = 0

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
    def waiting(self) -> int:
        """Commands that wait for the writer."""
        return len(self._inbox)

    @property
    def can_unload(self) -> bool:
        """Nobody waits for it, reads it or watches it, and its entries are in a file."""
        busy = len(self._inbox) or self._writing or self._readers or self._hub
        return self.is_open and not self.in_memory and not busy and not self._stopping

    def touch(self) -> None:
        """Somebody used it just now."""
        self.last_used = self.environment.monotonic()

    # -- requests ----------------------------------------------------------------

    def ask(self, ticket: Ticket, question: Callable[[], Any]) -> Any:
        """Answer a question now, or LATER when the asker's own commands come first."""
        self.touch()
        if self._opened is not None and not self._inbox.holds(ticket.client):
            return question()
        return self.submit(Command(ticket, lambda _receipt, _durability: question(), entries=0))

    def submit(self, command: Command) -> Any:
        """Give a command a place in line; its answer comes LATER. Raises Overloaded."""
        self._inbox.put(command)
        if self.in_memory:
            self._on_ready(self)
        else:
            self._wake.set()
        return LATER

    def later(self, ticket: Ticket, job: Callable[[], Awaitable[Any]]) -> Any:
        """Answer a question LATER; until then the session stays open."""

        async def read() -> Any:
            self._readers += 1
            try:
                return await job()
            finally:
                self._readers -= 1

        answer_later(ticket, read, self.environment)
        return LATER

    async def ready(self) -> Opened:
        """The open session, once it is. Raises what the opening came to."""
        await self._settled.wait()
        if self._failure is not None:
            raise self._failure
        return self.opened

    # -- the writer ----------------------------------------------------------------

    async def run(self) -> None:
        """Open the session and serve its inbox until `stop`; everyone waiting gets an answer."""
        error: SessiondError = Internal("the session's writer ended")
        try:
            opened = await to_thread.run_sync(self._load)
            self._log = LogReader(opened)
            self._hub = Hub(self._log, self.session_id, opened.epoch, opened.session.rules)
            self._opened = opened
            self._settled.set()
            while len(self._inbox) or not self._stopping:
                if not len(self._inbox):
                    self._wake = anyio.Event()
                    await self._wake.wait()
                else:
                    await self._write(self._inbox.take())
        except SessiondError as refusal:
            error = refusal
        except Exception as bug:  # noqa: BLE001 - a bug here closes this session only
            incident_id = self.environment.report_bug(f"writer of {self.session_id}", bug)
            error = Internal("the session was closed by a bug in sessiond", incident_id=incident_id)
        finally:
            self._failure = error
            self._settled.set()
            self._refuse_all(error)
            self.ended.set()

    def stop(self) -> None:
        """Let `run` end once the inbox is empty."""
        self._stopping = True
        self._wake.set()

    def run_ready(self) -> None:
        """Serve what waits for a session in memory, at once: there is no disk to wait for."""
        while len(self._inbox) and not self._writing:
            commands = self._inbox.take()
            seqs = self._retried(commands)
            stored = dict(zip(seqs, self.opened.journal.read_many(seqs), strict=True))
            batch = stage(commands, self.opened, self.environment, stored)
            if batch.lines:
                self.opened.journal.append(batch.lines, sync=False)
            self._conclude(batch, None)

    async def _write(self, commands: list[Command]) -> None:
        self._writing = True
        try:
            seqs = self._retried(commands)
            stored = dict(zip(seqs, await self.log.read_many(seqs), strict=True)) if seqs else {}
            batch = stage(commands, self.opened, self.environment, stored)  # 1, 2
            error = await self._persist(batch) if batch.lines else None  # 3
        finally:
            self._writing = False
        self._conclude(batch, error)  # 4, 5, 6

    def _retried(self, commands: list[Command]) -> list[int]:
        """Stored entries that a command names by id: a retry is compared with them."""
        ids = self.opened.session.ids
        return sorted({ids[i] for command in commands for i in command.ids if i in ids})

    async def _persist(self, batch: Batch) -> SessiondError | None:
        """One write and one sync for the whole batch; who waits may not cut it short."""
        opened, failure = self.opened, None

        def store() -> None:
            nonlocal failure
            failure = opened.store(batch.lines, sync=batch.sync, has_assistant=batch.has_assistant)

        with CancelScope(shield=True):
            await to_thread.run_sync(store)
        return failure

    def _conclude(self, batch: Batch, error: SessiondError | None) -> None:
        """Commit, publish, answer. No await: nobody sees half of it."""
        opened = self.opened
        touched: dict[Listener, None] = {}
        if error is not None:
            self._failures += 1
            self._publish(opened.adopt_stored_tail(), touched)
        elif batch.lines:
            batch.draft.commit()
            opened.updated_at = batch.draft.now
            self._publish(batch.events() if self.hub else [], touched)
            self._batches += 1
            self._entries += len(batch.lines)
            self._batch_entries_max = max(self._batch_entries_max, len(batch.lines))
        durability = opened.durability(synced=batch.sync)
        for command in batch.commands:
            self._inbox.settled(command)
            command.settle(error, durability)
            touched[command.ticket.client.listener] = None
        for listener in touched:
            listener.flush()

    def _publish(self, events: list[Event], touched: dict[Listener, None]) -> None:
        if events:
            self.hub.publish(events, touched)

    def _refuse_all(self, error: SessiondError) -> None:
        for command in self._inbox.take_all():
            self._inbox.settled(command)
            command.ticket.fail(error)
            command.ticket.flush()

    def statistics(self) -> HostStatistics:
        """How busy it is."""
        return HostStatistics(
            seq=self.seq,
            inbox=len(self._inbox),
            batches=self._batches,
            entries=self._entries,
            batch_entries_max=self._batch_entries_max,
            failures=self._failures,
            hub=self.hub.statistics(),
        )
