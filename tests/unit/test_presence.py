"""The order in which present clients came, across daemons whose clocks differ."""

from __future__ import annotations

from msgspec.structs import replace

from sessiond.model.events import Present
from sessiond.service.pubsub.presence import Arrived, Presence

CLIENT = Present(access="write", state="thinking", since="2026-01-15T10:30:00.000Z")


def test_who_comes_stands_behind_those_who_are_known_whatever_the_clock_says() -> None:
    presence = Presence("s")
    presence.elsewhere = (Arrived(200, replace(CLIENT, state="working")),)
    presence.set("one", CLIENT, now_ns=100)
    presence.set("two", replace(CLIENT, state="idle"), now_ns=90)
    assert [one.state for one in presence.clients()] == ["working", "thinking", "idle"]
    assert min(one.came_ns for one in presence.here()) > 200
