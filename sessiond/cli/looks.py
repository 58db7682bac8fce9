"""How sessions and entries look to people.

Law: these are texts for `output`, which spells out control characters and knows terminals.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from shutil import get_terminal_size
from typing import Any, Final

import msgspec
from msgspec import Struct

from sessiond.cli.output import is_terminal, say, table
from sessiond.cli.text import one_line

__all__ = ["entry_line", "facts", "session_table", "when"]

Json = Mapping[str, Any]

# From so many columns on there is room for a title and a folder.
_WIDE: Final = 100


class _Message(Struct):
    role: str


class _Entry(Struct):
    """What a line about an entry says before its first words; the daemon checked the rest."""

    type: str
    id: str
    message: _Message | None = None


def facts(pairs: Iterable[tuple[str, Any]]) -> None:
    """`name: value` a line; what is None or empty is left out."""
    shown = [(name, value) for name, value in pairs if value not in (None, "", [], {})]
    width = max((len(name) for name, _ in shown), default=0) + 1
    for name, value in shown:
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        say(f"{name + ':':{width}} {one_line(text)}")


def session_table(sessions: Sequence[Json]) -> None:
    """One row a session."""
    columns: tuple[str, ...] = ("ID", "UPDATED", "MESSAGES", "TITLE", "FOLDER")
    rows = [_session_row(session) for session in sessions]
    if is_terminal() and get_terminal_size().columns < _WIDE:
        # The title says more in what room there is.
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    table(columns, rows, cut=("TITLE", "FOLDER"))


def _session_row(session: Json) -> tuple[str, ...]:
    words = session.get("title") or session.get("first_message") or ""
    if session.get("archived"):
        words = f"[archived] {words}"
    return (
        session["id"],
        when(session.get("updated_at")),
        str(session.get("message_count", "")),
        one_line(words, 48) if is_terminal() else words,
        session.get("cwd") or "",
    )


def when(moment: str | None) -> str:
    """A time of the protocol: as it is for programs, in local time for a reader of today."""
    if moment is None or not is_terminal():
        return moment or ""
    local = datetime.fromisoformat(moment).astimezone()
    today = datetime.now(UTC).astimezone().date()
    return local.strftime("%H:%M:%S" if local.date() == today else "%Y-%m-%d %H:%M")


def entry_line(seq: int, raw: bytes) -> str:
    """An entry in one line: seq, id, type or role, and its first words, tabs between."""
    from sessiond.dialects.native import NATIVE

    entry = msgspec.json.decode(raw, type=_Entry)
    kind = entry.message.role if entry.message is not None else entry.type
    words = (str(seq), entry.id, kind, NATIVE.preview(raw))
    return "\t".join(one_line(word) for word in words)
