"""A session comes closer to the disk: never -> on_assistant -> immediate, whole or not at all."""

from __future__ import annotations

from unittest.mock import AsyncMock

import anyio
import pytest

from sessiond.testing.daemon import Refusal
from tests.kit.calls import call, create, part_of, refused, say, session_info, watch
from tests.kit.house import House, arrived
from tests.kit.patience import PATIENCE_SECONDS
from tests.kit.sessions import SESSION

pytestmark = pytest.mark.both_loops


async def test_a_session_in_memory_becomes_a_file_and_goes_on(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as watcher:
        await create(wire, persist="never")
        for _ in range(3):
            await say(wire)
        before = await session_info(wire)
        subscribed = await watch(watcher)
        now = await call(wire, "session/update", "session", persist="immediate", title="kept")
        assert (now["persist"], now["persisted"], now["title"]) == ("immediate", True, "kept")
        assert (now["epoch"], now["seq"]) == (before["epoch"], 4)
        left = house.disk.crash()
        # From here on it is like any other: no gap for who watches, appends are durable.
        assert (await say(wire))["durability"] == "disk"
        events = [(await watcher.next_notification())["params"] for _ in range(2)]
        assert [(event["seq"], event["epoch"]) for event in events] == [
            (4, subscribed["epoch"]),
            (5, subscribed["epoch"]),
        ]
        assert daemon.service.statistics().sessions_in_memory == 0
        assert len(await call(wire, "build_context", "messages")) == 4
    types = part_of(house.stored(), "[].type")
    assert types == ["session_header", *["message"] * 3, "session_info", "message"]
    async with house.daemon() as daemon, daemon.connect() as wire:
        again = await session_info(wire)
        assert (again["seq"], again["title"], again["epoch"]) == (5, "kept", now["epoch"])
    # What was answered before that had survived on its own, too.
    house.files = left
    types = part_of(house.stored(), "[].type")
    assert types == ["session_header", *["message"] * 3, "session_info"]


async def test_out_of_memory_without_an_assistant_it_is_a_draft(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, persist="never")
        await say(wire)
        now = await call(wire, "session/update", "session", persist="on_assistant")
        assert (now["persist"], now["persisted"], house.places()) == (
            "on_assistant",
            False,
            ["pending"],
        )
        await say(wire, role="assistant")
        assert house.places() == ["sessions"]
        assert (await session_info(wire))["persisted"]


async def test_out_of_memory_as_a_conversation_it_has_its_place_at_once(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, persist="never")
        await say(wire, role="assistant")
        now = await call(wire, "session/update", "session", persist="on_assistant")
        assert (now["persisted"], house.places()) == (True, ["sessions"])


async def test_a_draft_is_given_its_place(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, persist="on_assistant")
        await say(wire)
        before = await session_info(wire)
        now = await call(wire, "session/update", "session", persist="immediate", status="s")
        assert (now["persist"], now["persisted"], now["seq"]) == ("immediate", True, 2)
        assert now["epoch"] == before["epoch"]
        assert house.places() == ["sessions"]
        assert now["path"] == str(house.session_files()[0])
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert (await session_info(wire))["status"] == "s"


@pytest.mark.parametrize("persist", ["never", "on_assistant", "immediate"])
async def test_the_level_it_has_changes_nothing(house: House, persist: str) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, persist=persist)
        before = await session_info(wire)
        assert await call(wire, "session/update", "session", persist=persist) == before
        assert (
            await call(wire, "session/update", "session.title", persist=persist, title="t") == "t"
        )


@pytest.mark.parametrize(
    ("now", "wanted"),
    [("immediate", "on_assistant"), ("immediate", "never"), ("on_assistant", "never")],
)
async def test_nothing_goes_back(house: House, now: str, wanted: str) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, persist=now)
        before = await session_info(wire)
        wish = {"session_id": SESSION, "persist": wanted, "title": "t"}
        refusal = await wire.refusal("session/update", **wish)
        assert (refusal.code, refusal.data["path"]) == (-32602, "persist")
        assert await session_info(wire) == before


@pytest.mark.parametrize("op", ["write", "fsync", "rename", "fsync_folder"])
async def test_what_fails_leaves_a_session_in_memory_as_it_was(house: House, op: str) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as watcher:
        await create(wire, persist="never")
        await say(wire)
        before = await session_info(wire)
        await watch(watcher)
        house.disk.fail(op)
        asked = {"persist": "immediate", "title": "lost"}
        assert await refused(wire, "session/update", **asked) == "storage_error"
        assert await session_info(wire) == before
        assert house.session_files() == []
        assert (await say(wire))["durability"] == "memory"
        now = await call(wire, "session/update", "session", persist="immediate", title="kept")
        assert (now["seq"], now["persisted"]) == (3, True)
        seqs = [(await watcher.next_notification())["params"]["seq"] for _ in range(2)]
        assert seqs == [2, 3]
    types = part_of(house.stored(), "[].type")
    assert types == ["session_header", "message", "message", "session_info"]


@pytest.mark.parametrize("op", ["rename", "fsync_folder", "write", "fdatasync"])
async def test_what_fails_leaves_a_draft_as_it_was(house: House, op: str) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, persist="on_assistant")
        await say(wire)
        before = await session_info(wire)
        house.disk.fail(op)
        asked = {"persist": "immediate", "title": "lost"}
        assert await refused(wire, "session/update", **asked) == "storage_error"
        assert await session_info(wire) == before
        assert house.places() == ["pending"]
        now = await call(wire, "session/update", "session", persist="immediate", title="kept")
        assert (now["seq"], now["title"], house.places()) == (2, "kept", ["sessions"])
    house.files = house.disk.crash()
    types = part_of(house.stored(), "[].type")
    assert types == ["session_header", "message", "session_info"]


async def test_a_promotion_under_a_condition_that_fails_writes_nothing(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, persist="never")
        await say(wire)
        asked = {"persist": "immediate", "expected": {"seq": 7}}
        assert await refused(wire, "session/update", **asked) == "precondition_failed"
        assert (house.session_files(), (await session_info(wire))["persist"]) == ([], "never")


async def test_a_file_that_came_under_the_same_id_is_not_joined(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, persist="never")
        house.put([])
        assert await refused(wire, "session/update", persist="immediate") == "session_exists"
        assert (await session_info(wire))["persist"] == "never"
        assert len(house.session_files()) == 1


async def test_requests_around_a_promotion_keep_their_order(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, persist="never")
        await say(wire)
        message = {"role": "user"}
        asked = [
            await wire.request("append", session_id=SESSION, message=message),
            await wire.request("session/update", session_id=SESSION, persist="immediate"),
            await wire.request("append", session_id=SESSION, message=message),
            await wire.request("session/get", session_id=SESSION),
            await wire.request("append", session_id=SESSION, message=message),
        ]
        answers = [await wire.answer(number) for number in asked]
        assert [answers[n]["seq"] for n in (0, 2, 4)] == [2, 3, 4]
        assert [answers[n]["durability"] for n in (0, 2, 4)] == ["memory", "disk", "disk"]
        assert answers[1]["session"]["seq"] == 2
        assert (answers[3]["session"]["seq"], answers[3]["session"]["persisted"]) == (3, True)


async def test_who_writes_while_the_file_is_made_loses_nothing(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await create(wire, persist="never")
        for _ in range(5):
            await say(wire)
        with house.disk.hold("rename") as gate:
            promoting = await wire.request(
                "session/update", session_id=SESSION, persist="immediate"
            )
            await arrived(gate)
            # Reads are answered meanwhile; what is written waits for the file.
            assert len(await call(other, "build_context", "messages")) == 5
            appending = await other.request(
                "append", session_id=SESSION, message={"role": "assistant"}
            )
            await other.call("server/ping")
        assert (await wire.answer(promoting))["session"]["seq"] == 5
        answer = await other.answer(appending)
        assert (answer["seq"], answer["durability"]) == (6, "disk")
    assert len(house.stored()) == 7


async def test_many_sessions_leave_memory_at_once(house: House) -> None:
    ids = [f"session-{number:03}" for number in range(20)]
    async with house.daemon() as daemon, daemon.connect() as wire:
        for session_id in ids:
            await create(wire, session_id, persist="never")
        asked = [
            await wire.request("session/update", session_id=session_id, persist="immediate")
            for session_id in ids
        ]
        with anyio.fail_after(PATIENCE_SECONDS):
            sessions = [(await wire.answer(number))["session"] for number in asked]
        assert all(session["persisted"] for session in sessions)
        assert daemon.service.statistics().sessions_in_memory == 0
    assert len(house.session_files()) == 20


async def test_there_must_be_room_for_one_more_file(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        daemon.service.bounds = daemon.service.bounds._replace(open_sessions=1)
        await create(wire, persist="never")
        await create(wire, "session-b", persist="immediate")
        await wire.call("subscribe", session_id="session-b")
        assert await refused(wire, "session/update", persist="immediate") == "overloaded"
        assert (await session_info(wire))["persist"] == "never"
        await wire.call("unsubscribe", session_id="session-b")
        assert await call(wire, "session/update", "session.persisted", persist="immediate")


async def test_its_place_in_memory_is_free_again(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        daemon.service.bounds = daemon.service.bounds._replace(memory_sessions=1)
        await create(wire, persist="never")
        with pytest.raises(Refusal, match="overloaded"):
            await create(wire, "session-b", persist="never")
        await watch(wire)
        await call(wire, "session/update", "session", persist="immediate")
        assert (await create(wire, "session-b", persist="never"))["created"]


@pytest.mark.parametrize("persist", ["immediate", "on_assistant"])
async def test_the_epoch_survives_a_daemon_that_is_killed(
    house: House, monkeypatch: pytest.MonkeyPatch, persist: str
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, persist="never")
        await say(wire)
        epoch = await call(wire, "session/update", "session.epoch", persist=persist, title="t")
        left = house.disk.crash()
        # Killed: nobody closes the session.
        monkeypatch.setattr(daemon.service.registry, "_let_go", AsyncMock())
    house.files = left
    async with house.daemon() as daemon, daemon.connect() as wire:
        cursor = {"seq": 1, "epoch": epoch}
        answer = await watch(wire, after=cursor)
        assert (answer["epoch"], answer.get("replaced")) == (epoch, None)
        assert (await wire.next_notification())["params"]["seq"] == 2
