"""Export of another dialect's session as native lines.

Labels and names can be parents in other dialects. An entry below one is put below the next entry up
that is a node in a native file. Payloads stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import UNSET, Raw

from sessiond.dialects.entry_members import ENTRY_PREFIX
from sessiond.dialects.lenient_json import fields as fields_of
from sessiond.dialects.lenient_json import join, text
from sessiond.dialects.native.dialect import NATIVE
from sessiond.model.entries import HEADER_TYPES
from sessiond.model.row import Kind
from sessiond.service.exporting.forms import UNKNOWN
from sessiond.service.exporting.losses import Losses
from sessiond.service.exporting.visibility import MAY_DIFFER, changed_visibility
from sessiond.service.log.chunks import chunks
from sessiond.service.log.open_session import OpenSession
from sessiond.service.ports import Progress
from sessiond.session.index import Session
from sessiond.visible import counted

_encode: Final = msgspec.json.Encoder().encode
_EDITS: Final = "edits of earlier messages apply in their own format only"
_RECORDS: Final = NATIVE.rules.records


def native_notes(opened: OpenSession, upto: int) -> list[str]:
    """Return notes on what changes when the session is written as native lines."""
    session = opened.session
    notes = [f"converted from {opened.dialect.name}; message payloads are as they were"]
    moved = sum(
        _node_above(session, session.parents[seq]) != session.parents[seq]
        for seq in range(1, upto + 1)
        if session.is_entry(seq)
    )
    if moved:
        verb = "stands" if moved == 1 else "stand"
        notes.append(
            f"{counted(moved, 'entry')} stood below a label or name and now {verb} above it"
        )
    return notes


def native_lines(
    opened: OpenSession, upto: int, losses: Losses, progress: Progress
) -> Iterator[bytes]:
    """Yield the native lines, header first, each with its newline. Raises StorageError."""
    session = opened.session
    header = msgspec.structs.replace(
        opened.header, version=UNSET, id=opened.session_id, title=session.facts.get("title")
    )
    yield NATIVE.encode_header(header) + b"\n"
    for chunk in chunks(opened.journal, filter(session.is_entry, range(1, upto + 1))):
        for seq, line in zip(chunk, opened.journal.read_many(chunk), strict=True):
            made = _native_line(opened, seq, line)
            kind = session.kinds[seq]
            if kind == Kind.OPAQUE and opened.dialect is not NATIVE:
                made = _without_header_type(made, losses)
            elif kind in MAY_DIFFER:
                losses.add(changed_visibility(kind, (opened.dialect, line), (NATIVE, made)))
            elif kind == Kind.CONTEXT_EDIT:
                losses.add(_EDITS)
            yield made + b"\n"
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


def _without_header_type(line: bytes, losses: Losses) -> bytes:
    """Return an entry that has the type of a header as an extension's data.

    In a native file only the first line may have this type.
    """
    found = fields_of(line)
    word = text(found.get("type")) or ""
    if word not in HEADER_TYPES:
        return line
    losses.add(UNKNOWN)
    place = {name: found[name] for name in ("id", "parent_id", "timestamp") if name in found}
    data = {name: raw for name, raw in found.items() if name not in place and name != "type"}
    own = Raw(_encode(ENTRY_PREFIX + word))
    members = {"type": Raw(b'"custom"')} | place
    return join(members | {"custom_type": own, "data": Raw(join(data))})


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
