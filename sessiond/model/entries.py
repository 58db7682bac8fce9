"""The entry types, spelled as on a native line and on the wire.

The order of a struct's fields is their order on disk. Payloads (`message`, `content`, `data`,
`details`, `messages`) are `Raw`: they travel as the bytes that were sent. An entry type needs
a struct, its place in `ENTRY_TYPES`, a kind in `model/row.py`, and a sample.

    {"type":"message","id":"a1b2c3d4","parent_id":null,
     "timestamp":"2026-01-15T10:30:00.000Z","message":{"role":"user","content":"hi"}}
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from sessiond.model.ids import EntryId, HeadName, NewEntryId
from sessiond.model.times import TimeText

HOLDS: Final = "x-holds"
"""Key that marks a field with raw bytes; its value is the schema's name for their type."""

EntryBytes = Annotated[Raw, Meta(extra_json_schema={HOLDS: "AnyEntry"})]
SentEntryBytes = Annotated[Raw, Meta(extra_json_schema={HOLDS: "SentEntry"})]
MessageBytes = Annotated[Raw, Meta(extra_json_schema={HOLDS: "AgentMessage"})]


class Header(Struct, tag="session_header", tag_field="type", omit_defaults=True):
    """The first line of a native file: immutable, without a parent, not a node.

    `version` is always written. `timestamp` stays as spelled, even if a file spells the time as a
    number.
    """

    version: int | UnsetType = UNSET
    id: str = ""
    timestamp: str | float = ""
    cwd: str = ""
    parent_session: str | None = None
    lineage: Raw | UnsetType = UNSET
    title: str | None = None
    agent: str | None = None
    model: str | None = None
    tags: list[str] | None = None
    system_prompt: str | None = None
    compaction: Raw | UnsetType = UNSET
    dry_run: bool | None = None
    metadata: Raw | UnsetType = UNSET
    persist: str | None = None
    scope: Raw | UnsetType = UNSET


class Entry(Struct, kw_only=True, tag_field="type", forbid_unknown_fields=True):
    """The fields of every entry. The daemon fills the fields that a caller left unset.

    `atom_of` is in the first entry of an append with several entries: the id of the session that
    the append was made in. After a crash `atom_of` proves that half an append is sessiond's own.
    """

    id: NewEntryId | UnsetType = UNSET
    parent_id: EntryId | UnsetType | None = UNSET
    timestamp: TimeText | UnsetType = UNSET
    head: HeadName | UnsetType = UNSET
    atom: tuple[int, int] | UnsetType = UNSET
    atom_of: str | UnsetType = UNSET


class Message(Entry, kw_only=True, tag="message"):
    """A turn of the conversation. `message` is an object with a string `role`."""

    message: MessageBytes
    blocks: Raw | UnsetType = UNSET
    turn_status: str | UnsetType = UNSET
    started_at: str | UnsetType = UNSET
    ended_at: str | UnsetType = UNSET


class CustomMessage(Entry, kw_only=True, tag="custom_message"):
    """Text that an extension puts into the context."""

    custom_type: str
    content: Raw
    display: bool
    role: Literal["user", "assistant"] | UnsetType = UNSET
    details: Raw | UnsetType = UNSET


class BranchSummary(Entry, kw_only=True, tag="branch_summary"):
    """A summary of the branch that a head left; `from_id` is the abandoned leaf."""

    summary: str
    from_id: EntryId | None
    details: Raw | UnsetType = UNSET


class Compaction(Entry, kw_only=True, tag="compaction"):
    """A compaction: a summary and a first kept entry, or messages, replace what precedes it."""

    summary: str | UnsetType = UNSET
    first_kept_entry_id: EntryId | UnsetType | None = UNSET
    messages: list[MessageBytes] | UnsetType = UNSET
    tokens_before: Annotated[int, Meta(ge=0)] | UnsetType = UNSET
    tokens_after: Annotated[int, Meta(ge=0)] | UnsetType = UNSET
    details: Raw | UnsetType = UNSET


class ThinkingLevelChange(Entry, kw_only=True, tag="thinking_level_change"):
    """A setting: the thinking level from this entry on."""

    thinking_level: str


class ModelChange(Entry, kw_only=True, tag="model_change"):
    """A setting: the model that answers from this entry on."""

    model_id: str
    provider: str | UnsetType = UNSET


class Custom(Entry, kw_only=True, tag="custom"):
    """An extension's own data, never in the context."""

    custom_type: str
    data: Raw | UnsetType = UNSET


class Label(Entry, kw_only=True, tag="label"):
    """A name for an entry; null or "" clears the name."""

    target_id: EntryId
    label: str | None = None


class SessionInfoEntry(Entry, kw_only=True, tag="session_info"):
    """Facts about the session. Per field the last write wins; null clears.

    `auto_title` is a generated title, which lists show while there is no `name`.
    """

    name: str | UnsetType | None = UNSET
    auto_title: str | UnsetType | None = UNSET
    tags: list[str] | UnsetType | None = UNSET
    agent: str | UnsetType | None = UNSET
    status: str | UnsetType | None = UNSET
    plan: str | UnsetType | None = UNSET
    model: str | UnsetType | None = UNSET
    provider: str | UnsetType | None = UNSET
    thinking_level: str | UnsetType | None = UNSET
    dry_run: bool | UnsetType | None = UNSET
    system_prompt: str | UnsetType | None = UNSET
    compaction: Raw | UnsetType = UNSET
    metadata: Raw | UnsetType = UNSET


INFO_SETTINGS: Final = ("compaction", "dry_run", "system_prompt")
"""Settings of a session that a `session_info` alone states; a model and a level have entries of their own."""


class Leaf(Entry, kw_only=True, tag="leaf"):
    """A move of a head; a null target is the place before the first entry."""

    target_id: EntryId | None
    reason: Literal["branch", "reset", "rewind", "drop"] | UnsetType = UNSET


class Opaque(Struct, kw_only=True):
    """An entry of an unknown type: a node whose fields stay as they were written."""

    type: str
    id: str | UnsetType = UNSET
    parent_id: str | UnsetType | None = UNSET
    timestamp: str | UnsetType = UNSET
    head: str | UnsetType = UNSET
    atom: tuple[int, int] | UnsetType = UNSET
    atom_of: str | UnsetType = UNSET
    fields: dict[str, Raw]


ENTRY_TYPES: Final[dict[str, type[Entry]]] = {
    "message": Message,
    "custom_message": CustomMessage,
    "branch_summary": BranchSummary,
    "compaction": Compaction,
    "thinking_level_change": ThinkingLevelChange,
    "model_change": ModelChange,
    "custom": Custom,
    "label": Label,
    "session_info": SessionInfoEntry,
    "leaf": Leaf,
}

HEADER_TYPES: Final = frozenset({"session_header", "session"})
"""Types of a file's first line, native and of other programs: no entry has one of them."""
