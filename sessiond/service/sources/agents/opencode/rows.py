"""Sessions of opencode as their store names them, before their messages are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from sessiond.limits import OPENCODE_BATCH_BYTES, OPENCODE_MESSAGE_BYTES_MAX

TOO_LONG: Final = b'{"type":"too_long","bytes_max":%d}' % OPENCODE_MESSAGE_BYTES_MAX
"""Stand-in for a value for which its message has no room."""

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


class StoreState(Struct, frozen=True):
    """The state of the files that a session is in; `mtime_ns` is the newest of their times."""

    facts: tuple[int, ...]
    mtime_ns: int


class MessageMark(Struct, frozen=True):
    """A message by its id, and what a change of the message changes: times in milliseconds."""

    id: str
    time_updated: int
    parts: int = 0
    parts_updated: int = 0

    @property
    def changed_at(self) -> int:
        """Time of the newest change."""
        return max(self.time_updated, self.parts_updated)


class Contents(Struct, frozen=True):
    """A session at one moment: its row, and its messages in their order, which are still to be read."""

    session: StoredSession
    marks: Sequence[MessageMark]
    is_newer: bool = False
    """True for the tables of version 2."""


class MessageBudget:
    """The bytes that one read of messages may take: of each message, and of all of them together."""

    def __init__(self) -> None:
        self._bytes = 0
        self._left = 0

    @property
    def is_full(self) -> bool:
        """True if the read is to end behind the message that it has come to."""
        return self._bytes >= OPENCODE_BATCH_BYTES

    def begin(self) -> None:
        """Begin the next message."""
        self._left = OPENCODE_MESSAGE_BYTES_MAX

    def take(self, value: bytes | None) -> bytes:
        """Return a value of the message, or TOO_LONG; None is a value that is longer than any message."""
        if value is None or len(value) > self._left:
            return TOO_LONG
        self._left -= len(value)
        self._bytes += len(value)
        return value


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
