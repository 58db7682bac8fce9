"""The record of who has a file, and of how much of the file is known to be on disk.

It is keyed by device and inode, so that a renamed file keeps it and two profiles that open one
file find the same record. It may be missing or stale after a crash.

A record that outlives its owner says that the owner may have seen a sync fail, after which no sync
of a later owner proves that the file is on disk. What lies behind the byte in `durable` is written
again before it is trusted. The record is never synced: it is needed exactly as long as the page
cache that it speaks of.

    pid 4242
    host workstation
    since 2026-01-15T10:30:00.000Z
    socket /run/user/1000/sessiond/default.sock        (of a daemon that listens)
    durable 1234                                       (or all: the owner writes nothing into the file)
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from msgspec import Struct

from sessiond.journal.disk.descriptor import write_all
from sessiond.journal.disk.files import Files

__all__ = [
    "Holder",
    "doubt_in",
    "holders",
    "may_live",
    "read_holder",
    "read_record",
    "record_of",
    "write_record",
]

# A path has at most 4096 bytes.
_RECORD_BYTES_MAX: Final = 8192
_DURABLE: Final = "durable"
_ALL: Final = "all"


class Holder(Struct, frozen=True):
    """A process that holds a lock."""

    pid: int
    host: str
    since: str
    socket: str | None = None


def read_holder(files: Files, fd: int, locks: Path) -> Holder | None:
    """What is recorded of the holder of an open file; true only while somebody holds it."""
    return read_record(files, record_of(files, fd, locks))


def holders(files: Files, locks: Path) -> list[tuple[Path, Holder | None]]:
    """Every record there is, with who left it if that can be read. Raises OSError."""
    return [
        (locks / name, read_record(files, locks / name)) for name in sorted(files.listdir(locks))
    ]


def may_live(files: Files, holder: Holder | None) -> bool:
    """Whether whoever left a record may still be there; on another machine nobody can say."""
    if holder is None or holder.host != files.host():
        return holder is not None
    return files.is_alive(holder.pid)


def record_of(files: Files, fd: int, locks: Path) -> Path:
    """Return where the record of an open file lies. Raises OSError."""
    found = files.fstat(fd)
    return locks / f"{found.st_dev:x}-{found.st_ino}"


def read_record(files: Files, record: Path) -> Holder | None:
    """Return who wrote a record; None if that cannot be read."""
    try:
        fields = _fields(files, record)
        return Holder(int(fields["pid"]), fields["host"], fields["since"], fields.get("socket"))
    except (OSError, ValueError, KeyError):
        return None


def write_record(files: Files, record: Path, holder: Holder, durable: int | None) -> None:
    """Write a record; half a one leaves the whole file in doubt. Raises OSError."""
    text = f"pid {holder.pid}\nhost {holder.host}\nsince {holder.since}\n"
    if holder.socket is not None:
        text += f"socket {holder.socket}\n"
    # The last line: a record without it was not written to its end.
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
    """Return from which byte on a left record puts the file in doubt; None if there is no doubt.

    A record that cannot be read, or is of a version that noted nothing, leaves all in doubt.
    """
    try:
        noted = _fields(files, record)[_DURABLE]
        return None if noted == _ALL else max(0, int(noted))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError):
        return 0


def _fields(files: Files, record: Path) -> dict[str, str]:
    """Return what a record says. Raises OSError, ValueError."""
    fd = files.open_read(record)
    try:
        text = files.pread(fd, _RECORD_BYTES_MAX, 0).decode()
    finally:
        files.close(fd)
    # Half a last line is none.
    return dict(line.split(" ", 1) for line in text.split("\n")[:-1])
