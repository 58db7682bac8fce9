"""The participants, in one thread: writers that pipeline appends, watchers that check all events.

Law: plain sockets that speak the protocol, without a client library. A watcher checks every seq and
every content, and adds the bytes of each entry to a digest.
"""

from __future__ import annotations

import hashlib
import selectors
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, Protocol, Self

import msgspec
from msgspec import Raw, Struct

from tests.kit.patience import PATIENCE_SECONDS

__all__ = ["Broken", "Watcher", "Writer", "drive", "open_socket", "stored_digest"]

_RECEIVE_BYTES: Final = 1 << 18


class Broken(Exception):
    """Something was promised and is not so."""


class _Params(Struct):
    seq: int = 0
    entry: Raw = Raw(b"{}")
    dropped_signals: int = 0


class _Message(Struct):
    method: str = ""
    id: int | None = None
    params: _Params = msgspec.field(default_factory=_Params)
    result: Raw = Raw(b"")
    error: Raw = Raw(b"")


class _Content(Struct):
    content: str


class _Entry(Struct):
    message: _Content


_decode: Final = msgspec.json.Decoder(_Message).decode
_decode_entry: Final = msgspec.json.Decoder(_Entry).decode


def open_socket(path: Path) -> socket.socket:
    """Open a connection on which every wait has a bound."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.settimeout(PATIENCE_SECONDS)
    sock.connect(str(path))
    return sock


class Participant(Protocol):
    """A participant with a socket, which is done at some time."""

    socket: socket.socket

    @property
    def is_done(self) -> bool:
        """True if the participant waits for nothing more."""
        ...

    def take(self) -> None:
        """Take the data that has arrived."""
        ...


def drive(cast: Iterable[Participant]) -> None:
    """Run all participants until they are done. Raises Broken if no data comes for a minute."""
    with selectors.DefaultSelector() as selector:
        left = 0
        for one in cast:
            if not one.is_done:
                selector.register(one.socket, selectors.EVENT_READ, one)
                left += 1
        while left:
            ready = selector.select(PATIENCE_SECONDS)
            if not ready:
                raise Broken(f"nothing came for {PATIENCE_SECONDS:.0f} s; {left} still wait")
            for key, _ in ready:
                key.data.take()
                if key.data.is_done:
                    selector.unregister(key.fileobj)
                    left -= 1


class _Lines:
    """A socket that is read line by line."""

    def __init__(self, path: Path) -> None:
        self.socket = open_socket(path)
        self._rest = b""

    def lines(self) -> list[bytes]:
        """Return the lines that the next chunk completes."""
        data = self.socket.recv(_RECEIVE_BYTES)
        if not data:
            raise Broken("the daemon closed the connection")
        *lines, self._rest = (self._rest + data).split(b"\n")
        return lines

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()


class Writer(_Lines):
    """Appends `count` messages of about `size` bytes, `window` of them without an answer."""

    def __init__(  # noqa: PLR0913 - what and how it writes
        self, path: Path, session_id: str, name: str, *, count: int, size: int, window: int
    ) -> None:
        super().__init__(path)
        self._head = (
            b'{"id":%%d,"method":"append","params":{"session_id":"%s","message":'
            b'{"role":"user","content":"%s-%%d %s"}}}\n'
        ) % (session_id.encode(), name.encode(), b"x" * size)
        self._count = count
        self._window = window
        self._sent = 0
        self.answered = 0

    @property
    def is_done(self) -> bool:
        """True if every append was acknowledged."""
        return self.answered == self._count

    def begin(self) -> None:
        """Send the first appends."""
        self._send_more()

    def take(self) -> None:
        """Answers: each makes room for another append."""
        for line in self.lines():
            if b'"error"' in line[:80]:
                raise Broken(f"an append was refused: {line[:300]!r}")
            self.answered += 1
        self._send_more()

    def _send_more(self) -> None:
        upto = min(self._count, self.answered + self._window)
        if upto > self._sent:
            more = b"".join(self._head % (n, n) for n in range(self._sent, upto))
            self._sent = upto
            self.socket.sendall(more)


class Watcher(_Lines):
    """A subscriber that expects `count` entries, every one and in order."""

    def __init__(self, path: Path, count: int) -> None:
        super().__init__(path)
        self._count = count
        self._next_of: dict[str, int] = {}
        self._digest = hashlib.sha256()
        self.seq = 0
        self.lagged = 0
        self.synced = 0

    @property
    def is_done(self) -> bool:
        """True if every entry has come, and after each lag the final `session/synced`."""
        return self.seq == self._count and self.synced == self.lagged

    @property
    def digest(self) -> str:
        """Digest of the entries' bytes, a line each."""
        return self._digest.hexdigest()

    def ask(self, method: str, **params: Any) -> Raw:
        """Ask and wait for the answer; nothing else may be under way."""
        request = {"id": 0, "method": method, "params": params}
        self.socket.sendall(msgspec.json.encode(request) + b"\n")
        while True:
            for line in self.lines():
                message = _decode(line)
                if message.id == 0:
                    if message.error:
                        raise Broken(f"{method}: {bytes(message.error)!r}")
                    return message.result
                self._hear(message)

    def take(self) -> None:
        """Events."""
        for line in self.lines():
            self._hear(_decode(line))

    def _hear(self, message: _Message) -> None:
        if message.method == "session/event":
            params = message.params
            if params.seq != self.seq + 1:
                raise Broken(f"seq {params.seq} came after {self.seq}")
            self.seq = params.seq
            self._digest.update(params.entry)
            self._digest.update(b"\n")
            name, _, number = _decode_entry(params.entry).message.content.partition("-")
            expected = self._next_of.get(name, 0)
            if int(number.partition(" ")[0]) != expected:
                raise Broken(f"at seq {params.seq}: {number[:20]} of {name} for {expected}")
            self._next_of[name] = expected + 1
        elif message.method == "session/lagged":
            self.lagged += 1
        elif message.method == "session/synced":
            self.synced += 1


def stored_digest(file: Path) -> str:
    """Return the digest of a session file's entries, as a watcher computes it."""
    digest = hashlib.sha256()
    with file.open("rb") as lines:
        next(lines)
        for line in lines:
            digest.update(line)
    return digest.hexdigest()
