"""Flushes of the server's log: how tests tell a commit that waits for the disk from one without a wait."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.postgresql.cluster import Cluster

ROUNDS = 9


@pytest.fixture
def lazy(cluster: Cluster) -> Iterator[None]:
    """Let the server's background write its log only every ten seconds."""
    cluster.configure(wal_writer_delay="10000", wal_writer_flush_after="12800")
    yield
    cluster.configure(wal_writer_delay=None, wal_writer_flush_after=None)


def is_flushed(cluster: Cluster, act: Callable[[], object]) -> bool:
    """Call ``act`` nine times, and return whether its log was on the disk behind most of the calls.

    The server writes and flushes records of its own every few seconds, so one call proves nothing.
    """
    found = 0
    for _ in range(ROUNDS):
        act()
        found += is_all_flushed(cluster)
    return found > ROUNDS // 2


def is_all_flushed(cluster: Cluster) -> bool:
    ((answer,),) = cluster.sql("SELECT pg_current_wal_flush_lsn() >= pg_current_wal_insert_lsn()")
    return answer == "t"
