"""Poolers in front of the server, and notifications that do not come: noticed, told, and lived with."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from anyio import to_thread

from sessiond.errors import StorageError
from tests.kit.calls import append, create, watch
from tests.kit.limits import set_limits
from tests.kit.patience import soon
from tests.postgresql.cluster import LISTENING, Cluster
from tests.postgresql.conftest import Findings
from tests.postgresql.pooler import PROGRAM, pooler
from tests.postgresql.sharing_daemon import SharingDaemon
from tests.postgresql.site import PostgresqlSite
from tests.postgresql.test_doctor import advice
from tests.postgresql.test_process import last_log, status
from tests.processes.harness.daemon import running
from tests.service.one_database.calls import told
from tests.service.one_database.site import clients_of

if TYPE_CHECKING:
    from sessiond.postgresql.database import PostgresqlDatabase

pytestmark = [pytest.mark.slow, pytest.mark.both_loops, pytest.mark.search]


@pytest.fixture(autouse=True)
def has_pooler(program: Callable[[str], str]) -> None:
    program(PROGRAM)


def behind(cluster: Cluster, dsn: str, home: Path) -> SharingDaemon:
    """Return a daemon whose server is at this address."""
    daemon = SharingDaemon(home.with_name("s.sock"), home, cluster.folder)
    daemon.settings["SESSIOND_STORE"] = dsn
    return daemon


def test_a_pooler_of_transactions_is_refused_and_doctor_names_it(
    own_cluster: Cluster, tmp_path: Path, findings: Findings
) -> None:
    with pooler(own_cluster, "transaction") as dsn:
        daemon = behind(own_cluster, dsn, tmp_path / "home")
        daemon.start()
        assert daemon.end() == 1
        reason = last_log(daemon)["reason"]
        assert "a pooler gives each transaction another connection" in reason
        assert "pool_mode = session" in reason
        assert "pool_mode = session" in (advice(findings(daemon), "each transaction") or "")
        # Neither of them has set anything that another client of the pooler would meet.
        import psycopg

        with psycopg.connect(dsn, autocommit=True, prepare_threshold=None) as client:
            row = client.execute("SELECT current_setting('statement_timeout')").fetchone()
        assert row == ("0",)


def test_a_pooler_of_connections_keeps_all_promises(
    own_cluster: Cluster, tmp_path: Path, findings: Findings
) -> None:
    with pooler(own_cluster, "session") as dsn:
        one = behind(own_cluster, dsn, tmp_path / "one")
        two = SharingDaemon(tmp_path / "t.sock", tmp_path / "two", own_cluster.folder)
        with running(one), running(two), one.connect() as at_one, two.connect() as at_two:
            at_one.ask("session/create", session_id="my-session", cwd="/p", persist="immediate")
            at_two.say("my-session", "said at the server")
            at_one.say("my-session", "said at the pooler")
            assert at_two.contents("my-session") == ["said at the server", "said at the pooler"]
            assert at_one.ask("server/stats")["database"]["notifications"] is True
            assert set(findings(one).values()) == {None}


def test_of_several_connections_each_has_what_it_set(
    own_cluster: Cluster, connect: Callable[[], PostgresqlDatabase]
) -> None:
    from sessiond.postgresql.database import PostgresqlDatabase

    del connect
    with pooler(own_cluster, "transaction") as dsn:
        # Other clients have given the pooler several connections to choose from.
        import psycopg

        clients = [psycopg.connect(dsn) for _ in range(4)]
        for client in clients:
            client.execute("SELECT 1")
        for client in clients:
            client.close()
        for _ in range(5):
            with pytest.raises(StorageError, match="a pooler gives each transaction"):
                PostgresqlDatabase(dsn, "sessiond")


@pytest.mark.parametrize(
    ("setting", "says", "then"),
    [
        ("default_pool_size = 1", "no connection to the server left", "default_pool_size"),
        ("query_wait_timeout = 1", "no connection to the server left", "default_pool_size"),
        ("max_client_conn = 1", "no more connections allowed", "max_client_conn"),
    ],
)
def test_a_pooler_without_a_connection_left_is_named(
    own_cluster: Cluster, monkeypatch: pytest.MonkeyPatch, setting: str, says: str, then: str
) -> None:
    import psycopg

    from sessiond.postgresql import database as started
    from sessiond.postgresql.examining import examine
    from sessiond.postgresql.patience import PatientConnection

    set_limits(monkeypatch, DATABASE_START_SECONDS=0.0)
    if setting.startswith("default"):
        monkeypatch.setattr(PatientConnection, "patience", 0.5)
    more = f"{setting}\ndefault_pool_size = 1"
    with pooler(own_cluster, "session", more) as dsn, psycopg.connect(dsn) as client:
        # The client has the only connection.
        client.execute("SELECT 1")
        (found,) = examine(dsn, "sessiond", None)
        assert says in found.what
        assert then in (found.next or "")
        with pytest.raises(StorageError, match=f"{says}.*{then}"):
            started.PostgresqlDatabase(dsn, "sessiond")


def test_a_commit_that_waits_for_no_disk_is_never_told_as_durable(
    database: PostgresqlDatabase,
) -> None:
    from tests.postgresql.test_database import append as store
    from tests.postgresql.test_database import made

    at = made(database)
    with ExitStack() as ends:
        # The pool gives each of its connections once.
        for _ in range(database._pool.get_stats()["pool_size"]):
            connection = ends.enter_context(database._pool.connection())
            connection.execute("SELECT set_config('synchronous_commit', 'off', false)")
    with pytest.raises(StorageError, match="synchronous_commit is off") as refused:
        store(database, at, b"a line")
    assert not refused.value.data()["retryable"]
    assert store(database, at, b"a line", sync=False) is not None


def test_notifications_that_do_not_come_are_in_the_log_once_and_in_status(
    own_cluster: Cluster, tmp_path: Path
) -> None:
    daemon = SharingDaemon(own_cluster.folder / "s.sock", tmp_path / "home", own_cluster.folder)
    text = "do not come through"
    with running(daemon), daemon.connect() as link:
        link.ask("session/create", session_id="my-session", cwd="/p", persist="immediate")
        link.ask("subscribe", session_id="my-session")
        assert text not in status(daemon)
        with own_cluster.stopped(own_cluster.wait_for_backends(LISTENING)):

            def is_told() -> bool:
                link.say("my-session", "a ring of its own")
                return text in status(daemon)

            soon(is_told)
        assert daemon.said().count(text) == 1


async def test_a_daemon_that_hears_no_rings_says_so_and_polls(
    site: PostgresqlSite,
    cluster: Cluster,
    connect: Callable[[], PostgresqlDatabase],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import sessiond.postgresql.bell  # noqa: F401

    set_limits(monkeypatch, DATABASE_HEARD_SECONDS=0.3, DATABASE_DEAF_SECONDS=1.5)
    database = connect()
    wait = database.wait
    waits: list[float] = []

    def noted(seconds: float) -> frozenset[int] | None:
        waits.append(seconds)
        return wait(seconds)

    monkeypatch.setattr(database, "wait", noted)
    async with (
        clients_of(site, "one", poll_seconds=1.0) as (one,),
        site.daemon("three", database, poll_seconds=1.0) as daemon,
        daemon.connect() as three,
    ):
        await create(one, persist="immediate")
        await watch(three)
        listening = await to_thread.run_sync(cluster.wait_for_backends, LISTENING, 2)
        numbers = count(1)

        async def one_more() -> bool:
            """Append at one daemon, hear of it at the other one; return whether that one hears rings."""
            number = next(numbers)
            await append(one, f"e-{number}")
            waits.clear()
            assert await told(three, 1) == [(number, f"e-{number}")]
            # A wait that was under way ends, with a look that may come too early, and then one more.
            assert len(waits) <= 2
            assert all(seconds <= 1.0 for seconds in waits)
            # A ring of its own.
            await three.call("state/set", namespace="notes", key="at", value=number)
            stats = await three.call("server/stats")
            hears: bool = stats["database"]["notifications"]
            return hears

        assert await one_more()
        with cluster.stopped(listening):
            while await one_more():
                pass
        while not await one_more():
            pass
