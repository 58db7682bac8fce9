"""The system calls that are not the same on every Unix: a file for each platform.

    SYSTEM.sync_data(fd)     what "durable" means here
    SYSTEM.peer_of(sock)     (uid, pid) of the process at the other end

Law: nothing else in sessiond asks which platform this is in order to make a system call. A
platform is one file with one instance of `System`, and one line in `PLATFORMS`.
"""

from __future__ import annotations

import sys
from typing import Final

from sessiond.system.base import RENAME_UNSUPPORTED, System
from sessiond.system.linux import LINUX
from sessiond.system.macos import MACOS
from sessiond.system.unix import UNIX

__all__ = ["PLATFORMS", "RENAME_UNSUPPORTED", "SYSTEM", "System"]

PLATFORMS: Final[dict[str, System]] = {"linux": LINUX, "darwin": MACOS}
"""By the value of `sys.platform`; `UNIX` is every other Unix."""

SYSTEM: Final[System] = PLATFORMS.get(sys.platform, UNIX)
