"""Subscribers that do not read, or leave: they cost a bound, lose nothing, and are told of ends."""

from __future__ import annotations

import json

import anyio
import anyio.lowlevel
import pytest

from sessiond.rpc.framing import Framing
from sessiond.testing.daemon import Refusal
from tests.kit.calls import append, create, create_with, events, watch
from tests.kit.house import House, arrived
from tests.kit.limits import set_limits
from tests.kit.patience import PATIENCE_SECONDS
from tests.kit.sessions import SESSION

pytestmark = pytest.mark.both_loops


async def test_a_subscriber_that_does_not_read_costs_a_bound_and_loses_nothing(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = 64 * 1024
    set_limits(monkeypatch, OUTBOX_BYTES_MAX=limit)
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as stuck:
        await create(wire)
        await watch(stuck)
        await stuck.call("server/ping")
        (client,) = [one for one in daemon.clients if one.subscriptions]
        listener = client.listener
        count, size = 60, 20_000
        for n in range(1, count + 1):
            # Every one is answered although nobody reads there.
            assert (await append(wire, f"n{n}", "x" * size))["seq"] == n
            assert listener.statistics().outbox.pending_bytes <= limit  # type: ignore[attr-defined]
        assert daemon.service.actor(SESSION).statistics().hub.demotions == 1
        assert daemon.service.actor(SESSION).statistics().hub.replaying == 1
        # For somebody who will be replayed no events are made.
        assert daemon.service.actor(SESSION).statistics().hub.events < count
        # An answer does not wait behind the replay for which there is no room.
        ping = await stuck.request("server/ping")
        seen: list[tuple[str, int]] = []
        while seen[-1:] != [("synced", count)]:
            message = json.loads(await stuck.receive())
            word = message.get("method", "answer").removeprefix("session/")
            params = message.get("params", {"seq": message.get("id")})
            name = params["entry"]["id"] if word == "event" else word
            seen.append((name, params["seq"]))
        words = [word for word, _ in seen]
        assert seen.index(("answer", ping)) < words.index("synced")
        assert words.count("lagged") == 1
        assert words.count("synced") == 1
        assert [seq for word, seq in seen if word.startswith("n")] == list(range(1, count + 1))
        words.remove("answer")
        seen.remove(("answer", ping))
        lagged_at = words.index("lagged")
        assert seen[lagged_at] == ("lagged", lagged_at)
        await append(wire, "last")
        assert await events(stuck, 1) == [("last", count + 1)]


async def test_one_frame_larger_than_the_outbox_is_still_delivered(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, OUTBOX_BYTES_MAX=1000)
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as reader:
        await create(wire)
        await watch(reader)
        for n in range(1, 4):
            await append(wire, f"n{n}", "x" * 5000)
        seen = [await events(reader, 1) for _ in range(3)]
        assert [event[0][0] for event in seen] == ["n1", "n2", "n3"]


async def test_a_client_that_left_before_the_session_was_open_leaves_no_subscription(
    house: House,
) -> None:
    house.put([])
    async with house.daemon() as daemon, daemon.connect() as wire:
        with house.disk.hold("open_update") as gate:
            async with daemon.connect() as leaving:
                await leaving.request("subscribe", session_id=SESSION, after={"seq": 0})
                await arrived(gate)
                # The answer to this one finds nobody, which ends the connection at once.
                await leaving.request("server/ping")
            with anyio.fail_after(PATIENCE_SECONDS):
                while len(daemon.service.clients) > 1:
                    await anyio.lowlevel.checkpoint()
        await append(wire, "n1")
        assert daemon.service.actor(SESSION).statistics().hub.subscribers == 0
        await wire.call("session/close", session_id=SESSION)
        assert daemon.service.find(SESSION) is None


async def test_a_replay_that_cannot_read_its_file_is_told_and_ends(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as late:
        await create_with(wire, "n1", "n2")
        house.disk.fail("pread")
        await watch(late, after={"seq": 0})
        assert await events(late, 1) == [("closed", "storage_error")]
        with pytest.raises(Refusal) as refused:
            await late.call("session/flush", session_id=SESSION)
        assert refused.value.code == -32040
        assert daemon.service.actor(SESSION).statistics().hub.subscribers == 0
        await watch(late, after={"seq": 0})
        assert await events(late, 3) == [("n1", 1), ("n2", 2), ("synced", 2)]


async def test_a_bug_in_a_writer_closes_its_session_and_tells_who_waits_and_watches(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as watcher:
        await create_with(wire, "n1")
        await watch(watcher)
        opened = daemon.service.actor(SESSION).opened
        monkeypatch.setattr(opened.session, "rules", None, raising=False)
        with pytest.raises(Refusal) as refused:
            await append(wire, "n2")
        assert refused.value.data == {
            "kind": "internal",
            "retryable": False,
            "incident_id": "incident-1",
        }
        assert await events(watcher, 1) == [("closed", "internal")]
        monkeypatch.undo()
        assert len(house.bugs) == 1
        house.bugs.clear()
        # The next request opens it again.
        assert (await append(wire, "n2"))["seq"] == 2


async def test_a_connection_keeps_nothing_of_a_session_that_was_closed_under_it(
    house: House,
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        for name in ("session-a", "session-b"):
            await create(wire, name, persist="immediate")
            await wire.call("session/subscribe", session_id=name)
        (client,) = daemon.clients
        assert set(client.subscriptions) == {"session-a", "session-b"}
        await wire.call("session/delete", session_id="session-a")
        assert set(client.subscriptions) == {"session-b"}


async def test_in_a_batch_the_events_of_a_subscription_may_come_before_its_answer(
    house: House,
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1")
        entry = {"type": "message", "id": "n2", "message": {"role": "user"}}
        named = {"session_id": SESSION}
        subscribed = {"id": 101, "method": "subscribe", "params": named}
        appended = {"id": 102, "method": "append", "params": named | {"entry": entry}}
        await wire.send([subscribed, appended])
        event, answers = [json.loads(await wire.receive()) for _ in range(2)]
        assert event["params"]["seq"] == 2
        assert [one["id"] for one in answers] == [101, 102]
        assert answers[0]["result"]["seq"] == 1


async def test_a_client_that_goes_over_to_lines_is_told_so_and_closed(house: House) -> None:
    async with (
        house.daemon() as daemon,
        daemon.connect(Framing.CONTENT_LENGTH) as wire,
        daemon.connect() as other,
    ):
        await wire.call("server/ping")
        await wire.send_bytes(b'{"id":7,"method":"server/ping"}\n')
        refusal = json.loads(await wire.receive())
        assert (refusal["id"], refusal["error"]["data"]["kind"]) == (None, "invalid_request")
        assert "framing" in refusal["error"]["message"]
        with pytest.raises(anyio.EndOfStream):
            await wire.receive()
        await other.call("server/ping")
