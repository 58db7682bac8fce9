"""The rows that `make bench` measures, in the order of the goals table.

A new row is one file in `rows/` and one line here.
"""

from __future__ import annotations

from typing import Final

from tests.bench.harness.bench import Row
from tests.bench.rows import (
    append_latency,
    append_rpc,
    beside_large,
    brief,
    compaction,
    context,
    database_appends,
    database_sizes,
    durable_against_disk,
    durable_against_pi,
    durable_against_sqlite,
    fanout,
    fleet,
    group_commit,
    idle,
    instrument,
    language_server,
    list_sessions,
    long_session,
    open_again,
    open_memory,
    open_session,
    watched_against_pi,
)

__all__ = ["ROWS"]

ROWS: Final[tuple[Row, ...]] = (
    instrument.ROW,
    append_rpc.ROW,
    durable_against_pi.ROW,
    durable_against_sqlite.ROW,
    durable_against_disk.ROW,
    watched_against_pi.ROW,
    append_latency.ROW,
    long_session.ROW,
    open_session.ROW,
    open_again.ROW,
    open_memory.ROW,
    context.ROW,
    compaction.ROW,
    list_sessions.ROW,
    fanout.ROW,
    group_commit.ROW,
    idle.ROW,
    brief.ROW,
    database_appends.ROW,
    database_sizes.ROW,
    language_server.ROW,
    fleet.ROW,
    beside_large.ROW,
)
