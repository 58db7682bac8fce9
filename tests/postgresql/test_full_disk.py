"""A disk of the server that is really full: refused, nothing half stored, and no restart afterwards."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pytest

from tests.kit.link import Link, Refused
from tests.kit.patience import soon_answered
from tests.postgresql.cluster import Cluster, own, programs
from tests.postgresql.sharing_daemon import SharingDaemon
from tests.processes.conftest import Mount, mounted
from tests.processes.harness.daemon import running

__all__ = ["mounted"]

pytestmark = [pytest.mark.slow, pytest.mark.search]

SESSION: Final = "my-session"
# Random digits, which the server does not shrink.
LARGE: Final = 40_000
ATOM: Final = 3


@pytest.fixture
def disk() -> Iterator[Path]:
    """Return a folder that the user of servers reaches; what is mounted there ends before the folder."""
    folder = Path(tempfile.mkdtemp(prefix="sd-disk-"))
    yield folder
    folder.rmdir()


@contextmanager
def on_small_disk(disk: Path, what: str) -> Generator[Cluster]:
    """Run a server whose data, or whose write-ahead log, is on this disk."""
    found = programs()
    assert found is not None
    own(disk)
    cluster = (
        Cluster(found, data=disk / "data") if what == "data" else Cluster(found, log=disk / "log")
    )
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.end()


def fill(disk: Path) -> Path:
    """Write a file that takes all that is free on a disk; return the file."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(b"\0" * 4096):
            pass
    return filler


def atom(number: int) -> list[dict[str, Any]]:
    """Return entries that are stored together."""
    return [
        {
            "type": "message",
            "id": f"e-{number}-{part}",
            "message": {"role": "user", "content": os.urandom(LARGE // 2).hex()},
        }
        for part in range(ATOM)
    ]


def ids(link: Link) -> list[str]:
    """Return the ids of all entries of the session."""
    found: list[str] = []
    after = 0
    while True:
        page = link.ask("session/entries", session_id=SESSION, after_seq=after)
        found += [row["entry"]["id"] for row in page["entries"]]
        if page["next_seq"] is None:
            return found
        after = page["next_seq"]


def named(stored: list[int]) -> list[str]:
    return [f"e-{number}-{part}" for number in stored for part in range(ATOM)]


def until_refused(link: Link, stored: list[int]) -> tuple[list[dict[str, Any]], Refused]:
    """Append until the disk is full; return the entries that were refused, and the refusal."""
    for number in range(len(stored), 10_000):
        entries = atom(number)
        try:
            link.ask("append", session_id=SESSION, entries=entries)
        except Refused as refusal:
            return entries, refusal
        stored.append(number)
    raise AssertionError("the disk is not full")


def require_consistent(cluster: Cluster, entries: int) -> None:
    """Require that the row counts the lines that are there: the header, and so many entries."""
    assert cluster.sql(
        "SELECT sessions.seq, count(*) FROM sessiond.sessions, sessiond.lines GROUP BY sessions.seq"
    ) == [[str(entries), str(entries + 1)]]


def test_appends_to_a_full_disk_are_refused_whole_and_go_on_when_there_is_room(
    tmp_path: Path, disk: Path, mounted: Mount
) -> None:
    mounted(disk, "size=160m")
    with on_small_disk(disk, "data") as cluster:
        daemon = SharingDaemon(cluster.folder / "s.sock", tmp_path / "home", cluster.folder)
        with running(daemon), daemon.connect() as link, daemon.connect() as other:
            link.ask("session/create", session_id=SESSION, cwd="/p", persist="immediate")
            stored: list[int] = []
            link.ask("append", session_id=SESSION, entries=atom(0))
            stored.append(0)
            # What is in memory of the server is on the disk before.
            cluster.sql("CHECKPOINT")
            filler = fill(disk)
            refused, refusal = until_refused(link, stored)
            assert (refusal.kind, refusal.data["retryable"]) == ("storage_error", True)
            assert refusal.data["errno"] == "ENOSPC"
            assert "disk is full" in str(refusal)
            # Reads go on, also at a client that asks for the first time, and nothing is half stored.
            for reader in (link, other):
                assert ids(reader) == named(stored)
            require_consistent(cluster, len(stored) * ATOM)
            again, _ = until_refused(other, stored)
            del again
            filler.unlink()
            answer = link.ask("append", session_id=SESSION, entries=refused)
            assert answer["duplicate"] is False
            assert link.ask("append", session_id=SESSION, entries=refused)["duplicate"] is True
            stored.append(len(stored))
            assert ids(other) == named(stored)
            require_consistent(cluster, len(stored) * ATOM)


def test_a_server_that_ends_for_its_full_log_loses_and_doubles_nothing(
    tmp_path: Path, disk: Path, mounted: Mount
) -> None:
    mounted(disk, "size=24m")
    with on_small_disk(disk, "log") as cluster:
        cluster.configure(max_wal_size="4", min_wal_size="2")
        daemon = SharingDaemon(cluster.folder / "s.sock", tmp_path / "home", cluster.folder)
        with running(daemon), daemon.connect() as link, daemon.connect() as other:
            link.ask("session/create", session_id=SESSION, cwd="/p", persist="immediate")
            stored: list[int] = []
            link.ask("append", session_id=SESSION, entries=atom(0))
            stored.append(0)
            filler = fill(disk)
            # The server ends all connections: the refusal of an append says that it may be stored.
            refused, refusal = until_refused(link, stored)
            assert (refusal.kind, refusal.data["retryable"]) == ("storage_error", True)
            shown = ids(other)
            assert shown[: len(stored) * ATOM] == named(stored)
            filler.unlink()
            cluster.revive()
            soon_answered(
                lambda: link.ask("append", session_id=SESSION, entries=refused),
                lambda error: isinstance(error, Refused) and error.kind == "storage_error",
            )
            stored.append(len(stored))
            assert ids(other) == named(stored)
            require_consistent(cluster, len(stored) * ATOM)
            assert "PANIC" in cluster.said()
