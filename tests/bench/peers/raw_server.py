"""The raw peer of rows 0, 1 and 14: the least a server can do for an append, run as a process.

Law: it parses what sessiond must parse, answers what sessiond answers, joins what
one read brought into one write, and does nothing else: no session, no check, no
bound. What sessiond loses against it is the price of everything it promises.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Raw, Struct

__all__ = ["main"]

READ_BYTES: Final = 64 * 1024
TIMESTAMP: Final = "2026-01-15T10:30:00.000Z"


class Request(Struct):
    """The envelope; ids are echoed as sent."""

    method: str
    id: Raw
    params: Raw = Raw(b"{}")


class AppendParams(Struct):
    """The minimal params of an append."""

    session_id: str
    message: Raw
    durability: str = "disk"


class SessionParams(Struct):
    """Every other method here."""

    session_id: str


class Stored(Struct):
    """A stored entry, as in the answer of session/append."""

    id: str
    parent_id: str | None
    seq: int
    timestamp: str


class Appended(Struct):
    """The answer of session/append."""

    entries: list[Stored]
    leaf_id: str
    seq: int
    head: str
    duplicate: bool
    durability: str


_encode = msgspec.json.Encoder().encode
_decode_request = msgspec.json.Decoder(Request).decode
_decode_append = msgspec.json.Decoder(AppendParams).decode
_decode_session = msgspec.json.Decoder(SessionParams).decode


class Session:
    """A session: the number of its appends, and its watchers."""

    def __init__(self) -> None:
        self.seq = 0
        self.leaf_id: str | None = None
        self.watchers: list[asyncio.Transport] = []
        self.events: list[bytes] = []


class Server:
    """The sessions of this process; a session is made when it is first named."""

    def __init__(self) -> None:
        self.sessions: dict[str, Session] = {}
        self.touched: list[Session] = []
        self.methods: dict[str, Callable[[Raw, asyncio.Transport], bytes]] = {
            "session/append": self.append,
            "session/create": self.create,
            "session/subscribe": self.subscribe,
            "raw/count": self.count,
        }

    def create(self, params: Raw, _: asyncio.Transport) -> bytes:
        """session/create."""
        name = _decode_session(params).session_id
        self.sessions[name] = Session()
        return b'{"session":{"id":%s,"path":null}}' % _encode(name)

    def subscribe(self, params: Raw, transport: asyncio.Transport) -> bytes:
        """session/subscribe."""
        self.sessions[_decode_session(params).session_id].watchers.append(transport)
        return b"{}"

    def count(self, params: Raw, _: asyncio.Transport) -> bytes:
        """Return the number of parsed appends."""
        return _encode(self.sessions[_decode_session(params).session_id].seq)

    def append(self, params: Raw, _: asyncio.Transport) -> bytes:
        """session/append; with watchers also one line and one event, encoded once."""
        asked = _decode_append(params)
        session = self.sessions[asked.session_id]
        session.seq = seq = session.seq + 1
        parent_id, entry_id = session.leaf_id, f"{seq:08x}"
        session.leaf_id = entry_id
        if session.watchers:
            if not session.events:
                self.touched.append(session)
            session.events.append(_event(asked, parent_id, entry_id, seq))
        stored = Stored(entry_id, parent_id, seq, TIMESTAMP)
        return _encode(
            Appended([stored], entry_id, seq, "main", duplicate=False, durability="memory")
        )

    def publish(self) -> None:
        """Send all events of one read, joined: one write per watcher."""
        for session in self.touched:
            joined = b"".join(session.events)
            session.events.clear()
            for watcher in session.watchers:
                watcher.write(joined)
        self.touched.clear()


def _event(asked: AppendParams, parent_id: str | None, entry_id: str, seq: int) -> bytes:
    line = b'{"type":"message","id":"%s","parent_id":%s,"timestamp":"%s","message":%s}' % (
        entry_id.encode(),
        _encode(parent_id),
        TIMESTAMP.encode(),
        asked.message,
    )
    return (
        b'{"jsonrpc":"2.0","method":"session/event","params":{"session_id":"%s",'
        b'"epoch":"0123456789abcdef","seq":%d,"entry":%s,"head":"main","leaf_id":"%s",'
        b'"origin":{"request_id":"%d"}}}\n'
        % (asked.session_id.encode(), seq, line, entry_id.encode(), seq)
    )


class Connection(asyncio.BufferedProtocol):
    """Splits on newlines, answers every whole line of a read with one write."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._buffer = memoryview(bytearray(READ_BYTES))
        self._parts: list[bytes] = []
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        transport = self._transport
        assert transport is not None
        data = bytes(self._buffer[:nbytes])
        if self._parts:
            self._parts.append(data)
            if b"\n" not in data:
                return
            data = b"".join(self._parts)
            self._parts.clear()
        *lines, rest = data.split(b"\n")
        if rest:
            self._parts.append(rest)
        methods = self._server.methods
        answers = []
        for line in lines:
            request = _decode_request(line)
            result = methods[request.method](request.params, transport)
            answers.append(b'{"jsonrpc":"2.0","id":%s,"result":%s}\n' % (request.id, result))
        self._server.publish()
        transport.write(b"".join(answers))


async def serve(path: str) -> None:
    """Serve until the process is ended."""
    server = Server()
    loop = asyncio.get_running_loop()
    listener = await loop.create_unix_server(lambda: Connection(server), path, backlog=1024)
    await listener.serve_forever()


def main() -> None:
    """`python -m tests.bench.peers.raw_server PATH`."""
    asyncio.run(serve(sys.argv[1]))


if __name__ == "__main__":
    main()
