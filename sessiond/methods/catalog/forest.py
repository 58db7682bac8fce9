"""catalog/forest: sessions by descent, as rows or drawn as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Literal, TypeVar

from msgspec import UNSET, Struct, UnsetType

from sessiond.catalog.catalog import Catalog
from sessiond.catalog.finding import relatives
from sessiond.catalog.forest import ForestRow, plant, tree_of
from sessiond.catalog.query import without_slash
from sessiond.catalog.rows import Relative
from sessiond.dialects.preview import cut
from sessiond.errors import InvalidParams, SessionNotFound, TooLarge
from sessiond.limits import FOREST_SESSIONS_MAX, RESULT_BYTES_MAX
from sessiond.methods._shared.common import encode, raw
from sessiond.methods._shared.nodes import layout_fields
from sessiond.model.deferred import DEFERRED
from sessiond.model.ids import SessionId
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.rpc.params import Params
from sessiond.service.client import Client
from sessiond.session.tree_layout import Gutter, RowPlace, lay_out

# Size of one character of a drawing in JSON.
_COLUMN_BYTES_MAX: Final = 4

_Row = TypeVar("_Row", str, bytes)


class ForestParams(Params):
    """Scope of the forest: all sessions, the sessions of one project, or one tree of sessions.

    With `layout` nodes have their place in a drawing in which only forks indent, and the text is
    that drawing.
    """

    scope: Literal["session", "project", "all"] | None = None
    session_id: SessionId | None = None
    cwd: str | None = None
    form: Literal["nodes", "text"] = "nodes"
    layout: bool = False


class ForestNode(Struct, frozen=True):
    """Session and its place in the forest; `children` counts the sessions derived from it.

    The last four fields come with `layout`.
    """

    session_id: str
    parent_id: str | None
    depth: int
    children: int
    orphan: bool
    title: str | None
    first_message: str | None
    cwd: str
    archived: bool
    created_at: str
    updated_at: str
    message_count: int
    partial: bool | UnsetType = UNSET
    indent: int | UnsetType = UNSET
    connector: bool | UnsetType = UNSET
    last: bool | UnsetType = UNSET
    gutters: list[Gutter] | UnsetType = UNSET


class ForestNodes(Struct, frozen=True):
    """Sessions with parents before children, siblings by creation time."""

    nodes: list[ForestNode]


class ForestText(Struct, frozen=True):
    """Drawing of the forest, one session per line."""

    text: str


def handle(client: Client, params: ForestParams, call: Call[Client]) -> Any:
    """Query the catalog in a worker thread."""
    _require_scope(params)
    client.service.look(call, lambda: _forest(client, params, call))
    return DEFERRED


def _require_scope(params: ForestParams) -> None:
    """Raise InvalidParams for a scope without its name, or a name outside its scope."""
    scope = params.scope or _implied(params)
    for name, its_scope in (("session_id", "session"), ("cwd", "project")):
        given = getattr(params, name) is not None
        if given != (scope == its_scope):
            wanted = f"scope {its_scope} takes {name}, and no other scope does"
            raise InvalidParams(wanted, path=name)


def _implied(params: ForestParams) -> str:
    if params.session_id is not None:
        return "session"
    return "all" if params.cwd is None else "project"


async def _forest(client: Client, params: ForestParams, call: Call[Client]) -> Any:
    def look(catalog: Catalog) -> Any:
        cwd = None if params.cwd is None else without_slash(params.cwd)
        found = catalog.ask(lambda each: relatives(each, cwd, FOREST_SESSIONS_MAX + 1))
        if len(found) > FOREST_SESSIONS_MAX:
            raise TooLarge(
                "more sessions than one forest may have: ask for one project with cwd",
                limit=FOREST_SESSIONS_MAX,
            )
        return _answer(_of_scope(params, found), params)

    return await client.service.live_catalog.ask(look, call)


def _of_scope(params: ForestParams, found: list[Relative]) -> Sequence[Relative]:
    if params.session_id is None:
        return found
    tree = tree_of(params.session_id, found)
    if not tree:
        raise SessionNotFound("no listed session has this id", session_id=params.session_id)
    return tree


def _answer(sessions: Sequence[Relative], params: ForestParams) -> Any:
    is_text = params.form == "text"
    places = lay_out(plant(sessions), steps=is_text and not params.layout)
    if is_text:
        lines = _fitting(map(_drawn, places), RESULT_BYTES_MAX // _COLUMN_BYTES_MAX)
        return ForestText("\n".join(lines))
    nodes = (encode(_node(place, layout=params.layout)) for place in places)
    return raw((b'{"nodes":[', b",".join(_fitting(nodes, RESULT_BYTES_MAX)), b"]}"))


def _node(place: RowPlace[ForestRow], *, layout: bool) -> ForestNode:
    row = place.row
    one = row.session
    placed = layout_fields(place) if layout else {}
    return ForestNode(
        session_id=one.session_id,
        parent_id=row.parent_id,
        depth=row.depth,
        children=row.children,
        orphan=row.is_orphan,
        title=one.title,
        first_message=one.first_message,
        cwd=one.cwd,
        archived=one.archived,
        created_at=one.created_at,
        updated_at=one.updated_at,
        message_count=one.message_count,
        partial=one.is_part or UNSET,
        **placed,
    )


def _fitting(rows: Iterable[_Row], limit: int) -> Iterator[_Row]:
    """Yield the rows of an answer. Raise TooLarge once they exceed one answer.

    Each level of the forest indents, so an answer may grow faster than the number of sessions.
    """
    size = 0
    for row in rows:
        size += len(row)
        if size > limit:
            raise TooLarge(
                "the forest is larger than an answer may be: ask for form nodes without layout,"
                " or for one tree with session_id",
                limit=RESULT_BYTES_MAX,
            )
        yield row


def _drawn(place: RowPlace[ForestRow]) -> str:
    return place.prefix + " ".join(_words(place.row))


def _words(row: ForestRow) -> Iterator[str]:
    yield row.session.session_id
    if words := row.session.title or row.session.first_message:
        yield cut(words)
    if row.session.archived:
        yield "(archived)"
    if row.is_orphan:
        yield "(its parent is not here)"


METHOD = Method(
    name="catalog/forest",
    params=ForestParams,
    result=ForestNodes | ForestText,
    handle=handle,
    access="status",
)
