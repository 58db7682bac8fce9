"""The lock that other writers of a session file take for each write.

Law: the lock is on a file beside the session file, named like it and `.lock`. That file is made, if
it is missing, and never removed: two programs could lock two files of that name. The lock is held
for one write, and the wait for the lock has an end. Where the name with `.lock` is longer than a name may
be, no program can make or find that file, so there is no lock to take.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from sessiond.journal.disk.descriptor import close_quietly
from sessiond.journal.disk.files import Files
from sessiond.journal.disk.regular import open_regular
from sessiond.limits import SIDECAR_LOOK_SECONDS, SIDECAR_WAIT_SECONDS
from sessiond.system.base import NAME_BYTES_MAX
from sessiond.visible import printable

_SUFFIX: Final = ".lock"


class SidecarLock:
    """The lock of one session file, as one thread at a time takes it; a block may stand in a block."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._depth = 0

    @contextmanager
    def held(self, path: Path) -> Generator[None]:
        """Hold the lock of the file at `path` during the block. Raises OSError."""
        fd = None if self._depth else self._take(path)
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if fd is not None:
                close_quietly(self._files, fd)

    def _take(self, path: Path) -> int | None:
        files, beside = self._files, path.with_name(path.name + _SUFFIX)
        if len(os.fsencode(beside.name)) > NAME_BYTES_MAX:
            return None
        fd = self._open(beside)
        try:
            self._wait(fd, beside)
        except BaseException:
            close_quietly(files, fd)
            raise
        return fd

    def _wait(self, fd: int, beside: Path) -> None:
        """Wait for the lock, for SIDECAR_WAIT_SECONDS at most. Raises OSError."""
        files = self._files
        until = files.monotonic() + SIDECAR_WAIT_SECONDS
        while not files.lock(fd):
            if files.monotonic() >= until:
                raise OSError(errno.EBUSY, self._told(fd, beside))
            files.pause(SIDECAR_LOOK_SECONDS)

    def _open(self, beside: Path) -> int:
        try:
            return self._files.create(beside)
        except FileExistsError:
            return open_regular(self._files, beside, update=True)

    def _told(self, fd: int, beside: Path) -> str:
        pid = self._files.locked_by(fd)
        who = "another program" if pid is None else f"process {pid}"
        return (
            f"{who} has held the lock {printable(beside.name)} for {SIDECAR_WAIT_SECONDS:g} seconds;"
            " try again once that program has ended its write, or end that program"
        )
