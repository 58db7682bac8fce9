"""The entry types, and what the index keeps of each.

A struct here is spelled as a native line and as the wire spells it; the field
order is the order on disk. Payloads (`message`, `content`, `data`, `details`,
`messages`) are `Raw`: they travel as the bytes that were sent. To add an entry
type: one struct, its place in `ENTRY_TYPES`, a kind, and a sample.

    {"type":"message","id":"a1b2c3d4","parent_id":null,
     "timestamp":"2026-01-15T10:30:00.000Z","message":{"role":"user","content":"hi"}}
"""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, Any, Final, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from sessiond.model.ids import MAIN, EntryId, HeadName, NewEntryId

__all__ = [
    "CONTEXT_KINDS",
    "ENTRY_TYPES",
    "HOLDS",
    "NODE_RULES_NATIVE",
    "BranchSummary",
    "Compaction",
    "CompactionEffect",
    "Custom",
    "CustomMessage",
    "Effect",
    "Entry",
    "EntryBytes",
    "Header",
    "InfoEffect",
    "Kind",
    "Label",
    "LabelEffect",
    "Leaf",
    "LeafEffect",
    "Message",
    "MessageBytes",
    "ModelChange",
    "Opaque",
    "Row",
    "Rules",
    "SessionInfoEntry",
    "ThinkingLevelChange",
]


HOLDS: Final = "x-holds"
"""Marks a field whose bytes are passed on: the schema's name for what they spell."""

EntryBytes = Annotated[Raw, Meta(extra_json_schema={HOLDS: "AnyEntry"})]
MessageBytes = Annotated[Raw, Meta(extra_json_schema={HOLDS: "AgentMessage"})]


class Kind(IntEnum):
    """What an ordinal of the file is to the index: one byte an entry."""

    NONE = 0  # the header, a blank or a bad line: takes a seq, yields no event
    USER = 1
    ASSISTANT = 2
    TOOL = 3
    OTHER_ROLE = 4
    CUSTOM_MESSAGE = 5
    BRANCH_SUMMARY = 6
    COMPACTION = 7
    THINKING = 8
    MODEL = 9
    CUSTOM = 10
    LABEL = 11
    INFO = 12
    LEAF = 13
    CONTEXT_EDIT = 14
    OPAQUE = 15


MESSAGE_KINDS: Final = frozenset({Kind.USER, Kind.ASSISTANT, Kind.TOOL, Kind.OTHER_ROLE})

# What a path puts into a context, a deciding compaction aside.
CONTEXT_KINDS: Final = MESSAGE_KINDS | {
    Kind.CUSTOM_MESSAGE,
    Kind.BRANCH_SUMMARY,
    Kind.CONTEXT_EDIT,
}

# The type word of a kind. An opaque entry's own word is read from its line.
TYPE_OF_KIND: Final[dict[int, str]] = {
    Kind.USER: "message",
    Kind.ASSISTANT: "message",
    Kind.TOOL: "message",
    Kind.OTHER_ROLE: "message",
    Kind.CUSTOM_MESSAGE: "custom_message",
    Kind.BRANCH_SUMMARY: "branch_summary",
    Kind.COMPACTION: "compaction",
    Kind.THINKING: "thinking_level_change",
    Kind.MODEL: "model_change",
    Kind.CUSTOM: "custom",
    Kind.LABEL: "label",
    Kind.INFO: "session_info",
    Kind.LEAF: "leaf",
    Kind.CONTEXT_EDIT: "context_edit",
}


class Header(Struct, tag="session_header", tag_field="type", omit_defaults=True):
    """Line 1 of a native file: immutable, no parent, no node.

    `version` is always written. `timestamp` is kept as text even where a file
    spells it as a number.
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


class Entry(Struct, kw_only=True, tag_field="type", forbid_unknown_fields=True):
    """What every entry has. The writer fills what a caller left unset."""

    id: NewEntryId | UnsetType = UNSET
    parent_id: EntryId | UnsetType | None = UNSET
    timestamp: str | UnsetType = UNSET
    head: HeadName | UnsetType = UNSET
    atom: tuple[int, int] | UnsetType = UNSET


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
    """What was tried on the branch that was left; `from_id` is the abandoned leaf."""

    summary: str
    from_id: EntryId | None
    details: Raw | UnsetType = UNSET


class Compaction(Entry, kw_only=True, tag="compaction"):
    """Replaces what precedes it: by a summary and a first kept entry, or by messages."""

    summary: str | UnsetType = UNSET
    first_kept_entry_id: EntryId | UnsetType | None = UNSET
    messages: list[MessageBytes] | UnsetType = UNSET
    tokens_before: Annotated[int, Meta(ge=0)] | UnsetType = UNSET
    tokens_after: Annotated[int, Meta(ge=0)] | UnsetType = UNSET
    details: Raw | UnsetType = UNSET


class ThinkingLevelChange(Entry, kw_only=True, tag="thinking_level_change"):
    """A setting: how hard the model thinks from here on."""

    thinking_level: str


class ModelChange(Entry, kw_only=True, tag="model_change"):
    """A setting: which model answers from here on."""

    model_id: str
    provider: str | UnsetType = UNSET


class Custom(Entry, kw_only=True, tag="custom"):
    """An extension's own data, never in the context."""

    custom_type: str
    data: Raw | UnsetType = UNSET


class Label(Entry, kw_only=True, tag="label"):
    """A name for an entry; null or "" clears it."""

    target_id: EntryId
    label: str | None = None


class SessionInfoEntry(Entry, kw_only=True, tag="session_info"):
    """Facts about the session, last write wins per field; null clears.

    `auto_title` is a title that nobody chose: it is shown while there is no `name`.
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


class Leaf(Entry, kw_only=True, tag="leaf"):
    """Moves a head; a null target is the place before the first entry."""

    target_id: EntryId | None
    reason: Literal["branch", "reset", "rewind", "drop"] | UnsetType = UNSET


class Opaque(Struct, kw_only=True):
    """An entry of a type we do not know: a node whose fields are kept as they came."""

    type: str
    id: str | UnsetType = UNSET
    parent_id: str | UnsetType | None = UNSET
    timestamp: str | UnsetType = UNSET
    head: str | UnsetType = UNSET
    atom: tuple[int, int] | UnsetType = UNSET
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

KIND_OF_TYPE: Final[dict[str, Kind]] = {
    "custom_message": Kind.CUSTOM_MESSAGE,
    "branch_summary": Kind.BRANCH_SUMMARY,
    "compaction": Kind.COMPACTION,
    "thinking_level_change": Kind.THINKING,
    "model_change": Kind.MODEL,
    "custom": Kind.CUSTOM,
    "label": Kind.LABEL,
    "session_info": Kind.INFO,
    "leaf": Kind.LEAF,
}


class LabelEffect(Struct, frozen=True):
    """`target_id` gets `label`; None clears."""

    target_id: str
    label: str | None


class LeafEffect(Struct, frozen=True):
    """The head goes to `target_id`, or is dropped."""

    target_id: str | None
    drop: bool = False


class InfoEffect(Struct, frozen=True):
    """Facts that change, by their field in `SessionInfo`; a value of None clears."""

    facts: dict[str, Any]


class CompactionEffect(Struct, frozen=True):
    """How the context begins below this compaction."""

    first_kept_entry_id: str | None
    replacement: bool


Effect = LabelEffect | LeafEffect | InfoEffect | CompactionEffect


class Row(Struct):
    """What the index needs of one entry, the same for every dialect."""

    kind: int
    id: str
    parent_id: str | None
    head: str = MAIN
    names_model: bool = False
    """A model change, or an assistant message that says which model wrote it."""
    effect: Effect | None = None
    atom: tuple[int, int] | None = None


class Rules(Struct, frozen=True):
    """Where dialects differ in what an entry does to a session."""

    records: frozenset[int]
    """Kinds that stand in no tree and are nobody's parent."""
    leaf_records: bool
    """A move of the head is a `leaf` record; otherwise a custom node at the target."""
    named_heads: bool
    replacement: bool
    """Compaction by replacement messages can be stored."""
    atoms: bool
    """Entries of one call carry `atom`, so half a call is recognised after a crash."""
    auto_title: bool
    """A title that was made is kept apart from one that somebody chose."""
    truncates: bool
    """The file is ours alone and may be cut back; others are only ever appended to."""


NODE_RULES_NATIVE: Final = Rules(
    records=frozenset({Kind.LABEL, Kind.INFO, Kind.LEAF}),
    leaf_records=True,
    named_heads=True,
    replacement=True,
    atoms=True,
    auto_title=True,
    truncates=True,
)
