"""What a platform does for sessiond."""

from __future__ import annotations

import errno
import os
import socket
from functools import cache
from pathlib import Path
from typing import Any, Final, Protocol

__all__ = ["RENAME_UNSUPPORTED", "System", "c_library", "rename_failed"]

RENAME_UNSUPPORTED: Final = frozenset({errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP})
"""What `rename_new` fails with where the system or the file system cannot rename so."""


class System(Protocol):
    """The calls in which platforms differ. Every method may raise OSError."""

    @property
    def has_inotify(self) -> bool:
        """Whether the kernel tells of changed files by inotify; else they are looked at."""
        ...

    def sync_data(self, fd: int) -> None:
        """Wait until the bytes of a file, and the size that reaches them, are on the medium."""
        ...

    def sync(self, fd: int) -> None:
        """Wait until everything about a file or a folder is on the medium."""
        ...

    def rename_new(self, old: Path, new: Path) -> None:
        """Rename a file in one step. Raise FileExistsError if the new name is taken.

        Raise OSError with one of `RENAME_UNSUPPORTED` where that cannot be done.
        """
        ...

    def peer_of(self, sock: socket.socket) -> tuple[int, int]:
        """Return uid and pid of the process at the other end of a Unix socket; a pid of 0 is unknown."""
        ...

    def holder_of(self, fd: int) -> int:
        """Return the pid of the process that has locked an open file (flock); 0 is unknown."""
        ...


@cache
def c_library() -> Any:
    """Return the C library; Python has no call of its own for a rename that replaces nothing."""
    # Imported here: most processes never rename a file.
    from ctypes import CDLL

    return CDLL(None, use_errno=True)


def rename_failed(code: int, old: Path, new: Path) -> OSError:
    """Return the error of a rename that failed with an errno."""
    return OSError(code, os.strerror(code), str(old), None, str(new))
