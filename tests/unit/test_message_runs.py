"""Plain appends are staged in runs or each by itself: nobody can tell which way was taken."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import Raw, Struct

from sessiond.dialects.native.dialect import NATIVE
from sessiond.dialects.pi.dialect import PI
from sessiond.errors import SessiondError, StorageError
from sessiond.journal.memory import MemoryJournal
from sessiond.model.entries import Header, Message
from sessiond.rpc.progress import NO_PROGRESS
from sessiond.service.actor import batch as batches
from sessiond.service.actor.batch import Batch, stage
from sessiond.service.actor.inbox import Command
from sessiond.service.actor.leases import Leases
from sessiond.service.actor.plain_append import PlainAppend
from sessiond.service.actor.settling import settle
from sessiond.service.log.line_indexer import LineIndexer
from sessiond.service.log.open_session import OpenSession
from sessiond.session.append import append
from sessiond.session.append_request import AppendRequest
from sessiond.session.index import Session
from sessiond.session.receipts import Receipt
from sessiond.testing.daemon import standing_environment
from tests.kit.lines import state_of

SESSION = "session-a"
NO_BUG = Mock(side_effect=AssertionError("there was no bug"))
THEIRS = (
    b'{"type":"message","id":"f1","parent_id":null,"message":{"role":"user","content":"theirs"}}'
)

PLAIN = [
    b'{"role":"user","content":"hi"}',
    b'{"role":"assistant","content":[],"model":"m1","provider":"p"}',
    b'{"role":"assistant","content":"","model":""}',
    b'{"role":"assistant","content":"","usage":{"input":2,"output":1,"totalTokens":3}}',
    b'{"role":"tool","content":"x"}',
]
MESSAGES = st.sampled_from(
    [
        *PLAIN,
        b'{"role":"toolResult","role":"user"}',
        b'{"role":"us\\u0065r","content":"escaped"}',
        b'{ "role" : "user",\n "content":"on two lines"}',
        b'{"content":"x","role":"system"}',
        '{"role":"user","content":"zażółć"}'.encode(),
        b'{"role":"user"',
        b'{"role":""}',
        b'{"content":"without a role"}',
        b"[]",
        b'"user"',
    ]
)
HEADS = st.sampled_from(["main", "main", "main", "side", "missing"])
COMMANDS = st.one_of(
    st.tuples(st.just("plain"), MESSAGES, HEADS, st.booleans()),
    st.tuples(st.just("keyed"), MESSAGES, HEADS, st.booleans()),
    st.tuples(st.just("question"), MESSAGES, HEADS, st.booleans()),
)
RUNS = st.lists(
    st.tuples(st.just("plain"), st.sampled_from(PLAIN), st.just("main"), st.just(True)), min_size=2
)
Asked = tuple[str, bytes, str, bool]


class Connection:
    """A client, and its connection, which keeps what it is told."""

    def __init__(self) -> None:
        self.client_id = "c"
        self.listener = self
        self.told: list[tuple[int, bytes]] = []

    def answer_all(self, tickets: Sequence[Ticket], results: Sequence[bytes]) -> None:
        for ticket, result in zip(tickets, results, strict=True):
            ticket.answer(result)

    def flush(self) -> None:
        """Do nothing: these tests have no connection."""


class Ticket:
    """One request."""

    progress = NO_PROGRESS

    def __init__(self, client: Connection, number: int) -> None:
        self.client = client
        self.origin_id = Raw(b"%d" % number)
        self.result_meta: bytes | None = None
        self._number = number

    def answer(self, result: Any) -> None:
        text = result if isinstance(result, bytes) else msgspec.json.encode(result)
        self.client.told.append((self._number, text))

    def fail(self, error: SessiondError) -> None:
        refusal = [error.kind, str(error), error.data()]
        self.client.told.append((self._number, msgspec.json.encode(refusal)))

    def flush(self) -> None:
        """Do nothing: these tests have no connection."""

    def defer(self, on_cancel: Callable[[], None]) -> None:
        """Do nothing: no command of these tests is cancelled."""


class Outcome(Struct):
    """All that anybody can see of a batch."""

    lines: list[bytes]
    events: list[Any]
    told: list[tuple[int, bytes]]
    sync: bool
    has_assistant: bool
    index: dict[str, Any]


def opened(*, pi: bool = False) -> OpenSession:
    """A session with two heads and three entries."""
    dialect = PI if pi else NATIVE
    session = Session(dialect.rules)
    journal = MemoryJournal(b"header")
    intake = LineIndexer(session, dialect, {SESSION})
    made = OpenSession(SESSION, session, journal, dialect, Header(), intake, "e", "never", None, "")
    environment = standing_environment()
    asked = [("keyed", b'{"role":"user"}', "main", True)] * 3
    commands = [command(one, Connection(), n) for n, one in enumerate(asked)]
    if not pi:
        commands[1].stage = lambda draft: append(
            draft,
            AppendRequest(
                SESSION, [Message(message=Raw(b'{"role":"user"}'))], head="side", parent_id=None
            ),
        )
    batch = stage(
        commands,
        made,
        environment,
        {},
        Leases(environment, itertools.count(1).__next__, made.session.rules),
    )
    journal.append(batch.lines, sync=False)
    batch.draft.commit()
    return made


def command(asked: Asked, client: Connection, number: int) -> Command:
    """A command as the methods make them."""
    kind, message, head, sync = asked
    ticket = Ticket(client, number)
    if kind == "question":
        return Command(ticket, lambda _receipt, _durability: number, entries=0)
    if kind == "plain":
        return PlainAppend(
            ticket, told, sync=sync, session_id=SESSION, message=Raw(message), head=head
        )
    request = AppendRequest(
        SESSION, [Message(message=Raw(message))], head=head, idempotency_key=f"key-{number}"
    )
    return Command(ticket, told, lambda draft: append(draft, request), sync=sync)


def told(receipt: Receipt, durability: Any) -> Receipt:
    receipt.durability = durability
    return receipt


class Case(Struct, frozen=True):
    """Circumstances of a batch."""

    asked: list[Asked]
    again: bool = False
    """The batch is given up and staged once more."""
    followed: bool = False
    """Another program's line is stored right before the batch."""
    leased: bool = False
    pi: bool = False
    fails: bool = False
    """The disk refuses the batch."""


def outcome(case: Case, monkeypatch: pytest.MonkeyPatch, *, runs: bool) -> Outcome:
    """Stage, store and settle commands on a fresh session; give what came of it."""
    monkeypatch.setattr(batches, "RUNS", runs)
    made, client = opened(pi=case.pi), Connection()
    # Now and then an id that is there already.
    ids = (f"e{number - number % 5 // 4}" for number in itertools.count(1))
    environment = msgspec.structs.replace(standing_environment(), new_entry_id=lambda: next(ids))
    held = Leases(environment, itertools.count(1).__next__, made.session.rules)
    if case.leased:
        held.held["side"] = object()  # type: ignore[assignment]
        monkeypatch.setattr(held, "require", lambda _head, _lease_id: None)
    stored = dict(enumerate(made.journal.read(0, made.session.seq)))
    commands = [command(one, client, number) for number, one in enumerate(case.asked)]
    batch: Batch = stage(commands, made, environment, stored, held)
    if case.again:
        batch.give_up()
        batch = stage(commands, made, environment, stored, held)
    if case.fails:
        before = str(state_of(made.session, "rules"))
        settle(batch, StorageError("the disk is full"), "memory", NO_BUG)
        assert str(state_of(made.session, "rules")) == before
    else:
        if case.followed:
            made.session.fold(made.dialect.row(THEIRS))
            batch.follow()
        batch.draft.commit()
        settle(batch, None, "memory", NO_BUG)
    assert all(one.settled for one in commands)
    events = [] if case.fails else [msgspec.structs.astuple(one) for one in batch.events()]
    return Outcome(
        batch.lines,
        events,
        client.told,
        batch.sync,
        batch.has_assistant,
        state_of(made.session, "rules"),
    )


CASES = st.builds(
    Case,
    asked=st.lists(COMMANDS, min_size=1, max_size=12) | RUNS,
    again=st.booleans(),
    followed=st.booleans(),
    leased=st.booleans(),
    pi=st.booleans(),
    fails=st.booleans(),
)


@given(CASES)
@example(Case([("plain", b'{"role":"user"}', "side", True)] * 6, again=True, followed=True))
@example(Case([("plain", message, "main", True) for message in PLAIN * 2]))
@example(Case([("plain", PLAIN[3], "main", True)] * 3))
def test_a_run_stores_and_tells_what_single_appends_do(case: Case) -> None:
    with pytest.MonkeyPatch.context() as patch:
        in_runs = outcome(case, patch, runs=True)
        one_by_one = outcome(case, patch, runs=False)
    assert in_runs == one_by_one


def test_a_run_is_staged_without_a_look_at_each_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the test above compares one way with itself."""
    monkeypatch.setattr(PlainAppend, "receipt_on", None)
    asked: list[Asked] = [("plain", b'{"role":"user"}', "main", True)] * 5
    assert len(outcome(Case(asked), monkeypatch, runs=True).lines) == 5
    with pytest.raises(TypeError):
        outcome(Case(asked), monkeypatch, runs=False)


def test_lines_of_a_run_are_what_the_encoder_makes() -> None:
    made = opened()
    asked = [("plain", b'{"role":"user","content":"%d"}' % n, "side", True) for n in range(3)]
    commands = [command(one, Connection(), n) for n, one in enumerate(asked)]
    environment = standing_environment()
    batch = stage(
        commands,
        made,
        environment,
        {},
        Leases(environment, itertools.count(1).__next__, made.session.rules),
    )
    for line, row in zip(batch.lines, batch.draft.rows, strict=True):
        assert NATIVE.row(line) == row
        assert NATIVE.encode(msgspec.json.decode(line, type=Message)) == line
