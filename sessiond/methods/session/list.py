"""session/list: return the sessions, filtered and sorted, a page at a time."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Annotated, Any, Literal

from msgspec import Meta, Raw, Struct, structs

from sessiond.catalog.query import (
    BadCursor,
    Position,
    Query,
    Sort,
    cursor_of,
    position_of,
    without_slash,
)
from sessiond.errors import InvalidParams
from sessiond.limits import LIST_TAGS_MAX
from sessiond.methods._shared.common import encode, page_limit, raw, require_time
from sessiond.model.deferred import DEFERRED
from sessiond.model.times import TimeText, rfc3339
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.rpc.params import Params
from sessiond.service.client import Client
from sessiond.service.listing.pages import LookProgress, Selection
from sessiond.service.log.session_info import SessionInfo
from sessiond.service.store.listed import Unreadable


class ListParams(Params):
    """Filters and order of the list. A session must match every filter that is given."""

    cwd: str | None = None
    tags: Annotated[list[str], Meta(max_length=LIST_TAGS_MAX)] | None = None
    agent: str | None = None
    status: str | None = None
    archived: bool | None = False
    title: str | None = None
    query: str | None = None
    created_after: TimeText | None = None
    created_before: TimeText | None = None
    updated_after: TimeText | None = None
    updated_before: TimeText | None = None
    root: str | None = None
    program: str | None = None
    profile: str | None = None
    drafts: bool = False
    subagents: bool = False
    sort: Sort = "updated_at"
    order: Literal["asc", "desc"] | None = None
    limit: int | None = None
    cursor: str | None = None
    whole: bool = True


class ListResult(Struct, frozen=True):
    """Page of sessions, and the files in the session folders that cannot be read as sessions.

    `looking` tells of a look at the sessions that goes on behind a page that need not be whole.
    """

    sessions: list[SessionInfo]
    next_cursor: str | None
    revision: int
    unreadable: list[Unreadable]
    looking: LookProgress | None


def handle(client: Client, params: ListParams, call: Call[Client]) -> Any:
    """Query the catalog in a worker thread."""
    page_limit(params.limit)
    service = client.service
    if params.profile not in {None, service.profile}:
        raise InvalidParams(
            f"this daemon serves the profile {service.profile} only: connect to the daemon of the"
            " other profile",
            path="profile",
        )
    query = _query(params)
    if query.root is None:
        after = _position(query, params.cursor)
        service.look(call, lambda: _list(client, query, params, after, call))
    else:
        service.look(call, lambda: _list_below(client, query, params, call))
    return DEFERRED


async def _list_below(client: Client, query: Query, params: ListParams, call: Call[Client]) -> Raw:
    """List the files below a folder; a root may be named in any spelling of its path."""
    assert query.root is not None
    service = client.service
    find = partial(service.store.folder_of, query.root)
    root = await service.with_named_file(query.root, find)
    query = structs.replace(query, root=root)
    return await _list(client, query, params, _position(query, params.cursor), call)


async def _list(
    client: Client, query: Query, params: ListParams, after: Position | None, call: Call[Client]
) -> Raw:
    limit, lists = page_limit(params.limit), client.service.live_catalog
    page = await lists.select(query, limit, after, call, whole=params.whole)
    more = None if page.last is None else cursor_of(query, page.last)
    return raw(_spliced(page, more))


def _spliced(page: Selection, more: str | None) -> Iterator[bytes]:
    yield b'{"sessions":['
    yield b",".join(page.sessions)
    yield b'],"next_cursor":%s,"revision":%d,"unreadable":%s,"looking":%s}' % (
        encode(more),
        page.revision,
        encode(page.unreadable),
        encode(page.looking),
    )


def _query(params: ListParams) -> Query:
    descending = params.sort != "title" if params.order is None else params.order == "desc"
    return Query(
        cwd=None if params.cwd is None else without_slash(params.cwd),
        tags=tuple(dict.fromkeys(params.tags or ())),
        agent=params.agent,
        status=params.status,
        program=params.program,
        archived=params.archived,
        title=params.title,
        words=params.query,
        created_after=_time(params.created_after, "created_after"),
        created_before=_time(params.created_before, "created_before"),
        updated_after=_time(params.updated_after, "updated_after"),
        updated_before=_time(params.updated_before, "updated_before"),
        root=None if params.root is None else params.root.rstrip("/"),
        drafts=params.drafts,
        subagents=params.subagents,
        sort=params.sort,
        descending=descending,
    )


def _time(text: str | None, name: str) -> str | None:
    return None if text is None else rfc3339(require_time(text, name))


def _position(query: Query, cursor: str | None) -> Position | None:
    if cursor is None:
        return None
    try:
        return position_of(query, cursor)
    except BadCursor:
        raise InvalidParams(
            "not a cursor of this list: send the filters and the order that the cursor was"
            " returned for",
            path="cursor",
        ) from None


METHOD = Method(
    name="session/list", params=ListParams, result=ListResult, handle=handle, access="status"
)
