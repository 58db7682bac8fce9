"""A restart under load: no answer is lost, no entry is stored twice, all subscribers resume."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sessiond_client import EntryEvent, connect_blocking
from tests.kit.patience import PATIENCE_SECONDS
from tests.kit.sessions import SESSION, stored_message
from tests.processes.harness.daemon import Daemon, running
from tests.processes.harness.machine import Machine

pytestmark = pytest.mark.slow

WRITERS = 8
WATCHERS = 4
RESTARTS = 3
APPENDS_BETWEEN = 120
END = "the end"


def write(
    machine: Machine, writer: int, went_on: Callable[[], object], stop: threading.Event
) -> list[int]:
    """Append until told to stop; return the acknowledged seqs."""
    seqs: list[int] = []
    with connect_blocking(machine.socket) as client:
        while not stop.is_set():
            message = {"role": "user", "content": f"{writer}-{len(seqs)}"}
            seqs.append(client.append(SESSION, message=message).seq)
            went_on()
    return seqs


def watch(machine: Machine) -> list[tuple[int, str]]:
    """Every entry up to the end as it was seen, in order."""
    seen: list[tuple[int, str]] = []
    with (
        connect_blocking(machine.socket) as client,
        client.subscribe(SESSION, after=0) as events,
    ):
        for event in events:
            if isinstance(event, EntryEvent):
                seen.append((event.seq, event.entry["message"]["content"]))
                if seen[-1][1] == END:
                    break
    return seen


def watch_with_pauses(machine: Machine, may_resume: threading.Semaphore) -> list[tuple[int, str]]:
    """Watch without the client library, reconnecting after other clients have written."""
    seen: list[tuple[int, str]] = []
    after: dict[str, Any] = {"seq": 0}
    while True:
        with machine.connect() as link:
            asked = link.ask("session/subscribe", session_id=SESSION, after=after)
            assert "replaced" not in asked
            while (line := link.line()) is not None:
                event = json.loads(line)
                if event["method"] == "session/event":
                    entry = event["params"]["entry"]
                    after = {"seq": event["params"]["seq"], "entry_id": entry["id"]}
                    seen.append((after["seq"], entry["message"]["content"]))
                    if seen[-1][1] == END:
                        return seen
        assert may_resume.acquire(timeout=PATIENCE_SECONDS)


def test_writers_and_watchers_come_through_restarts(machine: Machine) -> None:
    machine.tell("start")
    with connect_blocking(machine.socket) as client:
        client.create("/p", session_id=SESSION, persist="immediate")
    # The next restart is not before everybody is in the midst of writing again.
    stop = threading.Event()
    under_way, may_resume = threading.Semaphore(0), threading.Semaphore(0)
    with ThreadPoolExecutor(WRITERS + WATCHERS + 1) as threads:
        watchers = [threads.submit(watch, machine) for _ in range(WATCHERS)]
        watchers.append(threads.submit(watch_with_pauses, machine, may_resume))
        writers: list[Future[list[int]]] = [
            threads.submit(write, machine, number, under_way.release, stop)
            for number in range(WRITERS)
        ]
        pids = set()
        for _ in range(RESTARTS):
            for _ in range(APPENDS_BETWEEN):
                assert under_way.acquire(timeout=PATIENCE_SECONDS)
            restarted = machine.tell("restart")
            assert restarted["stopped"]
            pids.add(restarted["pid"])
            # What was answered before does not count.
            while under_way.acquire(blocking=False):
                pass
            for _ in range(WRITERS):
                assert under_way.acquire(timeout=PATIENCE_SECONDS)
            may_resume.release()
        stop.set()
        acknowledged = sorted(seq for writer in writers for seq in writer.result(PATIENCE_SECONDS))
        with machine.connect() as link:
            last = link.say(SESSION, END)["entries"][0]["seq"]
        seen = [watcher.result(PATIENCE_SECONDS) for watcher in watchers]
    assert len(pids) == RESTARTS
    assert [*acknowledged, last] == list(range(1, last + 1))
    for one in seen:
        assert [seq for seq, _ in one] == list(range(1, last + 1))
        assert one == seen[0]
    with machine.connect() as link:
        assert link.contents(SESSION) == [content for _, content in seen[0]]
    assert len({content for _, content in seen[0]}) == last


@pytest.mark.parametrize("cut", [20, -4])
def test_the_rest_of_a_foreign_line_that_comes_after_a_kill_costs_no_line_and_no_append(
    socket_path: Path, home: Path, cut: int
) -> None:
    theirs = json.dumps(stored_message("f1", None), separators=(",", ":")).encode() + b"\n"
    with running(Daemon(socket_path, home / "data")) as daemon:
        with daemon.connect() as link:
            link.create("one")
        (path,) = daemon.files(SESSION)
        with path.open("ab", buffering=0) as file:
            file.write(theirs[:cut])
            daemon.restart(signal.SIGKILL)
            with daemon.connect() as link:
                link.say(SESSION, "two")
                file.write(theirs[cut:])
                link.say(SESSION, "three")
        daemon.restart()
        with daemon.connect() as link:
            link.say(SESSION, "four")
            info = link.ask("session/get", session_id=SESSION)["session"]
            assert (info["read_only"], info["problems"]) == (False, 1)
            assert link.contents(SESSION) == ["one", "two", "three", "four"]
