"""server/info: which daemon this is."""

from __future__ import annotations

import os

from msgspec import Struct

from sessiond import __version__
from sessiond.methods.common import Call, Client, Method, Params
from sessiond.methods.initialize import PROTOCOL_VERSIONS, Limits, server_limits

__all__ = ["METHOD"]


class InfoResult(Struct, frozen=True):
    """Version, process, profile and bounds."""

    version: str
    protocol_versions: list[str]
    instance_id: str
    pid: int
    profile: str
    data_folder: str
    started_at: str
    limits: Limits


def handle(client: Client, _params: Params, _call: Call[Client]) -> InfoResult:
    """Answer from what the daemon was started with."""
    service = client.service
    return InfoResult(
        version=__version__,
        protocol_versions=list(PROTOCOL_VERSIONS),
        instance_id=service.instance_id,
        pid=os.getpid(),
        profile=service.profile,
        data_folder=service.data_folder,
        started_at=service.started_at,
        limits=server_limits(),
    )


METHOD = Method(
    name="server/info", params=Params, result=InfoResult, handle=handle, access="status"
)
