"""A home whose disk a test holds: daemons start and end in one `House`, and its files stay."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from sessiond.journal.disk.files import Files
from sessiond.journal.profile.holder import Holder, write_record
from sessiond.journal.profile.layout import Layout
from sessiond.service.external.watcher import Watcher
from sessiond.testing.daemon import Daemon, running_daemon, standing_environment, unscanned_daemon
from sessiond.testing.disk import FaultDisk
from sessiond.testing.faults import Gate
from tests.kit.lines import SAMPLES
from tests.kit.patience import has_happened
from tests.kit.sessions import SESSION, native_file


class House:
    """A home with its disk. Ids and the clock continue from one daemon to the next."""

    def __init__(self, home: Path, files: Files) -> None:
        self.home = home
        self.files = files
        self.layout = Layout(home)
        self.bugs: list[BaseException] = []
        self.seconds = 0.0
        standing = standing_environment()
        self.environment = msgspec.structs.replace(standing, monotonic=lambda: self.seconds)

    @property
    def disk(self) -> FaultDisk:
        """Return the disk in memory; a house on the machine's disk has none."""
        assert isinstance(self.files, FaultDisk)
        return self.files

    @asynccontextmanager
    async def daemon(
        self, watching: Watcher | None = None, *, scanned: bool = True
    ) -> AsyncGenerator[Daemon]:
        """Run a daemon, and drain it at the end. Unless `scanned`, no scan has run yet.

        The daemon must report no bug but those that the test took out of `bugs`, and must hold no
        bytes for connections or in caches once it has ended.
        """
        start = running_daemon if scanned else unscanned_daemon
        async with start(
            self.home,
            environment=self.environment,
            files=self.files,
            watching=watching,
            bugs=self.bugs,
        ) as daemon:
            yield daemon
        assert daemon.service.byte_budget.held_bytes == 0
        assert daemon.service.registry.caches.held_bytes == 0

    def put(
        self, lines: list[Any] | bytes, session_id: str = SESSION, *, killed: bool = False
    ) -> Path:
        """Put a durable session file on the disk: a header and these entries, or these bytes.

        `killed`: a daemon had the file open and was killed.
        """
        path = self.layout.session_path(session_id, "2026-01-01T00-00-00-000000")
        for folder in (path.parent, self.layout.pending, self.layout.trash, self.layout.locks):
            while not self.disk.exists(folder):
                missing = folder
                while not self.disk.exists(missing.parent):
                    missing = missing.parent
                self.disk.make_folder(missing)
                self.disk.fsync_folder(missing.parent)
        data = lines if isinstance(lines, bytes) else native_file(lines, session_id)
        self.disk.put(path, data)
        if killed:
            found = self.disk.stat(path)
            record = self.layout.locks / f"{found.st_dev:x}-{found.st_ino}"
            holder = Holder(pid=1, host="testhost", since="2026-01-15T10:30:00.000Z")
            write_record(self.disk, record, holder, 0)
        return path

    def contents(self) -> dict[Path, bytes]:
        """Return the contents of all files on the disk in memory, except the lock records."""
        paths = [path for path in self.disk.paths if path.parent != self.layout.locks]
        return {path: self.disk.content(path) for path in paths}

    def session_files(self) -> list[Path]:
        """Return the session files and drafts on the disk in memory."""
        folders = {self.layout.sessions, self.layout.pending}
        return [path for path in self.disk.paths if path.parent in folders]

    def places(self) -> list[str]:
        """Return the name of the folder of each file on the disk in memory, except the lock records."""
        return [path.parent.name for path in self.disk.paths if path.parent != self.layout.locks]

    def trashed(self) -> list[str]:
        """Return the names of the files in the trash of the disk in memory."""
        return [path.name for path in self.disk.paths if path.parent == self.layout.trash]

    def stored(self) -> list[dict[str, Any]]:
        """Return the lines of the only session, header first."""
        (path,) = self.session_files()
        data = self.disk.content(path)
        assert data.endswith(b"\n")
        return [json.loads(line) for line in data[:-1].split(b"\n")]


async def arrived(gate: Gate) -> None:
    """Wait until a call of the disk stands at a gate."""
    assert await has_happened(gate.reached), f"no call of {gate.op} came to the gate"


def count_reads(house: House, path: Path | None = None) -> list[int]:
    """Return a list that gets the size of each read of a file from now on, or of all files."""
    sizes = list[int]()
    real, inode = house.disk.pread, None if path is None else house.disk.stat(path).st_ino

    def pread(fd: int, count: int, offset: int) -> bytes:
        data = real(fd, count, offset)
        if inode is None or house.disk.fstat(fd).st_ino == inode:
            sizes.append(len(data))
        return data

    house.disk.pread = pread  # type: ignore[method-assign]
    return sizes


def put_sample(house: House, name: str) -> Path:
    """Put a sample on the disk in memory, in a folder of the program of the sample; return its path."""
    program = name.partition("-")[0]
    folder = house.home.parent / program
    if not house.disk.exists(folder):
        house.disk.make_folder(folder)
    path = folder / f"{name}.jsonl"
    house.disk.put(path, (SAMPLES / program / path.name).read_bytes())
    return path
