"""The connection that hears rings: any role may ring, and a fault of this connection is that of no other one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest

from sessiond.errors import StorageError
from tests.kit.calls import append, create, watch
from tests.kit.limits import set_limits
from tests.kit.patience import PATIENCE_SECONDS, soon
from tests.postgresql.cluster import Cluster
from tests.postgresql.site import PostgresqlSite
from tests.service.one_database.calls import told
from tests.service.one_database.site import clients_of

if TYPE_CHECKING:
    from sessiond.postgresql.database import PostgresqlDatabase

pytestmark = [pytest.mark.slow, pytest.mark.both_loops]

UNREADABLE = ("'7 abc'", "'7 1 x'", "'7 ' || repeat('9', 5000)", "'7 1.5'", "'7'", "''")
READABLE = ("'7 -1'", "'7 99999999999999999999'", "'7' || repeat(' 9', 3000)")


@pytest.fixture
def soon_deaf(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a bell ring each time, be taken for deaf after a moment, and try again after a moment."""
    # The driver is an extra. The modules have the limits once they are loaded.
    import sessiond.postgresql.database  # noqa: F401

    set_limits(
        monkeypatch,
        DATABASE_HEARD_SECONDS=0.2,
        DATABASE_DEAF_SECONDS=0.3,
        DATABASE_LONE_RING_SECONDS=0.0,
        DATABASE_CONNECT_SECONDS=2,
    )


@pytest.mark.parametrize("payload", UNREADABLE)
def test_a_ring_that_cannot_be_read_is_a_ring_for_all_sessions(
    database: PostgresqlDatabase,
    cluster: Cluster,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
    payload: str,
) -> None:
    from sessiond.postgresql.patience import PatientConnection

    heard: list[list[str]] = []
    notifications = PatientConnection.notifications

    def noted(connection: PatientConnection, seconds: float) -> list[str]:
        heard.append(notifications(connection, seconds))
        return heard[-1]

    monkeypatch.setattr(PatientConnection, "notifications", noted)
    assert database.wait(0.0) is None
    cluster.sql(f"SELECT pg_notify('{schema}', {payload})")
    assert database.wait(PATIENCE_SECONDS) is None
    # The wait has ended with the ring. It would end with nothing at its time.
    assert heard[-1] != []
    cluster.sql(f"SELECT pg_notify('{schema}', '7 8')")
    assert database.wait(PATIENCE_SECONDS) == frozenset({8})


async def test_no_ring_of_another_role_ends_a_daemon(
    tmp_path: Path, connect: Callable[[], PostgresqlDatabase], cluster: Cluster, schema: str
) -> None:
    site = PostgresqlSite(tmp_path.resolve(), connect, cluster, schema)
    async with clients_of(site, "one", "three") as (one, three):
        await create(one, persist="immediate")
        await watch(three)
        await append(one, "e-1")
        assert await told(three, 1) == [(1, "e-1")]
        await site.is_heard_by(2)
        for payload in (*UNREADABLE, *READABLE):
            cluster.sql(f"SELECT pg_notify('{schema}', {payload})")
        await append(one, "e-2")
        assert await told(three, 1) == [(2, "e-2")]
        await append(three, "e-3")
        assert await told(three, 1) == [(3, "e-3")]


@contextmanager
def heard_on(cluster: Cluster, schema: str) -> Generator[Callable[[], list[list[str]]]]:
    """Yield what returns the sessions of each ring since its last call; none where a ring is for all."""
    import psycopg

    with psycopg.connect(cluster.dsn(), autocommit=True) as listener:
        end = f"{schema}_end"
        listener.execute(f"LISTEN {schema}")
        listener.execute(f"LISTEN {end}")

        def rung() -> list[list[str]]:
            # Notifications come in the order of their commits.
            cluster.sql(f"NOTIFY {end}")
            found: list[list[str]] = []
            for ring in listener.notifies(timeout=PATIENCE_SECONDS):
                if ring.channel == end:
                    return found
                found.append(ring.payload.split()[1:])
            raise AssertionError("no ring has come")

        yield rung


def test_a_daemon_that_no_other_one_hears_rings_now_and_then(
    cluster: Cluster,
    schema: str,
    connect: Callable[[], PostgresqlDatabase],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import sessiond.postgresql.bell  # noqa: F401

    set_limits(monkeypatch, DATABASE_LONE_RING_SECONDS=60.0, DATABASE_ALONE_SECONDS=60.0)
    one, two = connect(), connect()
    with heard_on(cluster, schema) as rung:

        def rings(*numbers: int) -> list[int]:
            """Ring at the first daemon for each of these sessions; return those that were rung for."""
            for number in numbers:
                one.ring([number])
            return [int(number) for ring in rung() for number in ring if number != "-1"]

        assert rings(1, 2) == [1, 2], "the daemon does not know yet"
        assert one.wait(0.0) is None
        assert rings(3, 4) == [3, 4]
        assert one.wait(0.0) is None
        assert rings(5, 6) == []
        assert two.wait(0.0) is None
        # The other daemon says that it listens.
        soon(lambda: one.wait(0.05) is None and not one._bell._is_alone)
        assert two.wait(PATIENCE_SECONDS) is None, "the ring for 5 and 6 is one for all sessions"
        assert rings(7, 8) == [7, 8]
        assert two.wait(PATIENCE_SECONDS) is not None
        two.stop_listening()
        assert one.wait(0.1) is None
        assert rings(9) == [9], "the next look is due in a minute"
        set_limits(monkeypatch, DATABASE_LONE_RING_SECONDS=0.0)
        one.stop_listening()
        for _ in range(2):
            assert one.wait(0.0) is None
        assert rings(10, 11) == [10, 11], "its own rings tell whether rings come"


@pytest.mark.parametrize("how", ["by a ring", "by a look", "on a new connection"])
def test_a_lone_daemon_makes_up_for_the_rings_that_it_has_spared(
    cluster: Cluster,
    schema: str,
    connect: Callable[[], PostgresqlDatabase],
    monkeypatch: pytest.MonkeyPatch,
    how: str,
) -> None:
    import sessiond.postgresql.bell  # noqa: F401

    set_limits(monkeypatch, DATABASE_LONE_RING_SECONDS=60.0, DATABASE_ALONE_SECONDS=60.0)
    one = connect()
    for _ in range(2):
        assert one.wait(0.0) is None
    assert one._bell._is_alone
    with heard_on(cluster, schema) as rung:
        two = connect()
        assert two.wait(0.0) is None
        one.ring([6])
        assert rung() == [["-1"]], "the lone daemon has not heard of the other one"
        if how == "by a look":
            # The ring of the other daemon was lost with a connection.
            monkeypatch.setattr(one._bell._connection, "notifications", lambda _seconds: [])
            one._bell._alone_until = 0.0
        elif how == "on a new connection":
            one.stop_listening()
        assert one.wait(0.05) is None
        assert rung() == [[]]
        one.ring([7])
        assert rung() == [["7"]]


@pytest.mark.usefixtures("soon_deaf")
def test_a_ring_that_is_sent_late_is_no_ring_that_does_not_come_back(
    cluster: Cluster, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sessiond.postgresql import bell as bells

    hours = 0
    monkeypatch.setattr(bells, "monotonic", lambda: time.monotonic() + 3600 * hours)
    is_busy, may_ring = threading.Event(), threading.Event()
    may_ring.set()

    def ring(channel: str, text: str) -> None:
        is_busy.set()
        assert may_ring.wait(PATIENCE_SECONDS)
        cluster.sql(f"SELECT pg_notify('{channel}', '{text}')")

    bell = bells.Bell(cluster.dsn(), schema, lambda: {"autocommit": True}, ring)

    def has_heard(own_rings: int) -> bool:
        assert bell.wait(0.05) is None
        return bell._heard == own_rings

    try:
        assert bell.wait(0.0) is None
        soon(lambda: has_heard(1))
        is_busy.clear()
        may_ring.clear()
        ringing = threading.Thread(target=bell.ring, args=[[1]])
        ringing.start()
        assert is_busy.wait(PATIENCE_SECONDS)
        hours += 1
        assert not has_heard(2)
        assert not bell.is_deaf
        may_ring.set()
        ringing.join()
        # The own ring comes back.
        soon(lambda: has_heard(2))
        assert not bell.is_deaf
    finally:
        may_ring.set()
        bell.close()


@pytest.fixture
def narrow(
    cluster: Cluster, schema: str
) -> Iterator[tuple[PostgresqlDatabase, Callable[..., Any]]]:
    """Return a database of a role, and a function that limits the number of the role's connections."""
    from sessiond.postgresql.database import PostgresqlDatabase

    role = f"narrow_{schema}"
    cluster.sql(f"CREATE ROLE {role} LOGIN; CREATE SCHEMA {schema} AUTHORIZATION {role}")
    database = PostgresqlDatabase(cluster.dsn().replace("user=tests", f"user={role}"), schema)

    def limit(count: int) -> None:
        cluster.sql(f"ALTER ROLE {role} CONNECTION LIMIT {count}")

    yield database, limit
    database.close()


@pytest.mark.usefixtures("soon_deaf")
def test_a_server_without_a_connection_for_rings_is_no_database_that_is_away(
    narrow: tuple[PostgresqlDatabase, Callable[[int], None]],
) -> None:
    database, limit = narrow
    assert database.now_ns() > 0

    def hears() -> bool:
        with suppress(StorageError):
            database.wait(0.05)
        assert database.unreachable_since is None
        return database.notifications

    limit(1)
    soon(lambda: not hears())
    limit(-1)
    soon(hears)


@pytest.mark.usefixtures("soon_deaf")
def test_a_full_queue_is_told_as_rings_that_do_not_come(
    database: PostgresqlDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    from psycopg.errors import ProgramLimitExceeded

    from sessiond.postgresql import database as rings

    def hears() -> bool:
        assert database.wait(0.05) is None
        database.ring([1])
        assert database.unreachable_since is None
        return database.notifications

    assert hears()
    with monkeypatch.context() as full:
        # A whole queue has 8 GB.
        full.setattr(rings, "ring_on", Mock(side_effect=ProgramLimitExceeded))
        soon(lambda: not hears())
    soon(hears)


@pytest.mark.usefixtures("soon_deaf")
def test_a_database_that_is_away_is_told_as_such_and_not_as_one_without_rings(
    own_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sessiond.postgresql import bell
    from sessiond.postgresql.database import PostgresqlDatabase

    hours = 0.0
    monkeypatch.setattr(bell, "monotonic", lambda: time.monotonic() + 3600 * hours)
    database = PostgresqlDatabase(own_cluster.dsn(), "sessiond")

    def is_away() -> bool:
        """Wait once, and let an hour pass; return whether the database is away."""
        nonlocal hours
        with suppress(StorageError):
            database.wait(0.05)
        hours += 1
        return database.unreachable_since is not None

    try:
        assert database.wait(0.0) is None
        own_cluster.kill()
        soon(is_away)
        assert all(is_away() for _ in range(5))
        assert database.notifications
        own_cluster.start()
        soon(lambda: not is_away())
    finally:
        database.close()
