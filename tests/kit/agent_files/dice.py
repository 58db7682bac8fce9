"""Chance, time and words of a generated session: all of them come from one seed.

Law: equal seeds give equal bytes, in every process and on every machine.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, TypeVar
from uuid import UUID

Item = TypeVar("Item")

START_MS: Final = 1_768_471_200_000  # 2026-01-15T10:00:00Z

WORDS: Final = (
    *("amber", "basin", "cedar", "delta", "ember", "fjord", "grove", "harbor", "inlet", "jetty"),
    *("kelp", "lagoon", "marsh", "north", "orchard", "pebble", "quarry", "river", "stone"),
    *("tide", "upland", "valley", "willow", "yarrow", "zenith"),
)

# Line ends that are none, both kinds of quotes, control characters, and a sign beyond 16 bits.
ODD: Final = ("\u2028", "\u2029", "\x85", "\r\n", "\t\x00", '"\\', "é\u0301", "\U0001f33f", "\x7f")

# A PNG of one pixel.
PIXEL: Final = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

BLOCK_BYTES: Final = 4096


@dataclass(frozen=True)
class Sizes:
    """Sizes of a generated session: turns (a move is one turn, or about one), bytes of one text."""

    turns: int = 80
    text_bytes: int = 60
    result_bytes: int = 120


class Dice:
    """Source of chance, of time and of words for one session."""

    def __init__(self, seed: int | str, start_ms: int = START_MS) -> None:
        self._random = random.Random(f"agent files {seed}")
        self.now_ms = start_ms
        self._texts = 0
        self._block = ""

    def chance(self, part: float) -> bool:
        """Return True in the given part of all cases."""
        return self._random.random() < part

    def number(self, least: int, most: int) -> int:
        """Return a number between two bounds, both included."""
        return self._random.randint(least, most)

    def pick(self, items: Sequence[Item]) -> Item:
        """Return one of the items."""
        return self._random.choice(items)

    def shuffled(self, items: Sequence[Item]) -> list[Item]:
        """Return the items in an order of chance."""
        return self._random.sample(items, len(items))

    def hex(self, digits: int) -> str:
        """Return hexadecimal digits."""
        return f"{self._random.getrandbits(4 * digits):0{digits}x}"

    def uuid(self) -> str:
        """Return a UUID of version 4."""
        return str(UUID(int=self._random.getrandbits(128), version=4))

    def uuid7(self) -> str:
        """Return a UUID of version 7, which holds the present time."""
        low = self._random.getrandbits(74)
        high = (self.now_ms << 16) | 0x7000 | (low >> 62)
        return str(UUID(int=(high << 64) | (0b10 << 62) | (low & ((1 << 62) - 1))))

    def tick(self, least_ms: int = 1, most_ms: int = 900) -> str:
        """Let time pass; return the new time."""
        self.now_ms += self.number(least_ms, most_ms)
        return stamp(self.now_ms)

    def text(self, size: int) -> str:
        """Return a text of about the given number of bytes, which no other text of the session equals.

        A long text repeats one block, so that megabytes of it cost no time.
        """
        self._texts += 1
        start = f"{self.pick(WORDS)} {self._texts}"
        if self.chance(0.08):
            start += f" {self.pick(ODD)} end"
        if size > BLOCK_BYTES:
            if not self._block:
                self._block = " " + " ".join(self._random.choices(WORDS, k=BLOCK_BYTES // 6))
            return start + self._block * (size // len(self._block))
        short = max(0, size - len(start)) // 6
        return " ".join([start, *self._random.choices(WORDS, k=short)])


def stamp(time_ms: int) -> str:
    """Return a time as all three programs write it."""
    seconds, rest = divmod(time_ms, 1000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:03}Z"


def spelled(line: Any) -> bytes:
    """Return a line as the programs spell it: compact, UTF-8 as it is, lone surrogates escaped."""
    text = json.dumps(line, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "backslashreplace")


def plan(dice: Dice, moves: Sequence[str], turns: int, first: str) -> list[str]:
    """Return the names of the moves to make: all of them in orders of chance, over and over."""
    names = [first]
    while len(names) < turns:
        names += dice.shuffled(moves)
    return names[:turns]
