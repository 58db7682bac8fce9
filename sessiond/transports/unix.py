"""The Unix socket: who may listen on a path, and who may connect to it.

Rule 1: the socket is 0600 from its first moment; a directory made for it is 0700.
Rule 2: only a dead socket of our own is ever removed; anything else at the path stays.
Rule 3: only this user's processes are served.
Rule 4: the accept loop survives whatever one connection or a full table does.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
import stat
import struct
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup, TaskStatus

from sessiond.limits import CONNECTIONS_MAX
from sessiond.transports.base import Port, SocketPort

__all__ = ["CannotListen", "serve_unix"]

_log = logging.getLogger(__name__)

Serve = Callable[[Port], Awaitable[None]]

_BACKLOG: Final = 128
# How long accepting rests when the process or the system is out of descriptors or memory.
EXHAUSTED_SECONDS: Final = 0.5
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_umask_lock: Final = threading.Lock()


class CannotListen(Exception):
    """The path cannot be listened on; the text says why and what was left alone."""


async def serve_unix(
    path: Path, serve: Serve, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
) -> None:
    """Accept connections until cancelled; started when clients can connect. Raises CannotListen."""
    listener, identity = await to_thread.run_sync(_listen, path)
    try:
        async with anyio.create_task_group() as tasks:
            task_status.started()
            await _accept_loop(listener, serve, tasks)
    finally:
        listener.close()
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(_remove_own, path, identity)


async def _accept_loop(listener: socket.socket, serve: Serve, tasks: TaskGroup) -> None:
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
        port = _admit(sock, len(open_ports))
        if port is not None:
            open_ports.add(port)
            tasks.start_soon(serve_one, port)


def _admit(sock: socket.socket, open_count: int) -> Port | None:
    """The port of a client that may be served; everyone else is closed."""
    uid, pid = _peer_of(sock)
    if uid != os.getuid():
        _log.warning("refused another user's connection", extra={"uid": uid, "pid": pid})
    elif open_count >= CONNECTIONS_MAX:
        _log.warning("refused one connection too many", extra={"limit": CONNECTIONS_MAX})
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


# -- the path -----------------------------------------------------------------------------


def _listen(path: Path) -> tuple[socket.socket, tuple[int, int]]:
    """A listening socket at `path`, and the device and inode by which it is known again."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(0)
        _make_folder(path.parent)
        _remove_dead(path)
        # The mode must be right before anyone can connect, and the umask is the
        # process's: nobody else may bind meanwhile, and files are chmod-ed by whoever makes them.
        with _umask_lock:
            before = os.umask(0o177)
            try:
                sock.bind(str(path))
            finally:
                os.umask(before)
        sock.listen(_BACKLOG)
        found = path.lstat()
    except OSError as error:
        sock.close()
        raise CannotListen(f"cannot listen on {path}: {error.strerror or error}") from error
    except CannotListen:
        sock.close()
        raise
    return sock, (found.st_dev, found.st_ino)


def _make_folder(folder: Path) -> None:
    """Make what is missing, for this user alone; what exists is the user's own choice."""
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    folder.chmod(0o700)


def _remove_dead(path: Path) -> None:
    """Remove a socket of ours that nobody listens on. Raises CannotListen for anything else."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise CannotListen(f"{path} is not a socket; it was left alone")
    if found.st_uid != os.getuid():
        raise CannotListen(f"{path} belongs to another user; it was left alone")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(0)
        code = probe.connect_ex(str(path))
    if code == errno.ECONNREFUSED:
        path.unlink(missing_ok=True)
    elif code != errno.ENOENT:
        raise CannotListen(f"another process listens on {path}")


def _remove_own(path: Path, identity: tuple[int, int]) -> None:
    """Remove the socket, unless somebody has put another one in its place."""
    try:
        found = path.lstat()
        if (found.st_dev, found.st_ino) == identity:
            path.unlink()
    except FileNotFoundError:
        return
