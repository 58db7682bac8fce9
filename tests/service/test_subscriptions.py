"""No gap and no duplicate: cursors that resume, filters, slow readers, ends that are told."""

from __future__ import annotations

import json
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from sessiond.rpc.framing import Framing
from sessiond.service.client import Client
from sessiond.service.pubsub.hub import HubStatistics
from sessiond.testing.daemon import Daemon, Refusal, Wire
from tests.kit.calls import append, create, create_with
from tests.kit.house import House, arrived
from tests.kit.limits import set_limits
from tests.kit.sessions import SESSION


async def subscribe(wire: Wire, **params: Any) -> Any:
    return await wire.call("subscribe", session_id=SESSION, **params)


async def told(wire: Wire, count: int) -> list[tuple[str, int | str]]:
    """Return the next notifications in short: events as (id, seq), the rest as (word, seq)."""
    found: list[tuple[str, int | str]] = []
    while len(found) < count:
        message = await wire.next_notification()
        params = message["params"]
        word = message["method"].removeprefix("session/")
        name = params["entry"]["id"] if word == "event" else word
        found.append((name, params.get("seq", params.get("reason", ""))))
    return found


async def nothing_more(wire: Wire) -> None:
    """Check that the daemon has no notification left to send."""
    await wire.call("session/flush", session_id=SESSION)
    assert wire.notifications == []


def hub_of(daemon: Daemon) -> HubStatistics:
    return daemon.service.actor(SESSION).statistics().hub


# -- resuming ------------------------------------------------------------------------


@pytest.mark.parametrize("restart", [False, True], ids=["same daemon", "after a restart"])
@pytest.mark.parametrize("proof", ["entry_id", "epoch"])
async def test_a_subscriber_that_resumes_gets_exactly_the_rest_and_synced_once(
    house: House, proof: str, *, restart: bool
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1", "n2", "n3", "n4", "n5")
        epoch = (await subscribe(wire))["epoch"]
        if not restart:
            await _resume(daemon, {"entry_id": "n2", "epoch": epoch}[proof], proof)
    if restart:
        async with house.daemon() as daemon:
            await _resume(daemon, {"entry_id": "n2", "epoch": epoch}[proof], proof)


async def _resume(daemon: Daemon, value: str, proof: str) -> None:
    async with daemon.connect() as late, daemon.connect() as writer:
        answer = await subscribe(late, after={"seq": 2, proof: value})
        assert (answer["seq"], answer["leaf_id"], "replaced" in answer) == (5, "n5", False)
        assert await told(late, 4) == [("n3", 3), ("n4", 4), ("n5", 5), ("synced", 5)]
        await append(writer, "n6")
        assert await told(late, 1) == [("n6", 6)]
        await nothing_more(late)


async def test_after_seq_0_replays_everything_and_needs_no_proof(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as late:
        await create_with(wire, "n1", "n2")
        await subscribe(late, after={"seq": 0})
        assert await told(late, 3) == [("n1", 1), ("n2", 2), ("synced", 2)]
        await nothing_more(late)


async def test_without_after_only_what_comes_is_sent(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as late:
        await create_with(wire, "n1", "n2")
        await subscribe(late)
        await append(wire, "n3")
        assert await told(late, 1) == [("n3", 3)]
        await nothing_more(late)


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
        assert (await subscribe(late, after=after))["replaced"] == reason
        assert await told(late, 4) == [("n1", 1), ("n2", 2), ("n3", 3), ("synced", 3)]


async def test_an_entry_id_counts_more_than_an_epoch(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as late:
        await create_with(wire, "n1", "n2", "n3")
        after = {"seq": 2, "entry_id": "n2", "epoch": "of another life"}
        assert "replaced" not in await subscribe(late, after=after)
        assert await told(late, 2) == [("n3", 3), ("synced", 3)]


@pytest.mark.parametrize(
    ("after", "path"), [({"seq": 1}, "after.entry_id"), ({"seq": -1, "entry_id": "x"}, "after.seq")]
)
async def test_a_cursor_that_proves_nothing_is_refused(
    house: House, after: dict[str, Any], path: str
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1", "n2", "n3")
        await subscribe(wire)
        with pytest.raises(Refusal) as refused:
            await subscribe(wire, after=after)
        assert (refused.value.code, refused.value.data["path"]) == (-32602, path)
        # The subscription that was there is still there.
        await append(wire, "n4")
        assert await told(wire, 1) == [("n4", 4)]


async def test_what_is_written_during_a_replay_comes_with_it_once_and_then_it_is_live(
    house: House,
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as late:
        await create(wire)
        for n in range(1, 4):
            await append(wire, f"n{n}", "x" * 100_000)
        with house.disk.hold("pread") as gate:
            await subscribe(late, after={"seq": 0})
            await arrived(gate)
            await append(wire, "n4")
            await append(wire, "n5")
        assert await told(late, 6) == [
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
        await nothing_more(late)


async def test_subscribing_again_replaces_the_subscription_even_in_mid_replay(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as late:
        await create(wire)
        await append(wire, "n1", "x" * 300_000)
        await append(wire, "n2", "x" * 300_000)
        with house.disk.hold("pread") as gate:
            await subscribe(late, after={"seq": 0})
            await arrived(gate)
            await subscribe(late, after={"seq": 1, "entry_id": "n1"}, bodies=False)
        assert await told(late, 2) == [("n2", 2), ("synced", 2)]
        await subscribe(late)
        await append(wire, "n3")
        assert await told(late, 1) == [("n3", 3)]
        await nothing_more(late)
        assert hub_of(daemon).subscribers == 1


async def test_unsubscribing_ends_the_events(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        await subscribe(wire)
        await wire.call("unsubscribe", session_id=SESSION)
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
            await subscribe(late, after={"seq": 0})
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
            await subscribe(late, after={"seq": 0})
            flush = await late.request("session/flush", session_id=SESSION)
            await arrived(gate)
            await late.call("unsubscribe", session_id=SESSION)
            with pytest.raises(Refusal) as refused:
                await late.answer(flush)
            assert refused.value.code == -32040


# -- what is wanted --------------------------------------------------------------------


async def test_a_subscription_may_ask_for_some_types_and_heads_and_for_no_bodies(
    house: House,
) -> None:
    async with (
        house.daemon() as daemon,
        daemon.connect() as wire,
        daemon.connect() as typed,
        daemon.connect() as headed,
        daemon.connect() as brief,
    ):
        await create_with(wire, "n1")
        wanted: list[tuple[Wire, dict[str, Any]]] = [
            (typed, {"types": ["label", "odd"]}),
            (headed, {"heads": ["side"]}),
            (brief, {"bodies": False}),
        ]
        for to, filters in wanted:
            await subscribe(to, **filters)
        await append(wire, "n2")
        await append(wire, "n3", head="side", parent_id="n1")
        await wire.call("session/label", session_id=SESSION, entry_id="n1", label="x")
        odd = {"type": "odd", "id": "n5", "field": 1}
        await wire.call("append", session_id=SESSION, entry=odd, head="side")
        label = (await wire.call("session/entries", session_id=SESSION, types=["label"]))["entries"]
        label_id = label[0]["entry"]["id"]
        lines: dict[str, list[tuple[str, int | str]]] = {
            "typed": [(label_id, 4), ("n5", 5)],
            "headed": [("n3", 3), (label_id, 4), ("n5", 5)],
            "brief": [("n2", 2), ("n3", 3), (label_id, 4), ("n5", 5)],
        }
        assert await told(typed, 2) == lines["typed"]
        assert await told(headed, 3) == lines["headed"]
        first = await brief.next_notification()
        assert first["params"]["entry"] == {"id": "n2", "type": "message", "parent_id": "n1"}
        assert (first["params"]["head"], first["params"]["leaf_id"]) == ("main", "n2")
        assert await told(brief, 3) == lines["brief"][1:]
        # The same by replay.
        for to, filters in wanted:
            await subscribe(to, after={"seq": 1, "entry_id": "n1"}, **filters)
        assert await told(typed, 3) == [*lines["typed"], ("synced", 5)]
        assert await told(headed, 4) == [*lines["headed"], ("synced", 5)]
        assert await told(brief, 5) == [*lines["brief"], ("synced", 5)]


async def test_what_is_not_wanted_is_passed_and_a_filtered_subscriber_resumes_behind_it(
    house: House,
) -> None:
    label: dict[str, Any] = {"session_id": SESSION, "entry_id": "n1", "label": "x"}
    async with (
        house.daemon() as daemon,
        daemon.connect() as wire,
        daemon.connect() as typed,
        daemon.connect() as headed,
    ):
        await create_with(wire, "n1", "n2", "n3")
        await append(wire, "s1", head="side", parent_id="n1")
        await append(wire, "n4")
        wanted = [(typed, {"types": ["label"]}), (headed, {"heads": ["side"]})]
        epoch = (await subscribe(wire))["epoch"]
        for to, filters in wanted:
            await subscribe(to, after={"seq": 0}, **filters)
        # Nothing of what was passed is shown, and yet the cursor is behind all of it.
        assert await told(typed, 1) == [("synced", 5)]
        assert await told(headed, 2) == [("s1", 4), ("synced", 5)]
        await wire.call("session/label", **label)
        await append(wire, "s2", head="side")
        for to, filters in wanted:
            flushed = await to.call("session/flush", session_id=SESSION)
            assert flushed["seq"] == 7
            to.notifications.clear()
            await subscribe(to, after={"seq": 5, "epoch": epoch}, **filters)
        (record,) = (await wire.call("session/entries", session_id=SESSION, types=["label"]))[
            "entries"
        ]
        label_id = record["entry"]["id"]
        assert await told(typed, 2) == [(label_id, 6), ("synced", 7)]
        assert await told(headed, 3) == [(label_id, 6), ("s2", 7), ("synced", 7)]
        for to, filters in wanted:
            await subscribe(to, after={"seq": 7, "epoch": epoch}, **filters)
            assert await told(to, 1) == [("synced", 7)]
        await append(wire, "n5")
        for to, _ in wanted:
            await nothing_more(to)
        await wire.call("session/branch", session_id=SESSION, head="side", drop=True)
        # Its end is the head's own last event.
        moved = await headed.next_notification()
        assert (moved["params"]["seq"], moved["params"]["head"]) == (9, "side")
        await nothing_more(typed)


async def test_an_entry_is_the_same_bytes_for_every_subscriber_and_every_replay(
    house: House,
) -> None:
    message = b'{"role" : "user", "zz": 1.50, "content":"\\u00e4\xc3\xa4\xe2\x80\xa8"}'
    body = (
        b'{"id":7,"method":"append","params":{"session_id":"session-a",'
        b'"entry":{"type":"message","id":"n1","message":' + message + b"}}}"
    )
    async with (
        house.daemon() as daemon,
        daemon.connect() as wire,
        daemon.connect() as one,
        daemon.connect(Framing.CONTENT_LENGTH) as other,
    ):
        await create(wire)
        await subscribe(one)
        await subscribe(other)
        await wire.send(body)
        live = [await one.receive(), await other.receive()]
        assert live[0] == live[1]
        assert message in live[0]
        await wire.call("subscribe", session_id=SESSION, after={"seq": 0})
        await wire.answer(7)
    async with house.daemon() as daemon, daemon.connect() as wire:
        await subscribe(wire, after={"seq": 0})
        replayed = await wire.receive()
        origin = live[0].index(b',"origin"')
        assert replayed == live[0][:origin] + b"}}"
        entry = replayed[replayed.index(b'"entry":') + 8 :]
        (path,) = house.session_files()
        line = house.disk.content(path).split(b"\n")[1]
        assert entry.startswith(line)


async def test_a_frame_is_made_once_per_framing_and_bodies_whatever_the_filters(
    house: House,
) -> None:
    async with (
        house.daemon() as daemon,
        daemon.connect() as wire,
        daemon.connect() as a,
        daemon.connect() as b,
        daemon.connect() as c,
        daemon.connect() as d,
        daemon.connect(Framing.CONTENT_LENGTH) as e,
        daemon.connect(Framing.CONTENT_LENGTH) as f,
    ):
        await create(wire)
        await subscribe(a)
        await subscribe(b)
        await subscribe(c, types=["message"])
        await subscribe(d, bodies=False)
        await subscribe(e)
        await subscribe(f, heads=["main"])
        await append(wire, "n1")
        statistics = hub_of(daemon)
        assert (statistics.events, statistics.frames_encoded) == (1, 3)
        frames = [json.loads(await to.receive()) for to in (a, b, c, e, f)]
        assert all(frame == frames[0] for frame in frames)
        # Nobody wants it: nothing is made.
        for to in (a, b, c, d, e, f):
            await subscribe(to, types=["label"])
        await append(wire, "n2")
        assert hub_of(daemon).frames_encoded == 3


async def test_origin_names_who_asked_in_live_events(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await wire.call("initialize", client_id="editor-1")
        await create(wire)
        await subscribe(other)
        number = await wire.request("append", session_id=SESSION, message={"role": "user"})
        event = await other.next_notification()
        assert event["params"]["origin"] == {"client_id": "editor-1", "request_id": number}


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        (b"1e400", b'"request_id":1e400'),
        (b"12345678901234567890123", b'"request_id":12345678901234567890123'),
        (b'"\\u00e9"', b'"request_id":"\\u00e9"'),
        (b"null", b'"origin":{}'),
        (b'"%s"' % (b"x" * 1000), b'"origin":{}'),
    ],
    ids=["over every double", "over 64 bits", "escaped", "null", "long"],
)
async def test_origin_has_the_id_as_it_was_sent_and_no_id_breaks_a_session(
    house: House, sent: bytes, told: bytes
) -> None:
    append = b'{"id":%s,"method":"append","params":{"session_id":"%s","message":{"role":"user"}}}'
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        await subscribe(wire)
        await wire.send(append % (sent, SESSION.encode()))
        assert told in await wire.receive()
        answer = await wire.receive()
        assert answer.startswith(b'{"jsonrpc":"2.0","id":%s,"result":' % sent)


# -- slow readers ------------------------------------------------------------------------


async def test_a_subscriber_that_does_not_read_costs_a_bound_and_loses_nothing(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = 64 * 1024
    set_limits(monkeypatch, OUTBOX_BYTES_MAX=limit)
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as stuck:
        await create(wire)
        await subscribe(stuck)
        await stuck.call("server/ping")
        listener = client_of(daemon, stuck).listener
        count, size = 60, 20_000
        for n in range(1, count + 1):
            # Every one is answered although nobody reads there.
            assert (await append(wire, f"n{n}", "x" * size))["seq"] == n
            assert listener.statistics().outbox.pending_bytes <= limit  # type: ignore[attr-defined]
        assert hub_of(daemon).demotions == 1
        assert hub_of(daemon).replaying == 1
        # For somebody who will be replayed no events are made.
        assert hub_of(daemon).events < count
        # An answer does not wait behind the replay for which there is no room.
        ping = await stuck.request("server/ping")
        seen = await _read_until(stuck, ("synced", count))
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
        assert await told(stuck, 1) == [("last", count + 1)]


async def _read_until(wire: Wire, end: tuple[str, int]) -> list[tuple[str, int | str]]:
    seen: list[tuple[str, int | str]] = []
    while not seen or seen[-1] != end:
        message = json.loads(await wire.receive())
        if "method" not in message:
            seen.append(("answer", message["id"]))
            continue
        word = message["method"].removeprefix("session/")
        name = message["params"]["entry"]["id"] if word == "event" else word
        seen.append((name, message["params"]["seq"]))
    return seen


def client_of(daemon: Daemon, _wire: Wire) -> Client:
    """Return the only client that subscribes."""
    clients = [client for client in daemon.service.clients if isinstance(client, Client)]
    (client,) = [client for client in clients if client.subscriptions]
    return client


async def test_one_frame_larger_than_the_outbox_is_still_delivered(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, OUTBOX_BYTES_MAX=1000)
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as reader:
        await create(wire)
        await subscribe(reader)
        for n in range(1, 4):
            await append(wire, f"n{n}", "x" * 5000)
        seen = [await told(reader, 1) for _ in range(3)]
        assert [event[0][0] for event in seen] == ["n1", "n2", "n3"]


# -- ends --------------------------------------------------------------------------------


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
            with anyio.fail_after(10):
                while len(daemon.service.clients) > 1:
                    await anyio.lowlevel.checkpoint()
        await append(wire, "n1")
        assert hub_of(daemon).subscribers == 0
        await wire.call("session/close", session_id=SESSION)
        assert daemon.service.find(SESSION) is None


async def test_a_replay_that_cannot_read_its_file_is_told_and_ends(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as late:
        await create_with(wire, "n1", "n2")
        house.disk.fail("pread")
        await subscribe(late, after={"seq": 0})
        assert await told(late, 1) == [("closed", "storage_error")]
        with pytest.raises(Refusal) as refused:
            await late.call("session/flush", session_id=SESSION)
        assert refused.value.code == -32040
        assert hub_of(daemon).subscribers == 0
        await subscribe(late, after={"seq": 0})
        assert await told(late, 3) == [("n1", 1), ("n2", 2), ("synced", 2)]


async def test_a_bug_in_a_writer_closes_its_session_and_tells_who_waits_and_watches(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as watcher:
        await create_with(wire, "n1")
        await subscribe(watcher)
        opened = daemon.service.actor(SESSION).opened
        monkeypatch.setattr(opened.session, "rules", None, raising=False)
        with pytest.raises(Refusal) as refused:
            await append(wire, "n2")
        assert refused.value.data == {
            "kind": "internal",
            "retryable": False,
            "incident_id": "incident-1",
        }
        assert await told(watcher, 1) == [("closed", "internal")]
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


async def test_the_event_of_a_dropped_head_is_not_that_of_a_reset_one_without_bodies_too(
    house: House,
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as brief:
        await create_with(wire, "n1")
        await wire.call("branch", session_id=SESSION, entry_id="n1", head="side")
        await subscribe(wire)
        await subscribe(brief, bodies=False)
        await wire.call("session/reset", session_id=SESSION, head="side")
        await wire.call("branch", session_id=SESSION, head="side", drop=True)
        for one in (wire, brief):
            reset, drop = [(await one.next_notification())["params"] for _ in range(2)]
            assert (reset["head"], reset["leaf_id"]) == ("side", None)
            assert "dropped" not in reset
            assert (drop["head"], drop["leaf_id"], drop["dropped"]) == ("side", None, True)
        # A replay says the same.
        await subscribe(brief, bodies=False, after={"seq": 0})
        told = [(await brief.next_notification())["params"] for _ in range(4)]
        assert [event.get("dropped") for event in told] == [None, None, None, True]


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
