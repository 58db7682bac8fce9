"""Changes of rows whose answers are lost, or that meet a change by another daemon."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread

from tests.kit.calls import create
from tests.service.test_daemons_on_one_database import (
    NEVER,
    OUT_OF_REACH,
    TTL_MS,
    Site,
    Wrapped,
    acquire,
    clients_of,
    refused,
    say,
)
from tests.service.test_lists_on_one_database import until

pytestmark = pytest.mark.one_loop

HOUR_MS = 3_600_000


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path.resolve())


class LosesAnswers(Wrapped):
    """A connection that ends during chosen calls, which take effect: then, or only once a test says so."""

    def __init__(self, site: Site) -> None:
        super().__init__(site.connect())
        self.loses: set[str] = set()
        """Methods whose next call loses its answer."""
        self.is_late = False
        """True if a call that loses its answer takes effect once a test says so."""
        self.late: list[Callable[[], Any]] = []
        self.calls: Counter[str] = Counter()
        """Calls that were answered."""

    def __getattr__(self, name: str) -> Any:
        method = super().__getattr__(name)
        if not callable(method):
            return method

        def call(*args: Any, **options: Any) -> Any:
            if name not in self.loses:
                answer = method(*args, **options)
                self.calls[name] += 1
                return answer
            self.loses.discard(name)
            if self.is_late:
                self.late.append(lambda: method(*args, **options))
            else:
                method(*args, **options)
            raise OUT_OF_REACH

        return call


async def test_a_lease_whose_grant_was_lost_is_free_for_a_retry(site: Site) -> None:
    connection = LosesAnswers(site)
    async with (
        site.daemon("one", connection, NEVER) as daemon,
        daemon.connect() as one,
    ):
        await create(one, persist="immediate")
        connection.loses = {"lease"}
        assert await refused(one, "session/acquire", ttl_ms=HOUR_MS) == "storage_error"
        lease = (await acquire(one))["lease_id"]
        await say(one, "under the lease", lease_id=lease)


async def test_a_lease_whose_grant_was_lost_ends_without_another_request(site: Site) -> None:
    connection = LosesAnswers(site)
    async with (
        site.daemon("one", connection, NEVER) as daemon,
        clients_of(site, "three") as (three,),
        daemon.connect() as one,
    ):
        await create(one, persist="immediate")
        connection.loses = {"lease"}
        assert await refused(one, "session/acquire", ttl_ms=HOUR_MS) == "storage_error"
        await acquire(three, wait_ms=TTL_MS)


async def test_a_grant_that_was_refused_takes_no_effect_later(site: Site) -> None:
    connection = LosesAnswers(site)
    async with (
        site.daemon("one", connection, NEVER) as daemon,
        clients_of(site, "three") as (three,),
        daemon.connect() as one,
    ):
        await create(one, persist="immediate")
        connection.loses, connection.is_late = {"lease"}, True
        assert await refused(one, "session/acquire", ttl_ms=HOUR_MS) == "storage_error"
        await until(lambda: connection.calls["lease"] == 1)
        (grant,) = connection.late
        assert await to_thread.run_sync(grant) is None
        await acquire(three)


async def test_leases_end_with_the_epoch_of_a_session_that_was_brought_back(site: Site) -> None:
    async with clients_of(site, "one", "three") as (one, three):
        await create(one, persist="immediate")
        lease = (await acquire(one, ttl_ms=HOUR_MS))["lease_id"]
        site.remember()
        await say(one, "lost", lease_id=lease)
        site.bring_back()
        assert await refused(one, "append", lease_id=lease) == "lease_lost"
        await acquire(three, wait_ms=TTL_MS)
