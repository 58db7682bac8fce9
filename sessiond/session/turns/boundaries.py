"""Boundaries of turns on a path of the tree.

Law: a turn begins at each message of a user that answers no tool call. If another message of the
conversation stands above the first of them on a path, the first turn begins there. What stands
above the first turn is in no turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from sessiond.model.row import Kind
from sessiond.session.index import Session

_USER: Final = int(Kind.USER)
_CONVERSATION: Final = frozenset({_USER, int(Kind.ASSISTANT), int(Kind.TOOL)})

AnswersCall = Callable[[int], bool]
"""A test for the line of a user's message: whether the message answers a tool call."""


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


def turns_up(session: Session, seq: int, answers_call: AnswersCall) -> Iterator[TurnSpan]:
    """Yield the turns of the path to `seq`, the newest first, and walk no further than asked for."""
    kinds = session.kinds
    found: list[int] = []
    for at in session.up(seq):
        found.append(at)
        if kinds[at] == _USER and not answers_call(at):
            found.reverse()
            yield TurnSpan(found)
            found = []
    found.reverse()
    first = next((at for at, seq in enumerate(found) if kinds[seq] in _CONVERSATION), None)
    if first is not None:
        yield TurnSpan(found[first:])


def turns_down(
    session: Session, path: Sequence[int], answers_call: AnswersCall
) -> Iterator[TurnSpan]:
    """Yield the turns of a path, the oldest first. A path may begin where a turn begins."""
    kinds = session.kinds
    found: list[int] = []
    for at in path:
        if found and kinds[at] == _USER and not answers_call(at):
            yield TurnSpan(found)
            found = []
        if found or kinds[at] in _CONVERSATION:
            found.append(at)
    if found:
        yield TurnSpan(found)
