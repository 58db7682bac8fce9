"""Reads of a session while an append to it waits for a database that is silent."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
import pytest

from sessiond.service.actor import actor
from sessiond.testing.wire import Wire
from tests.kit.calls import append, call, create, refused, refused_answer
from tests.kit.patience import eventually, happened
from tests.kit.sessions import SESSION
from tests.service.one_database.calls import told
from tests.service.one_database.connections import OUT_OF_REACH, Held
from tests.service.one_database.site import NEVER, Site

READS = {
    "session/get": {},
    "session/entries": {},
    "session/heads": {},
    "session/build_context": {},
    "session/subscribe": {"after": {"seq": 0}},
}


class Patience:
    """The time for which a read waits, which a test lets pass."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.waiting = 0
        self.is_over = anyio.Event()
        monkeypatch.setattr(actor, "sleep", self._sleep)

    async def _sleep(self, _seconds: float) -> None:
        self.waiting += 1
        try:
            await self.is_over.wait()
        finally:
            self.waiting -= 1


def refuse(*_args: object, **_options: object) -> None:
    raise OUT_OF_REACH


@asynccontextmanager
async def silent(site: Site, count: int) -> AsyncGenerator[tuple[Held, list[Wire]]]:
    """Yield a connection that holds the append of the first client, and so many clients of one daemon."""
    connection = Held(site.connect())
    async with AsyncExitStack() as ends:
        daemon = await ends.enter_async_context(site.daemon("one", connection, NEVER))
        wires = [await ends.enter_async_context(daemon.connect()) for _ in range(count)]
        await create(wires[0], persist="immediate")
        await append(wires[0], "e-1")
        await site.watches(one=wires[0])
        connection.holds = "append"
        try:
            yield connection, wires
        finally:
            connection.may_go.set()


async def begin_append(wire: Wire, entry_id: str) -> int:
    """Send an append, and return its number."""
    entry = {"type": "message", "id": entry_id, "message": {"role": "user", "content": "hi"}}
    return await wire.request("append", session_id=SESSION, entry=entry)


async def test_reads_do_not_wait_for_an_append_that_the_database_does_not_answer(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    patience = Patience(monkeypatch)
    async with silent(site, 3) as (connection, (one, two, three)):
        appending = await begin_append(one, "e-2")
        await happened(connection.has_begun)
        own = await one.request("session/get", session_id=SESSION)
        patience.is_over.set()
        for method, params in READS.items():
            assert "stale_since" in (await call(two, method, **params))["_meta"], method
        assert await call(two, "session/get", "session.seq") == 1
        # What only the database can tell is no answer.
        assert await refused(three, "session/entry", entry_id="e-2") == "storage_error"
        connection.may_go.set()
        # A client sees its own append.
        assert (await one.answer(appending))["seq"] == 2
        assert (await one.answer(own))["session"]["seq"] == 2
        assert "_meta" not in await call(three, "session/get")
        assert await told(two, 2) == [(1, "e-1"), (2, "e-2")]


@pytest.mark.parametrize("is_refused", [False, True])
async def test_a_read_that_was_taken_with_an_append_is_answered_once(
    site: Site, monkeypatch: pytest.MonkeyPatch, is_refused: bool
) -> None:
    patience = Patience(monkeypatch)
    async with silent(site, 3) as (connection, (one, two, three)):
        first = await begin_append(one, "e-2")
        await happened(connection.has_begun)
        # The next batch begins with an append, and has a read.
        second = await begin_append(two, "e-3")
        # Requests of a connection are taken in their order.
        await call(two, "server/ping")
        read = await three.request("session/get", session_id=SESSION)
        await eventually(lambda: patience.waiting == 1)
        before, connection.may_go = connection.may_go, threading.Event()
        connection.has_begun.clear()
        connection.holds = "append"
        before.set()
        assert (await one.answer(first))["seq"] == 2
        await happened(connection.has_begun)
        patience.is_over.set()
        found = await three.answer(read)
        assert (found["session"]["seq"], "stale_since" in found["_meta"]) == (2, True)
        if is_refused:
            monkeypatch.setattr(connection.inner, "append", refuse)
        connection.may_go.set()
        if is_refused:
            assert await refused_answer(two, second) == "storage_error"
        else:
            assert (await two.answer(second))["seq"] == 3
        # One more answer to the read would come first.
        assert await call(three, "session/get", "session.seq") == 2 + (not is_refused)


async def test_a_read_that_the_database_answers_waits_for_no_time(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    patience = Patience(monkeypatch)
    async with silent(site, 2) as (connection, (one, two)):
        appending = await begin_append(one, "e-2")
        await happened(connection.has_begun)
        read = await two.request("session/get", session_id=SESSION)
        await eventually(lambda: patience.waiting == 1)
        connection.may_go.set()
        assert (await one.answer(appending))["seq"] == 2
        found = await two.answer(read)
        assert (found["session"]["seq"], "_meta" in found) == (2, False)
        # The end of a connection does not wait for the read, either.
        await eventually(lambda: patience.waiting == 0)
