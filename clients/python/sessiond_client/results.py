"""What the daemon answers, as types, and how each is read from an answer.

Law: lenient. A field that a newer daemon adds is ignored, one that an older lacks
has a default; whoever needs more than is here uses `client.call`. Entries and
messages are kept as the bytes that came and decoded when asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Final, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from sessiond_client import wire
from sessiond_client.events import READ_OBJECT, Present

__all__ = [
    "READ_ANY",
    "READ_APPENDED",
    "READ_CREATED",
    "READ_ENTRY",
    "READ_ENTRY_PAGE",
    "READ_EXPORTED",
    "READ_HEADS",
    "READ_IMPORTED",
    "READ_NOTHING",
    "READ_PATH_PAGE",
    "READ_PRESENT",
    "READ_SEQ",
    "READ_SESSION",
    "READ_SESSION_PAGE",
    "Appended",
    "AppendedEntry",
    "Created",
    "EntryPage",
    "Everybody",
    "Exported",
    "Head",
    "Heads",
    "Imported",
    "PathPage",
    "Reader",
    "SessionInfo",
    "SessionPage",
    "StoredEntry",
]

T = TypeVar("T")
Reader = Callable[[Raw], T]


class Head(Struct, frozen=True):
    """A named head and where it stands."""

    name: str
    leaf_id: str | None
    seq: int | None = None


Heads = list[Head]
Everybody = list[Present]


class SessionInfo(Struct, frozen=True):
    """What is known of a session without reading it."""

    id: str
    path: str | None = None
    cwd: str | None = None
    title: str | None = None
    agent: str | None = None
    auto_title: str | None = None
    model: Any = None
    provider: str | None = None
    thinking_level: str | None = None
    tags: list[str] | None = None
    status: str | None = None
    created_at: str | None = None
    updated_at: str | None = None
    seq: int | None = None
    leaf_id: str | None = None
    heads: list[Head] | None = None
    message_count: int | None = None
    message_total: int | None = None
    entry_count: int | None = None
    first_message: str | None = None
    usage: dict[str, Any] | None = None
    persist: str | None = None
    persisted: bool | None = None
    dialect: str | None = None
    archived: bool | None = None
    read_only: bool | None = None
    problems: int | None = None
    epoch: str | None = None
    lineage: dict[str, Any] | None = None
    dry_run: bool | None = None
    plan: str | None = None
    system_prompt: str | None = None
    compaction: Any = None
    metadata: Any = None


class Created(Struct, frozen=True):
    """The session, and whether this call made it."""

    session: SessionInfo
    created: bool = True


class SessionPage(Struct, frozen=True):
    """Some of the sessions; `next_cursor` asks for the next ones."""

    sessions: list[SessionInfo]
    next_cursor: str | None = None
    revision: Any = None


class AppendedEntry(Struct, frozen=True):
    """Where an entry was stored."""

    id: str
    parent_id: str | None
    seq: int
    timestamp: str | None = None


class Appended(Struct, frozen=True):
    """Entries that are stored. `duplicate`: they were already, by an earlier try."""

    entries: list[AppendedEntry]
    leaf_id: str | None
    seq: int
    head: str = "main"
    duplicate: bool = False
    durability: str = "disk"


class StoredEntry(Struct, frozen=True, dict=True):
    """An entry and its place; `raw` is its bytes as stored."""

    seq: int
    raw: Raw = msgspec.field(name="entry")
    children: int | list[str] | None = None
    """How many on a path, which ones for a single entry."""
    label: str | None = None
    resolved_parent_id: str | UnsetType | None = UNSET
    """On a path, if the entry stands below another one than its `parent_id` says: that one's id."""

    @cached_property
    def entry(self) -> dict[str, Any]:
        """The entry, decoded when first asked for."""
        return READ_OBJECT(self.raw)


class EntryPage(Struct, frozen=True):
    """Some entries in order of `seq`; `next_seq` is the next `after_seq`, None at the end."""

    entries: list[StoredEntry]
    next_seq: int | None = None
    seq: int | None = None


class PathPage(Struct, frozen=True):
    """Some of the entries from the root to a leaf."""

    entries: list[StoredEntry]
    next_cursor: str | None = None


class Imported(Struct, frozen=True):
    """The new session, and what could not be taken over as it was."""

    session: SessionInfo
    report: Any = None
    twins: list[str] = []


class Exported(Struct, frozen=True):
    """The file that was written, or its content."""

    path: str | None = None
    content: str | None = None


class _Session(Struct, frozen=True):
    session: SessionInfo


class _Heads(Struct, frozen=True):
    heads: list[Head]


class _Seq(Struct, frozen=True):
    seq: int


class _Clients(Struct, frozen=True):
    clients: list[Present]


_READ_SESSION: Final = wire.reader(_Session)
_READ_HEADS: Final = wire.reader(_Heads)
_READ_SEQ: Final = wire.reader(_Seq)
_READ_CLIENTS: Final = wire.reader(_Clients)


def _nothing(_: Raw) -> None:
    """The answer says no more than that it was done."""


def _session(answer: Raw) -> SessionInfo:
    return _READ_SESSION(answer).session


def _heads(answer: Raw) -> Heads:
    return _READ_HEADS(answer).heads


def _seq(answer: Raw) -> int:
    return _READ_SEQ(answer).seq


def _present(answer: Raw) -> Everybody:
    return _READ_CLIENTS(answer).clients


READ_ANY: Final[Reader[Any]] = wire.reader(object)
READ_NOTHING: Final[Reader[None]] = _nothing
READ_SESSION: Final[Reader[SessionInfo]] = _session
READ_CREATED: Final = wire.reader(Created)
READ_SESSION_PAGE: Final = wire.reader(SessionPage)
READ_APPENDED: Final = wire.reader(Appended)
READ_SEQ: Final[Reader[int]] = _seq
READ_HEADS: Final[Reader[Heads]] = _heads
READ_ENTRY: Final = wire.reader(StoredEntry)
READ_ENTRY_PAGE: Final = wire.reader(EntryPage)
READ_PATH_PAGE: Final = wire.reader(PathPage)
READ_PRESENT: Final[Reader[Everybody]] = _present
READ_IMPORTED: Final = wire.reader(Imported)
READ_EXPORTED: Final = wire.reader(Exported)
