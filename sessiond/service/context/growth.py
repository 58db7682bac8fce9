"""How a context may have changed, at a glance at what was added to it.

Law: it says too much rather than too little, or that only reading every message would tell. It
serves hints: whoever asks for figures gets estimates.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sessiond.model.row import CONTEXT_KINDS, Kind
from sessiond.service.log.log_reader import chunks
from sessiond.service.log.open_session import Opened
from sessiond.session.context.context import BEGINS
from sessiond.session.context.tokens import Estimator

__all__ = ["growth", "may_be_less"]

_USAGE: Final = b'"usage"'
_TELLING: Final = (_USAGE, b"image")
"""A message with one of these may come to more, or less, than its size says."""


def growth(opened: Opened, estimator: Estimator, since: int, leaf: int) -> int | None:
    """How many tokens more than at `since` the context at `leaf` may have at most. Reads lines."""
    added = _added(opened, since, leaf)
    if added is None:
        return None
    size = 0
    for line in _lines(opened, added):
        if any(word in line for word in _TELLING):
            return None
        size += len(line)
    return estimator.at_most(size, len(added))


def may_be_less(opened: Opened, since: int, leaf: int) -> bool:
    """Whether the context at `leaf` may have fewer tokens than at `since`. Reads the model's lines.

    What is added only adds, but for an answer that says what its whole request has cost.
    """
    added = _added(opened, since, leaf)
    if added is None:
        return True
    kinds = opened.session.kinds
    answers = [seq for seq in added if kinds[seq] == Kind.ASSISTANT]
    return any(_USAGE in line for line in _lines(opened, answers))


def _added(opened: Opened, since: int, leaf: int) -> list[int] | None:
    """What the context at `leaf` has behind that at `since`, None if it is no more of the same."""
    session = opened.session
    added: list[int] = []
    at = leaf
    while at > since:
        kind = session.kinds[at]
        if kind in BEGINS:
            return None
        if kind in CONTEXT_KINDS:
            added.append(at)
        at = session.parents[at]
    added.reverse()
    return added if at == since else None


def _lines(opened: Opened, seqs: list[int]) -> Iterator[bytes]:
    for chunk in chunks(opened, seqs):
        yield from opened.journal.read_many(chunk)
