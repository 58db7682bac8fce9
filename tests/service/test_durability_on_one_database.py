"""Durability of entries that other daemons have left to the database: no answer says more than is true."""

from __future__ import annotations

from contextlib import AsyncExitStack

from tests.kit.calls import append, call, create
from tests.service.one_database.connections import Wrapped
from tests.service.one_database.site import NEVER, Site, clients_of


class CountingSyncs(Wrapped):
    """A connection that counts how often the database was told to sync."""

    syncs = 0

    def sync(self) -> None:
        """Sync, and count."""
        self.syncs += 1
        self.inner.sync()


async def test_a_flush_syncs_what_another_daemon_left_to_the_system(site: Site) -> None:
    async with clients_of(site, "one", poll_seconds=NEVER) as (one,), AsyncExitStack() as ends:
        counted = CountingSyncs(site.connect())
        daemon = await ends.enter_async_context(site.daemon("two", counted, NEVER))
        two = await ends.enter_async_context(daemon.connect())
        await create(one, persist="immediate")
        for number in range(2):
            # The first one is there when the other daemon opens the session, the second one is not.
            await append(one, f"e-{number}", durability="os")
            flushed = await call(two, "session/flush", durability="disk")
            assert flushed == {"seq": number + 1, "durability": "disk"}
            assert counted.syncs == number + 1
            await call(two, "session/flush", durability="disk")
            assert counted.syncs == number + 1, "what is synced is not synced again"
            await site.watches(two=two)
        await append(one, "e-2", durability="os")
        await append(two, "e-3")
        await call(two, "session/flush", durability="disk")
        assert counted.syncs == 2, "a durable append brings everything before it to the disk"


async def test_a_retry_is_as_durable_as_its_answer_says(site: Site) -> None:
    async with clients_of(site, "one") as (one,), AsyncExitStack() as ends:
        counted = CountingSyncs(site.connect())
        daemon = await ends.enter_async_context(site.daemon("two", counted))
        two = await ends.enter_async_context(daemon.connect())
        await create(one, persist="immediate")
        await append(one, "e-1", durability="os")
        again = await append(two, "e-1", durability="os")
        assert (again["duplicate"], again["durability"], counted.syncs) == (True, "os", 0)
        again = await append(two, "e-1")
        assert (again["duplicate"], again["durability"], counted.syncs) == (True, "disk", 1)
        again = await append(two, "e-1", durability="os")
        assert (again["durability"], counted.syncs) == ("disk", 1)


async def test_a_client_that_may_ask_for_status_only_ends_no_epoch(site: Site) -> None:
    async with clients_of(site, "one", "two") as (one, two):
        await create(one, persist="immediate")
        await append(one, "e-1")
        epoch = (await call(one, "session/get"))["session"]["epoch"]
        await two.call("initialize", access="status")
        cursor = {"seq": 9, "epoch": epoch}
        answer = await call(two, "subscribe", after=cursor, bodies=False)
        assert (answer["replaced"], answer["epoch"]) == ("ahead", epoch)
        await append(one, "e-2")
        assert (await call(one, "session/get"))["session"]["epoch"] == epoch
