"""The real daemon in a process of its own, which a test may end in any way and start again.

Law: every process started here is ended here, by its own handle. What it says on
standard error goes to a file, which lives on over its restarts.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Final

from tests.kit.forked import Fork
from tests.kit.link import Link
from tests.kit.patience import PATIENCE_SECONDS
from tests.kit.sessions import SESSION

__all__ = ["SESSIOND", "Daemon", "running"]

SESSIOND: Final = str(Path(sys.executable).with_name("sessiond"))


class Daemon:
    """`sessiond serve` on one socket and one home."""

    forks: ClassVar[str | None] = None
    """The program of `commands_of_forks` that starts those without a program of their own."""

    def __init__(
        self,
        socket_path: Path,
        home: Path,
        *,
        program: Sequence[str] = (),
        options: Sequence[str] = (),
        log: Path | None = None,
    ) -> None:
        self.socket_path = socket_path
        self.home = home
        self.log = log or home.with_name(f"{home.name}.log")
        self._program = program
        self._words = ["serve", "--socket", str(socket_path), *options]
        self._process: subprocess.Popen[bytes] | Fork | None = None

    @property
    def environment(self) -> Mapping[str, str]:
        """Environment for processes that use the daemon's sessions."""
        return {**os.environ, "SESSIOND_HOME": str(self.home)}

    @property
    def profile(self) -> Path:
        """The folder of everything it stores."""
        return self.home / "profiles" / "default"

    @property
    def pid(self) -> int:
        """Its process."""
        assert self._process is not None
        return self._process.pid

    def start(self, *, umask: int = 0o022) -> None:
        """Start it; returns before it listens."""
        with self.log.open("ab") as log:
            if self.forks is not None and not self._program:
                self._process = Fork(
                    self.forks, self._words, self.environment, log.fileno(), umask=umask
                )
                return
            self._process = subprocess.Popen(
                [*(self._program or (SESSIOND,)), *self._words],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                umask=umask,
            )

    def signal_and_look(self, number: signal.Signals) -> int | None:
        """Send a signal; the exit code, if the process has ended already."""
        assert self._process is not None
        self._process.send_signal(number)
        return self._process.poll()

    def end(self, how: signal.Signals | None = None) -> int:
        """Send a signal, if one is named, and wait for the end; gives the exit code."""
        assert self._process is not None
        if how is not None:
            self._process.send_signal(how)
        return self._process.wait(PATIENCE_SECONDS)

    def kill(self) -> None:
        """End it by SIGKILL."""
        self.end(signal.SIGKILL)

    def restart(self, how: signal.Signals | None = signal.SIGTERM) -> None:
        """Start it again, once it has ended by a signal or as a client has asked: in order, or killed."""
        code = self.end(how)
        assert code == (-how if how is signal.SIGKILL else 0), self.said()
        self.start()

    def start_in_vain(self) -> str:
        """Start a daemon that cannot serve; return the reason, which is its last word."""
        self.start()
        try:
            assert self.end() == 1, self.said()
        finally:
            self.discard()
        reason: str = json.loads(self.said().splitlines()[-1])["reason"]
        return reason

    def connect(self) -> Link:
        """Return a new connection, as soon as the daemon listens."""
        return Link(self.socket_path, alive=self.require_running)

    def require_running(self) -> None:
        """Fail with the end of its log if the daemon has ended."""
        assert self._process is not None
        code = self._process.poll()
        assert code is None, f"the daemon ended with {code}: {self.said()[-1000:]}"

    def said(self) -> str:
        """Its standard error and standard output, over all its lives."""
        return self.log.read_text("utf-8")

    def files(self, session_id: str) -> list[Path]:
        """Return the files of a session, drafts included."""
        return sorted(self.profile.glob(f"[sp]e*/*{session_id}.jsonl"))

    def lines(self, session_id: str = SESSION) -> list[dict[str, Any]]:
        """Return the lines of the only file of a session, header first."""
        (path,) = self.files(session_id)
        data = path.read_bytes()
        assert data.endswith(b"\n")
        return [json.loads(line) for line in data[:-1].split(b"\n")]

    def memory(self, field: str = "VmHWM") -> int:
        """Return its greatest size in memory up to now, or another size of its status, in bytes."""
        status = Path(f"/proc/{self.pid}/status").read_text("utf-8")
        return int(status.partition(f"{field}:")[2].split()[0]) * 1024

    def discard(self) -> None:
        """End the daemon if it still runs, also after a failure of the test."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()


@contextmanager
def running(daemon: Daemon, *, umask: int = 0o022) -> Iterator[Daemon]:
    """Run a daemon during the block; require that it met no bug and ends properly."""
    daemon.start(umask=umask)
    try:
        yield daemon
        if daemon.socket_path.exists():
            assert daemon.end(signal.SIGTERM) == 0, daemon.said()
        assert '"bug"' not in daemon.said(), daemon.said()
    finally:
        daemon.discard()
