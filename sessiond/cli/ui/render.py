"""Sessions and entries as people see them.

Law: this module makes texts for `output`, which spells out control characters and knows terminals.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from msgspec import Struct

from sessiond import typed
from sessiond.cli.ui.output import columns, is_terminal, note, say
from sessiond.cli.ui.text import cells, one_line
from sessiond.visible import counted

Json = Mapping[str, Any]

_FOLDER_WIDTH: Final = 32
_SHORT_CHARS: Final = 8
_RANDOM: Final = re.compile(r"[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# Widths of seq, id and role.
_ENTRY_WIDTHS: Final = (4, 8, 9)


class _Message(Struct):
    role: str


class _Entry(Struct):
    """Fields of an entry that its line shows; the daemon has checked the entry."""

    type: str
    id: str
    message: _Message | None = None


def facts(pairs: Iterable[tuple[str, Any]]) -> None:
    """Print one `name: value` per line, without values that are None or empty."""
    shown = [(name, value) for name, value in pairs if value not in (None, "", [], {})]
    width = max((len(name) for name, _ in shown), default=0) + 1
    for name, value in shown:
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        say(f"{name + ':':{width}} {one_line(text)}")


def usage_facts(usage: Json) -> Iterator[tuple[str, str]]:
    """Yield the tokens and the cost that the answers of a model state; nothing for none."""
    parts = (
        ("input", "in"),
        ("output", "out"),
        ("cache_read", "read from the cache"),
        ("cache_write", "written to the cache"),
    )
    told = [f"{usage[f'{name}_tokens']} {word}" for name, word in parts if usage[f"{name}_tokens"]]
    if usage["total_tokens"] or told:
        yield "used", f"{counted(usage['total_tokens'], 'token')}: {', '.join(told)}".rstrip(": ")
    if usage["cost"]:
        yield "cost", f"{usage['cost']:.4f} US dollars"


def copy_made(result: Json) -> None:
    """Print the id of a session that was made of another one."""
    say(result["session"]["id"])


def copy_planned(result: Json) -> None:
    """Print what a session would be, without its id, which differs each time."""
    session = result["session"]
    entries, messages = session["entry_count"], session["message_count"]
    lineage = session["lineage"]
    facts(
        (
            ("would be", f"{counted(entries, 'entry')}, {counted(messages, 'message')}"),
            ("title", session["title"]),
            ("cwd", session["cwd"]),
            ("from", lineage.get("parent_id")),
            ("at", lineage.get("at_entry")),
            ("merges", lineage.get("merge_source")),
            ("first", session["first_message"]),
            ("dialect", session["dialect"]),
        )
    )
    note("nothing was stored: run it without --dry-run to store it")


def short_session_ids(ids: Iterable[str]) -> Mapping[str, str]:
    """Return the shown form of each session: the end of its id on a terminal, else the whole id.

    The end of a UUID is random; its beginning is the time. If two ids have an equal end, longer ends
    of both are shown. An id of another form is a name and is shown whole.
    """
    whole = list(dict.fromkeys(ids))
    if not is_terminal():
        return {one: one for one in whole}
    return {one: _short(one, whole) for one in whole}


def _short(session_id: str, among: Sequence[str]) -> str:
    if not _RANDOM.fullmatch(session_id):
        return session_id
    for size in range(_SHORT_CHARS, len(session_id)):
        end = session_id[-size:]
        means = [one for one in among if one.endswith(end) or one.startswith(end)]
        # A shell would take a word that begins with a dash for an option.
        if end[0] != "-" and means == [session_id]:
            return end
    return session_id


def folder(path: str) -> str:
    """Return a folder as a person reads it: the home as "~", only the end of a long path."""
    if not is_terminal():
        return path
    home = os.environ.get("HOME")
    is_below = bool(home) and f"{path}/".startswith(f"{home}/")
    short = f"~{path.removeprefix(home)}" if home and is_below else path
    if cells(short) <= _FOLDER_WIDTH:
        return short
    parts = short.split("/")
    while len(parts) > 1 and cells("…/" + "/".join(parts)) > _FOLDER_WIDTH:
        parts = parts[1:]
    return "…/" + "/".join(parts)


def when(moment: str | None) -> str:
    """Return a time of the protocol: unchanged for programs, local time on a terminal."""
    if moment is None or not is_terminal():
        return moment or ""
    local = datetime.fromisoformat(moment).astimezone()
    today = datetime.now(UTC).astimezone().date()
    return local.strftime("%H:%M:%S" if local.date() == today else "%Y-%m-%d %H:%M")


def entry_of(raw: bytes) -> str:
    """Return the id of an entry."""
    return _entry(raw).id


def entry_line(seq: int, raw: bytes, shown_id: str) -> None:
    """Print an entry in one line: seq, id, type or role, and its first words."""
    from sessiond.dialects.native.dialect import NATIVE

    entry = _entry(raw)
    kind = entry.message.role if entry.message is not None else entry.type
    columns((str(seq), shown_id, kind, NATIVE.preview(raw)), _ENTRY_WIDTHS)


def _entry(raw: bytes) -> _Entry:
    return typed.decode(raw, _Entry)
