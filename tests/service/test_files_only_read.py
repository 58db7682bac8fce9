"""A file that the daemon's user may only read is a session like any other, but for changes."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from sessiond.journal.disk.files import Files
from tests.kit.calls import call
from tests.kit.house import House
from tests.service.test_older_versions import MUTATIONS, ROWS, V1

SAMPLES = Path(__file__).parents[1] / "samples"


class Archive(Files):
    """The disk of a user who may not write to the files below a folder."""

    def __init__(self, folder: Path, number: int) -> None:
        super().__init__()
        self.folder, self.errno = folder, number

    def open_update(self, path: Path) -> int:
        """Raise what the kernel answers to any user but root."""
        self._refuse(path)
        return super().open_update(path)

    def open_append(self, path: Path) -> int:
        """Raise what the kernel answers to any user but root."""
        self._refuse(path)
        return super().open_append(path)

    def _refuse(self, path: Path) -> None:
        if path.is_relative_to(self.folder):
            raise OSError(self.errno, os.strerror(self.errno), str(path))


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.EPERM])
@pytest.mark.parametrize("name", ["native/every-type", "pi/pi", "piglet/piglet", "sharur/sharur"])
async def test_a_file_that_may_not_be_written_to_is_read_and_not_changed(
    home: Path, tmp_path: Path, name: str, number: int
) -> None:
    folder = tmp_path / "archive"
    folder.mkdir()
    path = Path(shutil.copy(SAMPLES / f"{name}.jsonl", folder))
    before = path.read_bytes(), path.stat().st_mtime_ns
    async with House(home, Archive(folder, number)).daemon() as daemon, daemon.connect() as wire:
        info = await call(wire, "session/open", "session", path=str(path))
        assert (info["read_only"], info["read_only_reason"]) == (True, "not_writable")
        session_id = info["id"]
        for method in ("session/tree", "build_context"):
            await wire.call(method, session_id=session_id)
        verified = await wire.call("session/verify", session_id=session_id)
        assert (verified["ok"], verified["read_only"]) == (True, True)
        await wire.call("session/export", session_id=session_id, format="markdown")
        rows = await call(wire, "session/entries", ROWS, session_id=session_id)
        other = (await wire.call("session/create", cwd="/p"))["session"]["id"]
        for mutation, params in MUTATIONS.items():
            places = {"LEAF": rows[0][1]["id"], "OTHER": other}
            given = {
                name: places.get(value, value) if isinstance(value, str) else value
                for name, value in params.items()
            }
            refused = await wire.refusal(mutation.split()[0], session_id=session_id, **given)
            assert (refused.code, refused.data["reason"]) == (-32027, "not_writable"), mutation
        copy = (await wire.call("session/fork", session_id=session_id))["session"]
        assert copy["read_only"] is False
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    assert [one.name for one in folder.iterdir()] == [path.name]


async def test_a_session_can_be_changed_once_its_file_may_be_written_to(
    home: Path, tmp_path: Path
) -> None:
    path = Path(shutil.copy(SAMPLES / "native" / "every-type.jsonl", tmp_path / "a.jsonl"))
    disk = Archive(tmp_path, errno.EACCES)
    async with House(home, disk).daemon() as daemon, daemon.connect() as wire:
        info = await call(wire, "session/open", "session", path=str(path))
        assert info["read_only_reason"] == "not_writable"
        await wire.call("session/close", session_id=info["id"])
        disk.folder = tmp_path / "none"
        again = await call(wire, "session/open", "session", path=str(path))
        assert (again["read_only"], again["id"], again["seq"]) == (False, info["id"], info["seq"])


async def test_an_older_version_that_may_not_be_written_to_is_still_told_as_older(
    home: Path, tmp_path: Path
) -> None:
    path = tmp_path / "old.jsonl"
    path.write_bytes(V1)
    disk = Archive(tmp_path, errno.EACCES)
    async with House(home, disk).daemon() as daemon, daemon.connect() as wire:
        info = await call(wire, "session/open", "session", path=str(path))
        assert info["read_only_reason"] == "older_version"
