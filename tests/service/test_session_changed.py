"""session/changed: subscribers are told when a session is archived or read-only, and when not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.calls import create_with, never, refused, watch
from tests.kit.house import House
from tests.kit.limits import set_limits
from tests.kit.sessions import HI, SESSION

pytestmark = pytest.mark.both_loops

BAD_LINE = b"no line of a session\n"


def changed(*, archived: bool = False, reason: str | None = None) -> dict[str, Any]:
    """Return the notification of a change."""
    state = {
        "session_id": SESSION,
        "archived": archived,
        "read_only": reason is not None,
        "read_only_reason": reason,
    }
    return {"jsonrpc": "2.0", "method": "session/changed", "params": state}


async def test_every_subscriber_is_told_that_a_session_was_archived_and_taken_back(
    house: House,
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await create_with(wire, "n1", persist="immediate")
        await other.call("initialize", access="status")
        await watch(wire)
        await watch(other, bodies=False, types=["label"], heads=["nobody"])
        for method, archived in (("session/archive", True), ("session/unarchive", False)):
            # A second call changes nothing, so nothing is told.
            for _ in range(2):
                await wire.call(method, session_id=SESSION)
            for one in (wire, other):
                assert await one.next_notification() == changed(archived=archived)
                await never(one)


async def test_a_bad_line_of_another_program_is_told_behind_the_events_before_it(
    house: House,
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1", persist="immediate")
        await watch(wire)
        (path,) = house.session_files()
        entry = b'{"type":"message","id":"f1","parent_id":null,"message":{"role":"user"}}\n'
        house.disk.write_as_another(path, entry + BAD_LINE)
        assert await refused(wire, "append", message=HI) == "session_corrupt"
        event = await wire.next_notification()
        assert event["params"]["entry"]["id"] == "f1"
        assert await wire.next_notification() == changed(reason="bad_line")
        await never(wire)


async def test_a_subscriber_without_room_is_told_when_it_has_caught_up(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await create_with(wire, "n1", persist="immediate")
        await watch(other, after={"seq": 0})
        set_limits(monkeypatch, OUTBOX_BYTES_MAX=0)
        await wire.call("session/archive", session_id=SESSION)
        monkeypatch.undo()
        told = await other.next_notification()
        while told["method"] != "session/changed":
            told = await other.next_notification()
        assert told == changed(archived=True)


async def test_a_bad_line_that_lands_right_before_an_append_is_told_with_the_append(
    house: House,
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1", persist="immediate")
        await watch(wire)
        (path,) = house.session_files()
        house.disk.land(path, BAD_LINE)
        stored = await wire.call("append", session_id=SESSION, message=HI)
        event = await wire.next_notification()
        assert event["params"]["entry"]["id"] == stored["leaf_id"]
        assert await wire.next_notification() == changed(reason="bad_line")
        await never(wire)
