"""Statements that find sessions by a ref and list sessions with their parents.

Every function takes a connection and runs inside the transaction of `Catalog.ask`.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any, Final

from msgspec import Struct, structs

from sessiond.catalog.rows import Brief, FoundSession, ListedFile, Relative
from sessiond.catalog.statements import IS_PART
from sessiond.limits import REF_BEGINNING_MIN

# The upper bound is the prefix and "\x7f", which sorts behind every character of an id.
_BEGINS: Final = "session_id >= ? AND session_id < ?"
_RANDOM_END: Final = r"[0-9a-f-]{6,36}"
# A UUID, or the 32 hex digits of a path's hash.
_IS_RANDOM: Final = "length(session_id) IN (32, 36) AND session_id NOT GLOB '*[^0-9a-f-]*'"
_FOUND: Final = "session_id, title, cwd, updated_at, info"
_RELATIVE: Final = (
    "session_id, path, parent_id, parent_path, title, cwd, archived, created_at, updated_at, "
    f"message_count, {IS_PART}, CASE WHEN json_valid(CAST(info AS TEXT)) THEN "
    "json_extract(CAST(info AS TEXT), '$.first_message') END"
)


def find_by_ref(connection: sqlite3.Connection, ref: str, limit: int) -> list[FoundSession]:
    """Return the sessions that `ref` may mean, by the first reading of `ref` that finds any.

    The readings, in order: an id; at least four leading characters of an id, or at least six
    trailing characters of a random id; an exact title; a title in any case; a part of a title.
    Titles of drafts do not count, because no list has shown them.
    """
    for condition, *values in _readings(ref):
        rows = connection.execute(
            f"SELECT {_FOUND} FROM sessions WHERE listed = 1 AND {condition} UNION ALL "  # noqa: S608
            f"SELECT {_FOUND} FROM volatile WHERE {condition} "
            "ORDER BY updated_at DESC, session_id LIMIT ?",
            [*values, *values, limit],
        ).fetchall()
        if rows:
            return [FoundSession(Brief(*row[:4]), row[4]) for row in rows]
    return []


def _readings(ref: str) -> Iterator[tuple[str, ...]]:
    yield "session_id = ?", ref
    if re.fullmatch(_RANDOM_END, ref):
        # UUIDs of version 7 made within a minute begin alike, so their ends tell them apart. A
        # beginning and an end count as one reading, so that an ambiguous ref finds both sessions.
        is_end = f"(substr(session_id, -length(?)) = ? AND {_IS_RANDOM})"
        yield f"({_BEGINS} OR {is_end})", ref, f"{ref}\x7f", ref, ref
    elif len(ref) >= REF_BEGINNING_MIN and ref.isascii():
        yield _BEGINS, ref, f"{ref}\x7f"
    key = ref.casefold()
    if key:
        yield "draft = 0 AND title_key = ? AND title = ?", key, ref
        yield "draft = 0 AND title_key = ?", key
        yield "draft = 0 AND instr(title_key, ?) > 0", key


class Alike(Struct, frozen=True):
    """A session that began at some moment: its ids here and at its source, its dialect, and its first message."""

    session_id: str
    header_id: str | None
    dialect: str | None
    first_message: str | None


def begun_at(connection: sqlite3.Connection, created_at: str, besides: str) -> list[Alike]:
    """Return the listed sessions that began at a moment, but for one of them, by their ids."""
    at = "CASE WHEN json_valid(CAST(info AS TEXT)) THEN json_extract(CAST(info AS TEXT), ?) END"
    rows = connection.execute(
        f"SELECT session_id, {at}, {at}, {at} FROM sessions WHERE listed = 1 AND created_at = ? "  # noqa: S608
        "AND session_id != ? ORDER BY session_id",
        ("$.lineage.header_id", "$.dialect", "$.first_message", created_at, besides),
    ).fetchall()
    return [Alike(*row) for row in rows]


def copy_of(connection: sqlite3.Connection, agent: str, header_id: str) -> str | None:
    """Return the newest session that is the copy of an agent's session; None for no copy."""
    at = "CASE WHEN json_valid(CAST(info AS TEXT)) THEN json_extract(CAST(info AS TEXT), ?) END"
    found = connection.execute(
        "SELECT session_id FROM sessions WHERE listed = 1 AND agent = ? "  # noqa: S608
        f"AND {at} = ? ORDER BY session_id DESC LIMIT 1",
        (agent, "$.lineage.header_id", header_id),
    ).fetchone()
    return None if found is None else str(found[0])


def scoped_in(connection: sqlite3.Connection, project: str, limit: int) -> list[str]:
    """Return the ids of the project-scoped sessions of a folder, the latest first."""
    rows = connection.execute(
        "SELECT session_id FROM sessions WHERE listed = 1 AND archived = 0 AND cwd = ? AND "
        "CASE WHEN json_valid(CAST(info AS TEXT)) THEN json_extract(CAST(info AS TEXT), ?) END = ? "
        "ORDER BY updated_at DESC, session_id LIMIT ?",
        (project, "$.scope.scope", "project", limit),
    ).fetchall()
    return [found for (found,) in rows]


def count_forks(connection: sqlite3.Connection, session_id: str) -> int:
    """Return how many sessions name this one as their parent."""
    (count,) = connection.execute(
        "SELECT (SELECT count(*) FROM sessions WHERE listed = 1 AND parent_id = ?)"
        " + (SELECT count(*) FROM volatile WHERE listed = 1 AND parent_id = ?)",
        (session_id, session_id),
    ).fetchone()
    return int(count)


class Kept(Struct, frozen=True):
    """The title and folder that the catalog keeps of an unlisted session."""

    title: str | None
    cwd: str | None


def find_kept(connection: sqlite3.Connection, session_id: str) -> Kept | None:
    """Return the title and folder of an unlisted session; None if the catalog has neither."""
    row = connection.execute(
        "SELECT title, cwd FROM sessions WHERE session_id = ? AND cwd != ''", (session_id,)
    ).fetchone()
    return None if row is None else Kept(*row)


def listed_files(connection: sqlite3.Connection) -> list[ListedFile]:
    """Return the files of all sessions that lists show."""
    rows = connection.execute("SELECT session_id, path, created_at FROM sessions WHERE listed = 1")
    return [ListedFile(*row) for row in rows]


def relatives(connection: sqlite3.Connection, cwd: str | None, limit: int) -> list[Relative]:
    """Return the sessions of a project folder, or all sessions, with the parents they name."""
    where, values = ("", []) if cwd is None else ("AND cwd = ?", [cwd])
    rows = connection.execute(
        f"SELECT {_RELATIVE} FROM sessions WHERE listed = 1 AND draft = 0 {where} UNION ALL "  # noqa: S608
        f"SELECT {_RELATIVE} FROM volatile WHERE listed = 1 {where} "
        "ORDER BY created_at, session_id LIMIT ?",
        [*values, *values, limit],
    ).fetchall()
    return [_relative(row) for row in rows]


def _relative(row: Sequence[Any]) -> Relative:
    """Return a row of `_RELATIVE`, whose columns stand as the fields do."""
    found = Relative(*row)
    return structs.replace(found, archived=bool(found.archived), is_part=bool(found.is_part))
