"""Bounds of open sessions: by number, descriptors, memory, and share of a connection."""

from __future__ import annotations

import pytest
from anyio import to_thread

from sessiond.limits import SESSION_DESCRIPTORS, SPARE_DESCRIPTORS_PART, WRITER_THREADS_MAX, Bounds
from sessiond.testing.daemon import Refusal
from tests.kit.calls import append, create, refused_answer
from tests.kit.house import House, arrived
from tests.kit.sessions import SESSION
from tests.service.damage import GOOD

pytestmark = pytest.mark.both_loops


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
        assert set(daemon.service.statistics().sessions) == {"session-a", "session-c", "session-d"}
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
        assert set(daemon.service.statistics().sessions) == {"session-b", "session-c"}


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
                assert name in daemon.service.statistics().sessions
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
        assert "session-0" not in daemon.service.statistics().sessions
        assert (await append(wire, "n1", session_id="session-z"))["durability"] == "disk"


async def test_a_connection_finds_descriptors_too(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        for number in range(5):
            house.seconds += 1
            await create(wire, f"session-{number}")
        house.disk.descriptors = house.disk.open_descriptors
        async with daemon.connect() as other:
            await other.call("server/ping")
            assert set(daemon.service.statistics().sessions) == {
                f"session-{number}" for number in range(1, 5)
            }


async def test_sessions_in_memory_have_a_bound_of_their_own(
    house: House,
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        daemon.service.bounds = Bounds(memory_sessions=1)
        await create(wire, "session-m", persist="never")
        number = await wire.request(
            "session/create", cwd="/p", session_id="session-n", persist="never"
        )
        assert await refused_answer(wire, number) == "overloaded"
        await create(wire, "session-f")
        assert set(daemon.service.statistics().sessions) == {"session-m", "session-f"}


async def test_no_number_of_readers_keeps_a_writer_waiting(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as reader:
        await create(wire)
        await append(wire, "n1", content="x" * 100_000)
        threads = to_thread.current_default_thread_limiter()
        before = threads.total_tokens
        threads.total_tokens = 1
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


async def test_connections_that_watch_all_they_may_together_leave_room_for_an_append(
    house: House,
) -> None:
    async with (
        house.daemon() as daemon,
        daemon.connect() as one,
        daemon.connect() as two,
        daemon.connect() as other,
    ):
        daemon.service.bounds = Bounds(open_sessions=8, sessions_per_connection=4)
        for n in range(9):
            await create(other, f"session-{n}")
            await append(other, "n1", session_id=f"session-{n}")
        for n in range(4):
            await one.call("subscribe", session_id=f"session-{n}")
        for n in range(4, 7):
            await two.call("session/presence", session_id=f"session-{n}", state="here")
        for method, params in (
            ("subscribe", {}),
            ("session/presence", {"state": "here"}),
            ("session/acquire", {"ttl_ms": 60_000}),
        ):
            refused = await two.refusal(method, session_id="session-7", **params)
            assert (refused.data["kind"], refused.data["limit"]) == ("overloaded", 7)
        # What is open for a client already takes no room.
        await other.call("subscribe", session_id="session-0")
        for n in range(9):
            assert (await append(other, "n2", session_id=f"session-{n}"))["seq"] == 2
        await one.call("unsubscribe", session_id="session-1")
        await two.call("subscribe", session_id="session-7")


async def test_a_session_that_is_being_opened_is_kept_by_nobody_yet(house: House) -> None:
    path = house.put(GOOD)
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await create(wire, "session-b")
        house.disk.evict(path)
        with house.disk.hold("pread") as gate:
            opening = await other.request("session/get", session_id=SESSION)
            await arrived(gate)
            await wire.call("subscribe", session_id="session-b")
            gate.open.set()
            await other.answer(opening)
