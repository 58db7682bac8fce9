"""Linux."""

from __future__ import annotations

import errno
import os
import socket
import struct
from functools import cache
from pathlib import Path
from typing import Any, Final

from sessiond.system.base import rename_failed
from sessiond.system.unix import Unix

__all__ = ["LINUX"]

_AT_FDCWD: Final = -100
_RENAME_NOREPLACE: Final = 1
_UCRED: Final = struct.Struct("3i")


class Linux(Unix):
    """`fdatasync`, `renameat2`, `SO_PEERCRED` and inotify."""

    has_inotify = True

    def rename_new(self, old: Path, new: Path) -> None:
        """Rename by `renameat2`."""
        call = getattr(_library(), "renameat2", None)
        if call is None:
            # A C library that is older than the call.
            raise rename_failed(errno.ENOSYS, old, new)
        names = os.fsencode(old), os.fsencode(new)
        if call(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_NOREPLACE):
            from ctypes import get_errno

            raise rename_failed(get_errno(), old, new)

    def peer_of(self, sock: socket.socket) -> tuple[int, int]:
        """Ask by `SO_PEERCRED`: struct ucred holds pid, uid and gid."""
        found = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
        pid, uid, _ = _UCRED.unpack(found)
        return uid, pid


@cache
def _library() -> Any:
    """Return the C library; Python has no call of its own for a rename that replaces nothing."""
    # Imported here: most processes never rename a file.
    from ctypes import CDLL

    return CDLL(None, use_errno=True)


LINUX: Final = Linux()
