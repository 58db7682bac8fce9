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
from sessiond.dialects.recovery import pieces
from sessiond.journal.splitter import LongLine
from sessiond.model.row import Kind, Row
from sessiond.model.times import rfc3339
from sessiond.service.log.indexer import Indexer
from sessiond.session.index import Head, Session

__all__ = ["Gaps", "Mended", "below"]


class Mended(Struct, frozen=True):
    """The changes of a file, by its lines.

    `recovered` has the whole entries on bad lines, `parents` the new parents of entries without one, and
    `moved` the lines that go behind a line.
    """

    recovered: Mapping[int, list[bytes]] = {}
    parents: Mapping[int, str] = {}
    moved: Mapping[int, list[int]] = {}

    @property
    def gone(self) -> frozenset[int]:
        """Lines that have another place in the new file."""
        return frozenset(seq for moved in self.moved.values() for seq in moved)


class _Orphan(Struct, frozen=True):
    """An entry whose parent is no earlier one: its line, the parent's id, its head and the head's leaf before."""

    seq: int
    parent_id: str
    head: str
    leaf: int


class _Damaged(Struct, frozen=True):
    """A line that is no entry, and the session before the line."""

    line: bytes
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

    def visit(self, seq: int, line: bytes) -> None:
        """Index the next line, and note the line if its parent is missing. Raises what the indexer raises."""
        indexer = self._indexer
        heads = indexer.session.heads.copy() if seq else {}
        indexer.visit(seq, line)
        session = indexer.session
        if not session.rules.truncates or seq not in session.rerouted or session.parents[seq]:
            return
        row = indexer.dialect.row(line)
        if row.parent_id is not None and session.ids.get(row.parent_id, seq) >= seq:
            leaf = heads.get(row.head, Head()).leaf
            self._orphans.append(_Orphan(seq, row.parent_id, row.head, leaf))

    def damaged(self, seq: int, line: bytes) -> None:
        """Note a line that is no entry."""
        session = self._indexer.session
        if session.rules.truncates and not isinstance(line, LongLine):
            self._damaged[seq] = _Damaged(line, session.updated_at, session.heads.copy())

    def mended(self) -> Mended:
        """Return what a repair can do, once all lines were met."""
        if not (self._damaged or self._orphans):
            return Mended()
        session = self._indexer.session
        found = self._recovered()
        places = session.ids | {one.row.id: one.seq for one in found}
        parents: dict[int, str] = {}
        moved: dict[int, list[int]] = {}
        for orphan in self._orphans:
            place = places.get(orphan.parent_id, 0)
            if place > orphan.seq and orphan.seq not in session.up(place):
                moved.setdefault(place, []).append(orphan.seq)
            elif not 0 < place < orphan.seq:
                above = self._before(found, orphan)
                if above is not None:
                    parents[orphan.seq] = above
        recovered: dict[int, list[bytes]] = {}
        for one in found:
            recovered.setdefault(one.seq, []).append(self._placed(one, found, places))
        return Mended(recovered, parents, _with_children(session, moved))

    def _recovered(self) -> list[_Found]:
        """Return the whole entries on damaged lines.

        An object with the id of another entry is a copy. An object that may be quoted in an entry that was
        cut off is an entry only if it is no older than what stands before.
        """
        dialect = self._indexer.dialect
        known, found = set(self._indexer.session.ids), list[_Found]()
        for seq, damaged in self._damaged.items():
            for piece in pieces(damaged.line):
                try:
                    row = dialect.row(piece.data)
                except BadLine:
                    continue
                is_new = row.id not in known and (
                    piece.is_apart or rfc3339(row.timestamp) >= damaged.time
                )
                if is_new and row.kind != Kind.OPAQUE and row.timestamp is not None:
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


def _with_children(session: Session, moved: Mapping[int, list[int]]) -> dict[int, list[int]]:
    """Return the moved lines with the lines below them that stand before their new place."""
    found: dict[int, list[int]] = {}
    for place, seqs in moved.items():
        gone = set(seqs)
        for seq in range(min(seqs) + 1, place):
            if session.parents[seq] in gone:
                gone.add(seq)
        found[place] = sorted(gone)
    return found
