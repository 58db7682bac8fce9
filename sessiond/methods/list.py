"""session/list: the sessions, newest first."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from sessiond.errors import InvalidParams
from sessiond.methods.common import DEFERRED, Call, Client, Method, Params, page_limit
from sessiond.service.opened import SessionInfo
from sessiond.service.service import newest_first
from sessiond.service.store import Unreadable

__all__ = ["METHOD"]


class ListParams(Params):
    """Which sessions; `drafts` adds those without an assistant message."""

    cwd: str | None = None
    drafts: bool = False
    limit: int | None = None
    cursor: str | None = None


class ListResult(Struct, frozen=True):
    """A page of sessions; files in the folder that are no sessions are named."""

    sessions: list[SessionInfo]
    next_cursor: str | None
    revision: int
    unreadable: list[Unreadable]


def handle(client: Client, params: ListParams, call: Call[Client]) -> Any:
    """List in a worker thread."""
    limit = page_limit(params.limit)
    after = _cursor(params.cursor)
    client.service.work(call, lambda: _list(client, params, limit, after))
    return DEFERRED


async def _list(
    client: Client, params: ListParams, limit: int, after: tuple[str, str] | None
) -> ListResult:
    service = client.service
    listing = await service.list(drafts=params.drafts)
    found = [
        info
        for info in newest_first(listing)
        if not info.archived
        and (params.cwd is None or info.cwd == params.cwd)
        and (after is None or (info.updated_at, info.id) < after)
    ]
    page = found[:limit]
    more = f"{page[-1].updated_at} {page[-1].id}" if len(found) > limit else None
    return ListResult(page, more, service.revision, listing.unreadable)


def _cursor(text: str | None) -> tuple[str, str] | None:
    """The sort key of the last row given, which is the cursor."""
    if text is None:
        return None
    updated_at, separator, session_id = text.partition(" ")
    if not separator:
        raise InvalidParams("this is no cursor of session/list", path="cursor")
    return updated_at, session_id


METHOD = Method(
    name="session/list", params=ListParams, result=ListResult, handle=handle, access="status"
)
