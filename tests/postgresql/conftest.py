"""A cluster for all tests of this folder; without PostgreSQL they are skipped, but never in CI."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.postgresql.cluster import Cluster, programs
from tests.postgresql.sharing_daemon import SharingDaemon
from tests.postgresql.site import PostgresqlSite
from tests.processes.conftest import sessiond_program

__all__ = ["Findings", "sessiond_program"]

if TYPE_CHECKING:
    from sessiond.postgresql.database import PostgresqlDatabase

Findings = Callable[..., dict[str, str | None]]

_schemas = count(1)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Return a running server."""
    found = programs()
    if found is None:
        assert os.environ.get("CI") != "true", "PostgreSQL is not installed"
        pytest.skip("PostgreSQL is not installed")
    made = Cluster(found)
    try:
        made.start()
        yield made
    finally:
        made.end()


@pytest.fixture
def own_cluster(cluster: Cluster) -> Iterator[Cluster]:
    """Return a server that the test may kill."""
    del cluster  # skips, or fails, without PostgreSQL
    found = programs()
    assert found is not None
    made = Cluster(found)
    made.start()
    yield made
    made.end()


@pytest.fixture
def schema() -> str:
    """Return the name of a schema that no other test has."""
    return f"test_{next(_schemas)}"


@pytest.fixture
def connect(cluster: Cluster, schema: str) -> Iterator[Callable[[], PostgresqlDatabase]]:
    """Return a function that connects one more daemon to the schema."""
    # The tests are collected where the driver is not installed.
    from sessiond.postgresql.database import PostgresqlDatabase

    made: list[PostgresqlDatabase] = []

    def one_more() -> PostgresqlDatabase:
        made.append(PostgresqlDatabase(cluster.dsn(), schema))
        return made[-1]

    yield one_more
    for database in made:
        database.close()


@pytest.fixture
def database(connect: Callable[[], PostgresqlDatabase]) -> PostgresqlDatabase:
    """Return a connection to a schema of its own."""
    return connect()


@pytest.fixture
def site(
    tmp_path: Path, connect: Callable[[], PostgresqlDatabase], cluster: Cluster, schema: str
) -> PostgresqlSite:
    """Return a schema for several daemons."""
    return PostgresqlSite(tmp_path.resolve(), connect, cluster, schema)


@pytest.fixture
def findings(sessiond_program: str) -> Findings:
    """Return a function that returns what doctor says of the database, or of something else, and what to do."""

    def find(
        daemon: SharingDaemon, check: str = "database", **settings: str
    ) -> dict[str, str | None]:
        run = subprocess.run(
            [sessiond_program, "doctor", "--json"],
            env={**daemon.environment, **settings},
            capture_output=True,
            text=True,
        )
        assert run.returncode in {0, 1}, run.stderr
        checks: list[dict[str, Any]] = json.loads(run.stdout)["checks"]
        found = [one for one in checks if one["check"] == check]
        assert check != "database" or all(one["ok"] == (one.get("next") is None) for one in found)
        return {one["what"]: one.get("next") for one in found}

    return find
