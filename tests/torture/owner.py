"""The daemon of a round, found over its socket and ended by its pid.

Law: the process that listens on the socket is the daemon; this module or a client may have started
it. A pidfd shows its end, and an end that this module did not cause is reported.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.kit.link import Link
from tests.kit.patience import PATIENCE_SECONDS, soon
from tests.processes.harness.daemon import Daemon

__all__ = ["Owner"]


class Owner:
    """The daemons of a round, one after the other, on one socket and one home."""

    def __init__(self, socket_path: Path, home: Path, program: Sequence[str]) -> None:
        self._daemon = Daemon(socket_path, home, program=program)
        self.pid = 0
        self._pidfd = -1

    @property
    def profile(self) -> Path:
        return self._daemon.profile

    @property
    def is_alive(self) -> bool:
        """True if the daemon that was found last still runs."""
        return self._pidfd >= 0 and not select.select([self._pidfd], [], [], 0)[0]

    def ensure(self, *, wait: float = 0.0) -> None:
        """Require a daemon that answers; start one if no client has within `wait` seconds."""
        until = time.monotonic() + wait

        def answers() -> bool:
            if self._found():
                return True
            if time.monotonic() >= until and self._ended_or_never():
                self._daemon.start()
            return False

        soon(answers, lambda: f"no daemon answers: {self.said()[-2000:]}")

    def _ended_or_never(self) -> bool:
        process = self._daemon._process
        return process is None or process.poll() is not None

    def _found(self) -> bool:
        """Return whether a daemon answers, which is the current daemon from then on."""
        if self.is_alive:
            return True
        try:
            pid = self.ask("server/info")["pid"]
            pidfd = os.pidfd_open(pid)
        except (OSError, AssertionError, KeyError):
            return False
        if self._pidfd >= 0:
            os.close(self._pidfd)
        self.pid, self._pidfd = pid, pidfd
        return self.is_alive

    def connect(self) -> Link:
        """Return a new connection. Raises OSError if no daemon listens."""
        return Link(self._daemon.socket_path, alive=_nobody)

    def ask(self, method: str, **params: Any) -> Any:
        """Make one request on a connection of its own, to a running daemon."""
        with self.connect() as link:
            return link.ask(method, **params)

    def send(self, how: signal.Signals) -> None:
        """Send the daemon a signal."""
        signal.pidfd_send_signal(self._pidfd, how)

    def end(self, how: signal.Signals) -> None:
        """Send a signal that ends it, and wait for that."""
        self.send(how)
        ended, _, _ = select.select([self._pidfd], [], [], PATIENCE_SECONDS)
        assert ended, f"the daemon did not end within {PATIENCE_SECONDS:.0f} s of {how.name}"

    def said(self) -> str:
        """Return the logs of all daemons."""
        logs = [self._daemon.log, *self._daemon.home.rglob("daemon.log*")]
        return "".join(log.read_text("utf-8") for log in logs if log.exists())

    def discard(self) -> None:
        """End the running daemon, also after a failed round."""
        if self.is_alive:
            self.send(signal.SIGCONT)
            self.end(signal.SIGKILL)
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1
        self._daemon.discard()


def _nobody() -> None:
    raise ConnectionRefusedError("nobody listens")
