"""The port of a platform, and functions that platforms share."""

from __future__ import annotations

import errno
import os
import socket
from functools import cache
from pathlib import Path
from typing import Any, Final, Protocol

NAME_BYTES_MAX: Final = 255
"""The bytes that the name of a file may have; a longer name is ENAMETOOLONG."""
RENAME_UNSUPPORTED: Final = frozenset({errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP})
"""The errors of `rename_new` on a system or file system that cannot rename without replacing."""


class System(Protocol):
    """The calls in which platforms differ. Every method may raise OSError."""

    @property
    def has_inotify(self) -> bool:
        """True if the kernel reports changed files by inotify; else sessiond polls files."""
        ...

    def processors(self) -> int:
        """Return the number of processors that this process may use."""
        ...

    def is_local(self, path: Path) -> bool:
        """Return whether this kernel alone changes the file system of a path, as far as is known."""
        ...

    def sync_data(self, fd: int) -> None:
        """Wait until the bytes of a file, and the size that reaches them, are on the medium."""
        ...

    def sync(self, fd: int) -> None:
        """Wait until the bytes and all metadata of a file or folder are on the medium."""
        ...

    def rename_new(self, old: Path, new: Path) -> None:
        """Rename a file in one step. Raise FileExistsError if the new name is taken.

        Raise OSError with one of `RENAME_UNSUPPORTED` if the system cannot do this.
        """
        ...

    def peer_of(self, sock: socket.socket) -> tuple[int, int]:
        """Return uid and pid of the process at the other end of a Unix socket.

        A pid of 0 means that the pid is unknown.
        """
        ...

    def holder_of(self, fd: int) -> int:
        """Return the pid of the process that has locked an open file (flock); 0 if unknown."""
        ...

    def birth_of(self, pid: int) -> str:
        """Return what tells a process from any other of its pid, on any start of any machine; "" if unknown.

        The text is the id of the machine's start, the PID namespace and the process's start, with blanks between.
        """
        ...

    def began_at(self, pid: int) -> float | None:
        """Return the process's start in seconds since 1970, by today's clock; None if unknown."""
        ...

    def give_back_large_blocks(self) -> None:
        """Let this process give each large block of memory back to the system as soon as the block is freed."""
        ...


@cache
def c_library() -> Any:
    """Return the C library, because Python has no call for a rename that never replaces."""
    # Imported here: most processes never rename a file.
    from ctypes import CDLL

    return CDLL(None, use_errno=True)


def rename_failed(code: int, old: Path, new: Path) -> OSError:
    """Return the OSError for a rename that failed with this errno."""
    return OSError(code, os.strerror(code), str(old), None, str(new))
