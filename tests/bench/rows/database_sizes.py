"""Row 19: large sessions and many sessions in PostgreSQL, against files of the same content."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final

from msgspec import Raw, Struct

from tests.bench.harness.appends import ONE_BY_ONE
from tests.bench.harness.bench import Bench, Pair, Row, figure
from tests.bench.harness.compacted import compacted_native
from tests.bench.harness.database import on_database, server
from tests.bench.harness.errors import BenchError, Missing
from tests.bench.harness.figures import at_most
from tests.bench.harness.load import pipelined
from tests.bench.harness.opening import opened_by, ours_opens
from tests.bench.harness.results import Contender, RowResult
from tests.bench.harness.rounds import Entrant, Sample
from tests.bench.harness.servers import SESSIOND, Daemon, new_home
from tests.bench.harness.workload import SESSION_ID, append_frames, messages
from tests.postgresql.cluster import Cluster

__all__ = ["ROW"]

ENTRIES, ENTRIES_QUICK, ENTRIES_FULL = 100_000, 20_000, 1_000_000
SESSIONS: Final = 10_000
APPENDS: Final = 600
LINES_AT_ONCE: Final = 1000
FILES: Final = Contender("sessiond on files", SESSIOND.version)
EMPTY: Final = Contender("an empty session", SESSIOND.version)


class _Listed(Struct):
    sessions: list[Raw]
    next_cursor: str | None = None


def fill(cluster: Cluster, source: Path, session_id: str) -> None:
    """Store the lines of a file as a session of this id, as a copy is stored."""
    # The driver is an extra, and this row is measured only where a server is.
    from sessiond.postgresql.database import PostgresqlDatabase

    def pieces() -> Iterator[list[bytes]]:
        with source.open("rb") as file:
            while lines := [line.rstrip(b"\n") for line in islice(file, LINES_AT_ONCE)]:
                yield lines

    database = PostgresqlDatabase(cluster.dsn(), "sessiond")
    try:
        database.create(session_id, "epoch-of-the-bench", pieces(), "placed")
    finally:
        database.close()


def opens(bench: Bench, cluster: Cluster, *, closed_before: bool) -> Sample:
    """Measure what `ours_opens` measures, with a daemon that was just started on the database."""
    home = new_home(bench.folder)
    if closed_before:
        with on_database(bench, cluster, home) as earlier, earlier.connect() as link:
            earlier.open(link, SESSION_ID)
    with on_database(bench, cluster, home) as ours:
        sample, _ = opened_by(ours)
    return sample


def appends_to(ours: Daemon, session_id: str, bodies: list[bytes]) -> Sample:
    """Append one by one to a session that is open."""
    with ours.connect() as link:
        before = ours.open(link, session_id).seq
        timing = pipelined(link, append_frames(bodies).of_session(session_id), ONE_BY_ONE.in_flight)
        after = ours.open(link, session_id).seq
    if after - before != len(bodies):
        raise BenchError(f"{after - before} of {len(bodies)} entries are there")
    return {"us": 1e6 / timing.rate}


def lists(ours: Daemon, count: int) -> Sample:
    """List all sessions, page by page."""
    found, cursor = 0, None
    with ours.connect() as link:
        start = time.perf_counter()
        while True:
            page = link.ask("session/list", {"limit": 1000, "cursor": cursor}, _Listed)
            found, cursor = found + len(page.sessions), page.next_cursor
            if cursor is None:
                break
        seconds = time.perf_counter() - start
    if found < count:
        raise BenchError(f"{found} of {count} sessions are listed")
    return {"ms": seconds * 1000}


def measure(bench: Bench, result: RowResult) -> None:
    """Measure opening, growth and lists."""
    entries = ENTRIES_QUICK if bench.quick else ENTRIES_FULL if bench.full else ENTRIES
    with ExitStack() as stack:
        try:
            cluster = stack.enter_context(server(bench))
        except Missing as missing:
            result.missing.append(str(missing))
            return
        stack.enter_context(on_database(bench, cluster))  # makes the tables
        bench.tell(f"a session of {entries:,} entries")
        source = compacted_native(bench.cache, new_home(bench.folder), entries)
        fill(cluster, source, SESSION_ID)
        for closed_before in (False, True):
            case = f"open {entries:,} entries{' again' if closed_before else ''}"
            ours = partial(opens, bench, cluster, closed_before=closed_before)
            files = partial(ours_opens, bench, entries, closed_before=closed_before)
            measured = bench.contest(case, [Entrant("database", ours), Entrant("files", files)])
            pair = Pair("database", "files", FILES)
            result.figures.append(figure(measured, pair, "ms", case=case, goal=at_most(2)))
        _growth(bench, result, stack.enter_context(on_database(bench, cluster)), entries)
        _lists(bench, result, cluster)


def _growth(bench: Bench, result: RowResult, ours: Daemon, entries: int) -> None:
    bodies = messages(bench.mixes[0], bench.scaled(APPENDS))
    with ours.connect() as link:
        empty = ours.create(link, "immediate").id
    measured = bench.contest(
        "growth",
        [
            Entrant("large", partial(appends_to, ours, SESSION_ID, bodies)),
            Entrant("empty", partial(appends_to, ours, empty, bodies)),
        ],
    )
    case = f"an append to {entries:,} entries"
    pair = Pair("large", "empty", EMPTY)
    result.figures.append(figure(measured, pair, "us", case=case, goal=at_most(1.1)))


def _lists(bench: Bench, result: RowResult, cluster: Cluster) -> None:
    count = SESSIONS // 10 if bench.quick else SESSIONS
    bench.tell(f"{count:,} sessions")
    with on_database(bench, cluster) as ours, ours.connect() as link:
        for _ in range(count):
            ours.create(link, "immediate")
    with on_database(bench, cluster) as fresh:
        first = lists(fresh, count)
        measured = bench.contest("list", [Entrant("list", partial(lists, fresh, count))])
    alone = Pair("list", None, FILES)
    case = f"list {count:,} sessions"
    result.figures.append(figure(measured, alone, "ms", case=case))
    scan = {"first": {"ms": [first["ms"]]}}
    result.figures.append(
        figure(scan, Pair("first", None, FILES), "ms", case=f"{case}, first scan")
    )


ROW = Row(19, "large and many sessions in PostgreSQL, against files", measure)
