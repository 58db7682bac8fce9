"""The entries of a repaired file: all that are whole, each behind its parent.

Law: an entry keeps its words. A whole entry on a damaged line takes the line's place. An entry that stands
before its parent goes behind the parent, and so does what refers to the entry. An entry whose parent the file
lacks goes on at the entry at which its head is. Half an append at the end goes as a whole.

Where a head is, and what half an append is, the index says that will read the new file. So the new lines are
indexed here before they are written, and once more while that may find a parent for an entry that is left
without one: a second repair has nothing to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from sessiond.dialects.base import BadLine
from sessiond.dialects.lenient_json import with_field
from sessiond.dialects.recovery import pieces
from sessiond.journal.splitter import LongLine, is_blank
from sessiond.model.row import CompactionEffect, Kind, LabelEffect, LeafEffect, Row
from sessiond.model.times import rfc3339
from sessiond.service.log.indexer import Indexer
from sessiond.service.log.line_indexer import LineIndexer
from sessiond.session.columns import tree_before
from sessiond.session.index import Head

# Each pass but the last gives an entry a parent; damage needs two or three.
_PASSES_MAX: Final = 20


class MendedEntry(Struct):
    """An entry of the new file: its line in the old one, and what the index needs of it; a blank line has no row.

    `found` has the bytes of an entry on a damaged line, and `above` is the new parent of an entry without one.
    """

    seq: int
    row: Row | None
    found: bytes | None = None
    above: str | None = None
    is_moved: bool = False


class Mended(Struct, frozen=True):
    """The new file: the lines of the old one before `first`, and the entries behind them."""

    first: int
    entries: Sequence[MendedEntry] = ()


class Gaps:
    """The lines of a file from the first damaged line or missing parent on, as they are met."""

    def __init__(self, indexer: Indexer) -> None:
        self._indexer = indexer
        self._is_damaged = False
        # The line before which nothing changes: that of the damage, or the first one of the append around it.
        self._first = 1
        self._heads: Mapping[str, Head] = {}
        self._entries: list[MendedEntry] = []

    def visit(self, seq: int, line: bytes) -> None:
        """Index the next line, and note the line if there is damage. Raises what the indexer raises."""
        indexer = self._indexer
        if not (seq and indexer.session.rules.truncates):
            # No repair makes another program's file anew.
            indexer.visit(seq, line)
            return
        session = indexer.session
        if not self._is_damaged and indexer.atoms.first is None:
            self._first, self._heads = seq, session.heads.copy()
            self._entries.clear()
        indexer.visit(seq, line)
        is_entry = session.is_entry(seq)
        self._is_damaged |= is_entry and seq in session.rerouted and not session.parents[seq]
        if not (self._is_damaged or indexer.atoms.first is not None):
            return
        if is_entry:
            self._entries.append(MendedEntry(seq, _slim(indexer.dialect.row(line))))
        elif is_blank(line):
            self._entries.append(MendedEntry(seq, None))

    def damaged(self, seq: int, line: bytes) -> None:
        """Note the entries on a line that is none; the line itself may be long, and is not kept.

        An object that may be quoted in an entry that was cut off is an entry only if it is no older than
        what stands before.
        """
        session = self._indexer.session
        if not (session.rules.truncates or self._is_damaged):
            self._first = seq
        self._is_damaged = True
        if not session.rules.truncates or isinstance(line, LongLine):
            return
        for piece in pieces(line):
            try:
                row = self._indexer.dialect.row(piece.data)
            except BadLine:
                continue
            if row.id in session.ids or row.kind == Kind.OPAQUE or row.timestamp is None:
                continue
            if piece.is_apart or rfc3339(row.timestamp) >= session.updated_at:
                self._entries.append(MendedEntry(seq, _slim(row), piece.data))

    def mended(self, end: int) -> Mended:
        """Return the new file, once all lines were met; without damage, that is the lines before `end`."""
        if not self._is_damaged:
            return Mended(end)
        session, entries = self._indexer.session, self._whole()
        for _ in range(_PASSES_MAX):
            tree = tree_before(session, self._first, self._heads)
            entries, is_changed = _ordered(entries, tree.ids, session.rules.records)
            intake = LineIndexer(tree, self._indexer.dialect, self._indexer.intake.session_ids)
            are_left = False
            for place, entry in enumerate(entries, self._first):
                row = entry.row
                if row is None:
                    intake.take(place, b"")
                    continue
                if row.parent_id is not None and row.parent_id not in tree.ids:
                    above = tree.id_of(tree.heads.get(row.head, Head()).leaf)
                    if above is None:
                        are_left = True
                    else:
                        entry.above = row.parent_id = above
                        is_changed = True
                intake.take_row(place, row)
            half = intake.atoms.unfinished_but_for_bad_lines
            if half is not None:
                del entries[half - self._first :]
            # What is left without a parent may have a head by now, or no circle around it.
            if not (are_left and (is_changed or half is not None)):
                break
        return Mended(self._first, entries)

    def _whole(self) -> list[MendedEntry]:
        """Return the entries without those on damaged lines that are copies of other entries."""
        known, found = set(self._indexer.session.ids), list[MendedEntry]()
        for entry in self._entries:
            if entry.found is not None and entry.row is not None:
                if entry.row.id in known:
                    continue
                known.add(entry.row.id)
            found.append(entry)
        return found


def below(line: bytes, parent_id: str) -> bytes:
    """Return the line of an entry with another parent."""
    return with_field(line, "parent_id", msgspec.json.encode(parent_id))


def _slim(row: Row) -> Row:
    """Return the row without what decides no place: its time, and effects that may hold what was said."""
    row.timestamp = None
    if not isinstance(row.effect, LabelEffect | LeafEffect | CompactionEffect):
        row.effect = None
    return row


def _referred(row: Row) -> str | None:
    """Return the entry that an entry refers to, beside its parent."""
    match row.effect:
        case LabelEffect(target_id) | LeafEffect(target_id):
            return target_id
        case CompactionEffect(first_kept_entry_id):
            return first_kept_entry_id
        case _:
            return None


class _Waits(Struct):
    """The places that each place of some entries waits for.

    `firm` has the entries before that an entry refers to, `later` the parents that stand behind their entry, and
    `heads` for an entry without its parent the entry that moved its head last.
    """

    firm: list[list[int]]
    later: dict[int, int]
    heads: dict[int, int]

    def cut_circles(self) -> None:
        """Let no entry wait for itself: those of a circle wait for no parent behind them, or for no head."""
        wants = [list(one) for one in self.firm]
        for loose in (self.later, self.heads):
            for at, above in loose.items():
                wants[at].append(above)
            circles = _circles(loose, wants)
            for at, above in [*loose.items()]:
                if circles[at] == circles[above]:
                    del loose[at]
                    wants[at].remove(above)


def _waits(
    entries: Sequence[MendedEntry], known: Mapping[str, int], records: frozenset[int]
) -> _Waits:
    """Return what entries wait for; `known` has the ids of what stands before them all."""
    places = {entry.row.id: at for at, entry in enumerate(entries) if entry.row is not None}
    found = _Waits([], {}, {})
    seen: dict[str, int] = {}
    moves: dict[str, int] = {}
    for at, entry in enumerate(entries):
        row, firm = entry.row, list[int]()
        found.firm.append(firm)
        if row is None:
            continue
        firm += [seen[name] for name in (row.parent_id, _referred(row)) if name in seen]
        if row.parent_id is not None and row.parent_id not in seen and row.parent_id not in known:
            # A later entry of the entry's own id is no parent.
            if row.parent_id != row.id and row.parent_id in places:
                found.later[at] = places[row.parent_id]
            elif row.head in moves:
                found.heads[at] = moves[row.head]
        seen[row.id] = at
        if row.kind not in records or isinstance(row.effect, LeafEffect):
            moves[row.head] = at
    return found


def _circles(roots: Iterable[int], wants: Sequence[Sequence[int]]) -> dict[int, int]:
    """Return the number of its circle for all that some places want: two of one circle have one number."""
    circles: dict[int, int] = {}
    numbers: dict[int, int] = {}
    path: list[int] = []
    bounds: list[int] = []
    for root in roots:
        steps = [] if root in numbers else [(root, iter([root]))]
        while steps:
            at, rest = steps[-1]
            for above in rest:
                if above not in numbers:
                    numbers[above] = len(numbers)
                    path.append(above)
                    bounds.append(above)
                    steps.append((above, iter(wants[above])))
                    break
                while above not in circles and numbers[bounds[-1]] > numbers[above]:
                    bounds.pop()
            else:
                steps.pop()
                if bounds and bounds[-1] == at:
                    bounds.pop()
                    while at not in circles:
                        circles[path.pop()] = at
    return circles


def _ordered(
    entries: list[MendedEntry], known: Mapping[str, int], records: frozenset[int]
) -> tuple[list[MendedEntry], bool]:
    """Return the entries, each behind all that it waits for, and whether any got another place."""
    waits = _waits(entries, known, records)
    if waits.later:
        waits.cut_circles()
    if not waits.later:
        return entries, False
    order: list[MendedEntry] = []
    waiting: set[int] = set()
    behind: dict[int, list[int]] = {}
    for upto in range(len(entries)):
        ready = [upto]
        while ready:
            at = ready.pop()
            wanted = (waits.later.get(at, -1), waits.heads.get(at, -1), *waits.firm[at])
            above = next((one for one in wanted if one > upto or one in waiting), None)
            if above is None:
                waiting.discard(at)
                order.append(entries[at])
                ready += reversed(behind.pop(at, []))
            else:
                entries[at].is_moved = True
                waiting.add(at)
                behind.setdefault(above, []).append(at)
    assert not waiting, "no entry waits for itself"
    return order, True
