"""A session by the end of its id, which is random in a UUID, and by an entry that the session has."""

from __future__ import annotations

import pytest

from sessiond.testing.daemon import Refusal, Wire
from tests.kit.calls import append, create
from tests.kit.house import House
from tests.kit.sessions import stored_message

# Made within one minute.
MINUTE = ["019a1b2c-3d4e-7a10-8b6f-0c1d2e3f4a5b", "019a1b2c-3d4f-7c22-9111-5566778899aa"]


async def resolved(wire: Wire, ref: str) -> str:
    answer = await wire.call("session/resolve", ref=ref)
    found: str = answer["session"]["id"]
    return found


async def test_a_session_goes_by_the_end_of_its_id(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        for session_id in MINUTE:
            await create(wire, session_id, persist="immediate")
        for session_id in MINUTE:
            for size in (6, 8, 12, 17):
                assert await resolved(wire, session_id[-size:]) == session_id
        with pytest.raises(Refusal) as refused:
            await resolved(wire, MINUTE[0][-5:])
        assert refused.value.data["kind"] == "session_not_found"


async def test_only_of_a_random_id_does_the_end_count(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, "session-in-the-facade", persist="immediate")
        await create(wire, "another-session", persist="immediate", title="Facade")
        assert await resolved(wire, "facade") == "another-session"


async def test_the_end_of_one_id_is_not_taken_for_the_beginning_of_another(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, MINUTE[0], persist="immediate")
        await create(wire, MINUTE[0][-8:] + "-other", persist="immediate")
        with pytest.raises(Refusal) as refused:
            await resolved(wire, MINUTE[0][-8:])
        assert refused.value.data["kind"] == "ambiguous_ref"
        assert await resolved(wire, MINUTE[0][-9:]) == MINUTE[0]


async def test_a_closed_session_goes_by_an_entry_the_one_begun_last_first(house: House) -> None:
    house.put([stored_message("shared", None), stored_message("mine", "shared")], "session-a")
    async with house.daemon() as daemon, daemon.connect() as wire:
        # Its file has a later name than that of session-a.
        await create(wire, "session-b", persist="immediate")
        await append(wire, "shared", session_id="session-b")
        await create(wire, "session-c", persist="immediate")
        await append(wire, "put-away", session_id="session-c")
        await wire.call("session/archive", session_id="session-c")
    for entry_id, found in (
        ("mine", "session-a"),
        ("put-away", "session-c"),
        ("shared", "session-b"),
    ):
        # No session is open when the question comes.
        async with house.daemon() as daemon, daemon.connect() as wire:
            answer = await wire.call("session/open", entry_id=entry_id)
            assert answer["session"]["id"] == found
