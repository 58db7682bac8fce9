"""The platform macOS. Written from its manual pages and tested only against a stand-in so far.

`fsync` hands the data to the drive, which may keep the data in a cache that a power cut empties.
`fcntl(F_FULLFSYNC)` waits for the medium (fsync(2) of macOS). A file system that cannot do that
(SMB, some FUSE file systems) refuses the call, and only `fsync` is left: SQLite falls back to
`fsync` as well, etcd gives up. sessiond falls back only if the call is refused. Any other error,
EIO above all, is a failed sync, and a failed sync is never tried again on the same descriptor.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import struct
from pathlib import Path
from typing import Final

from sessiond.system.base import c_library, rename_failed
from sessiond.system.unix import Unix

_F_FULLFSYNC: Final = 51
_REFUSED: Final = frozenset(
    {errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOTTY, errno.EINVAL, errno.ENOSYS}
)
_RENAME_EXCL: Final = 4
_SOL_LOCAL: Final = 0
_LOCAL_PEERPID: Final = 2
_PID: Final = struct.Struct("i")


class MacOS(Unix):
    """macOS with `F_FULLFSYNC`, `renamex_np`, `LOCAL_PEERCRED`, `LOCAL_PEERPID` and polling."""

    def sync_data(self, fd: int) -> None:
        """Wait until data and metadata are on the medium; there is no call for the data alone."""
        self.sync(fd)

    def sync(self, fd: int) -> None:
        """Wait for the medium, or for the drive if the file system can do no more."""
        try:
            fcntl.fcntl(fd, _F_FULLFSYNC)
        except OSError as error:
            if error.errno not in _REFUSED:
                raise
            os.fsync(fd)

    def rename_new(self, old: Path, new: Path) -> None:
        """Rename by `renamex_np`."""
        if c_library().renamex_np(os.fsencode(old), os.fsencode(new), _RENAME_EXCL):
            from ctypes import get_errno

            raise rename_failed(get_errno(), old, new)

    def peer_of(self, sock: socket.socket) -> tuple[int, int]:
        """Make two calls, because the credentials have no pid."""
        uid, _ = super().peer_of(sock)
        (pid,) = _PID.unpack(sock.getsockopt(_SOL_LOCAL, _LOCAL_PEERPID, _PID.size))
        return uid, pid


MACOS: Final = MacOS()
