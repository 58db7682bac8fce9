"""session/decide: remember a key decision."""

from __future__ import annotations

from typing import Any

from sessiond.methods._shared.state_changes import (
    STATE_ERRORS,
    ChangeParams,
    SentDecision,
    StateResult,
    decision_of,
    one_change,
    submit_change,
)
from sessiond.model.times import TimeText
from sessiond.model.working.entries import Rationale, StateText
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.service.client import Client


class DecideParams(ChangeParams, kw_only=True):
    """Decision, why it was made, and when."""

    decision: StateText
    rationale: Rationale | None = None
    timestamp: TimeText | None = None


def handle(client: Client, params: DecideParams, call: Call[Client]) -> Any:
    """Put the decision into the inbox of the session."""
    sent = SentDecision(params.decision, params.rationale, params.timestamp)
    return submit_change(client, call, params, one_change(decision_of(sent, "timestamp")))


METHOD = Method(
    name="session/decide",
    params=DecideParams,
    result=StateResult,
    handle=handle,
    access="write",
    errors=STATE_ERRORS,
)
