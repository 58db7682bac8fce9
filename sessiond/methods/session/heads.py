"""session/heads: return the position of every head."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from sessiond.methods._shared.common import SessionParams, ask
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.service.client import Client
from sessiond.service.log.session_info import HeadInfo, head_infos


class HeadsResult(Struct, frozen=True):
    """Heads, `main` first."""

    heads: list[HeadInfo]


def handle(client: Client, params: SessionParams, call: Call[Client]) -> Any:
    """Answer from the index."""
    return ask(
        client,
        call,
        params.session_id,
        lambda actor: HeadsResult(head_infos(actor.opened.session)),
    )


METHOD = Method(
    name="session/heads",
    params=SessionParams,
    result=HeadsResult,
    handle=handle,
    access="status",
)
