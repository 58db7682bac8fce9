"""session/navigate: go to a point of the tree in the way a person means it."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Raw, UnsetType

from sessiond.dialects.base import ContextLine
from sessiond.errors import (
    EntryInvalid,
    EntryNotFound,
    Vetoed,
)
from sessiond.methods._shared.common import DEFERRED, Call, Client, Method
from sessiond.methods._shared.head_params import MOVE_ERRORS, MoveParams
from sessiond.methods._shared.with_hooks import branch_notice, hooked
from sessiond.model.ids import EntryId
from sessiond.model.requests import BeforeBranch
from sessiond.service.actor.actor import SessionActor
from sessiond.service.actor.inbox import Command
from sessiond.service.log.log_reader import LogReader
from sessiond.session.draft import Draft
from sessiond.session.navigate import Navigated, NavigateRequest, lines_to_look_at, moves, navigate

__all__ = ["METHOD"]


class NavigateParams(MoveParams, kw_only=True):
    """Target; summary of the abandoned branch; label for the summary, or for the target."""

    entry_id: EntryId | None
    summary: str = ""
    details: Raw | UnsetType = UNSET
    label: str | None = None


def handle(client: Client, params: NavigateParams, call: Call[Client]) -> Any:
    """Put the move into the inbox; the entry's content decides there whether the head moves."""

    async def about(actor: SessionActor) -> BeforeBranch | None:
        told = branch_notice(actor, params.head, params.entry_id)
        return told if await _moves(actor, params) else None

    return hooked(
        client,
        call,
        params.session_id,
        "before_branch",
        about=about,
        go_on=lambda supplied: _submit(client, params, call, supplied or ""),
    )


async def _moves(actor: SessionActor, params: NavigateParams) -> bool:
    """Return whether the head would move. A head that stays abandons no branch. Raise HeadNotFound."""
    opened, request = actor.opened, _request(actor, params, "")
    seqs = list(lines_to_look_at(opened.session, request))
    lines = dict(zip(seqs, await LogReader(opened).read_many(seqs), strict=True))
    draft = Draft(opened.session, opened.dialect, new_id=str, now="", stored=lines)
    return moves(draft, request)


def _request(actor: SessionActor, params: NavigateParams, supplied: str) -> NavigateRequest:
    def text_of(entry_id: str, kind: int, line: bytes) -> str | None:
        dialect = actor.opened.dialect
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
    actor = client.service.actor(params.session_id)
    request = _request(actor, params, supplied)
    actor.submit(
        Command(
            call,
            lambda receipt, _durability: receipt,
            lambda draft: navigate(draft, request),
            reads=lambda session: lines_to_look_at(session, request),
        )
    )
    return DEFERRED


METHOD = Method(
    name="session/navigate",
    params=NavigateParams,
    result=Navigated,
    handle=handle,
    access="write",
    errors=(*MOVE_ERRORS, EntryNotFound, EntryInvalid, Vetoed),
)
