"""Requests of the daemon to one client, as plain function calls: each is settled once."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
from msgspec import Raw

from sessiond.errors import SessiondError, TooLarge
from sessiond.limits import FRAME_BYTES_MAX, OUTGOING_MAX
from sessiond.model.requests import Reply
from sessiond.rpc.dispatch import Dispatcher, Exchange
from sessiond.rpc.outgoing import Outgoing

PARAMS = b'{"session_id":"s"}'


class Peer:
    """The other end: what it was sent, and whether it has room."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.has_room = True

    def put(self, body: bytes) -> None:
        self.bodies.append(body)

    def put_all(self, bodies: Sequence[bytes]) -> None:
        self.bodies.extend(bodies)

    def flush(self) -> None:
        """Do nothing: a test reads the bodies itself."""

    def admits(self, size: int) -> bool:
        return self.has_room

    def heard(self) -> list[Any]:
        """Every message since the last time; members of batches each by itself."""
        bodies, self.bodies = self.bodies, []
        found: list[Any] = []
        for body in map(json.loads, bodies):
            found += body if type(body) is list else [body]
        return found


class Line:
    """A connection, from received bytes to given replies."""

    def __init__(self) -> None:
        def unforeseen(_incident: str, _method: str, error: Exception) -> None:
            raise AssertionError from error

        dispatcher: Dispatcher[None] = Dispatcher(
            (), log_exception=unforeseen, allow=lambda _client, _method: None
        )
        self.peer = Peer()
        self.exchange: Exchange[None] = dispatcher.connection(self.peer, None)
        self.outgoing: Outgoing = self.exchange.outgoing
        self.replies: list[Reply] = []

    def ask(self, method: str = "client/summarize") -> Callable[[], None]:
        return self.outgoing.ask(method, PARAMS, self.replies.append)

    def receive(self, item: bytes | SessiondError) -> None:
        self.exchange.receive(item)

    def troubles(self) -> list[str | None]:
        """Return the trouble of every reply since the last call; None for a reply with a result."""
        troubles: list[str | None] = [reply.trouble for reply in self.replies]
        self.replies.clear()
        return troubles


def test_a_request_has_an_id_that_no_other_ever_has() -> None:
    line = Line()
    asked: list[int] = []
    for number in range(1, 4 * OUTGOING_MAX):
        withdraw = line.ask()
        (body,) = line.peer.heard()
        assert body == {
            "jsonrpc": "2.0",
            "id": number,
            "method": "client/summarize",
            "params": {"session_id": "s"},
        }
        asked.append(body["id"])
        if number % 2:
            withdraw()
            assert line.peer.heard() == [
                {"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": number}}
            ]
        else:
            line.receive(b'{"id":%d,"result":{}}' % number)
    assert len(set(asked)) == len(asked)
    assert len(line.outgoing) == 0


def test_answers_find_their_requests_in_any_order_and_keep_their_bytes() -> None:
    line = Line()
    replies: dict[str, Reply] = {}

    def keep(name: str, reply: Reply) -> None:
        replies[name] = reply

    for name in ("first", "second", "third"):
        line.outgoing.ask("client/summarize", PARAMS, partial(keep, name))
    line.receive(b'{"jsonrpc":"2.0","id":3,"result":{"summary": 1.50}}')
    line.receive(b'[{"id":1,"result":null},{"id":2,"error":{"code":1,"message":"no"}}]')
    assert replies == {
        "first": Reply(Raw(b"null")),
        "second": Reply(None, "refused"),
        "third": Reply(Raw(b'{"summary": 1.50}')),
    }
    assert len(line.outgoing) == 0
    # Nothing of this is answered.
    assert [body.get("method") for body in line.peer.heard()] == ["client/summarize"] * 3


@pytest.mark.parametrize("frame", [b"%s", b"[%s]"])
def test_half_a_surrogate_pair_in_an_answer_is_read_as_the_replacement_character(
    frame: bytes,
) -> None:
    line = Line()
    line.ask()
    line.receive(frame % rb'{"id":1,"result":{"veto":"cut \ud83d","emoji":"\ud83d\ude00"}}')
    (reply,) = line.replies
    assert reply.result is not None
    assert json.loads(bytes(reply.result)) == {"veto": "cut \ufffd", "emoji": "\U0001f600"}


@pytest.mark.parametrize("spelled", [b"1", b"1.0", b"1e0", b" 1 ", b"10e-1"])
def test_an_id_is_a_number_however_it_is_spelled(spelled: bytes) -> None:
    line = Line()
    line.ask()
    line.receive(b'{"id":%s,"result":{}}' % spelled)
    assert line.troubles() == [None]


@pytest.mark.parametrize("other", [b'"1"', b"2", b"0", b"-1", b"1.5", b"1e400", b'"1\\u0000"'])
def test_an_answer_to_what_nobody_asked_is_dropped(other: bytes) -> None:
    line = Line()
    line.ask()
    line.peer.heard()
    line.receive(b'{"id":%s,"result":{}}' % other)
    line.receive(b'{"id":%s,"error":{"code":1,"message":""}}' % other)
    assert line.troubles() == []
    assert line.peer.heard() == []
    line.receive(b'{"id":1,"result":{}}')
    assert line.troubles() == [None]


@pytest.mark.parametrize(
    "body",
    [
        b'{"id":1}',
        b'{"id":1,"result":{},"error":{}}',
        b'{"id":1,"result":{},"jsonrpc":"1.0"}',
        b'[{"id":1}]',
    ],
)
def test_an_answer_that_is_none_settles_it_and_is_not_answered(body: bytes) -> None:
    line = Line()
    line.ask()
    line.peer.heard()
    line.receive(body)
    assert line.troubles() == ["malformed"]
    # Under this id the client may have asked something itself.
    assert line.peer.heard() == []
    # The request is settled already, so these answers are ignored.
    line.receive(b'{"id":1,"result":{}}')
    line.receive(b'{"id":1}')
    assert line.troubles() == []
    (refusal,) = line.peer.heard()
    assert (refusal["id"], refusal["error"]["data"]["kind"]) == (1, "invalid_request")


@pytest.mark.parametrize(
    "body", [b"{", b"[1]", b'"x"', b'{"id":null,"result":{}}', b"{}", b'{"id":[1],"result":{}}']
)
def test_garbage_that_names_no_request_settles_none(body: bytes) -> None:
    line = Line()
    line.ask()
    line.receive(body)
    assert line.troubles() == []
    line.receive(b'{"id":1,"result":{}}')
    assert line.troubles() == [None]


def test_a_request_of_the_clients_may_have_the_same_id() -> None:
    line = Line()
    line.ask()
    line.peer.heard()
    line.receive(b'{"id":1,"method":"no/such"}')
    (refusal,) = line.peer.heard()
    assert refusal["error"]["data"]["kind"] == "method_not_found"
    assert line.troubles() == []


def test_what_was_answered_or_withdrawn_is_over() -> None:
    line = Line()
    withdraw = line.ask()
    line.receive(b'{"id":1,"result":{}}')
    line.peer.heard()
    # The client is not told of an end that it brought about.
    withdraw()
    assert line.peer.heard() == []
    assert line.troubles() == [None]
    withdraw = line.ask()
    withdraw()
    withdraw()
    assert [body["method"] for body in line.peer.heard()] == ["client/summarize", "$/cancelRequest"]
    line.receive(b'{"id":2,"result":{}}')
    line.receive(b'{"id":2}')
    assert line.troubles() == []


def test_so_many_wait_at_a_client_and_no_more() -> None:
    line = Line()
    for _ in range(OUTGOING_MAX):
        line.ask()
    line.peer.heard()
    line.ask()()
    assert line.troubles() == ["busy"]
    assert line.peer.heard() == []
    line.receive(b'{"id":7,"result":{}}')
    line.ask()
    assert line.peer.heard()[0]["id"] == OUTGOING_MAX + 1
    assert line.troubles() == [None]


def test_a_client_without_room_is_not_asked() -> None:
    line = Line()
    line.peer.has_room = False
    line.ask()()
    assert line.troubles() == ["busy"]
    assert line.peer.heard() == []
    assert len(line.outgoing) == 0


def test_a_frame_that_was_skipped_may_have_been_any_answer() -> None:
    line = Line()
    line.ask()
    line.ask()
    line.receive(TooLarge("a frame", limit=FRAME_BYTES_MAX))
    assert line.troubles() == ["too_large", "too_large"]
    line.receive(b'{"id":1,"result":{}}')
    line.ask()
    assert line.troubles() == []


def test_with_the_connection_everything_ends_and_nothing_begins() -> None:
    line = Line()
    withdraw = line.ask()
    line.ask()
    line.peer.heard()
    line.outgoing.close()
    assert line.troubles() == ["gone", "gone"]
    withdraw()
    line.ask()()
    assert line.troubles() == ["gone"]
    line.outgoing.close()
    line.receive(b'{"id":1,"result":{}}')
    assert line.troubles() == []
    assert line.peer.heard() == []
