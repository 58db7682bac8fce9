"""A connected Unix socket that never blocks. Who waits, and how, is decided elsewhere."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence

from sessiond_client.limits import READ_BYTES
from sessiond_client.place import address

__all__ = ["Port"]


class Port:
    """One connection to the daemon."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Connect, at once or not at all; raises OSError (BlockingIOError: its queue is full)."""
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.socket.settimeout(0)
            with address(path) as name:
                self.socket.connect(name)
        except BaseException:
            self.socket.close()
            raise

    def fileno(self) -> int:
        """Return the descriptor to wait on."""
        return self.socket.fileno()

    def receive(self) -> bytes | None:
        """Return the bytes that have come: None = none yet, b"" = the daemon closed."""
        try:
            return self.socket.recv(READ_BYTES)
        except BlockingIOError:
            return None

    def send(self, buffers: Sequence[memoryview]) -> int:
        """Send bytes; return how many the kernel took, 0 = none for now."""
        try:
            return self.socket.sendmsg(buffers)
        except BlockingIOError:
            return 0

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()
