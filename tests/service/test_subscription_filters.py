"""Filtered subscriptions, and what all subscribers of a session share."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessiond.rpc.framing import Framing
from sessiond.testing.daemon import Wire
from tests.kit.calls import append, create, create_with, events, never, watch
from tests.kit.house import House
from tests.kit.sessions import SESSION

pytestmark = pytest.mark.both_loops


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
            await watch(to, **filters)
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
        assert await events(typed, 2) == lines["typed"]
        assert await events(headed, 3) == lines["headed"]
        first = await brief.next_notification()
        assert first["params"]["entry"] == {"id": "n2", "type": "message", "parent_id": "n1"}
        assert (first["params"]["head"], first["params"]["leaf_id"]) == ("main", "n2")
        assert await events(brief, 3) == lines["brief"][1:]
        # The same by replay.
        for to, filters in wanted:
            await watch(to, after={"seq": 1, "entry_id": "n1"}, **filters)
        assert await events(typed, 3) == [*lines["typed"], ("synced", 5)]
        assert await events(headed, 4) == [*lines["headed"], ("synced", 5)]
        assert await events(brief, 5) == [*lines["brief"], ("synced", 5)]


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
        epoch = (await watch(wire))["epoch"]
        for to, filters in wanted:
            await watch(to, after={"seq": 0}, **filters)
        # Nothing of what was passed is shown, and yet the cursor is behind all of it.
        assert await events(typed, 1) == [("synced", 5)]
        assert await events(headed, 2) == [("s1", 4), ("synced", 5)]
        await wire.call("session/label", **label)
        await append(wire, "s2", head="side")
        for to, filters in wanted:
            flushed = await to.call("session/flush", session_id=SESSION)
            assert flushed["seq"] == 7
            to.notifications.clear()
            await watch(to, after={"seq": 5, "epoch": epoch}, **filters)
        (record,) = (await wire.call("session/entries", session_id=SESSION, types=["label"]))[
            "entries"
        ]
        label_id = record["entry"]["id"]
        assert await events(typed, 2) == [(label_id, 6), ("synced", 7)]
        assert await events(headed, 3) == [(label_id, 6), ("s2", 7), ("synced", 7)]
        for to, filters in wanted:
            await watch(to, after={"seq": 7, "epoch": epoch}, **filters)
            assert await events(to, 1) == [("synced", 7)]
        await append(wire, "n5")
        for to, _ in wanted:
            await never(to)
        await wire.call("session/branch", session_id=SESSION, head="side", drop=True)
        # Its end is the head's own last event.
        moved = await headed.next_notification()
        assert (moved["params"]["seq"], moved["params"]["head"]) == (9, "side")
        await never(typed)


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
        await watch(one)
        await watch(other)
        await wire.send(body)
        live = [await one.receive(), await other.receive()]
        assert live[0] == live[1]
        assert message in live[0]
        await wire.call("subscribe", session_id=SESSION, after={"seq": 0})
        await wire.answer(7)
    async with house.daemon() as daemon, daemon.connect() as wire:
        await watch(wire, after={"seq": 0})
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
        await watch(a)
        await watch(b)
        await watch(c, types=["message"])
        await watch(d, bodies=False)
        await watch(e)
        await watch(f, heads=["main"])
        await append(wire, "n1")
        statistics = daemon.service.actor(SESSION).statistics().hub
        assert (statistics.events, statistics.frames_encoded) == (1, 3)
        frames = [json.loads(await to.receive()) for to in (a, b, c, e, f)]
        assert all(frame == frames[0] for frame in frames)
        # Nobody wants it: nothing is made.
        for to in (a, b, c, d, e, f):
            await watch(to, types=["label"])
        await append(wire, "n2")
        assert daemon.service.actor(SESSION).statistics().hub.frames_encoded == 3


async def test_origin_names_who_asked_in_live_events(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await wire.call("initialize", client_id="editor-1")
        await create(wire)
        await watch(other)
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
        await watch(wire)
        await wire.send(append % (sent, SESSION.encode()))
        assert told in await wire.receive()
        answer = await wire.receive()
        assert answer.startswith(b'{"jsonrpc":"2.0","id":%s,"result":' % sent)


async def test_the_event_of_a_dropped_head_is_not_that_of_a_reset_one_without_bodies_too(
    house: House,
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as brief:
        await create_with(wire, "n1")
        await wire.call("branch", session_id=SESSION, entry_id="n1", head="side")
        await watch(wire)
        await watch(brief, bodies=False)
        await wire.call("session/reset", session_id=SESSION, head="side")
        await wire.call("branch", session_id=SESSION, head="side", drop=True)
        for one in (wire, brief):
            reset, drop = [(await one.next_notification())["params"] for _ in range(2)]
            assert (reset["head"], reset["leaf_id"]) == ("side", None)
            assert "dropped" not in reset
            assert (drop["head"], drop["leaf_id"], drop["dropped"]) == ("side", None, True)
        # A replay says the same.
        await watch(brief, bodies=False, after={"seq": 0})
        told = [(await brief.next_notification())["params"] for _ in range(4)]
        assert [event.get("dropped") for event in told] == [None, None, None, True]
