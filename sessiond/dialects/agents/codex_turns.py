"""The turns of a rollout, which a rollback drops by their number.

A turn begins at its mark, an event, or at the first settings that name the turn. Where neither marks a turn,
the turn begins at the last item of the user before the event that repeats the user's words.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

_UUID_CHARS: Final = 36
_VERSION_AT: Final = 14


class Turn(Struct):
    """The state before a turn, and whether a user spoke in the turn. Lines are numbers here."""

    line: int
    leaf: int
    model: str | None
    is_asked: bool = False


class Turns:
    """The turns on the path."""

    def __init__(self) -> None:
        self._turns: list[Turn] = []
        # The turn that began with the user's last item, if no event marks where turns begin.
        self._unmarked: Turn | None = None

    def begin(self, here: Turn) -> None:
        """Begin a turn at a mark."""
        self._turns.append(here)

    def note_prompt(self, here: Turn) -> None:
        """Note an item of the user, which may be the beginning of a turn without a mark."""
        self._unmarked = here

    def ask(self, here: Turn) -> None:
        """Note that a user spoke in this turn; files without marks of turns begin one here."""
        if not self._turns or self._turns[-1].is_asked:
            self._turns.append(self._unmarked or here)
        self._turns[-1].is_asked = True
        self._unmarked = None

    def drop(self, count: int) -> Turn | None:
        """Drop the last `count` turns in which a user spoke; return the first turn that is dropped.

        The turns without a user's words that follow a dropped turn are dropped too.
        """
        turn: Turn | None = None
        while count > 0 and self._turns:
            turn = self._turns.pop()
            count -= turn.is_asked
        self._unmarked = None
        return turn


def is_older(one: str, other: str) -> bool:
    """Return whether two ids are UUIDs of version 7, whose order is that of time, and one is older."""
    are_timed = all(len(name) == _UUID_CHARS and name[_VERSION_AT] == "7" for name in (one, other))
    return are_timed and one.lower() < other.lower()
