"""session/create: create a session, or open the session that has the id."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from sessiond.errors import InvalidParams, SessionExists, Vetoed
from sessiond.methods._shared.common import ask, require_path
from sessiond.methods._shared.switching import before_switch, leave, notice
from sessiond.model.deferred import DEFERRED
from sessiond.model.entries import Header
from sessiond.model.ids import SessionId
from sessiond.model.settings import CompactionSettings, settings_bytes
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.rpc.params import Params
from sessiond.service.actor.actor import SessionActor
from sessiond.service.client import Client
from sessiond.service.environment import Environment
from sessiond.service.log.session_info import Persist, SessionInfo


class CreateParams(Params):
    """Fields of the header, when the file is created, and the session that the client leaves."""

    cwd: Annotated[str, Meta(min_length=1)]
    session_id: SessionId | None = None
    title: str | None = None
    agent: str | None = None
    model: str | None = None
    tags: list[str] | None = None
    system_prompt: str | None = None
    compaction: CompactionSettings | UnsetType | None = UNSET
    dry_run: bool | None = None
    metadata: Raw | UnsetType = UNSET
    persist: Persist = "on_assistant"
    root: str | None = None
    if_exists: Literal["fail", "open"] = "fail"
    switch_from: SessionId | None = None


class CreateResult(Struct, frozen=True):
    """Session, and whether this call created it."""

    session: SessionInfo
    created: bool


def handle(client: Client, params: CreateParams, call: Call[Client]) -> Any:
    """Create the session once no client has an objection to the switch, if this is one."""
    about = notice(params.switch_from, params.session_id, "new")
    return before_switch(client, call, about, lambda: create(client, params, call))


def create(client: Client, params: CreateParams, call: Call[Client]) -> Any:
    """Create the session, or open an existing one if the caller allows that.

    The file is made in a worker thread; later requests for the session queue behind it.
    """
    service = client.service
    service.environment.policies.require_known(params.compaction)
    session_id = params.session_id or service.environment.new_session_id()
    header = new_header(params, session_id, service.environment)
    if params.root is not None:
        require_path(params.root, "root")
        if params.persist == "never":
            text = "a session in memory has no file in a root: choose another persist"
            raise InvalidParams(text, path="persist")

    def begin() -> bool:
        is_drawn = params.session_id is None
        return service.registry.create(header, params.persist, params.root, is_drawn=is_drawn)

    def answer(actor: SessionActor, *, first: bool) -> CreateResult:
        created = first and actor.opened.created
        if not created and params.if_exists == "fail":
            raise SessionExists("a session of this id exists", session_id=session_id)
        leave(client, params.switch_from, session_id)
        return CreateResult(actor.opened.whole(), created)

    async def create_behind() -> CreateResult:
        await service.let_go_if_gone(session_id)
        first = begin()
        return answer(await service.opened_actor(session_id), first=first)

    if service.may_be_gone(session_id):
        service.work(call, create_behind)
        return DEFERRED
    return ask(client, call, session_id, partial(answer, first=begin()))


def new_header(params: CreateParams, session_id: str, environment: Environment) -> Header:
    """Return the first line of a session that is about to be created.

    A session in a root has no configured model: the root's program has its own default.
    """
    usual = environment.policies.model if params.root is None else None
    return Header(
        version=1,
        id=session_id,
        timestamp=environment.now(),
        cwd=params.cwd,
        title=params.title,
        agent=params.agent,
        model=usual if params.model is None else params.model,
        tags=params.tags,
        system_prompt=params.system_prompt,
        compaction=settings_bytes(params.compaction),
        dry_run=params.dry_run,
        metadata=params.metadata,
    )


METHOD = Method(
    name="session/create",
    params=CreateParams,
    result=CreateResult,
    handle=handle,
    access="write",
    errors=(SessionExists, Vetoed),
)
