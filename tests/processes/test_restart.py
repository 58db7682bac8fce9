"""A restart under load: no answer is lost, nothing is stored twice, everybody resumes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from sessiond_client import EntryEvent, connect_blocking
from tests.processes.harness.machine import Machine

pytestmark = pytest.mark.slow

SESSION = "session-a"
WRITERS, APPENDS = 8, 60
WATCHERS = 4
RESTARTS = 2
TOTAL = WRITERS * APPENDS


def write(machine: Machine, writer: int, went_on: Callable[[], object]) -> list[int]:
    """The seqs that were acknowledged."""
    seqs = []
    with connect_blocking(machine.socket) as client:
        for number in range(APPENDS):
            message = {"role": "user", "content": f"{writer}-{number}"}
            seqs.append(client.append(SESSION, message=message).seq)
            went_on()
    return seqs


def watch(machine: Machine) -> list[tuple[int, str]]:
    """Every entry as it was seen, in order."""
    seen: list[tuple[int, str]] = []
    with (
        connect_blocking(machine.socket) as client,
        client.subscribe(SESSION, after=0) as events,
    ):
        for event in events:
            if isinstance(event, EntryEvent):
                seen.append((event.seq, event.entry["message"]["content"]))
                if len(seen) == TOTAL:
                    break
    return seen


def test_writers_and_watchers_come_through_restarts(machine: Machine) -> None:
    machine.tell("start")
    with connect_blocking(machine.socket) as client:
        client.create("/p", session_id=SESSION, persist="immediate")
    # The next restart is not before everybody is in the midst of writing again.
    under_way = threading.Semaphore(0)
    with ThreadPoolExecutor(WRITERS + WATCHERS) as threads:
        watchers = [threads.submit(watch, machine) for _ in range(WATCHERS)]
        writers: list[Future[list[int]]] = [
            threads.submit(write, machine, number, under_way.release) for number in range(WRITERS)
        ]
        pids = set()
        for _ in range(RESTARTS):
            for _ in range(TOTAL // (RESTARTS + 2)):
                assert under_way.acquire(timeout=30)
            restarted = machine.tell("restart")
            assert restarted["stopped"]
            pids.add(restarted["pid"])
        acknowledged = sorted(seq for writer in writers for seq in writer.result(60))
        seen = [watcher.result(60) for watcher in watchers]
    assert len(pids) == RESTARTS
    assert acknowledged == list(range(1, TOTAL + 1))
    for one in seen:
        assert [seq for seq, _ in one] == acknowledged
        assert one == seen[0]
    with machine.connect() as link:
        assert link.contents(SESSION) == [content for _, content in seen[0]]
    assert len({content for _, content in seen[0]}) == TOTAL
