"""Boundaries of turns on a path of the tree, from the index alone.

Law: a turn begins at each message of a user. If an answer or a tool result stands above the first
user message of a path, the first turn begins there. What stands above the first turn is in no turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from sessiond.model.row import Kind
from sessiond.session.index import Session

__all__ = ["TurnSpan", "turns_down", "turns_up"]

_USER: Final = int(Kind.USER)
_RESPONSES: Final = frozenset({int(Kind.ASSISTANT), int(Kind.TOOL)})


class TurnSpan(Struct, frozen=True):
    """The entries of one turn, by seq, the first one first."""

    seqs: list[int]

    @property
    def first(self) -> int:
        """Line at which the turn begins."""
        return self.seqs[0]

    @property
    def last(self) -> int:
        """Last line of the turn on its path."""
        return self.seqs[-1]


def turns_up(session: Session, seq: int) -> Iterator[TurnSpan]:
    """Yield the turns of the path to `seq`, the newest first, and walk no further than asked for."""
    kinds = session.kinds
    found: list[int] = []
    for at in session.up(seq):
        found.append(at)
        if kinds[at] == _USER:
            found.reverse()
            yield TurnSpan(found)
            found = []
    found.reverse()
    first = _first_response(kinds, found)
    if first < len(found):
        yield TurnSpan(found[first:])


def turns_down(session: Session, seq: int) -> list[TurnSpan]:
    """Return the turns of the path to `seq`, the oldest first."""
    turns = [*turns_up(session, seq)]
    turns.reverse()
    return turns


def _first_response(kinds: bytearray, seqs: Sequence[int]) -> int:
    """Return the index of the first answer or tool result among these lines."""
    return next((at for at, seq in enumerate(seqs) if kinds[seq] in _RESPONSES), len(seqs))
