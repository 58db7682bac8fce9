"""The platform of any other Unix: the calls of POSIX and of the BSDs."""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Final

from sessiond.system.base import rename_failed

_SOL_LOCAL: Final = 0
_LOCAL_PEERCRED: Final = 1
# struct xucred begins with a version and the uid.
_XUCRED_START: Final = struct.Struct("2I")
_sync_data: Final[Callable[[int], None]] = getattr(os, "fdatasync", os.fsync)


class Unix:
    """Unix with `fdatasync` or else `fsync`, and peers by the BSD call `LOCAL_PEERCRED`."""

    has_inotify = False

    def processors(self) -> int:
        """Ask for all processors of the machine."""
        return os.cpu_count() or 1

    def is_local(self, path: Path) -> bool:  # noqa: ARG002
        """Return True: nothing else is known."""
        return True

    def sync_data(self, fd: int) -> None:
        """Wait until the data is on the medium, with all metadata if there is no separate call."""
        _sync_data(fd)

    def sync(self, fd: int) -> None:
        """Wait until data and metadata are on the medium."""
        os.fsync(fd)

    def rename_new(self, old: Path, new: Path) -> None:
        """Refuse: POSIX has no such call."""
        raise rename_failed(errno.ENOSYS, old, new)

    def peer_of(self, sock: socket.socket) -> tuple[int, int]:
        """Call `LOCAL_PEERCRED`, which returns the uid and no pid."""
        found = sock.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, _XUCRED_START.size)
        return _XUCRED_START.unpack(found)[1], 0

    def holder_of(self, fd: int) -> int:  # noqa: ARG002
        """Return 0: the BSDs do not report the holder of a flock."""
        return 0

    def birth_of(self, pid: int) -> str:  # noqa: ARG002
        """Return "": POSIX does not tell."""
        return ""

    def began_at(self, pid: int) -> float | None:  # noqa: ARG002
        """Return None: POSIX does not tell."""
        return None

    def give_back_large_blocks(self) -> None:
        """Do nothing: POSIX has no such call."""


UNIX: Final = Unix()
