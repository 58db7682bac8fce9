"""Any Unix that has no file of its own here: what POSIX has, and the BSDs."""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Final

from sessiond.system.base import rename_failed

__all__ = ["UNIX", "Unix"]

_SOL_LOCAL: Final = 0
_LOCAL_PEERCRED: Final = 1
# struct xucred begins with a version and the uid.
_XUCRED_START: Final = struct.Struct("2I")
_sync_data: Final[Callable[[int], None]] = getattr(os, "fdatasync", os.fsync)


class Unix:
    """`fdatasync` where there is one, else `fsync`; peers as the BSDs tell of them."""

    has_inotify = False

    def sync_data(self, fd: int) -> None:
        """Wait for the data, or for everything where the system cannot tell them apart."""
        _sync_data(fd)

    def sync(self, fd: int) -> None:
        """Wait for everything."""
        os.fsync(fd)

    def rename_new(self, old: Path, new: Path) -> None:
        """Refuse: POSIX has no such call."""
        raise rename_failed(errno.ENOSYS, old, new)

    def peer_of(self, sock: socket.socket) -> tuple[int, int]:
        """Ask by `LOCAL_PEERCRED`, which tells the uid and no pid."""
        found = sock.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, _XUCRED_START.size)
        return _XUCRED_START.unpack(found)[1], 0

    def holder_of(self, fd: int) -> int:  # noqa: ARG002
        """Return 0: the BSDs tell of no holder of a flock."""
        return 0


UNIX: Final = Unix()
