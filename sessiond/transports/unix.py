"""The Unix socket: who may connect to it.

Rule 1: only this user's processes are served.
Rule 2: the accept loop survives whatever one connection or a full table does.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
import struct
import sys
from collections.abc import Awaitable, Callable
from typing import Final

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup, TaskStatus

from sessiond.limits import CONNECTIONS_MAX
from sessiond.transports.base import Port, SocketPort
from sessiond.transports.listening import Listening

__all__ = ["serve_unix"]

_log = logging.getLogger(__name__)

Serve = Callable[[Port], Awaitable[None]]

# How long accepting rests when the process or the system is out of descriptors or memory.
EXHAUSTED_SECONDS: Final = 0.5
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


async def serve_unix(
    listen: Callable[[], Listening],
    serve: Serve,
    *,
    connections_max: Callable[[], int] = lambda: CONNECTIONS_MAX,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Accept connections until cancelled; started when clients can connect.

    `listen` runs in a worker thread. Raises CannotListen.
    """
    listening = await to_thread.run_sync(listen)
    try:
        async with anyio.create_task_group() as tasks:
            task_status.started()
            await _accept_loop(listening.socket, serve, tasks, connections_max)
    finally:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(listening.end)


async def _accept_loop(
    listener: socket.socket, serve: Serve, tasks: TaskGroup, connections_max: Callable[[], int]
) -> None:
    open_ports: set[Port] = set()

    async def serve_one(port: Port) -> None:
        try:
            await serve(port)
        finally:
            open_ports.remove(port)

    while True:
        await anyio.wait_readable(listener)
        try:
            sock, _ = listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            continue
        except OSError as error:
            if error.errno not in _EXHAUSTED:
                raise
            _log.warning("cannot accept for now", extra={"errno": error.errno})
            await anyio.sleep(EXHAUSTED_SECONDS)
            continue
        port = _admit(sock, len(open_ports), connections_max())
        if port is not None:
            open_ports.add(port)
            tasks.start_soon(serve_one, port)


def _admit(sock: socket.socket, open_count: int, connections_max: int) -> Port | None:
    """The port of a client that may be served; everyone else is closed."""
    uid, pid = _peer_of(sock)
    if uid != os.getuid():
        _log.warning("refused another user's connection", extra={"uid": uid, "pid": pid})
    elif open_count >= connections_max:
        _log.warning("refused one connection too many", extra={"limit": connections_max})
    else:
        return SocketPort(sock, peer=f"pid {pid}" if pid else "unix socket")
    sock.close()
    return None


def _peer_of(sock: socket.socket) -> tuple[int, int]:
    """The uid and pid at the other end; the pid is 0 where the system does not say."""
    if sys.platform == "linux":
        size = struct.calcsize("3i")
        pid, uid, _ = struct.unpack(
            "3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
        )
        return uid, pid
    # LOCAL_PEERCRED of the BSDs: struct xucred begins with a version and the uid.
    credentials = sock.getsockopt(0, 1, 8)
    return struct.unpack("2i", credentials)[1], 0
