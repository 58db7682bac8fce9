"""A daemon on a disk that fails and waits on request, for the tests of the service."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from anyio import to_thread

from sessiond.journal.files import Files
from sessiond.journal.holder import Holder, write_record
from sessiond.journal.layout import Layout
from sessiond.service.watching import Watching
from sessiond.testing.daemon import Daemon, running_daemon, standing_environment
from sessiond.testing.disk import FaultDisk
from sessiond.testing.faults import Gate

SESSION = "session-a"


class House:
    """One home with its disk; daemons come and go in it. Ids and clock go on across them."""

    def __init__(self, home: Path, files: Files) -> None:
        self.home = home
        self.files = files
        self.layout = Layout(home)
        self.bugs: list[BaseException] = []
        self.seconds = 0.0
        standing = standing_environment(self.bugs)
        self.environment = msgspec.structs.replace(standing, monotonic=lambda: self.seconds)

    @property
    def disk(self) -> FaultDisk:
        """The disk, where it is the one in memory."""
        assert isinstance(self.files, FaultDisk)
        return self.files

    @asynccontextmanager
    async def daemon(self, watching: Watching | None = None) -> AsyncGenerator[Daemon]:
        """A daemon, drained at the end; it met no bug that the test did not take out, and keeps nothing."""
        async with running_daemon(
            self.home, environment=self.environment, files=self.files, watching=watching
        ) as daemon:
            yield daemon
        assert self.bugs == []
        assert daemon.service.holdings.held_bytes == 0
        assert daemon.service.hosts.caches.held_bytes == 0

    def put(
        self, lines: list[Any] | bytes, session_id: str = SESSION, *, killed: bool = False
    ) -> Path:
        """A session file that was always there: its header and entries, or its bytes.

        `killed`: a daemon had it open and was killed.
        """
        path = self.layout.session_path(session_id, "2026-01-01T00-00-00-000000")
        for folder in (path.parent, self.layout.pending, self.layout.trash, self.layout.locks):
            while not self.disk.exists(folder):
                missing = folder
                while not self.disk.exists(missing.parent):
                    missing = missing.parent
                self.disk.make_folder(missing)
                self.disk.fsync_folder(missing.parent)
        data = lines if isinstance(lines, bytes) else as_text(lines, session_id)
        self.disk.put(path, data)
        if killed:
            found = self.disk.stat(path)
            record = self.layout.locks / f"{found.st_dev:x}-{found.st_ino}"
            holder = Holder(pid=1, host="testhost", since="2026-01-15T10:30:00.000Z")
            write_record(self.disk, record, holder, 0)
        return path

    def session_files(self) -> list[Path]:
        """The session files and drafts there are."""
        folders = {self.layout.sessions, self.layout.pending}
        return [path for path in self.disk.paths if path.parent in folders]

    def stored(self) -> list[dict[str, Any]]:
        """The lines of the only session, header first."""
        (path,) = self.session_files()
        data = self.disk.content(path)
        assert data.endswith(b"\n")
        return [json.loads(line) for line in data[:-1].split(b"\n")]


def as_text(lines: list[Any], session_id: str) -> bytes:
    """A native file: a header, then the entries."""
    header = {
        "type": "session_header",
        "version": 1,
        "id": session_id,
        "timestamp": "2026-01-15T10:30:00.000Z",
        "cwd": "/p",
    }
    return b"".join(msgspec.json.encode(line) + b"\n" for line in [header, *lines])


@pytest.fixture
def house(home: Path) -> House:
    """A home on a disk in memory."""
    return House(home, FaultDisk(home))


@pytest.fixture
def real_house(home: Path) -> House:
    """A home on the disk of this machine."""
    return House(home, Files())


@pytest.fixture
def arrived() -> Callable[[Gate], Any]:
    """Wait until a call stands at a gate of the disk."""

    async def wait(gate: Gate) -> None:
        assert await to_thread.run_sync(gate.reached.wait, 20.0), f"nobody came to {gate.op}"

    return wait
