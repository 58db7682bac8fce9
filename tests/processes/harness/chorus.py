"""Eight processes that append, five that watch, and somebody who ends the daemon under them.

Law: nobody is told of an ending. The conductor counts answers (a byte each on one
pipe), ends the daemon when enough have come, and starts it again.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from tests.processes.actor import END
from tests.processes.harness.daemon import Daemon
from tests.processes.harness.history import Acknowledged, Seen, faults, stored_in

__all__ = ["Chorus", "Result"]

WRITERS: Final = [*(f"one-{n}" for n in range(6)), "tasks-6", "tasks-7"]
WATCHERS: Final = ["one-a", "one-b", "tasks-c", "restless-d"]
LATE: Final = "one-late"
ACTOR: Final = [sys.executable, "-m", "tests.processes.actor"]
REPOSITORY: Final = Path(__file__).resolve().parents[3]
PATIENCE_SECONDS: Final = 30

R = TypeVar("R")


class Result(Struct, frozen=True):
    """What was wrong, and how much it was."""

    faults: list[str]
    entries: int
    duplicates: int
    torn: int


class Chorus:
    """All of them around one session."""

    def __init__(self, daemon: Daemon, folder: Path) -> None:
        self._daemon = daemon
        self._folder = folder
        with daemon.connect() as link:
            self._session_id = link.ask("session/create", cwd="/project")["session"]["id"]
        self._answers, answering = os.pipe()
        staying, self._stop = os.pipe()
        try:
            self._writers = [
                self._actor("append", name, stdin=staying, stdout=answering) for name in WRITERS
            ]
        finally:
            os.close(answering)
            os.close(staying)
        self._watchers = {name: self._actor("watch", name) for name in WATCHERS}

    def _actor(
        self, act: str, name: str, *, stdin: int = subprocess.DEVNULL, stdout: int | None = None
    ) -> subprocess.Popen[bytes]:
        where = [str(self._daemon.socket_path), self._session_id]
        command = [*ACTOR, act, *where, name, str(self._log(act, name))]
        return subprocess.Popen(command, cwd=REPOSITORY, stdin=stdin, stdout=stdout)

    def _log(self, act: str, name: str) -> Path:
        return self._folder / f"{act}-{name}"

    def join_late(self) -> None:
        """One more subscriber, which starts at the beginning of the log."""
        self._watchers[LATE] = self._actor("watch", LATE)

    def hear(self, answers: int) -> None:
        """Until so many more appends were answered."""
        while answers > 0:
            heard = len(os.read(self._answers, answers))
            assert heard, "every writer has ended"
            answers -= heard

    def end_daemon(self, how: signal.Signals) -> int:
        """End the daemon and start it again at once; gives its exit code."""
        code = self._daemon.end(how)
        assert code == -signal.SIGKILL or not self._daemon.socket_path.exists()
        self._daemon.start()
        return code

    def duplicates(self) -> int:
        """How many answers so far said that an earlier try was stored: its answer was lost."""
        return sum(append.duplicate for append in self._acknowledged())

    def _acknowledged(self) -> list[Acknowledged]:
        return [
            append for name in WRITERS for append in _read(self._log("append", name), Acknowledged)
        ]

    def finish(self) -> Result:
        """Let the writers end, then the subscribers; compare what they were told with the file."""
        os.close(self._stop)
        self._stop = -1
        while os.read(self._answers, 1 << 16):
            pass
        for writer in self._writers:
            assert writer.wait(PATIENCE_SECONDS) == 0
        with self._daemon.connect() as link:
            last = link.say(self._session_id, END)["entries"][0]
        until = time.monotonic() + PATIENCE_SECONDS
        waiting = [name for name, one in self._watchers.items() if not _ended(one, until)]
        (path,) = self._daemon.files(self._session_id)
        assert path.parent.name == "sessions"
        told = Acknowledged("us", (END,), (last["seq"],), (last["id"],))
        result = self._compare(path, told)
        result.faults.extend(f"{name} still waits for the end" for name in waiting)
        return result

    def _compare(self, path: Path, last: Acknowledged) -> Result:
        acknowledged = self._acknowledged()
        seen = {name: _read(self._log("watch", name), Seen) for name in self._watchers}
        stored, found = stored_in(path.read_bytes())
        return Result(
            faults=found + faults(stored, [*acknowledged, last], seen),
            entries=len(stored),
            duplicates=sum(append.duplicate for append in acknowledged),
            torn=len(list(path.parent.parent.rglob("*.torn-*"))),
        )

    def dismiss(self) -> None:
        """End whoever still runs, however the test went."""
        for fd in (self._answers, self._stop):
            if fd >= 0:
                os.close(fd)
        for actor in (*self._writers, *self._watchers.values()):
            if actor.poll() is None:
                actor.kill()
            actor.wait()


def _ended(watcher: subprocess.Popen[bytes], until: float) -> bool:
    try:
        assert watcher.wait(max(0.0, until - time.monotonic())) == 0
    except subprocess.TimeoutExpired:
        return False
    return True


def _read(path: Path, kind: type[R]) -> Sequence[R]:
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    return [msgspec.json.decode(line, type=kind) for line in lines]
