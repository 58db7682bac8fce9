"""session/usage: return how full the model's window is at a head, and the session's total usage."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from sessiond.errors import HeadNotFound
from sessiond.methods._shared.common import SessionParams, ask
from sessiond.methods._shared.place import head_leaf
from sessiond.model.ids import MAIN, HeadName
from sessiond.model.usage import Usage
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.service.actor.actor import SessionActor
from sessiond.service.client import Client
from sessiond.session.context.context import messages_seen


class UsageParams(SessionParams):
    """Head; size of the model's window in tokens, by default that of the settings."""

    head: HeadName = MAIN
    context_window: Annotated[int, Meta(ge=1, le=1_000_000_000)] | None = None


class UsageResult(Struct, frozen=True):
    """Tokens of the context, and whether they leave less of the window than the reserve.

    `totals` sums the usage that all assistant messages of the session report.
    """

    tokens: int
    window: int
    reserve: int
    should_compact: bool
    totals: Usage


def handle(client: Client, params: UsageParams, call: Call[Client]) -> Any:
    """Answer from the caches, else from a worker thread."""

    def look(actor: SessionActor) -> Any:
        leaf = head_leaf(actor.opened.session, params.head)
        tokens = actor.estimates.now(leaf)
        if tokens is not None:
            return _result(actor, params, leaf, tokens)

        async def estimate() -> UsageResult:
            return _result(actor, params, leaf, await actor.estimates.ask(leaf))

        return actor.later(call, estimate)

    return ask(client, call, params.session_id, look)


def _result(actor: SessionActor, params: UsageParams, leaf: int, tokens: int) -> UsageResult:
    policy = actor.environment.policies.of(actor.opened)
    window = params.context_window or policy.context_window
    messages = messages_seen(actor.opened.session, leaf)
    return UsageResult(
        tokens=tokens,
        window=window,
        reserve=policy.reserve_tokens,
        should_compact=policy.should_compact(tokens, window, messages),
        totals=actor.opened.session.usage or Usage(),
    )


METHOD = Method(
    name="session/usage",
    params=UsageParams,
    result=UsageResult,
    handle=handle,
    errors=(HeadNotFound,),
    access="status",
)
