"""A stand-in for macOS, on Linux: `python -m pytest -p tests.elsewhere`.

Calls of Linux that macOS lacks are removed, sessiond is told that it runs on macOS, and equivalent
calls of Linux answer the calls of macOS. So the whole fast suite runs through
`sessiond.system.macos`. Whether macOS does what its manual says is not tested here.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import socket
import struct
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, Final

# These look at the platform when they are imported, and must see the one that they run on.
_BEFORE: Final = (
    "anyio", "asyncio", "blockbuster", "click", "hypothesis", "msgspec", "platformdirs", "pygls.lsp.server",
    "rich.console", "sqlite3", "structlog", "subprocess", "tempfile", "trio", "uuid_utils",
)  # fmt: skip
_ASKED_AT_IMPORT: Final = ("sessiond.system", "sessiond_client.place", "sessiond_client.peer")
_MISSING: Final = (
    (os, "fdatasync"),
    (os, "posix_fadvise"),
    (os, "posix_fallocate"),
    (os, "memfd_create"),
    (os, "sched_getaffinity"),
    (os, "sched_setaffinity"),
    (os, "O_PATH"),
    (os, "O_DIRECT"),
    (os, "O_NOATIME"),
    (socket, "SO_PEERCRED"),
)
_F_FULLFSYNC, _RENAME_EXCL = 51, 4
_SOL_LOCAL, _LOCAL_PEERCRED, _LOCAL_PEERPID = 0, 1, 2
_LINUX_PEERCRED: Final = socket.SO_PEERCRED
_RENAME_NOREPLACE: Final = 1
_AT_FDCWD: Final = -100
_fcntl, _getsockopt = fcntl.fcntl, socket.socket.getsockopt


def _told(fd: Any, command: int, argument: Any = 0) -> Any:
    return os.fsync(fd) if command == _F_FULLFSYNC else _fcntl(fd, command, argument)


def _asked(sock: socket.socket, level: int, option: int, *size: int) -> Any:
    if level != _SOL_LOCAL:
        return _getsockopt(sock, level, option, *size)
    pid, uid, _ = struct.unpack("3i", _getsockopt(sock, socket.SOL_SOCKET, _LINUX_PEERCRED, 12))
    if option == _LOCAL_PEERPID:
        return struct.pack("i", pid)
    assert option == _LOCAL_PEERCRED, "macOS has more, sessiond asks for no more"
    return struct.pack("2I", 0, uid)


class _Library:
    """The C library of macOS, as far as it is called."""

    def __init__(self) -> None:
        self._linux = ctypes.CDLL(None, use_errno=True)

    def renamex_np(self, old: bytes, new: bytes, flags: int) -> int:
        if flags != _RENAME_EXCL:
            ctypes.set_errno(errno.EINVAL)
            return -1
        found: int = self._linux.renameat2(_AT_FDCWD, old, _AT_FDCWD, new, _RENAME_NOREPLACE)
        return found


def _go() -> None:
    for name in _BEFORE:
        import_module(name)
    here, sys.platform = sys.platform, "darwin"
    for module, name in _MISSING:
        delattr(module, name)
    try:
        system, place, _ = (import_module(name) for name in _ASKED_AT_IMPORT)
    finally:
        sys.platform = here
    macos: Any = import_module("sessiond.system.macos")
    assert system.SYSTEM is macos.MACOS
    library = _Library()
    for owner, name, stand_in in (
        (macos, "c_library", lambda: library),
        (fcntl, "fcntl", _told),
        (socket.socket, "getsockopt", _asked),
        (place, "_OWN_FOLDERS", Path("/no/such/folder")),
    ):
        setattr(owner, name, stand_in)


_go()
