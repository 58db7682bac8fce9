"""The client's core over connections: what ends with one, what is sent again, deadlines."""

from __future__ import annotations

import math
from typing import Any

import pytest

from sessiond_client import (
    ClientClosed,
    ConnectionLost,
    LeaseLost,
    ProtocolViolation,
    RpcError,
    Timeout,
    limits,
)
from sessiond_client.connection_state import LeaseState
from sessiond_client.tree_results import Lease
from tests.kit.client_rig import DRAINING, OVERLOADED, exchange_with, new_call
from tests.kit.limits import set_limits

STORAGE = {"code": -32060, "kind": "storage_error", "retryable": True, "errno": 28}


PRECONDITION = {"code": -32031, "kind": "precondition_failed", "retryable": False}


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
    exchange.outgoing.taken(1)
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
