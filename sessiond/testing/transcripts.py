"""Transcripts: messages of clients and the expected answers, played against a daemon.

    # a remark
    > {"id":1,"method":"server/ping"}
    < {"jsonrpc":"2.0","id":1,"result":{"ok":true,
        "instance_id":"session-0","draining":false}}

    watcher> {"id":1,"method":"subscribe","params":{"session_id":"session-1"}}

A name before the arrow is another connection. Lines sent in a row go out in one write; a blank line
or a remark ends the row. A line that starts with four spaces continues the line above. `< closed`
is the end of a connection. In an object of an answer `…` stands for members that are not shown; the
shown part is checked (`elision`).

`play` returns the transcript as it happened. A test compares it with the text of the file, or
writes it back. `play` knows nothing of the framing.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import groupby
from typing import Final, Literal

import anyio
from msgspec import Struct

from sessiond.rpc.framing import Framing
from sessiond.testing.daemon import Daemon
from sessiond.testing.elision import ELLIPSIS, fits
from sessiond.testing.wire import Wire

__all__ = ["Line", "Placeholders", "parse", "play", "render"]

_ARROW: Final = re.compile(r"([a-z]*)([<>]) (.*)")
_INDENT: Final = "    "
_WIDTH: Final = 110
_CLOSED: Final = "closed"
_NOTHING: Final = "nothing came"
# Used only when a transcript is recorded: after so long without a byte, no more bytes are expected.
# Events for other connections are in their sockets before the sender has its answer.
_QUIET_SECONDS: Final = 0.1
_OTHERS_QUIET_SECONDS: Final = 0.01

Placeholders = Sequence[tuple[str, str]]
"""Pairs of a shown text and its value on this machine in this run."""


class Line(Struct, frozen=True):
    """A body that a connection sent or received, or a remark, which has no arrow."""

    arrow: Literal["<", ">", ""]
    connection: str
    body: str


def parse(text: str) -> list[Line]:
    """Return the lines of a transcript, continued ones joined."""
    lines: list[Line] = []
    for row in text.removesuffix("\n").split("\n"):
        found = _ARROW.fullmatch(row)
        if found is not None:
            lines.append(Line("<" if found[2] == "<" else ">", found[1], found[3]))
        elif row.startswith(_INDENT) and lines and lines[-1].arrow:
            last = lines.pop()
            lines.append(Line(last.arrow, last.connection, last.body + row.removeprefix(_INDENT)))
        else:
            assert not row or row.startswith("#"), f"no line of a transcript: {row[:60]}"
            lines.append(Line("", "", row))
    return lines


def render(lines: Sequence[Line]) -> str:
    """Return the text of a transcript; `parse` reverses it."""
    return "".join(f"{row}\n" for line in lines for row in _rows(line))


def _rows(line: Line) -> Iterator[str]:
    """Yield the body in rows of a readable width, cut between the members of its JSON."""
    if not line.arrow:
        yield line.body
        return
    row, fresh = f"{line.connection}{line.arrow} ", True
    for part in _parts(line.body):
        if len(row) + len(part) > _WIDTH and not fresh:
            yield row
            row = _INDENT
        row, fresh = row + part, False
    yield row


def _parts(body: str) -> Iterator[str]:
    """Yield pieces that end behind a comma outside strings."""
    begin, in_string, escaped = 0, False, False
    for at, character in enumerate(body):
        if escaped:
            escaped = False
        elif character == '"':
            in_string = not in_string
        elif character == "\\":
            escaped = True
        elif character == "," and not in_string:
            yield body[begin : at + 1]
            begin = at + 1
    yield body[begin:]


async def play(
    lines: Sequence[Line],
    daemon: Daemon,
    framing: Framing,
    *,
    placeholders: Placeholders = (),
    recording: bool = False,
) -> list[Line]:
    """Send what `lines` send and return the transcript as it happened.

    Reads as many bodies as `lines` expect, and all unexpected bodies at the end. When `recording`,
    reads all bodies until the connections are quiet.
    """
    happened: list[Line] = []
    async with _Stage(daemon, framing, placeholders).open() as stage:
        for sent, got in _turns(lines):
            happened += [line for line in sent if not line.arrow]
            rows = [line for line in sent if line.arrow]
            await stage.send(rows)
            happened += rows
            if recording:
                came = await stage.whatever_comes(rows)
            else:
                came = [await stage.next(line.connection) for line in got]
            happened += _elided(came, got)
        happened += await stage.leftovers()
    return happened


def _elided(came: Sequence[Line], expected: Sequence[Line]) -> list[Line]:
    """Return the received lines; a line that fits an elided one is shown elided."""
    left = [line for line in expected if ELLIPSIS in line.body]
    shown: list[Line] = []
    for line in came:
        found = next(
            (
                one
                for one in left
                if one.connection == line.connection and fits(one.body, line.body)
            ),
            line,
        )
        if found is not line:
            left.remove(found)
        shown.append(found)
    return shown


def _turns(lines: Sequence[Line]) -> Iterator[tuple[list[Line], list[Line]]]:
    """Yield each row of sent lines (or a remark alone) with the lines that answer it."""
    sent: list[Line] = []
    got: list[Line] = []
    for line in lines:
        if line.arrow == "<":
            got.append(line)
            continue
        if sent and (got or not line.arrow or not sent[-1].arrow):
            yield sent, got
            sent, got = [], []
        sent.append(line)
    if sent:
        yield sent, got


class _Stage:
    """The connections of one transcript, opened when they first send."""

    def __init__(self, daemon: Daemon, framing: Framing, placeholders: Placeholders) -> None:
        self._daemon = daemon
        self._framing = framing
        self._placeholders = placeholders
        self._wires: dict[str, Wire] = {}
        self._closed: set[str] = set()
        self._stack = AsyncExitStack()

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[_Stage]:
        """Yield the stage; close every connection at the end."""
        async with self._stack:
            yield self

    async def send(self, lines: Sequence[Line]) -> None:
        """Send lines in a row of one connection in one write."""
        for name, row in groupby(lines, lambda line: line.connection):
            if name not in self._wires:
                connected = self._daemon.connect(self._framing)
                self._wires[name] = await self._stack.enter_async_context(connected)
            await self._wires[name].send(*(self._real(line.body).encode() for line in row))

    async def next(self, name: str) -> Line:
        """Return the next body that a connection receives."""
        try:
            body = self._shown((await self._wires[name].receive()).decode())
        except anyio.EndOfStream:
            self._closed.add(name)
            body = _CLOSED
        except TimeoutError:
            body = _NOTHING
        return Line("<", name, body)

    async def whatever_comes(self, sent: Sequence[Line]) -> list[Line]:
        """Return all bodies until none arrives for a while, one connection after another."""
        found: list[Line] = []
        senders = {line.connection for line in sent}
        for name in sorted(self._wires, key=lambda name: name not in senders):
            patience = _QUIET_SECONDS if name in senders else _OTHERS_QUIET_SECONDS
            while name not in self._closed:
                with anyio.move_on_after(patience) as quiet:
                    found.append(await self.next(name))
                if quiet.cancelled_caught:
                    break
        return sorted(found, key=lambda line: list(self._wires).index(line.connection))

    async def leftovers(self) -> list[Line]:
        """Return the bodies that no line expected."""
        found: list[Line] = []
        for name, wire in self._wires.items():
            if name not in self._closed:
                wire.end_input()
            while name not in self._closed:
                found.append(await self.next(name))
                if found[-1].body == _NOTHING:
                    break
        return [line for line in found if line.body != _CLOSED]

    def _real(self, body: str) -> str:
        return _replace(body, ((shown, real) for shown, real in self._placeholders))

    def _shown(self, body: str) -> str:
        return _replace(body, ((real, shown) for shown, real in self._placeholders))


def _replace(text: str, pairs: Iterator[tuple[str, str]]) -> str:
    for old, new in pairs:
        text = text.replace(old, new)
    return text
