"""Journals: files that are created and moved, their permissions, locks, and reads."""

from __future__ import annotations

import errno
import itertools
import os
import stat
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from sessiond.errors import SessionLocked, StorageError
from sessiond.journal.disk.files import Files
from sessiond.journal.journal import Journal
from sessiond.journal.profile.layout import Layout
from sessiond.journal.profile.lock import FileLock, Held, lock_daemon
from sessiond.journal.profile.making import write_unfinished
from sessiond.testing.disk import FaultDisk
from sessiond.testing.journals import (
    HEADER,
    LINES,
)
from tests.kit.journals import FILE, FOLDER, LOCKS, ignore, lines_of, opened_on
from tests.kit.limits import set_limits
from tests.kit.patience import PATIENCE_SECONDS, soon

pytestmark = pytest.mark.platform


@pytest.fixture
def umask() -> Iterator[Callable[[int], None]]:
    before = os.umask(0o022)
    os.umask(before)
    yield lambda mask: (os.umask(mask), None)[1]
    os.umask(before)


# -- creating, moving, permissions -----------------------------------------------------


def test_a_created_file_is_durable_before_anybody_hears_of_it(disk: FaultDisk) -> None:
    Journal.create(disk, FILE, HEADER, locks=LOCKS)
    assert disk.crash().content(FILE) == HEADER + b"\n"


@pytest.mark.parametrize("pieces", [3, 40])
def test_a_new_file_leaves_the_disk_little_to_write_at_once(
    disk: FaultDisk, monkeypatch: pytest.MonkeyPatch, pieces: int
) -> None:
    set_limits(monkeypatch, SYNC_STEP_BYTES=100)
    synced: list[int] = []

    def written() -> Iterator[bytes]:
        for _ in range(pieces):
            yield b"x" * 30
            synced.append(disk.syncs)

    before = disk.syncs
    fd, path = write_unfinished(disk, FOLDER, written())
    disk.close(fd)
    disk.fsync_folder(FOLDER)
    assert disk.crash().content(path) == b"x" * 30 * pieces
    # Of the bytes of one step, and of a piece, no more waited for a sync; a small file has one sync.
    assert max(Counter(synced).values()) <= 4
    assert disk.syncs - before == pieces // 4 + 1


def test_a_name_that_is_taken_is_not_overwritten(disk: FaultDisk) -> None:
    disk.put(FILE, b"somebody's\n")
    with pytest.raises(StorageError) as caught:
        Journal.create(disk, FILE, HEADER, locks=LOCKS)
    assert caught.value.data()["errno"] == "EEXIST"
    assert disk.content(FILE) == b"somebody's\n"
    assert disk.open_descriptors == 0


def test_a_file_that_is_named_like_a_new_one_is_left_alone(disk: FaultDisk) -> None:
    theirs = FILE.with_name("s.jsonl.new")
    disk.put(theirs, b"somebody's")
    Journal.create(disk, FILE, HEADER, locks=LOCKS).close()
    assert disk.paths == [FILE, theirs]
    assert disk.content(theirs) == b"somebody's"


@pytest.mark.parametrize("can", ["rename without replacing", "link", "neither"])
def test_whatever_call_of_a_creation_fails_there_is_a_whole_file_or_none(can: str) -> None:
    for nth in itertools.count(1):
        disk = FaultDisk(FILE.parent, LOCKS)
        if can != "rename without replacing":
            disk.fail("rename", errno=errno.EINVAL)
        if can == "neither":
            disk.fail("link", errno=errno.EPERM)
        fault = disk.fail(None, nth=nth)
        try:
            Journal.create(disk, FILE, HEADER, locks=LOCKS).close()
        except StorageError:
            assert [path for path in disk.paths if path.parent != LOCKS] == []
        else:
            assert [path for path in disk.paths if path.parent != LOCKS] == [FILE]
            assert disk.crash().content(FILE) == HEADER + b"\n"
        assert disk.open_descriptors == 0
        for names in range(5):
            left = disk.crash(names=names)
            # With neither the name is taken first, by an empty file.
            whole = [HEADER + b"\n", b""] if can == "neither" else [HEADER + b"\n"]
            assert FILE not in left.paths or left.content(FILE) in whole
        if not fault.hit:
            break


@pytest.mark.parametrize("can", ["rename without replacing", "link", "neither"])
def test_a_name_that_is_taken_in_the_last_moment_is_not_overwritten(
    disk: FaultDisk, monkeypatch: pytest.MonkeyPatch, can: str
) -> None:
    if can != "rename without replacing":
        disk.fail("rename", errno=errno.EINVAL)
    if can == "neither":
        disk.fail("link", errno=errno.EPERM)
    rename_new = disk.rename_new

    def late(old: Path, new: Path) -> None:
        disk.put(new, b"somebody's\n")
        rename_new(old, new)

    monkeypatch.setattr(disk, "rename_new", late)
    with pytest.raises(StorageError) as caught:
        Journal.create(disk, FILE, HEADER, locks=LOCKS)
    assert caught.value.data()["errno"] == "EEXIST"
    assert disk.paths == [FILE]
    assert disk.content(FILE) == b"somebody's\n"
    assert disk.open_descriptors == 0


@pytest.mark.parametrize("taken", [True, False])
@pytest.mark.parametrize("can", [True, False])
def test_a_file_is_moved_to_a_free_name_only(disk: FaultDisk, *, can: bool, taken: bool) -> None:
    journal = Journal.create(disk, FILE, HEADER, locks=LOCKS)
    place = FOLDER / "other.jsonl"
    if taken:
        disk.put(place, b"somebody's\n")
    if not can:
        disk.fail("rename", errno=errno.EINVAL)
    if taken:
        with pytest.raises(StorageError, match="the name is taken"):
            journal.move(place)
        assert (journal.path, disk.content(place)) == (FILE, b"somebody's\n")
    else:
        journal.move(place)
        assert (journal.path, disk.content(place)) == (place, HEADER + b"\n")
    journal.close()


def test_a_rename_on_this_machine_replaces_nothing(tmp_path: Path) -> None:
    files, old = Files(), tmp_path / "old"
    old.write_bytes(b"old")
    names = {name: tmp_path / name for name in ("file", "folder", "link", "free")}
    names["file"].write_bytes(b"mine")
    names["folder"].mkdir()
    names["link"].symlink_to(tmp_path / "nowhere")
    for name, path in names.items():
        if name != "free":
            with pytest.raises(FileExistsError):
                files.rename_new(old, path)
    files.rename_new(old, names["free"])
    assert (names["free"].read_bytes(), names["file"].read_bytes()) == (b"old", b"mine")
    with pytest.raises(FileNotFoundError):
        files.rename_new(old, names["free"].with_name("another"))


def test_what_took_the_place_of_a_new_file_is_not_removed_with_it(
    disk: FaultDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_folder: Path) -> None:
        disk.put(FILE, b"somebody's\n")
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(disk, "fsync_folder", refused)
    with pytest.raises(StorageError):
        Journal.create(disk, FILE, HEADER, locks=LOCKS)
    assert disk.content(FILE) == b"somebody's\n"


def test_an_import_is_one_file_of_many_lines(disk: FaultDisk) -> None:
    journal = Journal.create(disk, FILE, b"\n".join([HEADER, *LINES]), locks=LOCKS)
    assert lines_of(journal) == [HEADER, *LINES]
    journal.append([b"next"], sync=True)
    assert journal.read(7, 7) == [b"next"]


@pytest.mark.parametrize("mask", [0o000, 0o077, 0o777])
def test_files_and_folders_are_private_whatever_the_umask(
    umask: Callable[[int], None], tmp_path: Path, mask: int
) -> None:
    umask(mask)
    layout = Layout(tmp_path / "home")
    layout.make_folders(Files())
    path = layout.session_path("abcdefgh", "2026-01-15T10-30-00-000000")
    journal = Journal.create(Files(), path, HEADER + b"\ntorn", locks=layout.locks)
    kept = Path(journal.cut_tail("2026", 1))
    daemon = lock_daemon(Files(), layout)
    made = list(layout.home.rglob("*"))
    assert {path, kept, layout.daemon_lock} < set(made)
    for one in made:
        mode = stat.S_IMODE(one.stat().st_mode)
        assert mode == (0o700 if one.is_dir() else 0o600), one.name
    journal.close()
    daemon.close()


def test_a_file_that_cannot_be_made_private_is_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(fd: int, mode: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "fchmod", refuse)
    with pytest.raises(PermissionError):
        Files().create(tmp_path / "s")
    assert list(tmp_path.iterdir()) == []


def test_descriptors_are_not_inherited(tmp_path: Path) -> None:
    journal = Journal.create(Files(), tmp_path / "s.jsonl", HEADER, locks=tmp_path)
    for fd in (journal._reader.fd, journal._writer.out._open_fd()):
        assert not os.get_inheritable(fd)
    journal.close()


def test_descriptors_are_counted(tmp_path: Path) -> None:
    files, path = Files(), tmp_path / "s.jsonl"
    before = files.descriptors_used()
    fds = [files.create(path), files.open_read(path)]
    assert 0 < before == files.descriptors_used() - len(fds) < files.descriptors_max()
    for fd in fds:
        files.close(fd)


def test_a_moved_file_goes_on_under_its_new_name(tmp_path: Path) -> None:
    old, new = tmp_path / "old.jsonl", tmp_path / "new.jsonl"
    journal = Journal.create(Files(), old, HEADER, locks=tmp_path)
    journal.move(new)
    journal.append([b"a"], sync=True)
    assert journal.path == new
    assert not old.exists()
    assert new.read_bytes() == HEADER + b"\na\n"
    with pytest.raises(SessionLocked):
        Journal.open(Files(), new, ignore, locks=tmp_path)
    journal.close()


def test_a_move_never_replaces_a_file(disk: FaultDisk) -> None:
    other = FOLDER / "other.jsonl"
    disk.put(other, b"somebody's\n")
    journal = Journal.create(disk, FILE, HEADER, locks=LOCKS)
    with pytest.raises(StorageError):
        journal.move(other)
    assert disk.content(other) == b"somebody's\n"
    assert journal.path == FILE


# -- locks ---------------------------------------------------------------------------


def test_the_second_owner_is_told_who_the_first_is(disk: FaultDisk) -> None:
    journal = Journal.create(disk, FILE, HEADER, locks=LOCKS)
    with pytest.raises(SessionLocked) as caught:
        Journal.open(disk, FILE, ignore, locks=LOCKS)
    assert caught.value.data()["holder"] == {
        "pid": 4242,
        "host": "testhost",
        "since": "2026-01-15T10:30:00.000Z",
    }
    journal.append([b"a"], sync=True)
    journal.close()
    assert disk.open_descriptors == 0
    assert disk.paths == [FILE], "the record goes with the lock"
    Journal.open(disk, FILE, ignore, locks=LOCKS).close()


@pytest.mark.parametrize("record", [None, b"", b"pid x\nhost y\nsince z\n", b"\xff\n", b"pid 1\n"])
def test_an_unreadable_record_only_costs_the_time(disk: FaultDisk, record: bytes | None) -> None:
    disk.put(FILE, b"h\n")
    first = Journal.open(disk, FILE, ignore, locks=LOCKS)
    (path,) = (path for path in disk.paths if path.parent == LOCKS)
    disk.unlink(path)
    if record is not None:
        fd = disk.create(path)
        if record:
            disk.write(fd, record)
        disk.close(fd)
    with pytest.raises(SessionLocked) as caught:
        Journal.open(disk, FILE, ignore, locks=LOCKS)
    # The system knows who holds the lock, but not since when.
    holder = {"pid": disk.pid(), "host": disk.host(), "since": None}
    assert caught.value.data()["holder"] == holder
    first.close()


def test_a_stale_record_is_replaced_and_a_full_disk_keeps_nobody_out(disk: FaultDisk) -> None:
    disk.put(FILE, b"h\n")
    Journal.open(disk, FILE, ignore, locks=LOCKS)
    disk = disk.crash(names=100, keep=1000)
    assert LOCKS / "1-2" in disk.paths
    Journal.open(disk, FILE, ignore, locks=LOCKS).close()
    disk.capacity = 0
    journal = Journal.open(disk, FILE, ignore, locks=LOCKS)
    assert lines_of(journal) == [b"h"]


def test_one_daemon_per_profile(tmp_path: Path) -> None:
    layout, other = Layout(tmp_path), Layout(tmp_path, "other")
    layout.make_folders(Files())
    other.make_folders(Files())
    first = lock_daemon(Files(), layout)
    with pytest.raises(Held) as caught:
        lock_daemon(Files(), layout)
    assert caught.value.holder is not None
    assert caught.value.holder.pid == os.getpid()
    second = lock_daemon(Files(), other)
    second.close()
    first.close()
    lock_daemon(Files(), layout).close()


@pytest.mark.parametrize("call", ["open_read", "pread"])
@pytest.mark.parametrize("code", [errno.EIO, errno.ESTALE, errno.ENOTCONN])
def test_a_look_at_a_profile_that_fails_proves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, code: int
) -> None:
    layout = Layout(tmp_path)
    layout.make_folders(Files())
    daemon = lock_daemon(Files(), layout)
    assert daemon.is_there()
    with monkeypatch.context() as patch:
        patch.setattr(Files, call, Mock(side_effect=OSError(code, os.strerror(code))))
        with pytest.raises(OSError, match=os.strerror(code)):
            daemon.is_there()
    layout.daemon_lock.unlink()
    assert not daemon.is_there()
    # An inode may be that of the removed file; the token is not.
    layout.daemon_lock.write_text("another\n")
    assert not daemon.is_there()
    daemon.close()


def test_a_lock_on_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="Bad file"):
        FileLock.take(Files(), -1, tmp_path)


# -- reading while others write ----------------------------------------------------------


class Waited(threading.Event):
    """An event that tells when a thread begins to wait for it."""

    def __init__(self) -> None:
        super().__init__()
        self.has_begun = False

    def wait(self, timeout: float | None = None) -> bool:
        """Note that a thread waits, and wait."""
        self.has_begun = True
        return super().wait(timeout)


def test_closing_waits_for_a_read_that_runs(disk: FaultDisk) -> None:
    journal = opened_on(disk, b"h\na\n")
    journal._reader._idle = idle = Waited()
    got: list[list[bytes]] = []
    with disk.hold("pread") as gate, disk.hold("unlink") as record_goes:
        reading = threading.Thread(target=lambda: got.append(journal.read(0, 1)))
        reading.start()
        assert gate.reached.wait(PATIENCE_SECONDS)
        closing = threading.Thread(target=journal.close)
        closing.start()
        # The last thing before the descriptor is let go of is the record of the lock.
        assert record_goes.reached.wait(PATIENCE_SECONDS)
        record_goes.open.set()
        soon(lambda: idle.has_begun or not closing.is_alive())
        assert closing.is_alive()
        assert disk.open_descriptors == 1
    reading.join(PATIENCE_SECONDS)
    closing.join(PATIENCE_SECONDS)
    assert got == [[b"h", b"a"]]
    assert disk.open_descriptors == 0


def test_a_closed_journal_says_so(disk: FaultDisk) -> None:
    journal = opened_on(disk, b"h\n")
    journal.close()
    with pytest.raises(StorageError) as caught:
        journal.read(0, 0)
    assert caught.value.data()["errno"] == "EBADF"
    with pytest.raises(StorageError):
        journal.append([b"a"], sync=True)
    assert disk.content(FILE) == b"h\n"
    assert disk.open_descriptors == 0


@pytest.mark.parametrize("content", [b"h\n", b"h\nx\nyz", b"", b"hh"])
def test_a_file_that_changed_under_us_is_reported_and_not_made_up(
    disk: FaultDisk, content: bytes
) -> None:
    journal = opened_on(disk, b"h\nabc\n")
    fd = disk.open_update(FILE)
    disk.truncate(fd, 0)
    disk.pwrite(fd, content, 0) if content else None
    with pytest.raises(StorageError) as caught:
        journal.read(0, 1)
    assert caught.value.data()["errno"] == "ESTALE"


def test_a_read_that_comes_in_pieces_is_put_together(tmp_path: Path) -> None:
    class Slow(Files):
        def pread(self, fd: int, count: int, offset: int) -> bytes:
            return super().pread(fd, min(count, 3), offset)

    journal = Journal.create(Slow(), tmp_path / "s", HEADER, locks=tmp_path)
    assert journal.read(0, 0) == [HEADER]
    journal.close()
