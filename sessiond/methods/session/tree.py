"""session/tree: return every node in pre-order, the active branch first: as rows, nested, or drawn."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Annotated, Any, Final, Literal

from anyio import to_thread
from msgspec import Meta, Raw, Struct

from sessiond.dialects.preview import cut
from sessiond.errors import EntryNotFound, InvalidParams, TooLarge
from sessiond.limits import NESTED_LEVELS_MAX, RESULT_BYTES_MAX
from sessiond.methods._shared.common import SessionParams, ask, encode, page_limit, raw
from sessiond.methods._shared.nodes import (
    FlatNode,
    NestedNode,
    TreeNode,
    drawn,
    laid_out,
    read_nodes,
)
from sessiond.methods._shared.place import cursor_numbers, cursor_of
from sessiond.model.ids import MAIN, EntryId
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.service.actor.actor import SessionActor
from sessiond.service.client import Client
from sessiond.session.index import Session
from sessiond.session.refs import short_ids
from sessiond.session.tree import TreeRow, preorder
from sessiond.session.tree_layout import RowPlace, lay_out
from sessiond.session.tree_part import ShownRow, TreePart


class TreeParams(SessionParams):
    """Form of the tree, and its parameters; `_FORMS` names the form of each parameter."""

    form: Literal["flat", "nested", "text"] = "flat"
    layout: bool = False
    ids: bool | Literal["short"] = False
    depth: Annotated[int, Meta(ge=0)] | None = None
    around: EntryId | None = None
    limit: int | None = None
    cursor: str | None = None


# The form that each parameter is for. Nodes of the other forms always hold their ids; the nested
# form is always the whole tree.
_FORMS: Final = {
    "layout": "flat",
    "limit": "flat",
    "cursor": "flat",
    "ids": "text",
    "depth": "text",
    "around": "text",
}


class TreeResult(Struct, frozen=True):
    """Page of nodes; `seq` is the last line of the tree, for all its pages."""

    nodes: list[FlatNode]
    next_cursor: str | None
    seq: int


class NestedTree(Struct, frozen=True):
    """Whole tree, each node with its children."""

    roots: list[NestedNode]
    seq: int


class TextTree(Struct, frozen=True):
    """Tree, or a part of the tree, as lines of text."""

    text: str
    seq: int


class _Sight(Struct, frozen=True):
    """Tree at one moment: its last line, the leaf of main, and the other heads."""

    actor: SessionActor
    seq: int
    leaf: int
    heads: Mapping[int, list[str]]

    def places(self) -> Iterator[RowPlace[TreeRow]]:
        """Yield every node with its place in the drawing."""
        opened, children = self.actor.opened, self.actor.children
        children.extend(opened.session, self.seq)
        return lay_out(
            preorder(opened.session, children, seq=self.seq, leaf=self.leaf, when=opened.line_time)
        )


def handle(client: Client, params: TreeParams, call: Call[Client]) -> Any:
    """Draw in a worker thread, as of the current line and leaf or those of the first page."""
    limit = page_limit(params.limit)
    _require_form(params)

    def look(actor: SessionActor) -> Any:
        session = actor.opened.session
        seq, leaf, start = session.seq, session.heads[MAIN].leaf, 0
        if params.cursor is not None:
            seq, leaf, start = cursor_numbers(session, params.cursor, 2, 3)
        sight = _Sight(actor, seq, leaf, _other_heads(session))
        part = TreePart(session, around=_around(session, params.around), depth=params.depth)

        def work() -> Raw:
            match params.form:
                case "flat":
                    return _flat(sight, start, limit, layout=params.layout)
                case "nested":
                    return _nested(sight)
                case "text":
                    return _text(sight, part, ids=params.ids)

        return actor.later(call, lambda: to_thread.run_sync(work))

    return ask(client, call, params.session_id, look)


def _other_heads(session: Session) -> dict[int, list[str]]:
    """Return the names of the heads that stand at each entry, without main."""
    found: dict[int, list[str]] = {}
    for name, head in sorted(session.heads.items()):
        if name != MAIN:
            found.setdefault(head.leaf, []).append(name)
    return found


def _around(session: Session, entry_id: str | None) -> int:
    """Return the seq of the entry, or 0 for none. Raises EntryNotFound."""
    if entry_id is None:
        return 0
    if seq := session.node(entry_id):
        return seq
    what = "no entry of the tree has this id"
    raise EntryNotFound(what, entry_id=entry_id, path="around")


def _require_form(params: TreeParams) -> None:
    """Raise InvalidParams for a parameter of another form."""
    for name, form in _FORMS.items():
        value = getattr(params, name)
        if params.form != form and value is not None and value is not False:
            raise InvalidParams(f"{name} is for form {form} only", path=name)


def _flat(sight: _Sight, start: int, limit: int, *, layout: bool) -> Raw:
    page = islice(sight.places(), start, start + limit + 1)
    rows: list[bytes] = []
    size = 0
    more: str | None = None
    for place, node in read_nodes(sight.actor.opened, page, sight.seq):
        row = encode(laid_out(place, node, layout=layout))
        if len(rows) == limit or (rows and size + len(row) > RESULT_BYTES_MAX // 2):
            more = cursor_of(sight.actor.opened.session, (sight.seq, sight.leaf), start + len(rows))
            break
        rows.append(row)
        size += len(row)
    tail = b'],"next_cursor":%s,"seq":%d}' % (encode(more), sight.seq)
    return raw((b'{"nodes":[', b",".join(rows), tail))


def _nested(sight: _Sight) -> Raw:
    parts = [b'{"roots":[']
    size = opened = 0
    for place, node in read_nodes(sight.actor.opened, sight.places(), sight.seq):
        depth = place.row.depth
        if depth >= NESTED_LEVELS_MAX:
            raise _too_large("the tree has more levels than a nested answer", NESTED_LEVELS_MAX)
        if opened > depth:
            # The siblings before it, with all nodes below them, are complete.
            parts.append(b"]}" * (opened - depth) + b",")
        parts.append(encode(node)[:-1] + b',"children":[')
        opened = depth + 1
        size += len(parts[-1])
        if size > RESULT_BYTES_MAX:
            raise _too_large("the tree is larger than an answer may be", RESULT_BYTES_MAX)
    parts.append(b"]}" * opened + b'],"seq":%d}' % sight.seq)
    return raw(parts)


def _text(sight: _Sight, part: TreePart, *, ids: bool | str) -> Raw:
    """Return the drawing. Raises TooLarge."""
    session = sight.actor.opened.session
    above = [f"… {part.ancestors_hidden} above"] if part.ancestors_hidden else []
    lines: list[str] = []
    seqs: list[int] = []
    size = 0
    for row, node in _shown(sight, part):
        mark = "▶" if node.seq == sight.leaf else "•" if node.on_active_path else " "
        lines.append(drawn(row, node, session.kinds[node.seq], mark, sight.heads.get(node.seq)))
        seqs.append(node.seq)
        size += len(lines[-1]) + (len(node.id) if ids else 0)
        if size > RESULT_BYTES_MAX:
            raise _too_large("the drawing is larger than an answer may be", RESULT_BYTES_MAX)
    if ids:
        names = short_ids(session, seqs) if ids == "short" else None
        for at, seq in enumerate(seqs):
            name = cut(session.names[seq]) if names is None else names[seq]
            lines[at] += f" ({name})"
    return Raw(encode(TextTree("\n".join([*above, *lines]), sight.seq)))


def _shown(sight: _Sight, part: TreePart) -> Iterator[tuple[ShownRow, TreeNode]]:
    """Yield the rows that are drawn, each with its node; no line of another row is read."""
    ahead: deque[ShownRow] = deque()

    def places() -> Iterator[RowPlace[TreeRow]]:
        for row in part.rows(sight.places()):
            ahead.append(row)
            yield row.place

    for _, node in read_nodes(sight.actor.opened, places(), sight.seq):
        yield ahead.popleft(), node


def _too_large(what: str, limit: int) -> TooLarge:
    return TooLarge(f"{what}: ask for form flat, a page at a time", limit=limit)


METHOD = Method(
    name="session/tree",
    params=TreeParams,
    result=TreeResult | NestedTree | TextTree,
    handle=handle,
    errors=(EntryNotFound,),
)
