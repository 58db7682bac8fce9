"""Requests and events of subscribers, for tests."""

from __future__ import annotations

from typing import Any

from sessiond.service.pubsub.hub import HubStatistics
from sessiond.testing.daemon import Daemon, Wire
from tests.kit.sessions import SESSION


async def subscribe(wire: Wire, **params: Any) -> Any:
    return await wire.call("subscribe", session_id=SESSION, **params)


async def told(wire: Wire, count: int) -> list[tuple[str, int | str]]:
    """Return the next notifications in short: events as (id, seq), the rest as (word, seq)."""
    found: list[tuple[str, int | str]] = []
    while len(found) < count:
        message = await wire.next_notification()
        params = message["params"]
        word = message["method"].removeprefix("session/")
        name = params["entry"]["id"] if word == "event" else word
        found.append((name, params.get("seq", params.get("reason", ""))))
    return found


async def nothing_more(wire: Wire) -> None:
    """Check that the daemon has no notification left to send."""
    await wire.call("session/flush", session_id=SESSION)
    assert wire.notifications == []


def hub_of(daemon: Daemon) -> HubStatistics:
    return daemon.service.actor(SESSION).statistics().hub
