"""Sessions that nobody uses: unloaded, closed, let go, and opened again."""

from __future__ import annotations

import sqlite3
from contextlib import AsyncExitStack
from random import Random
from typing import Any

import pytest
from anyio import to_thread

from sessiond.limits import IDLE_SESSION_SECONDS
from sessiond.testing.wire import Wire
from tests.kit.calls import append, append_soon, call, create, refused_answer, session_info, watch
from tests.kit.house import House, arrived
from tests.kit.sessions import SESSION

pytestmark = pytest.mark.both_loops


async def test_a_session_that_nobody_used_for_a_while_is_unloaded_and_opened_again(
    house: House,
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        await append(wire, "n1")
        epoch = (await session_info(wire))["epoch"]
        house.seconds += IDLE_SESSION_SECONDS
        daemon.service.unload_idle()
        assert set(daemon.service.statistics().sessions) == {SESSION}
        house.seconds += 1
        daemon.service.unload_idle()
        assert set(daemon.service.statistics().sessions) == set()
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
            await call(wire, "session/get")
        house.seconds += 1
        daemon.service.unload_idle()
        assert set(daemon.service.statistics().sessions) == {SESSION}


async def test_a_session_is_not_unloaded_while_somebody_watches_waits_or_reads(
    house: House,
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:

        def still_open() -> bool:
            house.seconds += IDLE_SESSION_SECONDS + 1
            daemon.service.unload_idle()
            return set(daemon.service.statistics().sessions) == {SESSION}

        await create(wire)
        await append(wire, "n1", content="x" * 100_000)
        await watch(wire)
        assert still_open()
        await call(wire, "unsubscribe")
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
        await call(wire, "session/close")
        assert (await append(wire, "n2"))["seq"] == 2


async def test_close_lets_go_of_a_session_unless_another_connection_watches_it(
    house: House,
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await create(wire)
        await watch(wire)
        await watch(other)
        await call(wire, "session/close")
        assert set(daemon.service.statistics().sessions) == {SESSION}
        await call(other, "session/close")
        assert set(daemon.service.statistics().sessions) == set()
        await call(other, "session/close")
        assert set(daemon.service.statistics().sessions) == set()
        await append(wire, "n1")
        assert [*wire.notifications, *other.notifications] == []


async def test_a_close_spares_a_session_to_which_another_client_subscribes_in_one_batch_with_the_close(
    house: House,
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await create(wire)
        said = {"session_id": SESSION, "message": {"role": "user"}}
        with house.disk.hold("fdatasync") as gate:
            stored = await wire.request("append", **said)
            await arrived(gate)
            # Questions that come first would be a batch of their own.
            await other.request("append", **said)
            await other.call("server/ping")
            closed = await wire.request("session/close", session_id=SESSION)
            await wire.call("server/ping")
            subscribed = await other.request("subscribe", session_id=SESSION)
            await other.call("server/ping")
        await wire.answer(stored)
        await wire.answer(closed)
        await other.answer(subscribed)
        await append(wire, "n3")
        assert (await other.next_notification())["params"]["entry"]["id"] == "n3"
        assert set(daemon.service.statistics().sessions) == {SESSION}


async def test_a_close_behind_which_nothing_else_is_served_in_its_batch_unloads_the_session(
    house: House,
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        said = {"session_id": SESSION, "message": {"role": "user"}}
        with house.disk.hold("fdatasync") as gate:
            await wire.request("append", **said)
            await arrived(gate)
            closed = await wire.request("session/close", session_id=SESSION)
            await wire.call("server/ping")
        await wire.answer(closed)
        assert set(daemon.service.statistics().sessions) == set()


async def test_a_large_read_is_answered_although_the_session_is_closed_behind_it(
    house: House,
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        await append(wire, "n1", content="x" * 100_000)
        await call(wire, "session/close")
        await call(wire, "session/get")
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
                asked.append((to, await append_soon(to, f"{n}-{id(to)}")))
                asked.append((to, await to.request("session/close", session_id=SESSION)))
        seqs = []
        for to, number in asked:
            answer = await to.answer(number)
            seqs += [answer["seq"]] if answer else []
        assert sorted(seqs) == list(range(1, 2 * rounds + 1))
        assert daemon.service.statistics().requests_waiting == 0
    assert len(house.stored()) == 2 * rounds + 1


@pytest.mark.parametrize("seed", range(10))
async def test_subscriptions_that_race_with_closes_hear_every_later_entry(
    house: House, seed: int
) -> None:
    dice = Random(seed)
    async with house.daemon() as daemon, AsyncExitStack() as ends:
        wires = [await ends.enter_async_context(daemon.connect()) for _ in range(3)]
        await create(wires[0])
        watching: set[Wire] = set()
        for number in range(20):
            asked = []
            # What comes while the disk is waited for is one batch.
            with house.disk.hold("fdatasync"):
                for _ in range(dice.randint(2, 8)):
                    wire = dice.choice(wires)
                    method = dice.choice(["append", "subscribe", "session/close"])
                    said = {"message": {"role": "user"}} if method == "append" else {}
                    asked.append(
                        (wire, method, await wire.request(method, session_id=SESSION, **said))
                    )
                for wire in wires:
                    await wire.call("server/ping")
            for wire, method, request in asked:
                await wire.answer(request)
                if method == "subscribe":
                    watching.add(wire)
                elif method == "session/close":
                    watching.discard(wire)
            await append(wires[0], f"probe-{number}")
            for wire in watching:
                entry_id = None
                while entry_id != f"probe-{number}":
                    told = await wire.next_notification()
                    entry_id = told["params"].get("entry", {}).get("id")


async def test_what_comes_while_the_file_is_let_go_waits_for_it(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        await call(wire, "append", message={"role": "user"}, durability="os")
        with house.disk.hold("fdatasync") as gate:
            await call(wire, "session/close")
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
        await call(wire, "append", message={"role": "user"}, durability="os")
        if trouble == "sync":
            house.disk.fail("fdatasync")
        elif trouble == "file gone":
            house.disk.unlink(house.session_files()[0])
        else:
            connection = daemon.store.catalog.file._connection
            assert connection is not None
            await to_thread.run_sync(connection.execute, "PRAGMA query_only = ON")
            with pytest.raises(sqlite3.OperationalError):
                await to_thread.run_sync(connection.execute, "DELETE FROM sessions")
        await call(wire, "session/close")
        await create(wire, "session-b")
        again = await wire.request("session/get", session_id=SESSION)
        if trouble == "file gone":
            assert await refused_answer(wire, again) == "session_not_found"
        else:
            assert (await wire.answer(again))["session"]["seq"] == 1


async def test_a_bug_at_the_closing_of_a_session_is_reported_and_nothing_more(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        store = daemon.store
        settle = store.settle

        def fail(opened: Any) -> None:
            settle(opened)
            raise RuntimeError("a bug")

        monkeypatch.setattr(store, "settle", fail)
        await call(wire, "session/close")
        assert (await append(wire, "n1"))["seq"] == 1
        monkeypatch.undo()
        assert [str(bug) for bug in house.bugs] == ["a bug"]
        house.bugs.clear()
