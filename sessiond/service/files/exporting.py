"""Export: a session as native lines.

A native session is its own lines. Another dialect's is translated entry by
entry; where labels and names are parents there, whoever stood below one is put
below the next entry up that is a node in a native file.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import UNSET, Raw

from sessiond.dialects.loose import fields as fields_of
from sessiond.dialects.loose import join
from sessiond.dialects.native import NATIVE
from sessiond.limits import PROGRESS_LINES
from sessiond.model.row import Kind
from sessiond.service.opened import Opened
from sessiond.service.ports import Progress
from sessiond.session.state import Session

__all__ = ["export_native"]

_encode: Final = msgspec.json.Encoder().encode
_RECORDS: Final = NATIVE.rules.records


def export_native(opened: Opened, upto: int, progress: Progress) -> tuple[bytes, list[str]]:
    """The file's bytes as of line `upto`, and what had to change."""
    lines: list[bytes] = []
    for first in range(0, upto + 1, PROGRESS_LINES):
        lines += opened.journal.read(first, min(first + PROGRESS_LINES - 1, upto))
        progress.report(len(lines), upto + 1, "lines")
    if opened.dialect is NATIVE:
        return b"\n".join(lines) + b"\n", []
    session = opened.session
    header = msgspec.structs.replace(
        opened.header, version=UNSET, id=opened.session_id, title=session.facts.get("title")
    )
    out = [NATIVE.encode_header(header)]
    moved = 0
    for seq, line in enumerate(lines[1:], 1):
        if session.kinds[seq] == Kind.NONE:
            continue
        fields = fields_of(opened.dialect.wire(line))
        parent = _node_above(session, session.parents[seq])
        if parent != session.parents[seq]:
            moved += 1
            fields["parent_id"] = Raw(_encode(session.id_of(parent)))
        if session.kinds[seq] == Kind.COMPACTION:
            _mend_first_kept(session, seq, fields)
        out.append(join(fields))
    notes = [f"converted from {opened.dialect.name}; message payloads are as they were"]
    if moved:
        notes.append(f"{moved} entries stood below a label or name and now stand above it")
    return b"\n".join(out) + b"\n", notes


def _node_above(session: Session, seq: int) -> int:
    """The nearest entry up that is a node in a native file."""
    while seq and session.kinds[seq] in _RECORDS:
        seq = session.parents[seq]
    return seq


def _mend_first_kept(session: Session, seq: int, fields: dict[str, Raw]) -> None:
    """A first kept entry that becomes a record hands its part to the next one down."""
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
