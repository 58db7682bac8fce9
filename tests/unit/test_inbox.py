"""The inbox of a writer: its order, its bounds, and the ends of a place in it."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest
from msgspec import Raw

from sessiond.dialects.native.dialect import NATIVE
from sessiond.errors import EntryInvalid, Overloaded, SessiondError, StorageError
from sessiond.limits import (
    BATCH_BYTES_MAX,
    BATCH_ENTRIES_MAX,
    INBOX_BYTES_MAX,
    INBOX_COMMANDS_MAX,
)
from sessiond.model.deferred import DEFERRED
from sessiond.model.entries import Custom
from sessiond.rpc.progress import NO_PROGRESS
from sessiond.service.actor.inbox import Command, Inbox
from sessiond.session.draft import Draft
from sessiond.session.index import Session

NO_BUG = Mock(side_effect=AssertionError("there was no bug"))
REFUSE = Mock(side_effect=EntryInvalid("no", path=""))


class FakeTicket:
    """A waiting call."""

    def __init__(self, client: str = "c") -> None:
        self.client = client
        self.origin_id = Raw(b'"1"')
        self.result_meta: bytes | None = None
        self.progress = NO_PROGRESS
        self.said: list[Any] = []
        self.cancel: Callable[[], None] = lambda: None

    def answer(self, result: Any) -> None:
        self.said.append(result)

    def fail(self, error: SessiondError) -> None:
        self.said.append(error.kind)

    def flush(self) -> None:
        """Do nothing: this ticket sends no answer."""

    def defer(self, on_cancel: Callable[[], None]) -> None:
        self.cancel = on_cancel


def command(client: str = "c", **more: Any) -> Command:
    return Command(FakeTicket(client), lambda receipt, durability: (receipt, durability), **more)


def said(one: Command) -> list[Any]:
    ticket = one.ticket
    assert isinstance(ticket, FakeTicket)
    return ticket.said


def test_commands_leave_in_the_order_in_which_they_came() -> None:
    inbox = Inbox()
    commands = [command() for _ in range(5)]
    for one in commands:
        inbox.put(one)
    assert inbox.take() == commands
    assert inbox.take() == []


@pytest.mark.parametrize(
    ("sizes", "first"),
    [
        ([{"entries": BATCH_ENTRIES_MAX - 1}, {"entries": 1}, {"entries": 1}], 2),
        ([{"entries": BATCH_ENTRIES_MAX}, {"entries": 0}, {"entries": 1}], 2),
        ([{"size": BATCH_BYTES_MAX - 1}, {"size": 1}, {"size": 1}], 2),
        # A command that is too large for a batch is a batch by itself.
        ([{"size": 2 * BATCH_BYTES_MAX}, {"size": 0, "entries": 0}], 1),
    ],
)
def test_a_batch_is_as_much_of_the_line_as_one_write_may_carry(
    sizes: list[dict[str, int]], first: int
) -> None:
    inbox = Inbox()
    for size in sizes:
        inbox.put(command("c", **size))
    assert len(inbox.take()) == first
    assert len(inbox) == len(sizes) - first


def test_questions_that_come_first_wait_for_no_change_behind_them() -> None:
    inbox = Inbox()
    questions = [command("a"), command("b")]
    changes = [command("c"), command("d")]
    for change in changes:
        change.stage = lambda _draft: None
    behind = command("b")
    for one in (*questions, *changes, behind):
        inbox.put(one)
    assert inbox.take() == questions
    assert inbox.take() == [*changes, behind]


def test_the_line_is_bounded_and_what_does_not_fit_leaves_no_trace() -> None:
    inbox = Inbox()
    for _ in range(INBOX_COMMANDS_MAX):
        inbox.put(command("many"))
    # Another client still has a place, for one command.
    inbox.put(command("late"))
    for client in ("many", "late"):
        with pytest.raises(Overloaded) as refused:
            inbox.put(command(client))
        assert refused.value.data()["retry_after_ms"] == 250
    assert len(inbox) == INBOX_COMMANDS_MAX + 1
    inbox.take()
    inbox.put(command("late"))


def test_the_bytes_of_the_line_are_bounded_but_for_the_first_command_of_a_client() -> None:
    inbox = Inbox()
    huge = command("huge", size=2 * INBOX_BYTES_MAX)
    inbox.put(huge)
    with pytest.raises(Overloaded) as refused:
        inbox.put(command("huge", size=1))
    assert refused.value.data()["limit"] == INBOX_BYTES_MAX
    assert inbox.take() == [huge]
    waits, taken = [command("half", size=INBOX_BYTES_MAX // 2) for _ in range(2)]
    for one in (taken, waits):
        inbox.put(one)
    with pytest.raises(Overloaded):
        inbox.put(command("half", size=1))
    assert inbox.drop(waits)
    inbox.put(command("half", size=INBOX_BYTES_MAX // 2))
    inbox.take()
    inbox.take()
    inbox.put(command("again", size=INBOX_BYTES_MAX))


def test_a_client_is_held_until_each_of_its_commands_is_settled() -> None:
    inbox = Inbox()
    one, two = command("a"), command("a")
    inbox.put(one)
    inbox.put(two)
    assert (inbox.holds("a"), inbox.holds("b")) == (True, False)
    inbox.take()
    inbox.settled([one])
    assert inbox.holds("a")
    inbox.settled([two])
    assert not inbox.holds("a")


def test_a_command_is_cancelled_while_it_waits_and_not_once_it_was_taken() -> None:
    inbox = Inbox()
    waits, taken = command(), command()
    for one in (taken, waits):
        inbox.put(one)
    assert isinstance(waits.ticket, FakeTicket)
    assert isinstance(taken.ticket, FakeTicket)
    waits.ticket.cancel()
    assert (said(waits), waits.settled) == (["cancelled"], True)
    assert inbox.take() == [taken]
    taken.ticket.cancel()
    assert said(taken) == []
    inbox.settled([taken])
    assert not inbox.holds("c")


def test_dropping_takes_a_command_out_of_the_line_once() -> None:
    inbox = Inbox()
    one, two = command(), command()
    inbox.put(one)
    inbox.put(two)
    assert list(inbox.commands) == [one, two]
    assert inbox.drop(one)
    assert not inbox.drop(one)
    assert list(inbox.commands) == [two]


# -- what became of a command -----------------------------------------------------------------


def stage_entry(target: Draft) -> str:
    target.stage(Custom(custom_type="x"), head="main")
    return "receipt"


def test_a_stored_command_is_answered_with_its_receipt_and_durability() -> None:
    one = command(stage=stage_entry)
    one.stage_on(
        Draft(
            Session(NATIVE.rules),
            NATIVE,
            new_id=lambda: "n1",
            now="2026-01-15T10:30:00.000Z",
            stored={},
        )
    )
    one.settle(None, "disk", NO_BUG)
    assert said(one) == [("receipt", "disk")]


@pytest.fixture
def target() -> Draft:
    """Return a draft on an empty session."""
    return Draft(
        Session(NATIVE.rules),
        NATIVE,
        new_id=lambda: "n1",
        now="2026-01-15T10:30:00.000Z",
        stored={},
    )


def test_what_rests_on_the_batch_falls_with_it_and_what_does_not_stands(target: Draft) -> None:
    early, stored, late, question = (
        command(stage=REFUSE),
        command(stage=stage_entry),
        command(stage=REFUSE),
        command(),
    )
    for one in (early, stored, late):
        one.stage_on(target)
    for one in (early, stored, late, question):
        one.settle(StorageError("disk", errno="EIO"), "disk", NO_BUG)
    assert [said(one) for one in (early, stored, late)] == [
        ["entry_invalid"],
        ["storage_error"],
        ["storage_error"],
    ]
    assert said(question) == [(None, "disk")]


def test_a_refusal_stands_when_the_batch_was_stored(target: Draft) -> None:
    stored, late = command(stage=stage_entry), command(stage=REFUSE)
    for one in (stored, late):
        one.stage_on(target)
        one.settle(None, "disk", NO_BUG)
    assert said(late) == ["entry_invalid"]


def test_a_refused_command_needs_no_collector_of_cycles(target: Draft) -> None:
    refused = command(stage=REFUSE)
    # The ticket stands for the bytes of the request, which the command has, too.
    ticket = weakref.ref(refused.ticket)
    gc.disable()
    try:
        refused.stage_on(target)
        del refused
        assert ticket() is None
    finally:
        gc.enable()


def test_a_question_may_answer_later_or_be_refused_or_have_a_bug() -> None:
    bugs: list[BaseException] = []

    def note(_work: str, error: BaseException) -> str:
        bugs.append(error)
        return "incident-1"

    def fail(error: Exception) -> Callable[[Any, str], Any]:
        def finish(_receipt: Any, _durability: str) -> Any:
            raise error

        return finish

    later = Command(FakeTicket(), lambda _receipt, _durability: DEFERRED)
    refused = Command(FakeTicket(), fail(EntryInvalid("no", path="")))
    broken = Command(FakeTicket(), fail(KeyError("x")))
    for one in (later, refused, broken):
        one.settle(None, "disk", note)
        assert one.settled
    assert [said(one) for one in (later, refused, broken)] == [[], ["entry_invalid"], ["internal"]]
    assert len(bugs) == 1


@pytest.mark.parametrize(
    ("error", "kind", "bugs"), [(MemoryError(), "overloaded", 0), (KeyError("x"), "internal", 1)]
)
def test_an_answer_that_the_memory_does_not_suffice_for_is_no_bug(
    error: Exception, kind: str, bugs: int
) -> None:
    def finish(_receipt: Any, _durability: str) -> Any:
        raise error

    reported: list[BaseException] = []

    def report(_work: str, bug: BaseException) -> str:
        reported.append(bug)
        return "incident-1"

    one = Command(FakeTicket(), finish)
    one.settle(None, "disk", report)
    assert said(one) == [kind]
    assert len(reported) == bugs
