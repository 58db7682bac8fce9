"""Request to a client with a time limit: every request gets a reply."""

from __future__ import annotations

import anyio

from sessiond.model.requests import Reply
from sessiond.service.ports import Partner


async def ask_client(partner: Partner, method: str, params: bytes, seconds: float) -> Reply:
    """Return the client's reply, or the reason why none came within `seconds`."""
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
