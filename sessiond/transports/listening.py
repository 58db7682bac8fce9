"""Listening Unix sockets: one of our own at a path, or one that the service manager opened.

Rule 1: the socket has its path from the moment at which clients can connect, and is 0600; a directory made for
it is 0700.

Rule 2: only a dead socket of our own is ever removed, and only while the folder is locked, so that
of two daemons that start at once neither removes the other's socket. No file is ever replaced.

Rule 3: an inherited socket belongs to the service manager; its path is never touched.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import stat
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from sessiond.limits import FOLDER_LOCK_SECONDS
from sessiond.system import SYSTEM
from sessiond.system.base import RENAME_UNSUPPORTED
from sessiond_client.place import address

# At least net.core.somaxconn, the system's own bound: connections beyond the queue are refused.
_BACKLOG: Final = 4096
_LOOK_AGAIN_SECONDS: Final = 0.01


class CannotListen(Exception):
    """Failure to listen on a path; the text tells why and what was left alone."""


class Listening(Struct, frozen=True):
    """A listening socket.

    `identity` is (device, inode) of its file, None if it is not ours to remove.
    """

    socket: socket.socket
    path: Path
    identity: tuple[int, int] | None

    def is_there(self) -> bool:
        """Return False if no client can reach the socket: its file, or the folder of the file, was removed.

        A file system that does not answer proves nothing.
        """
        try:
            found = self.path.lstat()
            # Where inodes change from look to look, a connection tells.
            return (found.st_dev, found.st_ino) == self.identity or not _is_dead(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return True

    def end(self) -> None:
        """Close the socket; remove its file unless another one took its place. Blocking."""
        # The path goes first: a daemon that finds the path without a listener may remove it.
        if self.identity is not None:
            _remove_own(self.path, self.identity)
        self.socket.close()


def listen(path: Path) -> Listening:
    """Listen at a path; a dead socket of sessiond's is replaced. Blocking. Raises CannotListen."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(0)
        _make_folder(path.parent)
        with _locked(path.parent):
            _remove_dead(path)
            _bind(sock, path)
            found = path.lstat()
    except OSError as error:
        sock.close()
        raise CannotListen(f"cannot listen on {path}: {error.strerror or error}") from error
    except CannotListen:
        sock.close()
        raise
    return Listening(sock, path, (found.st_dev, found.st_ino))


def listen_on_inherited(descriptor: int) -> Listening:
    """Take over a descriptor that the service manager opened. Raises CannotListen."""
    try:
        is_socket = stat.S_ISSOCK(os.fstat(descriptor).st_mode)
    except OSError as error:
        raise CannotListen(f"there is no descriptor {descriptor}: {error.strerror}") from error
    if not is_socket:
        raise CannotListen(f"descriptor {descriptor} is no socket")
    sock = socket.socket(fileno=os.dup(descriptor))
    os.close(descriptor)
    kind = sock.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE)
    if sock.family != socket.AF_UNIX or kind != socket.SOCK_STREAM:
        sock.close()
        raise CannotListen(f"descriptor {descriptor} is no Unix stream socket")
    if not sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        sock.close()
        raise CannotListen(f"descriptor {descriptor} is a socket that does not listen")
    sock.settimeout(0)
    return Listening(sock, Path(os.fsdecode(sock.getsockname())), None)


def _bind(sock: socket.socket, path: Path) -> None:
    """Listen under a random name, with the right mode, before a client can find the socket; then give it its path.

    Raises FileExistsError if the path is taken.
    """
    unnamed = path.with_name(f".{os.urandom(4).hex()}")
    # No client could connect to a path that is too long.
    with address(path), address(unnamed) as name:
        sock.bind(name)
    try:
        unnamed.chmod(0o600)
        sock.listen(_BACKLOG)
        try:
            SYSTEM.rename_new(unnamed, path)
        except OSError as error:
            if error.errno not in RENAME_UNSUPPORTED:
                raise
            path.hardlink_to(unnamed)
    finally:
        unnamed.unlink(missing_ok=True)


def _make_folder(folder: Path) -> None:
    """Make the missing folders, for this user alone; existing ones are the user's own choice."""
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    # 0700 at once and not by a chmod: in a shared folder another user may be waiting for it.
    folder.mkdir(mode=0o700, exist_ok=True)


@contextmanager
def _locked(folder: Path) -> Generator[None]:
    """Keep every process that takes this lock from changing the sockets of the folder."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        end = time.monotonic() + FOLDER_LOCK_SECONDS
        while True:
            with suppress(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            if time.monotonic() > end:
                raise CannotListen(
                    f"another process holds the lock of {folder} for {FOLDER_LOCK_SECONDS:.0f} s"
                )
            time.sleep(_LOOK_AGAIN_SECONDS)
        yield
    finally:
        os.close(descriptor)


def _remove_dead(path: Path) -> None:
    """Remove a socket of ours without a listener. Raises CannotListen for any other file."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise CannotListen(f"{path} is not a socket; it was left alone")
    if found.st_uid != os.getuid():
        raise CannotListen(f"{path} belongs to another user; it was left alone")
    if _is_dead(path):
        path.unlink(missing_ok=True)
    else:
        raise CannotListen(f"another process listens on {path}")


def _is_dead(path: Path) -> bool:
    """Return whether nothing listens at a path. Raises OSError."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe, address(path) as name:
        probe.settimeout(0)
        return probe.connect_ex(name) in {errno.ECONNREFUSED, errno.ENOENT}


def _remove_own(path: Path, identity: tuple[int, int]) -> None:
    """Remove the socket's file, unless another one took its place."""
    # Without the lock or the folder the file stays: the next daemon recognises a dead socket.
    with suppress(OSError, CannotListen), _locked(path.parent):
        found = path.lstat()
        if (found.st_dev, found.st_ino) == identity:
            path.unlink()
