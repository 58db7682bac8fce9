"""Subscribers that resume: cursors, replays, flushes; no gap and no duplicate."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessiond.testing.daemon import Daemon, Refusal
from tests.kit.calls import append, call, create, create_with, events, never, watch
from tests.kit.house import House, arrived
from tests.kit.sessions import SESSION

pytestmark = pytest.mark.both_loops


@pytest.mark.parametrize("restart", [False, True], ids=["same daemon", "after a restart"])
@pytest.mark.parametrize("proof", ["entry_id", "epoch"])
async def test_a_subscriber_that_resumes_gets_exactly_the_rest_and_synced_once(
    house: House, proof: str, *, restart: bool
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1", "n2", "n3", "n4", "n5")
        epoch = (await watch(wire))["epoch"]
        if not restart:
            await resume(daemon, {"entry_id": "n2", "epoch": epoch}[proof], proof)
    if restart:
        async with house.daemon() as daemon:
            await resume(daemon, {"entry_id": "n2", "epoch": epoch}[proof], proof)


async def resume(daemon: Daemon, value: str, proof: str) -> None:
    """Check that a subscriber that has seen two entries of five gets the rest."""
    async with daemon.connect() as late, daemon.connect() as writer:
        answer = await watch(late, after={"seq": 2, proof: value})
        assert (answer["seq"], answer["leaf_id"], "replaced" in answer) == (5, "n5", False)
        assert await events(late, 4) == [("n3", 3), ("n4", 4), ("n5", 5), ("synced", 5)]
        await append(writer, "n6")
        assert await events(late, 1) == [("n6", 6)]
        await never(late)


async def test_after_seq_0_replays_everything_and_needs_no_proof(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as late:
        await create_with(wire, "n1", "n2")
        await watch(late, after={"seq": 0})
        assert await events(late, 3) == [("n1", 1), ("n2", 2), ("synced", 2)]
        await never(late)


async def test_without_after_only_what_comes_is_sent(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as late:
        await create_with(wire, "n1", "n2")
        await watch(late)
        await append(wire, "n3")
        assert await events(late, 1) == [("n3", 3)]
        await never(late)


@pytest.mark.parametrize(
    ("after", "reason"),
    [
        ({"seq": 4, "entry_id": "n4"}, "ahead"),
        ({"seq": 4, "epoch": "epoch-1"}, "ahead"),
        ({"seq": 2, "entry_id": "n1"}, "epoch"),
        ({"seq": 2, "entry_id": "n1", "epoch": "epoch-1"}, "epoch"),
        ({"seq": 2, "epoch": "another"}, "epoch"),
    ],
)
async def test_a_cursor_that_does_not_fit_is_replaced_and_everything_replayed(
    house: House, after: dict[str, Any], reason: str
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as late:
        await create_with(wire, "n1", "n2", "n3")
        assert (await watch(late, after=after))["replaced"] == reason
        assert await events(late, 4) == [("n1", 1), ("n2", 2), ("n3", 3), ("synced", 3)]


async def test_an_entry_id_counts_more_than_an_epoch(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as late:
        await create_with(wire, "n1", "n2", "n3")
        after = {"seq": 2, "entry_id": "n2", "epoch": "of another life"}
        assert "replaced" not in await watch(late, after=after)
        assert await events(late, 2) == [("n3", 3), ("synced", 3)]


@pytest.mark.parametrize(
    ("after", "path"), [({"seq": 1}, "after.entry_id"), ({"seq": -1, "entry_id": "x"}, "after.seq")]
)
async def test_a_cursor_that_proves_nothing_is_refused(
    house: House, after: dict[str, Any], path: str
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1", "n2", "n3")
        await watch(wire)
        with pytest.raises(Refusal) as refused:
            await watch(wire, after=after)
        assert (refused.value.code, refused.value.data["path"]) == (-32602, path)
        # The subscription that was there is still there.
        await append(wire, "n4")
        assert await events(wire, 1) == [("n4", 4)]


async def test_what_is_written_during_a_replay_comes_with_it_once_and_then_it_is_live(
    house: House,
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as late:
        await create(wire)
        for n in range(1, 4):
            await append(wire, f"n{n}", "x" * 100_000)
        with house.disk.hold("pread") as gate:
            await watch(late, after={"seq": 0})
            await arrived(gate)
            await append(wire, "n4")
            await append(wire, "n5")
        assert await events(late, 6) == [
            ("n1", 1),
            ("n2", 2),
            ("n3", 3),
            ("n4", 4),
            ("n5", 5),
            ("synced", 5),
        ]
        # From here on events come before answers on one connection.
        n6 = {"type": "message", "id": "n6", "message": {"role": "user", "content": "hi"}}
        asked = await late.request("append", session_id=SESSION, entry=n6)
        event, answer = json.loads(await late.receive()), json.loads(await late.receive())
        assert (event["params"]["seq"], answer["id"]) == (6, asked)
        await never(late)


async def test_subscribing_again_replaces_the_subscription_even_in_mid_replay(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as late:
        await create(wire)
        await append(wire, "n1", "x" * 300_000)
        await append(wire, "n2", "x" * 300_000)
        with house.disk.hold("pread") as gate:
            await watch(late, after={"seq": 0})
            await arrived(gate)
            await watch(late, after={"seq": 1, "entry_id": "n1"}, bodies=False)
        assert await events(late, 2) == [("n2", 2), ("synced", 2)]
        await watch(late)
        await append(wire, "n3")
        assert await events(late, 1) == [("n3", 3)]
        await never(late)
        assert daemon.service.actor(SESSION).statistics().hub.subscribers == 1


async def test_unsubscribing_ends_the_events(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        await watch(wire)
        await call(wire, "unsubscribe")
        await append(wire, "n1")
        assert wire.notifications == []
        for method in ("unsubscribe", "session/flush"):
            with pytest.raises(Refusal) as refused:
                await wire.call(method, session_id=SESSION)
            assert refused.value.code == -32040


async def test_flush_answers_behind_every_event_up_to_its_seq(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as late:
        await create(wire)
        for n in range(1, 4):
            await append(wire, f"n{n}", "x" * 200_000)
        with house.disk.hold("pread") as gate:
            await watch(late, after={"seq": 0})
            flush = await late.request("session/flush", session_id=SESSION)
            await arrived(gate)
            assert late.notifications == []
        assert await late.answer(flush) == {"seq": 3}
        assert [n["params"]["seq"] for n in late.notifications[:3]] == [1, 2, 3]


async def test_flush_on_a_subscription_that_ended_meanwhile_says_so(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as late:
        await create(wire)
        await append(wire, "n1", "x" * 200_000)
        with house.disk.hold("pread") as gate:
            await watch(late, after={"seq": 0})
            flush = await late.request("session/flush", session_id=SESSION)
            await arrived(gate)
            await call(late, "unsubscribe")
            with pytest.raises(Refusal) as refused:
                await late.answer(flush)
            assert refused.value.code == -32040
