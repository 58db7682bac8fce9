"""Upper bounds of a context's change, from a glance at the added lines.

Law: the answer is an upper bound, or None if only reading every message would tell. It serves
hints: a request for figures gets estimates.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sessiond.model.row import CONTEXT_KINDS, Kind
from sessiond.service.log.chunks import chunks
from sessiond.service.log.open_session import OpenSession
from sessiond.session.context.context import BEGINS
from sessiond.session.context.tokens import Estimator

_USAGE: Final = b'"usage"'
_TELLING: Final = (_USAGE, b"image")
"""Words of a message whose tokens its size does not bound."""


def growth(opened: OpenSession, estimator: Estimator, since: int, leaf: int) -> int | None:
    """Return an upper bound of the tokens that the context gained from `since` to `leaf`. Reads lines."""
    added = _added(opened, since, leaf)
    if added is None:
        return None
    size = 0
    for line in _lines(opened, added):
        if any(word in line for word in _TELLING):
            return None
        size += len(line)
    return estimator.at_most(size, len(added))


def may_be_less(opened: OpenSession, since: int, leaf: int) -> bool:
    """Return whether the context at `leaf` may have fewer tokens than at `since`.

    Reads the model's lines. New entries only add tokens, except an answer that reports the cost of its
    whole request.
    """
    added = _added(opened, since, leaf)
    if added is None:
        return True
    kinds = opened.session.kinds
    answers = [seq for seq in added if kinds[seq] == Kind.ASSISTANT]
    return any(_USAGE in line for line in _lines(opened, answers))


def _added(opened: OpenSession, since: int, leaf: int) -> list[int] | None:
    """Return the context entries added from `since` to `leaf`; None if the context did not only grow."""
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


def _lines(opened: OpenSession, seqs: list[int]) -> Iterator[bytes]:
    for chunk in chunks(opened.journal, seqs):
        yield from opened.journal.read_many(chunk)
