"""Requests and events of subscribers, for tests."""

from __future__ import annotations

from typing import Any

from sessiond.service.pubsub.hub import HubStatistics
from sessiond.testing.daemon import Daemon, Wire
from tests.kit.sessions import SESSION


async def subscribe(wire: Wire, **params: Any) -> Any:
    return await wire.call("subscribe", session_id=SESSION, **params)


def hub_of(daemon: Daemon) -> HubStatistics:
    return daemon.service.actor(SESSION).statistics().hub
