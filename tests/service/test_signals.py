"""Signals and presence: sent in order to all subscribers, stored nowhere, never in the way."""

from __future__ import annotations

from itertools import product
from typing import Any

import anyio.lowlevel
import msgspec
import pytest

from sessiond.limits import IDLE_SESSION_SECONDS, PRESENCE_BYTES_MAX, SIGNAL_BYTES_MAX
from sessiond.rpc.framing import Framing
from sessiond.testing.daemon import Wire
from sessiond.transports.connection import Connection
from tests.kit.calls import append, call, create, refused, watch
from tests.kit.house import House, arrived
from tests.kit.limits import set_limits
from tests.kit.sessions import SESSION, entry

pytestmark = pytest.mark.both_loops

# The lifecycle of sharur's agents, written down a second time.
FOLLOWING = {
    "idle": {"thinking", "executing", "compacting"},
    "thinking": {"executing", "idle", "aborting", "error", "compacting"},
    "executing": {"thinking", "idle", "aborting", "error", "compacting"},
    "compacting": {"idle", "thinking", "executing", "aborting", "error"},
    "aborting": {"idle"},
    "error": {"idle"},
}

PRESENT = "clients[].state"
"""The states of the clients that an answer of session/presence has."""

# Contexts get large here, and a session/compaction about one comes when the clock says so.
QUIET = {"enabled": False}


async def next_told(wire: Wire) -> Any:
    """Return the next notification in short: an entry's id, a signal's kind, the present states."""
    message = await wire.next_notification()
    params = message["params"]
    match message["method"]:
        case "session/event":
            return params["entry"]["id"]
        case "session/signal":
            return params["kind"]
        case "session/presence":
            return [one["state"] for one in params["clients"]]
        case "session/lagged":
            return ("lagged", params["dropped_signals"])
        case method:
            return method


# -- order -------------------------------------------------------------------------------


async def test_an_abort_reaches_the_agent_at_once_with_who_sent_it(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as agent, daemon.connect() as editor:
        await create(agent, compaction=QUIET)
        await watch(agent)
        lease = await call(agent, "session/acquire", ttl_ms=60_000)
        await editor.call("initialize", client_id="editor-1")
        # The head is leased, and an abort needs no lease.
        await call(editor, "session/signal", kind="abort", data={"reason": "wrong file"})
        told = await agent.next_notification()
        assert (told["method"], told["params"]["kind"]) == ("session/signal", "abort")
        assert told["params"]["data"] == {"reason": "wrong file"}
        assert told["params"]["origin"]["client_id"] == "editor-1"
        await call(agent, "session/release", lease_id=lease["lease_id"])


@pytest.mark.parametrize("persist", ["immediate", "never"])
async def test_signals_and_entries_of_one_connection_arrive_as_they_were_sent(
    house: House, persist: str
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await create(wire, persist=persist)
        await watch(other)
        sent, bodies = [], []
        for n in range(40):
            if n % 3:
                sent.append(f"delta-{n}")
                method = "session/signal"
                params: dict[str, Any] = {"kind": sent[-1], "data": n}
            else:
                sent.append(f"n{n}")
                method, params = "append", {"entry": entry(sent[-1])}
            params["session_id"] = SESSION
            bodies.append({"id": n, "method": method, "params": params})
        await wire.send(*bodies)
        assert [await next_told(other) for _ in sent] == sent


async def test_whoever_sends_and_watches_gets_it_before_the_answer(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, compaction=QUIET)
        await watch(wire)
        await call(wire, "session/signal", kind="delta")
        assert [one["method"] for one in wire.notifications] == ["session/signal"]


async def test_data_travels_as_the_bytes_it_was_sent_as_in_every_framing(house: House) -> None:
    async with (
        house.daemon() as daemon,
        daemon.connect(Framing.CONTENT_LENGTH) as wire,
        daemon.connect() as lines,
        daemon.connect(Framing.CONTENT_LENGTH) as framed,
    ):
        await create(wire, compaction=QUIET)
        for to in (lines, framed):
            await watch(to)
        data = b'{"z":1.50,\n"a":"\\u00e9\xc3\xa9","n":123456789012345678901}'
        await wire.send(
            b'{"id":"x","method":"session/signal","params":{"session_id":"session-a","kind":"k","data":%s}}'
            % data
        )
        assert data in await framed.receive()
        # A newline between tokens would be the end of the line.
        assert data.replace(b"\n", b" ") in await lines.receive()


async def test_it_leaves_no_trace_in_the_file_and_no_seq(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, compaction=QUIET)
        await call(wire, "session/signal", kind="delta", data="x")
        await call(wire, "session/presence", state="thinking")
        await append(wire, "n1")
    assert [line["type"] for line in house.stored()] == ["session_header", "message"]


# -- under pressure ----------------------------------------------------------------------


def accounted(told: list[Any]) -> int:
    """Return how many signals a subscriber got or knows to be dropped."""
    got = [one for one in told if isinstance(one, str) and one.startswith("delta-")]
    dropped: list[int] = [one[1] for one in told if isinstance(one, tuple)]
    return len(got) + sum(dropped)


@pytest.mark.parametrize("entries", [True, False], ids=["with entries", "signals alone"])
async def test_a_stuck_subscriber_misses_signals_knows_how_many_and_has_every_entry(
    house: House, monkeypatch: pytest.MonkeyPatch, entries: bool
) -> None:
    limit = 64 * 1024
    set_limits(monkeypatch, OUTBOX_BYTES_MAX=limit)
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as stuck:
        await create(wire, compaction=QUIET)
        await watch(stuck)
        (client,) = [one for one in daemon.clients if one.subscriptions]
        connection = client.listener
        assert isinstance(connection, Connection)
        sent = []
        for n in range(120):
            sent.append(f"delta-{n}")
            await call(wire, "session/signal", kind=sent[-1], data="x" * 8_000)
            if entries:
                await append(wire, f"n{n}", "y" * 8_000)
            assert connection.statistics().outbox.pending_bytes <= limit
        assert daemon.service.actor(SESSION).statistics().hub.replaying == 1
        told: list[Any] = []
        stored = [f"n{n}" for n in range(120)] if entries else ["session/synced"]
        while accounted(told) < len(sent) or stored[-1] not in told or told[-1] != "session/synced":
            told.append(await next_told(stuck))
        assert accounted(told) == len(sent)
        await call(wire, "session/signal", kind="live again")
        assert await next_told(stuck) == "live again"
        words = [one for one in told if isinstance(one, str)]
        got = [word for word in words if word.startswith("delta-")]
        # What it got is the beginning; of the rest it knows how much it was.
        assert got == sent[: len(got)]
        assert len(got) < len(sent)
        lags = [one for one in told if isinstance(one, tuple)]
        assert words.count("session/synced") == len(lags)
        if entries:
            assert [word for word in words if word.startswith("n")] == stored


async def test_signals_that_pass_during_a_replay_are_counted_behind_it(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as late:
        await create(wire, compaction=QUIET)
        await append(wire, "n1", "x" * 100_000)
        with house.disk.hold("pread"):
            await watch(late, after={"seq": 0})
            await call(wire, "session/signal", kind="missed")
            await call(wire, "session/signal", kind="missed too")
            await call(wire, "session/presence", state="thinking")
        told = [await next_told(late) for _ in range(5)]
        assert told == ["n1", "session/synced", ("lagged", 2), "session/synced", ["thinking"]]
        await call(wire, "session/signal", kind="heard")
        assert await next_told(late) == "heard"


async def test_who_was_stuck_learns_who_is_present_in_the_end(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, OUTBOX_BYTES_MAX=8 * 1024)
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as stuck:
        await create(wire, compaction=QUIET)
        await watch(stuck)
        while not daemon.service.actor(SESSION).statistics().hub.replaying:
            await call(wire, "session/signal", kind="delta", data="x" * 4_000)
        for n in range(100):
            await call(wire, "session/presence", state=f"step {n}", data="x" * 1_000)
        told: list[Any] = []
        while not told or told[-1] != ["step 99"]:
            told.append(await next_told(stuck))
        # Told as a whole, so the steps between are no loss.
        assert [one for one in told if isinstance(one, list)] == [["step 99"]]


# -- presence ----------------------------------------------------------------------------


async def test_presence_ends_with_its_connection_and_with_close(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, compaction=QUIET)
        await watch(wire)
        async with daemon.connect() as agent:
            await agent.call("initialize", client_id="a-1", client_info={"name": "n" * 1_000})
            await call(agent, "session/presence", state="thinking", head="main")
            message = await wire.next_notification()
            (one,) = message["params"]["clients"]
            assert (one["client_id"], one["access"], one["head"]) == ("a-1", "write", "main")
            assert one["name"] == "n" * 128
        assert await next_told(wire) == []
        assert await call(wire, "session/presence", PRESENT, state="watching") == ["watching"]
        assert await next_told(wire) == ["watching"]
        await call(wire, "session/close")
        assert await call(wire, "session/presence", PRESENT) == []


async def test_the_time_is_that_of_the_state_and_only_news_is_told(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, compaction=QUIET)
        await watch(wire)
        minutes = iter(range(10, 60))
        clock = msgspec.structs.replace(
            daemon.service.environment, now=lambda: f"2026-01-15T10:{next(minutes)}:00.000Z"
        )
        monkeypatch.setattr(daemon.service, "environment", clock)
        for state, data in (("a", 1), ("a", 2), ("a", 2), ("b", 2)):
            await call(wire, "session/presence", state=state, data=data)
        told = [one["params"]["clients"][0] for one in wire.notifications]
        assert [(one["state"], one["data"], one["since"][11:16]) for one in told] == [
            ("a", 1, "10:10"),
            ("a", 2, "10:10"),
            ("b", 2, "10:13"),
        ]


async def test_a_checked_state_follows_the_table(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, compaction=QUIET)
        for before, after in product([None, *FOLLOWING], FOLLOWING):
            await call(wire, "session/presence", state=before)
            start = before or "idle"
            if after == start or after in FOLLOWING[start]:
                checked = {"state": after, "check": True}
                assert await call(wire, "session/presence", PRESENT, **checked) == [after]
                continue
            data = await refused(wire, "session/presence", "", state=after, check=True)
            assert (data["kind"], data["path"], data["state"]) == (
                "invalid_params",
                "state",
                start,
            )
            assert set(data["allowed"]) == FOLLOWING[start]
            assert await call(wire, "session/presence", PRESENT) == [before][: before is not None]


@pytest.mark.parametrize(("before", "after"), [("typing", "idle"), ("idle", "typing")])
async def test_a_state_without_a_place_in_the_table_cannot_be_checked(
    house: House, before: str, after: str
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, compaction=QUIET)
        await call(wire, "session/presence", state=before)
        data = await refused(wire, "session/presence", "", state=after, check=True)
        assert (data["kind"], data["path"]) == ("invalid_params", "state")
        assert set(data["allowed"]) == set(FOLLOWING)
        assert await call(wire, "session/presence", PRESENT) == [before]


async def test_subscribers_learn_why_a_client_came_and_why_the_client_leaves(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as agent:
        await create(wire, compaction=QUIET)
        await watch(wire)
        await agent.call("initialize", client_id="a-1", client_info={"name": "coder"})
        for params in (
            {"state": "idle", "reason": "resume"},
            {"state": "thinking"},
            {"state": None, "reason": "quit"},
            {"state": "idle"},
            {"state": None},
            {"state": None, "reason": "quit"},
        ):
            await call(agent, "session/presence", **params)
        told = [(await wire.next_notification())["params"] for _ in range(5)]
        assert [[one.get("reason") for one in each["clients"]] for each in told] == [
            ["resume"],
            ["resume"],
            [],
            [None],
            [],
        ]
        left = {"reason": "quit", "client_id": "a-1", "name": "coder"}
        assert [each.get("left") for each in told] == [None, None, left, None, None]
        assert wire.notifications == []


async def test_a_session_stays_open_while_somebody_is_present(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:

        def still_open() -> bool:
            house.seconds += IDLE_SESSION_SECONDS + 1
            daemon.service.unload_idle()
            return daemon.service.find(SESSION) is not None

        await create(wire, compaction=QUIET)
        await call(wire, "session/presence", state="thinking")
        assert still_open()
        await call(wire, "session/presence", state=None)
        assert not still_open()


async def test_nobody_is_present_who_left_while_the_session_was_being_opened(
    house: House,
) -> None:
    house.put([entry("n1")])
    async with house.daemon() as daemon, daemon.connect() as wire:
        async with daemon.connect() as gone:
            with house.disk.hold("pread") as gate:
                await gone.request("session/presence", session_id=SESSION, state="thinking")
                await arrived(gate)
                # An answer that nobody takes is how the daemon learns of it.
                await gone.request("server/ping")
                gone.close()
                while len(daemon.service.clients) > 1:
                    await anyio.lowlevel.checkpoint()
        assert await call(wire, "session/presence", PRESENT) == []


# -- bounds ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "params", "limit"),
    [
        ("session/signal", {"kind": "delta"}, SIGNAL_BYTES_MAX),
        ("session/presence", {"state": "typing"}, PRESENCE_BYTES_MAX),
    ],
)
async def test_data_is_bounded(
    house: House, method: str, params: dict[str, Any], limit: int
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, compaction=QUIET)
        fits = "x" * (limit - 2)
        await call(wire, method, data=fits, **params)
        told = await refused(wire, method, "{kind,limit}", data=fits + "x", **params)
        assert told == ("too_large", limit)


async def test_a_session_has_so_many_present_and_no_more(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, PRESENT_CLIENTS_MAX=1)
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await create(wire, compaction=QUIET)
        await call(wire, "session/presence", state="first")
        told = await refused(other, "session/presence", "{kind,limit}", state="second")
        assert told == ("overloaded", 1)
        # Who is present may change, and makes room by leaving.
        assert await call(wire, "session/presence", PRESENT, state="still first") == ["still first"]
        await call(wire, "session/presence", state=None)
        assert await call(other, "session/presence", PRESENT, state="second") == ["second"]
