"""References: the entry that a person means by a short text, and the short form of an id.

Law: a short form from this module is accepted by this module, and means that entry alone. UUIDs of
version 7 made in one minute begin alike, and a later entry can begin like one that was printed
before. So the short form is the end of an id, which is random in a UUID and in a hash. An id of any
other form is a name that a person chose, and stays whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from sessiond.limits import REF_BEGINNING_MIN, REF_END_MIN
from sessiond.session.index import Session

# In a thousand entries, two ends of this length are equal once in ten thousand sessions.
_SHORT_CHARS: Final = 8
# If more ids share an end, the whole id is shown.
_RIVALS_MAX: Final = 64
_RANDOM: Final = r"[0-9A-Fa-f]{32}|[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"


def _is_random(name: str) -> bool:
    return re.fullmatch(_RANDOM, name) is not None


def entries_meant(session: Session, refs: Sequence[str]) -> list[list[int]]:
    """Return for each ref the seqs of the entries that it may mean, in the order of the file.

    A ref is an id, or a label, or at least four characters that an id begins with, or six that a
    random id ends with. The first of these readings that matches any entry counts.
    """
    partial = [ref for ref in refs if ref not in session.ids]
    labelled: dict[str, list[int]] = {}
    names: list[str] = []
    if partial:
        for seq, state in sorted(session.labels.copy().items()):
            labelled.setdefault(state.label, []).append(seq)
        starts = {ref[:REF_BEGINNING_MIN] for ref in partial}
        ends = {ref[-REF_END_MIN:] for ref in partial}
        names = [
            name
            for name in session.names
            if name[:REF_BEGINNING_MIN] in starts or name[-REF_END_MIN:] in ends
        ]
    return [
        [session.ids[ref]]
        if ref in session.ids
        else labelled.get(ref) or _found(session, ref, names)
        for ref in refs
    ]


def _found(session: Session, ref: str, names: Sequence[str]) -> list[int]:
    """Return the entries whose ids begin with `ref`, and those whose random ids end with it."""
    fits = (name for name in names if _fits(ref, name))
    return sorted({session.ids[name] for name in fits})


def _fits(ref: str, name: str) -> bool:
    if len(ref) >= REF_BEGINNING_MIN and name.startswith(ref):
        return True
    return len(ref) >= REF_END_MIN and name.endswith(ref) and _is_random(name)


def steps_to_resolve(session: Session, refs: Sequence[str]) -> int:
    """Return about how many comparisons of ids `entries_meant` and `short_ids` make."""
    partial = sum(ref not in session.ids for ref in refs)
    compared = partial + any(map(_is_random, refs))
    return len(refs) + compared * session.seq


def short_ids(session: Session, seqs: Iterable[int]) -> Mapping[int, str]:
    """Return for each entry the shortest end of its id that means this entry alone."""
    names = {seq: session.names[seq] for seq in seqs}
    ends = {name[-_SHORT_CHARS:] for name in names.values() if _is_random(name)}
    if not ends:
        return names
    labels = {state.label for state in session.labels.copy().values()}
    rivals = [
        name
        for name in session.names
        if name[-_SHORT_CHARS:] in ends or name[:_SHORT_CHARS] in ends
    ]
    by_end: dict[str, set[str]] = {end: set() for end in ends}
    for name in rivals:
        for end in {name[-_SHORT_CHARS:], name[:_SHORT_CHARS]} & ends:
            by_end[end].add(name)
    return {
        seq: _shortest(name, by_end.get(name[-_SHORT_CHARS:], set()), labels)
        for seq, name in names.items()
    }


def _shortest(name: str, rivals: set[str], labels: set[str]) -> str:
    if not _is_random(name):
        return name
    others = rivals - {name}
    if len(others) > _RIVALS_MAX:
        return name
    for size in range(_SHORT_CHARS, len(name)):
        end = name[-size:]
        # A word that begins with a dash is an option on a command line.
        if end[0] != "-" and end not in labels and not any(_fits(end, other) for other in others):
            return end
    return name
