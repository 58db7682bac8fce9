"""A client's change from one session to another: the hook before it, and the end of the old use.

Law: a call that names no session to leave goes on at once. A call that is vetoed or fails leaves the
old session in use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sessiond.methods._shared.with_hooks import consulted
from sessiond.model.requests import BeforeSwitch, SwitchReason
from sessiond.rpc.calls import Call
from sessiond.service.client import Client


def before_switch(
    client: Client,
    call: Call[Client],
    about: BeforeSwitch | None,
    go_on: Callable[[], Any],
) -> Any:
    """Ask the clients that offered the hook, then go on. The call is refused as Vetoed by any veto.

    `go_on` returns DEFERRED or a result. None as `about` means that no session is left.
    """
    if about is None or not client.service.hooks.wanted("before_switch"):
        return go_on()
    return consulted(client, call, "before_switch", about, lambda _supplied: go_on())


def notice(left: str | None, to: str | None, reason: SwitchReason) -> BeforeSwitch | None:
    """Return the notice that a client leaves a session for another one; None if it leaves none."""
    return None if left is None or left == to else BeforeSwitch([left], to, reason)


def leave(client: Client, left: str | None, to: str) -> None:
    """End this connection's use of the session that it left for the session `to`."""
    actor = None if left is None or left == to else client.service.find(left)
    if actor is not None:
        client.release(actor)
