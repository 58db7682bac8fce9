"""session/update: change the metadata of a session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET, Raw, UnsetType

from sessiond.dialects.base import Dialect
from sessiond.dialects.preview import first_line
from sessiond.errors import (
    EntryInvalid,
    InvalidParams,
    LeaseHeld,
    LeaseLost,
    PreconditionFailed,
    SessionArchived,
    SessionExists,
    SessionReadOnly,
)
from sessiond.limits import TITLE_CHARS
from sessiond.methods._shared.common import SessionParams
from sessiond.methods.session.get import SessionResult
from sessiond.model.deferred import DEFERRED
from sessiond.model.entries import SessionInfoEntry
from sessiond.model.settings import CompactionSettings, settings_bytes
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.service.actor.actor import SessionActor
from sessiond.service.actor.background import run_in_background
from sessiond.service.actor.inbox import Command
from sessiond.service.client import Client
from sessiond.service.log.session_info import Persist
from sessiond.service.store.lease_table import LeaseChange
from sessiond.service.store.refusals import require_forward
from sessiond.session.append_request import Expected
from sessiond.session.draft import Draft
from sessiond.session.metadata import UpdateRequest, prompt_seqs, update

_SAME_NAME = (
    "tags",
    "agent",
    "model",
    "provider",
    "thinking_level",
    "status",
    "plan",
    "dry_run",
    "system_prompt",
    "metadata",
)


_SETTINGS = ("model", "provider", "thinking_level", "dry_run", "system_prompt", "compaction")
"""Fields that an agent works by: they stay while another client works under a lease."""


class UpdateParams(SessionParams):
    """Fields to change; null clears a field."""

    title: str | UnsetType | None = UNSET
    auto_title: str | bool | UnsetType | None = UNSET
    tags: list[str] | UnsetType | None = UNSET
    agent: str | UnsetType | None = UNSET
    model: str | UnsetType | None = UNSET
    provider: str | UnsetType | None = UNSET
    thinking_level: str | UnsetType | None = UNSET
    status: str | UnsetType | None = UNSET
    plan: str | UnsetType | None = UNSET
    dry_run: bool | UnsetType | None = UNSET
    system_prompt: str | UnsetType | None = UNSET
    compaction: CompactionSettings | UnsetType | None = UNSET
    metadata: Raw | UnsetType = UNSET
    persist: Persist | None = None
    expected: Expected | None = None
    lease_id: str | None = None


def handle(client: Client, params: UpdateParams, call: Call[Client]) -> Any:
    """Put the change into the inbox; answer with the session once the change is stored."""
    entry = _entry(params)
    wanted = params.persist
    if entry == SessionInfoEntry() and params.auto_title is UNSET and wanted is None:
        raise InvalidParams("no field to change: send title, tags, …; null clears a field", path="")
    service = client.service
    service.environment.policies.require_known(params.compaction)
    actor = service.actor(params.session_id)
    made = params.auto_title is True and not params.title
    request = UpdateRequest(
        entry,
        make_title=(lambda line: _title(actor.opened.dialect, line)) if made else None,
        expected=params.expected,
    )

    leases: Sequence[LeaseChange] = ()
    configures = any(getattr(params, name) is not UNSET for name in _SETTINGS)

    def stage(draft: Draft) -> None:
        nonlocal leases
        if configures or params.lease_id is not None:
            actor.leases.require_settings(client, params.lease_id)
        if wanted is not None:
            require_forward(actor.opened.persist, wanted)
            if actor.in_memory and wanted != "never":
                service.registry.eviction.make()
            leases = actor.leases.outgoing()
        update(draft, request)

    def store(lines: Sequence[bytes], *, late: bool) -> None:
        assert wanted is not None, "without a new persist the lines are appended"
        service.store.promote(actor.opened, wanted, lines, late=late, leases=leases)

    command = Command(
        call,
        lambda _receipt, _durability: _answer(client, call, actor),
        stage,
        reads=prompt_seqs if made else None,
        act=store if wanted is not None else None,
    )
    actor.submit(command)
    return DEFERRED


def _answer(client: Client, call: Call[Client], actor: SessionActor) -> Any:
    """Answer with the session, once its prompts are on the disk if the session came there."""
    shown = SessionResult(actor.opened.whole())
    stored = client.service.queues.bring_to_disk(actor)
    if stored is None:
        return shown

    async def told() -> SessionResult:
        await stored()
        return shown

    # The session has its file: a cancelled call would not take that back.
    run_in_background(call, told, client.service.environment, give_up=lambda: False)
    return DEFERRED


def _entry(params: UpdateParams) -> SessionInfoEntry:
    """Return the fields as an entry; a title made of the prompt is added when it is staged."""
    entry = SessionInfoEntry(
        name=params.title,
        compaction=settings_bytes(params.compaction),
        **{name: getattr(params, name) for name in _SAME_NAME},
    )
    match params.auto_title:
        case False:
            raise InvalidParams("auto_title must be a title, true, or null", path="auto_title")
        case True:
            if isinstance(params.title, str) and params.title:
                entry.name, entry.auto_title = UNSET, params.title
        case proposed:
            entry.auto_title = proposed
    return entry


def _title(dialect: Dialect, line: bytes) -> str:
    """Return a title made of a prompt's first words, or "" for a prompt without text."""
    reading = dialect.reading(line)
    texts = (block.text for block in reading.blocks if block.kind == "text") if reading else ()
    titles = (first_line(text, TITLE_CHARS) for text in texts)
    return next(filter(None, titles), "")


METHOD = Method(
    name="session/update",
    params=UpdateParams,
    result=SessionResult,
    handle=handle,
    access="write",
    errors=(
        SessionExists,
        SessionArchived,
        SessionReadOnly,
        EntryInvalid,
        PreconditionFailed,
        LeaseHeld,
        LeaseLost,
    ),
)
