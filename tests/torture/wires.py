"""Bytes to and from a daemon: a Unix socket, or the bridge of `sessiond stdio`."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

__all__ = ["Wire", "socket_wire", "stdio_wire"]


class Wire(Protocol):
    """A descriptor for reading and one for writing, which may be equal."""

    reading: int
    writing: int

    def close(self) -> None: ...


class _SocketWire:
    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.connect(str(path))
        except OSError:
            self._socket.close()
            raise
        self.reading = self.writing = self._socket.fileno()

    def close(self) -> None:
        self._socket.close()


class _StdioWire:
    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self.reading = self._process.stdout.fileno()
        self.writing = self._process.stdin.fileno()

    def close(self) -> None:
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        self._process.wait()


def socket_wire(path: Path) -> Callable[[], Wire]:
    """Return a function that connects to a Unix socket."""
    return lambda: _SocketWire(path)


def stdio_wire(command: Sequence[str], environment: Mapping[str, str]) -> Callable[[], Wire]:
    """Return a function that starts a bridge process for each connection."""
    return lambda: _StdioWire(command, environment)
