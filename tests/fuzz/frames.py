"""Attacks on a real daemon: streams of mutated frames, sent in any pieces, and their answers.

Law: an attacker reads every byte up to the end of the connection, and all bytes are accounted
for. A stream is made before it is sent, so a seed repeats the attack exactly.
"""

from __future__ import annotations

import random
import selectors
import socket
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tests.fuzz.account import faults
from tests.fuzz.corpus import bodies
from tests.fuzz.mutations import IDS, mutated_body, mutated_bytes
from tests.fuzz.streams import debts
from tests.kit.patience import PATIENCE_SECONDS

__all__ = ["Attack", "attacks", "besiege"]

_BODIES_MAX: Final = 30
_CHANGED_FRAMING_PART: Final = 0.05
_READ_BYTES: Final = 1 << 16
_SIZES: Final = (1, 2, 3, 7, 50, 1000, _READ_BYTES - 1, _READ_BYTES, _READ_BYTES + 1, 1 << 20)
# Half of these headers are valid, at least for some readers.
_HEADERS: Final = (
    *("Content-Length: %d\r\n\r\n",) * 12,
    *("content-length: %d\r\n\r\n", "CONTENT-LENGTH: %d\r\n\r\n"),
    "Content-Length: %d\r\nContent-Type: application/vscode-jsonrpc; charset=utf-8\r\n\r\n",
    "Content-Type: application/vscode-jsonrpc; charset=utf8\r\nContent-Length: %d\r\n\r\n",
    "Content-Type: text/plain; charset=latin-1\r\nContent-Length: %d\r\nX-A: b\r\n\r\n",
    *("\r\nContent-Length: %d\r\n\r\n", "Content-Length:%d\r\n\r\n", "Content-Length : %d\r\n\r\n"),
    *("Content-Length: %d\n\n", "Content-Length: %d\r\n\n", "Content-Length: %d\n\r\n"),
    *("Content-Length: -%d\r\n\r\n", "Content-Length: +%d\r\n\r\n", "Content-Length: 0x%d\r\n\r\n"),
    *(
        "Content-Length: 00%d\r\n\r\n",
        "Content-Length: %d.0\r\n\r\n",
        "Content-Length: \r\n %d\r\n\r\n",
    ),
    *("Content-Length: 1%d\r\n\r\n", "Content-Length: 99999999999%d\r\n\r\n"),
    *("Content-Length: 9999999999999999999999%d\r\n\r\n", "Content-Length: %d, 5\r\n\r\n"),
    *("Content-Length: 5\r\nContent-Length: %d\r\n\r\n", "Content-Type: %d\r\n\r\n", "%d\r\n\r\n"),
    *("Content-Length: %d\r\nno colon\r\n\r\n", "Content-Length: %d\r\n folded\r\n\r\n"),
    "Content-Length: %d\r\nX: " + "x" * 9000 + "\r\n\r\n",
)


class Attack(NamedTuple):
    """A stream and the sizes of the pieces in which it is sent."""

    stream: bytes
    is_framed: bool
    sizes: tuple[int, ...]


def attacks(dice: random.Random) -> Iterator[Attack]:
    """Attacks without end."""
    while True:
        is_framed = dice.random() < 0.4
        chosen = [_body(dice) for _ in range(dice.randrange(1, _BODIES_MAX))]
        frames = [_framed(body, dice) if is_framed else _line(body, dice) for body in chosen]
        if not is_framed and not frames[0].lstrip(b" \t\r\n").startswith((b"{", b"[")):
            # The first bytes, which decide the framing, mostly stay: else nothing would be read.
            frames.insert(0, b"{}\n")
        if is_framed and dice.random() < _CHANGED_FRAMING_PART:
            frames.insert(dice.randrange(1, len(frames) + 1), b'{"id":1,"method":"server/ping"}\n')
        stream = b"".join(frames)
        if dice.random() < 0.1:
            stream = mutated_bytes(stream, dice)
        is_framed = stream.lstrip(b" \t\r\n")[:1] not in (b"{", b"[")
        yield Attack(stream, is_framed, _sizes(len(stream), dice))


def _sizes(total: int, dice: random.Random) -> tuple[int, ...]:
    few = [size for size in _SIZES if size * 2000 > total]
    chosen = dice.choice(few)
    if dice.random() < 0.3:
        return tuple(dice.choice(few) for _ in range(20))
    return (chosen,)


def _body(dice: random.Random) -> bytes:
    others = bodies()
    body = dice.choice(others)
    if dice.random() < 0.6:
        body = mutated_body(body, dice, list(others))
    if dice.random() < 0.15:
        parts = [body, *(_body(dice) for _ in range(dice.choice([0, 1, 3, 10])))]
        dice.shuffle(parts)
        return b"[" + b",".join(parts) + b"]"
    if dice.random() < 0.01:
        # Long, but short enough for many frames a minute.
        return b'{"id":%b,"method":"server/ping","x":"%b"}' % (dice.choice(IDS), b"x" * 300_000)
    return body


def _line(body: bytes, dice: random.Random) -> bytes:
    return body + dice.choice([b"\n"] * 8 + [b"\r\n", b"\r\r\n", b"\n\n", b" \n"])


def _framed(body: bytes, dice: random.Random) -> bytes:
    header = dice.choice(_HEADERS[:18] if dice.random() < 0.93 else _HEADERS)
    return (header % len(body)).encode() + body


class _Attacker:
    """A running connection: the bytes still to send, and the received bytes."""

    def __init__(self, path: Path, attack: Attack) -> None:
        self.attack = attack
        self.received = bytearray()
        self.is_over = False
        self._rest = memoryview(attack.stream)
        self._turn = 0
        self._has_ended = False
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.connect(str(path))
        self.socket.setblocking(False)

    @property
    def interest(self) -> int:
        return selectors.EVENT_READ | (0 if self._has_ended else selectors.EVENT_WRITE)

    def write(self) -> None:
        """Send one piece; after the last, say that it was the last."""
        try:
            if not self._rest:
                self.socket.shutdown(socket.SHUT_WR)
                self._has_ended = True
                return
            size = self.attack.sizes[self._turn % len(self.attack.sizes)]
            self._rest = self._rest[self.socket.send(self._rest[:size]) :]
            self._turn += 1
        except BlockingIOError:
            return
        except OSError:
            # The daemon closed the connection, as it may after a bad header; earlier bytes stay.
            self._has_ended = True

    def read(self) -> None:
        """Take what has come."""
        try:
            data = self.socket.recv(1 << 20)
        except BlockingIOError:
            return
        except ConnectionResetError:
            data = b""
        self.received += data
        self.is_over = not data

    def faults(self) -> list[str]:
        """Return the faults of the received bytes."""
        owed = debts(self.attack.stream)
        return list(faults(bytes(self.received), owed, is_framed=self.attack.is_framed))


def besiege(path: Path, together: Sequence[Attack]) -> list[str]:
    """Run several attacks at once, each over its own connection; return the faults."""
    attackers = [_Attacker(path, attack) for attack in together]
    end = time.monotonic() + PATIENCE_SECONDS
    try:
        with selectors.DefaultSelector() as selector:
            for attacker in attackers:
                selector.register(attacker.socket, attacker.interest, attacker)
            while selector.get_map():
                if time.monotonic() > end:
                    return ["a connection was not closed"]
                for key, events in selector.select(1.0):
                    _step(selector, key.data, events)
    finally:
        for attacker in attackers:
            attacker.socket.close()
    return [fault for attacker in attackers for fault in attacker.faults()]


def _step(selector: selectors.BaseSelector, attacker: _Attacker, events: int) -> None:
    if events & selectors.EVENT_READ:
        attacker.read()
    if events & selectors.EVENT_WRITE and not attacker.is_over:
        attacker.write()
    if attacker.is_over:
        selector.unregister(attacker.socket)
    else:
        selector.modify(attacker.socket, attacker.interest, attacker)
