"""Nodes of a tree as answers show them, read from the file a few at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from sessiond.dialects.lenient_json import lenient
from sessiond.dialects.preview import cut
from sessiond.model.integers import IntegerDecoder
from sessiond.model.row import Kind
from sessiond.service.log.chunks import chunks
from sessiond.service.log.events import type_word
from sessiond.service.log.open_session import OpenSession
from sessiond.session.tree import TreeRow
from sessiond.session.tree_layout import Gutter, RowPlace
from sessiond.session.tree_part import ShownRow


class TreeNode(Struct, frozen=True, kw_only=True):
    """Node of the tree; `preview` is its first words, `tokens_before` is a field of compactions.

    `parent_id` is the stored parent; `resolved_parent_id` is present if the node has another parent.
    `role` is present for messages of the user, of an assistant and of a tool, in every dialect.
    """

    id: str
    parent_id: str | None
    seq: int
    type: str
    depth: int
    on_active_path: bool
    label: str | None
    preview: str
    tokens_before: int | None
    timestamp: str
    resolved_parent_id: str | UnsetType | None = UNSET
    role: Literal["user", "assistant", "tool"] | UnsetType = UNSET


class FlatNode(TreeNode, frozen=True, kw_only=True):
    """Row of the flat form; `children` is a count. The last four fields come with `layout`."""

    children: int
    indent: int | UnsetType = UNSET
    connector: bool | UnsetType = UNSET
    last: bool | UnsetType = UNSET
    gutters: list[Gutter] | UnsetType = UNSET


class NestedNode(TreeNode, frozen=True, kw_only=True):
    """Node with the nodes below it."""

    children: list[NestedNode]


_count: Final = IntegerDecoder[int | None](int | None)

_ROLES: Final[Mapping[int, Literal["user", "assistant", "tool"]]] = {
    Kind.USER: "user",
    Kind.ASSISTANT: "assistant",
    Kind.TOOL: "tool",
}


def read_nodes(
    opened: OpenSession, places: Iterable[RowPlace[TreeRow]], upto: int
) -> Iterator[tuple[RowPlace[TreeRow], TreeNode]]:
    """Yield each place with its node, in order, as of the last line `upto`."""
    ahead: deque[RowPlace[TreeRow]] = deque()

    def seqs() -> Iterator[int]:
        for place in places:
            ahead.append(place)
            yield place.row.seq

    for chunk in chunks(opened.journal, seqs()):
        for line in opened.journal.read_many(chunk):
            place = ahead.popleft()
            yield place, _node(opened, place, line, upto)


def _node(opened: OpenSession, place: RowPlace[TreeRow], line: bytes, upto: int) -> TreeNode:
    session, dialect, row = opened.session, opened.dialect, place.row
    kind = session.kinds[row.seq]
    wire = dialect.wire(line) if kind in {Kind.COMPACTION, Kind.OPAQUE} else b""
    parent_id = session.id_of(session.parents[row.seq])
    is_rerouted = row.seq in session.rerouted
    return TreeNode(
        id=session.names[row.seq],
        parent_id=dialect.row(line).parent_id if is_rerouted else parent_id,
        resolved_parent_id=parent_id if is_rerouted else UNSET,
        seq=row.seq,
        type=type_word(kind, wire),
        depth=row.depth,
        on_active_path=row.on_active_path,
        label=session.label_at(row.seq, upto),
        preview=dialect.preview(line),
        tokens_before=_tokens(wire) if kind == Kind.COMPACTION else None,
        timestamp=dialect.timestamp(line),
        role=_ROLES.get(kind, UNSET),
    )


def _tokens(wire: bytes) -> int | None:
    try:
        count: int | None = _count.decode(lenient(wire).get("tokens_before", b"null"))
    except msgspec.DecodeError:
        # Another program wrote a value that is no integer; session/entry shows it unchanged.
        return None
    return count


def laid_out(place: RowPlace[TreeRow], node: TreeNode, *, layout: bool) -> FlatNode:
    """Return a node as a row of the flat form."""
    common = {name: getattr(node, name) for name in TreeNode.__struct_fields__}
    placed = layout_fields(place) if layout else {}
    return FlatNode(**common, children=place.row.children, **placed)


def layout_fields(place: RowPlace[Any]) -> dict[str, Any]:
    """Return the fields of a node that `layout` asks for."""
    return {
        "indent": place.indent,
        "connector": place.connector,
        "last": place.row.last,
        "gutters": place.gutters,
    }


def drawn(part: ShownRow, node: TreeNode, kind: int, mark: str, heads: Sequence[str] | None) -> str:
    """Return a node as a line of the text form, without its id."""
    what = _ROLES.get(kind, cut(node.type))
    preview = f": {node.preview}" if node.preview else ""
    label = f" [{cut(node.label)}]" if node.label else ""
    names = f" ◀ {', '.join(heads)}" if heads else ""
    more = f" … {part.hidden} more" if part.hidden else ""
    return f"{part.prefix}{mark} {what}{preview}{label}{names}{more}"
