"""Batches that are stored without the task of their session.

The usual batch needs nothing but the disk: it is staged where a chunk of requests ends, handed to
a thread, and committed, published and answered where the thread's wake-up arrives. So a
durable append costs no switch of tasks.

Where daemons append to the session in turn, the flight waits for its turn first, in a thread, and takes
the changes that wait in the inbox once the turn has come.

Law: a flight begins only while the task of the session rests, and the task does nothing before the
flight has landed; a turn has ended by then. What needs more steps (many foreign lines, stored entries to
compare with, a change of the file as a whole, a failure of ours) is left to the task.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import anyio
from anyio import CancelScope

from sessiond.errors import SessiondError, StorageError, exhausted
from sessiond.journal.store import Overtaken, Replaced
from sessiond.limits import RETRY_AFTER_MS
from sessiond.service.actor.batch import Batch
from sessiond.service.actor.inbox import Command, Inbox
from sessiond.service.actor.writer import SessionWriter
from sessiond.service.thread_pool import Outcome


class Flights:
    """The flights of one session, one at a time.

    `stored` is called behind each batch that the writer settled, and says whether the next one may
    follow. `wake` wakes the task of the session.
    """

    def __init__(
        self,
        inbox: Inbox,
        stored: Callable[[bool], bool],
        wake: Callable[[], None],
    ) -> None:
        self.taken: list[Command] = []
        """Commands that were taken out of the inbox and are not settled."""
        self.overtaken = False
        """True if the last flight found foreign lines that come first."""
        self.failure: Exception | None = None
        """The bug or error that ended the last flight; the task deals with it."""
        self.under_way = False
        self._inbox = inbox
        self._stored = stored
        self._wake = wake
        self._wakes_later = False
        self._landing: anyio.Event | None = None

    def wake(self) -> None:
        """Wake the task, but not before the flight has landed."""
        if self.under_way:
            self._wakes_later = True
        else:
            self._wake()

    def begin(self, writer: SessionWriter, *, in_turn: bool = False) -> None:
        """Store what waits, as far as that needs nothing but the disk; else wake the task.

        With `in_turn` the flight has waited for its turn.
        """
        if self.under_way or self.taken or self.failure is not None:
            # The landing goes on with what waits, or has woken the task.
            return
        line = self._inbox.line
        if writer.is_shared and not in_turn and line and not line[0].act and writer.is_contended:
            self._wait_in_turn(writer)
            return
        while line:
            if line[0].act is not None:
                self._wake()
                return
            # A question that came during the wait needs a look: the turn may have failed, or have ended since.
            self.taken = self._inbox.take(changes_only=in_turn)
            if not self.taken:
                self._wake()
                return
            try:
                batch = writer.staged(self.taken)
                if batch is None:
                    self._wake()
                    return
                if batch.needs_disk:
                    self._take_off(writer, batch)
                    return
                if not self._settle(writer, batch, None):
                    self._wake()
                    return
            except Exception as bug:  # noqa: BLE001 - the task of the session deals with it
                self.failure = bug
                self._wake()
                return

    def _wait_in_turn(self, writer: SessionWriter) -> None:
        try:
            writer.threads.looks.start(writer.wait_in_turn, partial(self._come_in_turn, writer))
        except RuntimeError:
            # There was no thread to wait in: the task says what becomes of that.
            self._wake()
        else:
            self.under_way = writer.writing = True

    def _come_in_turn(self, writer: SessionWriter, outcome: Outcome) -> None:
        """Store what waits by now, behind what other daemons have stored."""
        self.under_way = writer.writing = False
        try:
            if writer.comes_in_turn(outcome.failure):
                self.begin(writer, in_turn=True)
        except Exception as bug:  # noqa: BLE001 - the task of the session deals with it
            self.failure = bug
        if not self.under_way:
            # Nothing is stored in this turn, so the task does what comes next.
            self._wakes_later = True
            self._touch_down(writer)

    def _touch_down(self, writer: SessionWriter) -> None:
        """Let the task go on, if there is something to do for the task; else begin with what waits."""
        if writer.is_shared and writer.has_turn:
            # The thread that has waited is free, so there is one that ends the turn.
            writer.threads.looks.start(writer.end_turn, partial(self._end_turn, writer))
            self.under_way = writer.writing = True
            return
        wakes, self._wakes_later = self._wakes_later, False
        if self._landing is not None:
            self._landing.set()
        elif wakes:
            self._wake()
        elif self._inbox.line:
            self.begin(writer)

    def _end_turn(self, writer: SessionWriter, _outcome: Outcome) -> None:
        self.under_way = writer.writing = False
        self._touch_down(writer)

    def _take_off(self, writer: SessionWriter, batch: Batch) -> None:
        # A batch that has its turn does not wait behind those that wait for theirs.
        has_turn = writer.is_shared and writer.has_turn
        threads = writer.threads.batches if has_turn else writer.threads.disk
        try:
            threads.start(
                partial(writer.store, batch),
                partial(self._land, writer, batch),
                partial(writer.send, batch) if writer.is_shared else None,
                writer.waits_at,
            )
        except RuntimeError as error:
            # Nothing was written if there was no thread to write in.
            short = exhausted(error, RETRY_AFTER_MS)
            if short is None:
                raise
            self._settle(writer, batch, short)
            self._wake()
        else:
            self.under_way = writer.writing = True

    def _land(self, writer: SessionWriter, batch: Batch, outcome: Outcome) -> None:
        """Settle the batch that came back from the disk, and store what waits by now."""
        self.under_way = writer.writing = False
        goes_on = False
        try:
            if outcome.failure is None:
                goes_on = self._settle(writer, batch, outcome.result)
            else:
                goes_on = self._recover(writer, batch, outcome.failure)
        except Exception as bug:  # noqa: BLE001 - the task of the session deals with it
            self.failure = bug
        self._wakes_later = self._wakes_later or not goes_on
        self._touch_down(writer)

    def _recover(self, writer: SessionWriter, batch: Batch, failure: Exception) -> bool:
        """Settle a batch that was not stored, or leave it to the task; return what `_settle` does."""
        if isinstance(failure, Overtaken):
            batch.give_up()
            self.overtaken = True
            return False
        if isinstance(failure, StorageError):
            writer.refuse(self.taken, failure)
            self.taken = []
            return False
        if isinstance(failure, Replaced):
            batch.give_up()
        short = exhausted(failure, RETRY_AFTER_MS) if isinstance(failure, RuntimeError) else None
        if short is None:
            raise failure
        return self._settle(writer, batch, short)

    def _settle(self, writer: SessionWriter, batch: Batch, error: SessiondError | None) -> bool:
        changed = writer.conclude(batch, error)
        self.taken = []
        return self._stored(changed)

    async def landed(self) -> None:
        """Wait until the flight has landed; not even a cancelled task goes on before."""
        while self.under_way:
            self._landing = anyio.Event()
            with CancelScope(shield=True):
                await self._landing.wait()
            self._landing = None
