"""Archived sessions: read as ever, refused to every mutation, in the order of the requests."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from sessiond.testing.daemon import Refusal
from tests.kit.calls import call, create_with, say, session_info
from tests.kit.house import House
from tests.kit.sessions import HI, SESSION

PI = b'{"type":"session","version":3,"id":"session-p","timestamp":"2026-01-15T10:30:00.000Z","cwd":"/p"}\n'


READS: list[tuple[str, dict[str, Any]]] = [
    ("session/open", {}),
    ("session/get", {}),
    ("session/heads", {}),
    ("session/entries", {}),
    ("session/path", {}),
    ("session/tree", {}),
    ("session/build_context", {}),
    ("session/export", {}),
    ("session/subscribe", {"after": {"seq": 0}}),
]


@pytest.mark.parametrize("reopened", [False, True], ids=["open", "after a restart"])
async def test_an_archived_session_answers_every_question_as_before(
    house: House, *, reopened: bool
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1", persist="immediate")
        before = [await wire.call(method, session_id=SESSION, **more) for method, more in READS[2:]]
        epoch = (await session_info(wire))["epoch"]
        assert await call(wire, "session/archive") == {}
        if reopened:
            await daemon.end()
    async with house.daemon() as daemon, daemon.connect() as wire:
        after = [await wire.call(method, session_id=SESSION, **more) for method, more in READS]
        assert after[2:] == before
        info = after[0]["session"]
        assert (info["archived"], info["epoch"], info["seq"]) == (True, epoch, 1)
        assert Path(info["path"]).parent == house.layout.archive
        refused = await wire.refusal("append", session_id=SESSION, message=HI)
        assert (refused.code, refused.data["kind"]) == (-32024, "session_archived")


async def test_lists_leave_it_out_until_it_is_back(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1", persist="immediate")
        await call(wire, "session/archive")
        assert await call(wire, "session/list", "sessions") == []
        await call(wire, "session/unarchive")
        assert await call(wire, "session/list", "sessions[].id") == [SESSION]
        assert not (await session_info(wire))["archived"]
        assert (await say(wire))["seq"] == 2


async def test_what_was_sent_before_is_stored_and_what_comes_after_is_refused(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as watcher:
        await create_with(wire, "n1", persist="immediate")
        await watcher.call("subscribe", session_id=SESSION)
        asked = [
            await wire.request("append", session_id=SESSION, message=HI),
            await wire.request("session/archive", session_id=SESSION),
            await wire.request("append", session_id=SESSION, message=HI),
            await wire.request("session/get", session_id=SESSION),
            await wire.request("session/unarchive", session_id=SESSION),
            await wire.request("append", session_id=SESSION, message=HI),
        ]
        assert (await wire.answer(asked[0]))["seq"] == 2
        assert await wire.answer(asked[1]) == {}
        with pytest.raises(Refusal, match="session_archived"):
            await wire.answer(asked[2])
        assert (await wire.answer(asked[3]))["session"]["archived"]
        assert await wire.answer(asked[4]) == {}
        assert (await wire.answer(asked[5]))["seq"] == 3
        # A subscriber goes on, and is told of both changes where they happened.
        told = [(await watcher.next_notification())["params"] for _ in range(4)]
        assert [one.get("seq", one.get("archived")) for one in told] == [2, True, False, 3]


async def test_a_retry_of_what_is_stored_is_answered_although_it_is_archived(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1", persist="immediate")
        entry = {"type": "message", "id": "mine", "message": HI}
        await wire.call("append", session_id=SESSION, entry=entry)
        await call(wire, "session/archive")
        assert (await wire.call("append", session_id=SESSION, entry=entry))["duplicate"]


async def test_a_draft_is_archived_too_and_has_its_place_from_then_on(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1")
        assert house.places() == ["pending"]
        await call(wire, "session/archive")
        await call(wire, "session/archive")
        assert house.places() == ["archive"]
        assert (await session_info(wire))["persisted"]
        await call(wire, "session/unarchive")
        await call(wire, "session/unarchive")
        assert house.places() == ["sessions"]
        assert await call(wire, "session/list", "sessions[].id") == [SESSION]


async def test_unarchiving_leaves_what_is_not_archived_where_it_is(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1")
        assert await call(wire, "session/unarchive") == {}
        assert house.places() == ["pending"]


async def test_what_has_no_file_in_the_profile_is_not_archived_and_stays(
    real_house: House, tmp_path: Path
) -> None:
    foreign = tmp_path / "theirs.jsonl"
    foreign.write_bytes(PI)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1", persist="never")
        refused = await wire.refusal("session/archive", session_id=SESSION)
        assert (refused.data["kind"], refused.data["path"]) == ("invalid_params", "session_id")
        assert (await say(wire))["seq"] == 2
        opened = (await wire.call("session/open", path=str(foreign)))["session"]["id"]
        refused = await wire.refusal("session/archive", session_id=opened)
        assert "outside the profile" in refused.message
        assert await call(wire, "session/unarchive", session_id=opened) == {}
    assert foreign.read_bytes() == PI


async def test_a_name_that_is_taken_in_the_archive_is_an_error_and_nothing_is_replaced(
    house: House,
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1", persist="immediate")
        taken = house.layout.archive / Path((await session_info(wire))["path"]).name
        house.disk.put(taken, b"something\n")
        refused = await wire.refusal("session/archive", session_id=SESSION)
        assert (refused.data["kind"], refused.data["errno"]) == ("storage_error", "EEXIST")
        assert house.disk.content(taken) == b"something\n"
        assert not (await session_info(wire))["archived"]


@pytest.mark.parametrize("method", ["session/archive", "session/unarchive"])
@pytest.mark.parametrize("op", ["rename", "fsync_folder"])
@pytest.mark.parametrize("nth", [1, 2])
async def test_a_move_that_fails_is_told_and_repeated_and_loses_nothing_in_a_power_cut(
    house: House, method: str, op: str, nth: int
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1", persist="immediate")
        if method == "session/unarchive":
            await call(wire, "session/archive")
        house.disk.fail(op, nth=nth, errno=errno.EROFS)
        if (op, nth) != ("rename", 2):
            refused = await wire.refusal(method, session_id=SESSION)
            assert (refused.data["kind"], refused.data["errno"]) == ("storage_error", "EROFS")
        house.disk.heal()
        for names in range(4):
            left = [path for path in house.disk.crash(names=names).paths if SESSION in path.name]
            assert len([path for path in left if path.suffix == ".jsonl"]) == 1
        assert await wire.call(method, session_id=SESSION) == {}
        (kept,) = (p for p in house.disk.crash().paths if p.name.endswith(f"{SESSION}.jsonl"))
        archived = (await session_info(wire))["archived"]
        assert archived == (method == "session/archive")
        assert house.layout.is_archived(kept) == archived


async def test_a_session_with_a_bad_line_can_be_archived(house: House) -> None:
    content = house.disk.content(house.put([{"type": "label"}])) + b"garbage\n"
    house.put(content)
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await call(wire, "session/archive") == {}
        assert (await session_info(wire))["read_only"]
    assert house.places() == ["archive"]
