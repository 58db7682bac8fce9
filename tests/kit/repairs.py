"""A judge of repairs: which entries of a file a repair has lost, and which stand elsewhere than it says."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

__all__ = ["repair_faults"]


def repair_faults(whole: Sequence[bytes], made: Sequence[bytes], moved: int) -> Iterator[str]:
    """Yield what a repair that says that `moved` entries go behind others did to the entries of a file.

    An entry whose parent is missing gets another one, and half an append goes as a whole. All else that is an
    entry stays, and all but the moved ones stay in their order.
    """
    there = [_words(line) for line in whole if b'"atom"' not in line]
    said = [_words(line) for line in made]
    lost = [*(Counter(there) - Counter(said))]
    if lost:
        yield f"a repair lost {lost[0][:200]!a}"
    elif len(there) - _in_order(there, said) > moved:
        yield "a repair gave entries another place"


def _words(line: bytes) -> str:
    """Return what an entry says, but for its parent."""
    members = json.loads(line)
    members.pop("parent_id", None)
    return json.dumps(members, sort_keys=True)


def _in_order(there: Sequence[str], said: Sequence[str]) -> int:
    """Return how many of some texts, at most, stand in the same order among others."""
    places = defaultdict[str, list[int]](list)
    for at, text in enumerate(said):
        places[text].append(at)
    # The last place of a row of each length, where that is the least one.
    ends: list[int] = []
    for text in there:
        for at in reversed(places[text]):
            length = bisect_left(ends, at)
            ends[length : length + 1] = [at]
    return len(ends)
