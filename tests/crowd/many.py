"""The cost of many connections that watch one session; each of them must get every event."""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from tests.crowd.cast import Broken, Watcher, Writer, drive, stored_digest
from tests.crowd.stuck import resident_kib
from tests.processes.harness.daemon import Daemon, running

__all__ = ["Found", "watch"]

SESSION: Final = "session-many"
WINDOW: Final = 16
SIZE: Final = 100


class Found(Struct, frozen=True):
    """The cost of a run. `demotions` counts the subscribers that fell behind and were replayed."""

    connections: int
    events: int
    seconds: float
    idle_kib: float
    subscribed_kib: float
    watched_kib: float
    demotions: int


class _Hub(Struct):
    subscribers: int
    demotions: int


class _Session(Struct):
    hub: _Hub


class _Stats(Struct):
    sessions: dict[str, _Session]


def watch(connections: int, appends: int) -> Found:
    """Run subscribers and appends. Raises Broken for a missing, duplicate or late event."""
    with tempfile.TemporaryDirectory(prefix="sd-") as folder:
        place = Path(folder)
        with running(Daemon(place / "s", place / "data")) as daemon, ExitStack() as stack:
            return _watch(daemon, stack, connections, appends)


def _watch(daemon: Daemon, stack: ExitStack, connections: int, appends: int) -> Found:
    daemon.connect().close()
    control = stack.enter_context(Watcher(daemon.socket_path, 0))
    control.ask("session/create", cwd="/p", session_id=SESSION, persist="immediate")
    before = resident_kib(daemon.pid, "VmRSS")
    watchers = [
        stack.enter_context(Watcher(daemon.socket_path, appends)) for _ in range(connections)
    ]
    for watcher in watchers:
        watcher.ask("server/ping")
    idle = resident_kib(daemon.pid, "VmRSS")
    for watcher in watchers:
        watcher.ask("session/subscribe", session_id=SESSION)
    subscribed = resident_kib(daemon.pid, "VmRSS")
    writer = stack.enter_context(
        Writer(daemon.socket_path, SESSION, "w", count=appends, size=SIZE, window=WINDOW)
    )
    start = time.monotonic()
    writer.begin()
    drive([writer, *watchers])
    seconds = time.monotonic() - start
    (file,) = daemon.files(SESSION)
    if {watcher.digest for watcher in watchers} != {stored_digest(file)}:
        raise Broken("what they were told is not what is stored")
    for watcher in watchers:
        # Nothing comes behind the last one, not even to somebody who was replayed.
        watcher.ask("session/flush", session_id=SESSION)
    hub = msgspec.json.decode(control.ask("server/stats"), type=_Stats).sessions[SESSION].hub
    if hub.subscribers != connections:
        raise Broken(f"{connections} watched, {hub.subscribers} are left")
    after = resident_kib(daemon.pid, "VmRSS")
    return Found(
        connections=connections,
        events=sum(watcher.seq for watcher in watchers),
        seconds=seconds,
        idle_kib=(idle - before) / connections,
        subscribed_kib=(subscribed - before) / connections,
        watched_kib=(after - before) / connections,
        demotions=hub.demotions,
    )
