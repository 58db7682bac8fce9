"""Changes of a repair beside lines left out: whole entries on damaged lines, and parents that are missing.

Law: an entry keeps its words. A whole entry on a damaged line takes the line's place. An entry that stands
before its parent goes behind the parent, and so do the entries below that stand between the two. An entry
whose parent the file lacks goes on at the entry at which its head was before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from sessiond.dialects.base import BadLine
from sessiond.dialects.lenient_json import with_field
from sessiond.dialects.recovery import Piece, pieces
from sessiond.journal.splitter import LongLine
from sessiond.model.row import CompactionEffect, Kind, LabelEffect, LeafEffect, Row
from sessiond.model.times import rfc3339
from sessiond.service.log.indexer import Indexer
from sessiond.session.index import Head

__all__ = ["Gaps", "Mended", "below"]


class Mended(Struct, frozen=True):
    """The changes of a file, by its lines.

    `recovered` has the whole entries on bad lines, and `parents` the new parents of entries without one.
    `order` has the lines from the first one that gets another place, in their new order; `moved` is the
    number of those that go behind another line.
    """

    recovered: Mapping[int, list[bytes]] = {}
    parents: Mapping[int, str] = {}
    order: Sequence[int] = ()
    moved: int = 0


class _Orphan(Struct, frozen=True):
    """An entry whose parent is no earlier one: its line, the parent's id, its head and the head's leaf before."""

    seq: int
    parent_id: str
    head: str
    leaf: int


class _Damaged(Struct, frozen=True):
    """The entries that may be recovered from a line that is none, and the session before the line."""

    pieces: list[tuple[Piece, Row]]
    time: str
    heads: Mapping[str, Head]


class _Found(Struct, frozen=True):
    """A whole entry on a damaged line."""

    seq: int
    line: bytes
    row: Row


class Gaps:
    """The damaged lines and the missing parents of a file that only sessiond writes, as they are met."""

    def __init__(self, indexer: Indexer) -> None:
        self._indexer = indexer
        self._damaged: dict[int, _Damaged] = {}
        self._orphans: list[_Orphan] = []
        # The entries that a line refers to, and those of them that stand on earlier lines, from the first orphan on.
        self._names: dict[int, tuple[str, ...]] = {}
        self._leans: dict[int, tuple[int, ...]] = {}

    def visit(self, seq: int, line: bytes) -> None:
        """Index the next line, and note the line if its parent is missing. Raises what the indexer raises."""
        indexer = self._indexer
        if not (seq and indexer.session.rules.truncates):
            # No repair makes another program's file anew.
            indexer.visit(seq, line)
            return
        heads = indexer.session.heads.copy()
        indexer.visit(seq, line)
        session = indexer.session
        if not session.is_entry(seq):
            return
        is_orphan = seq in session.rerouted and not session.parents[seq]
        if not (is_orphan or self._orphans):
            return
        row = indexer.dialect.row(line)
        if is_orphan and row.parent_id is not None and session.ids.get(row.parent_id, seq) >= seq:
            leaf = heads.get(row.head, Head()).leaf
            self._orphans.append(_Orphan(seq, row.parent_id, row.head, leaf))
        self._names[seq] = names = _names(row)
        self._leans[seq] = _earlier(session.ids, names, seq)

    def damaged(self, seq: int, line: bytes) -> None:
        """Note the entries on a line that is none; the line itself may be long, and is not kept."""
        session, found = self._indexer.session, list[tuple[Piece, Row]]()
        if not session.rules.truncates or isinstance(line, LongLine):
            return
        for piece in pieces(line):
            try:
                row = self._indexer.dialect.row(piece.data)
            except BadLine:
                continue
            if row.id not in session.ids and row.kind != Kind.OPAQUE and row.timestamp is not None:
                found.append((piece, row))
        if found:
            self._damaged[seq] = _Damaged(found, session.updated_at, session.heads.copy())

    def mended(self) -> Mended:
        """Return what a repair can do, once all lines were met."""
        if not (self._damaged or self._orphans):
            return Mended()
        session = self._indexer.session
        found = self._recovered()
        places = session.ids | {one.row.id: one.seq for one in found}
        later = {
            orphan.seq: place
            for orphan in self._orphans
            if (place := places.get(orphan.parent_id, 0)) > orphan.seq
            # A later entry of the orphan's own id is no parent.
            and orphan.parent_id != session.names[orphan.seq]
        }
        parents: dict[int, str | None] = {}
        leans = self._all_leans(found, places)
        left = [
            orphan
            for orphan in self._orphans
            if orphan.seq not in later and not 0 < places.get(orphan.parent_id, 0) < orphan.seq
        ]
        while True:
            for orphan in left:
                # The entry waits for its new parent, too, where that gets another place.
                above = parents[orphan.seq] = self._before(found, orphan)
                waits = () if above is None else _earlier(places, (above,), orphan.seq)
                leans[orphan.seq] = (*leans.get(orphan.seq, ()), *waits)
                later.pop(orphan.seq, None)
            order, moved, in_circles = _ordered(session.seq, later, leans)
            if not in_circles:
                break
            left = [orphan for orphan in self._orphans if orphan.seq in in_circles]
        recovered: dict[int, list[bytes]] = {}
        for one in found:
            recovered.setdefault(one.seq, []).append(self._placed(one, found, places))
        there = {seq: above for seq, above in parents.items() if above is not None}
        return Mended(recovered, there, order, moved)

    def _all_leans(
        self, found: Sequence[_Found], places: Mapping[str, int]
    ) -> dict[int, tuple[int, ...]]:
        """Return the earlier lines that a line refers to, with damaged lines that have whole entries."""
        leans = dict(self._leans)
        recovered = {one.row.id: one.seq for one in found}
        for seq, names in self._names.items():
            leans[seq] += _earlier(recovered, names, seq)
        for one in found:
            leans[one.seq] = leans.get(one.seq, ()) + _earlier(places, _names(one.row), one.seq)
        return leans

    def _recovered(self) -> list[_Found]:
        """Return the whole entries on damaged lines.

        An object with the id of another entry is a copy. An object that may be quoted in an entry that was
        cut off is an entry only if it is no older than what stands before.
        """
        known, found = set(self._indexer.session.ids), list[_Found]()
        for seq, damaged in self._damaged.items():
            for piece, row in damaged.pieces:
                is_in_time = piece.is_apart or rfc3339(row.timestamp) >= damaged.time
                if row.id not in known and is_in_time:
                    known.add(row.id)
                    found.append(_Found(seq, piece.data, row))
        return found

    def _placed(self, one: _Found, found: Sequence[_Found], places: Mapping[str, int]) -> bytes:
        """Return the line of a recovered entry, below the entry before where its parent is missing."""
        parent_id = one.row.parent_id
        if parent_id is None or places.get(parent_id, one.seq + 1) <= one.seq:
            return one.line
        leaf = self._damaged[one.seq].heads.get(one.row.head, Head()).leaf
        earlier = found[: found.index(one)]
        above = self._before(earlier, _Orphan(one.seq + 1, parent_id, one.row.head, leaf))
        return one.line if above is None else below(one.line, above)

    def _before(self, found: Sequence[_Found], orphan: _Orphan) -> str | None:
        """Return the last entry of an orphan's head before the orphan; None for none."""
        for one in reversed(found):
            if orphan.leaf < one.seq < orphan.seq and one.row.head == orphan.head:
                return one.row.id
        return self._indexer.session.id_of(orphan.leaf)


def below(line: bytes, parent_id: str) -> bytes:
    """Return the line of an entry with another parent."""
    return with_field(line, "parent_id", msgspec.json.encode(parent_id))


def _names(row: Row) -> tuple[str, ...]:
    """Return the entries that an entry refers to."""
    return tuple(filter(None, (row.parent_id, _referred(row))))


def _earlier(places: Mapping[str, int], names: Sequence[str], seq: int) -> tuple[int, ...]:
    """Return the lines of entries that stand before a line."""
    return tuple(at for name in names if 0 < (at := places.get(name, 0)) < seq)


def _referred(row: Row) -> str | None:
    """Return the entry that an entry refers to, beside its parent."""
    match row.effect:
        case LabelEffect(target_id) | LeafEffect(target_id):
            return target_id
        case CompactionEffect(first_kept_entry_id):
            return first_kept_entry_id
        case _:
            return None


def _ordered(
    last: int, later: Mapping[int, int], leans: Mapping[int, tuple[int, ...]]
) -> tuple[list[int], int, frozenset[int]]:
    """Return the lines from the first one that moves, in their order, the number of lines that move, and circles.

    `later` has the lines of the entries whose parents stand behind them, with the lines of the parents. A
    line that refers to one that waits waits for that one. A circle is an entry that waits for itself; where there is
    one, lines are missing in the order.
    """
    if not later:
        return [], 0, frozenset()
    order: list[int] = []
    moved = 0
    waiting: set[int] = set()
    behind: dict[int, list[int]] = {}

    def wanted(seq: int, upto: int) -> int:
        """Return a line that has to come before a line, and that did not come yet; 0 for none."""
        parent = later.get(seq, 0)
        if parent > upto or parent in waiting:
            return parent
        return next((one for one in leans.get(seq, ()) if one in waiting), 0)

    for seq in range(min(later), last + 1):
        ready = [seq]
        while ready:
            at = ready.pop()
            above = wanted(at, seq)
            if above:
                moved += at not in waiting
                waiting.add(at)
                behind.setdefault(above, []).append(at)
                continue
            waiting.discard(at)
            order.append(at)
            ready += reversed(behind.pop(at, []))
    return order, moved, frozenset(waiting & later.keys())
