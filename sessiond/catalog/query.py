"""The SQL of lists (filters and order) and the cursors between their pages.

A page begins behind the sort key and id of the last row, not behind a number of rows.
So a session that does not change while a client pages is returned exactly once, even
if other sessions come, go or move.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct

from sessiond import typed
from sessiond.model.digests import sha256_hex
from sessiond.model.formats import AGENT_FORMATS

Sort = Literal["updated_at", "created_at", "title", "message_count"]
Position = tuple[str | int, str]

_COLUMN_OF: Final[dict[str, str]] = {
    "updated_at": "updated_at",
    "created_at": "created_at",
    "title": "title_key",
    "message_count": "message_count",
    "written": "mtime_ns",
}
_NUMBERS: Final = frozenset({"message_count", "written"})


class Query(Struct, frozen=True, kw_only=True):
    """The filters and the order of a list.

    Times are RFC 3339 UTC. An `after` time includes its moment.
    """

    cwd: str | None = None
    tags: tuple[str, ...] = ()
    agent: str | None = None
    status: str | None = None
    program: str | None = None
    archived: bool | None = False
    title: str | None = None
    words: str | None = None
    created_after: str | None = None
    created_before: str | None = None
    updated_after: str | None = None
    updated_before: str | None = None
    written_before_ns: int | None = None
    """The exclusive upper bound of a file's own time; files of unknown time match, too."""
    root: str | None = None
    drafts: bool = False
    subagents: bool = True
    """False leaves out the sessions that a session of an agent started for a task."""
    agents: bool = True
    """False leaves out the sessions of agents whose files are only read."""
    has_assistant: bool = False
    sort: Sort | Literal["written"] = "updated_at"
    descending: bool = True


def without_slash(folder: str) -> str:
    """Return a folder as rows and queries spell it: without a slash at the end."""
    return folder.rstrip("/") or folder[:1]


class BadCursor(Exception):
    """Refusal of a cursor that was not made for this query."""


def cursor_of(query: Query, position: Position) -> str:
    """Return the cursor of the next page; it is valid for this query only."""
    value, session_id = position
    text = msgspec.json.encode((_stamp(query), value, session_id))
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


# Numbers are limited to those of SQLite.
_cursor: Final = typed.decoder(tuple[str, str | Annotated[int, Meta(ge=0, le=2**63 - 1)], str])


def position_of(query: Query, cursor: str) -> Position:
    """Return the sort key and id of the last row before a cursor. Raises BadCursor."""
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        stamp, value, session_id = _cursor.decode(base64.b64decode(padded, b"-_", validate=True))
    except (UnicodeEncodeError, binascii.Error, msgspec.DecodeError, UnicodeDecodeError):
        raise BadCursor from None
    if stamp != _stamp(query) or isinstance(value, int) != (query.sort in _NUMBERS):
        raise BadCursor
    return value, session_id


def _stamp(query: Query) -> str:
    return sha256_hex(msgspec.json.encode(query))[:12]


def select_page(query: Query, limit: int, after: Position | None) -> tuple[str, list[str | int]]:
    """Return a statement and its values; a row is (info, sort key, session_id)."""
    column = _COLUMN_OF[query.sort]
    conditions, values = _conditions(query)
    if after is not None:
        conditions.append(f"({column}, session_id) {'<' if query.descending else '>'} (?, ?)")
        values += after
    where = " AND ".join(conditions)
    halves = (
        f"SELECT info, {column} AS sort_key, session_id FROM {table} WHERE "  # noqa: S608 - our names
        + where.replace("{tags}", tags)
        for table, tags in (("sessions", "tags"), ("volatile", "volatile_tags"))
    )
    way = "DESC" if query.descending else "ASC"
    order = f" ORDER BY sort_key {way}, session_id {way} LIMIT ?"
    return " UNION ALL ".join(halves) + order, [*values, *values, limit]


def select(query: Query) -> tuple[str, list[str | int]]:
    """Return the condition of a query's sessions in files, and its values."""
    conditions, values = _conditions(query)
    return " AND ".join(conditions).replace("{tags}", "tags"), values


def select_ids(query: Query) -> tuple[str, list[str | int]]:
    """Return a statement and its values; a row is a session id. Selects only sessions in files."""
    where, values = select(query)
    return f"SELECT session_id FROM sessions WHERE {where}", values  # noqa: S608 - our names


def _conditions(query: Query) -> tuple[list[str], list[str | int]]:
    conditions, values = ["listed = 1"], list[str | int]()
    for condition, given in _filters(query):
        if given is not None:
            conditions.append(condition)
            values += given if isinstance(given, tuple) else (given,)
    if not query.drafts:
        conditions.append("draft = 0")
    if not query.subagents:
        conditions.append("subagent = 0")
    if not query.agents:
        conditions.append(f"program NOT IN ({', '.join('?' * len(AGENT_FORMATS))})")
        values += AGENT_FORMATS
    if query.has_assistant:
        conditions.append("has_assistant = 1")
    return conditions, values


def _filters(query: Query) -> Iterator[tuple[str, str | int | tuple[str, str] | None]]:
    """Yield each condition with its value; None for a filter that the query does not set."""
    yield "archived = ?", None if query.archived is None else int(query.archived)
    yield "cwd = ?", query.cwd
    yield "agent = ?", query.agent
    yield "status = ?", query.status
    yield "program = ?", query.program
    yield "instr(title_key, ?) > 0", None if query.title is None else query.title.casefold()
    yield "instr(words, ?) > 0", None if query.words is None else query.words.casefold()
    # "0" is the character behind "/".
    below = None if query.root is None else (f"{query.root}/", f"{query.root}0")
    yield "path >= ? AND path < ?", below
    for tag in query.tags:
        yield "session_id IN (SELECT session_id FROM {tags} WHERE tag = ?)", tag
    yield "created_at >= ?", query.created_after
    yield "updated_at >= ?", query.updated_after
    # A session without a time is neither before nor after any moment.
    yield "created_at > '' AND created_at < ?", query.created_before
    yield "updated_at > '' AND updated_at < ?", query.updated_before
    yield "mtime_ns < ?", query.written_before_ns
