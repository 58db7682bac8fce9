"""The platform Linux."""

from __future__ import annotations

import errno
import os
import socket
import struct
import time
from pathlib import Path
from typing import Final

from sessiond.system.base import c_library, rename_failed
from sessiond.system.unix import Unix

_AT_FDCWD: Final = -100
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
# The 22nd field of /proc/PID/stat, counted behind the name, which is the second.
_START_AT: Final = 19
_LOCKS: Final = Path("/proc/locks")
_STATFS_BYTES: Final = 256
_KIND: Final = struct.Struct("l")
_CHANGED_BY_OTHERS: Final = frozenset(
    {
        *(0x65735546, 0x6969, 0x517B, 0xFF534D42, 0xFE534D42),  # FUSE, NFS, SMB, CIFS, SMB2
        *(0x01021997, 0x00C36400, 0x5346414F, 0x73757245),  # 9P, Ceph, AFS, Coda
        *(0x0BD00BD0, 0x47504653, 0x01161970, 0x7461636F),  # Lustre, GPFS, GFS2, OCFS2
        0x786F4256,  # VirtualBox
    }
)
"""Kinds of file systems, by the first member of struct statfs."""
_RENAME_NOREPLACE: Final = 1
_M_MMAP_THRESHOLD: Final = -3
_LARGE_BLOCK_BYTES: Final = 1024 * 1024
_UCRED: Final = struct.Struct("3i")


class Linux(Unix):
    """Linux with `fdatasync`, `renameat2`, `SO_PEERCRED` and inotify."""

    has_inotify = True

    def is_local(self, path: Path) -> bool:
        """Return False for FUSE, and for file systems of networks.

        inotify reports what this machine does by this mount: not what is done to a branch of mergerfs.
        """
        # Imported here: most processes watch no file.
        from ctypes import create_string_buffer

        found = create_string_buffer(_STATFS_BYTES)
        if c_library().statfs(os.fsencode(path), found):
            # What cannot be asked is missing; the next call says why.
            return True
        return _KIND.unpack_from(found)[0] & 0xFFFFFFFF not in _CHANGED_BY_OTHERS

    def rename_new(self, old: Path, new: Path) -> None:
        """Rename by `renameat2`."""
        call = getattr(c_library(), "renameat2", None)
        if call is None:
            # The C library is older than the call.
            raise rename_failed(errno.ENOSYS, old, new)
        names = os.fsencode(old), os.fsencode(new)
        if call(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_NOREPLACE):
            from ctypes import get_errno

            raise rename_failed(get_errno(), old, new)

    def give_back_large_blocks(self) -> None:
        """Map each large block by itself, by `mallopt`.

        Without the call, glibc learns from the first large block that is freed: later ones of up to 32 MiB come
        from the heaps of threads, are copied as they grow, and stay there.
        """
        call = getattr(c_library(), "mallopt", None)
        if call is not None:
            call(_M_MMAP_THRESHOLD, _LARGE_BLOCK_BYTES)

    def peer_of(self, sock: socket.socket) -> tuple[int, int]:
        """Ask by `SO_PEERCRED`: struct ucred holds pid, uid and gid."""
        found = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
        pid, uid, _ = _UCRED.unpack(found)
        return uid, pid

    def holder_of(self, fd: int) -> int:
        """Read `/proc/locks`, where a process of another pid namespace has a pid below 1."""
        found = os.fstat(fd)
        device, inode = found.st_dev, found.st_ino
        file = f"{os.major(device):02x}:{os.minor(device):02x}:{inode}"
        for line in _LOCKS.read_text("ascii").splitlines():
            # 1: FLOCK  ADVISORY  WRITE 4242 08:02:1234 0 EOF
            words = line.split()
            if words[1:2] == ["FLOCK"] and words[5:6] == [file]:
                return max(0, int(words[4]))
        return 0

    def processors(self) -> int:
        """Ask for those that the process was given, as by `taskset` or for a container."""
        return len(os.sched_getaffinity(0))

    def birth_of(self, pid: int) -> str:
        """Read `/proc`; the start of the process is in ticks since the start of the machine."""
        try:
            boot_id = _BOOT_ID.read_text("ascii").strip()
            namespace = Path(f"/proc/{pid}/ns/pid").readlink()
            # The name of the program is in parentheses, and may have blanks and parentheses.
            fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            return ""
        return f"{boot_id} {namespace} {fields[_START_AT].decode()}"

    def began_at(self, pid: int) -> float | None:
        """Count from the start of the machine, which is the clock's time less the time that the machine runs."""
        birth = self.birth_of(pid).split()
        if not birth:
            return None
        runs = time.clock_gettime(time.CLOCK_BOOTTIME)
        return time.time() - runs + int(birth[-1]) / os.sysconf("SC_CLK_TCK")


LINUX: Final = Linux()
