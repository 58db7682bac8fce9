"""The connection that hears rings: any role may ring, and a fault of this connection is that of no other one."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kit.calls import append, create
from tests.postgresql.cluster import Cluster
from tests.postgresql.test_daemons import PostgresqlSite
from tests.service.subscribing import subscribe
from tests.service.test_daemons_on_one_database import PATIENCE_SECONDS, clients_of, told

if TYPE_CHECKING:
    from sessiond.postgresql.database import PostgresqlDatabase

pytestmark = pytest.mark.slow

UNREADABLE = ("'7 abc'", "'7 1 x'", "'7 ' || repeat('9', 5000)", "'7 1.5'", "'7'", "''")
READABLE = ("'7 -1'", "'7 99999999999999999999'", "'7' || repeat(' 9', 3000)")


@pytest.mark.parametrize("payload", UNREADABLE)
def test_a_ring_that_cannot_be_read_is_a_ring_for_all_sessions(
    database: PostgresqlDatabase, cluster: Cluster, schema: str, payload: str
) -> None:
    assert database.wait(0.0) is None
    cluster.sql(f"SELECT pg_notify('{schema}', {payload})")
    begun = time.monotonic()
    assert database.wait(PATIENCE_SECONDS) is None
    assert time.monotonic() - begun < PATIENCE_SECONDS / 2
    cluster.sql(f"SELECT pg_notify('{schema}', '7 8')")
    assert database.wait(PATIENCE_SECONDS) == frozenset({8})


async def test_no_ring_of_another_role_ends_a_daemon(
    tmp_path: Path, connect: Callable[[], PostgresqlDatabase], cluster: Cluster, schema: str
) -> None:
    site = PostgresqlSite(tmp_path.resolve(), connect, cluster, schema)
    async with clients_of(site, "one", "three") as (one, three):
        await create(one, persist="immediate")
        await subscribe(three)
        await append(one, "e-1")
        assert await told(three, 1) == [(1, "e-1")]
        while site.listeners < 2:
            pass
        for payload in (*UNREADABLE, *READABLE):
            cluster.sql(f"SELECT pg_notify('{schema}', {payload})")
        await append(one, "e-2")
        assert await told(three, 1) == [(2, "e-2")]
        await append(three, "e-3")
        assert await told(three, 1) == [(3, "e-3")]
