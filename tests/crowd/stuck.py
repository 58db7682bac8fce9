"""The cost of a stopped subscriber (SIGSTOP) for the writers and the daemon.

Each run has a daemon of its own, so that runs share no memory and no pages. The `replaying` of
server/stats and the state of the process prove that the subscriber was stuck. After SIGCONT its
digest of all entries must be that of the file.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from tests.crowd.cast import Broken, Watcher, Writer, drive, stored_digest
from tests.crowd.subscriber import Heard
from tests.processes.harness.daemon import Daemon, running

__all__ = ["Load", "Outcome", "resident_kib", "run"]

SESSION: Final = "session-stuck"
WRITERS: Final = 8
WINDOW: Final = 32
PATIENCE_SECONDS: Final = 600
_REPOSITORY: Final = Path(__file__).resolve().parents[2]


class Load(Struct, frozen=True):
    """The number of entries to append, and their size."""

    entries: int
    size: int


class Outcome(Struct, frozen=True):
    """The outcome of a run: the writers' time, and the daemon's use of resources meanwhile."""

    seconds: float
    cpu_seconds: float
    """CPU time of the daemon, which other load on the machine hardly changes."""
    peak_kib: int
    catch_up_seconds: float | None = None
    peak_after_kib: int | None = None
    heard: Heard | None = None


class _Hub(Struct):
    subscribers: int
    replaying: int


class _Session(Struct):
    hub: _Hub


class _Stats(Struct):
    sessions: dict[str, _Session]


def run(load: Load, *, stuck: bool) -> Outcome:
    """Run a daemon, the writers, and with `stuck` a subscriber that is stopped meanwhile."""
    with tempfile.TemporaryDirectory(prefix="sd-") as folder:
        place = Path(folder)
        with running(Daemon(place / "s", place / "data")) as daemon:
            daemon.connect().close()
            with Watcher(daemon.socket_path, 0) as control:
                asked = {"cwd": "/p", "session_id": SESSION, "persist": "immediate"}
                control.ask("session/create", **asked)
                return _with_stuck(daemon, control, load) if stuck else _without(daemon, load)


def _without(daemon: Daemon, load: Load) -> Outcome:
    seconds, cpu_seconds = _write(daemon, load)
    return Outcome(seconds, cpu_seconds, resident_kib(daemon.pid, "VmHWM"))


def _with_stuck(daemon: Daemon, control: Watcher, load: Load) -> Outcome:
    command = [sys.executable, "-m", "tests.crowd.subscriber", str(daemon.socket_path), SESSION]
    with subprocess.Popen(
        [*command, str(load.entries)], cwd=_REPOSITORY, stdout=subprocess.PIPE
    ) as subscriber:
        try:
            assert subscriber.stdout is not None
            if subscriber.stdout.readline() != b"ready\n":
                raise Broken("the subscriber did not subscribe")
            os.kill(subscriber.pid, signal.SIGSTOP)
            seconds, cpu_seconds = _write(daemon, load)
            peak = resident_kib(daemon.pid, "VmHWM")
            _require_stuck(control)
            start = time.monotonic()
            os.kill(subscriber.pid, signal.SIGCONT)
            said, _ = subscriber.communicate(timeout=PATIENCE_SECONDS)
        finally:
            subscriber.kill()
    heard = msgspec.json.decode(said, type=Heard)
    (file,) = daemon.files(SESSION)
    if heard.entries != load.entries or heard.digest != stored_digest(file):
        raise Broken(f"what it was told is not what is stored: {heard}")
    after = resident_kib(daemon.pid, "VmHWM")
    return Outcome(seconds, cpu_seconds, peak, time.monotonic() - start, after, heard)


def _write(daemon: Daemon, load: Load) -> tuple[float, float]:
    """Make all appends; return the time to the last acknowledgement and the daemon's CPU time."""
    share, odd = divmod(load.entries, WRITERS)
    with ExitStack() as stack:
        writers = [
            stack.enter_context(
                Writer(
                    daemon.socket_path,
                    SESSION,
                    f"w{number}",
                    count=share + (number < odd),
                    size=load.size,
                    window=WINDOW,
                )
            )
            for number in range(WRITERS)
        ]
        cpu, start = _cpu_seconds(daemon.pid), time.monotonic()
        for writer in writers:
            writer.begin()
        drive(writers)
        return time.monotonic() - start, _cpu_seconds(daemon.pid) - cpu


def _cpu_seconds(pid: int) -> float:
    fields = (Path("/proc") / str(pid) / "stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _require_stuck(control: Watcher) -> None:
    hub = msgspec.json.decode(control.ask("server/stats"), type=_Stats).sessions[SESSION].hub
    if (hub.subscribers, hub.replaying) != (1, 1):
        raise Broken(f"the subscriber was not stuck: {hub}")


def resident_kib(pid: int, name: str) -> int:
    """VmRSS, or VmHWM for the largest so far."""
    for line in (Path("/proc") / str(pid) / "status").read_text("ascii").split("\n"):
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    raise Broken(f"there is no {name}")
