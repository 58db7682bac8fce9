"""Window: the newest entries of a session, and their tree. Pure.

Law: the window holds every entry from its first seq on. Older entries are added a page at a time,
new ones as their events come; both ways give one tree. Its order is that of session/tree: the path
to the leaf of main comes first. Only forks indent. An entry whose parent lies before the window
stands as a root.

Records (labels, names of the session, moves of heads) are no rows: an entry below a record stands
below the next row up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec import UNSET, Struct

from sessiond.browse.words import kind_of, preview
from sessiond_client import EntryEvent

_RECORDS: Final = frozenset({"label", "session_info", "leaf"})
_NODES: Final = frozenset(
    {
        *("message", "custom_message", "branch_summary", "compaction", "custom"),
        *("thinking_level_change", "model_change"),
    }
)
_MAIN: Final = "main"


class Node(Struct):
    """An entry of the window, without its payload."""

    id: str
    parent_id: str | None
    seq: int
    timestamp: str
    kind: str
    preview: str
    is_row: bool


class TreeRow(Struct):
    """A row of the drawn tree; `prefix` is drawn left of the row, `below` left of its children."""

    node: Node
    prefix: str
    below: str


class Window:
    """The entries that are loaded, the heads and the labels."""

    def __init__(
        self, heads: Mapping[str, str | None], low: int, *, is_of_other_agent: bool = False
    ) -> None:
        """Begin without entries; every seq from `low` on belongs to the window.

        In a session of another agent, entries of further types are no rows.
        """
        self._has_own_types = not is_of_other_agent
        self.heads = dict(heads)
        self.labels: dict[str, str] = {}
        """Labels in force by entry, also of entries before the window."""
        self.low = low
        self.rows: list[TreeRow] = []
        self.path: set[str] = set()
        """Ids of the rows on the path to the leaf of main."""
        self._nodes: dict[str, Node] = {}
        self._is_stale = False

    def __len__(self) -> int:
        return len(self._nodes)

    def __contains__(self, entry_id: str) -> bool:
        return entry_id in self._nodes

    @property
    def leaf(self) -> str | None:
        """The row of main's leaf; None before the first entry, or if the leaf is not loaded."""
        return self._row_of(self.heads.get(_MAIN))

    def add_page(self, entries: Iterable[tuple[int, Mapping[str, Any]]], low: int) -> None:
        """Add older entries; every seq from `low` on belongs to the window now."""
        for seq, entry in entries:
            self._put(seq, entry)
        self.low = low
        self._is_stale = True

    def add_event(self, event: EntryEvent) -> None:
        """Add a new entry, and move the head that its event names."""
        node = self._put(event.seq, event.entry)
        if event.entry.get("type") == "label":
            self._label(event.entry)
        old_leaf = self.leaf
        if isinstance(event.head, str):
            if event.dropped:
                self.heads.pop(event.head, None)
            elif event.leaf_id is not UNSET:
                self.heads[event.head] = event.leaf_id
        if not self._grows_at_the_end(node, old_leaf):
            self._is_stale = True

    def lay_out(self) -> bool:
        """Draw the tree again if something other than its end has changed; return whether it has."""
        if not self._is_stale:
            return False
        self._is_stale = False
        self.path = set(self._ancestors(self.leaf))
        self.rows = list(self._laid_out())
        return True

    def trim(self, entries_max: int) -> None:
        """Forget the oldest entries beyond a number."""
        beyond = len(self._nodes) - entries_max
        if beyond <= 0:
            return
        by_seq = sorted(self._nodes.values(), key=lambda node: node.seq)
        for node in by_seq[:beyond]:
            del self._nodes[node.id]
        self.low = by_seq[beyond].seq
        self._is_stale = True

    def heads_at(self, entry_id: str) -> list[str]:
        """Return the names of the heads but main whose row this is."""
        return [
            name
            for name, leaf in self.heads.items()
            if name != _MAIN and leaf is not None and self._row_of(leaf) == entry_id
        ]

    def _put(self, seq: int, entry: Mapping[str, Any]) -> Node:
        parent, kind = entry.get("parent_id"), str(entry.get("type", ""))
        is_row = kind in _NODES or (self._has_own_types and kind not in _RECORDS)
        node = Node(
            str(entry.get("id", "")),
            parent,
            seq,
            str(entry.get("timestamp", "")),
            kind_of(entry),
            preview(entry) if is_row else "",
            is_row,
        )
        # Of two entries with one id the first one counts, as in the daemon.
        known = self._nodes.get(node.id)
        if known is None or seq <= known.seq:
            self._nodes[node.id] = node
        return node

    def _label(self, entry: Mapping[str, Any]) -> None:
        target, label = entry.get("target_id"), entry.get("label")
        if not isinstance(target, str):
            return
        if isinstance(label, str) and label:
            self.labels[target] = label
        else:
            self.labels.pop(target, None)

    def _grows_at_the_end(self, node: Node, old_leaf: str | None) -> bool:
        """Add the row below the last row if the entry stands there; return whether nothing else changed."""
        if self._is_stale:
            return False
        if not node.is_row:
            return self.leaf == old_leaf
        last = self.rows[-1] if self.rows else None
        if last is None or self._row_of(node.parent_id) != last.node.id:
            return False
        self.rows.append(TreeRow(node, last.below, last.below))
        if self.leaf == old_leaf:
            return True
        if self.leaf != node.id or old_leaf != last.node.id:
            return False
        self.path.add(node.id)
        return True

    def _row_of(self, entry_id: str | None) -> str | None:
        """Return the entry, or of a record the next row up; None outside the window."""
        # A chain of parents is never longer than the window, also where a file has a circle.
        for _ in range(len(self._nodes)):
            node = self._nodes.get(entry_id) if entry_id is not None else None
            if node is None:
                return None
            if node.is_row:
                return node.id
            entry_id = node.parent_id
        return None

    def _ancestors(self, entry_id: str | None) -> Iterator[str]:
        seen: set[str] = set()
        while entry_id is not None and entry_id not in seen:
            seen.add(entry_id)
            yield entry_id
            entry_id = self._row_of(self._nodes[entry_id].parent_id)

    def _laid_out(self) -> Iterator[TreeRow]:
        children: dict[str | None, list[Node]] = {}
        for node in self._nodes.values():
            if node.is_row:
                children.setdefault(self._row_of(node.parent_id), []).append(node)
        for siblings in children.values():
            siblings.sort(key=lambda one: (one.id not in self.path, one.timestamp, one.seq))
        roots = children.get(None, [])
        # Rows that wait, the next one last: node, columns of the parent, is one of several, is last.
        waiting = [(node, "", len(roots) > 1, node is roots[-1]) for node in reversed(roots)]
        while waiting:
            node, columns, is_forked, is_last = waiting.pop()
            own, below = columns, columns
            if is_forked:
                own = columns + ("└─ " if is_last else "├─ ")
                below = columns + ("   " if is_last else "│  ")
            yield TreeRow(node, own, below)
            siblings = children.get(node.id, [])
            waiting += [
                (child, below, len(siblings) > 1, child is siblings[-1])
                for child in reversed(siblings)
            ]
