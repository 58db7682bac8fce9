"""session/branch: put a head at an entry, create a head there, or drop a head."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Raw, UnsetType

from sessiond.errors import (
    EntryInvalid,
    EntryNotFound,
    InvalidParams,
    Vetoed,
)
from sessiond.methods._shared.common import submit
from sessiond.methods._shared.head_params import MOVE_ERRORS, MoveParams
from sessiond.methods._shared.with_hooks import branch_notice, hooked
from sessiond.model.ids import EntryId
from sessiond.model.requests import HookAnswer
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.service.client import Client
from sessiond.session.moves import BranchRequest, Moved, branch, drop


class BranchParams(MoveParams):
    """Target entry; head to move; summary of the abandoned branch; or `drop`."""

    entry_id: EntryId | UnsetType | None = UNSET
    drop: bool = False
    summary: str = ""
    details: Raw | UnsetType = UNSET


def handle(client: Client, params: BranchParams, call: Call[Client]) -> Any:
    """Run the hooks, then put the move into the inbox. A drop abandons no branch and runs no hook."""
    if params.drop:
        _require_head_only(params)
        return submit(
            client,
            call,
            params.session_id,
            lambda draft: drop(draft, params.head, params.condition),
        )
    if isinstance(params.entry_id, UnsetType):
        raise InvalidParams(
            "entry_id is missing: send an entry's id, or null for before the first entry",
            path="entry_id",
        )
    entry_id = params.entry_id
    request = BranchRequest(
        entry_id=entry_id,
        head=params.head,
        summary=params.summary,
        details=params.details,
        condition=params.condition,
    )

    def go_on(supplied: HookAnswer) -> Any:
        request.summary = request.summary or supplied.summary
        return submit(client, call, params.session_id, lambda draft: branch(draft, request))

    return hooked(
        client,
        call,
        params.session_id,
        "before_branch",
        about=lambda actor: branch_notice(actor, params.head, entry_id),
        go_on=go_on,
    )


def _require_head_only(params: BranchParams) -> None:
    """Raise InvalidParams for a parameter that a drop does not take."""
    given = (
        ("entry_id", params.entry_id is not UNSET),
        ("summary", params.summary != ""),
        ("details", params.details is not UNSET),
    )
    for name, is_given in given:
        if is_given:
            raise InvalidParams(f"drop takes a head only: leave {name} out", path=name)


METHOD = Method(
    name="session/branch",
    aliases=("branch",),
    params=BranchParams,
    result=Moved,
    handle=handle,
    access="write",
    errors=(*MOVE_ERRORS, EntryNotFound, EntryInvalid, Vetoed),
)
