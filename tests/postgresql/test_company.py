"""Signals and presence on PostgreSQL: what its tables lose is counted, and rings say nothing of them."""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from anyio import fail_after, to_thread

from sessiond.service.database.database import SessionDatabase
from tests.kit.calls import append, call, create, watch
from tests.kit.patience import PATIENCE_SECONDS, happened
from tests.postgresql.cluster import Cluster
from tests.postgresql.flushing import is_flushed
from tests.postgresql.flushing import lazy as lazy
from tests.service import test_company_rows as rows
from tests.service.one_database.connections import Mute
from tests.service.one_database.site import NEVER, Site
from tests.service.test_presence_on_one_database import STATES
from tests.service.test_signals_on_one_database import signal, told

if TYPE_CHECKING:
    from sessiond.postgresql.database import PostgresqlDatabase

pytestmark = [pytest.mark.slow, pytest.mark.both_loops]

globals().update({name: test for name, test in vars(rows).items() if name.startswith("test_")})

SECRET = "not-for-every-role"

number = rows.number


class ServerSite(Site):
    """Daemons on a server."""

    def __init__(self, home: Path, dsn: str, schema: str = "sessiond") -> None:
        super().__init__(home)
        self._dsn = dsn
        self._schema = schema

    def connect(self) -> SessionDatabase:
        """Return a connection of one more daemon."""
        from sessiond.postgresql.database import PostgresqlDatabase

        return PostgresqlDatabase(self._dsn, self._schema)


async def test_a_crash_of_the_server_is_counted_and_presence_comes_back(
    tmp_path: Path, own_cluster: Cluster
) -> None:
    site = ServerSite(tmp_path.resolve(), own_cluster.dsn())
    async with (
        # The second daemon hears of nothing, and looks where a test reads.
        site.daemon("one", Mute(await to_thread.run_sync(site.connect))) as here,
        site.daemon("three", await to_thread.run_sync(site.connect), NEVER) as there,
        here.connect() as one,
        there.connect() as three,
    ):
        with fail_after(PATIENCE_SECONDS):
            await create(one, persist="immediate")
            await watch(three)
            await call(one, "session/presence", state="thinking")
            await signal(one, "s-1")
            await append(one, "e-1")
            assert await call(three, "session/presence", STATES) == ["thinking"]
            assert await told_besides_presence(three, 2) == ["s-1", "e-1"]
            for number in range(2, 6):
                await signal(one, f"s-{number}")
            await append(one, "e-2")
            await to_thread.run_sync(own_cluster.kill)
            await to_thread.run_sync(own_cluster.start)
            counted = "SELECT count(*) FROM sessiond.signals"
            assert await to_thread.run_sync(own_cluster.sql, counted) == [["0"]]
            # The sender's daemon finds that its row is gone, and writes the row again.
            shown = "SELECT 1 FROM sessiond.senders WHERE ordinal = 5 AND presence = 1"
            await to_thread.run_sync(own_cluster.wait_for, shown)
            assert await call(three, "session/presence", STATES) == ["thinking"]
            seen = await told_besides_presence(three, 3)
            assert seen == [4, "session/synced", "e-2"]
            await signal(one, "s-6")
            await append(one, "e-3")
            assert await call(three, "session/presence", STATES) == ["thinking"]
            assert await told_besides_presence(three, 2) == ["s-6", "e-3"]


async def told_besides_presence(wire: Any, count: int) -> list[Any]:
    found: list[Any] = []
    while len(found) < count:
        found += [one for one in await told(wire, 1) if one != "session/presence"]
    return found


async def test_a_ring_has_numbers_and_nothing_else(
    tmp_path: Path, cluster: Cluster, schema: str
) -> None:
    import psycopg

    site = ServerSite(tmp_path.resolve(), cluster.dsn(), schema)
    heard: list[str] = []
    listens, is_over = threading.Event(), threading.Event()

    def listen() -> None:
        with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
            connection.execute(f"LISTEN {schema}")
            listens.set()
            while not is_over.is_set():
                heard.extend(ring.payload for ring in connection.notifies(timeout=0.05))

    listener = threading.Thread(target=listen)
    listener.start()
    try:
        await happened(listens)
        async with (
            site.daemon("one", await to_thread.run_sync(site.connect)) as here,
            site.daemon("three", await to_thread.run_sync(site.connect)) as there,
            here.connect() as one,
            there.connect() as three,
        ):
            with fail_after(PATIENCE_SECONDS):
                await create(one, persist="immediate")
                await watch(three)
                await call(one, "session/presence", state=SECRET, data=SECRET)
                for _ in range(20):
                    await signal(one, SECRET, data=SECRET)
                assert await told_besides_presence(three, 20) == [SECRET] * 20
    finally:
        is_over.set()
        await to_thread.run_sync(listener.join)
    assert heard
    assert [ring for ring in heard if not re.fullmatch(r"[0-9 -]+", ring)] == []


@pytest.mark.usefixtures("lazy")
def test_signals_wait_for_no_disk(
    cluster: Cluster, connect: Callable[[], PostgresqlDatabase]
) -> None:
    database = connect()
    head = database.create("a-session", "epoch-1", [[b"{}"]], "placed")
    assert head is not None
    turns = itertools.count(1)

    def one() -> None:
        turn = next(turns)
        database.company.change(rows.change(head.number, turn, turn, turn, body=b"present"))

    assert not is_flushed(cluster, one)
