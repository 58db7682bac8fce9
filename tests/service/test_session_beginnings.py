"""Ways to go on with a session: by its id, by its path, or as the latest of many."""

from __future__ import annotations

import pytest

from tests.kit.calls import create, create_with, session_info
from tests.kit.house import House
from tests.kit.sessions import SESSION

PROJECTS = {"session-a": "/p", "session-b": "/p", "session-c": "/q", "session-d": "/p"}

pytestmark = [
    pytest.mark.parametrize("anyio_backend", ["asyncio"], scope="session"),
    pytest.mark.platform,
]


async def test_a_closed_session_is_opened_by_its_id_or_by_its_path(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "u1", "u2", persist="immediate")
        path = (await session_info(wire))["path"]
    for place in ({"session_id": SESSION}, {"path": path}):
        async with house.daemon() as daemon, daemon.connect() as wire:
            info = (await wire.call("session/open", **place))["session"]
            assert (info["id"], info["path"], info["leaf_id"]) == (SESSION, path, "u2")
            page = await wire.call("session/entries", session_id=SESSION)
            assert [row["entry"]["id"] for row in page["entries"]] == ["u1", "u2"]


async def test_the_conversation_that_was_updated_last_is_gone_on_with(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        for name, cwd in PROJECTS.items():
            await create(wire, name, cwd=cwd, persist="immediate")
        # The last one has no answer, so it is no conversation yet.
        for second, name in enumerate(("session-b", "session-c", "session-a", "session-d")):
            stamp = f"2026-01-15T11:00:0{second}.000Z"
            said = {"role": "user" if name == "session-d" else "assistant", "content": "So."}
            entry = {"type": "message", "timestamp": stamp, "message": said}
            await wire.call("append", session_id=name, entry=entry)
        for place, latest in (({}, "session-a"), ({"cwd": "/q"}, "session-c")):
            found = await wire.call("session/continue_recent", **place)
            assert (found["session"]["id"], found["created"]) == (latest, False)
