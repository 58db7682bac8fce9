"""Open sessions: opened on demand, while a client needs them, up to a bound, until the end."""

from __future__ import annotations

import sqlite3
from typing import Any

import anyio
import pytest
from anyio import to_thread

from sessiond.limits import (
    IDLE_SESSION_SECONDS,
    SESSION_DESCRIPTORS,
    SPARE_DESCRIPTORS_PART,
    WRITER_THREADS_MAX,
    Bounds,
)
from sessiond.testing.daemon import Daemon, Refusal, Wire
from tests.kit.calls import append, create, session_info
from tests.kit.house import House, arrived
from tests.kit.sessions import SESSION


def open_now(daemon: Daemon) -> set[str]:
    return set(daemon.service.statistics().sessions)


async def kind_of(wire: Wire, number: int) -> str:
    with pytest.raises(Refusal) as refused:
        await wire.answer(number)
    kind: str = refused.value.data["kind"]
    return kind


# -- idle --------------------------------------------------------------------------------


async def test_a_session_that_nobody_used_for_a_while_is_unloaded_and_opened_again(
    house: House,
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        await append(wire, "n1")
        epoch = (await session_info(wire))["epoch"]
        house.seconds += IDLE_SESSION_SECONDS
        daemon.service.unload_idle()
        assert open_now(daemon) == {SESSION}
        house.seconds += 1
        daemon.service.unload_idle()
        assert open_now(daemon) == set()
        got = await session_info(wire)
        assert (got["seq"], got["epoch"]) == (1, epoch)
        assert (await append(wire, "n2"))["seq"] == 2


@pytest.mark.parametrize("use", ["append", "read"])
async def test_use_counts_from_the_last_append_or_read(house: House, use: str) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        house.seconds += IDLE_SESSION_SECONDS
        if use == "append":
            await append(wire, "n1")
        else:
            await wire.call("session/get", session_id=SESSION)
        house.seconds += 1
        daemon.service.unload_idle()
        assert open_now(daemon) == {SESSION}


async def test_a_session_is_not_unloaded_while_somebody_watches_waits_or_reads(
    house: House,
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:

        def still_open() -> bool:
            house.seconds += IDLE_SESSION_SECONDS + 1
            daemon.service.unload_idle()
            return open_now(daemon) == {SESSION}

        await create(wire)
        await append(wire, "n1", content="x" * 100_000)
        await wire.call("subscribe", session_id=SESSION)
        assert still_open()
        await wire.call("unsubscribe", session_id=SESSION)
        with house.disk.hold("fdatasync") as gate:
            waiting = await wire.request("append", session_id=SESSION, message={"role": "user"})
            await arrived(gate)
            assert still_open()
        await wire.answer(waiting)
        with house.disk.hold("pread") as gate:
            reading = await wire.request("session/entries", session_id=SESSION)
            await arrived(gate)
            assert still_open()
        assert len((await wire.answer(reading))["entries"]) == 2
        assert not still_open()


async def test_a_session_in_memory_stays(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, persist="never")
        await append(wire, "n1")
        house.seconds += 10 * IDLE_SESSION_SECONDS
        daemon.service.unload_idle()
        await wire.call("session/close", session_id=SESSION)
        assert (await append(wire, "n2"))["seq"] == 2


# -- close -------------------------------------------------------------------------------


async def test_close_lets_go_of_a_session_unless_another_connection_watches_it(
    house: House,
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await create(wire)
        await wire.call("subscribe", session_id=SESSION)
        await other.call("subscribe", session_id=SESSION)
        await wire.call("session/close", session_id=SESSION)
        assert open_now(daemon) == {SESSION}
        await other.call("session/close", session_id=SESSION)
        assert open_now(daemon) == set()
        await other.call("session/close", session_id=SESSION)
        assert open_now(daemon) == set()
        await append(wire, "n1")
        assert [*wire.notifications, *other.notifications] == []


async def test_a_large_read_is_answered_although_the_session_is_closed_behind_it(
    house: House,
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        await append(wire, "n1", content="x" * 100_000)
        await wire.call("session/close", session_id=SESSION)
        await wire.call("session/get", session_id=SESSION)
        requests = [
            b'{"id":%d,"method":"%s","params":{"session_id":"session-a"}}\n' % (number, method)
            for number, method in [
                (70, b"build_context"),
                (71, b"session/close"),
                (72, b"session/get"),
            ]
        ]
        # One chunk, so that all of it is dispatched before any task of it runs.
        await wire.send_bytes(b"".join(requests))
        assert (await wire.answer(70))["sources"] == ["n1"]
        await wire.answer(71)
        assert (await wire.answer(72))["session"]["seq"] == 1


@pytest.mark.parametrize("rounds", [5])
async def test_requests_that_race_with_an_unload_are_not_lost(house: House, rounds: int) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await create(wire)
        asked = []
        for n in range(rounds):
            for to in (wire, other):
                entry = {"type": "message", "id": f"{n}-{id(to)}", "message": {"role": "user"}}
                asked.append((to, await to.request("append", session_id=SESSION, entry=entry)))
                asked.append((to, await to.request("session/close", session_id=SESSION)))
        seqs = []
        for to, number in asked:
            answer = await to.answer(number)
            seqs += [answer["seq"]] if answer else []
        assert sorted(seqs) == list(range(1, 2 * rounds + 1))
        assert daemon.service.statistics().requests_waiting == 0
    assert len(house.stored()) == 2 * rounds + 1


async def test_what_comes_while_the_file_is_let_go_waits_for_it(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        await wire.call("append", session_id=SESSION, message={"role": "user"}, durability="os")
        with house.disk.hold("fdatasync") as gate:
            await wire.call("session/close", session_id=SESSION)
            await arrived(gate)
            asked = await wire.request("append", session_id=SESSION, message={"role": "user"})
            await wire.call("server/ping")
        assert (await wire.answer(asked))["seq"] == 2


@pytest.mark.parametrize("trouble", ["sync", "file gone", "catalog"])
async def test_trouble_at_the_closing_of_a_session_is_not_the_end_of_the_daemon(
    house: House, trouble: str
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        await wire.call("append", session_id=SESSION, message={"role": "user"}, durability="os")
        if trouble == "sync":
            house.disk.fail("fdatasync")
        elif trouble == "file gone":
            house.disk.unlink(house.session_files()[0])
        else:
            connection = daemon.service.store.catalog.file._connection
            await to_thread.run_sync(connection.execute, "PRAGMA query_only = ON")
            with pytest.raises(sqlite3.OperationalError):
                await to_thread.run_sync(connection.execute, "DELETE FROM sessions")
        await wire.call("session/close", session_id=SESSION)
        await create(wire, "session-b")
        again = await wire.request("session/get", session_id=SESSION)
        if trouble == "file gone":
            assert await kind_of(wire, again) == "session_not_found"
        else:
            assert (await wire.answer(again))["session"]["seq"] == 1


async def test_a_bug_at_the_closing_of_a_session_is_reported_and_nothing_more(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        store = daemon.service.store
        settle = store.settle

        def fail(opened: Any) -> None:
            settle(opened)
            raise RuntimeError("a bug")

        monkeypatch.setattr(store, "settle", fail)
        await wire.call("session/close", session_id=SESSION)
        assert (await append(wire, "n1"))["seq"] == 1
        monkeypatch.undo()
        assert [str(bug) for bug in house.bugs] == ["a bug"]
        house.bugs.clear()


# -- how many ----------------------------------------------------------------------------


async def test_the_least_recently_used_idle_session_makes_room(
    house: House,
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        daemon.service.bounds = Bounds(open_sessions=3)
        for name in ("a", "b", "c"):
            house.seconds += 1
            await create(wire, f"session-{name}")
        house.seconds += 1
        await append(wire, "n1", session_id="session-a")
        house.seconds += 1
        await create(wire, "session-d")
        assert open_now(daemon) == {"session-a", "session-c", "session-d"}
        assert (await append(wire, "n1", session_id="session-b"))["seq"] == 1


async def test_when_all_are_in_use_opening_one_more_is_refused_for_now(
    house: House,
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        daemon.service.bounds = Bounds(open_sessions=2)
        for name in ("session-a", "session-b"):
            await create(wire, name)
            await wire.call("subscribe", session_id=name)
        number = await wire.request("session/create", cwd="/p", session_id="session-c")
        with pytest.raises(Refusal) as refused:
            await wire.answer(number)
        assert refused.value.data == {
            "kind": "overloaded",
            "retryable": True,
            "limit": 2,
            "retry_after_ms": 250,
        }
        assert len(house.session_files()) == 2
        await wire.call("unsubscribe", session_id="session-a")
        await create(wire, "session-c")
        assert open_now(daemon) == {"session-b", "session-c"}


# -- how many descriptors ----------------------------------------------------------------

FEW = 16


async def test_idle_sessions_make_room_when_there_are_few_descriptors(house: House) -> None:
    house.disk.descriptors = FEW
    names = [f"session-{n:02}" for n in range(20)]
    async with house.daemon() as daemon, daemon.connect() as wire:
        for seq in (1, 2):
            for name in names:
                if seq == 1:
                    await create(wire, name)
                house.seconds += 1
                assert (await append(wire, f"n{seq}", session_id=name))["seq"] == seq
                assert name in open_now(daemon)
        # Lists, copies and the like have something left.
        assert house.disk.open_descriptors <= FEW - FEW // SPARE_DESCRIPTORS_PART
        assert len((await wire.call("session/list", drafts=True))["sessions"]) == len(names)
        await wire.call("session/fork", session_id=names[0])


async def test_without_descriptors_and_idle_sessions_opening_one_more_is_refused_for_now(
    house: House,
) -> None:
    house.disk.descriptors = FEW
    async with house.daemon() as daemon, daemon.connect() as wire:
        count = (FEW - FEW // SPARE_DESCRIPTORS_PART) // SESSION_DESCRIPTORS
        for number in range(count):
            await create(wire, f"session-{number}")
            await wire.call("subscribe", session_id=f"session-{number}")
        refused = await wire.refusal("session/create", cwd="/p", session_id="session-z")
        assert refused.data == {
            "kind": "overloaded",
            "retryable": True,
            "limit": FEW,
            "retry_after_ms": 250,
        }
        assert len(house.session_files()) == count
        await wire.call("unsubscribe", session_id="session-0")
        await create(wire, "session-z")
        assert "session-0" not in open_now(daemon)
        assert (await append(wire, "n1", session_id="session-z"))["durability"] == "disk"


async def test_a_connection_finds_descriptors_too(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        for number in range(5):
            house.seconds += 1
            await create(wire, f"session-{number}")
        house.disk.descriptors = house.disk.open_descriptors
        async with daemon.connect() as other:
            await other.call("server/ping")
            assert open_now(daemon) == {f"session-{number}" for number in range(1, 5)}


async def test_sessions_in_memory_have_a_bound_of_their_own(
    house: House,
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        daemon.service.bounds = Bounds(memory_sessions=1)
        await create(wire, "session-m", persist="never")
        number = await wire.request(
            "session/create", cwd="/p", session_id="session-n", persist="never"
        )
        assert await kind_of(wire, number) == "overloaded"
        await create(wire, "session-f")
        assert open_now(daemon) == {"session-m", "session-f"}


async def test_no_number_of_readers_keeps_a_writer_waiting(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as reader:
        await create(wire)
        await append(wire, "n1", content="x" * 100_000)
        threads = to_thread.current_default_thread_limiter()
        before = threads.total_tokens
        # A test's own wait takes one, the readers take the rest.
        threads.total_tokens = 2
        try:
            with house.disk.hold("pread") as gate:
                reads = [
                    await reader.request("session/entries", session_id=SESSION) for _ in range(5)
                ]
                await arrived(gate)
                await reader.call("server/ping")
                assert (await append(wire, "n2"))["seq"] == 2
            for number in reads:
                assert (await reader.answer(number))["seq"] == 1
        finally:
            threads.total_tokens = before
    assert WRITER_THREADS_MAX > 1


# -- creating ----------------------------------------------------------------------------


async def test_of_two_that_create_one_session_one_does(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        one = await wire.request("session/create", cwd="/p", session_id=SESSION)
        two = await other.request("session/create", cwd="/p", session_id=SESSION)
        three = await other.request(
            "session/create", cwd="/p", session_id=SESSION, if_exists="open"
        )
        outcomes = []
        for to, number in ((wire, one), (other, two)):
            try:
                outcomes.append((await to.answer(number))["created"])
            except Refusal as refused:
                outcomes.append(refused.data["kind"])
        assert sorted(map(str, outcomes)) == ["True", "session_exists"]
        assert not (await other.answer(three))["created"]


@pytest.mark.parametrize("if_exists", ["fail", "open"])
async def test_creating_what_somebody_just_failed_to_find_creates_it(
    house: House, if_exists: str
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await create(wire, "session-b")
        with house.disk.hold("listdir") as gate:
            early = await wire.request("session/get", session_id=SESSION)
            await arrived(gate)
            made = await other.request(
                "session/create", cwd="/p", session_id=SESSION, if_exists=if_exists
            )
            await other.call("server/ping")
            late = await wire.request("session/get", session_id=SESSION)
            await wire.call("server/ping")
        assert await kind_of(wire, early) == "session_not_found"
        assert (await other.answer(made))["created"]
        assert (await wire.answer(late))["session"]["id"] == SESSION


async def test_a_session_in_memory_cannot_take_the_id_of_a_file(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        await wire.call("session/close", session_id=SESSION)
        number = await wire.request("session/create", cwd="/p", session_id=SESSION, persist="never")
        assert await kind_of(wire, number) == "session_exists"


async def test_a_file_that_another_process_holds_is_locked_and_says_by_whom(house: House) -> None:
    path = house.put([])
    async with house.daemon() as daemon, daemon.connect() as wire:
        fd = house.disk.open_update(path)
        assert house.disk.lock(fd)
        number = await wire.request("session/get", session_id=SESSION)
        assert await kind_of(wire, number) == "session_locked"
        house.disk.close(fd)
        assert (await session_info(wire))["seq"] == 0


# -- the end -----------------------------------------------------------------------------


async def test_draining_answers_what_was_asked_and_refuses_what_comes_after(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await create(wire)
        await append(wire, "n0", content="x" * 100_000)
        async with anyio.create_task_group() as tasks:
            with house.disk.hold("fdatasync") as gate, house.disk.hold("pread") as reads:
                reads.open.set()
                asked = [await wire.request("append", session_id=SESSION, message={"role": "user"})]
                await arrived(gate)
                asked += [
                    await wire.request("append", session_id=SESSION, message={"role": "user"})
                    for _ in range(3)
                ]
                read = await other.request("session/entries", session_id=SESSION)
                await wire.call("server/ping")
                tasks.start_soon(daemon.end)
                assert (await wire.next_notification())["method"] == "server/draining"
                assert daemon.service.draining
                late = await wire.request("append", session_id=SESSION, message={"role": "user"})
                assert await kind_of(wire, late) == "draining"
                await wire.call("server/ping")
            assert [(await wire.answer(number))["seq"] for number in asked] == [2, 3, 4, 5]
            assert (await other.answer(read))["seq"] == 1
            with pytest.raises(anyio.EndOfStream):
                await wire.receive()
    assert len(house.stored()) == 6
    assert house.disk.open_descriptors == 0


async def test_draining_waits_for_reads_that_have_begun(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        for n in range(3):
            # Several reads, so that a file closed after the first would fail the second.
            await append(wire, f"n{n}", content="x" * 300_000)
        async with anyio.create_task_group() as tasks:
            with house.disk.hold("pread") as gate:
                read = await wire.request("session/entries", session_id=SESSION)
                await arrived(gate)
                tasks.start_soon(daemon.end)
                await wire.call("server/ping")
            assert len((await wire.answer(read))["entries"]) == 3


async def test_draining_does_not_wait_for_a_subscriber_that_does_not_read(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as stuck:
        await create(wire)
        await append(wire, "n1", content="x" * 100_000)
        with house.disk.hold("pread") as gate:
            await stuck.call("subscribe", session_id=SESSION, after={"seq": 0})
            flush = await stuck.request("session/flush", session_id=SESSION)
            await arrived(gate)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(daemon.end)
                assert await kind_of(stuck, flush) == "subscription_not_found"
                gate.open.set()


# -- the share of one connection ---------------------------------------------------------


async def test_one_connection_keeps_a_share_of_the_sessions_open_and_no_more(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        daemon.service.bounds = Bounds(sessions_per_connection=3)
        for n in range(6):
            await create(wire, f"session-{n}")
        await wire.call("subscribe", session_id="session-0")
        await wire.call("session/presence", session_id="session-1", state="here")
        lease = await wire.call("session/acquire", session_id="session-2", ttl_ms=60_000)
        for method, params in (
            ("subscribe", {}),
            ("session/presence", {"state": "here"}),
            ("session/acquire", {"ttl_ms": 60_000}),
        ):
            refused = await wire.refusal(method, session_id="session-3", **params)
            assert refused.data["kind"] == "overloaded"
            assert refused.data["limit"] == 3
            # What it keeps open already costs nothing more; and the next one has its own share.
            await wire.call(method, session_id="session-0", **params)
            await other.call(method, session_id="session-3", **params)
        # A lease that is over, a presence and a subscription that ended make room.
        await wire.call("session/release", session_id="session-2", lease_id=lease["lease_id"])
        await wire.call("subscribe", session_id="session-4")
        await wire.refusal("subscribe", session_id="session-5")
        await wire.call("session/close", session_id="session-1")
        await wire.call("subscribe", session_id="session-5")


async def test_a_connection_that_watches_all_it_may_leaves_room_for_others(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        daemon.service.bounds = Bounds(open_sessions=4, sessions_per_connection=2)
        for n in range(6):
            await create(wire, f"session-{n}")
            await append(wire, "n1", session_id=f"session-{n}")
        watched = 0
        for n in range(6):
            request = await wire.request("subscribe", session_id=f"session-{n}")
            try:
                await wire.answer(request)
            except Refusal:
                continue
            watched += 1
        assert watched == 2
        for n in range(6):
            assert (await append(other, "n2", session_id=f"session-{n}"))["seq"] == 2


async def test_a_stop_that_catches_a_fork_at_its_opening_waits_for_its_answer(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await create(wire, persist="immediate")
        with house.disk.hold("rename") as gate:
            sent = await wire.request("session/fork", session_id=SESSION, new_session_id="the-fork")
            await arrived(gate)
            await other.call("server/stop")
            with anyio.fail_after(10):
                while not daemon.service.draining:  # noqa: ASYNC110 - nobody is told of it
                    await anyio.sleep(0.001)
        # It was made, so its maker is told of it.
        assert (await wire.answer(sent))["session"]["id"] == "the-fork"
