"""The system calls that differ between Unix platforms, in a file per platform.

    SYSTEM.sync_data(fd)     make bytes durable, as this platform defines that
    SYSTEM.peer_of(sock)     (uid, pid) of the process at the other end

Law: no other code of sessiond chooses a system call by platform. A platform is one file with
one instance of `System`, and one line in `PLATFORMS`.

    base.py   the port of a platform
    linux.py  Linux
    macos.py  macOS
    unix.py   any other Unix
"""

from __future__ import annotations

import sys
from typing import Final

from sessiond.system.base import System
from sessiond.system.linux import LINUX
from sessiond.system.macos import MACOS
from sessiond.system.unix import UNIX

PLATFORMS: Final[dict[str, System]] = {"linux": LINUX, "darwin": MACOS}
"""The platforms by the value of `sys.platform`; `UNIX` serves every other Unix."""

SYSTEM: Final[System] = PLATFORMS.get(sys.platform, UNIX)
