"""session/continue_recent: open the latest conversation of a project, or begin a new session in it."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from sessiond import typed
from sessiond.catalog.query import Query, without_slash
from sessiond.errors import (
    SessionCorrupt,
    SessionLocked,
    SessionNotFound,
    StorageError,
    Vetoed,
)
from sessiond.limits import RECENT_LOOKED_AT
from sessiond.methods._shared.common import ask
from sessiond.methods._shared.switching import before_switch, leave, notice
from sessiond.methods.session.create import CreateParams, CreateResult, new_header
from sessiond.model.deferred import DEFERRED
from sessiond.model.events import ReadOnlyReason
from sessiond.model.ids import SessionId
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.rpc.params import Params
from sessiond.service.actor.actor import SessionActor
from sessiond.service.client import Client
from sessiond.service.log.out_of_sight import require_current_lists


class ContinueParams(Params):
    """Project to look in; any project if `cwd` is left out. `switch_from` is the session to leave."""

    cwd: Annotated[str, Meta(min_length=1)] | None = None
    switch_from: SessionId | None = None


class _Found(msgspec.Struct):
    id: SessionId
    read_only_reason: ReadOnlyReason | None


def handle(client: Client, params: ContinueParams, call: Call[Client]) -> Any:
    """Query the catalog in a worker thread, then open the session that it names."""

    def go_on() -> Any:
        client.service.work(call, lambda: _continue(client, params, call))
        return DEFERRED

    return before_switch(client, call, notice(params.switch_from, None, "resume"), go_on)


async def _continue(client: Client, params: ContinueParams, call: Call[Client]) -> Any:
    service, cwd = client.service, params.cwd
    place = None if cwd is None else without_slash(cwd)
    # Many sessions of other agents, with which no client can go on, may be newer.
    query = Query(cwd=place, has_assistant=True, agents=False)
    page = await service.live_catalog.select(query, RECENT_LOOKED_AT, None, call)
    for shown in page.sessions:
        found = typed.decode(shown, _Found)
        # A damaged session can be repaired and continued; a file that is only read cannot.
        if found.read_only_reason in {None, "bad_line"}:
            return _answer(client, params, call, found.id, created=False)
    # Another daemon may have the session that is wanted.
    require_current_lists(call)
    if cwd is None:
        raise SessionNotFound("no session has a conversation yet: send cwd to begin one there")
    session_id = service.environment.new_session_id()
    header = new_header(CreateParams(cwd=cwd), session_id, service.environment)
    service.registry.create(header, "on_assistant", is_drawn=True)
    return _answer(client, params, call, session_id, created=True)


def _answer(
    client: Client, params: ContinueParams, call: Call[Client], session_id: str, *, created: bool
) -> Any:
    def answer(actor: SessionActor) -> CreateResult:
        leave(client, params.switch_from, session_id)
        return CreateResult(actor.opened.whole(), created)

    return ask(client, call, session_id, answer)


METHOD = Method(
    name="session/continue_recent",
    params=ContinueParams,
    result=CreateResult,
    handle=handle,
    access="write",
    errors=(
        SessionNotFound,
        SessionLocked,
        SessionCorrupt,
        StorageError,
        Vetoed,
    ),
)
