"""Group commit: waiting appends are stored together, in order, without cancelled ones."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack

import anyio
import pytest

from sessiond.limits import BATCH_ENTRIES_MAX, INBOX_COMMANDS_MAX
from sessiond.testing.daemon import Refusal
from tests.kit.calls import append_soon, call, cancel, create, part_of, refused_answer, watch
from tests.kit.house import House, arrived
from tests.kit.limits import set_limits
from tests.kit.sessions import SESSION

pytestmark = [pytest.mark.both_loops, pytest.mark.platform]

USER = {"role": "user", "content": "hi"}


async def test_ten_waiting_appends_share_one_write_and_one_sync(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await create(wire)
        with house.disk.hold("fdatasync") as gate:
            first = await append_soon(wire, "first")
            await arrived(gate)
            before = house.disk.counts.copy()
            asked = [(to, await append_soon(to, f"e{n}")) for n, to in enumerate([wire, other] * 5)]
            # Requests are taken in wire order: when the ping is answered the appends wait.
            await wire.call("server/ping")
            await other.call("server/ping")
            assert daemon.service.actor(SESSION).waiting == 10
            gate.open.set()
            await wire.answer(first)
            answers = [await to.answer(number) for to, number in asked]
        assert house.disk.counts["write"] - before["write"] == 1
        # The one that was held back was counted when it began.
        assert house.disk.counts["fdatasync"] - before["fdatasync"] == 1
        assert {answer["durability"] for answer in answers} == {"disk"}
        statistics = daemon.service.actor(SESSION).statistics().writer
        assert (statistics.batches, statistics.entries, statistics.batch_entries_max) == (2, 11, 10)
        seqs = sorted(answer["seq"] for answer in answers)
        assert seqs == list(range(2, 12))
    by_seq = {answer["seq"]: answer["entries"][0]["id"] for answer in answers}
    assert part_of(house.stored()[1:], "[].id") == ["first", *(by_seq[seq] for seq in seqs)]


async def test_what_arrives_while_the_disk_is_busy_is_the_next_batch(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        asked = []
        for n in range(3):
            with house.disk.hold("fdatasync") as gate:
                asked.append(await append_soon(wire, f"a{n}"))
                await arrived(gate)
                asked.append(await append_soon(wire, f"b{n}"))
                await wire.call("server/ping")
                assert daemon.service.actor(SESSION).waiting == 1
            await wire.answer(asked[-2])
            await wire.answer(asked[-1])
        assert daemon.service.actor(SESSION).statistics().writer.batches == 6


async def test_a_batch_is_as_large_as_one_write_may_be_and_no_larger(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        with house.disk.hold("fdatasync") as gate:
            asked = [await append_soon(wire, "first")]
            await arrived(gate)
            sizes = [BATCH_ENTRIES_MAX // 2 - 1, BATCH_ENTRIES_MAX // 2, 2, 1]
            for size in sizes:
                entries = [{"type": "message", "message": USER}] * size
                asked.append(await wire.request("append", session_id=SESSION, entries=entries))
            await wire.call("server/ping")
        for number in asked:
            await wire.answer(number)
        statistics = daemon.service.actor(SESSION).statistics().writer
        assert (statistics.batches, statistics.batch_entries_max) == (3, BATCH_ENTRIES_MAX - 1)


async def test_the_event_comes_before_the_answer_on_a_connection_that_does_both(
    house: House,
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        await watch(wire)
        for n in range(3):
            await wire.answer(await append_soon(wire, f"e{n}"))
            ids = [
                one["params"]["entry"]["id"]
                for one in wire.notifications
                if one["method"] == "session/event"
            ]
            assert ids == [f"e{m}" for m in range(n + 1)]


async def test_pipelined_requests_take_effect_in_their_order(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        asked = [
            await wire.request("session/create", cwd="/p", session_id=SESSION),
            await append_soon(wire, "one"),
            await append_soon(wire, "two"),
            await wire.request("build_context", session_id=SESSION),
            await wire.request("session/entries", session_id=SESSION),
            await wire.request("session/tree", session_id=SESSION),
        ]
        created, one, two, context, entries, tree = [await wire.answer(n) for n in asked]
        assert created["created"]
        assert (one["seq"], two["seq"]) == (1, 2)
        assert two["entries"][0]["parent_id"] == "one"
        assert context["sources"] == ["one", "two"]
        assert [row["entry"]["id"] for row in entries["entries"]] == ["one", "two"]
        assert [node["id"] for node in tree["nodes"]] == ["one", "two"]


async def test_a_read_waits_for_its_own_connections_mutations_and_for_no_others(
    house: House,
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await create(wire)
        with house.disk.hold("fdatasync") as gate:
            asked = await append_soon(wire, "one")
            await arrived(gate)
            own_read = await wire.request("build_context", session_id=SESSION)
            assert await call(other, "build_context", "sources") == []
        # Answers come in any order in general; these two rest on each other.
        await wire.answer(asked)
        assert (await wire.answer(own_read))["sources"] == ["one"]


async def test_a_refused_append_refuses_those_that_name_its_entries_as_parents(
    house: House,
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        bad = {"type": "message", "id": "bad", "message": {"content": "no role"}}
        asked = [
            await append_soon(wire, "good"),
            await wire.request("append", session_id=SESSION, entry=bad, parent_id="good"),
            await append_soon(wire, "child", parent_id="bad"),
            await append_soon(wire, "grandchild", parent_id="child"),
        ]
        await wire.answer(asked[0])
        kinds = [await refused_answer(wire, number) for number in asked[1:]]
        assert kinds == ["entry_invalid", "entry_not_found", "entry_not_found"]
    assert part_of(house.stored()[1:], "[].id") == ["good"]


# -- giving up ---------------------------------------------------------------------


async def test_a_queued_append_that_is_cancelled_stores_nothing(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        with house.disk.hold("fdatasync") as gate:
            first = await append_soon(wire, "first")
            await arrived(gate)
            queued, last = await append_soon(wire, "queued"), await append_soon(wire, "last")
            await cancel(wire, queued)
            with pytest.raises(Refusal) as refused:
                await wire.answer(queued)
            assert refused.value.code == -32800
        await wire.answer(first)
        assert (await wire.answer(last))["seq"] == 2
    assert part_of(house.stored()[1:], "[].id") == ["first", "last"]


async def test_an_append_past_its_write_completes_although_it_is_cancelled(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        with house.disk.hold("fdatasync") as gate:
            asked = await append_soon(wire, "e1")
            await arrived(gate)
            await cancel(wire, asked)
            await wire.call("server/ping")
        assert (await wire.answer(asked))["durability"] == "disk"
    assert part_of(house.stored()[1:], "[].id") == ["e1"]


async def test_a_waiting_read_that_is_cancelled_leaves_its_place_in_line(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        with house.disk.hold("fdatasync") as gate:
            asked = await append_soon(wire, "e1")
            await arrived(gate)
            read = await wire.request("session/entries", session_id=SESSION)
            await cancel(wire, read)
            with pytest.raises(Refusal) as refused:
                await wire.answer(read)
            assert refused.value.code == -32800
        await wire.answer(asked)
        assert await call(wire, "session/entries", "entries[].seq") == [1]


@pytest.mark.parametrize("abruptly", [True, False])
async def test_what_a_client_sent_before_it_left_is_stored(house: House, abruptly: bool) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        with house.disk.hold("fdatasync") as gate:
            async with daemon.connect() as leaving:
                await append_soon(leaving, "one")
                await arrived(gate)
                await append_soon(leaving, "two")
                await leaving.call("server/ping")
                if not abruptly:
                    leaving.end_input()
            await anyio.wait_all_tasks_blocked()
        # The line is served in order, so this one comes after both.
        assert (await wire.answer(await append_soon(wire, "three")))["seq"] == 3
    assert part_of(house.stored()[1:], "[].id") == ["one", "two", "three"]


# -- the bound ---------------------------------------------------------------------


async def test_a_full_inbox_refuses_with_a_time_to_wait(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert INBOX_COMMANDS_MAX > 3
    set_limits(monkeypatch, INBOX_COMMANDS_MAX=3)
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        with house.disk.hold("fdatasync") as gate:
            asked = [await append_soon(wire, "e0")]
            await arrived(gate)
            asked += [await append_soon(wire, f"e{n}") for n in range(1, 4)]
            refused_append = await append_soon(wire, "one-too-many")
            assert await refused_answer(wire, refused_append, "") == {
                "kind": "overloaded",
                "retryable": True,
                "limit": 3,
                "retry_after_ms": 250,
            }
        for number in asked:
            await wire.answer(number)
        # It may be asked again under the same id.
        assert (await wire.answer(await append_soon(wire, "one-too-many")))["seq"] == 5


async def test_commands_of_a_session_that_cannot_be_opened_are_all_answered(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        asked = [
            await append_soon(wire, "e1"),
            await wire.request("build_context", session_id=SESSION),
            await wire.request("subscribe", session_id=SESSION),
        ]
        for number in asked:
            assert await refused_answer(wire, number) == "session_not_found"
        await create(wire)
        assert (await wire.answer(await append_soon(wire, "e1")))["seq"] == 1


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("clients", [1, 8])
async def test_requests_that_clients_send_together_are_one_batch_in_memory(
    house: House, clients: int
) -> None:
    """Only asyncio tells when all that has arrived was read."""
    async with house.daemon() as daemon, AsyncExitStack() as wires:
        first = await wires.enter_async_context(daemon.connect())
        await create(first, persist="never")
        others = [await wires.enter_async_context(daemon.connect()) for _ in range(clients - 1)]
        params = {"session_id": SESSION, "message": USER}
        request = {"jsonrpc": "2.0", "id": 1, "method": "session/append", "params": params}
        frame = json.dumps(request).encode() + b"\n"
        for _ in range(3):
            for wire in (first, *others):
                assert wire.send_some(frame) == len(frame)
            for wire in (first, *others):
                assert (await wire.message())["result"]["durability"] == "memory"
        statistics = daemon.service.actor(SESSION).statistics().writer
        # In the first round the client that created the session still seems to be alone.
        assert statistics.batches == (3 if clients == 1 else 4)
        assert statistics.batch_entries_max == clients
