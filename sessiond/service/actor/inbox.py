"""Commands on their way to a session's writer, in the order in which they came.

A mutation has a `stage`, a question has none; both hold a place in line. The
inbox is bounded: what does not fit is refused at once and nothing was written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Protocol

from msgspec import Struct

from sessiond.errors import Cancelled, Internal, Overloaded, SessiondError, exhausted
from sessiond.limits import (
    BATCH_BYTES_MAX,
    BATCH_ENTRIES_MAX,
    INBOX_BYTES_MAX,
    INBOX_COMMANDS_MAX,
    RETRY_AFTER_MS,
)
from sessiond.model.deferred import DEFERRED
from sessiond.service.ports import Progress, Ticket
from sessiond.service.progress import ProgressTeller
from sessiond.session.draft import Draft
from sessiond.session.index import Session
from sessiond.session.later import later, refused_later


class Act(Protocol):
    """An operation on a session's whole file, for a worker thread."""

    def __call__(self, lines: Sequence[bytes], *, late: bool) -> None:
        """Store the lines with it; `late` as in `SessionLog.append`. Raises SessiondError, Overtaken."""
        ...


class Command(Struct, eq=False):
    """One request that holds a place in line, and later what became of it.

    `stage` changes a draft and returns a receipt; `finish` turns the receipt
    (None for a question) and the durability reached into the result. Both run
    synchronously on the loop. `act` does something to the file as a whole, in a worker
    thread, with no other command in its batch; it is given the lines that were staged, to store them
    with it, and whether lines of foreign writers may come first, as `SessionLog.append` is. `ids` are entry ids that may be stored already.
    """

    ticket: Ticket
    finish: Callable[[Any, str], Any]
    stage: Callable[[Draft], Any] | None = None
    act: Act | None = None
    ids: tuple[str, ...] = ()
    reads: Callable[[Session], Iterable[int]] | None = None
    """Lines that `stage` looks at, if they are stored already."""
    entries: int = 1
    size: int = 0
    sync: bool = True
    receipt: Any = None
    refusal: SessiondError | None = None
    rests_on_batch: bool = False
    """Entries were staged before or by it: it stands only if they become durable."""
    settled: bool = False
    inbox: Inbox | None = None
    """The inbox of the command, also after the command has left it."""
    number: int = 0
    """The place in the line of all commands that ever came."""
    on_end: Callable[[], None] | None = None
    """Called once, before the command is settled."""
    offset: int = -1
    """Index of the command's row in the draft, if the command was staged in a run."""

    is_plain: ClassVar[bool] = False
    """True if the command may be staged in a run."""

    @property
    def asks(self) -> bool:
        """Return whether the command changes nothing."""
        return self.stage is None and not self.is_plain

    def receipt_on(self, draft: Draft) -> Any:
        """Stage the mutation and return its receipt."""
        assert self.stage is not None, "a question changes nothing"
        return self.stage(draft)

    def stage_on(self, draft: Draft) -> None:
        """Stage a mutation, or remember why it was refused."""
        self.refusal = None
        self.offset = -1
        try:
            self.receipt = self.receipt_on(draft)
        except SessiondError as error:
            # With its traceback the refusal would hold the command, and the command the refusal.
            self.refusal = error.with_traceback(None)
        self.rests_on_batch = bool(draft.rows)

    def come_later(self, after: int, by: int) -> None:
        """Shift the receipt: foreign lines, `by` of them, landed behind line `after`."""
        self.receipt = later(self.receipt, after, by)
        if self.refusal is not None:
            self.refusal = refused_later(self.refusal, after, by)

    def settle(
        self,
        error: SessiondError | None,
        durability: str,
        report_bug: Callable[[str, BaseException], str],
    ) -> None:
        """Answer; `error` is what storing the batch came to."""
        self.end_waiting()
        if error is not None and (self.rests_on_batch or self.act is not None):
            self.fail(error)
            return
        if self.refusal is not None:
            self.fail(self.refusal)
            return
        try:
            result = self.finish(self.receipt, durability)
        except SessiondError as refusal:
            self.fail(refusal)
        except Exception as bug:  # noqa: BLE001 - a bug in one answer is not the session's
            self.fail(
                exhausted(bug, RETRY_AFTER_MS)
                or Internal("a bug in sessiond", incident_id=report_bug("answer", bug))
            )
        else:
            self.settled = True
            if result is not DEFERRED:
                self.ticket.answer(result)

    def fail(self, error: SessiondError) -> None:
        """Answer with an error."""
        self.end_waiting()
        self.settled = True
        self.ticket.fail(error)

    def tell(self, progress: Progress) -> None:
        """Tell the client of progress under its token, until the answer."""
        teller = ProgressTeller(self.ticket, progress)
        teller.start()
        self.on_end = teller.end

    def end_waiting(self) -> None:
        """End what runs while the command waits, as the telling of progress: the answer comes next."""
        if self.on_end is not None:
            self.on_end()
            self.on_end = None

    def give_up(self) -> None:
        """Cancel a command that still waits; what the writer has taken completes and answers."""
        if self.inbox is not None and self.inbox.drop(self):
            self.fail(Cancelled("cancelled before it took effect"))


class Inbox:
    """A bounded queue of commands for one writer, who settles them in the order of their numbers."""

    def __init__(self) -> None:
        self.line: deque[Command] = deque()
        """The commands that wait for the writer; only the inbox changes this queue."""
        self._bytes = 0
        self._count = 0
        self._taken = self._settled = 0
        """The numbers of the last command that the writer has taken, and has settled."""
        self._last: dict[Any, int] = {}
        """The number of the last command of each client that has some."""

    def __len__(self) -> int:
        return len(self.line)

    @property
    def count(self) -> int:
        """Number of commands that ever came."""
        return self._count

    def holds(self, client: Any) -> bool:
        """Return whether the client has commands that are not settled yet."""
        return self._last.get(client, 0) > self._settled

    def put(self, command: Command) -> bool:
        """Give a command its place in line; return whether it is the first. Raises Overloaded."""
        line, ticket = self.line, command.ticket
        # One command of each client finds a place however many the others sent.
        if len(line) >= INBOX_COMMANDS_MAX and self.holds(ticket.client):
            raise _overloaded("too many commands wait for this session", INBOX_COMMANDS_MAX)
        if self._bytes + command.size > INBOX_BYTES_MAX and self.holds(ticket.client):
            raise _overloaded("too many bytes wait for this session", INBOX_BYTES_MAX)
        self._count += 1
        self._bytes += command.size
        command.number = self._last[ticket.client] = self._count
        command.inbox = self
        line.append(command)
        ticket.defer(command.give_up)
        return len(line) == 1

    def take(self, *, changes_only: bool = False) -> list[Command]:
        """Take the next batch: as much of the line as one write may carry.

        A question is answered once its batch is stored, so what the same client sent
        behind it waits for the next one: it is not for that answer to show. Questions that
        come first are a batch of their own, which waits for no disk.
        With `changes_only` the batch ends before the first question.
        """
        batch: list[Command] = []
        asked: set[Any] = set()
        changes = False
        line = self.line
        entries = size = 0
        while line:
            command = line[0]
            entries += command.entries
            size += command.size
            if batch and (entries > BATCH_ENTRIES_MAX or size > BATCH_BYTES_MAX):
                break
            if command.act is not None and batch:
                break
            # `asks`, word by word: this runs for every command.
            if command.stage is None and not command.is_plain:
                if changes_only:
                    break
                asked.add(command.ticket.client)
            elif asked and not (changes and command.ticket.client not in asked):
                break
            else:
                changes = True
            batch.append(line.popleft())
            self._bytes -= command.size
            if command.act is not None:
                break
        if batch:
            self._taken = batch[-1].number
        return batch

    @property
    def commands(self) -> tuple[Command, ...]:
        """The commands that wait for the writer, in order."""
        return tuple(self.line)

    def drop(self, command: Command) -> bool:
        """Take a command out of the line; return False if it does not wait there."""
        if command not in self.line:
            return False
        self.line.remove(command)
        self._bytes -= command.size
        client = command.ticket.client
        if self._last.get(client) == command.number:
            left = (one.number for one in self.line if one.ticket.client is client)
            # What the writer has taken may be the client's, too.
            self._last[client] = max(left, default=self._taken)
        return True

    def settled(self, batch: Sequence[Command]) -> None:
        """Note that a batch, and so everything before it, got its answers."""
        last = self._last
        self._settled = batch[-1].number
        if self._settled == self._count:
            last.clear()
            return
        for client in {command.ticket.client for command in batch}:
            if last.get(client, 0) <= self._settled:
                last.pop(client, None)


def _overloaded(what: str, limit: int) -> Overloaded:
    return Overloaded(what, limit=limit, retry_after_ms=RETRY_AFTER_MS)
