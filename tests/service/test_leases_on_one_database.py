"""Leases that count at every daemon of one database, and end with their holders and daemons."""

from __future__ import annotations

import threading
from collections.abc import Collection

import pytest

from sessiond.service.database.database import SessionDatabase
from tests.kit.calls import call, create, refused, say
from tests.kit.patience import PATIENCE_SECONDS, eventually, happened
from tests.kit.sessions import HI, SESSION
from tests.service.one_database.calls import TTL_MS
from tests.service.one_database.connections import Counted, Hearing, Losing, Severed, Wrapped
from tests.service.one_database.site import (
    NEVER,
    Site,
    clients_of,
    no_threads_for_readers,
)

pytestmark = [pytest.mark.usefixtures("clock")]


async def test_a_lease_counts_at_every_daemon(site: Site) -> None:
    async with clients_of(site, "one", "two", poll_seconds=NEVER) as (one, two):
        await create(one, persist="immediate")
        await call(two, "session/get")
        lease = await call(one, "session/acquire", "lease_id", ttl_ms=TTL_MS)
        refusal = await two.refusal(
            "append", session_id=SESSION, message={"role": "user", "content": "late"}
        )
        assert (refusal.data["kind"], refusal.data["holder"]) == (
            "lease_held",
            {"client_id": None, "name": None},
        )
        assert await refused(two, "session/acquire", ttl_ms=TTL_MS) == "lease_held"
        assert await refused(two, "session/update", model="another") == "lease_held"
        await say(one, "under the lease", lease_id=lease)
        # A helper of the holder may work at any daemon.
        await say(two, "under the lease too", lease_id=lease)
        longer = await call(two, "session/renew", lease_id=lease, ttl_ms=TTL_MS)
        assert longer["lease_id"] == lease
        await two.call("session/release", session_id=SESSION, lease_id=lease)
        assert await refused(one, "append", message=HI, lease_id=lease) == "lease_lost"
        await say(one, "free again")
        await say(two, "here too")


async def test_the_next_holder_may_be_at_another_daemon(site: Site) -> None:
    async with clients_of(site, "one", "two", "three") as (one, two, three):
        await create(one, persist="immediate")
        epochs = []
        lease = await call(one, "session/acquire", ttl_ms=TTL_MS)
        for wire in (two, three, one, two):
            epochs.append(lease["epoch"])
            waiting = await wire.request(
                "session/acquire", session_id=SESSION, ttl_ms=TTL_MS, wait_ms=TTL_MS
            )
            await two.call("session/release", session_id=SESSION, lease_id=lease["lease_id"])
            lease = await wire.answer(waiting)
        assert epochs == sorted(set(epochs))
        assert lease["epoch"] > epochs[-1]


async def test_a_wait_for_a_lease_asks_the_database_now_and_then(site: Site) -> None:
    connection = Counted(site.connect())
    async with (
        clients_of(site, "one", poll_seconds=NEVER) as (one,),
        site.daemon("three", connection, NEVER) as third,
        third.connect() as three,
    ):
        await create(one, persist="immediate")
        await call(three, "session/get")
        await call(one, "session/acquire", ttl_ms=TTL_MS)
        connection.queries = 0
        assert await refused(three, "session/acquire", ttl_ms=TTL_MS, wait_ms=500) == "lease_held"
        assert connection.queries <= 4


async def test_a_lease_ends_with_its_time_at_every_daemon(site: Site) -> None:
    async with clients_of(site, "one", "two") as (one, two):
        await create(one, persist="immediate")
        await call(one, "session/acquire", ttl_ms=300)
        lease = await call(two, "session/acquire", ttl_ms=TTL_MS, wait_ms=TTL_MS)
        assert await refused(one, "append", message=HI) == "lease_held"
        await say(two, "mine now", lease_id=lease["lease_id"])


async def test_a_lease_ends_with_its_connection_at_every_daemon(site: Site) -> None:
    async with site.daemon("one") as first, clients_of(site, "two") as (two,):
        async with first.connect() as one:
            await create(one, persist="immediate")
            await call(one, "session/acquire", ttl_ms=TTL_MS)
            assert await refused(two, "append", message=HI) == "lease_held"
        await call(two, "session/acquire", ttl_ms=TTL_MS, wait_ms=TTL_MS)


async def test_a_lease_ends_with_its_daemon(site: Site) -> None:
    async with (
        clients_of(site, "two") as (two,),
        site.daemon("one") as daemon,
        daemon.connect() as one,
    ):
        await create(one, persist="immediate")
        await call(one, "session/acquire", ttl_ms=TTL_MS)
        assert await refused(two, "append", message=HI) == "lease_held"
        await daemon.end()
        await call(two, "session/acquire", ttl_ms=TTL_MS, wait_ms=TTL_MS)


async def test_the_lease_of_a_silent_daemon_ends_and_stays_ended(site: Site) -> None:
    connection, hearing = Severed(site.connect()), Hearing(site.connect())
    async with (
        site.daemon("one", connection) as first,
        site.daemon("two", hearing, silence=hearing.silence) as second,
        first.connect() as one,
        second.connect() as two,
    ):
        await create(one, persist="immediate")
        lease = await call(one, "session/acquire", "lease_id", ttl_ms=60 * TTL_MS)
        assert await refused(two, "append", message=HI) == "lease_held"
        # Its beats tell that the daemon is there.
        await hearing.let_pass()
        assert await refused(two, "append", message=HI) == "lease_held"
        connection.is_there, hearing.runs = False, True
        await call(two, "session/acquire", ttl_ms=TTL_MS, wait_ms=TTL_MS)
        connection.is_there = True
        assert await refused(one, "append", message=HI, lease_id=lease) == "lease_held"


async def test_the_end_of_a_lease_that_could_not_be_stored_is_stored_later(site: Site) -> None:
    connection = Losing(site.connect())
    async with site.daemon("one", connection) as first, clients_of(site, "two") as (two,):
        async with first.connect() as one:
            await create(one, persist="immediate")
            await call(one, "session/acquire", ttl_ms=60 * TTL_MS)
            connection.before.add("lease")
        await eventually(lambda: connection.lost["lease"] >= 2)
        connection.answer()
        await call(two, "session/acquire", ttl_ms=TTL_MS, wait_ms=TTL_MS)


class Beating(Wrapped):
    """A connection whose first note of an open session waits until a test lets it go."""

    def __init__(self, inner: SessionDatabase) -> None:
        super().__init__(inner)
        self.beats = 0
        self.has_begun = threading.Event()
        self.may_go = threading.Event()

    def beat(self, daemon: str, open_numbers: Collection[int]) -> None:
        """Note that the daemon goes on."""
        if open_numbers:
            self.has_begun.set()
            assert self.may_go.wait(PATIENCE_SECONDS)
        self.beats += 1
        self.inner.beat(daemon, open_numbers)


async def test_no_number_of_readers_keeps_a_daemon_from_beating(site: Site) -> None:
    connection = Beating(site.connect())
    async with site.daemon("one", connection) as first, first.connect() as one:
        await create(one, persist="immediate")
        await happened(connection.has_begun)
        # From here on the daemon beats at each poll.
        await call(one, "session/acquire", ttl_ms=60 * TTL_MS)
        async with no_threads_for_readers():
            connection.may_go.set()
            await eventually(lambda: connection.beats >= 3)
