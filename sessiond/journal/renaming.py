"""Renaming a file without replacing another: one atomic call, where the system has it.

Python offers no such call, so the C library's is used: `renameat2` of Linux, `renamex_np` of macOS.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

__all__ = ["UNSUPPORTED", "rename_without_replacing"]

# What is said where the system or the file system cannot rename so.
UNSUPPORTED: Final = frozenset({errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP})

_AT_FDCWD: Final = -100
_RENAME_NOREPLACE: Final = 1
_RENAME_EXCL: Final = 4


def rename_without_replacing(old: Path, new: Path) -> None:
    """Rename a file. Raise FileExistsError if the new name is taken, OSError (see UNSUPPORTED)."""
    code = _call()(os.fsencode(old), os.fsencode(new))
    if code:
        raise OSError(code, os.strerror(code), str(old), None, str(new))


@cache
def _call() -> Callable[[bytes, bytes], int]:
    """Return the call of this system, which gives an errno or 0."""
    # Imported here: most processes never rename a file.
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    if hasattr(library, "renameat2"):
        linux = library.renameat2
        return lambda old, new: (
            ctypes.get_errno() if linux(_AT_FDCWD, old, _AT_FDCWD, new, _RENAME_NOREPLACE) else 0
        )
    if hasattr(library, "renamex_np"):
        macos = library.renamex_np
        return lambda old, new: ctypes.get_errno() if macos(old, new, _RENAME_EXCL) else 0
    return lambda _old, _new: errno.ENOSYS
