"""session/presence: set this connection's presence on a session, and list the clients present."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Raw, Struct, UnsetType

from sessiond.errors import InvalidParams
from sessiond.limits import PRESENCE_BYTES_MAX
from sessiond.methods._shared.common import SessionParams, ask
from sessiond.methods.session.signal import SignalWord, require_data_fits
from sessiond.model.events import Present
from sessiond.model.ids import HeadName
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.service.actor.actor import SessionActor
from sessiond.service.client import Client


class PresenceParams(SessionParams):
    """State of this connection; null ends the presence, no state only lists.

    `check` refuses a state that may not follow this connection's last state. `reason` says why the
    connection came or, with null, why it leaves.
    """

    state: SignalWord | UnsetType | None = UNSET
    head: HeadName | None = None
    data: Raw | UnsetType = UNSET
    reason: SignalWord | None = None
    check: bool = False


class PresenceResult(Struct, frozen=True):
    """Clients that are present now, in the order in which they appeared."""

    clients: list[Present]


def handle(client: Client, params: PresenceParams, call: Call[Client]) -> Any:
    """Set, change, end or list presence."""
    state = params.state
    if isinstance(state, str):
        return ask(client, call, params.session_id, _appearing(client, state, params))
    given = {
        "head": params.head is not None,
        "data": params.data is not UNSET,
        "reason": params.reason is not None and state is UNSET,
        "check": params.check,
    }
    for name in filter(given.__getitem__, given):
        raise InvalidParams(f"{name} needs a state beside it", path=name)

    def look(actor: SessionActor) -> PresenceResult:
        if state is None:
            client.disappear(params.session_id, params.reason)
        return PresenceResult(actor.hub.presence.clients())

    return ask(client, call, params.session_id, look)


def _appearing(client: Client, state: str, params: PresenceParams) -> Any:
    data = params.data
    if not isinstance(data, UnsetType):
        require_data_fits(data, PRESENCE_BYTES_MAX)
        # A copy: presence outlives the frame that holds these bytes.
        data = data.copy()
    head, reason, check = params.head, params.reason, params.check

    def appear(actor: SessionActor) -> PresenceResult:
        present = Present(
            access=client.access,
            state=state,
            since=client.service.environment.now(),
            client_id=client.client_id,
            name=client.name,
            head=head,
            reason=reason,
            data=data,
        )
        client.appear(actor, present, check=check)
        return PresenceResult(actor.hub.presence.clients())

    return appear


METHOD = Method(
    name="session/presence",
    params=PresenceParams,
    result=PresenceResult,
    handle=handle,
    access="read",
)
