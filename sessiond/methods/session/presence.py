"""session/presence: set this connection's presence on a session, and list the clients present."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Raw, Struct, UnsetType

from sessiond.errors import InvalidParams
from sessiond.limits import PRESENCE_BYTES_MAX
from sessiond.methods._shared.common import Call, Client, Method, SessionParams, ask
from sessiond.methods.session.signal import SignalWord, require_data_fits
from sessiond.model.events import Present
from sessiond.model.ids import HeadName
from sessiond.service.actor.actor import SessionActor

__all__ = ["METHOD"]


class PresenceParams(SessionParams):
    """State of this connection; null ends the presence, no state only lists."""

    state: SignalWord | UnsetType | None = UNSET
    head: HeadName | None = None
    data: Raw | UnsetType = UNSET


class PresenceResult(Struct, frozen=True):
    """Clients that are present now, in the order in which they appeared."""

    clients: list[Present]


def handle(client: Client, params: PresenceParams, call: Call[Client]) -> Any:
    """Set, change, end or list presence."""
    state = params.state
    if isinstance(state, str):
        return ask(client, call, params.session_id, _appearing(client, state, params))
    for name, given in (("head", params.head is not None), ("data", params.data is not UNSET)):
        if given:
            raise InvalidParams(f"{name} needs a state beside it", path=name)

    def look(actor: SessionActor) -> PresenceResult:
        if state is None:
            client.disappear(params.session_id)
        return PresenceResult(actor.hub.presence.clients())

    return ask(client, call, params.session_id, look)


def _appearing(client: Client, state: str, params: PresenceParams) -> Any:
    data = params.data
    if not isinstance(data, UnsetType):
        require_data_fits(data, PRESENCE_BYTES_MAX)
        # A copy: presence outlives the frame that holds these bytes.
        data = data.copy()
    head = params.head

    def appear(actor: SessionActor) -> PresenceResult:
        present = Present(
            access=client.access,
            state=state,
            since=client.service.environment.now(),
            client_id=client.client_id,
            name=client.name,
            head=head,
            data=data,
        )
        client.appear(actor, present)
        return PresenceResult(actor.hub.presence.clients())

    return appear


METHOD = Method(
    name="session/presence",
    params=PresenceParams,
    result=PresenceResult,
    handle=handle,
    access="read",
)
