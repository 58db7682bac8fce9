"""Whether what everybody was told agrees with the file: the proof behind faults under load.

Law: it is given what was told and what is there, and knows no daemon, no process
and no clock. An empty answer means: every acknowledged entry is in the file once,
at the seq that was told, on one branch, and every subscriber saw all of it.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

__all__ = ["Acknowledged", "Seen", "Stored", "digest", "faults", "stored_in"]


class Acknowledged(Struct, frozen=True):
    """One append that was answered: what was sent, and where each entry was stored.

    `by` names who waited for it before sending the next one.
    """

    by: str
    texts: tuple[str, ...]
    seqs: tuple[int, ...]
    ids: tuple[str, ...]
    duplicate: bool = False


class Seen(Struct, frozen=True):
    """One event of a subscription. A log that was replaced has no seq."""

    seq: int | None
    id: str
    digest: str


class Stored(Struct, frozen=True):
    """One line of the file; its place in the file is its seq."""

    id: str
    parent_id: str | None
    text: str
    digest: str


class _Message(Struct):
    content: str


class _Line(Struct):
    id: str
    message: _Message
    parent_id: str | None = None


_read_line = msgspec.json.Decoder(_Line).decode


def digest(raw: bytes | Raw) -> str:
    """What two copies of an entry are compared by."""
    return hashlib.sha256(raw).hexdigest()[:16]


def text_in(content: str) -> str:
    """The mark at the start of a message; what follows only makes it longer."""
    return content.partition(":")[0]


def stored_in(file: bytes) -> tuple[list[Stored], list[str]]:
    """The entries of a session file of messages, the first one being seq 1, and its faults."""
    *lines, tail = file.split(b"\n")
    found = [f"the file ends in the middle of line {len(lines)}"] if tail else []
    stored: list[Stored] = []
    for seq, line in enumerate(lines[1:], 1):
        try:
            read = _read_line(line)
        except msgspec.DecodeError as error:
            found.append(f"line {seq} is not an entry: {error}")
            read = _Line("", _Message(""))
        text = text_in(read.message.content)
        stored.append(Stored(read.id, read.parent_id, text, digest(line)))
    return stored, found


def faults(
    stored: Sequence[Stored],
    acknowledged: Sequence[Acknowledged],
    subscribers: Mapping[str, Sequence[Seen]],
) -> list[str]:
    """Everything that is wrong, in words; nothing if all of it agrees."""
    found = _file_faults(stored)
    found += _promise_faults(stored, acknowledged)
    found += _order_faults(acknowledged)
    for name, seen in subscribers.items():
        found += [f"{name}: {fault}" for fault in _view_faults(stored, seen)]
    return found


def _file_faults(stored: Sequence[Stored]) -> list[str]:
    found = [f"{id_} is an id of {n} entries" for id_, n in _repeated(line.id for line in stored)]
    parent: str | None = None
    for seq, line in enumerate(stored, 1):
        if line.parent_id != parent:
            found.append(f"{line.text} at {seq} does not follow the entry before it")
        parent = line.id
    return found


def _promise_faults(stored: Sequence[Stored], acknowledged: Iterable[Acknowledged]) -> list[str]:
    """What was acknowledged is there once and where it was said to be; nothing else is there."""
    places: defaultdict[str, list[int]] = defaultdict(list)
    for seq, line in enumerate(stored, 1):
        places[line.text].append(seq)
    found: list[str] = []
    for append in acknowledged:
        for text, seq, id_ in zip(append.texts, append.seqs, append.ids, strict=True):
            at = places.pop(text, [])
            if not at:
                found.append(f"{text} was acknowledged and is lost")
            elif len(at) > 1:
                found.append(f"{text} is stored {len(at)} times, at {at}")
            elif at != [seq] or stored[seq - 1].id != id_:
                found.append(f"{text} was acknowledged as {id_} at {seq} and is at {at[0]}")
    found += [f"{text} is stored at {at} and nobody was told" for text, at in places.items()]
    return found


def _order_faults(acknowledged: Iterable[Acknowledged]) -> list[str]:
    """Whoever waits for an answer finds the next entry behind; entries of one append are neighbours."""
    last: dict[str, int] = {}
    found: list[str] = []
    for append in acknowledged:
        first = append.seqs[0]
        if append.seqs != tuple(range(first, first + len(append.seqs))):
            found.append(f"the entries of one append are at {append.seqs}")
        if first <= last.get(append.by, 0):
            found.append(f"{append.texts[0]} at {first} is before what {append.by} sent first")
        last[append.by] = append.seqs[-1]
    return found


def _view_faults(stored: Sequence[Stored], seen: Sequence[Seen]) -> list[str]:
    """A subscriber sees every entry once, in order, as it is stored."""
    found: list[str] = []
    expected = 1
    for event in seen:
        if event.seq is None:
            found.append(f"was told after {expected - 1} that the log is another one")
            continue
        if event.seq < expected:
            found.append(f"saw {event.seq} again or too late")
            continue
        if event.seq > expected:
            found.append(f"missed {_span(expected, event.seq - 1)}")
        expected = event.seq + 1
        if event.seq > len(stored):
            found.append(f"saw {event.seq}, which is not stored")
        elif (event.id, event.digest) != _face(stored[event.seq - 1]):
            found.append(f"saw another entry at {event.seq} than is stored")
    if expected <= len(stored):
        found.append(f"missed {_span(expected, len(stored))}")
    return found


def _face(line: Stored) -> tuple[str, str]:
    return line.id, line.digest


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first} to {last}"


def _repeated(values: Iterable[Any]) -> list[tuple[Any, int]]:
    return [(value, count) for value, count in Counter(values).items() if count > 1]
