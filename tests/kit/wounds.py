"""Wounds of a file of lines, as killed and racing writers and a power loss leave them.

A wound takes the lines of a file, a line and a chance, and returns the damaged lines together with the
whole records that are left, in the order in which a reader must take them.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple


class Wounded(NamedTuple):
    """A damaged file and the whole records in it; `is_list_order` if a list keeps the damaged order."""

    lines: list[bytes]
    whole: list[bytes]


Wound = Callable[[Sequence[bytes], int, random.Random], Wounded]


def is_between_messages(half: bytes) -> bool:
    """Return whether half a line ends in a list of messages, between two of them.

    The message beside such a cut looks like a record that was glued to the cut, or that it was glued to.
    sessiond takes it for a record, since then nothing is lost.
    """
    try:
        found = json.loads(half.removesuffix(b",") + b"]}}")
    except ValueError:
        return False
    return isinstance(found, dict) and "messages" in (found.get("$set") or ())


def _cut(line: bytes, chance: random.Random) -> int:
    """Return a place in a line at which a reader can tell what the halves are."""
    while is_between_messages(line[: (at := chance.randrange(1, len(line)))]):
        pass
    return at


def _replaced(lines: Sequence[bytes], at: int, by: Sequence[bytes], lost: Sequence[int]) -> Wounded:
    """Return a file with the lines at and behind `at` replaced, which has lost some records."""
    left = [line for number, line in enumerate(lines) if number not in lost]
    return Wounded([*lines[:at], *by, *lines[at + 2 :]], left)


def dropped(lines: Sequence[bytes], at: int, chance: random.Random) -> Wounded:
    """Leave out a record."""
    del chance
    return _replaced(lines, at, [lines[at + 1]], [at])


def cut(lines: Sequence[bytes], at: int, chance: random.Random) -> Wounded:
    """Cut a record off, and begin the next one on a line of its own."""
    return _replaced(lines, at, [lines[at][: _cut(lines[at], chance)], lines[at + 1]], [at])


def headless(lines: Sequence[bytes], at: int, chance: random.Random) -> Wounded:
    """Lose the beginning of a record."""
    return _replaced(lines, at, [lines[at][_cut(lines[at], chance) :], lines[at + 1]], [at])


def glued(lines: Sequence[bytes], at: int, chance: random.Random) -> Wounded:
    """Leave the newline between two records out."""
    del chance
    return _replaced(lines, at, [lines[at] + lines[at + 1]], [])


def spliced(lines: Sequence[bytes], at: int, chance: random.Random) -> Wounded:
    """Glue a record behind one that was cut off."""
    return _replaced(lines, at, [lines[at][: _cut(lines[at], chance)] + lines[at + 1]], [at])


def tail_before(lines: Sequence[bytes], at: int, chance: random.Random) -> Wounded:
    """Glue a record behind the end of another one."""
    return _replaced(lines, at, [lines[at][_cut(lines[at], chance) :] + lines[at + 1]], [at])


def tail_behind(lines: Sequence[bytes], at: int, chance: random.Random) -> Wounded:
    """Glue the end of a record behind a whole one."""
    tail = lines[at + 1][_cut(lines[at + 1], chance) :]
    return _replaced(lines, at, [lines[at] + tail], [at + 1])


def zeros_before(lines: Sequence[bytes], at: int, chance: random.Random) -> Wounded:
    """Put zeros before a record."""
    return _replaced(lines, at, [bytes(chance.randrange(1, 900)) + lines[at], lines[at + 1]], [])


def zeros_behind(lines: Sequence[bytes], at: int, chance: random.Random) -> Wounded:
    """Put zeros behind a record."""
    return _replaced(lines, at, [lines[at] + bytes(chance.randrange(1, 900)), lines[at + 1]], [])


def zeros_between(lines: Sequence[bytes], at: int, chance: random.Random) -> Wounded:
    """Put zeros in the place of a newline."""
    return _replaced(lines, at, [lines[at] + bytes(chance.randrange(1, 900)) + lines[at + 1]], [])


def zeros_spliced(lines: Sequence[bytes], at: int, chance: random.Random) -> Wounded:
    """Put zeros in the place of a record's end and of the newline behind the record."""
    end = _cut(lines[at], chance)
    zeros = bytes(len(lines[at]) - end + 1)
    return _replaced(lines, at, [lines[at][:end] + zeros + lines[at + 1]], [at])


def hole(lines: Sequence[bytes], at: int, chance: random.Random) -> Wounded:
    """Put zeros into a record."""
    end = _cut(lines[at], chance)
    begin = chance.randrange(end)
    holed = lines[at][:begin] + bytes(end - begin) + lines[at][end:]
    return _replaced(lines, at, [holed, lines[at + 1]], [at])


def swapped(lines: Sequence[bytes], at: int, chance: random.Random) -> Wounded:
    """Exchange two records."""
    del chance
    return _replaced(lines, at, [lines[at + 1], lines[at]], [])


WOUNDS: Final[Mapping[str, Wound]] = {
    wound.__name__: wound
    for wound in (
        *(dropped, cut, headless, glued, spliced, tail_before, tail_behind),
        *(zeros_before, zeros_behind, zeros_between, zeros_spliced, hole, swapped),
    )
}
