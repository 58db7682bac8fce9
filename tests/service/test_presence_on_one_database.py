"""Presence at daemons that keep their sessions in one database: one list, without those that are gone."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
from anyio import fail_after, to_thread

from sessiond.testing.wire import Wire
from tests.kit.calls import append, call, create, watch
from tests.kit.limits import set_limits
from tests.kit.patience import PATIENCE_SECONDS, eventually
from tests.kit.sessions import SESSION
from tests.service.one_database.connections import Hearing, Severed
from tests.service.one_database.site import Site, clients_of

pytestmark = [pytest.mark.usefixtures("clock")]

STATES = "clients[].state"


async def is_shown(wire: Wire) -> bool:
    """Return whether one client is present, and thinks."""
    found: list[str] = await call(wire, "session/presence", STATES)
    return found == ["thinking"]


async def told(wire: Wire) -> Any:
    """Return the states of the next notification of presence, and who left."""
    message = await wire.next_notification()
    assert message["method"] == "session/presence", message
    params = message["params"]
    states = [one["state"] for one in params["clients"]]
    return (states, params["left"]) if "left" in params else states


async def is_stored(site: Site) -> bool:
    """Return whether the database has one sender of the session, and has it as open."""
    return await to_thread.run_sync(senders_of, site) == [True]


@asynccontextmanager
async def watched(site: Site, *names: str) -> AsyncGenerator[list[Wire]]:
    """Yield a subscriber of a daemon for each name."""
    async with clients_of(site, *names) as wires:
        await create(wires[0], persist="immediate")
        for wire in wires:
            await watch(wire)
        yield wires


async def test_the_clients_of_two_daemons_are_one_list(site: Site) -> None:
    async with watched(site, "one", "three") as (one, three):
        await one.call("initialize", client_id="agent-7", client_info={"name": "coder"})
        await call(
            one,
            "session/presence",
            state="thinking",
            head="main",
            data={"turn": 3},
            reason="resume",
        )
        assert [await told(wire) for wire in (one, three)] == [["thinking"]] * 2
        assert await call(three, "session/presence", STATES, state="watching") == [
            "thinking",
            "watching",
        ]
        assert [await told(wire) for wire in (one, three)] == [["thinking", "watching"]] * 2
        assert await call(one, "session/presence", STATES) == ["thinking", "watching"]
        (agent, _) = (await call(three, "session/presence"))["clients"]
        assert agent == {
            "access": "write",
            "state": "thinking",
            "since": agent["since"],
            "client_id": "agent-7",
            "name": "coder",
            "head": "main",
            "reason": "resume",
            "data": {"turn": 3},
        }
        await call(one, "session/presence", state="idle")
        assert await told(three) == ["idle", "watching"]
        # A new subscriber finds them in its answer.
        again = await watch(three)
        assert [client["state"] for client in again["clients"]] == ["idle", "watching"]


async def test_presence_and_why_it_ends_are_told_at_another_daemon(site: Site) -> None:
    async with watched(site, "one", "three") as (one, three):
        await one.call("initialize", client_id="agent-7")
        await call(one, "session/presence", state="thinking")
        assert await told(three) == ["thinking"]
        await call(one, "session/presence", state=None, reason="quit")
        assert await told(three) == ([], {"reason": "quit", "client_id": "agent-7"})
        await call(one, "session/presence", state="typing")
        assert await told(three) == ["typing"]


async def test_presence_ends_with_its_connection_at_every_daemon(site: Site) -> None:
    async with site.daemon("one") as first, watched(site, "three") as (three,):
        async with first.connect() as one:
            await call(one, "session/presence", state="thinking")
            assert await told(three) == ["thinking"]
        assert await told(three) == []
        assert await call(three, "session/presence", STATES) == []


async def test_presence_ends_with_its_daemon(site: Site) -> None:
    async with (
        watched(site, "three") as (three,),
        site.daemon("one") as first,
        first.connect() as one,
    ):
        await call(one, "session/presence", state="thinking")
        assert await told(three) == ["thinking"]
        await first.end()
        assert await told(three) == []


async def test_presence_at_a_silent_daemon_ends_and_comes_back_with_the_daemon(site: Site) -> None:
    connection, hearing = Severed(site.connect()), Hearing(site.connect())
    async with (
        site.daemon("one", connection) as first,
        site.daemon("three", hearing, silence=hearing.silence) as second,
        first.connect() as one,
        second.connect() as three,
    ):
        with fail_after(PATIENCE_SECONDS):
            await create(one, persist="immediate")
            await watch(three)
            await call(one, "session/presence", state="thinking")
            assert await told(three) == ["thinking"]
            # Its beats tell that the daemon is there.
            await hearing.let_pass()
            assert await call(three, "session/presence", STATES) == ["thinking"]
            connection.is_there, hearing.runs = False, True
            assert await told(three) == []
            assert await call(three, "session/presence", STATES) == []
            # Its own clients see it as before.
            assert await call(one, "session/presence", STATES) == ["thinking"]
            connection.is_there, hearing.runs = True, False
            while await told(three) != ["thinking"]:
                pass
            assert await call(three, "session/presence", STATES) == ["thinking"]


async def test_a_daemon_that_begins_drops_presence_that_a_dead_daemon_left(site: Site) -> None:
    connection, hearing = Severed(site.connect()), Hearing(site.connect())
    async with site.daemon("one", connection) as first, first.connect() as one:
        await create(one, persist="immediate")
        await call(one, "session/presence", state="thinking")
        await append(one, "e-1")
        await eventually(partial(is_stored, site))
        # Killed: it ends nothing in the database.
        connection.is_there = False
        async with (
            site.daemon("three", hearing, silence=hearing.silence) as second,
            second.connect() as three,
        ):
            with fail_after(PATIENCE_SECONDS):
                assert (await watch(three))["clients"] != []
                hearing.runs = True
                assert await told(three) == []
        assert await to_thread.run_sync(senders_of, site) == [False]


def senders_of(site: Site) -> list[bool]:
    """Return for each sender of the session whether the database has it as open."""
    connection = site.connect()
    try:
        head = connection.find(SESSION)
        assert head is not None
        return [sender.is_open for sender in head.senders or ()]
    finally:
        connection.close()


async def test_presence_stays_and_comes_back_where_a_crash_emptied_the_tables(site: Site) -> None:
    async with watched(site, "one", "three") as (one, three):
        await call(one, "session/presence", state="thinking")
        assert await told(three) == ["thinking"]
        site.empty_company()
        await eventually(partial(is_stored, site))
        async with clients_of(site, "four") as (four,):
            assert await call(four, "session/presence", STATES) == ["thinking"]
        # No client was told of a change, since there was none.
        await call(one, "session/presence", state="idle")
        assert await told(three) == ["idle"]


async def test_presence_at_a_daemon_that_a_crash_has_ended_too_ends(site: Site) -> None:
    connection, hearing = Severed(site.connect()), Hearing(site.connect())
    async with (
        site.daemon("one", connection) as first,
        site.daemon("three", hearing, silence=hearing.silence) as second,
        first.connect() as one,
        second.connect() as three,
    ):
        with fail_after(PATIENCE_SECONDS):
            await create(one, persist="immediate")
            await watch(three)
            await call(one, "session/presence", state="thinking")
            assert await told(three) == ["thinking"]
            connection.is_there, hearing.runs = False, True
            site.empty_company()
            assert await told(three) == []
            assert await call(three, "session/presence", STATES) == []


async def test_the_limit_of_present_clients_is_that_of_all_daemons(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, PRESENT_CLIENTS_MAX=1)
    async with watched(site, "one", "three") as (one, three):
        await call(one, "session/presence", state="thinking")
        assert await told(three) == ["thinking"]
        refusal = await three.refusal("session/presence", session_id=SESSION, state="watching")
        assert (refusal.data["kind"], refusal.data["limit"]) == ("overloaded", 1)
        await call(one, "session/presence", state=None)
        assert await told(three) == []
        assert await call(three, "session/presence", STATES, state="watching") == ["watching"]


async def test_presence_elsewhere_keeps_no_session_open(site: Site) -> None:
    async with (
        site.daemon("one") as first,
        site.daemon("three") as second,
        first.connect() as one,
        second.connect() as three,
    ):
        with fail_after(PATIENCE_SECONDS):
            await create(one, persist="immediate")
            await call(one, "session/presence", state="thinking")
            await eventually(partial(is_shown, three))
            registry = second.service.registry
            actor = registry.find(SESSION)
            assert actor is not None
            assert actor.can_unload
            registry.unload_unused(actor)
            await actor.released.wait()
            await eventually(partial(is_shown, three))


async def test_presence_goes_with_a_session_out_of_memory(site: Site) -> None:
    async with clients_of(site, "one", "three") as (one, three):
        await create(one, persist="never")
        await call(one, "session/presence", state="thinking")
        await call(one, "session/update", persist="immediate")
        await eventually(partial(is_shown, three))


async def test_presence_of_here_is_told_while_the_database_is_away(site: Site) -> None:
    connection = Severed(site.connect())
    async with (
        site.daemon("one", connection) as first,
        clients_of(site, "three") as (three,),
        first.connect() as one,
        first.connect() as another,
    ):
        await create(one, persist="immediate")
        for wire in (another, three):
            await watch(wire)
        connection.is_there = False
        await call(one, "session/presence", state="thinking")
        assert await told(another) == ["thinking"]
        assert await call(three, "session/presence", STATES) == []
        connection.is_there = True
        while await told(three) != ["thinking"]:
            pass
