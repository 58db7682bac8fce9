"""Export: a session as native lines.

A native session is exported as its own lines. Another dialect is translated entry by entry. There,
labels and names can be parents; an entry below one is put below the next entry up that is a node in
a native file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec
from msgspec import UNSET, Raw

from sessiond.dialects.lenient_json import fields as fields_of
from sessiond.dialects.lenient_json import join
from sessiond.dialects.native.dialect import NATIVE
from sessiond.limits import PROGRESS_LINES
from sessiond.model.row import Kind
from sessiond.service.log.chunks import chunks
from sessiond.service.log.open_session import OpenSession
from sessiond.service.ports import Progress
from sessiond.session.index import Session

__all__ = ["Export", "export_native"]

_encode: Final = msgspec.json.Encoder().encode
_RECORDS: Final = NATIVE.rules.records


class Export(NamedTuple):
    """The bytes of an exported session, in pieces, and notes on what had to change."""

    pieces: Iterator[bytes]
    notes: list[str]


def export_native(opened: OpenSession, upto: int, progress: Progress) -> Export:
    """Return the session as native lines as of line `upto`. The pieces may raise StorageError."""
    if opened.dialect is NATIVE:
        return Export(_own_lines(opened, upto, progress), [])
    session = opened.session
    notes = [f"converted from {opened.dialect.name}; message payloads are as they were"]
    moved = sum(
        _node_above(session, session.parents[seq]) != session.parents[seq]
        for seq in range(1, upto + 1)
        if session.is_entry(seq)
    )
    if moved:
        notes.append(f"{moved} entries stood below a label or name and now stand above it")
    return Export(_translated(opened, upto, progress), notes)


def _own_lines(opened: OpenSession, upto: int, progress: Progress) -> Iterator[bytes]:
    """Yield the bytes as they are stored, so a line that no reader understands is exported too."""
    for first in range(0, upto + 1, PROGRESS_LINES):
        last = min(first + PROGRESS_LINES - 1, upto)
        yield from opened.journal.chunks(first, last)
        progress.report(last + 1, upto + 1, "lines")


def _translated(opened: OpenSession, upto: int, progress: Progress) -> Iterator[bytes]:
    session = opened.session
    header = msgspec.structs.replace(
        opened.header, version=UNSET, id=opened.session_id, title=session.facts.get("title")
    )
    yield NATIVE.encode_header(header) + b"\n"
    for chunk in chunks(opened.journal, filter(session.is_entry, range(1, upto + 1))):
        for seq, line in zip(chunk, opened.journal.read_many(chunk), strict=True):
            yield _native_line(opened, seq, line) + b"\n"
        progress.report(chunk[-1], upto + 1, "lines")
    progress.report(upto + 1, upto + 1, "lines")


def _native_line(opened: OpenSession, seq: int, line: bytes) -> bytes:
    session = opened.session
    fields = fields_of(opened.dialect.wire(line))
    parent = _node_above(session, session.parents[seq])
    if parent != session.parents[seq]:
        fields["parent_id"] = Raw(_encode(session.id_of(parent)))
    if session.kinds[seq] == Kind.COMPACTION:
        _mend_first_kept(session, seq, fields)
    return join(fields)


def _node_above(session: Session, seq: int) -> int:
    """Return the nearest entry up that is a node in a native file."""
    while seq and session.kinds[seq] in _RECORDS:
        seq = session.parents[seq]
    return seq


def _mend_first_kept(session: Session, seq: int, fields: dict[str, Raw]) -> None:
    """Replace a first kept entry that becomes a record by the next entry down the path."""
    kept = session.kept_from[seq]
    if not kept or session.kinds[kept] not in _RECORDS:
        return
    below = seq
    for at in session.up(session.parents[seq]):
        if at <= kept:
            break
        if session.kinds[at] not in _RECORDS:
            below = at
    fields["first_kept_entry_id"] = Raw(_encode(session.id_of(below)))
