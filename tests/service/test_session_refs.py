"""session/resolve: a session by the end of its id, which is random in a UUID."""

from __future__ import annotations

from typing import Any

import pytest

from sessiond.testing.daemon import Refusal, Wire

# Made within one minute.
MINUTE = ["019a1b2c-3d4e-7a10-8b6f-0c1d2e3f4a5b", "019a1b2c-3d4f-7c22-9111-5566778899aa"]


async def make(wire: Wire, session_id: str, title: str | None = None) -> None:
    named = {"session_id": session_id, "title": title}
    await wire.call("session/create", cwd="/p", persist="immediate", **named)


async def resolved(wire: Wire, ref: str) -> str:
    answer = await wire.call("session/resolve", ref=ref)
    found: str = answer["session"]["id"]
    return found


async def test_a_session_goes_by_the_end_of_its_id(house: Any) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        for session_id in MINUTE:
            await make(wire, session_id)
        for session_id in MINUTE:
            for size in (6, 8, 12, 17):
                assert await resolved(wire, session_id[-size:]) == session_id
        with pytest.raises(Refusal) as refused:
            await resolved(wire, MINUTE[0][-5:])
        assert refused.value.data["kind"] == "session_not_found"


async def test_a_title_that_is_meant_goes_before_the_end_of_an_id(house: Any) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await make(wire, "session-in-the-facade")
        await make(wire, "another-session", "Facade")
        await make(wire, "a-third-session", "the decades of the session")
        await make(wire, "ends-in-decade")
        assert await resolved(wire, "facade") == "another-session"
        # The end of an id goes before a part of a title, but only if it is all digits of a UUID.
        assert await resolved(wire, "decade") == "ends-in-decade"
        assert await resolved(wire, "the session") == "a-third-session"
