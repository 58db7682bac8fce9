"""A session of opencode as its store names it, before its messages are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

__all__ = ["COLUMNS", "StoredSession", "session_of"]

COLUMNS: Final = (
    *("id", "project_id", "parent_id", "fork_session_id", "fork_message_id", "slug", "directory"),
    *("title", "version", "revert", "agent", "model", "cost", "tokens_input", "tokens_output"),
    *("tokens_reasoning", "tokens_cache_read", "tokens_cache_write"),
    *("time_created", "time_updated", "time_archived"),
)
"""Columns of a session's row that are read where they are there."""


class StoredSession(Struct, frozen=True):
    """A session of a store; `columns` are those of its row."""

    id: str
    parent_id: str | None
    title: str
    directory: str
    time_created: int
    time_updated: int
    columns: Mapping[str, Any]


def session_of(columns: Mapping[str, Any]) -> StoredSession:
    """Return the session of these columns; a column of another type counts as missing."""

    def word(name: str) -> str:
        value = columns.get(name)
        return value if isinstance(value, str) else ""

    def number(name: str) -> int:
        value = columns.get(name)
        return value if isinstance(value, int) else 0

    return StoredSession(
        id=word("id"),
        parent_id=word("parent_id") or None,
        title=word("title"),
        directory=word("directory"),
        time_created=number("time_created"),
        time_updated=number("time_updated"),
        columns=columns,
    )
