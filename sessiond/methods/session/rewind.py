"""session/rewind: put a head back on its own path and abandon what followed."""

from __future__ import annotations

from typing import Any

from sessiond.errors import (
    EntryInvalid,
    EntryNotFound,
)
from sessiond.methods._shared.common import submit
from sessiond.methods._shared.head_params import MOVE_ERRORS, MoveParams
from sessiond.model.ids import EntryId
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.service.client import Client
from sessiond.session.moves import Rewound, rewind


class RewindParams(MoveParams, kw_only=True):
    """Entry to go back to; null is before the first entry."""

    to: EntryId | None


def handle(client: Client, params: RewindParams, call: Call[Client]) -> Any:
    """Put the move into the inbox."""
    return submit(
        client,
        call,
        params.session_id,
        lambda draft: rewind(draft, params.to, params.head, params.condition),
    )


METHOD = Method(
    name="session/rewind",
    params=RewindParams,
    result=Rewound,
    handle=handle,
    access="write",
    errors=(*MOVE_ERRORS, EntryNotFound, EntryInvalid),
)
