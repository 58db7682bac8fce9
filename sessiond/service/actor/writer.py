"""The single writer of a session.

The writer takes all waiting commands as one batch, in six steps: stage, encode,
persist, commit, publish, answer; the answer may come before the commit. Only
persist awaits. So no task ever sees half a batch, no entry is visible before it
is durable, and the commands that arrive while the disk works are the next batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from msgspec import Struct

from sessiond.errors import SessiondError, StorageError, exhausted
from sessiond.journal.store import Overtaken, Replaced
from sessiond.limits import OVERTAKEN_MAX, RETRY_AFTER_MS
from sessiond.service.actor.batch import Batch, stage
from sessiond.service.actor.inbox import Command, Inbox
from sessiond.service.actor.leases import Leases
from sessiond.service.actor.settling import settle
from sessiond.service.environment import Environment
from sessiond.service.external.foreign_lines import ForeignLines
from sessiond.service.log.log_reader import LogReader
from sessiond.service.log.open_session import OpenSession
from sessiond.service.log.out_of_sight import out_of_sight
from sessiond.service.ports import Listener
from sessiond.service.pubsub.hub import Hub
from sessiond.service.pubsub.messenger import Messenger
from sessiond.service.thread_pool import StoreThreads

T = TypeVar("T")


class WriterStatistics(Struct, frozen=True):
    """Counters of the writer of one session."""

    batches: int
    entries: int
    batch_entries_max: int
    failures: int


class SessionWriter:
    """Stores the commands of one session's inbox, a batch at a time."""

    def __init__(  # noqa: PLR0913 - what one session has, and what all share
        self,
        opened: OpenSession,
        hub: Hub,
        inbox: Inbox,
        leases: Leases,
        environment: Environment,
        threads: tuple[StoreThreads, StoreThreads],
        messenger: Messenger,
    ) -> None:
        """Take the threads for a session that is a file, and those for a shared one."""
        self.writing = False
        self.began = environment.now()
        """Time at which the last batch was staged: what was stored before the batch is known."""
        self._opened = opened
        self.waits_at = opened.waits_at
        self._log = LogReader(opened)
        self._hub = hub
        self._inbox = inbox
        self._leases = leases
        self._environment = environment
        self._files, self._shared = threads
        self.threads = self._files
        """The threads that wait for the store of the session."""
        self.is_shared = False
        """True if the store may have begun with a batch before a thread takes the batch: `send` comes first."""
        self._journal = opened.journal
        self._meet_store()
        self.foreign_lines = ForeignLines(opened, hub, messenger, self._in_thread, environment.now)
        self._batches = self._entries = self._batch_entries_max = self._failures = 0

    def _meet_store(self) -> None:
        """Take the threads of the store that has the session, which may come out of memory."""
        self._journal = self._opened.journal
        self.is_shared = self._journal.is_shared
        self.threads = self._shared if self.is_shared else self._files

    @property
    def is_contended(self) -> bool:
        """True if other daemons append to the session just now, so that an append waits in turn."""
        return self._journal.is_contended

    @property
    def has_turn(self) -> bool:
        """True if other daemons wait for the next append of this writer."""
        return self._journal.is_held

    def wait_in_turn(self) -> None:
        """Keep other daemons from the session, behind all of their lines; for a thread. Raises as `hold` does."""
        self._journal.hold()

    def comes_in_turn(self, failure: Exception | None) -> bool:
        """Take in what the wait has found; return False if there is more than one wait finds.

        `failure` is what the wait came to. Raises Replaced, and what is no error of the store.
        """
        # The append that follows meets an error of the store, too, and reports the error.
        if failure is not None and not isinstance(failure, SessiondError):
            raise failure
        self.foreign_lines.take_in()
        return not self._journal.behind_bytes

    def end_turn(self) -> None:
        """Let other daemons append again; for a thread. Raises nothing."""
        self._journal.release()

    def staged(self, commands: Sequence[Command]) -> Batch | None:
        """Return the batch of these commands; None if the store has to be read for that first."""
        if self._opened.journal is not self._journal:
            self._meet_store()
        if self._looked_at(commands):
            return None
        batch = stage(commands, self._opened, self._environment, {}, self._leases)
        self.began = batch.draft.now
        if self.is_shared and not self.has_turn and self._may_be_stale(batch):
            batch.give_up()
            return None
        return batch

    def _may_be_stale(self, batch: Batch) -> bool:
        """Return whether a command was refused, or does nothing, for what another daemon may have changed."""
        owners = {id(owner) for owner in batch.owners}
        return any(
            one.refusal is not None or self._does_nothing(one, owners) for one in batch.commands
        )

    def _does_nothing(self, command: Command, owners: set[int]) -> bool:
        """Return whether a mutation has no entry. A retry has: its entries are stored, and no daemon changes them."""
        if command.stage is None or id(command) in owners:
            return False
        return self._opened.session.ids.keys().isdisjoint(command.ids)

    async def write(self, commands: Sequence[Command], *, overtaken: bool = False) -> bool:
        """Store a batch and settle it; gives whether it could change the session.

        `overtaken` says that foreign lines were found that come first.
        Raises Replaced, and then nothing is stored or settled.
        """
        self.writing = True
        if self._opened.journal is not self._journal:
            self._meet_store()
        try:
            batch, error = await self._store(commands, overtaken=int(overtaken))
        except StorageError as unread:
            # What staging looks at could not be read. Nothing was staged yet.
            self.refuse(commands, unread)
            return False
        finally:
            self.writing = False
        return self.conclude(batch, error)  # 4, 5, 6

    async def _store(
        self, commands: Sequence[Command], *, overtaken: int
    ) -> tuple[Batch, SessiondError | None]:
        """Stage, encode and persist. Stage again if a foreign writer appended first."""
        journal = self._opened.journal
        try:
            return await self._store_in_turn(commands, overtaken=overtaken)
        finally:
            if journal.is_held:
                # A batch without lines does not need the turn that it has waited for.
                await self._in_thread(journal.release)

    async def _store_in_turn(
        self, commands: Sequence[Command], *, overtaken: int
    ) -> tuple[Batch, SessiondError | None]:
        opened = self._opened
        # What changes the session's row by itself cannot wait for the row that it holds.
        may_hold = all(command.act is None for command in commands)
        if overtaken or opened.journal.is_contended:
            await self.foreign_lines.take_foreign_lines_first(holds=may_hold)
        has_looked = False
        while True:
            seqs = self._looked_at(commands)
            stored = dict(zip(seqs, await self._log.read_many(seqs), strict=True)) if seqs else {}
            batch = stage(commands, opened, self._environment, stored, self._leases)  # 1, 2
            self.began = batch.draft.now
            has_looked = has_looked or opened.journal.is_held
            if opened.journal.is_shared and not has_looked and self._may_be_stale(batch):
                batch.give_up()
                has_looked = True
                await self.look()
                if self.foreign_lines.lost:
                    raise out_of_sight(opened.session_id)
                continue
            if not batch.needs_disk:
                return batch, None
            # Lines of another daemon may be those of a batch: its retry is staged behind them, as a
            # duplicate. Each lost race is a batch that another daemon has stored.
            late = overtaken >= OVERTAKEN_MAX and not opened.journal.is_shared
            try:
                return batch, await self._persist(batch, late=late)  # 3
            except Replaced:
                # The commands are staged again, on the session of the other lines.
                batch.give_up()
                raise
            except Overtaken:
                overtaken += 1
                batch.give_up()
                await self.foreign_lines.take_foreign_lines_first(holds=may_hold)

    async def look(self) -> bool:
        """Take in foreign lines; return whether there were any. Raises Replaced.

        No call waits for the look: the session may be released meanwhile, and ends behind it.
        """
        if self._opened.journal is not self._journal:
            self._meet_store()
        return await self.foreign_lines.look()

    def write_in_memory(self, commands: Sequence[Command]) -> bool:
        """Stage, commit and answer a batch of a session in memory, without waiting."""
        journal = self._opened.journal
        stored: dict[int, bytes] = {}
        if seqs := self._looked_at(commands):
            stored.update(zip(seqs, journal.read_many(seqs), strict=True))
        batch = stage(commands, self._opened, self._environment, stored, self._leases)
        error: SessiondError | None = None
        if batch.lines:
            try:
                journal.append(batch.lines, sync=False)
            except SessiondError as full:
                if len(commands) > 1:
                    # One large command must not refuse the small ones beside it.
                    batch.give_up()
                    changed = [self.write_in_memory([command]) for command in commands]
                    return any(changed)
                # With its traceback the error would hold this frame, and the frame the error.
                error = full.with_traceback(None)
        self.conclude(batch, error)
        return bool(batch.lines) and error is None

    def _looked_at(self, commands: Sequence[Command]) -> list[int]:
        """Read the stored entries that staging compares a retry with."""
        looking = [one for one in commands if one.ids or one.reads is not None]
        if not looking:
            return []
        session = self._opened.session
        ids = session.ids
        named = [i for command in looking for i in command.ids if i in ids]
        seqs = {ids[i] for i in named}
        if session.same_ids:
            seqs.update(seq for i in named for seq in session.same_ids.get(i, ()))
        for command in looking:
            if command.reads is not None:
                seqs.update(command.reads(session))
        return sorted(seqs)

    async def _persist(self, batch: Batch, *, late: bool) -> SessiondError | None:
        """One write and one sync for the whole batch. Raises Overtaken, Replaced."""
        try:
            return await self.threads.batches.finish(
                lambda: self.store(batch, late=late),
                (lambda: self.send(batch)) if self.is_shared else None,
                self.waits_at,
            )
        except RuntimeError as error:
            # Nothing was written if there was no thread to write in.
            short = exhausted(error, RETRY_AFTER_MS)
            if short is None:
                raise
            return short

    def send(self, batch: Batch) -> None:
        """Let the store begin with a batch, as far as that waits for nothing; `store` follows in a thread."""
        if batch.act is None and batch.lines:
            self._opened.send(batch.lines, sync=batch.sync)

    def store(self, batch: Batch, *, late: bool = False) -> SessiondError | None:
        """Bring a batch to the disk, in a worker thread; return what refused it.

        Raises Overtaken, Replaced.
        """
        if batch.act is None:
            opened = self._opened
            is_due = batch.has_assistant or opened.is_due_with(batch.draft.rows)
            return opened.store(batch.lines, sync=batch.sync, has_assistant=is_due, late=late)
        try:
            batch.act(batch.lines, late=late)
        except SessiondError as refusal:
            return refusal
        return None

    async def _in_thread(self, work: Callable[[], T]) -> T:
        """Run work in a thread and return its result; a cancelled caller waits until the end."""
        return await self.threads.looks.finish(work, place=self.waits_at)

    def conclude(self, batch: Batch, error: SessiondError | None) -> bool:
        """Commit, publish, answer; return whether the batch could change the session.

        No await: no task sees half of a batch. So plain appends that no subscriber watches are answered before
        the commit, and their clients wait for the disk alone.
        """
        opened, hub = self._opened, self._hub
        # Their events leave with their answers, in one piece.
        asking: dict[Listener, None] = {}
        for command in batch.commands:
            asking[command.ticket.client.listener] = None
        found = self.foreign_lines.publish(asking)
        is_heard = hub.has_live
        # The answers to plain appends say nothing of what the commit finds out.
        is_plain = batch.plain == len(batch.commands)
        answers_first = is_plain and not (error or found or is_heard)
        if answers_first:
            self._answer(batch, error, asking)
        if error is not None:
            self._failures += 1
        elif batch.lines:
            if found:
                batch.follow()
            opened.intake.end_atom()
            batch.draft.commit()
            opened.hidden = False
            lines = opened.journal.line_count
            assert len(opened.session.names) == lines, "index and file number the lines alike"
            if is_heard:
                hub.publish(batch.events(), asking)
            self._batches += 1
            self._entries += len(batch.lines)
            self._batch_entries_max = max(self._batch_entries_max, len(batch.lines))
        if found or batch.act is not None:
            # Our own lines leave a session as writable as it was.
            self.foreign_lines.tell_standing(asking)
        if not answers_first:
            self._answer(batch, error, asking)
        return bool(batch.lines or batch.act)

    def _answer(
        self, batch: Batch, error: SessiondError | None, asking: Iterable[Listener]
    ) -> None:
        """Settle all commands of a batch, and send their connections what waits there."""
        settle(batch, error, self._opened.durability, self._environment.report_bug)
        self._inbox.settled(batch.commands)
        for listener in asking:
            listener.flush()

    def refuse(self, commands: Sequence[Command], error: SessiondError) -> None:
        """Answer every change with an error, and questions with what is known."""
        self._inbox.settled(commands)
        for command in commands:
            if command.settled:
                continue
            if command.asks and command.act is None:
                command.settle(None, self._opened.durability, self._environment.report_bug)
            else:
                command.fail(error)
            command.ticket.flush()

    def statistics(self) -> WriterStatistics:
        """Return the counters."""
        return WriterStatistics(
            batches=self._batches,
            entries=self._entries,
            batch_entries_max=self._batch_entries_max,
            failures=self._failures,
        )
