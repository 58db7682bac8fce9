"""session/signal: send a message to every watcher of a session, stored nowhere."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, Raw, UnsetType

from sessiond.errors import TooLarge
from sessiond.limits import SIGNAL_BYTES_MAX, SIGNAL_KIND_CHARS_MAX
from sessiond.methods._shared.common import Call, Client, Empty, Method, SessionParams, ask
from sessiond.model.events import Origin, SignalTold
from sessiond.service.actor.actor import SessionActor
from sessiond.service.log.events import notification

__all__ = ["METHOD", "SignalWord", "require_data_fits"]

SignalWord = Annotated[str, Meta(min_length=1, max_length=SIGNAL_KIND_CHARS_MAX)]


class SignalParams(SessionParams):
    """Kind of the signal, a word that its receivers know, and its content."""

    kind: SignalWord
    data: Raw | UnsetType = UNSET


def handle(client: Client, params: SignalParams, call: Call[Client]) -> Any:
    """Pass the signal on behind this connection's earlier mutations, which keeps their order."""
    data = Raw(b"null") if params.data is UNSET else params.data
    require_data_fits(data, SIGNAL_BYTES_MAX)
    told = SignalTold(
        params.session_id, params.kind, data, Origin(client.client_id, call.origin_id)
    )
    body = notification("session/signal", told)

    def relay(actor: SessionActor) -> Empty:
        client.signal(actor, body)
        return Empty()

    return ask(client, call, params.session_id, relay)


def require_data_fits(data: Raw, limit: int) -> None:
    """Raise TooLarge for content of a broadcast over its limit."""
    size = len(memoryview(data))
    if size > limit:
        raise TooLarge(f"data has at most {limit} bytes here", limit=limit, size=size)


METHOD = Method(
    name="session/signal", params=SignalParams, result=Empty, handle=handle, access="write"
)
