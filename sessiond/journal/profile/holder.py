"""The record of a file's lock: its owner, and how many bytes of the file are known to be on disk.

The record is keyed by device and inode, so a renamed file keeps its record and two profiles that
open one file find one record. The record may be missing or stale after a crash.

A record that outlives its owner says that the owner may have seen a sync fail, after which no sync
of a later owner proves that the file is on disk. The bytes behind the offset `durable` are written
again before they are trusted. The record is never synced: it is needed exactly as long as the page
cache that it describes.

    pid 4242
    host workstation
    since 2026-01-15T10:30:00.000Z
    socket /run/user/1000/sessiond/default.sock        (of a daemon that listens)
    birth 1c6f… pid:[4026531836] 8812                   (of a daemon that listens)
    durable 1234                                       (or all: the owner writes nothing into the file)
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from msgspec import Struct, structs

from sessiond.journal.disk.descriptor import write_all
from sessiond.journal.disk.files import Files
from sessiond.limits import START_SECONDS
from sessiond.model.times import unix_ms
from sessiond.system import SYSTEM

_AWAY: Final = "a daemon on another machine or in another container"
# A path has at most 4096 bytes.
_RECORD_BYTES_MAX: Final = 8192
_CLOCK_SECONDS: Final = 1.0
_DURABLE: Final = "durable"
_ALL: Final = "all"


class Holder(Struct, frozen=True):
    """A process that holds a lock."""

    pid: int
    host: str
    since: str
    socket: str | None = None
    birth: str = ""
    """`System.birth_of` the process, of a daemon; "" if unknown."""

    @property
    def is_here(self) -> bool:
        """Return whether the pid is certain to mean this process here, too, as far as the system tells."""
        return SYSTEM.birth_of(os.getpid()).split()[:2] == self.birth.split()[:2]

    def __str__(self) -> str:
        """Return words for a daemon; they name no pid that may mean another process here."""
        elsewhere = _AWAY if self.birth else "another daemon"
        who = f"the daemon with pid {self.pid}" if self.is_here else elsewhere
        return f"{who}, there since {self.since},"


def read_holder(files: Files, fd: int, locks: Path) -> Holder | None:
    """Return the recorded holder of an open file, which is right only while the lock is held.

    A record of 0.1.0 tells no birth. The holder gets one if its process is certain: if host and `since` fit the
    process, and the system names its pid as that of the lock's owner.
    """
    holder = read_record(files, record_of(files, fd, locks))
    if holder is None or holder.birth or holder.host != files.host():
        return holder
    began = SYSTEM.began_at(holder.pid)
    took = None if began is None else (unix_ms(holder.since) or 0) / 1000 - began
    # A clock that was set a little since then moves the process's start.
    fits = took is not None and -_CLOCK_SECONDS <= took <= START_SECONDS
    if not fits or files.locked_by(fd) != holder.pid:
        return holder
    return structs.replace(holder, birth=SYSTEM.birth_of(holder.pid))


def holders(files: Files, locks: Path) -> list[tuple[Path, Holder | None]]:
    """Return every record with its holder, None for an unreadable record. Raises OSError."""
    return [
        (locks / name, read_record(files, locks / name)) for name in sorted(files.listdir(locks))
    ]


def may_live(files: Files, holder: Holder | None) -> bool:
    """Return whether the holder may still be alive; True for a process of another machine."""
    if holder is None or holder.host != files.host():
        return holder is not None
    return files.is_alive(holder.pid)


def record_of(files: Files, fd: int, locks: Path) -> Path:
    """Return the path of an open file's record. Raises OSError."""
    found = files.fstat(fd)
    return locks / f"{found.st_dev:x}-{found.st_ino}"


def read_record(files: Files, record: Path) -> Holder | None:
    """Return the holder that a record names; None for an unreadable record."""
    try:
        fields = _fields(files, record)
        listens = fields.get("socket"), fields.get("birth", "")
        return Holder(int(fields["pid"]), fields["host"], fields["since"], *listens)
    except (OSError, ValueError, KeyError):
        return None


def write_record(files: Files, record: Path, holder: Holder, durable: int | None) -> None:
    """Write a record; a record cut short leaves the whole file in doubt. Raises OSError."""
    text = f"pid {holder.pid}\nhost {holder.host}\nsince {holder.since}\n"
    if holder.socket is not None:
        text += f"socket {holder.socket}\n"
    if holder.birth:
        text += f"birth {holder.birth}\n"
    # This line comes last: a record without it was cut short.
    text += f"{_DURABLE} {_ALL if durable is None else durable}\n"
    data = text.encode()
    try:
        fd = files.create(record)
    except FileExistsError:
        fd = files.open_update(record)
    try:
        files.truncate(fd, 0)
        write_all(files, fd, data)
    finally:
        files.close(fd)


def doubt_in(files: Files, record: Path) -> int | None:
    """Return the offset from which a leftover record puts the file in doubt; None for no doubt.

    An unreadable record, and a record of a version without `durable`, put the whole file in doubt.
    """
    try:
        noted = _fields(files, record)[_DURABLE]
        return None if noted == _ALL else max(0, int(noted))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError):
        return 0


def _fields(files: Files, record: Path) -> dict[str, str]:
    """Return the fields of a record. Raises OSError, ValueError."""
    fd = files.open_read(record)
    try:
        text = files.pread(fd, _RECORD_BYTES_MAX, 0).decode()
    finally:
        files.close(fd)
    # A last line without a newline was cut short and does not count.
    return dict(line.split(" ", 1) for line in text.split("\n")[:-1])
