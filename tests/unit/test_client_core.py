"""The client's core without a socket: lines and frames, what may be sent twice, calls."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from sessiond_client import (
    ConnectionLost,
    EntryEvent,
    ProtocolViolation,
    Timeout,
    wire,
)
from sessiond_client.calls import Call, Resend
from sessiond_client.conversation import Setup
from sessiond_client.exchange import Exchange
from sessiond_client.limits import RESENDS_MAX, SILENCE_SECONDS
from sessiond_client.results import READ_ANY
from tests.kit.client_rig import exchange_with, new_call
from tests.kit.far_end import Daemon
from tests.kit.limits import set_limits

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
        wire.read(list, Raw(deep))
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
    outgoing, sent = wire.Outgoing(), list[int]()
    outgoing.put(b"aaaa", lambda: sent.append(1))
    outgoing.put(b"bb")
    outgoing.put(b"cccc", lambda: sent.append(3))
    outgoing.taken(0)
    assert sent == []
    outgoing.taken(1)
    assert sent == [1]
    outgoing.taken(3)
    assert sent == [1]
    outgoing.taken(3)
    assert sent == [1, 3]
    assert b"".join(outgoing.buffers()) == b"ccc"
    outgoing.taken(3)
    assert sent == [1, 3]
    assert not outgoing


def test_a_cleared_queue_does_not_remember_half_a_frame() -> None:
    outgoing, sent = wire.Outgoing(), list[int]()
    outgoing.put(b"aaaa")
    outgoing.taken(2)
    outgoing.clear()
    outgoing.put(b"aaaa", lambda: sent.append(1))
    outgoing.taken(1)
    assert sent == [1]


def test_a_frame_that_was_taken_back_leaves_the_others_in_line() -> None:
    outgoing, kept, dropped = wire.Outgoing(), new_call("server/ping"), new_call("server/ping")
    for frame, call in ((b"a", kept), (b"b", dropped), (b"c", kept)):
        outgoing.put(frame, call.sent)
    outgoing.discard(dropped.sent)
    assert b"".join(outgoing.buffers()) == b"ac"


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
        ("session/merge", {"text": "t"}, Resend.KEYED),
        ("session/merge", {"into": "this", "idempotency_key": "k"}, Resend.KEYED),
        ("session/merge", {"into": "new"}, Resend.NEVER),
        ("session/merge", {"into": "new", "dry_run": True}, Resend.READ),
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
    assert new_call(method, params).resend is resend


def test_every_entry_of_an_append_has_an_id_before_it_is_sent() -> None:
    ids = iter(["a", "b", "c", "d"])

    def ready(**params: Any) -> Any:
        return Call("append", params, deadline=30.0, new_id=lambda: next(ids)).params

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
        return Call("append", params, deadline=30.0, new_id=lambda: "new").params

    keyed = {"message": {"role": "user"}, "idempotency_key": "k"}
    assert ready(**keyed) == keyed
    assert ready(entry=7, entries="no") == {"entry": 7, "entries": "no"}
    both = ready(message={}, entry={"type": "x"})
    assert both == {"message": {}, "entry": {"type": "x", "id": "new"}}


def test_a_merge_into_this_session_has_a_key_before_it_is_sent() -> None:
    def ready(**params: Any) -> Any:
        return Call("session/merge", params, deadline=30.0, new_id=lambda: "new").params

    assert ready(text="t") == {"text": "t", "idempotency_key": "new"}
    for params in ({"idempotency_key": "k"}, {"into": "new"}, {"dry_run": True}):
        assert ready(**params) == params


@pytest.mark.parametrize(
    "method",
    ["subscribe", "session/unsubscribe", "session/flush", "catalog/subscribe", "state/subscribe"],
)
def test_what_belongs_to_one_connection_is_no_plain_call(method: str) -> None:
    with pytest.raises(ValueError, match="subscribe"):
        new_call(method)


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


# --- a daemon that says nothing


def waited(exchange: Exchange, daemon: Daemon, seconds: float) -> list[str]:
    """Let time pass up to each point at which the client has something to do; return what is sent."""
    end, sent = daemon.now + seconds, []
    while True:
        exchange.tick(daemon.now)
        sent += [one["method"] for one in daemon.requests()]
        if daemon.now >= end:
            return sent
        daemon.now = min(end, max(exchange.wake_at(), daemon.now))


@pytest.mark.parametrize(("method", "may_change"), [("session/list", False), ("compact", True)])
def test_a_call_without_a_limit_waits_as_long_as_the_daemon_answers(
    method: str, *, may_change: bool
) -> None:
    call, other = new_call(method, deadline=math.inf), new_call("session/get", deadline=900.0)
    exchange, daemon = exchange_with(call, other)
    daemon.connect()
    for number in range(3, 6):
        assert waited(exchange, daemon, SILENCE_SECONDS - 1) == ["server/ping"]
        daemon.answer(number, {"draining": False})
    assert waited(exchange, daemon, SILENCE_SECONDS) == ["server/ping", "$/cancelRequest"]
    assert isinstance(call.error, Timeout)
    assert call.error.outcome_unknown is may_change
    assert not other.is_settled
    # Nobody waits without a limit any more, so nothing is asked.
    assert waited(exchange, daemon, 500) == []


def test_a_call_without_a_limit_ends_where_no_daemon_comes_back() -> None:
    call = new_call("session/list", deadline=math.inf)
    exchange, daemon = exchange_with(call)
    daemon.connect()
    assert waited(exchange, daemon, 1) == []
    daemon.lose()
    assert waited(exchange, daemon, SILENCE_SECONDS) == []
    with pytest.raises(Timeout, match="not connected: gone") as caught:
        call.outcome()
    assert not caught.value.outcome_unknown


def test_what_only_reads_has_a_known_outcome_however_it_ends() -> None:
    calls = [new_call("session/get"), new_call("session/delete"), new_call("session/rename")]
    _, daemon = exchange_with(*calls)
    daemon.connect()
    for _ in range(RESENDS_MAX + 1):
        daemon.lose()
        daemon.connect()
    ends = [call.error for call in calls]
    assert all(isinstance(end, ConnectionLost) for end in ends)
    assert [end.outcome_unknown for end in ends if isinstance(end, ConnectionLost)] == [
        False,
        True,
        True,
    ]
    assert "outcome" not in str(ends[0])
