"""How much larger a context may have become, at a glance at what was added to it.

Law: an upper bound, or None where only reading every message would tell. It serves hints: whoever
asks for figures gets estimates.
"""

from __future__ import annotations

from typing import Final

from sessiond.model.row import CONTEXT_KINDS
from sessiond.service.log import chunks
from sessiond.service.opened import Opened
from sessiond.session.context import BEGINS
from sessiond.session.estimates import Estimator

__all__ = ["growth"]

_TELLING: Final = (b'"usage"', b"image")
"""A message with one of these may come to more, or less, than its size says."""


def growth(opened: Opened, estimator: Estimator, since: int, leaf: int) -> int | None:
    """How many tokens more than at `since` the context at `leaf` may have at most. Reads lines."""
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
    if at != since:
        return None
    size = 0
    for chunk in chunks(opened, reversed(added)):
        for line in opened.journal.read_many(chunk):
            if any(word in line for word in _TELLING):
                return None
            size += len(line)
    return estimator.at_most(size, len(added))
