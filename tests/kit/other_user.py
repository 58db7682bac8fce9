"""A process of another user that listens on a socket, and tells how many bytes each client sent to it."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.kit.patience import PATIENCE_SECONDS

__all__ = ["OTHER_UID", "Listener", "listening_as"]

OTHER_UID: Final = 65534
"""The uid of "nobody" on Linux."""
_PROGRAM: Final = r"""
import json, os, socket, sys

place, uid = sys.argv[1], int(sys.argv[2])
listener = socket.socket(socket.AF_UNIX)
listener.bind(place)
os.chmod(place, 0o777)
os.chown(place, uid, uid)
os.setgroups([])
os.setgid(uid)
os.setuid(uid)
# The kernel remembers the user who calls this as the peer of every client.
listener.listen()
print("listens", flush=True)
while True:
    connection, _ = listener.accept()
    heard = 0
    try:
        with connection, connection.makefile("rb") as lines:
            for line in lines:
                heard += len(line)
                answer = {"jsonrpc": "2.0", "id": json.loads(line)["id"], "result": {"ok": True}}
                connection.sendall(json.dumps(answer, separators=(",", ":")).encode() + b"\n")
    except (OSError, ValueError):
        pass
    print(heard, flush=True)
"""


class Listener:
    """A listening process of another user."""

    def __init__(self, path: Path, uid: int) -> None:
        self._path = path
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, str(path), str(uid)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._said() == "listens"

    def _said(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the listener has ended"
        return line.strip()

    def heard(self) -> int:
        """Wait for the end of the next connection; return how many bytes its client sent."""
        return int(self._said())

    def require_silence(self) -> None:
        """Require that no client has connected, or that it sent nothing; the test is the next client."""
        with socket.socket(socket.AF_UNIX) as probe:
            probe.connect(str(self._path))
        # Connections are served in their order: one that sent bytes would be told of before ours.
        assert self.heard() == 0

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate(timeout=PATIENCE_SECONDS)


@contextmanager
def listening_as(uid: int, path: Path) -> Iterator[Listener]:
    """Listen as a user, for root only; the socket is that user's and its folder stays root's."""
    listener = Listener(path, uid)
    try:
        yield listener
    finally:
        listener.end()
        path.unlink(missing_ok=True)
