"""Ports: byte pipes that never block the loop, the operating system's side of a connection.

Rule 1: `recv` and `send` return at once; `None` and `0` mean "it would block".

Rule 2: only `wait_readable`, `wait_writable` and `pump` wait, and only for readiness.

A write straight from the step that made the answer, with a wait only when the socket is full, is
several times faster than a writer task (see perf-goals).
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


class Port(Protocol):
    """An open connection. `peer` describes the other end in a few words."""

    @property
    def peer(self) -> str:
        """Description of the other end for log lines."""
        ...

    def recv(self) -> bytes | None:
        """Return the bytes that have arrived, b"" at the end of input, None if none have.

        Raises OSError.
        """
        ...

    def send(self, data: bytes | memoryview) -> int:
        """Send as many bytes as the port takes now and return their number. Raises OSError."""
        ...

    async def wait_readable(self) -> None:
        """Wait until `recv` would return bytes, or fail."""
        ...

    async def wait_writable(self) -> None:
        """Wait until `send` would take bytes, or fail."""
        ...

    async def pump(self, step: Callable[[], bool]) -> None:
        """Call `step` whenever there is something to receive, until it returns False."""
        ...

    def close(self) -> None:
        """Release the port. No task may be waiting on the port."""
        ...


class _Descriptors:
    """A read and a write file descriptor, possibly equal, with waits for readiness."""

    def __init__(self, read_fd: int, write_fd: int, peer: str) -> None:
        self.peer = peer
        self._read_fd = read_fd
        self._write_fd = write_fd
        self._read_waits = _can_wait(read_fd)
        self._write_waits = _can_wait(write_fd)

    async def wait_readable(self) -> None:
        """Wait until there are bytes to receive."""
        await (anyio.wait_readable(self._read_fd) if self._read_waits else checkpoint())

    async def wait_writable(self) -> None:
        """Wait until there is room to send."""
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

    Saves two epoll calls and a task switch per chunk, which is a quarter of the rate with many
    clients. Only asyncio offers such callbacks.
    """
    done: asyncio.Future[None] = loop.create_future()

    def ready() -> None:
        if done.done():
            return
        try:
            if step():
                return
            # The step may have cancelled the task that waits for `done`.
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
    """Return whether the system can report readiness; it cannot for regular files, always ready."""
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(fd)


class SocketPort(_Descriptors):
    """A connected stream socket."""

    def __init__(self, sock: socket.socket, peer: str = "socket") -> None:
        sock.settimeout(0)
        super().__init__(sock.fileno(), sock.fileno(), peer)
        self._socket = sock

    def recv(self) -> bytes | None:
        """Return the bytes that have arrived."""
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
    """Two owned file descriptors, one to read and one to write: pipes, a terminal, files.

    Non-blocking mode belongs to the open file, which another process may share (a shell and its
    terminal), so the mode is put back at the end.
    """

    def __init__(self, read_fd: int, write_fd: int, peer: str = "stdio") -> None:
        super().__init__(read_fd, write_fd, peer)
        self._was_blocking = {fd: os.get_blocking(fd) for fd in (read_fd, write_fd)}
        for fd in self._was_blocking:
            os.set_blocking(fd, False)

    def recv(self) -> bytes | None:
        """Return the bytes that have arrived."""
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
