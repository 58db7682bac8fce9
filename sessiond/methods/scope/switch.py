"""scope/switch: save and release the sessions of one project, and load those of another."""

from __future__ import annotations

from typing import Any

from sessiond.errors import (
    Draining,
    Overloaded,
    SessionCorrupt,
    SessionLocked,
    StorageError,
    Vetoed,
)
from sessiond.methods._shared.common import require_path
from sessiond.methods.scope.resolve import AgentName, key_of, require_key
from sessiond.model.deferred import DEFERRED
from sessiond.model.scopes import ScopeName
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.rpc.params import Params
from sessiond.service.client import Client
from sessiond.service.scopes import Switched, folder_of, switch


class SwitchParams(Params):
    """Scope to switch to, as scope/resolve takes it, and the project to leave.

    Without `from_project` the client leaves the project that its connection resolved or switched to
    last.
    """

    scope: ScopeName = "project"
    agent: AgentName | None = None
    project: str | None = None
    from_project: str | None = None


def handle(client: Client, params: SwitchParams, call: Call[Client]) -> Any:
    """Look at the folders in a worker thread, then save, load and release."""
    require_key(params.scope, params.agent, params.project)
    if params.from_project is not None:
        require_path(params.from_project, "from_project")
    client.service.work(call, lambda: _switch(client, params, call))
    return DEFERRED


async def _switch(client: Client, params: SwitchParams, call: Call[Client]) -> Switched:
    async with client.project_turn:
        key = await key_of(client.service, params.scope, params.agent, params.project)
        left = client.project
        if params.from_project is not None:
            left = await folder_of(client.service, params.from_project)
        return await switch(client, key, params.agent, left, call)


METHOD = Method(
    name="scope/switch",
    params=SwitchParams,
    result=Switched,
    handle=handle,
    access="write",
    errors=(SessionLocked, SessionCorrupt, StorageError, Overloaded, Draining, Vetoed),
)
