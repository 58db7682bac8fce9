"""Sessions that come out of memory into a database, and openings that meet changes by other daemons."""

from __future__ import annotations

import errno
import threading
from collections.abc import Generator
from functools import partial
from typing import Any

import pytest
from anyio import create_task_group, fail_after, to_thread

from sessiond.journal.spool import Spool
from sessiond.service.database.doorbell import Doorbell
from sessiond.testing.wire import Wire
from tests.kit.calls import append, call, create_with, refused, say
from tests.kit.patience import PATIENCE_SECONDS, eventually, happened
from tests.kit.sessions import HI, SESSION
from tests.service.one_database.calls import TTL_MS
from tests.service.one_database.connections import OUT_OF_REACH, Wrapped
from tests.service.one_database.site import NEVER, Site, beside, clients_of
from tests.service.test_lists_on_one_database import Asked
from tests.service.test_whole_sessions_on_one_database import Together

IDS = ("session/entries", "entries[].entry.id")
"""A method, and the part of its answer that has the ids of all entries."""


async def test_a_session_that_leaves_the_memory_is_not_read_back(site: Site) -> None:
    connection = Asked(site)
    async with beside(site, connection) as (one, three):
        await create_with(one, "e-1", persist="never")
        await call(one, "session/update", persist="immediate", title="A title")
        assert connection.calls["lines"] == 0
        await append(three, "e-2")
        assert await call(one, *IDS) == await call(three, *IDS)
        assert (await call(one, *IDS))[0] == "e-1"
        assert await call(three, "session/get", "session.title") == "A title"


async def test_a_copy_that_fails_leaves_nothing_in_the_database(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with clients_of(site, "one", "three") as (one, three):
        await create_with(one, "e-1", persist="never")

        def full(*_: Any) -> None:
            raise OSError(errno.ENOSPC, "the disk is full")

        with monkeypatch.context() as disk:
            disk.setattr(Spool, "add", full)
            assert await refused(one, "session/update", persist="immediate") == "storage_error"
        assert await refused(three, "session/get") == "session_not_found"
        assert await call(three, "session/trash", "sessions") == []
        assert not await call(one, "session/get", "session.persisted")
        await append(one, "e-2")
        await call(one, "session/update", persist="immediate")
        assert await call(three, *IDS) == ["e-1", "e-2"]
        assert await call(three, "session/trash", "sessions") == []


class Lost(Wrapped):
    """A connection that ends behind the creation of a session, before the answer."""

    loses = True
    answers_again = True

    def create(self, *args: Any, **options: Any) -> Any:
        head = self.inner.create(*args, **options)
        if self.loses:
            self.loses = False
            raise OUT_OF_REACH
        return head

    def find(self, session_id: str) -> Any:
        if not (self.loses or self.answers_again):
            raise OUT_OF_REACH
        return self.inner.find(session_id)


async def test_a_promotion_whose_answer_was_lost_is_found_again(site: Site) -> None:
    connection = Lost(site.connect())
    async with beside(site, connection) as (one, three):
        await create_with(one, "e-1", persist="never")
        assert await call(one, "session/update", "session.persisted", persist="immediate")
        await append(one, "e-2")
        assert await call(three, *IDS) == ["e-1", "e-2"]


@pytest.mark.parametrize("is_used", [False, True], ids=["untouched", "used by another daemon"])
async def test_a_promotion_of_unknown_outcome_is_repeated_without_a_second_session(
    site: Site, is_used: bool
) -> None:
    connection = Lost(site.connect())
    async with beside(site, connection) as (one, three):
        await create_with(one, "e-1", persist="never")
        await call(one, "session/acquire", ttl_ms=TTL_MS, head="side")
        connection.answers_again = False
        assert await refused(one, "session/update", persist="immediate") == "storage_error"
        connection.answers_again = True
        # The session goes on in memory.
        await append(one, "e-2")
        lease = await call(one, "session/acquire", "lease_id", ttl_ms=TTL_MS)
        if is_used:
            await append(three, "e-of-three")
            assert await refused(one, "session/update", persist="immediate") == "session_exists"
            assert await call(one, *IDS) == ["e-1", "e-2"]
            assert await call(three, *IDS) == ["e-1", "e-of-three"]
            return
        await call(one, "session/update", persist="immediate")
        assert await call(three, *IDS) == ["e-1", "e-2"]
        assert await refused(three, "append", message=HI) == "lease_held"
        await say(three, "under the lease", lease_id=lease)


@pytest.mark.parametrize("carried", ["a line", "a line and leases", "other lines"])
async def test_a_promotion_of_unknown_outcome_that_carries_a_line_is_repeated(
    site: Site, carried: str
) -> None:
    connection = Lost(site.connect())
    async with beside(site, connection) as (one, three):
        await create_with(one, "e-1", persist="never")
        if carried == "a line and leases":
            await call(one, "session/acquire", ttl_ms=TTL_MS, head="side")
        connection.answers_again = False
        asked = {"persist": "immediate", "title": "A title"}
        assert await refused(one, "session/update", **asked) == "storage_error"
        connection.answers_again = True
        if carried == "other lines":
            await append(one, "e-2")
        await call(one, "session/update", persist="immediate", title="Another title")
        assert await call(three, *IDS) == await call(one, *IDS)
        info = await call(three, "session/get", "session")
        assert (info["title"], info["persisted"]) == ("Another title", True)
        await append(three, "e-3")
        assert await call(one, *IDS) == await call(three, *IDS)


@pytest.mark.parametrize("change", ["append", "lease", "archive"])
async def test_a_promotion_of_unknown_outcome_takes_nothing_from_another_daemon(
    site: Site, change: str
) -> None:
    connection = Lost(site.connect())
    async with beside(site, connection) as (one, three):
        await create_with(one, "e-1", persist="never")
        connection.answers_again = False
        asked = {"persist": "immediate", "title": "A title"}
        assert await refused(one, "session/update", **asked) == "storage_error"
        connection.answers_again = True
        match change:
            case "append":
                await append(three, "e-of-three")
            case "lease":
                await call(three, "session/acquire", ttl_ms=TTL_MS)
            case _:
                await call(three, "session/archive")
        before = await call(three, "session/get")
        assert await refused(one, "session/update", **asked) == "session_exists"
        assert await call(three, "session/get") == before
        assert not await call(one, "session/get", "session.persisted")


class HeldBehind(Wrapped):
    """A connection whose creation of a session is answered once a test says so."""

    def __init__(self, site: Site) -> None:
        super().__init__(site.connect())
        self.is_stored = threading.Event()
        self.may_go = threading.Event()

    def create(self, *args: Any, **options: Any) -> Any:
        head = self.inner.create(*args, **options)
        self.is_stored.set()
        assert self.may_go.wait(PATIENCE_SECONDS)
        return head


async def test_a_lease_comes_with_the_session_that_leaves_the_memory(site: Site) -> None:
    connection = HeldBehind(site)
    async with beside(site, connection) as (one, three):
        await create_with(one, "e-1", persist="never")
        lease = await call(one, "session/acquire", ttl_ms=TTL_MS)
        async with create_task_group() as tasks:
            tasks.start_soon(partial(call, one, "session/update", persist="immediate"))
            await happened(connection.is_stored)
            assert await refused(three, "append", message=HI) == "lease_held"
            connection.may_go.set()
        assert await refused(three, "append", message=HI) == "lease_held"
        await say(one, "under the lease", lease_id=lease["lease_id"])
        longer = await call(one, "session/renew", lease_id=lease["lease_id"], ttl_ms=TTL_MS)
        assert (longer["lease_id"], longer["epoch"]) == (lease["lease_id"], lease["epoch"])
        await call(one, "session/release", lease_id=lease["lease_id"])
        await say(three, "free")
        assert len(await call(one, *IDS)) == 3


@pytest.mark.parametrize("moment", ["the session is stored", "the session has its log"])
async def test_a_lease_ends_with_a_connection_that_ends_during_the_promotion(
    site: Site, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    connection = HeldBehind(site)
    reached = connection.is_stored
    if moment == "the session has its log":
        connection.may_go.set()
        reached, may_ring = threading.Event(), threading.Event()

        def ring(*_: Any) -> None:
            reached.set()
            assert may_ring.wait(PATIENCE_SECONDS)

        monkeypatch.setattr(Doorbell, "ring", ring)
    else:
        may_ring = connection.may_go
    async with (
        site.daemon("one", connection, NEVER) as daemon,
        clients_of(site, "three") as (three,),
        daemon.connect() as one,
    ):
        await create_with(one, "e-1", persist="never")
        async with create_task_group() as tasks:
            async with daemon.connect() as holder:
                await call(holder, "session/acquire", ttl_ms=60 * TTL_MS)
                tasks.start_soon(partial(call, one, "session/update", persist="immediate"))
                await happened(reached)
            await eventually(lambda: len(daemon.clients) == 1)
            may_ring.set()
        await call(three, "session/acquire", ttl_ms=TTL_MS, wait_ms=TTL_MS)


async def test_two_daemons_open_changed_lines_at_once(site: Site) -> None:
    both = threading.Barrier(2)
    connections = [Together(site, "renew", both) for _ in range(2)]
    async with (
        site.daemon("three", connections[0], NEVER) as first,
        site.daemon("four", connections[1], NEVER) as second,
        first.connect() as three,
        second.connect() as four,
    ):
        with fail_after(PATIENCE_SECONDS):
            async with clients_of(site, "one") as (one,):
                await create_with(one, "e-1", persist="immediate")
                epoch = await call(one, "session/get", "session.epoch")
            await to_thread.run_sync(site.change_last_line)
            for connection in connections:
                connection.waits = True
            infos: list[Any] = []

            async def get(wire: Wire) -> None:
                infos.append(await call(wire, "session/get", "session"))

            async with create_task_group() as tasks:
                for wire in (three, four):
                    tasks.start_soon(get, wire)
            assert infos[0]["epoch"] == infos[1]["epoch"] != epoch
            await append(three, "e-2")
            assert await call(four, *IDS) == ["e-1", "e-2"]


async def test_an_opening_that_meets_a_purge_finds_no_session(site: Site) -> None:
    class Purging(Wrapped):
        """A connection that reads lines only once another daemon has purged them."""

        is_late = False

        def pieces(
            self, number: int, first: int, last: int, *, ahead: bool = False
        ) -> Generator[bytes]:
            if self.is_late:
                self.is_late = False
                self.inner.delete(self.inner.heads([number])[0])
                self.inner.purge(SESSION)
            return self.inner.pieces(number, first, last, ahead=ahead)

    connection = Purging(site.connect())
    async with site.daemon("three", connection, NEVER) as daemon, daemon.connect() as three:
        async with clients_of(site, "one") as (one,):
            await create_with(one, "e-1", persist="immediate")
        connection.is_late = True
        assert await refused(three, "session/get") == "session_not_found"


async def test_a_session_that_has_left_the_memory_sees_where_other_daemons_move_it(
    site: Site,
) -> None:
    async with clients_of(site, "one", "three") as (one, three):
        await create_with(one, "e-1", persist="never")
        await call(one, "session/update", persist="immediate")
        await call(three, "session/archive")
        assert await call(one, "session/get", "session.archived")
        assert await refused(one, "append", message=HI) == "session_archived"
        await call(three, "session/unarchive")
        await append(one, "e-2")
        assert await call(three, *IDS) == ["e-1", "e-2"]
