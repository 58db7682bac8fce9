"""The fake disk does what the real one does, call by call; and it can lose its power."""

from __future__ import annotations

import inspect
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessiond.journal.disk.files import Files
from sessiond.testing.disk import FaultDisk
from sessiond.testing.platter import Inode

pytestmark = pytest.mark.platform

NAMES = ("a", "b")
ACTIONS = st.one_of(
    st.tuples(st.sampled_from(["create", "open_read", "open_update", "open_append"]),
              st.sampled_from(NAMES)),
    st.tuples(st.sampled_from(["close", "fdatasync", "fsync", "fstat", "lock"]),
              st.integers(0, 4)),
    st.tuples(st.just("write"), st.integers(0, 4), st.binary(max_size=5)),
    st.tuples(st.just("pwrite"), st.integers(0, 4), st.binary(min_size=1, max_size=5),
              st.integers(0, 9)),
    st.tuples(st.just("truncate"), st.integers(0, 4), st.integers(0, 9)),
    st.tuples(st.just("pread"), st.integers(0, 4), st.integers(1, 20), st.integers(0, 9)),
    st.tuples(st.just("rename"), st.sampled_from(NAMES), st.sampled_from(NAMES)),
    st.tuples(st.sampled_from(["unlink", "exists", "stat"]), st.sampled_from(NAMES)),
    st.tuples(st.just("listdir")),
)  # fmt: skip


class Player:
    """A player of actions on any `Files`; descriptors are named by their order."""

    def __init__(self, files: Files, folder: Path) -> None:
        self.files = files
        self.folder = folder
        self.fds: list[tuple[int, str]] = []

    def play(self, action: tuple[object, ...]) -> object:
        """Return the result of an action, without details that differ between disks."""
        op, *args = action
        assert isinstance(op, str)
        if args and isinstance(args[0], int):
            if args[0] >= len(self.fds):
                return None
            fd, kind = self.fds[args[0]]
            if op == "pwrite" and kind == "open_append":
                return None
            if op == "close":
                del self.fds[args[0]]
            args[0] = fd
        else:
            args = [self.folder / name for name in args if isinstance(name, str)]
            args = args or [self.folder]
        try:
            result = getattr(self.files, op)(*args)
        except OSError as error:
            return type(error), error.errno
        if op in {"create", "open_read", "open_update", "open_append"}:
            self.fds.append((result, op))
            return "descriptor"
        if op in {"stat", "fstat"}:
            return result.st_size, stat.S_IFMT(result.st_mode)
        return sorted(result) if op == "listdir" else result

    def end(self) -> dict[str, bytes]:
        """Return the contents of all files, and close all descriptors."""
        found = {}
        for name in self.files.listdir(self.folder):
            fd = self.files.open_read(self.folder / name)
            found[name] = self.files.pread(fd, 1000, 0)
            self.files.close(fd)
        for fd, _kind in self.fds:
            self.files.close(fd)
        return found


@settings(max_examples=200)
@given(st.lists(ACTIONS, max_size=25))
def test_the_fake_disk_answers_every_call_as_the_real_one(
    tmp_path_factory: pytest.TempPathFactory, actions: list[tuple[object, ...]]
) -> None:
    folder = tmp_path_factory.mktemp("disk")
    real, fake = Player(Files(), folder), Player(FaultDisk("/f"), Path("/f"))
    for action in actions:
        assert real.play(action) == fake.play(action), action
    assert real.end() == fake.end()


def test_the_fake_disk_leaves_no_call_to_the_real_one() -> None:
    methods = [name for name, _ in inspect.getmembers(Files, inspect.isfunction)]
    assert len(methods) > 20
    for name in methods:
        assert name in vars(FaultDisk), f"FaultDisk.{name} would touch the real disk"
        own, real = vars(FaultDisk)[name], vars(Files)[name]
        assert inspect.signature(own) == inspect.signature(real), name


def test_a_power_cut_keeps_what_was_synced_and_any_beginning_of_the_rest() -> None:
    disk = FaultDisk("/f")
    path = Path("/f/a")
    fd = disk.create(path)
    disk.write(fd, b"synced")
    disk.fsync(fd)
    assert disk.crash().paths == []
    disk.fsync_folder(path.parent)
    disk.write(fd, b"12")
    disk.write(fd, b"345")
    for keep in range(7):
        assert disk.crash(keep=keep).content(path) == b"synced" + b"12345"[:keep]
    assert disk.crash(keep=1, zeros=9).content(path) == b"synced1\0"
    assert disk.content(path) == b"synced12345"


def test_names_survive_in_the_order_in_which_they_were_made() -> None:
    disk = FaultDisk("/f", "/g")
    a, b = Path("/f/a"), Path("/g/b")
    disk.close(disk.create(a))
    disk.rename(a, b)
    assert [disk.crash(names=keep).paths for keep in range(3)] == [[], [a], [b]]
    disk.fsync_folder(a.parent)
    assert disk.crash().paths == [a]
    disk.fsync_folder(b.parent)
    assert disk.crash().paths == [b]


def test_a_file_in_a_folder_that_was_lost_is_lost() -> None:
    disk = FaultDisk("/f")
    disk.make_folder(Path("/f/g"))
    disk.close(disk.create(Path("/f/g/a")))
    disk.fsync_folder(Path("/f/g"))
    assert disk.crash().paths == []
    disk.fsync_folder(Path("/f"))
    assert disk.crash().paths == [Path("/f/g/a")]


def test_a_sync_that_failed_has_lost_what_readers_still_see() -> None:
    inode = Inode(1)
    inode.write(0, b"abc")
    inode.fail_to_sync(1)
    inode.sync()
    assert inode.seen == b"abc"
    assert inode.after_crash(100, 0).seen == b"a"
    inode.write(3, b"d")
    assert inode.after_crash(100, 0).seen == b"a\0\0d"


def test_a_sync_that_failed_loses_no_cut() -> None:
    inode = Inode(1, b"abcdef")
    inode.truncate(2)
    inode.fail_to_sync(0)
    assert inode.after_crash(0, 0).seen == b"abcdef"
    inode.sync()
    assert inode.after_crash(0, 0).seen == b"ab"


def test_a_kill_leaves_the_page_cache_and_no_descriptor() -> None:
    disk = FaultDisk("/f")
    path = Path("/f/a")
    fd = disk.create(path)
    disk.lock(fd)
    disk.write(fd, b"lost")
    disk.fail("fdatasync")
    with pytest.raises(OSError, match="Input/output"):
        disk.fdatasync(fd)
    disk.write(fd, b"dirty")
    orphaned = disk.kill()
    disk.truncate(fd, 0)
    assert orphaned.open_descriptors == 0
    assert orphaned.content(path) == b"lostdirty"
    fd = orphaned.open_append(path)
    assert orphaned.lock(fd)
    orphaned.fdatasync(fd)
    orphaned.fsync_folder(path.parent)
    assert orphaned.crash().content(path) == b"\0\0\0\0dirty"


def test_the_kernel_may_drop_what_a_failed_sync_has_lost_and_nothing_else() -> None:
    disk = FaultDisk("/f")
    path = Path("/f/a")
    fd = disk.create(path)
    disk.write(fd, b"synced")
    disk.fdatasync(fd)
    disk.write(fd, b"lost")
    disk.fail("fdatasync")
    with pytest.raises(OSError, match="Input/output"):
        disk.fdatasync(fd)
    disk.write(fd, b"dirty")
    disk.evict(path)
    assert disk.content(path) == b"synced\0\0\0\0dirty"


def test_faults_come_once_where_they_were_asked_for() -> None:
    disk = FaultDisk("/f")
    fd = disk.create(Path("/f/a"))
    second = disk.fail("write", nth=2, partial=3)
    disk.write(fd, b"one")
    with pytest.raises(OSError, match="Input/output"):
        disk.write(fd, b"two-and-more")
    assert second.hit
    disk.write(fd, b"x")
    assert disk.content(Path("/f/a")) == b"onexwo"
    never = disk.fail(None, nth=100)
    disk.heal()
    assert not never.hit


def test_a_file_is_as_old_as_its_last_write() -> None:
    disk = FaultDisk("/f")
    fd = disk.create(Path("/f/a"))
    disk.write(fd, b"a")
    first = disk.fstat(fd).st_mtime_ns
    disk.write(fd, b"b")
    assert disk.fstat(fd).st_mtime_ns > first
    disk.seconds += 60
    disk.pwrite(fd, b"c", 0)
    assert disk.fstat(fd).st_mtime_ns - first >= 60_000_000_000
    assert disk.fstat(fd).st_mtime_ns / 1e9 >= disk.now()


def test_a_full_disk_takes_what_fits_and_then_nothing() -> None:
    disk = FaultDisk("/f")
    fd = disk.create(Path("/f/a"))
    disk.capacity = 4
    assert disk.write(fd, b"123456") == 4
    with pytest.raises(OSError, match="No space"):
        disk.write(fd, b"5")
    disk.truncate(fd, 0)
    assert disk.pwrite(fd, b"12", 0) == 2
