"""What the index keeps of one entry, the same for every dialect: no payload.

Law: a session is made of rows alone. A dialect gives one a line (its kind, its place,
its effect) and says by its rules where it differs in what rows do to a session.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final

from msgspec import Struct

from sessiond.model.ids import MAIN

__all__ = [
    "CONTEXT_KINDS",
    "KIND_OF_TYPE",
    "MESSAGE_KINDS",
    "TYPE_OF_KIND",
    "CompactionEffect",
    "Effect",
    "InfoEffect",
    "Kind",
    "LabelEffect",
    "LeafEffect",
    "ModelName",
    "Row",
    "Rules",
]


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
    """Which model answers."""

    model_id: str
    provider: str | None = None


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
    setting: ModelName | str | None = None
    """The model that a model change or an answer names, or the level that a change of it sets."""
    effect: Effect | None = None
    atom: tuple[int, int] | None = None
    timestamp: str | float | None = None
    """When the entry was made, as it is spelled; None where the line has no time."""
    atom_of: str | None = None
    """Only with `atom`: the session that the entry says its append was made in."""


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
