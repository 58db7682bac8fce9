"""Drafts: when a session becomes a file in the sessions folder, and when it never does."""

from __future__ import annotations

import json

import pytest
from anyio import to_thread

from sessiond.service.files.startup_cleanup import settle_drafts
from tests.kit.calls import call, create, say, session_info
from tests.kit.house import House
from tests.kit.roots import ids
from tests.kit.sessions import SESSION

PERSISTED = "session.persisted"


async def test_a_session_appears_with_its_first_assistant_message(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        made = await create(wire)
        assert not made["session"]["persisted"]
        await say(wire)
        assert (house.places(), await call(wire, "session/get", PERSISTED)) == (["pending"], False)
        assert (await ids(wire), await ids(wire, drafts=True)) == ([], [SESSION])
        await say(wire, role="assistant")
        assert (house.places(), await call(wire, "session/get", PERSISTED)) == (["sessions"], True)
        assert await ids(wire) == [SESSION]
        path = (await session_info(wire))["path"]
        assert path == str(house.session_files()[0])
        # Nothing was rewritten: the same file has another name.
        assert (await say(wire))["seq"] == 3


async def test_a_draft_is_durable_and_works_by_its_id_after_a_restart(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, title="t")
        await say(wire)
        epoch = (await session_info(wire))["epoch"]
        left = house.disk.crash()
    house.files = left
    async with house.daemon() as daemon, daemon.connect() as wire:
        info = await session_info(wire)
        assert (info["seq"], info["persisted"], info["title"]) == (1, False, "t")
        assert info["epoch"] == epoch
        await say(wire, role="assistant")
        assert house.places() == ["sessions"]
        assert (await session_info(wire))["epoch"] == epoch


async def test_the_header_is_durable_before_create_is_answered(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        left = house.disk.crash()
    house.files = left
    assert [line["id"] for line in house.stored()] == [SESSION]


@pytest.mark.parametrize("op", ["rename", "fsync_folder"])
async def test_a_failed_move_does_not_fail_the_append_and_is_tried_again(
    house: House, op: str
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        house.disk.fail(op)
        answer = await say(wire, role="assistant")
        assert answer["durability"] == "disk"
        assert not await call(wire, "session/get", PERSISTED)
        assert (await say(wire))["seq"] == 2
        assert (house.places(), await call(wire, "session/get", PERSISTED)) == (["sessions"], True)
    house.files = house.disk.crash()
    assert [line["type"] for line in house.stored()] == ["session_header", "message", "message"]


async def test_a_move_that_failed_is_tried_again_when_the_daemon_starts(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        house.disk.fail("rename")
        await say(wire, role="assistant")
    assert house.places() == ["pending"]
    async with house.daemon() as daemon, daemon.connect() as wire:
        await to_thread.run_sync(settle_drafts, daemon.store)
        assert await ids(wire) == [SESSION]
    assert house.places() == ["sessions"]


@pytest.mark.parametrize("drafts", [1, 25])
async def test_a_start_opens_and_reads_no_draft_that_is_known(house: House, drafts: int) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        for number in range(drafts):
            await create(wire, f"draft-{number:03}")
            await wire.call("append", session_id=f"draft-{number:03}", message={"role": "user"})
        await wire.call("session/list", drafts=True)
    async with house.daemon() as daemon, daemon.connect() as wire:
        before = house.disk.counts.copy()
        await to_thread.run_sync(settle_drafts, daemon.store)
        cost = {op: house.disk.counts[op] - before[op] for op in ("open_update", "open_read")}
        assert cost == {"open_update": 0, "open_read": 0}
        listed = await wire.call("session/list", drafts=True)
        assert len(listed["sessions"]) == drafts


async def test_a_draft_that_got_its_answer_unseen_is_read_at_the_next_start(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        await wire.call("session/list", drafts=True)
    (path,) = house.session_files()
    answer = {
        "type": "message",
        "id": "a1",
        "parent_id": None,
        "timestamp": "2026-01-15T10:30:00.000Z",
    }
    line = json.dumps({**answer, "message": {"role": "assistant"}})
    house.disk.write_as_another(path, line.encode() + b"\n")
    async with house.daemon() as daemon:
        await to_thread.run_sync(settle_drafts, daemon.store)
    assert house.places() == ["sessions"]


async def test_a_start_that_is_to_end_leaves_the_rest_of_the_drafts(house: House) -> None:
    for number in range(3):
        async with house.daemon() as daemon, daemon.connect() as wire:
            await create(wire, f"draft-{number:03}")
    house.disk.seconds += 10 * 24 * 3600.0
    looks = iter([False, True, True])
    async with house.daemon() as daemon:
        await to_thread.run_sync(settle_drafts, daemon.store, lambda: next(looks))
    assert len(house.session_files()) == 2


async def test_a_move_that_failed_is_tried_again_when_the_session_is_opened(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        house.disk.fail("rename")
        await say(wire, role="assistant")
        await wire.call("session/close", session_id=SESSION)
        assert await call(wire, "session/get", PERSISTED)
    assert house.places() == ["sessions"]


async def test_a_draft_whose_first_reply_was_refused_stays_a_draft(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        house.disk.fail("fdatasync")
        failed = await wire.request("append", session_id=SESSION, message={"role": "assistant"})
        with pytest.raises(Exception, match="storage_error"):
            await wire.answer(failed)
        await say(wire)
        assert (house.places(), await call(wire, "session/get", PERSISTED)) == (["pending"], False)


async def test_an_immediate_session_is_there_at_once(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        made = await create(wire, persist="immediate")
        assert made["session"]["persisted"]
        assert (house.places(), await ids(wire)) == (["sessions"], [SESSION])


async def test_a_session_that_is_never_persisted_touches_no_disk(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as watcher:
        await create(wire, persist="never")
        before = (house.disk.writes, house.disk.syncs)
        await watcher.call("subscribe", session_id=SESSION)
        answer = await say(wire, role="assistant")
        assert answer["durability"] == "memory"
        retried = await say(wire, idempotency_key="k")
        assert await say(wire, idempotency_key="k") == retried | {"duplicate": True}
        context = await wire.call("build_context", session_id=SESSION)
        assert len(context["messages"]) == 2
        assert (await watcher.next_notification())["params"]["seq"] == 1
        await watcher.call("subscribe", session_id=SESSION, after={"seq": 0})
        assert [(await watcher.next_notification())["params"]["seq"] for _ in range(4)] == [
            2,
            1,
            2,
            2,
        ]
        assert await ids(wire) == [SESSION]
        assert (house.disk.writes, house.disk.syncs) == before
        assert not await call(wire, "session/get", PERSISTED)
    assert house.session_files() == []


async def test_requests_to_a_session_in_memory_keep_their_order(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        asked = [
            await wire.request("session/create", cwd="/p", session_id=SESSION, persist="never"),
            await wire.request("append", session_id=SESSION, message={"role": "user"}),
            await wire.request("build_context", session_id=SESSION),
        ]
        answers = [await wire.answer(number) for number in asked]
        assert len(answers[2]["messages"]) == 1
        # Now it is open: one chunk of requests is one batch.
        chunk = b"".join(
            b'{"id":%d,"method":"%s","params":{"session_id":"session-a"%s}}\n' % line
            for line in [
                (70, b"append", b',"message":{"role":"user"}'),
                (71, b"append", b',"message":{"role":"user"}'),
                (72, b"build_context", b""),
            ]
        )
        await wire.send_bytes(chunk)
        assert [(await wire.answer(70))["seq"], (await wire.answer(71))["seq"]] == [2, 3]
        assert len((await wire.answer(72))["messages"]) == 3


async def test_a_bug_in_memory_is_told_and_the_connection_lives(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, persist="never")
        await say(wire)
        monkeypatch.setattr(daemon.service.actor(SESSION).opened.session, "heads", None)
        failed = await wire.request("append", session_id=SESSION, message={"role": "user"})
        with pytest.raises(Exception, match="internal"):
            await wire.answer(failed)
        monkeypatch.undo()
        await wire.call("server/ping")
        assert len(house.bugs) == 1
        house.bugs.clear()
