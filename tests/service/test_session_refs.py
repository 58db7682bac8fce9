"""A session by the end of its id, which is random in a UUID, and by an entry that the session has."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tests.kit.calls import append, call, create, refused
from tests.kit.house import House
from tests.kit.sessions import stored_message

# Made within one minute.
MINUTE = ["019a1b2c-3d4e-7a10-8b6f-0c1d2e3f4a5b", "019a1b2c-3d4f-7c22-9111-5566778899aa"]


async def test_a_session_goes_by_the_end_of_its_id(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        for session_id in MINUTE:
            await create(wire, session_id, persist="immediate")
        for session_id in MINUTE:
            for size in (6, 8, 12, 17):
                ref = session_id[-size:]
                assert await call(wire, "session/resolve", "session.id", ref=ref) == session_id
        assert await refused(wire, "session/resolve", ref=MINUTE[0][-5:]) == "session_not_found"


async def test_only_of_a_random_id_does_the_end_count(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, "session-in-the-facade", persist="immediate")
        await create(wire, "another-session", persist="immediate", title="Facade")
        assert await call(wire, "session/resolve", "session.id", ref="facade") == "another-session"


async def test_the_end_of_one_id_is_not_taken_for_the_beginning_of_another(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, MINUTE[0], persist="immediate")
        await create(wire, MINUTE[0][-8:] + "-other", persist="immediate")
        assert await refused(wire, "session/resolve", ref=MINUTE[0][-8:]) == "ambiguous_ref"
        assert await call(wire, "session/resolve", "session.id", ref=MINUTE[0][-9:]) == MINUTE[0]


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
            assert await call(wire, "session/open", "session.id", entry_id=entry_id) == found


async def test_a_file_of_a_root_goes_by_an_entry_and_so_does_one_under_another_name(
    house: House,
) -> None:
    root, sessions = house.home / "of-pi", house.layout.sessions
    for folder in (root, sessions):
        for missing in (*reversed(folder.parents), folder):
            if not house.disk.exists(missing):
                house.disk.make_folder(missing)

    def pi_file(path: Path, header_id: str, time: str, *entry_ids: str) -> None:
        header = {"type": "session", "version": 3, "id": header_id, "timestamp": time, "cwd": "/p"}
        message = {"role": "user", "content": "hi", "timestamp": 1768473000000}
        lines = [
            {"type": "message", "id": one, "parentId": None, "timestamp": time, "message": message}
            for one in entry_ids
        ]
        house.disk.put(path, b"".join(msgspec.json.encode(one) + b"\n" for one in [header, *lines]))

    pi_file(root / "a.jsonl", "first-one", "2026-01-01T09:00:00.000Z", "shared", "rooted")
    pi_file(root / "b.jsonl", "second-one", "2026-01-02T09:00:00.000Z", "shared")
    pi_file(root / "c.jsonl", "third-one", "2026-01-01T08:00:00.000Z", "shared")
    pi_file(
        sessions / "renamed.jsonl", "fourth-one", "2026-01-01T07:00:00.000Z", "shared", "renamed"
    )
    house.disk.put(root / "d.jsonl", b"no session\n")
    async with house.daemon() as daemon, daemon.connect() as wire:
        await wire.call("catalog/roots", action="add", path=str(root), kind="pi")
    for entry_id, found in (
        ("rooted", "first-one"),
        ("renamed", "fourth-one"),
        ("shared", "second-one"),
    ):
        async with house.daemon() as daemon, daemon.connect() as wire:
            assert await call(wire, "session/open", "session.id", entry_id=entry_id) == found
            refusal = await refused(wire, "session/open", entry_id="nowhere")
            assert refusal == "session_not_found"
