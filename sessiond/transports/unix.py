"""The Unix socket: an accept loop that survives whatever one connection or a full table does."""

from __future__ import annotations

import errno
import logging
import socket
import struct
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup, TaskStatus

from sessiond.transports.admission import Admission, Peer
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
    admission: Admission,
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Accept connections until cancelled; started when clients can connect.

    `listen` runs in a worker thread. Raises CannotListen.
    """
    listening = await to_thread.run_sync(listen)
    try:
        async with anyio.create_task_group() as tasks:
            task_status.started()
            await _accept_loop(listening.socket, serve, tasks, admission)
    finally:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(listening.end)


async def _accept_loop(
    listener: socket.socket, serve: Serve, tasks: TaskGroup, admission: Admission
) -> None:
    async def serve_one(sock: socket.socket, peer: Peer) -> None:
        try:
            await serve(SocketPort(sock, str(peer)))
        finally:
            admission.leave(peer)

    told = False
    while True:
        await anyio.wait_readable(listener)
        try:
            sock, _ = listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            continue
        except OSError as error:
            if error.errno not in _EXHAUSTED:
                raise
            if not told:
                _log.warning("cannot accept for now", extra={"errno": error.errno})
            told = True
            await anyio.sleep(EXHAUSTED_SECONDS)
            continue
        told = False
        peer = _peer_of(sock)
        refusal = admission.admit(peer)
        if refusal is None:
            tasks.start_soon(serve_one, sock, peer)
        else:
            _turn_away(sock, refusal)


def _turn_away(sock: socket.socket, last_words: bytes) -> None:
    """Say it if the socket takes it, and hang up: nobody waits for who is not served."""
    with sock, suppress(OSError):
        sock.settimeout(0)
        sock.send(last_words)


def _peer_of(sock: socket.socket) -> Peer:
    """Who is at the other end."""
    if sys.platform == "linux":
        size = struct.calcsize("3i")
        pid, uid, _ = struct.unpack(
            "3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
        )
        return Peer(uid, pid)
    # LOCAL_PEERCRED of the BSDs: struct xucred begins with a version and the uid.
    credentials = sock.getsockopt(0, 1, 8)
    return Peer(struct.unpack("2i", credentials)[1], 0)
