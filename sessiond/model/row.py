"""The row that the index keeps of one entry: one form for all dialects, without the payload.

Law: a session is made of rows alone. A dialect turns each line into a row (its kind, its
place, its effect). The dialect's `Rules` say how its rows act differently on a session.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final, Literal

from msgspec import Struct

from sessiond.model.ids import MAIN
from sessiond.model.settings import PresetName
from sessiond.model.usage import Usage
from sessiond.model.working.annotations import AnnotationEffect
from sessiond.model.working.entries import StateEffect


class Kind(IntEnum):
    """The kind of an entry in the index, one byte per line."""

    NONE = 0  # the header, a blank or a bad line: has a seq but no event
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

# The kinds that a path puts into a context, besides the compaction that decides.
CONTEXT_KINDS: Final = MESSAGE_KINDS | {
    Kind.CUSTOM_MESSAGE,
    Kind.BRANCH_SUMMARY,
    Kind.CONTEXT_EDIT,
}

# The type name of each kind. The type name of an opaque entry is read from its line.
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


class ModelName(Struct, frozen=True, omit_defaults=True):
    """The name of the model that answers."""

    model_id: str
    provider: str | None = None


class LabelEffect(Struct, frozen=True):
    """A new label for `target_id`; None clears the label."""

    target_id: str
    label: str | None


class LeafEffect(Struct, frozen=True):
    """A move of the head to `target_id`, or the drop of the head."""

    target_id: str | None
    drop: bool = False


class InfoEffect(Struct, frozen=True):
    """The changed facts, by their field in `SessionInfo`; a value of None clears the fact."""

    facts: dict[str, Any]


class CompactionEffect(Struct, frozen=True):
    """The beginning of the context below a compaction."""

    first_kept_entry_id: str | None
    replacement: bool


Effect = LabelEffect | LeafEffect | InfoEffect | CompactionEffect | StateEffect | AnnotationEffect


class MessageFacts(Struct, frozen=True, gc=False):
    """Facts that the index reads of a message."""

    kind: int
    model: ModelName | None = None
    """The model that an assistant message names."""
    usage: Usage | None = None
    """The usage that an assistant message reports."""


class Row(Struct):
    """The part of an entry that the index needs, in one form for all dialects."""

    kind: int
    id: str
    parent_id: str | None
    head: str = MAIN
    setting: ModelName | str | None = None
    """The model of a model change or answer, or the level of a thinking level change."""
    effect: Effect | None = None
    atom: tuple[int, int] | None = None
    timestamp: str | float | None = None
    """The time of the entry, as spelled on the line; None if the line has no time."""
    atom_of: str | None = None
    """The session in which the entry's append was made, as the entry says; only with `atom`."""
    usage: Usage | None = None
    """The usage that the message of an assistant reports."""
    bridge: str | None = None
    """The entry at which the path goes on, where the file of another agent lacks the parent."""
    damage: str | None = None
    """Damage of the line of another agent's file; only with the first record of the line."""


class MessageRun(Struct, frozen=True):
    """Facts for the lines of messages that follow each other, besides the messages."""

    ids: list[str]
    parent_id: str | None
    """The id that the first message stands below; each other one stands below the one before."""
    timestamp: str
    head: str


MoveForm = Literal["leaf", "custom", "branch_summary"]
"""A `leaf` record with the target, or a node below the target, which becomes the leaf: a `custom`
node, or a `branch_summary` with an empty summary."""


class Rules(Struct, frozen=True):
    """The differences between dialects in how entries act on a session."""

    records: frozenset[int]
    """Kinds that are no nodes of the tree and so cannot be parents."""
    moves: MoveForm
    """The entry that stores a move of a head."""
    named_heads: bool
    replacement: bool
    """True if a compaction by replacement messages can be stored."""
    atoms: bool
    """True if entries of one call carry `atom`, so that half a call shows after a crash."""
    auto_title: bool
    """True if a generated title is kept apart from a title that a user chose."""
    shows_files: bool
    """True if a context shows the files of a compaction's `details` behind its summary."""
    truncates: bool
    """True if only sessiond writes the file and may cut it; other files are only appended to."""
    notices: bool = False
    """True if each compaction on a path is a message at its place, besides the summary that begins
    the context."""
    strict_kept: bool = False
    """True if a compaction counts only where its first kept entry is a message on its path: else
    the context is the whole path. Without a first kept entry the context is the summary alone."""
    custom_speaks: bool = True
    """True if the model sees the messages of extensions (`custom_message`)."""
    header_is_root: bool = False
    """True if an entry without a parent names the header as its parent."""
    uuids: bool = False
    """True if the ids of entries are full UUIDs."""
    file_lists: PresetName | None = None
    """Preset that spells the file lists in summaries as the program does; None for the session's."""
    id_chars_min: int = 1
    """Least number of characters of an id that a client chooses."""
    pointer: bool = True
    """True if a compaction with a summary and a first kept entry can be stored; else the messages
    that both make are stored."""
    whole_info: tuple[str, ...] = ()
    """Fields that each `session_info` entry states, changed or not, because the program takes them from
    the last entry of this kind. Such an entry that is no node has no id for other programs."""
    is_list: bool = False
    """True if the file is a list of messages: it takes messages behind the last one and nothing else."""
    settings_are_entries: bool = False
    """True if a model and a thinking level are entries of their own, and no facts of a `session_info`."""
    titled_header: bool = False
    """True if a header can state the title of the session."""
    joins: bool = False
    """True if an entry may change the message that an entry before it gives, as a part of an answer."""
    sidecar_lock: bool = False
    """True if writers of the file lock a file beside it, named like it and `.lock`, for each write."""
