"""What the daemon answers about trees, heads and contexts. As lenient as `results`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from sessiond_client import wire

__all__ = [
    "READ_COMPACTED",
    "READ_CONTEXT",
    "READ_ENTRIES_MEANT",
    "READ_LABEL_PAGE",
    "READ_LEASE",
    "READ_MOVED",
    "READ_REWOUND",
    "READ_TREE_PAGE",
    "Compacted",
    "CompactedEntry",
    "Context",
    "EntriesMeant",
    "EntryMeant",
    "Label",
    "LabelPage",
    "Lease",
    "Moved",
    "NestedNode",
    "Rewound",
    "TreeNode",
    "TreePage",
]


_READ_ANY: Final[Callable[[Raw], Any]] = wire.reader(object)


class Moved(Struct, frozen=True):
    """Where a head is now."""

    leaf_id: str | None
    head: str = "main"
    seq: int | None = None


class Rewound(Struct, frozen=True):
    """A head that went back on its path, and what is no longer on it."""

    leaf_id: str | None
    seq: int
    head: str = "main"
    rewound: list[str] = []
    rewound_count: int | None = None


class Lease(Struct, frozen=True):
    """A head that is this client's, until then. It ends with the connection too."""

    lease_id: str
    epoch: int
    expires_at: str | None = None


class Label(Struct, frozen=True):
    """The name of an entry, and when it was given."""

    entry_id: str
    label: str
    timestamp: str | None = None


class LabelPage(Struct, frozen=True):
    """Labels in force, in the order of the entries."""

    labels: list[Label]
    next_cursor: str | None = None


class EntryMeant(Struct, frozen=True):
    """An entry that a ref means, and a short ref that means this entry alone."""

    entry_id: str
    seq: int
    short: str = ""


class EntriesMeant(Struct, frozen=True):
    """The entries that refs mean, in the order of the refs."""

    entries: list[EntryMeant]


class TreeNode(Struct, frozen=True):
    """An entry's place in the tree.

    `parent_id` is what is stored, `resolved_parent_id` is there if the entry stands elsewhere.
    """

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
    indent: int | None = None
    connector: bool | None = None
    last: bool | None = None
    gutters: list[dict[str, Any]] | None = None
    resolved_parent_id: str | UnsetType | None = UNSET

    @property
    def below_id(self) -> str | None:
        """The id of the entry that this one stands below; None for a root."""
        resolved = self.resolved_parent_id
        return self.parent_id if isinstance(resolved, UnsetType) else resolved


class NestedNode(Struct, frozen=True):
    """An entry's place in the tree, with its children in it."""

    id: str
    parent_id: str | None = None
    seq: int | None = None
    type: str = ""
    depth: int = 0
    children: list[NestedNode] = []
    on_active_path: bool = False
    label: str | None = None
    preview: str | None = None
    tokens_before: int | None = None
    timestamp: str | None = None


class TreePage(Struct, frozen=True):
    """The tree in the form that was asked for: `nodes` in pre-order, `roots` nested, or `text`."""

    nodes: list[TreeNode] = []
    next_cursor: str | None = None
    seq: int | None = None
    roots: list[NestedNode] = []
    text: str | None = None


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
    system: str | None = None
    """The system prompt, if it was to be included."""
    unchanged: int = 0
    """How many leading messages of the context named as `known` still stand before these."""

    @cached_property
    def messages(self) -> list[Any]:
        """The messages, decoded when first asked for."""
        return [_READ_ANY(message) for message in self.raw_messages]


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


READ_MOVED: Final = wire.reader(Moved)
READ_REWOUND: Final = wire.reader(Rewound)
READ_LABEL_PAGE: Final = wire.reader(LabelPage)
READ_ENTRIES_MEANT: Final = wire.reader(EntriesMeant)
READ_LEASE: Final = wire.reader(Lease)
READ_TREE_PAGE: Final = wire.reader(TreePage)
READ_CONTEXT: Final = wire.reader(Context)
READ_COMPACTED: Final = wire.reader(Compacted)
