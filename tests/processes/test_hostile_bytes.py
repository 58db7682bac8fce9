"""Hostile bytes on the socket: a healthy client beside them notices nothing."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from tests.kit.link import request
from tests.kit.sessions import SESSION
from tests.processes.harness.daemon import Daemon

pytestmark = [pytest.mark.slow, pytest.mark.search]

FRAME_BYTES_MAX = 32 << 20
# The start of a TLS 1.2 handshake: record header, ClientHello, version, chance.
CLIENT_HELLO = bytes.fromhex("16030100c8010000c40303") + bytes(range(189))
APPEND = request(7, "session/append", session_id=SESSION, message={"role": "user", "content": "!"})


@contextmanager
def healthy(daemon: Daemon) -> Iterator[None]:
    """Run a client that appends during the block; require exactly its entries at the end."""
    done = threading.Event()
    with daemon.connect() as link:
        link.create()

        def go_on() -> list[str]:
            said: list[str] = []
            while not done.is_set() or len(said) < 5:
                said.append(f"healthy {len(said)}")
                assert link.say(SESSION, said[-1])["seq"] == len(said)
            return said

        result: list[list[str]] = []
        thread = threading.Thread(target=lambda: result.append(go_on()))
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
        assert result, "the healthy client was harmed"
        assert link.contents(SESSION) == result[0]
        (session,) = link.ask("session/list", drafts=True)["sessions"]
        assert session["id"] == SESSION
    daemon.require_running()


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", id="http"),
        pytest.param(b"CONNECT x:443 HTTP/1.1\r\n\r\n", id="a verb that begins like Content"),
        pytest.param(
            b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(APPEND) + APPEND, id="http post"
        ),
        pytest.param(CLIENT_HELLO, id="tls"),
        pytest.param(b"\0" * 1000, id="nul bytes"),
        pytest.param(b"\xef\xbb\xbf" + APPEND, id="byte order mark"),
        pytest.param("{}".encode("utf-16"), id="utf-16"),
        pytest.param(b"SSH-2.0-x\r\n", id="ssh"),
        pytest.param(b"Content-Type: x\r\n\r\n" + APPEND, id="a frame without length"),
        pytest.param(b"Content-Length: -1\r\n\r\n" + APPEND, id="a negative length"),
        pytest.param(b"Content-Length: 9e9\r\n\r\n" + APPEND, id="a length that is no number"),
        pytest.param(b"Content-Length: 1\r\nX: " + b"x" * 100_000, id="a header without end"),
    ],
)
def test_what_is_no_frame_is_closed_without_an_answer(daemon: Daemon, data: bytes) -> None:
    with healthy(daemon), daemon.connect() as link:
        # The daemon may close the connection before the end of the data.
        with suppress(BrokenPipeError, ConnectionResetError):
            link.send(data)
        assert link.rest() == b""


@pytest.mark.parametrize(
    ("data", "code"),
    [
        pytest.param(b'{"id":1,"method":\0}\n', -32700, id="a nul byte"),
        pytest.param(b'{"id":1,"method":"\xff"}\n', -32700, id="not utf-8"),
        pytest.param(b'{"id":1,"method":"\xed\xa0\x80"}\n', -32700, id="a surrogate in utf-8"),
        pytest.param(b'{"id":1,\n', -32700, id="half a request"),
        pytest.param(b"{} {}\n", -32700, id="two in a line"),
        pytest.param(b"[" * 100_000 + b"\n", -32700, id="deep nesting"),
        pytest.param(b'{"a":' * 100_000 + b"\n", -32700, id="deep nesting of objects"),
        pytest.param(
            b'{"method":"session/append","id":1,"params":'
            + b"[" * 100_000
            + b"]" * 100_000
            + b"}\n",
            None,
            id="deep nesting that is closed",
        ),
        pytest.param(b"[]\n", -32600, id="an empty batch"),
        pytest.param(b'{"id":{},"method":"server/ping"}\n', -32600, id="an object as id"),
        pytest.param(b'{"x":"' + b"x" * (33 << 20) + b'"}\n', -32014, id="33 MB"),
    ],
)
def test_a_bad_line_is_answered_and_the_next_one_is_served(
    daemon: Daemon, data: bytes, code: int | None
) -> None:
    with healthy(daemon), daemon.connect() as link:
        link.send(data + request("next", "server/ping"))
        answer = link.message()
        if code is None:
            # Nobody needs it; all that counts is that it is refused and no more.
            code = answer["error"]["code"]
            assert code in (-32700, -32602)
        assert answer["error"]["code"] == code
        assert answer["id"] is None or code == -32602
        assert link.answer("next") is not None


DEEP = b"[" * 50_000 + b"]" * 50_000


def test_a_payload_that_is_nested_too_deeply_is_refused_or_kept_as_it_is(daemon: Daemon) -> None:
    """The payload is opaque, so both outcomes are right, but every later reader must survive."""
    with daemon.connect() as link:
        link.create(session_id="session-b")
        link.send(
            b'{"id":1,"method":"append","params":{"session_id":"session-b",'
            b'"message":{"role":"user","content":"x","deep":' + DEEP + b"}}}\n"
        )
        raw = link.line()
        assert raw is not None
        assert raw.startswith((b'{"jsonrpc":"2.0","id":1', b'{"jsonrpc":"2.0","id":null,"error"'))
        for method in ("session/build_context", "session/tree", "session/path", "session/entries"):
            link.send(request(method, method, session_id="session-b"))
            answer = link.line()
            assert answer is not None
            assert b'"result":' in answer[:80]
        link.ask("session/close", session_id="session-b")
        assert link.ask("session/get", session_id="session-b")["session"]["seq"] in (0, 1)


def test_a_frame_of_33_mb_in_lsp_framing_is_skipped(daemon: Daemon) -> None:
    body = b'{"id":1,"method":"server/ping","params":{"x":"' + b"x" * (33 << 20) + b'"}}'
    ping = b'{"id":2,"method":"server/ping"}'
    with healthy(daemon), daemon.connect() as link:
        link.send(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        link.send(b"Content-Length: %d\r\n\r\n" % len(ping) + ping)
        link.end_input()
        framed = link.rest()
    frames: list[dict[str, Any]] = []
    while framed:
        header, _, framed = framed.partition(b"\r\n\r\n")
        size = int(header.removeprefix(b"Content-Length: "))
        frames.append(json.loads(framed[:size]))
        framed = framed[size:]
    refusal, pong = frames
    assert (refusal["id"], refusal["error"]["code"]) == (None, -32014)
    assert refusal["error"]["data"]["limit"] == FRAME_BYTES_MAX
    assert "result" in pong


BEGUN = {
    "half_a_line": APPEND[: len(APPEND) // 2],
    "half_a_frame": b"Content-Length: %d\r\n\r\n" % len(APPEND) + APPEND[: len(APPEND) // 2],
    "half_a_header": b"Content-Le",
    "nothing": b"",
}


@pytest.mark.parametrize("begin", BEGUN)
@pytest.mark.parametrize("politely", [True, False])
def test_half_a_frame_and_a_closed_connection_store_nothing(
    daemon: Daemon, begin: str, *, politely: bool
) -> None:
    with healthy(daemon), daemon.connect() as link:
        link.send(BEGUN[begin])
        if politely:
            link.end_input()
            answer = link.rest()
            # A line may lack its newline; half a line is no JSON. Frames have lengths.
            assert (b"-32700" in answer) == (begin == "half_a_line")


def test_an_append_without_a_newline_at_the_end_of_input_counts(daemon: Daemon) -> None:
    with daemon.connect() as link:
        link.create()
        link.send(APPEND.rstrip(b"\n"))
        link.end_input()
        assert json.loads(link.rest())["result"]["seq"] == 1


def test_a_hundred_connections_that_say_nothing_harm_nobody(daemon: Daemon) -> None:
    silent = [daemon.connect() for _ in range(100)]
    try:
        with healthy(daemon):
            pass
    finally:
        for link in silent:
            link.close()


def test_a_client_that_asks_and_never_reads_harms_nobody(daemon: Daemon) -> None:
    """Its answers fill its outbox, then the daemon stops reading from it; other clients go on."""
    with healthy(daemon), daemon.connect() as link:
        asks = request(1, "server/info") * 1000
        assert link.flood(asks, 64 << 20) < 64 << 20
