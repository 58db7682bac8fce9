"""catalog/subscribe: be told when lists show something else."""

from __future__ import annotations

from msgspec import Struct

from sessiond.methods.common import Call, Client, Method, Params

__all__ = ["METHOD"]


class WatchResult(Struct, frozen=True):
    """The revision from which on changes are told."""

    revision: int


def handle(client: Client, _params: Params, _call: Call[Client]) -> WatchResult:
    """Register in the same step as the answer."""
    roster = client.service.roster
    roster.feed.add(client.listener)
    return WatchResult(roster.revision)


METHOD = Method(
    name="catalog/subscribe", params=Params, result=WatchResult, handle=handle, access="status"
)
