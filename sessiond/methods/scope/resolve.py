"""scope/resolve: return the one session of a scope, created when missing."""

from __future__ import annotations

from typing import Annotated, Any, Final

from msgspec import Meta

from sessiond.errors import (
    Draining,
    InvalidParams,
    Overloaded,
    SessionCorrupt,
    SessionLocked,
    StorageError,
)
from sessiond.limits import AGENT_NAME_CHARS_MAX
from sessiond.methods._shared.common import require_path
from sessiond.methods.session.create import CreateResult
from sessiond.model.deferred import DEFERRED
from sessiond.model.scopes import Scope, ScopeName
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.rpc.params import Params
from sessiond.service.client import Client
from sessiond.service.scopes import folder_of, require_folder, resolve
from sessiond.service.service import Service

AgentName = Annotated[str, Meta(max_length=AGENT_NAME_CHARS_MAX)]
# In the name of an agent they are a sign of a path, or no name.
_NO_NAME: Final = ("/", "\\", "..")


class ResolveScopeParams(Params):
    """Scope and the names of its key: `agent` for "assistant", `project` for "project".

    A project may have one session more for each `agent`. A name that is not in the key of the scope
    decides nothing.
    """

    scope: ScopeName
    agent: AgentName | None = None
    project: str | None = None


def handle(client: Client, params: ResolveScopeParams, call: Call[Client]) -> Any:
    """Look at the project's folder in a worker thread, then open or create the session."""
    require_key(params.scope, params.agent, params.project)
    client.service.work(call, lambda: _resolve(client, params))
    return DEFERRED


async def _resolve(client: Client, params: ResolveScopeParams) -> CreateResult:
    async with client.project_turn:
        key = await key_of(client.service, params.scope, params.agent, params.project)
        resolved = await resolve(client, key, params.agent)
    return CreateResult(resolved.session, resolved.created)


def require_key(scope: ScopeName, agent: str | None, project: str | None) -> None:
    """Raise InvalidParams for a key that lacks a name or has one that is none."""
    if scope == "assistant" and agent is None:
        raise InvalidParams(
            "scope assistant has one session for each agent: send agent, its name", path="agent"
        )
    if agent is not None:
        _require_name(agent)
    if scope == "project":
        if not project:
            raise InvalidParams(
                "scope project has one session for each project: send project, the absolute path"
                " of its folder",
                path="project",
            )
        require_path(project, "project")


def _require_name(agent: str) -> None:
    if not agent.strip():
        raise InvalidParams("agent is empty: send a name, or leave agent out", path="agent")
    if not agent.isprintable() or any(part in agent for part in _NO_NAME):
        raise InvalidParams(
            "agent is a name, not a path: send it without / and \\, .., line breaks and control"
            " characters",
            path="agent",
        )


async def key_of(
    service: Service, scope: ScopeName, agent: str | None, project: str | None
) -> Scope:
    """Return the key that these checked names make. Raise StorageError for a missing folder."""
    if scope == "global":
        return Scope("global")
    if scope == "assistant":
        return Scope("assistant", agent=agent)
    assert project is not None, "require_key has refused it"
    folder = await folder_of(service, project)
    await require_folder(service, folder)
    return Scope("project", agent=agent, project=folder)


METHOD = Method(
    name="scope/resolve",
    params=ResolveScopeParams,
    result=CreateResult,
    handle=handle,
    access="write",
    errors=(SessionLocked, SessionCorrupt, StorageError, Overloaded, Draining),
)
