"""Two connections that ask for all they may leave the calls of all other ones their room and their turn."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import anyio
import pytest

from sessiond.limits import OPENINGS_PER_CONNECTION_MAX, READS_PER_CONNECTION_MAX, Bounds
from sessiond.service.log.log_reader import LogReader
from sessiond.service.registry import registry
from sessiond.testing.daemon import Daemon, Wire
from tests.kit.calls import append, create, refused_answer
from tests.kit.house import House, arrived
from tests.kit.limits import set_limits
from tests.kit.patience import PATIENCE_SECONDS, eventually
from tests.kit.sessions import SESSION, entry

pytestmark = pytest.mark.both_loops


class Held:
    """Calls of a function that wait in their threads, all but those for the session of another client."""

    def __init__(self) -> None:
        self.count = 0
        self.released = threading.Event()

    def wait(self) -> None:
        """Count a call, and hold it."""
        self.count += 1
        assert self.released.wait(PATIENCE_SECONDS)


@contextmanager
def held() -> Generator[Held]:
    """Return what holds calls until the end of the block."""
    calls = Held()
    try:
        yield calls
    finally:
        calls.released.set()


def put(house: House, count: int) -> list[str]:
    """Put sessions with one entry on the disk; return their names."""
    names = [f"session-{number:03}" for number in range(count)]
    for name in names:
        house.put([entry("n1")], name)
    house.put([entry("n1")])
    return names


def hold_openings(daemon: Daemon, monkeypatch: pytest.MonkeyPatch, calls: Held) -> None:
    """Hold the openings of all sessions but SESSION."""
    real = daemon.service.store.open

    def held_open(session_id: str, *args: Any) -> Any:
        if session_id != SESSION:
            calls.wait()
        return real(session_id, *args)

    monkeypatch.setattr(daemon.service.store, "open", held_open)


async def send_all(wire: Wire, method: str, names: list[str], **params: Any) -> list[int]:
    """Send a request for each session in one write; return the ids of the requests."""
    numbers = list(range(1000, 1000 + len(names)))
    await wire.send(
        *(
            {"id": number, "method": method, "params": {"session_id": name, **params}}
            for number, name in zip(numbers, names, strict=True)
        )
    )
    return numbers


USER = {"role": "user", "content": "x"}


async def test_what_a_connection_asks_to_open_leaves_turns_and_room_to_others(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Two connections take all threads of openings, and all open sessions, where neither has turns.
    set_limits(monkeypatch, OPENINGS_MAX=2 * OPENINGS_PER_CONNECTION_MAX + 1)
    names = put(house, 80)
    async with (
        house.daemon() as daemon,
        daemon.connect() as one,
        daemon.connect() as two,
        daemon.connect() as other,
    ):
        daemon.service.bounds = Bounds(open_sessions=32)
        with held() as calls:
            hold_openings(daemon, monkeypatch, calls)
            numbers = await send_all(one, "append", names[:40], message=USER)
            more = await send_all(two, "append", names[40:], message=USER)
            at_once = 2 * OPENINGS_PER_CONNECTION_MAX
            await eventually(lambda: calls.count == at_once, lambda: calls.count)
            assert (await append(other, "n2"))["seq"] == 2
            assert calls.count == at_once
            # What the first connection waits to open is opened in a turn of the next one that asks.
            late = await other.request("append", session_id=names[39], message=USER)
            await eventually(lambda: calls.count == at_once + 1, lambda: calls.count)
        assert sorted(
            [(await one.answer(numbers[39]))["seq"], (await other.answer(late))["seq"]]
        ) == [2, 3]
        for number in numbers[:39]:
            assert (await one.answer(number))["seq"] == 2
        for number in more:
            assert (await two.answer(number))["seq"] == 2


async def test_an_opening_that_takes_long_gives_its_turn_to_the_next_one(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "PLACE_PATIENCE_SECONDS", 0.0)
    names = put(house, OPENINGS_PER_CONNECTION_MAX)
    async with house.daemon() as daemon, daemon.connect() as wire:
        with held() as calls:
            hold_openings(daemon, monkeypatch, calls)
            numbers = await send_all(wire, "append", names, message=USER)
            await eventually(lambda: calls.count == len(names))
            assert (await append(wire, "n2"))["seq"] == 2
        for number in numbers:
            await wire.answer(number)


async def test_an_append_waits_for_the_room_that_running_calls_will_make(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = put(house, 2)
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        daemon.service.bounds = Bounds(open_sessions=2)
        for name in names:
            await append(wire, "n2", session_id=name)
        eviction, looks = daemon.service.registry.eviction, Counter[bool]()
        make = eviction.make

        def counted(*, in_memory: bool) -> list[anyio.Event]:
            looks[in_memory] += 1
            return make(in_memory=in_memory)

        monkeypatch.setattr(eviction, "make", counted)
        with house.disk.hold("fdatasync") as gate:
            numbers = await send_all(wire, "append", names, message=USER)
            await arrived(gate)
            # All open sessions are in use, by appends that will end.
            late = await other.request("append", session_id=SESSION, message=USER)
            await eventually(lambda: looks)
        assert (await other.answer(late))["seq"] == 2
        for number in numbers:
            assert (await wire.answer(number))["seq"] == 3
        # The wait has a bound.
        set_limits(monkeypatch, ROOM_PATIENCE_SECONDS=0.0)
        with house.disk.hold("fdatasync") as gate:
            numbers = await send_all(wire, "append", [SESSION, names[1]], message=USER)
            await arrived(gate)
            await eventually(lambda: daemon.service.registry.requests_waiting() == 0)
            late = await other.request("append", session_id=names[0], message=USER)
            assert await refused_answer(other, late) == "overloaded"


async def test_two_connections_that_watch_many_sessions_leave_some_to_who_watches_few(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, FEW_SESSIONS=3)
    names = put(house, 20)
    async with (
        house.daemon() as daemon,
        daemon.connect() as one,
        daemon.connect() as two,
        daemon.connect() as other,
    ):
        daemon.service.bounds = Bounds(open_sessions=16, sessions_per_connection=8)
        for name in names[:8]:
            await one.call("subscribe", session_id=name)
        for name in names[8:12]:
            await two.call("subscribe", session_id=name)
        for method, params in (
            ("subscribe", {}),
            ("session/presence", {"state": "here"}),
            ("session/acquire", {"ttl_ms": 60_000}),
        ):
            refusal = await two.refusal(method, session_id=names[12], **params)
            assert (refusal.data["kind"], refusal.data["limit"]) == ("overloaded", 12)
        for name in names[12:14]:
            await other.call("subscribe", session_id=name)
        refusal = await other.refusal("subscribe", session_id=names[14])
        assert (refusal.data["kind"], refusal.data["limit"]) == ("overloaded", 14)
        for name in names[14:]:
            assert (await append(other, "n2", session_id=name))["seq"] == 2


async def test_reads_of_one_connection_leave_room_to_others(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, FEW_SESSIONS=2, INLINE_READ_BYTES=-1)
    names = put(house, 12)
    async with house.daemon() as daemon, daemon.connect() as one, daemon.connect() as other:
        daemon.service.bounds = Bounds(open_sessions=8)
        for name in names[:8]:
            await one.call("session/get", session_id=name)
        with house.disk.hold("pread"):
            numbers = await send_all(one, "session/entries", names[:8])
            for number in numbers[6:]:
                assert await refused_answer(one, number) == "overloaded"
            read = await other.request("session/entries", session_id=names[6])
            await eventually(lambda: len(_client_of(daemon, other)) == 1)
            assert (await append(other, "n2", session_id=names[7]))["seq"] == 2
        for number in numbers[:6]:
            assert len((await one.answer(number))["entries"]) == 1
        assert len((await other.answer(read))["entries"]) == 1
        assert not any(client.readers for client in daemon.clients)


def _client_of(daemon: Daemon, _wire: Wire) -> Any:
    """Return the reads of the connection that reads least."""
    return min((client.readers for client in daemon.clients), key=len)


async def test_searches_and_lists_of_one_connection_leave_the_next_turn_to_another(
    house: House,
) -> None:
    put(house, 1)
    async with house.daemon() as daemon, daemon.connect() as one, daemon.connect() as other:
        turn = daemon.service.search.turn
        async with turn:
            await one.send(
                *(
                    {"id": number, "method": "session/search", "params": {"query": "x"}}
                    for number in range(100, 150)
                )
            )
            at_once = READS_PER_CONNECTION_MAX
            await eventually(lambda: turn.statistics().tasks_waiting == at_once)
            searched = await other.request("session/search", query="x")
            await eventually(lambda: turn.statistics().tasks_waiting == at_once + 1)
            assert (await other.call("session/list"))["sessions"]
        await other.answer(searched)
        for number in range(100, 150):
            await one.answer(number)


async def test_leases_of_one_connection_leave_some_to_others(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, LEASES_MAX=4, LEASE_WAITERS_MAX=4, LEASES_PER_CONNECTION_MAX=3)
    async with house.daemon() as daemon, daemon.connect() as one, daemon.connect() as other:
        await create(one)
        lease = {"session_id": SESSION, "ttl_ms": 60_000}
        for head in ("a", "b"):
            await one.call("session/acquire", head=head, **lease)
        waiting = await one.request("session/acquire", head="a", wait_ms=60_000, **lease)
        refusal = await one.refusal("session/acquire", head="c", **lease)
        assert (refusal.data["kind"], refusal.data["limit"]) == ("overloaded", 3)
        assert (await other.call("session/acquire", head="c", **lease))["lease_id"]
        late = await other.request("session/acquire", head="a", wait_ms=60_000, **lease)
        await one.send({"method": "$/cancelRequest", "params": {"id": waiting}})
        assert await refused_answer(one, waiting) == "cancelled"
        assert (await one.call("session/acquire", head="d", **lease))["lease_id"]
        await other.send({"method": "$/cancelRequest", "params": {"id": late}})
        assert await refused_answer(other, late) == "cancelled"


@pytest.mark.parametrize("limit", [{"INBOX_COMMANDS_MAX": 2}, {"INBOX_BYTES_MAX": 300}])
async def test_the_first_append_of_a_connection_finds_a_place_however_many_another_sent(
    house: House, monkeypatch: pytest.MonkeyPatch, limit: dict[str, float]
) -> None:
    set_limits(monkeypatch, **limit)
    async with house.daemon() as daemon, daemon.connect() as one, daemon.connect() as other:
        await create(one)
        with house.disk.hold("fdatasync") as gate:
            first = await one.request("append", session_id=SESSION, message=USER)
            await arrived(gate)
            numbers = await send_all(one, "append", [SESSION] * 20, message=USER)
            assert await refused_answer(one, numbers[-1]) == "overloaded"
            late = await other.request("append", session_id=SESSION, message=USER)
            more = await other.request("append", session_id=SESSION, message=USER)
            assert await refused_answer(other, more) == "overloaded"
        assert (await one.answer(first))["seq"] == 1
        assert (await other.answer(late))["seq"] > 1


async def test_calls_go_on_beside_connections_that_replay_all_they_may(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, INLINE_READ_BYTES=-1)
    names = put(house, 60)
    real = LogReader._events  # pyright: ignore[reportPrivateUsage]
    async with (
        house.daemon() as daemon,
        daemon.connect() as one,
        daemon.connect() as two,
        daemon.connect() as other,
    ):
        with held() as calls:

            def held_events(log: LogReader, first: int, last: int) -> Any:
                calls.wait()
                return real(log, first, last)

            monkeypatch.setattr(LogReader, "_events", held_events)
            after = {"seq": 0}
            for wire, part in ((one, names[:30]), (two, names[30:])):
                for number in await send_all(wire, "subscribe", part, after=after):
                    await wire.answer(number)
            # Each connection reads for one replay at a time.
            await eventually(lambda: calls.count == 2)
            assert (await append(other, "n2"))["seq"] == 2
            assert (await append(other, "n2", session_id=names[0]))["seq"] == 2
            await create(other, "another-one")
            assert len((await other.call("session/list"))["sessions"]) == len(names) + 1
            await other.call("state/set", namespace="n", key="k", value=1)
            assert (await other.call("state/get", namespace="n", key="k"))["value"] == 1
            assert calls.count == 2
        for wire, part in ((one, names[:30]), (two, names[30:])):
            seen = [one["params"]["session_id"] for one in wire.notifications]
            assert not seen
            synced = set[str]()
            with anyio.fail_after(PATIENCE_SECONDS):
                while synced != set(part):
                    told = await wire.next_notification()
                    if told["method"] == "session/synced":
                        synced.add(told["params"]["session_id"])
