"""The records of all actors of a torture run, one JSON line each, written as things happen.

Law: a record is passed to the kernel (`write(2)`) before the actor goes on, so a `kill -9` of the
actor loses no record. Times are CLOCK_MONOTONIC in nanoseconds, which is one clock for all
processes of a machine.

Records keep only the compared parts of entries and answers: see payloads.py and sights.py.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import msgspec
from msgspec import Struct

__all__ = [
    "Act",
    "Answered",
    "Asked",
    "Closed",
    "Connected",
    "Done",
    "Flushed",
    "Heard",
    "Killed",
    "Lagged",
    "Log",
    "Lost",
    "Notes",
    "Record",
    "Refused",
    "Seen",
    "Sent",
    "Synced",
    "Trouble",
    "Watching",
    "Writing",
    "Wrote",
    "now",
    "read_log",
]


class Sent(Struct, frozen=True, omit_defaults=True):
    """An entry of an append: enough facts to spell the entry again, byte for byte."""

    type: str
    mark: str
    id: str | None = None
    role: str = "user"
    size: int = 0
    flavour: int = 0
    target: str | None = None


class Act(Struct, frozen=True, omit_defaults=True):
    """A request. `params` has all params except the session and the entries."""

    method: str
    session: str
    params: dict[str, Any] = {}
    entries: tuple[Sent, ...] = ()


class _Moment(Struct, frozen=True, omit_defaults=True, tag=str.lower, tag_field="is"):
    t: int
    conn: str


class Connected(_Moment, frozen=True):
    """A new connection. `kind` is the client; only a raw one keeps requests in wire order."""

    kind: str


class Asked(_Moment, frozen=True):
    """A request is about to be sent; `n` is its number on the connection."""

    n: int
    act: Act


class Answered(_Moment, frozen=True):
    """A result of a request; `sight` is the compared part."""

    n: int
    sight: dict[str, Any] = {}


class Refused(_Moment, frozen=True):
    """An error of a request."""

    n: int
    kind: str
    data: dict[str, Any] = {}


class Lost(_Moment, frozen=True):
    """A request whose connection ended before the answer, so that its outcome is unknown."""

    n: int


class Watching(_Moment, frozen=True):
    """A subscription was answered. `after` None is "from now"; `types` and `heads` None is all."""

    session: str
    seq: int
    epoch: str
    after: int | None = None
    types: tuple[str, ...] | None = None
    heads: tuple[str, ...] | None = None
    replaced: str | None = None
    signals: bool = False


class Seen(_Moment, frozen=True):
    """An event. `leaf` is "" where the entry moves no head, else what was told (null is None)."""

    session: str
    seq: int
    id: str
    digest: str
    epoch: str = ""
    head: str | None = None
    leaf: str | None = ""
    external: bool = False


class Synced(_Moment, frozen=True):
    session: str
    seq: int


class Flushed(_Moment, frozen=True):
    """An answered flush: all events up to `seq` were sent; `asked` is the time of the request."""

    session: str
    seq: int
    asked: int = 0


class Lagged(_Moment, frozen=True):
    session: str
    seq: int
    dropped: int = 0


class Heard(_Moment, frozen=True):
    """A signal came."""

    session: str
    mark: str


class Closed(_Moment, frozen=True):
    """A subscription ended: by the daemon, or because the session is gone."""

    session: str
    reason: str


class Writing(_Moment, frozen=True):
    """A line is about to be appended to the file, beside the daemon."""

    session: str
    id: str
    digest: str


class Wrote(_Moment, frozen=True):
    """A finished write: the foreign line is in the file."""

    session: str
    id: str


class Trouble(_Moment, frozen=True):
    """A complaint of an actor about something that must never happen, in words."""

    text: str


class Killed(_Moment, frozen=True):
    """Something was done to `who` (daemon, or the name of an actor): kill, term, stop.

    A kill of the daemon is noted once the daemon has ended, all else before it is done.
    """

    who: str
    how: str


class Done(_Moment, frozen=True):
    """The actor ended because it was told to, with nothing left to wait for."""


Record = (
    Connected
    | Asked
    | Answered
    | Refused
    | Lost
    | Watching
    | Seen
    | Synced
    | Flushed
    | Lagged
    | Heard
    | Closed
    | Writing
    | Wrote
    | Trouble
    | Killed
    | Done
)

_decode = msgspec.json.Decoder(Record).decode
_encode = msgspec.json.Encoder().encode


def now() -> int:
    """Return the current time on the clock that all processes share."""
    return time.monotonic_ns()


class Notes(Protocol):
    """The port through which an actor writes its records."""

    def add(self, record: Record) -> None:
        """Write a record."""
        ...


class Log:
    """The log file of one actor."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def add(self, record: Record) -> None:
        """Write it down, in one write."""
        os.write(self._fd, _encode(record) + b"\n")


def read_log(path: Path) -> Iterator[Record]:
    """Yield the records of one log, without a last line that a kill cut short."""
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield _decode(line)
