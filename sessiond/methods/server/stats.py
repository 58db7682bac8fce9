"""server/stats: return the daemon's counters."""

from __future__ import annotations

from sessiond.methods._shared.common import Call, Client, Method, Params
from sessiond.service.service import ServiceStatistics

__all__ = ["METHOD"]


def handle(client: Client, _params: Params, _call: Call[Client]) -> ServiceStatistics:
    """Collect the counters of every open session."""
    return client.service.statistics()


METHOD = Method(
    name="server/stats", params=Params, result=ServiceStatistics, handle=handle, access="status"
)
