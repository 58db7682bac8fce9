"""The calls in which platforms differ: what each platform asks its kernel, and after a refusal."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sessiond.system import PLATFORMS, linux, macos
from sessiond.system.base import RENAME_UNSUPPORTED, System
from sessiond.system.linux import LINUX
from sessiond.system.macos import MACOS
from sessiond.system.unix import UNIX

pytestmark = pytest.mark.platform

ON_LINUX = hasattr(socket, "SO_PEERCRED")


class Kernel:
    """A kernel that notes syncs and refuses the full one with an errno, if it is told to."""

    def __init__(self, refusal: int | None = None) -> None:
        self.calls: list[str] = []
        self._refusal = refusal

    def fcntl(self, _fd: int, command: int) -> int:
        assert command == 51, "F_FULLFSYNC of <sys/fcntl.h>"
        self.calls.append("full")
        if self._refusal is not None:
            raise OSError(self._refusal, os.strerror(self._refusal))
        return 0

    def fsync(self, _fd: int) -> None:
        self.calls.append("fsync")


KernelOf = Callable[..., Kernel]


@pytest.fixture
def kernel_of(monkeypatch: pytest.MonkeyPatch) -> KernelOf:
    """Return a function that replaces this machine's kernel for the syncs of macOS."""

    def install(refusal: int | None = None) -> Kernel:
        kernel = Kernel(refusal)
        monkeypatch.setattr(fcntl, "fcntl", kernel.fcntl)
        monkeypatch.setattr(os, "fsync", kernel.fsync)
        return kernel

    return install


@pytest.mark.parametrize("sync", ["sync", "sync_data"])
def test_durable_on_macos_means_on_the_medium(kernel_of: KernelOf, sync: str) -> None:
    kernel = kernel_of()
    getattr(MACOS, sync)(3)
    assert kernel.calls == ["full"]


@pytest.mark.parametrize("refusal", [errno.ENOTSUP, errno.ENOTTY, errno.EINVAL])
def test_a_file_system_without_a_full_sync_gets_the_one_it_has(
    kernel_of: KernelOf, refusal: int
) -> None:
    kernel = kernel_of(refusal)
    MACOS.sync_data(3)
    assert kernel.calls == ["full", "fsync"]


@pytest.mark.parametrize("failure", [errno.EIO, errno.ENOSPC, errno.EDQUOT])
def test_a_full_sync_that_failed_is_not_tried_in_another_way(
    kernel_of: KernelOf, failure: int
) -> None:
    kernel = kernel_of(failure)
    with pytest.raises(OSError, match=os.strerror(failure)):
        MACOS.sync_data(3)
    assert kernel.calls == ["full"]


class Library:
    """The C library of macOS, which fails with an errno."""

    def __init__(self, code: int) -> None:
        self.code = code
        self.asked: list[tuple[bytes, bytes, int]] = []

    def renamex_np(self, old: bytes, new: bytes, flags: int) -> int:
        import ctypes

        self.asked.append((old, new, flags))
        ctypes.set_errno(self.code)
        return -1 if self.code else 0


def test_a_rename_on_macos_replaces_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library(0)
    monkeypatch.setattr(macos, "c_library", lambda: library)
    MACOS.rename_new(Path("/a"), Path("/b"))
    assert library.asked == [(b"/a", b"/b", 4)], "RENAME_EXCL of <sys/stdio.h>"
    library.code = errno.EEXIST
    with pytest.raises(FileExistsError):
        MACOS.rename_new(Path("/a"), Path("/b"))


def test_a_platform_without_the_call_says_that_it_cannot_rename_so() -> None:
    with pytest.raises(OSError, match="implemented") as refused:
        UNIX.rename_new(Path("/a"), Path("/b"))
    assert refused.value.errno in RENAME_UNSUPPORTED


@pytest.mark.skipif(not ON_LINUX, reason="a call of Linux")
def test_a_rename_on_linux_replaces_nothing(tmp_path: Path) -> None:
    old, new = tmp_path / "a", tmp_path / "b"
    old.write_text("a")
    LINUX.rename_new(old, new)
    old.write_text("other")
    with pytest.raises(FileExistsError):
        LINUX.rename_new(old, new)
    assert new.read_text() == "a"


@pytest.mark.skipif(not ON_LINUX, reason="a call of Linux")
@pytest.mark.parametrize(
    ("kind", "is_local"),
    [(0xEF53, True), (0x01021994, True), (0x65735546, False), (0x6969, False), (0xFF534D42, False)],
)
def test_a_file_system_that_others_change_is_known_by_its_kind(
    monkeypatch: pytest.MonkeyPatch, kind: int, is_local: bool
) -> None:
    class Library:
        def statfs(self, path: bytes, found: Any) -> int:
            assert path == b"/a"
            struct.pack_into("l", found, 0, kind)
            return 0

    monkeypatch.setattr(linux, "c_library", Library)
    assert LINUX.is_local(Path("/a")) is is_local


def test_a_local_folder_is_local_and_so_is_what_is_not_there(tmp_path: Path) -> None:
    for system in (*PLATFORMS.values(), UNIX):
        if system is not LINUX or ON_LINUX:
            assert system.is_local(tmp_path)
            assert system.is_local(tmp_path / "missing")


class Socket:
    """A socket of macOS: struct xucred is a version, a uid and more; the pid is asked for apart."""

    def getsockopt(self, level: int, option: int, size: int) -> bytes:
        assert level == 0, "SOL_LOCAL of <sys/un.h>"
        return {1: struct.pack("2I", 0, 501), 2: struct.pack("i", 4711)}[option][:size]


def test_macos_tells_who_is_at_the_other_end() -> None:
    sock: Any = Socket()
    assert MACOS.peer_of(sock) == (501, 4711)
    assert UNIX.peer_of(sock) == (501, 0)


@pytest.mark.skipif(not ON_LINUX, reason="a call of Linux")
def test_linux_tells_who_is_at_the_other_end() -> None:
    one, other = socket.socketpair()
    with one, other:
        assert LINUX.peer_of(one) == (os.getuid(), os.getpid())


@pytest.mark.parametrize("system", [*PLATFORMS.values(), UNIX])
def test_every_platform_makes_a_real_file_durable(
    system: System, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if system is MACOS and ON_LINUX:
        refused = OSError(errno.EINVAL, "no such command")
        monkeypatch.setattr(fcntl, "fcntl", lambda *_: (_ for _ in ()).throw(refused))
    with (tmp_path / "f").open("wb") as file:
        file.write(b"x")
        file.flush()
        system.sync_data(file.fileno())
        system.sync(file.fileno())


def test_this_platform_is_known() -> None:
    assert sys.platform in PLATFORMS


@pytest.mark.parametrize("system", [*PLATFORMS.values(), UNIX])
def test_large_blocks_go_back_where_the_platform_can_say_so(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, int]] = []

    class Library:
        """A C library that notes what is asked of its memory."""

        @staticmethod
        def mallopt(what: int, value: int) -> None:
            asked.append((what, value))

    monkeypatch.setattr(linux, "c_library", Library)
    system.give_back_large_blocks()
    monkeypatch.setattr(linux, "c_library", object)
    system.give_back_large_blocks()
    # M_MMAP_THRESHOLD of <malloc.h>; a library of another kind has no such call.
    assert asked == ([(-3, 1 << 20)] if system is LINUX else [])


@pytest.mark.skipif(not ON_LINUX, reason="other systems keep no process from a processor")
def test_a_process_counts_the_processors_that_it_was_given() -> None:
    given = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(given)})
        assert LINUX.processors() == 1
        assert UNIX.processors() == MACOS.processors() == os.cpu_count()
    finally:
        os.sched_setaffinity(0, given)
