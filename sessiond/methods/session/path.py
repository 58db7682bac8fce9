"""session/path: return the entries from a root to a leaf."""

from __future__ import annotations

from typing import Any

from anyio import to_thread
from msgspec import UNSET, Raw, Struct, UnsetType

from sessiond.errors import EntryNotFound, HeadNotFound
from sessiond.limits import INLINE_WALK_STEPS
from sessiond.methods._shared.common import SessionParams, ask, encode, page_limit, raw
from sessiond.methods._shared.place import cursor_numbers, cursor_of, leaf_of
from sessiond.methods._shared.rows import children_are_near, details, entry_row, fitting, is_small
from sessiond.model.entries import EntryBytes
from sessiond.model.ids import EntryId, HeadName
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.service.actor.actor import SessionActor
from sessiond.service.client import Client


class PathParams(SessionParams):
    """Entry or head whose path is read, from either end."""

    entry_id: EntryId | None = None
    head: HeadName | None = None
    limit: int | None = None
    cursor: str | None = None
    from_end: bool = False


class PathEntry(Struct, frozen=True):
    """Entry on the path; `children` counts its children.

    `resolved_parent_id` is present if the entry's parent in the tree is not its `parent_id`.
    """

    seq: int
    entry: EntryBytes
    children: int
    label: str | None
    resolved_parent_id: str | UnsetType | None = UNSET


class PathResult(Struct, frozen=True):
    """Page of the path, root first; with `from_end` the pages go towards the root."""

    entries: list[PathEntry]
    next_cursor: str | None


def handle(client: Client, params: PathParams, call: Call[Client]) -> Any:
    """Walk up from the leaf."""
    limit = page_limit(params.limit)

    def look(actor: SessionActor) -> Any:
        session = actor.opened.session
        if params.cursor is None:
            leaf, start = leaf_of(session, params), None
        else:
            leaf, start = cursor_numbers(session, params.cursor, 1, 2, nodes=True)
        upto = session.seq
        if session.depths[leaf] <= INLINE_WALK_STEPS and children_are_near(actor):
            page = _page(actor, leaf, limit, start, from_end=params.from_end)
            if is_small(actor.opened, page[0]):
                return _read(actor, *page, upto)

        def work() -> Raw:
            page = _page(actor, leaf, limit, start, from_end=params.from_end)
            return _read(actor, *page, upto)

        return actor.later(call, lambda: to_thread.run_sync(work))

    return ask(client, call, params.session_id, look)


def _page(
    actor: SessionActor, leaf: int, limit: int, start: int | None, *, from_end: bool
) -> tuple[list[int], str | None]:
    """Return the seqs of a page and the cursor of the next page: the leaf, and an index."""
    opened = actor.opened
    path = opened.session.path(leaf)
    if from_end:
        end = len(path) if start is None else start
        begin = fitting(opened, path[:end][::-1], limit)
        begin = end - begin
        more = cursor_of(opened.session, (leaf,), begin) if begin > 0 else None
        return path[begin:end], more
    begin = start or 0
    end = begin + fitting(opened, path[begin:], limit)
    return path[begin:end], cursor_of(opened.session, (leaf,), end) if end < len(path) else None


def _read(actor: SessionActor, seqs: list[int], more: str | None, upto: int) -> Raw:
    actor.children.extend(actor.opened.session, upto)
    rows = [
        entry_row(actor.opened, seq, line, details(actor, seq, upto) + _resolved(actor, seq))
        for seq, line in zip(seqs, actor.opened.journal.read_many(seqs), strict=True)
    ]
    return raw((b'{"entries":[', b",".join(rows), b'],"next_cursor":%s}' % encode(more)))


def _resolved(actor: SessionActor, seq: int) -> bytes:
    """Return the member that holds an entry's parent in the tree, if `parent_id` differs."""
    session = actor.opened.session
    if seq not in session.rerouted:
        return b""
    return b',"resolved_parent_id":%s' % encode(session.id_of(session.parents[seq]))


METHOD = Method(
    name="session/path",
    params=PathParams,
    result=PathResult,
    handle=handle,
    errors=(
        EntryNotFound,
        HeadNotFound,
    ),
)
