"""A PostgreSQL server for benchmarks, daemons on it, and a bare writer of the same lines."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib.metadata import PackageNotFoundError, version
from itertools import count
from pathlib import Path
from typing import Final

from tests.bench.harness.bench import Bench
from tests.bench.harness.errors import BenchError, Missing
from tests.bench.harness.machine import on_core
from tests.bench.harness.results import Contender
from tests.bench.harness.rounds import Sample
from tests.bench.harness.servers import COMMAND, Daemon, daemon
from tests.postgresql.cluster import Cluster, programs

__all__ = ["bare_inserts", "on_database", "psycopg_contender", "server"]

DRIVER: Final = "psycopg"
_numbers = count(1)


def psycopg_contender() -> Contender:
    """Return the bare driver with its version."""
    try:
        found = version(DRIVER)
    except PackageNotFoundError:
        found = "(not installed)"
    return Contender("bare psycopg inserts", found)


@contextmanager
def server(bench: Bench) -> Iterator[Cluster]:
    """Run a server of its own, which the kernel places as if it had a machine of its own. Raises Missing."""
    found = programs()
    if found is None:
        raise Missing("PostgreSQL", "initdb is not installed")
    try:
        version(DRIVER)
    except PackageNotFoundError as error:
        reason = f"{DRIVER} is not installed (dependency group extras)"
        raise Missing("PostgreSQL", reason) from error
    made = Cluster(found)
    try:
        with on_core(bench.cores.every):
            made.start()
        made.sql("CREATE TABLE bare (run bigint, seq bigint, line bytea, PRIMARY KEY (run, seq))")
        yield made
    finally:
        made.end()


def on_database(
    bench: Bench,
    cluster: Cluster,
    home: Path | None = None,
    *,
    is_one_of_several: bool = False,
) -> AbstractContextManager[Daemon]:
    """Run a daemon whose sessions are in the database of a server.

    Daemons of several machines share no core, so the kernel places one of several.
    """
    core = bench.cores.every if is_one_of_several else bench.cores.server
    address = f"postgresql:///postgres?host={cluster.folder}&user=tests"
    command = ("env", f"SESSIOND_STORE={address}", *COMMAND)
    return daemon(bench.folder, core, home, command=command)


def bare_inserts(cluster: Cluster, lines: Sequence[bytes], at_once: int) -> Sample:
    """Insert lines durably, so many in one transaction and one round trip."""
    import psycopg  # an extra: this module is also read where the driver is not installed

    run = next(_numbers)
    statement = "INSERT INTO bare VALUES (%s, %s, %s)"
    with psycopg.connect(cluster.dsn(), autocommit=True, prepare_threshold=0) as connection:
        start = time.perf_counter()
        for first in range(0, len(lines), at_once):
            rows = [
                (run, seq, lines[seq]) for seq in range(first, min(first + at_once, len(lines)))
            ]
            if at_once == 1:
                connection.execute(statement, rows[0])
            else:
                with connection.pipeline(), connection.transaction():
                    connection.cursor().executemany(statement, rows)
        seconds = time.perf_counter() - start
        found = connection.execute("SELECT count(*) FROM bare WHERE run = %s", [run]).fetchone()
    if found != (len(lines),):
        raise BenchError(f"{found} of {len(lines)} rows are there")
    return {"rate": len(lines) / seconds}
