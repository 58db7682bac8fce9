"""Folders whose paths have a given number of bytes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

__all__ = ["BEYOND_SQLITE", "HOME_BYTES_MAX", "deep"]

_NAME_BYTES: Final = 200

BEYOND_SQLITE: Final = 480
"""The bytes of a home in which SQLite opens no database."""
HOME_BYTES_MAX: Final = (
    os.pathconf("/", "PC_PATH_MAX") - 1 - len("/profiles/default/sessions/") - 255
)
"""The bytes of the longest home in which each file may have a name of 255 bytes."""


def deep(folder: Path, size: int) -> Path:
    """Return a path of so many bytes below a folder; the path is not made."""
    while (left := size - len(os.fsencode(folder))) > _NAME_BYTES:
        # At least two bytes are left, for a slash and a name.
        folder /= "d" * min(_NAME_BYTES, left - 3)
    folder /= "d" * (left - 1)
    assert len(os.fsencode(folder)) == size
    return folder
