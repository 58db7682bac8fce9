"""Wire: the client end of a connection for tests, with a framing of its own.

Wire does not use `rpc.framing`, so a mistake there does not cancel itself out. Wire accepts only
what the protocol allows a daemon to send.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Literal

import anyio
import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from sessiond import typed
from sessiond.model.events import NOTIFICATIONS
from sessiond.model.requests import CLIENT_REQUESTS
from sessiond.rpc.framing import Framing
from sessiond.transports.base import SocketPort

__all__ = ["RawWire", "Refusal", "Wire"]

_PATIENCE_SECONDS: Final = 120.0
_HEADER: Final = re.compile(rb"Content-Length: ([1-9][0-9]*)\r\n\r\n")


class Refusal(Exception):
    """An error answer, with the parts of its `error` member."""

    def __init__(self, code: int, message: str, data: dict[str, Any]) -> None:
        super().__init__(f"{code} {data.get('kind')}: {message}")
        self.code = code
        self.message = message
        self.data = data


class RawWire:
    """The client end of a connection as bytes and lines, lawful or not. For one task at a time."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._port = SocketPort(sock, "daemon")
        self._received = bytearray()

    async def send_bytes(self, data: bytes) -> None:
        """Send bytes as they are."""
        rest = memoryview(data)
        with anyio.fail_after(_PATIENCE_SECONDS):
            while rest:
                sent = self._port.send(rest)
                rest = rest[sent:]
                if rest:
                    await self._port.wait_writable()

    def send_some(self, data: bytes) -> int:
        """Send what the socket takes now. Return how many bytes these are."""
        return self._port.send(data)

    async def _receive_more(self) -> bool:
        """Wait for bytes. Return False when the daemon has closed."""
        while (data := self._port.recv()) is None:
            await self._port.wait_readable()
        self._received += data
        return bool(data)

    async def lines(self, count: int) -> list[bytes]:
        """Return the next lines, each with its newline."""
        with anyio.fail_after(_PATIENCE_SECONDS):
            found = self._received.count(b"\n")
            while found < count:
                before = len(self._received)
                assert await self._receive_more(), "the connection ended early"
                found += self._received.count(b"\n", before)
        *lines, self._received = self._received.split(b"\n", count)
        return [bytes(line) + b"\n" for line in lines]

    async def messages(self, count: int) -> list[Any]:
        """Return the next lines as values."""
        return [json.loads(line) for line in await self.lines(count)]

    async def message(self) -> Any:
        """Return the next line as a value."""
        (value,) = await self.messages(1)
        return value

    async def rest(self) -> bytes:
        """Return every byte up to the end of the connection."""
        with anyio.fail_after(_PATIENCE_SECONDS), suppress(ConnectionResetError):
            while await self._receive_more():
                pass
        data = bytes(self._received)
        self._received.clear()
        return data

    def end_input(self) -> None:
        """Stop sending; requests sent so far are still answered."""
        self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close the connection."""
        self._port.close()


class Wire(RawWire):
    """A client that sends requests and reads answers in order, for one task at a time."""

    def __init__(self, sock: socket.socket, framing: Framing = Framing.NDJSON) -> None:
        super().__init__(sock)
        self._cut: Callable[[bytearray], bytes | None] = _cut_line
        if framing is Framing.CONTENT_LENGTH:
            self._cut = _cut_frame
        self.framing = framing
        self._next_id = 1
        # Answers that arrived during the wait for another answer.
        self._answers: dict[Any, dict[str, Any]] = {}
        self.notifications: list[dict[str, Any]] = []
        """Notifications that arrived during the wait for an answer."""
        self.requests: list[dict[str, Any]] = []
        """Requests of the daemon that arrived during the wait for an answer."""

    # -- bodies ------------------------------------------------------------------------

    async def send(self, *bodies: bytes | dict[str, Any] | list[Any]) -> None:
        """Send messages, framed, in one write."""
        await self.send_bytes(b"".join(map(self._frame, bodies)))

    def _frame(self, body: bytes | dict[str, Any] | list[Any]) -> bytes:
        text = body if isinstance(body, bytes) else msgspec.json.encode(body)
        if self.framing is Framing.CONTENT_LENGTH:
            return b"Content-Length: %d\r\n\r\n" % len(text) + text
        return text + b"\n"

    async def receive(self) -> bytes:
        """Return the next body, checked for lawfulness.

        Raises EndOfStream when the daemon has closed.
        """
        with anyio.fail_after(_PATIENCE_SECONDS):
            while (body := self._cut(self._received)) is None:
                if not await self._receive_more():
                    assert not self._received, "the connection ended inside a frame"
                    raise anyio.EndOfStream
        _require_lawful(body)
        return body

    # -- calls -------------------------------------------------------------------------

    async def request(self, method: str, **params: Any) -> int:
        """Send a request without waiting; return its id."""
        number = self._next_id
        self._next_id += 1
        await self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return number

    async def answer(self, number: int) -> Any:
        """Return the result of a request; notifications that arrive first go to `notifications`.

        Answers to other requests are kept for later calls. Raises Refusal.
        """
        while number not in self._answers:
            message = typed.decode(await self.receive())
            if "method" in message:
                self._keep(message)
            else:
                self._answers[message["id"]] = message
        message = self._answers.pop(number)
        if "error" in message:
            error = message["error"]
            raise Refusal(error["code"], error["message"], error["data"])
        return message["result"]

    async def call(self, method: str, **params: Any) -> Any:
        """Send a request and wait for its result. Raises Refusal."""
        return await self.answer(await self.request(method, **params))

    async def refusal(self, method: str, **params: Any) -> Refusal:
        """Return the refusal of a request. Raises AssertionError for a result."""
        try:
            result = await self.call(method, **params)
        except Refusal as refused:
            return refused
        raise AssertionError(f"{method} was not refused: {result}")

    async def next_notification(self) -> dict[str, Any]:
        """Return the next notification, those that arrived during calls first."""
        if self.notifications:
            return self.notifications.pop(0)
        while not self.notifications:
            self._keep(typed.decode(await self.receive()))
        return self.notifications.pop(0)

    def _keep(self, message: dict[str, Any]) -> None:
        if "method" not in message:
            self._answers[message["id"]] = message
        elif "id" in message:
            self.requests.append(message)
        else:
            self.notifications.append(message)

    # -- the other way round -------------------------------------------------------------

    async def next_request(self) -> dict[str, Any]:
        """Return the next request of the daemon, those that arrived during calls first."""
        while not self.requests:
            self._keep(typed.decode(await self.receive()))
        return self.requests.pop(0)

    async def reply(self, request: dict[str, Any], result: Any) -> None:
        """Answer a request of the daemon."""
        await self.send({"jsonrpc": "2.0", "id": request["id"], "result": result})


class _Message(Struct, forbid_unknown_fields=True):
    """A message as a daemon may send it, batches apart: no other member is allowed at the top."""

    jsonrpc: Literal["2.0"]
    id: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: _Error | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET


class _Error(Struct, forbid_unknown_fields=True):
    code: int
    message: str
    data: dict[str, Raw]


_decode_batch: Final = typed.decoder(list[_Message]).decode
_decode_message: Final = typed.decoder(_Message).decode
_decode_members: Final = typed.decoder(dict[str, Raw]).decode
_decode_params: Final = {name: typed.decoder(kind).decode for name, kind in NOTIFICATIONS.items()}
_decode_asked: Final = {
    name: typed.decoder(asked.params).decode for name, asked in CLIENT_REQUESTS.items()
}


def _require_lawful(body: bytes) -> None:
    """Raise for a body that is neither an answer nor a notification or request in its shape."""
    for message in _decode_batch(body) if body[:1] == b"[" else [_decode_message(body)]:
        if isinstance(message.method, str) and isinstance(message.id, Raw):
            assert (message.result, message.error) == (UNSET, UNSET)
            assert int(bytes(message.id)) > 0, "our ids are small positive integers"
            assert isinstance(message.params, Raw), "every request has params"
            _decode_asked[message.method](message.params)
            continue
        if isinstance(message.method, UnsetType):
            assert message.id is not UNSET, "an answer has an id"
            assert (message.result is UNSET) != (message.error is UNSET), "exactly one of the two"
            continue
        assert (message.id, message.result, message.error) == (UNSET, UNSET, UNSET)
        assert isinstance(message.params, Raw), "every notification has params"
        _decode_params[message.method](message.params)
        known = NOTIFICATIONS[message.method].__struct_encode_fields__
        assert set(_decode_members(message.params)) <= set(known), "it has members of no meaning"


def _cut_line(received: bytearray) -> bytes | None:
    end = received.find(b"\n")
    if end < 0:
        return None
    line = bytes(received[:end])
    del received[: end + 1]
    return line


def _cut_frame(received: bytearray) -> bytes | None:
    end = received.find(b"\r\n\r\n") + 4
    if end < 4:
        return None
    header = _HEADER.fullmatch(received[:end])
    assert header is not None, "the daemon's header is exactly Content-Length: N"
    stop = end + int(header[1])
    if len(received) < stop:
        return None
    body = bytes(received[end:stop])
    del received[:stop]
    return body
