"""server/stats: return the daemon's counters."""

from __future__ import annotations

from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.rpc.params import Params
from sessiond.service.client import Client
from sessiond.service.service import ServiceStatistics


def handle(client: Client, _params: Params, _call: Call[Client]) -> ServiceStatistics:
    """Collect the counters of every open session."""
    return client.service.statistics()


METHOD = Method(
    name="server/stats", params=Params, result=ServiceStatistics, handle=handle, access="status"
)
