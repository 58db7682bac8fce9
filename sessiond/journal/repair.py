"""Repair of a file after a failed write or sync, and copies of bytes before a cut.

Law: each function may stop anywhere with an OSError. The caller may then call the function
again, on a new descriptor.
"""

from __future__ import annotations

import errno
from array import array
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Final
from zlib import crc32

from msgspec import Struct

from sessiond.journal.disk.descriptor import Descriptor, close_quietly
from sessiond.journal.disk.files import Files
from sessiond.journal.profile.making import fill, remove_own
from sessiond.journal.profile.names import torn_end_name
from sessiond.journal.reader import LineReader
from sessiond.journal.scanning import chunks_of
from sessiond.limits import INTAKE_BYTES

_CHUNK_BYTES: Final = 1024 * 1024


def cut_back(files: Files, reader: LineReader, out: Descriptor, durable: int) -> None:
    """Cut the file behind its last committed line and make the rest durable. Raises OSError."""
    end = reader.file_end
    if out.size() != end:
        _check_not_shorter(out, end)
        out.truncate(end)
    write_again(files, reader, durable, end)
    out.sync()


def keep_all(
    files: Files, reader: LineReader, out: Descriptor, durable: int, closing: bytes
) -> None:
    """Keep all bytes behind the last committed line, ours or foreign, and make them durable.

    Ends a half line, ours or foreign, with `closing` unless `closing` is empty. Raises OSError.
    """
    end = reader.file_end
    _check_not_shorter(out, end)
    size = out.size()
    if closing and size > end and reader.bytes_at(size - 1, 1) != b"\n":
        out.write(closing)
        size = out.size()
    write_again(files, reader, durable, size)
    out.sync()


def copy_aside(files: Files, reader: LineReader, start: int, stamp: str) -> Path:
    """Copy all bytes from `start` on, durably, to a new file beside this one; return its path.

    Raises OSError.
    """
    fd, copy = _create_copy(files, reader.path, stamp)
    fill(files, fd, copy, chunks_of(files, reader.fd, start))
    try:
        files.fsync_folder(copy.parent)
    except OSError:
        remove_own(files, copy, fd)
        raise
    finally:
        close_quietly(files, fd)
    return copy


def _create_copy(files: Files, path: Path, stamp: str) -> tuple[int, Path]:
    for number in count(1):
        copy = torn_end_name(path, stamp, number)
        with suppress(FileExistsError):
            return files.create(copy), copy
    raise AssertionError("there is always another number")


def _check_not_shorter(out: Descriptor, end: int) -> None:
    # Cutting a shorter file to `end` would fill the gap with zeros.
    if out.size() < end:
        raise OSError(errno.ESTALE, "it was shortened by another program")


def write_again(files: Files, reader: LineReader, start: int, end: int) -> int:
    """Write bytes of the file again in place, so that the next sync stores them.

    Returns the CRC-32 of the bytes. A failed sync may have marked their pages clean without storing
    them. No later sync, on any descriptor, would store those pages. Raises OSError.
    """
    at, checksum = start, 0
    while at < end:
        chunk = files.pread(reader.fd, min(_CHUNK_BYTES, end - at), at)
        if not chunk:
            raise OSError(errno.ESTALE, "it was shortened by another program")
        count = files.pwrite(reader.fd, chunk, at)
        checksum = crc32(chunk[:count], checksum)
        at += count
    return checksum


class TailPiece(Struct, frozen=True):
    """The next lines behind the last known line, and how far they were searched.

    The lines end at `ends[1:]`. There is no newline between `ends[-1]` and `upto`. `is_all` says
    that the file ended at `upto`.
    """

    lines: list[bytes]
    ends: array[int]
    upto: int
    is_all: bool


def read_some(files: Files, reader: LineReader, start: int, searched: int) -> TailPiece:
    """Read whole lines from `start` on: about INTAKE_BYTES, or one longer line.

    There is no newline between `start` and `searched`: a growing half line is searched only once.
    Raises OSError.
    """
    ends = array("q", [start])
    at = first = max(start, searched)
    is_all = True
    while chunk := files.pread(reader.fd, INTAKE_BYTES, at):
        newline = chunk.find(b"\n")
        while newline >= 0:
            ends.append(at + newline + 1)
            newline = chunk.find(b"\n", newline + 1)
        at += len(chunk)
        if len(ends) > 1 and at - first >= INTAKE_BYTES:
            is_all = False
            break
    return TailPiece(reader.lines_at(ends) if len(ends) > 1 else [], ends, at, is_all)
