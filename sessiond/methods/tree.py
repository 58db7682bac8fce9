"""session/tree: every node in pre-order, the active branch first."""

from __future__ import annotations

from itertools import islice
from typing import Any, Literal

import msgspec
from anyio import to_thread
from msgspec import Struct

from sessiond.errors import InvalidParams
from sessiond.methods.common import Call, Client, Method, SessionParams, ask, page_limit
from sessiond.methods.rows import label_of
from sessiond.model.entries import Kind
from sessiond.service.events import type_word
from sessiond.service.host import Host
from sessiond.session.tree import TreeRow, preorder

__all__ = ["METHOD"]


class TreeParams(SessionParams):
    """A page of the flat form."""

    form: Literal["flat"] = "flat"
    limit: int | None = None
    cursor: str | None = None


class TreeNode(Struct, frozen=True):
    """A node; `children` is how many it has, `preview` its first words."""

    id: str
    parent_id: str | None
    seq: int
    type: str
    depth: int
    children: int
    on_active_path: bool
    label: str | None
    preview: str
    tokens_before: int | None
    timestamp: str


class TreeResult(Struct, frozen=True):
    """A page of nodes; `seq` is the line the tree was drawn at, for all its pages."""

    nodes: list[TreeNode]
    next_cursor: str | None
    seq: int


class _TokensBefore(Struct):
    tokens_before: int | None = None


_tokens_before = msgspec.json.Decoder(_TokensBefore)


def handle(client: Client, params: TreeParams, call: Call[Client]) -> Any:
    """Draw in a worker thread, at the line and leaf of now or of the first page."""
    limit = page_limit(params.limit)

    def look(host: Host) -> Any:
        session = host.opened.session
        at = (session.seq, session.heads["main"].leaf, 0)
        if params.cursor is not None:
            at = _cursor(params.cursor, session.seq)
        return host.later(call, lambda: to_thread.run_sync(_page, host, limit, at))

    return ask(client, call, params.session_id, look)


def _page(host: Host, limit: int, at: tuple[int, int, int]) -> TreeResult:
    opened = host.opened
    seq, leaf, start = at
    host.children.extend(opened.session, seq)
    rows = preorder(opened.session, host.children, seq=seq, leaf=leaf, when=opened.line_time)
    page = list(islice(rows, start, start + limit))
    nodes = [
        _node(host, row, line)
        for row, line in zip(page, opened.journal.read_many([r.seq for r in page]), strict=True)
    ]
    more = next(rows, None) is not None
    return TreeResult(nodes, f"{seq}:{leaf}:{start + limit}" if more else None, seq)


def _node(host: Host, row: TreeRow, line: bytes) -> TreeNode:
    opened = host.opened
    session, dialect = opened.session, opened.dialect
    kind = session.kinds[row.seq]
    wire = dialect.wire(line) if kind in {Kind.COMPACTION, Kind.OPAQUE} else b""
    return TreeNode(
        id=session.names[row.seq],
        parent_id=session.id_of(session.parents[row.seq]),
        seq=row.seq,
        type=type_word(kind, wire),
        depth=row.depth,
        children=row.children,
        on_active_path=row.on_active_path,
        label=label_of(session, row.seq),
        preview=dialect.preview(line),
        tokens_before=_tokens(wire) if kind == Kind.COMPACTION else None,
        timestamp=dialect.timestamp(line),
    )


def _tokens(wire: bytes) -> int | None:
    try:
        return _tokens_before.decode(wire).tokens_before
    except msgspec.ValidationError:
        # Another program's number; it is shown by session/entry as it stands.
        return None


def _cursor(text: str, seq: int) -> tuple[int, int, int]:
    parts = text.split(":")
    if len(parts) == 3 and all(part.isdecimal() and len(part) < 16 for part in parts):
        at, leaf, start = map(int, parts)
        if leaf <= at <= seq:
            return at, leaf, start
    raise InvalidParams("this is no cursor of session/tree on this session", path="cursor")


METHOD = Method(name="session/tree", params=TreeParams, result=TreeResult, handle=handle)
