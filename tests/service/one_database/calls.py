"""Calls of the clients of daemons that share a database."""

from __future__ import annotations

from sessiond.testing.wire import Wire

SAID = {"type": "message", "id": "e-1", "message": {"role": "user", "content": "hi"}}
TTL_MS = 60_000


async def told(wire: Wire, count: int) -> list[tuple[int, str]]:
    """Return so many events, each as its seq and the id of its entry."""
    found: list[tuple[int, str]] = []
    while len(found) < count:
        notice = await wire.next_notification()
        assert notice["method"] in {"session/event", "session/synced"}, notice
        if notice["method"] == "session/event":
            event = notice["params"]
            assert "external" not in event.get("origin", {})
            found.append((event["seq"], event["entry"]["id"]))
    return found
