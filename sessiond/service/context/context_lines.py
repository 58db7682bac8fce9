"""Stored lines as a dialect takes them to make a context of them.

Law: a context depends on the log alone. The preset that spells a compaction's file lists is the one
that the session itself had named before the compaction; neither the daemon's configuration nor a later
change of the session's settings changes a context.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sessiond.dialects.base import ContextLine
from sessiond.model.row import Kind
from sessiond.model.settings import settings_in
from sessiond.service.log.open_session import OpenSession
from sessiond.session.compaction.policy import PRESETS
from sessiond.session.compaction.touched_files import TouchedFiles


def context_lines(
    opened: OpenSession, seqs: Sequence[int], lines: Iterable[bytes], compaction: int
) -> list[ContextLine]:
    """Return the lines of a context; `compaction` is the entry with which the context begins, or 0."""
    return [
        context_line(opened, seq, line, compaction) for seq, line in zip(seqs, lines, strict=True)
    ]


def context_line(
    opened: OpenSession, seq: int, line: bytes, compaction: int, *, lists: bool = True
) -> ContextLine:
    """Return one line of a context, unless `lists` without the file lists of a compaction."""
    session = opened.session
    ending = _file_lists(opened, seq, line) if lists and seq == compaction else ""
    return ContextLine(
        session.names[seq],
        session.kinds[seq],
        line,
        kept=seq < compaction,
        begins=seq == compaction,
        ending=ending,
    )


def _file_lists(opened: OpenSession, compaction: int, line: bytes) -> str:
    """Return the file lists of a compaction as they follow its summary."""
    if not opened.dialect.rules.shows_files:
        return ""
    summary = opened.dialect.summary(line)
    if not (summary.read or summary.modified):
        return ""
    own = opened.compaction_settings_at(compaction)
    name = None if own is None else settings_in(own).preset
    return PRESETS[name or "pi"].list_files(TouchedFiles(summary.read, summary.modified))


def settings_before(opened: OpenSession, compaction: int) -> list[int]:
    """Return the lines that may have to be read for the settings in force at a compaction."""
    session = opened.session
    if session.fact_seqs.get("compaction", 0) <= compaction or not opened.dialect.rules.shows_files:
        return []
    return [seq for seq in range(1, compaction) if session.kinds[seq] == Kind.INFO]
