"""session/open: open a session by its id, its file, or an entry in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sessiond.errors import InvalidParams, SessionNotFound, Vetoed
from sessiond.methods._shared.access import require_access
from sessiond.methods._shared.common import ask, require_path
from sessiond.methods._shared.switching import before_switch, leave, notice
from sessiond.methods.session.create import CreateParams, CreateResult, create
from sessiond.methods.session.get import SessionResult
from sessiond.model.deferred import DEFERRED
from sessiond.model.ids import EntryId, SessionId
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.rpc.params import Params
from sessiond.service.actor.actor import SessionActor
from sessiond.service.client import Client
from sessiond.service.log.out_of_sight import require_current_lists


class OpenParams(Params):
    """Session by `session_id`, `path` or `entry_id`; with `create`, an unknown id is created.

    `switch_from` is the session that the client leaves for this one.
    """

    session_id: SessionId | None = None
    path: str | None = None
    entry_id: EntryId | None = None
    create: bool = False
    cwd: str | None = None
    switch_from: SessionId | None = None


def handle(client: Client, params: OpenParams, call: Call[Client]) -> Any:
    """Open the session and return its fields, once no client has an objection to a switch."""
    named = [name for name in ("session_id", "path", "entry_id") if getattr(params, name)]
    if len(named) != 1:
        raise InvalidParams(
            "name the session by one of session_id, path, entry_id",
            path=named[1] if named else "session_id",
        )
    if params.create:
        if params.session_id is None:
            raise InvalidParams("create needs a session_id", path="create")
        require_access(client, "write")
    elif params.cwd is not None:
        raise InvalidParams("cwd is for create: an existing session has its own cwd", path="cwd")
    if params.path is not None:
        require_path(params.path)
    about = notice(params.switch_from, params.session_id, "resume")
    return before_switch(client, call, about, lambda: _open(client, params, call))


def _open(client: Client, params: OpenParams, call: Call[Client]) -> Any:
    session_id = params.session_id
    if session_id is None:
        client.service.work(call, lambda: _find_and_open(client, params, call))
        return DEFERRED
    if params.create:
        wanted = CreateParams(
            cwd=params.cwd or "/",
            session_id=session_id,
            if_exists="open",
            switch_from=params.switch_from,
        )
        return create(client, wanted, call)
    return _answer(client, params, call, session_id)


def _answer(client: Client, params: OpenParams, call: Call[Client], session_id: str) -> Any:
    def answer(actor: SessionActor) -> SessionResult:
        leave(client, params.switch_from, session_id)
        return SessionResult(actor.opened.whole())

    return ask(client, call, session_id, answer)


async def _find_and_open(client: Client, params: OpenParams, call: Call[Client]) -> Any:
    service = client.service
    if params.path is not None:
        session_id = await service.identify(Path(params.path))
    else:
        assert params.entry_id is not None
        found = await service.find_entry(params.entry_id, call)
        if found is None:
            # Another daemon may have stored the entry.
            require_current_lists(call)
            raise SessionNotFound("no session has an entry of this id", entry_id=params.entry_id)
        session_id = found
    return _answer(client, params, call, session_id)


METHOD = Method(
    name="session/open",
    params=OpenParams,
    result=SessionResult | CreateResult,
    handle=handle,
    access="read",
    errors=(Vetoed,),
)
