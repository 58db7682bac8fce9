"""The client's core as plain function calls: retries, yielded events, and their times.

Time is a number that the test moves.
"""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from sessiond_client import (
    BlockingCatalogSubscription,
    BlockingClient,
    BlockingOffer,
    BlockingSubscription,
    CatalogSubscription,
    Changed,
    Client,
    ClientClosed,
    ConnectionLost,
    Cursor,
    EntryEvent,
    Flushed,
    Lagged,
    LeaseLost,
    Notice,
    Offer,
    Presence,
    Present,
    ProtocolViolation,
    Replaced,
    RpcError,
    Signal,
    Subscription,
    Synced,
    Timeout,
    limits,
    wire,
)
from sessiond_client.calls import Call
from sessiond_client.catalog import CatalogChanged, CatalogFeed
from sessiond_client.conversation import Setup, backoff
from sessiond_client.driver import CallDriver
from sessiond_client.exchange import Exchange
from sessiond_client.feed import Feed
from sessiond_client.lease_state import LeaseState
from sessiond_client.outgoing import Outgoing
from sessiond_client.port import Port
from sessiond_client.requests import Resend, prepare
from sessiond_client.results import READ_ANY
from sessiond_client.starting import Reach
from sessiond_client.steps import Outside, Wait
from sessiond_client.tree_results import Lease
from tests.kit.limits import set_limits
from tests.unit.far_end import Daemon

SETUP = Setup(hello=None, random=lambda: 1.0)
OVERLOADED = {"code": -32001, "kind": "overloaded", "retryable": True}
DRAINING = {"code": -32023, "kind": "draining", "retryable": True, "retry_after_ms": 700}
STORAGE = {"code": -32060, "kind": "storage_error", "retryable": True, "errno": 28}
PRECONDITION = {"code": -32031, "kind": "precondition_failed", "retryable": False}


def new_call(method: str, params: dict[str, Any] | None = None, *, deadline: float = 30.0) -> Call:
    ids = iter(f"id{number}" for number in range(100))
    return Call(prepare(method, params or {}, new_id=lambda: next(ids)), deadline)


def exchange_with(*calls: Call) -> tuple[Exchange, Daemon]:
    exchange = Exchange(SETUP)
    for call in calls:
        exchange.submit(call)
    return exchange, Daemon(exchange)


def feed_with(**options: Any) -> tuple[Feed, Daemon]:
    feed = Feed(SETUP, "s", options, deadline=30.0)
    return feed, Daemon(feed)


def taken(feed: Feed) -> list[Any]:
    """Return what the consumer gets: the seqs of entry events, and all other events unchanged."""
    events: list[Any] = []
    while (event := feed.take()) is not None:
        events.append(event.seq if isinstance(event, EntryEvent) else event)
    return events


# --- lines and frames


@given(st.lists(st.binary(max_size=40).filter(lambda b: b"\n" not in b and b.strip())), st.data())
def test_lines_are_the_same_however_the_bytes_are_cut(lines: list[bytes], data: Any) -> None:
    stream = b"".join(line + b"\n" for line in lines) + b"half"
    buffer = wire.LineBuffer()
    found: list[bytes] = []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        found.extend(buffer.feed(stream[:size]))
        stream = stream[size:]
    assert found == lines


def test_a_line_separator_inside_a_string_ends_no_line() -> None:
    line = '{"id":1,"result":"a\u2028b\x85c"}'.encode()
    assert list(wire.LineBuffer().feed(line + b"\r\n\n")) == [line + b"\r"]


def test_a_line_without_end_is_refused_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    set_limits(monkeypatch, LINE_BYTES_MAX=10)
    buffer = wire.LineBuffer()
    assert list(buffer.feed(b"1234567890")) == []
    with pytest.raises(ProtocolViolation):
        list(buffer.feed(b"1"))


def test_an_answer_too_deep_to_read_is_its_askers_alone() -> None:
    deep = b"[" * 200_000 + b"]" * 200_000
    incoming = wire.decode(b'{"jsonrpc":"2.0","id":7,"result":%s}' % deep)
    assert (incoming.id, incoming.result) == (7, Raw(deep))
    with pytest.raises(RecursionError):
        wire.reader(list)(Raw(deep))
    with pytest.raises(ProtocolViolation):
        wire.decode(b'{"jsonrpc":"2.0","method":"x","params":{"a":%s}}' % deep)


def test_half_a_surrogate_pair_in_an_answer_reads_as_the_replacement_character() -> None:
    """Programs that cut texts write such escapes; one must not end the connection."""
    incoming = wire.decode(
        rb'{"id":1,"result":{"a":"cut \ud83d","b":"\ud83d\ude00","c":"\\ud83d"}}'
    )
    assert isinstance(incoming.result, Raw)
    found = READ_ANY(incoming.result)
    assert found == {"a": "cut \ufffd", "b": "\U0001f600", "c": "\\ud83d"}
    with pytest.raises(ProtocolViolation):
        wire.decode(rb'{"id":1,"result":"cut \ud83d"')


def test_what_a_result_holds_is_utf8_or_no_message() -> None:
    with pytest.raises(ProtocolViolation):
        wire.decode(b'{"id":1,"result":{"a":"\xff"}}')


def test_a_number_that_python_cannot_hold_is_an_error_of_the_package() -> None:
    with pytest.raises(ProtocolViolation):
        READ_ANY(Raw(b'{"a":1e400}'))
    # A payload that is decoded late raises the error, too; its other members can be read.
    event = EntryEvent("s", "A", 1, Raw(b'{"type":"custom","id":"e1","data":1e400}'))
    assert event.name.id == "e1"
    with pytest.raises(ProtocolViolation):
        _ = event.entry


def test_a_payload_with_newlines_is_framed_as_one_line_that_means_the_same() -> None:
    payload = Raw(b'{\n  "role": "user",\n  "n": 1.50\n}')
    frame = wire.request(1, "append", {"message": payload})
    assert frame.count(b"\n") == 1
    assert b"1.50" in frame
    assert json.loads(frame)["params"]["message"] == {"role": "user", "n": 1.5}


def test_a_call_counts_as_sent_from_its_first_byte() -> None:
    outgoing = Outgoing()
    outgoing.put(b"aaaa", 1)
    outgoing.put(b"bb")
    outgoing.put(b"cccc", 3)
    assert outgoing.taken(0) == []
    assert outgoing.taken(1) == [1]
    assert outgoing.taken(3) == []
    assert outgoing.taken(3) == [3]
    assert b"".join(outgoing.buffers()) == b"ccc"
    assert outgoing.taken(3) == []
    assert not outgoing


def test_a_cleared_queue_does_not_remember_half_a_frame() -> None:
    outgoing = Outgoing()
    outgoing.put(b"aaaa", 1)
    outgoing.taken(2)
    outgoing.clear()
    outgoing.put(b"aaaa", 1)
    assert outgoing.taken(1) == [1]


# --- what may be sent twice


@pytest.mark.parametrize(
    ("method", "params", "resend"),
    [
        ("session/get", {}, Resend.READ),
        ("build_context", {}, Resend.READ),
        ("server/ping", {}, Resend.READ),
        ("append", {"message": {}}, Resend.KEYED),
        ("session/append", {"message": {}, "idempotency_key": "k"}, Resend.KEYED),
        ("session/branch", {"entry_id": None}, Resend.NEVER),
        ("branch", {"entry_id": None}, Resend.NEVER),
        ("session/label", {}, Resend.NEVER),
        ("session/reset", {}, Resend.NEVER),
        ("session/import", {}, Resend.NEVER),
        ("session/fork", {"new_session_id": "abcdefgh"}, Resend.NEVER),
        ("compact", {"summary": "s"}, Resend.NEVER),
        ("compact", {"summary": "s", "idempotency_key": "k"}, Resend.KEYED),
        ("session/create", {"session_id": "abcdefgh"}, Resend.NEVER),
        ("session/create", {"if_exists": "open"}, Resend.NEVER),
        ("session/create", {"session_id": "abcdefgh", "if_exists": "open"}, Resend.READ),
        ("session/export", {"format": "native"}, Resend.READ),
        ("session/export", {"path": "/x"}, Resend.NEVER),
        ("server/stop", {}, Resend.NEVER),
        ("some/new_method", {}, Resend.NEVER),
    ],
)
def test_only_what_cannot_happen_twice_is_sent_twice(
    method: str, params: dict[str, Any], resend: Resend
) -> None:
    assert prepare(method, params, new_id=lambda: "x").resend is resend


def test_every_entry_of_an_append_has_an_id_before_it_is_sent() -> None:
    ids = iter(["a", "b", "c", "d"])

    def ready(**params: Any) -> Any:
        return prepare("append", params, new_id=lambda: next(ids)).params

    message = {"role": "user"}
    assert ready(message=message) == {"entry": {"type": "message", "id": "a", "message": message}}
    assert ready(entry={"type": "custom", "id": None}) == {"entry": {"type": "custom", "id": "b"}}
    assert ready(entries=[{"type": "x"}, {"type": "y", "id": "mine"}]) == {
        "entries": [{"type": "x", "id": "c"}, {"type": "y", "id": "mine"}]
    }
    raw = Raw(b'{"type":"message","message":{"n": 1.50}}')
    assert wire.request(1, "append", ready(entry=raw)).count(b'{"n": 1.50}') == 1


def test_a_key_stands_for_the_ids_and_what_is_wrong_goes_to_the_daemon() -> None:
    def ready(**params: Any) -> Any:
        return prepare("append", params, new_id=lambda: "new").params

    keyed = {"message": {"role": "user"}, "idempotency_key": "k"}
    assert ready(**keyed) == keyed
    assert ready(entry=7, entries="no") == {"entry": 7, "entries": "no"}
    both = ready(message={}, entry={"type": "x"})
    assert both == {"message": {}, "entry": {"type": "x", "id": "new"}}


@pytest.mark.parametrize(
    "method", ["subscribe", "session/unsubscribe", "session/flush", "catalog/subscribe"]
)
def test_what_belongs_to_one_connection_is_no_plain_call(method: str) -> None:
    with pytest.raises(ValueError, match="subscribe"):
        prepare(method, {}, new_id=lambda: "x")


# --- calls


def test_answers_find_their_calls_in_any_order() -> None:
    first, second = new_call("session/get"), new_call("session/heads")
    _, daemon = exchange_with(first, second)
    requests = daemon.connect()
    assert [request["method"] for request in requests] == ["session/get", "session/heads"]
    daemon.answer(requests[1]["id"], {"n": 2})
    daemon.answer(requests[0]["id"], {"n": 1})
    assert bytes(first.outcome()) == b'{"n":1}'
    assert bytes(second.outcome()) == b'{"n":2}'


def test_a_lost_append_is_sent_again_with_the_same_ids_and_a_branch_is_not() -> None:
    append = new_call("append", {"session_id": "s", "message": {"role": "user"}})
    branch = new_call("branch", {"session_id": "s", "entry_id": "e1"})
    read = new_call("session/get", {"session_id": "s"})
    _, daemon = exchange_with(append, branch, read)
    before = daemon.connect()
    daemon.lose()
    with pytest.raises(ConnectionLost) as lost:
        branch.outcome()
    assert lost.value.outcome_unknown
    assert daemon.connect() == [before[0], before[2]]
    daemon.answer(append.id)
    assert append.is_settled


def test_a_request_of_which_no_byte_left_is_sent_on_the_next_connection() -> None:
    branch = new_call("branch", {"entry_id": "e1"})
    exchange, daemon = exchange_with(branch)
    exchange.connected()
    daemon.lose()
    assert not branch.is_settled
    (ping,) = daemon.connect()
    assert ping["method"] == "server/ping"
    daemon.answer(ping["id"])
    assert [request["method"] for request in daemon.requests()] == ["branch"]


def test_what_may_not_be_sent_twice_waits_for_the_first_word_of_a_new_connection() -> None:
    branch, read = new_call("branch", {"entry_id": "e1"}), new_call("session/get")
    exchange, daemon = exchange_with(branch)
    exchange.connected()
    daemon.lose()
    exchange.submit(read)
    # A stopping daemon may accept and silently close any number of connections.
    for _ in range(3):
        assert [one["method"] for one in daemon.connect()] == ["server/ping", "session/get"]
        daemon.lose()
    assert not branch.is_settled
    daemon.connect()
    label = new_call("session/label")
    exchange.submit(label)
    assert daemon.requests() == []
    daemon.answer(read.id)
    assert [one["method"] for one in daemon.requests()] == ["branch", "session/label"]
    # From now on a lost connection leaves the outcome of the branch unknown.
    daemon.lose()
    with pytest.raises(ConnectionLost) as lost:
        branch.outcome()
    assert lost.value.outcome_unknown


def test_the_answer_to_the_greeting_is_a_first_word() -> None:
    branch = new_call("branch", {"entry_id": "e1"})
    exchange = Exchange(Setup(hello={"client_id": "c"}, random=lambda: 1.0))
    exchange.submit(branch)
    daemon = Daemon(exchange)
    exchange.connected()
    daemon.lose()
    (hello,) = daemon.connect()
    assert hello["method"] == "initialize"
    daemon.answer(hello["id"])
    assert [one["method"] for one in daemon.requests()] == ["branch"]


# --- what lasts as long as a connection


def test_presence_is_said_again_on_every_connection_until_it_is_taken_back() -> None:
    here = {"session_id": "s", "state": "thinking", "data": {"n": 1}}
    call = new_call("session/presence", here)
    exchange, daemon = exchange_with(call)

    def said() -> list[Any]:
        return [one["params"] for one in daemon.connect() if one["method"] == "session/presence"]

    assert said() == [here]
    daemon.answer(call.id, {"clients": []})
    daemon.lose()
    assert said() == [here]
    # No call waits for this answer.
    daemon.answer(2, {"clients": []})
    exchange.submit(asked := new_call("session/presence", {"session_id": "s"}))
    daemon.answer(asked.id, {"clients": []})
    exchange.submit(gone := new_call("session/presence", {"session_id": "s", "state": None}))
    daemon.lose()
    assert [one["params"]["state"] for one in daemon.connect()] == ["thinking", None]
    daemon.answer(gone.id, {"clients": []})
    daemon.lose()
    assert said() == []


@pytest.mark.parametrize("method", ["session/close", "session/delete"])
def test_presence_ends_with_the_session(method: str) -> None:
    call = new_call("session/presence", {"session_id": "s", "state": "thinking"})
    end = new_call(method, {"session_id": "s"})
    exchange, daemon = exchange_with(call, end)
    daemon.connect()
    daemon.answer(call.id)
    daemon.answer(end.id)
    daemon.lose()
    assert daemon.connect() == []
    assert exchange.calls == {}


def test_a_lease_is_over_with_its_time_or_its_connection_and_does_not_begin_again() -> None:
    clock = [100.0]
    told: list[int] = []

    def tenure() -> LeaseState:
        made = LeaseState(9.0, lambda: clock[0])
        made.wake = lambda: told.append(1)
        return made

    lease = Lease("L", 7)
    one = tenure()
    with pytest.raises(LeaseLost):
        one.require()
    one.granted(lease, 100.0)
    assert (one.require(), one.renew_at, one.ends_at) == (lease, 103.0, 109.0)
    clock[0] = 103.0
    one.granted(lease, 103.0)
    clock[0] = 111.9
    assert one.require() is lease
    clock[0] = 112.0
    with pytest.raises(LeaseLost, match="not renewed in time"):
        one.require()
    one.granted(lease, 112.0)
    with pytest.raises(LeaseLost):
        one.require()
    assert told == [1]

    exchange, daemon = exchange_with()
    two, three = tenure(), tenure()
    for each in (two, three):
        each.granted(lease, 112.0)
        exchange.standing.begin(each)
    exchange.standing.end(three)
    daemon.connect()
    daemon.lose()
    with pytest.raises(LeaseLost, match="the connection broke"):
        two.require()
    assert three.require() is lease
    assert told == [1, 1]


def test_half_a_request_may_have_been_read() -> None:
    branch = new_call("branch", {"entry_id": "e1"})
    exchange, daemon = exchange_with(branch)
    exchange.connected()
    exchange.sent(exchange.outgoing.taken(1))
    daemon.lose()
    with pytest.raises(ConnectionLost):
        branch.outcome()


def test_a_request_that_breaks_every_connection_is_given_up() -> None:
    read = new_call("session/get", deadline=math.inf)
    _, daemon = exchange_with(read)
    for _ in range(limits.RESENDS_MAX):
        assert len(daemon.connect()) == 1
        daemon.lose()
    assert not read.is_settled
    daemon.connect()
    daemon.lose()
    with pytest.raises(ConnectionLost):
        read.outcome()


@pytest.mark.parametrize(
    ("method", "error", "is_retried"),
    [
        ("append", OVERLOADED, True),
        ("append", DRAINING, True),
        ("append", STORAGE, True),
        ("append", {**STORAGE, "retryable": False}, False),
        ("append", PRECONDITION, False),
        ("branch", OVERLOADED, True),  # refused is not done
        ("branch", DRAINING, True),
        ("branch", STORAGE, False),
        ("session/get", STORAGE, False),
        ("session/get", {**STORAGE, "kind": "session_locked"}, False),
    ],
)
def test_a_refusal_is_retried_only_if_nothing_can_happen_twice(
    method: str, error: dict[str, Any], *, is_retried: bool
) -> None:
    call = new_call(method, {"entry": {"type": "custom"}})
    exchange, daemon = exchange_with(call)
    before = daemon.connect()
    daemon.refuse(call.id, error)
    assert call.is_settled is not is_retried
    if not is_retried:
        with pytest.raises(RpcError) as refused:
            call.outcome()
        assert refused.value.kind == error["kind"]
        return
    assert daemon.requests() == []
    due = exchange.wake_at()
    assert due == max(error.get("retry_after_ms", 0) / 1000, limits.BACKOFF_FIRST)
    exchange.tick(due)
    assert daemon.requests() == before


def test_a_refused_call_goes_to_the_next_daemon_when_this_one_has_gone() -> None:
    call = new_call("append", {"message": {}})
    exchange, daemon = exchange_with(call)
    before = daemon.connect()
    daemon.refuse(call.id, DRAINING)
    daemon.lose()
    assert daemon.connect() == []
    exchange.tick(0.7)
    assert daemon.requests() == before


def test_a_disk_that_goes_on_refusing_is_reported() -> None:
    call = new_call("append", {"message": {}}, deadline=math.inf)
    exchange, daemon = exchange_with(call)
    daemon.connect()
    for _ in range(limits.STORAGE_RETRIES_MAX):
        daemon.refuse(call.id, STORAGE)
        assert not call.is_settled
        exchange.tick(daemon.now + 100)
        assert len(daemon.requests()) == 1
    daemon.refuse(call.id, STORAGE)
    with pytest.raises(RpcError) as refused:
        call.outcome()
    assert refused.value.retryable


def test_a_retry_that_would_come_too_late_is_the_refusal_itself() -> None:
    call = new_call("append", {"message": {}}, deadline=0.5)
    _, daemon = exchange_with(call)
    daemon.connect()
    daemon.refuse(call.id, DRAINING)
    with pytest.raises(RpcError) as refused:
        call.outcome()
    assert refused.value.kind == "draining"


def test_a_call_times_out_is_cancelled_there_and_its_late_answer_is_ignored() -> None:
    slow, other = new_call("branch", {}, deadline=5.0), new_call("session/get", deadline=9.0)
    exchange, daemon = exchange_with(slow, other)
    daemon.connect()
    assert exchange.wake_at() == 5.0
    exchange.tick(4.9)
    assert not slow.is_settled
    exchange.tick(5.0)
    with pytest.raises(Timeout) as timeout:
        slow.outcome()
    assert timeout.value.outcome_unknown
    assert exchange.wake_at() == 9.0
    (cancel,) = daemon.requests()
    assert (cancel["method"], cancel["params"]) == ("$/cancelRequest", {"id": slow.id})
    daemon.answer(slow.id)
    assert exchange.broken is None
    daemon.answer(other.id)
    assert other.is_settled
    assert exchange.wake_at() == math.inf


def test_a_call_that_never_left_times_out_with_a_known_outcome() -> None:
    call = new_call("branch", {}, deadline=5.0)
    exchange, daemon = exchange_with(call)
    exchange.lost(FileNotFoundError("no socket"), 0.0)
    exchange.tick(5.0)
    with pytest.raises(Timeout, match="no socket") as timeout:
        call.outcome()
    assert not timeout.value.outcome_unknown
    assert daemon.connect() == []


def test_a_call_that_left_once_times_out_with_an_unknown_outcome() -> None:
    call = new_call("append", {"message": {}}, deadline=5.0)
    exchange, daemon = exchange_with(call)
    daemon.connect()
    daemon.lose()
    exchange.tick(5.0)
    with pytest.raises(Timeout) as timeout:
        call.outcome()
    assert timeout.value.outcome_unknown


def test_an_abandoned_call_is_taken_back_or_cancelled() -> None:
    queued, sent = new_call("branch", {}), new_call("branch", {})
    exchange, daemon = exchange_with(sent)
    daemon.connect()
    exchange.submit(queued)
    exchange.abandon(queued)
    exchange.abandon(sent)
    assert [request["method"] for request in daemon.requests()] == ["$/cancelRequest"]
    assert not exchange.calls


def test_a_request_over_the_frame_limit_is_refused_before_it_is_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_limits(monkeypatch, REQUEST_BYTES_MAX=100)
    call = new_call("append", {"message": {"text": "x" * 100}})
    _, daemon = exchange_with(call)
    assert daemon.connect() == []
    with pytest.raises(RpcError) as refused:
        call.outcome()
    assert refused.value.kind == "too_large"


def test_closing_tells_whoever_waits_and_whoever_comes_later() -> None:
    call, late = new_call("session/get"), new_call("session/get")
    exchange, _ = exchange_with(call)
    exchange.close()
    exchange.submit(late)
    for closed in (call, late):
        with pytest.raises(ClientClosed):
            closed.outcome()


@pytest.mark.parametrize(
    "line",
    [
        b"HTTP/1.1 400 Bad Request",
        b"[]",
        b'{"id":1}',
        b'{"id":null,"error":{"code":-32700,"message":"?"}}',
        b'{"id":"one","result":{}}',
        b"\xff\xfe",
    ],
)
def test_what_is_not_the_protocol_ends_the_connection(line: bytes) -> None:
    call = new_call("session/get")
    exchange, daemon = exchange_with(call)
    daemon.connect()
    exchange.received(line + b"\n", 0.0)
    assert isinstance(exchange.broken, ProtocolViolation)
    assert not call.is_settled


TURNED_AWAY = {"code": -32001, "kind": "overloaded", "retryable": True, "retry_after_ms": 900}


def test_a_connection_too_many_is_no_loss_and_every_call_waits_for_a_place() -> None:
    # A branch with an unknown outcome is never sent twice, but this outcome is known.
    call = new_call("session/branch", {"session_id": "s", "entry_id": "x"})
    exchange, daemon = exchange_with(call)
    for _ in range(20):
        assert [request["id"] for request in daemon.connect()] == [call.id]
        daemon.refuse(None, {**TURNED_AWAY, "closing": True})
        assert isinstance(exchange.broken, RpcError)
        exchange.lost(exchange.broken, daemon.now)
        assert exchange.connect_at >= daemon.now + 0.9
        assert not call.is_settled
    daemon.connect()
    daemon.answer(call.id, {"leaf_id": "x"})
    assert bytes(call.outcome()) == b'{"leaf_id":"x"}'


def test_a_call_that_found_no_place_in_time_says_why() -> None:
    call = new_call("server/ping", deadline=5.0)
    exchange, daemon = exchange_with(call)
    daemon.connect()
    daemon.refuse(None, {**TURNED_AWAY, "closing": True})
    assert exchange.broken is not None
    exchange.lost(exchange.broken, daemon.now)
    exchange.tick(6.0)
    with pytest.raises(Timeout, match=r"not connected: overloaded \(-32001\)") as timeout:
        call.outcome()
    assert not timeout.value.outcome_unknown


def test_a_frame_that_was_not_taken_ends_the_connection_and_outcomes_are_unknown() -> None:
    branch = new_call("session/branch", {"session_id": "s", "entry_id": "x"})
    exchange, daemon = exchange_with(branch)
    daemon.connect()
    daemon.refuse(None, TURNED_AWAY)
    assert exchange.broken is not None
    exchange.lost(exchange.broken, daemon.now)
    assert exchange.connect_at >= 0.9
    with pytest.raises(ConnectionLost) as lost:
        branch.outcome()
    assert lost.value.outcome_unknown


def test_a_request_of_the_daemon_is_refused_politely() -> None:
    _, daemon = exchange_with()
    daemon.connect()
    daemon.say(jsonrpc="2.0", id=7, method="client/summarize", params={})
    (refusal,) = daemon.requests()
    assert (refusal["id"], refusal["error"]["code"]) == (7, -32601)


# --- connections


def test_the_backoff_doubles_is_capped_and_is_spread() -> None:
    assert [backoff(n, lambda: 1.0) for n in (1, 2, 3)] == [0.05, 0.1, 0.2]
    assert backoff(1000, lambda: 1.0) == limits.BACKOFF_LONGEST
    assert backoff(1000, lambda: 0.0) == limits.BACKOFF_LONGEST / 2


def test_only_a_connection_that_spoke_ends_the_backoff() -> None:
    call = new_call("session/get")
    exchange, daemon = exchange_with(call)
    for attempt in (1, 2, 3):
        daemon.connect()
        daemon.lose()
        assert exchange.connect_at == backoff(attempt, lambda: 1.0)
    daemon.connect()
    daemon.say(method="server/draining", params={})
    daemon.lose()
    assert exchange.connect_at == backoff(1, lambda: 1.0)


def test_a_daemon_that_accepts_to_refuse_is_not_asked_faster() -> None:
    exchange = Exchange(Setup(hello={"client_id": "me"}, random=lambda: 1.0))
    daemon = Daemon(exchange)
    exchange.submit(new_call("session/get"))
    for attempt in (1, 2, 3):
        daemon.connect()
        daemon.refuse(0, OVERLOADED)
        daemon.lose()
        assert exchange.connect_at == backoff(attempt, lambda: 1.0)


class BrokenPort:
    """A connection that takes nothing any more and still holds what the daemon said last."""

    def __init__(self, *chunks: bytes | None) -> None:
        self.chunks = list(chunks)

    def send(self, buffers: list[memoryview]) -> int:
        raise BrokenPipeError

    def receive(self) -> bytes | None:
        return self.chunks.pop(0)

    def close(self) -> None:
        assert not self.chunks


class NoWaiter:
    lock = nullcontext()

    def interrupt(self) -> None:
        raise AssertionError("nobody waits")

    def release(self) -> None:
        pass


@pytest.mark.parametrize("end", [b"", None])
def test_what_the_daemon_said_before_it_went_is_read_although_nothing_can_be_sent(
    end: bytes | None,
) -> None:
    answer = b'{"id":1,"result":{}}\n'
    ports = iter([BrokenPort(answer[:7], answer[7:], end)])
    connect = cast("Callable[[], Port]", lambda: next(ports))
    outside = Outside(partial(Reach, connect, None), clock=lambda: 0.0, waiter=NoWaiter())
    exchange, call = Exchange(SETUP), new_call("branch", {})
    driver = CallDriver(exchange, outside)
    assert list(driver.open(0.0)) == []
    exchange.submit(call)
    exchange.sent([call.id])
    later = new_call("branch", {}, deadline=9.0)
    (wait,) = [step for step, _ in zip(driver.drive(later), range(1), strict=False)]
    assert call.is_settled
    assert not call.error
    assert wait == Wait(None, write=False, until=exchange.connect_at)


def test_who_the_client_is_is_said_first_on_every_connection() -> None:
    exchange = Exchange(Setup(hello={"client_id": "me"}, random=lambda: 1.0))
    daemon = Daemon(exchange)
    exchange.submit(new_call("session/get"))
    for _ in range(2):
        methods = [(request["method"], request["id"]) for request in daemon.connect()]
        assert methods == [("initialize", 0), ("session/get", 1)]
        daemon.lose()


def test_a_daemon_that_refuses_the_client_refuses_its_calls() -> None:
    exchange = Exchange(Setup(hello={"access": "read"}, random=lambda: 1.0))
    daemon, call = Daemon(exchange), new_call("session/get")
    exchange.submit(call)
    daemon.connect()
    daemon.refuse(0, {"code": -32010, "kind": "version_unsupported", "retryable": False})
    assert exchange.broken is not None
    with pytest.raises(RpcError):
        call.outcome()


# --- subscriptions


def test_a_subscription_goes_on_after_the_last_entry_it_saw() -> None:
    feed, daemon = feed_with()
    (request,) = daemon.connect()
    assert request["params"] == {"session_id": "s", "signals": False}
    daemon.answer(1, {"epoch": "A", "seq": 4})
    daemon.lose()
    (request,) = daemon.connect()
    assert request["params"]["after"] == {"seq": 4, "epoch": "A"}
    daemon.answer(1, {"epoch": "A", "seq": 4})
    daemon.event(5)
    daemon.event(7)  # a line that is no entry has a seq and no event
    daemon.lose()
    (request,) = daemon.connect()
    assert request["params"]["after"] == {"seq": 7, "entry_id": "e7"}
    daemon.answer(1, {"epoch": "A", "seq": 9})
    for seq in (6, 7, 8, 9):
        daemon.event(seq)
    daemon.notify("synced", seq=9)
    assert taken(feed) == [5, 7, 8, 9, Synced("s", 9)]
    assert feed.position == Cursor(9, "e9", "A")


def test_events_before_the_answer_are_held_until_it_is_known_what_they_mean() -> None:
    feed, daemon = feed_with(after=Cursor(2, "e2"), types=["message"])
    (request,) = daemon.connect()
    assert request["params"]["types"] == ["message"]
    daemon.event(1, epoch="B")
    daemon.event(2, epoch="B")
    assert taken(feed) == []
    daemon.answer(1, {"epoch": "B", "seq": 2, "replaced": "ahead"})
    assert taken(feed) == [Replaced("s", "B", "ahead"), 1, 2]


def test_events_without_end_before_the_answer_end_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_limits(monkeypatch, HELD_BYTES_MAX=300)
    feed, daemon = feed_with(after=0)
    daemon.connect()
    daemon.event(1)
    assert feed.broken is None
    daemon.event(2)
    daemon.event(3)
    assert isinstance(feed.broken, ProtocolViolation)
    daemon.lose()
    (request,) = daemon.connect()
    assert request["params"]["after"] == {"seq": 0}
    assert taken(feed) == []


def test_a_replaced_log_is_told_once_and_read_from_its_start() -> None:
    feed, daemon = feed_with(after={"seq": 0})
    daemon.connect()
    daemon.answer(1, {"epoch": "A", "seq": 1})
    daemon.event(1)
    daemon.notify("replaced", epoch="B", reason="truncated")
    daemon.notify("replaced", epoch="B", reason="truncated")
    daemon.lose()
    (request,) = daemon.connect()
    assert request["params"]["after"] == {"seq": 0}
    daemon.answer(1, {"epoch": "B", "seq": 1})
    daemon.event(1, epoch="B")
    assert taken(feed) == [1, Replaced("s", "B", "truncated"), 1]
    daemon.notify("replaced", epoch="C", reason="epoch")
    assert taken(feed) == [Replaced("s", "C", "epoch")]
    assert feed.position == Cursor(0, epoch="C")


def test_a_consumer_that_was_slow_learns_it_and_misses_nothing() -> None:
    feed, daemon = feed_with(after=0)
    daemon.connect()
    daemon.answer(1, {"epoch": "A", "seq": 0})
    daemon.event(1)
    daemon.event(2)
    daemon.notify("lagged", seq=1, dropped_signals=3)
    daemon.event(2)
    daemon.event(3)
    daemon.notify("closed", reason="deleted")
    closed = Notice("s", "session/closed", {"session_id": "s", "reason": "deleted"})
    assert taken(feed) == [1, 2, Lagged("s", 1, 3), 3, closed]


def test_a_changed_state_comes_typed_and_is_a_notice_still() -> None:
    feed, daemon = feed_with(after=0)
    daemon.connect()
    daemon.answer(1, {"epoch": "A", "seq": 0})
    daemon.notify("changed", archived=True, read_only=True, read_only_reason="bad_line", new=1)
    daemon.notify("changed", archived=False, read_only=False, read_only_reason=None)
    damaged, mended = taken(feed)
    assert isinstance(damaged, Changed)
    assert isinstance(damaged, Notice)
    assert (damaged.archived, damaged.read_only, damaged.read_only_reason) == (
        True,
        True,
        "bad_line",
    )
    assert (damaged.session_id, damaged.method) == ("s", "session/changed")
    assert damaged.params["new"] == 1
    assert isinstance(mended, Changed)
    assert (mended.archived, mended.read_only, mended.read_only_reason) == (False, False, None)


def test_signals_and_presence_come_to_who_asks_for_them() -> None:
    _, daemon = feed_with(after=0)
    (request,) = daemon.connect()
    assert request["params"]["signals"] is False
    feed, daemon = feed_with(after=0, signals=True)
    (request,) = daemon.connect()
    assert request["params"]["signals"] is True
    here = {"access": "read", "state": "typing", "since": "2026-01-15T10:30:00.000Z", "new": 1}
    daemon.answer(1, {"epoch": "A", "seq": 1, "clients": [here]})
    daemon.event(1)
    daemon.notify("signal", kind="delta", data={"text": "x"}, origin={"client_id": "a"})
    daemon.notify("presence", clients=[])
    there = Present("typing", "read", "2026-01-15T10:30:00.000Z")
    first, one, signal, last = taken(feed)
    assert (first, one, last) == (Presence("s", [there]), 1, Presence("s", []))
    assert isinstance(signal, Signal)
    assert (signal.kind, signal.data, bytes(signal.raw)) == (
        "delta",
        {"text": "x"},
        b'{"text":"x"}',
    )
    assert signal.origin == {"client_id": "a"}


def test_who_was_present_before_a_connection_was_lost_is_not_believed_to_be_there() -> None:
    feed, daemon = feed_with(after=0, signals=True)
    for clients in ([{"state": "typing"}], [], []):
        daemon.connect()
        daemon.answer(1, {"epoch": "A", "seq": 0, "clients": clients})
        daemon.lose()
    # An empty presence is reported only once.
    assert taken(feed) == [Presence("s", [Present("typing")]), Presence("s", [])]


def test_a_subscription_that_is_refused_for_now_is_asked_for_again() -> None:
    feed, daemon = feed_with()
    daemon.connect()
    daemon.refuse(1, DRAINING)
    assert isinstance(feed.broken, RpcError)
    daemon.lose()
    assert feed.connect_at == 0.7
    assert not feed.is_over
    assert len(daemon.connect()) == 1


def test_a_subscription_that_is_refused_ends_after_what_it_still_holds() -> None:
    feed, daemon = feed_with(after=0)
    daemon.connect()
    daemon.answer(1, {"epoch": "A", "seq": 1})
    daemon.event(1)
    daemon.lose()
    daemon.connect()
    daemon.refuse(1, {"code": -32020, "kind": "session_not_found"})
    assert feed.is_over
    event = feed.take()
    assert isinstance(event, EntryEvent)
    assert event.name.type == "message"
    assert event.entry["message"] == {"role": "user"}
    with pytest.raises(RpcError):
        feed.take()
    assert feed.take() is None


def test_only_the_first_answer_has_a_deadline() -> None:
    feed, daemon = feed_with()
    assert feed.wake_at() == 30.0
    feed.lost(FileNotFoundError("no socket"), 0.0)
    feed.tick(29.9)
    assert not feed.is_over
    feed.tick(30.0)
    with pytest.raises(Timeout, match="no socket"):
        feed.take()
    feed, daemon = feed_with()
    daemon.connect()
    daemon.answer(1, {"epoch": "A", "seq": 1})
    feed.tick(1000.0)
    assert not feed.is_over
    assert feed.wake_at() == math.inf


def test_a_session_that_was_closed_under_a_subscription_is_asked_for_again() -> None:
    feed, daemon = feed_with(after=0)
    daemon.connect()
    daemon.answer(1, {"epoch": "A", "seq": 1})
    daemon.event(1)
    daemon.notify("closed", reason="repaired")
    assert isinstance(feed.broken, ConnectionLost)
    daemon.lose()
    (request,) = daemon.connect()
    assert request["params"]["after"] == {"seq": 1, "entry_id": "e1"}
    daemon.answer(1, {"epoch": "B", "seq": 2})
    daemon.event(2, epoch="B")
    closed = Notice("s", "session/closed", {"session_id": "s", "reason": "repaired"})
    assert taken(feed) == [1, closed, 2]
    daemon.notify("closed", reason="deleted")
    daemon.lose()
    daemon.connect()
    daemon.refuse(1, {"code": -32020, "kind": "session_not_found", "retryable": False})
    assert isinstance(feed.take(), Notice)
    with pytest.raises(RpcError, match="session_not_found"):
        feed.take()


def test_hints_of_the_catalog_that_may_have_been_missed_are_made_up_for() -> None:
    feed = CatalogFeed(SETUP, deadline=30.0)
    daemon = Daemon(feed)
    (request,) = daemon.connect()
    assert (request["method"], request["params"]) == ("catalog/subscribe", {})
    daemon.answer(1, {"revision": 5})
    assert (feed.is_started, feed.take()) == (True, None)
    params = {"revision": 6, "session_id": "s", "change": "created"}
    daemon.say(method="catalog/changed", params=params)
    assert feed.take() == CatalogChanged(6, "s", "created")
    # Nothing happened while there was no connection, and then something did.
    for revision, hint in [(6, None), (8, CatalogChanged(8, None, "many"))]:
        daemon.lose()
        daemon.connect()
        daemon.answer(1, {"revision": revision})
        assert feed.take() == hint
    assert feed.revision == 8


def test_a_flush_comes_in_line_with_the_events_also_over_a_lost_connection() -> None:
    feed, daemon = feed_with(after=0)
    feed.flush()
    assert len(daemon.connect()) == 1
    daemon.answer(1, {"epoch": "A", "seq": 1})
    (flush,) = daemon.requests()
    assert flush["method"] == "session/flush"
    daemon.lose()
    daemon.connect()
    daemon.answer(1, {"epoch": "A", "seq": 1})
    daemon.event(1)
    (flush,) = daemon.requests()
    daemon.answer(flush["id"], {"seq": 1})
    daemon.event(2)
    assert taken(feed) == [1, Flushed("s", 1), 2]


def test_an_event_that_cannot_be_read_ends_the_connection_not_the_subscription() -> None:
    feed, daemon = feed_with(after=0)
    daemon.connect()
    daemon.answer(1, {"epoch": "A", "seq": 1})
    daemon.notify("event", epoch="A", seq=1, entry={"no": "id"})
    assert isinstance(feed.broken, ProtocolViolation)
    assert not feed.is_over


@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.integers(0, 3), st.sampled_from(["event", "lagged"])),
        max_size=12,
    )
)
def test_every_entry_comes_once_and_in_order_whatever_breaks(
    steps: list[tuple[int, int, str]],
) -> None:
    """A daemon with a growing log that dies, lags and overlaps at every occasion."""
    feed, daemon = feed_with(after=0)
    stored = 0
    seen: list[Any] = []
    for grow, deliver, trouble in steps:
        stored += grow
        (request,) = daemon.connect()
        after = request["params"]["after"]["seq"]
        assert after == (seen[-1] if seen else 0)
        daemon.answer(1, {"epoch": "A", "seq": stored})
        for seq in range(max(1, after - 1), min(stored, after + deliver) + 1):
            daemon.event(seq)
        if trouble == "lagged":
            daemon.notify("lagged", seq=after)
            for seq in range(after + 1, stored + 1):
                daemon.event(seq)
        seen += [event for event in taken(feed) if isinstance(event, int)]
        daemon.lose()
    assert seen == list(range(1, len(seen) + 1))


# --- the two surfaces


@pytest.mark.parametrize(
    ("tasks", "threads"),
    [
        (Client, BlockingClient),
        (Subscription, BlockingSubscription),
        (CatalogSubscription, BlockingCatalogSubscription),
        (Offer, BlockingOffer),
    ],
)
def test_both_clients_offer_the_same(tasks: type, threads: type) -> None:
    def surface(kind: type) -> dict[str, str]:
        return {
            name: str(inspect.signature(member)).replace("Blocking", "")
            for name, member in inspect.getmembers(kind, inspect.isfunction)
            if not name.startswith("_")
        }

    assert surface(tasks) == surface(threads)
