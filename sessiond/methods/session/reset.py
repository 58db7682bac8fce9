"""session/reset: put a head before the first entry."""

from __future__ import annotations

from typing import Any

from sessiond.methods._shared.common import submit
from sessiond.methods._shared.head_params import MOVE_ERRORS, MoveParams
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.service.client import Client
from sessiond.session.moves import Moved, reset


class ResetParams(MoveParams):
    """Head to move, and the condition of the move."""


def handle(client: Client, params: ResetParams, call: Call[Client]) -> Any:
    """Put the move into the inbox."""
    return submit(
        client,
        call,
        params.session_id,
        lambda draft: reset(draft, params.head, params.condition),
    )


METHOD = Method(
    name="session/reset",
    params=ResetParams,
    result=Moved,
    handle=handle,
    access="write",
    errors=MOVE_ERRORS,
)
