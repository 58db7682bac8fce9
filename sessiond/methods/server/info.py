"""server/info: return version, build, process, profile and limits of this daemon."""

from __future__ import annotations

import os

from msgspec import Struct, structs

from sessiond import __version__
from sessiond.build import BUILD
from sessiond.limits import Bounds
from sessiond.methods.initialize import PROTOCOL_VERSIONS, Limits, server_limits
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.rpc.params import Params
from sessiond.service.client import Client


class DaemonLimits(Limits, frozen=True):
    """Limits of `initialize`, and the limits that this daemon is configured with."""

    max_open_sessions: int
    max_memory_sessions: int
    max_connections: int
    max_connections_per_process: int
    max_sessions_per_connection: int
    max_buffered_bytes: int
    idle_session_ms: int
    open_files: int | None


class InfoResult(Struct, frozen=True):
    """Version, build id, process, profile and limits of the daemon."""

    version: str
    build: str
    protocol_versions: list[str]
    instance_id: str
    pid: int
    profile: str
    data_folder: str
    started_at: str
    limits: DaemonLimits


def handle(client: Client, _params: Params, _call: Call[Client]) -> InfoResult:
    """Answer from the daemon's settings at its start."""
    service = client.service
    return InfoResult(
        version=__version__,
        build=BUILD,
        protocol_versions=list(PROTOCOL_VERSIONS),
        instance_id=service.instance_id,
        pid=os.getpid(),
        profile=service.profile,
        data_folder=service.data_folder,
        started_at=service.started_at,
        limits=_limits(service.bounds),
    )


def _limits(bounds: Bounds) -> DaemonLimits:
    return DaemonLimits(
        **structs.asdict(server_limits()),
        max_open_sessions=bounds.open_sessions,
        max_memory_sessions=bounds.memory_sessions,
        max_connections=bounds.connections_at_most,
        max_connections_per_process=bounds.connections_of_one_process,
        max_sessions_per_connection=bounds.sessions_per_connection,
        max_buffered_bytes=bounds.buffered_bytes,
        idle_session_ms=int(bounds.idle_session_seconds * 1000),
        open_files=bounds.open_files,
    )


METHOD = Method(
    name="server/info", params=Params, result=InfoResult, handle=handle, access="status"
)
