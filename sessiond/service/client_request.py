"""Asking a client something, for a while: there is a reply in any case."""

from __future__ import annotations

import anyio

from sessiond.model.requests import Reply
from sessiond.service.ports import Partner

__all__ = ["ask_client"]


async def ask_client(partner: Partner, method: str, params: bytes, seconds: float) -> Reply:
    """The client's reply, or why there is none after so many seconds."""
    replies: list[Reply] = []
    settled = anyio.Event()

    def settle(reply: Reply) -> None:
        replies.append(reply)
        settled.set()

    withdraw = partner.request(method, params, settle)
    partner.flush()
    try:
        with anyio.move_on_after(seconds):
            await settled.wait()
    finally:
        if not replies:
            withdraw()
            partner.flush()
    return replies[0] if replies else Reply(None, "timeout")
