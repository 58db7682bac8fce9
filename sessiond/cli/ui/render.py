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

from sessiond.cli.ui.output import columns, is_terminal, note, say, table, terminal_width
from sessiond.cli.ui.text import cells, counted, fitted, one_line

__all__ = [
    "copy_made",
    "copy_planned",
    "entry_line",
    "entry_of",
    "facts",
    "folder",
    "session_table",
    "short_session_ids",
    "usage_facts",
    "when",
]

Json = Mapping[str, Any]

_TITLE_WIDTH: Final = 48
_FOLDER_WIDTH: Final = 32
_SHORT_CHARS: Final = 8
# Columns of a terminal that has room for counts, and for models and tokens too.
_WIDE: Final = 100
_WIDEST: Final = 130
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
        yield "cost", f"{usage['cost']:.4f}"


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


def session_table(sessions: Sequence[Json]) -> None:
    """Print one row per session, subagents below their parents.

    A terminal shows the agents where there are several, and on more columns the models and tokens.
    """
    headings = _headings(sessions)
    ids = short_session_ids(session["id"] for session in sessions)
    rows = [_session_row(one, ids[one["id"]]) for one in _below_parents(sessions)]
    table(headings, [[row[name] for name in headings] for row in rows], cut=("TITLE", "FOLDER"))


def _headings(sessions: Sequence[Json]) -> tuple[str, ...]:
    if not is_terminal() or len({session["agent_program"] for session in sessions}) == 1:
        return ("ID", "UPDATED", "STATUS", "TURNS", "MESSAGES", "TITLE", "FOLDER")
    width = terminal_width()
    counts = ("TURNS", "MESSAGES") if width >= _WIDE else ()
    used = ("MODEL", "TOKENS") if width >= _WIDEST else ()
    return ("ID", "UPDATED", "AGENT", "STATUS", *counts, *used, "TITLE", "FOLDER")


def _below_parents(sessions: Sequence[Json]) -> Iterator[Json]:
    """Yield the sessions in order, those that were started for a task behind the session's own."""
    there = {session["id"] for session in sessions}
    tasks: dict[str, list[Json]] = {}
    firsts: list[Json] = []
    for session in sessions:
        parent = str(session["lineage"].get("parent_id")) if _is_task(session) else ""
        (tasks.setdefault(parent, []) if parent in there else firsts).append(session)
    for session in firsts:
        yield session
        yield from tasks.get(session["id"], ())


def _is_task(session: Json) -> bool:
    return bool(session["lineage"].get("subagent"))


def _session_row(session: Json, shown_id: str) -> Mapping[str, str]:
    words = session.get("title") or session.get("first_message") or ""
    if session.get("archived"):
        words = f"[archived] {words}"
    if is_terminal():
        words = fitted(one_line(f"└ {words}" if _is_task(session) else words), _TITLE_WIDTH)
    usage = session.get("usage")
    return {
        "ID": shown_id,
        "UPDATED": when(session.get("updated_at")),
        "AGENT": session["agent_program"],
        "STATUS": one_line(_status(session)),
        "TURNS": _figure(session, session["turn_count"]),
        "MESSAGES": _figure(session, session["message_count"]),
        "MODEL": one_line(session.get("model") or ""),
        "TOKENS": _figure(session, usage["total_tokens"]) if usage else "",
        "TITLE": words,
        "FOLDER": folder(session.get("cwd") or ""),
    }


def _status(session: Json) -> str:
    """Return how a session stands: for people, whether its program runs, before how its last turn ended."""
    running = session.get("running") if is_terminal() else None
    return running or session.get("status") or ""


def _figure(session: Json, count: int) -> str:
    """Return a figure; a list that read only a part of the file has seen at least so many."""
    return f"{count}+" if session.get("partial") and is_terminal() else str(count)


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
    return msgspec.json.decode(raw, type=_Entry)
