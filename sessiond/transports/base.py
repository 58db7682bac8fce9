"""A byte pipe that never blocks the loop: what a connection needs of the operating system.

Rule 1: `recv` and `send` return at once; `None` and `0` say "it would block".
Rule 2: only `wait_readable`, `wait_writable` and `pump` wait, and only for readiness.

Writing straight from the step that made the answer, and waiting only when the
socket is full, is several times faster than a writer task (see perf-goals).
"""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

import anyio
from anyio.lowlevel import checkpoint

from sessiond.limits import READ_BYTES

__all__ = ["FdPort", "Port", "SocketPort"]


class Port(Protocol):
    """One open connection. `peer` says in a few words who is at the other end."""

    @property
    def peer(self) -> str:
        """For log lines."""
        ...

    def recv(self) -> bytes | None:
        """What has arrived, b"" at the end of input, None if nothing has yet. Raises OSError."""
        ...

    def send(self, data: bytes | memoryview) -> int:
        """Send as much as is taken now; 0 if nothing is. Raises OSError."""
        ...

    async def wait_readable(self) -> None:
        """Until `recv` would return something, or fail."""
        ...

    async def wait_writable(self) -> None:
        """Until `send` would take something, or fail."""
        ...

    async def pump(self, step: Callable[[], bool]) -> None:
        """Call `step` whenever there is something to receive, until it returns False."""
        ...

    def close(self) -> None:
        """Give it back. Nobody may be waiting."""
        ...


class _Descriptors:
    """Waiting for a pair of file descriptors, which may be one and the same."""

    def __init__(self, read_fd: int, write_fd: int, peer: str) -> None:
        self.peer = peer
        self._read_fd = read_fd
        self._write_fd = write_fd
        self._read_waits = _can_wait(read_fd)
        self._write_waits = _can_wait(write_fd)

    async def wait_readable(self) -> None:
        """Until there is something to receive."""
        await (anyio.wait_readable(self._read_fd) if self._read_waits else checkpoint())

    async def wait_writable(self) -> None:
        """Until there is room."""
        await (anyio.wait_writable(self._write_fd) if self._write_waits else checkpoint())

    async def pump(self, step: Callable[[], bool]) -> None:
        """Call `step` whenever there is something to receive, until it returns False."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            loop = None
        if loop is not None and self._read_waits:
            await _pump_registered(loop, self._read_fd, step)
            return
        await self.wait_readable()
        while step():
            await self.wait_readable()


async def _pump_registered(
    loop: asyncio.AbstractEventLoop, fd: int, step: Callable[[], bool]
) -> None:
    """Stay registered with the loop and run `step` from its callback.

    Saves two epoll calls and a task switch per chunk, which is a quarter of the
    rate with many clients. Only asyncio offers it.
    """
    done: asyncio.Future[None] = loop.create_future()

    def ready() -> None:
        if done.done():
            return
        try:
            if step():
                return
            # The step may have cancelled whoever waits here.
            if not done.done():
                done.set_result(None)
        except Exception as error:  # noqa: BLE001  # carried over to the task that waits
            if not done.done():
                done.set_exception(error)
        loop.remove_reader(fd)

    loop.add_reader(fd, ready)
    try:
        await done
    finally:
        loop.remove_reader(fd)


def _can_wait(fd: int) -> bool:
    """Whether the system can report readiness: not for regular files, which always are ready."""
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(fd)


class SocketPort(_Descriptors):
    """A connected stream socket."""

    def __init__(self, sock: socket.socket, peer: str = "socket") -> None:
        sock.settimeout(0)
        super().__init__(sock.fileno(), sock.fileno(), peer)
        self._socket = sock

    def recv(self) -> bytes | None:
        """What has arrived."""
        try:
            return self._socket.recv(READ_BYTES)
        except BlockingIOError:
            return None

    def send(self, data: bytes | memoryview) -> int:
        """Send what the socket takes now."""
        try:
            return self._socket.send(data)
        except BlockingIOError:
            return 0

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


class FdPort(_Descriptors):
    """Two file descriptors, one to read and one to write: pipes, a terminal, files.

    It owns both. Non-blocking mode belongs to the open file, which other
    processes may share (a shell and its terminal), so it is put back at the end.
    """

    def __init__(self, read_fd: int, write_fd: int, peer: str = "stdio") -> None:
        super().__init__(read_fd, write_fd, peer)
        self._was_blocking = {fd: os.get_blocking(fd) for fd in (read_fd, write_fd)}
        for fd in self._was_blocking:
            os.set_blocking(fd, False)

    def recv(self) -> bytes | None:
        """What has arrived."""
        try:
            return os.read(self._read_fd, READ_BYTES)
        except BlockingIOError:
            return None

    def send(self, data: bytes | memoryview) -> int:
        """Write what the pipe takes now."""
        try:
            return os.write(self._write_fd, data)
        except BlockingIOError:
            return 0

    def close(self) -> None:
        """Put blocking mode back and close both."""
        for fd, blocking in self._was_blocking.items():
            with suppress(OSError):
                os.set_blocking(fd, blocking)
            with suppress(OSError):
                os.close(fd)
        self._was_blocking.clear()
