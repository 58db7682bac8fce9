"""session/search: find text in all sessions, or in the sessions of a project."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Struct, UnsetType

from sessiond.catalog.fulltext import Filters, Found
from sessiond.catalog.matching import match_of
from sessiond.catalog.query import Query, without_slash
from sessiond.errors import InvalidParams
from sessiond.limits import SEARCH_QUERY_CHARS_MAX
from sessiond.methods._shared.common import page_limit, require_time
from sessiond.model.deferred import DEFERRED
from sessiond.model.ids import SessionId
from sessiond.model.searched import Speaker, Unsearched
from sessiond.model.times import TimeText, unix_ms
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.rpc.params import Params
from sessiond.service.client import Client
from sessiond.service.listing.pages import LookProgress
from sessiond.service.store.listed import Unreadable


class SearchParams(Params):
    """Words and quoted phrases, and where to search: in which sessions, and in which parts of their entries."""

    query: str
    session_id: SessionId | None = None
    cwd: str | None = None
    archived: bool | None = False
    drafts: bool = False
    subagents: bool = False
    role: Speaker | None = None
    tool: str | None = None
    since: TimeText | None = None
    limit: int | None = None
    whole: bool = True


class SearchResult(Struct, frozen=True):
    """Hits, best first, and sessions of roots that could not be read; left out if all could.

    `looking` tells of sessions that are being read behind an answer that need not be whole; left out behind their end.
    `unsearched` are texts for which the index has no room; left out if there are none.
    """

    hits: list[Found]
    unreadable: list[Unreadable] | UnsetType = UNSET
    looking: LookProgress | UnsetType = UNSET
    unsearched: list[Unsearched] | UnsetType = UNSET


def handle(client: Client, params: SearchParams, call: Call[Client]) -> Any:
    """Query the search index once it holds all stored entries, or what it holds by now."""
    if len(params.query) > SEARCH_QUERY_CHARS_MAX:
        raise InvalidParams(
            f"a query has at most {SEARCH_QUERY_CHARS_MAX} characters", path="query"
        )
    match = match_of(params.query)
    if match is None:
        raise InvalidParams("the query holds no word to search for", path="query")
    limit = page_limit(params.limit)
    query = Query(
        cwd=None if params.cwd is None else without_slash(params.cwd),
        archived=params.archived,
        drafts=params.drafts,
        subagents=params.subagents,
    )

    if params.since is not None:
        require_time(params.since, "since")
    filters = Filters(params.session_id, params.role, params.tool, unix_ms(params.since))

    async def search() -> SearchResult:
        find = client.service.search.find
        found = await find(match, query, filters, limit, call, whole=params.whole)
        return SearchResult(
            found.hits, found.unread or UNSET, found.looking or UNSET, found.unsearched or UNSET
        )

    client.service.look(call, search)
    return DEFERRED


METHOD = Method(
    name="session/search",
    params=SearchParams,
    result=SearchResult,
    handle=handle,
    access="read",
)
