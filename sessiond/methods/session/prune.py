"""session/prune: keep only the newest decisions in view once a limit is passed."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from sessiond.methods._shared.common import ask
from sessiond.methods._shared.state_changes import (
    STATE_ERRORS,
    Change,
    ChangeParams,
    Limit,
    limits_of,
    submit_change,
)
from sessiond.model.working.state import PruneReason
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.service.actor.actor import SessionActor
from sessiond.service.client import Client
from sessiond.service.log.open_session import OpenSession
from sessiond.service.log.state_info import StateInfo, state_of
from sessiond.session.working.changes import Pruned, prune


class PruneParams(ChangeParams):
    """Limits, null for the usual ones; with `force` the view moves whether they are passed or not."""

    max_decisions: Limit | None = None
    max_tokens: Limit | None = None
    force: bool = False
    dry_run: bool = False


class PruneResult(Struct, frozen=True):
    """State; whether this call pruned, or would prune; the limits that were passed; its place."""

    state: StateInfo
    pruned: bool
    would_prune: bool
    reasons: list[PruneReason | Literal["force"]]
    leaf_id: str | None
    seq: int
    duplicate: bool


def handle(client: Client, params: PruneParams, call: Call[Client]) -> Any:
    """Put the prune into the inbox of the session; a dry run answers from the index."""
    limits = limits_of(params.max_decisions, params.max_tokens)
    if params.dry_run:

        def look(actor: SessionActor) -> PruneResult:
            reasons = limits.passed(actor.opened.session.state)
            outcome = Pruned(None, pruned=False, reasons=reasons)
            return _answer(actor.opened, params, outcome)

        return ask(client, call, params.session_id, look)
    wanted = Change(
        lambda draft, place: prune(draft, place, limits, force=params.force),
        lambda opened, outcome: _answer(opened, params, outcome),
    )
    return submit_change(client, call, params, wanted)


def _answer(opened: OpenSession, params: PruneParams, outcome: Pruned) -> PruneResult:
    session, receipt = opened.session, outcome.receipt
    reasons: list[PruneReason | Literal["force"]] = [*outcome.reasons]
    if params.force and not reasons and not (receipt and receipt.duplicate):
        reasons.append("force")
    head = session.heads.get(params.head)
    leaf_id = session.id_of(head.leaf) if head else None
    return PruneResult(
        state_of(opened),
        pruned=outcome.pruned,
        would_prune=params.dry_run and bool(reasons),
        reasons=reasons,
        leaf_id=receipt.leaf_id if receipt else leaf_id,
        seq=receipt.seq if receipt else session.seq,
        duplicate=receipt is not None and receipt.duplicate,
    )


METHOD = Method(
    name="session/prune",
    params=PruneParams,
    result=PruneResult,
    handle=handle,
    access="write",
    errors=STATE_ERRORS,
)
