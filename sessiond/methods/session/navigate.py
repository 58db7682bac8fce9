"""session/navigate: go to a point of the tree in the way a person means it."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Raw, UnsetType

from sessiond.dialects.base import ContextLine
from sessiond.errors import (
    EntryInvalid,
    EntryNotFound,
    HeadNotFound,
    LeaseHeld,
    LeaseLost,
    PreconditionFailed,
    SessionArchived,
    Vetoed,
)
from sessiond.methods._shared.common import DEFERRED, Call, Client, Method
from sessiond.methods._shared.head_params import MoveParams
from sessiond.methods._shared.with_hooks import hooked, leaving
from sessiond.model.ids import EntryId
from sessiond.model.requests import BeforeBranch
from sessiond.service.actor.actor import Host
from sessiond.service.actor.inbox import Command
from sessiond.service.log.log_reader import LogReader
from sessiond.session.draft import Draft
from sessiond.session.navigate import Navigated, NavigateRequest, lines_of, moves, navigate

__all__ = ["METHOD"]


class NavigateParams(MoveParams, kw_only=True):
    """Target; summary of the abandoned branch; label for the summary, or for the target."""

    entry_id: EntryId | None
    summary: str = ""
    details: Raw | UnsetType = UNSET
    label: str | None = None


def handle(client: Client, params: NavigateParams, call: Call[Client]) -> Any:
    """Put the move into the inbox; the entry's content decides there whether the head moves."""

    async def about(host: Host) -> BeforeBranch | None:
        told = leaving(host, params.head, params.entry_id)
        return told if await _moves(host, params) else None

    return hooked(
        client,
        call,
        params.session_id,
        "before_branch",
        about=about,
        go_on=lambda supplied: _submit(client, params, call, supplied or ""),
    )


async def _moves(host: Host, params: NavigateParams) -> bool:
    """Return whether the head would move. A head that stays abandons no branch. Raise HeadNotFound."""
    opened, request = host.opened, _request(host, params, "")
    seqs = list(lines_of(opened.session, request))
    lines = dict(zip(seqs, await LogReader(opened).read_many(seqs), strict=True))
    draft = Draft(opened.session, opened.dialect, new_id=str, now="", stored=lines)
    return moves(draft, request)


def _request(host: Host, params: NavigateParams, supplied: str) -> NavigateRequest:
    def text_of(entry_id: str, kind: int, line: bytes) -> str | None:
        dialect = host.opened.dialect
        messages = dialect.context([ContextLine(entry_id, kind, line)])
        reading = dialect.read(messages[0].body) if messages else None
        if reading is None or reading.is_result:
            return None
        return "".join(block.text for block in reading.blocks if block.kind == "text")

    return NavigateRequest(
        entry_id=params.entry_id,
        text_of=text_of,
        head=params.head,
        summary=params.summary,
        supplied=supplied,
        details=params.details,
        label=params.label,
        condition=params.condition,
    )


def _submit(client: Client, params: NavigateParams, call: Call[Client], supplied: str) -> Any:
    host = client.service.host(params.session_id)
    request = _request(host, params, supplied)
    host.submit(
        Command(
            call,
            lambda receipt, _durability: receipt,
            lambda draft: navigate(draft, request),
            reads=lambda session: lines_of(session, request),
        )
    )
    return DEFERRED


METHOD = Method(
    name="session/navigate",
    params=NavigateParams,
    result=Navigated,
    handle=handle,
    access="write",
    errors=(
        SessionArchived,
        EntryNotFound,
        EntryInvalid,
        PreconditionFailed,
        HeadNotFound,
        LeaseHeld,
        LeaseLost,
        Vetoed,
    ),
)
