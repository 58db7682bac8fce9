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
from msgspec import Raw, Struct

from sessiond_client import wire

__all__ = [
    "READ_ANY",
    "READ_APPENDED",
    "READ_COMPACTED",
    "READ_CONTEXT",
    "READ_CREATED",
    "READ_ENTRY",
    "READ_ENTRY_PAGE",
    "READ_EXPORTED",
    "READ_HEADS",
    "READ_IMPORTED",
    "READ_MOVED",
    "READ_NOTHING",
    "READ_PATH_PAGE",
    "READ_SEQ",
    "READ_SESSION",
    "READ_SESSION_PAGE",
    "READ_TREE_PAGE",
    "Appended",
    "AppendedEntry",
    "Compacted",
    "CompactedEntry",
    "Context",
    "Created",
    "EntryPage",
    "Exported",
    "Head",
    "Heads",
    "Imported",
    "Moved",
    "PathPage",
    "Reader",
    "SessionInfo",
    "SessionPage",
    "StoredEntry",
    "TreeNode",
    "TreePage",
]

T = TypeVar("T")
Reader = Callable[[Raw], T]


class Head(Struct, frozen=True):
    """A named head and where it stands."""

    name: str
    leaf_id: str | None
    seq: int | None = None


Heads = list[Head]


class SessionInfo(Struct, frozen=True):
    """What is known of a session without reading it."""

    id: str
    path: str | None = None
    cwd: str | None = None
    title: str | None = None
    agent: str | None = None
    model: Any = None
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
    persisted: bool | None = None
    dialect: str | None = None
    archived: bool | None = None
    lineage: dict[str, Any] | None = None


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


class Moved(Struct, frozen=True):
    """Where a head is now."""

    leaf_id: str | None
    head: str = "main"
    seq: int | None = None


class StoredEntry(Struct, frozen=True, dict=True):
    """An entry and its place; `raw` is its bytes as stored."""

    seq: int
    raw: Raw = msgspec.field(name="entry")
    children: int | list[str] | None = None
    """How many on a path, which ones for a single entry."""
    label: str | None = None

    @cached_property
    def entry(self) -> dict[str, Any]:
        """The entry, decoded when first asked for."""
        return msgspec.json.decode(self.raw, type=dict[str, Any])


class EntryPage(Struct, frozen=True):
    """Some entries in order of `seq`; `next_seq` is the next `after_seq`, None at the end."""

    entries: list[StoredEntry]
    next_seq: int | None = None
    seq: int | None = None


class PathPage(Struct, frozen=True):
    """Some of the entries from the root to a leaf."""

    entries: list[StoredEntry]
    next_cursor: str | None = None


class TreeNode(Struct, frozen=True):
    """An entry's place in the tree."""

    id: str
    parent_id: str | None = None
    seq: int | None = None
    type: str = ""
    depth: int = 0
    children: int | None = None
    on_active_path: bool = False
    label: str | None = None
    preview: str | None = None
    tokens_before: int | None = None
    timestamp: str | None = None


class TreePage(Struct, frozen=True):
    """Some nodes in pre-order."""

    nodes: list[TreeNode]
    next_cursor: str | None = None


class Context(Struct, frozen=True, dict=True):
    """What a model is given. With `not_modified` only `etag` is set: use the one you hold."""

    etag: str
    not_modified: bool = False
    raw_messages: list[Raw] = msgspec.field(name="messages", default_factory=list[Raw])
    sources: list[Any] = msgspec.field(default_factory=list[Any])
    thinking_level: str | None = None
    model: dict[str, Any] | None = None
    leaf_id: str | None = None
    seq: int | None = None
    tokens: Any = None
    unchanged: int = 0
    """How many leading messages of the context named as `known` still stand before these."""

    @cached_property
    def messages(self) -> list[Any]:
        """The messages, decoded when first asked for."""
        return [msgspec.json.decode(message) for message in self.raw_messages]


class CompactedEntry(Struct, frozen=True):
    """The compaction's own entry."""

    id: str
    seq: int


class Compacted(Struct, frozen=True):
    """A compaction that is stored."""

    entry: CompactedEntry
    leaf_id: str | None
    seq: int
    tokens_before: int | None = None
    tokens_after: int | None = None


class Imported(Struct, frozen=True):
    """The new session, and what could not be taken over as it was."""

    session: SessionInfo
    report: Any = None


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


_READ_SESSION: Final = wire.reader(_Session)
_READ_HEADS: Final = wire.reader(_Heads)
_READ_SEQ: Final = wire.reader(_Seq)


def _nothing(_: Raw) -> None:
    """The answer says no more than that it was done."""


def _session(answer: Raw) -> SessionInfo:
    return _READ_SESSION(answer).session


def _heads(answer: Raw) -> Heads:
    return _READ_HEADS(answer).heads


def _seq(answer: Raw) -> int:
    return _READ_SEQ(answer).seq


READ_ANY: Final[Reader[Any]] = msgspec.json.decode
READ_NOTHING: Final[Reader[None]] = _nothing
READ_SESSION: Final[Reader[SessionInfo]] = _session
READ_CREATED: Final = wire.reader(Created)
READ_SESSION_PAGE: Final = wire.reader(SessionPage)
READ_APPENDED: Final = wire.reader(Appended)
READ_MOVED: Final = wire.reader(Moved)
READ_SEQ: Final[Reader[int]] = _seq
READ_HEADS: Final[Reader[Heads]] = _heads
READ_ENTRY: Final = wire.reader(StoredEntry)
READ_ENTRY_PAGE: Final = wire.reader(EntryPage)
READ_PATH_PAGE: Final = wire.reader(PathPage)
READ_TREE_PAGE: Final = wire.reader(TreePage)
READ_CONTEXT: Final = wire.reader(Context)
READ_COMPACTED: Final = wire.reader(Compacted)
READ_IMPORTED: Final = wire.reader(Imported)
READ_EXPORTED: Final = wire.reader(Exported)
