"""Entries that refer to labels, in a copy that leaves the labels behind.

Another program may have made a label the parent of an entry. In the copy that entry refers to
where the label stood. A dialect in which labels are entries of the tree has no such copies.
"""

from __future__ import annotations

from msgspec.structs import replace

from sessiond.dialects.base import CopyPlace
from sessiond.model.row import CompactionEffect, Kind, LeafEffect
from sessiond.service.copying.source import Source
from sessiond.session.index import Session

_REFERRING = frozenset({int(Kind.COMPACTION), int(Kind.LEAF)})


def without_labels(source: Source, seq: int, line: bytes, place: CopyPlace) -> CopyPlace:
    """Return the place of an entry in a copy that has no labels."""
    session = source.session
    if seq not in session.rerouted and session.kinds[seq] not in _REFERRING:
        return place
    row = source.opened.dialect.row(line)
    if (label := _label(session, row.parent_id)) is not None:
        place = replace(place, parent_id=_name(session, session.parents[label], place))
    match row.effect:
        case LeafEffect(target_id) if (label := _label(session, target_id)) is not None:
            target = _name(session, session.parents[label], place)
            if target_id is not None and target is not None:
                place = replace(place, ids={**place.ids, target_id: target})
        case CompactionEffect(first) if _label(session, first) is not None:
            kept = session.kept_from.get(seq, 0)
            place = replace(place, first_kept_id=_name(session, kept, place))
        case _:
            pass
    return place


def _label(session: Session, entry_id: str | None) -> int | None:
    """Return the line of a label by its id; None for any other id."""
    seq = 0 if entry_id is None else session.ids.get(entry_id, 0)
    return seq if session.kinds[seq] == Kind.LABEL else None


def _name(session: Session, seq: int, place: CopyPlace) -> str | None:
    """Return the id of an entry in the copy; None for 0."""
    name = session.id_of(seq)
    return name if name is None else place.ids.get(name, name)
