"""What landed between our look at a file and our write into it, or between two pieces of that.

    {"whole":1}\n{"theirs"{"ours":1}\n{"ours":2}\n
    {"ours":1}\n{"ou{"theirs":1}\nrs":2}\n

Law: nothing that another program wrote is touched. Its whole lines come before ours.
Where ours were glued to half a line, or theirs to half a one of ours, ours are made blank, which leaves
theirs a line of their own, and written again behind it: nobody was told of ours yet, and their
offsets prove whose they are.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from sessiond.journal.disk.descriptor import Piece
from sessiond.journal.disk.files import Files
from sessiond.journal.reader import LineReader
from sessiond.journal.recovery import split_whole
from sessiond.limits import LINE_BYTES_MAX

__all__ = ["Glued", "are_together", "lines_between", "make_blank"]

_BLANK: Final = ord(" ")


class Glued(Exception):
    """Our bytes cannot stay where they are."""


def are_together(pieces: Sequence[Piece]) -> bool:
    """Whether nothing lies between the pieces of a write."""
    return all(one.start + one.last - one.first == other.start for one, other in pairwise(pieces))


def lines_between(reader: LineReader, data: bytes, pieces: Sequence[Piece]) -> list[bytes]:
    """The whole lines before ours, which follow the last known line.

    Raises Glued, and OSError when that is not what happened to the file.
    """
    end = reader.ends[-1]
    gap = pieces[0].start - end
    if gap < 0:
        raise OSError(errno.ESTALE, "it was shortened by another program")
    if not all(_is_ours(reader, data, piece) for piece in pieces):
        raise OSError(errno.EBUSY, "another program wrote into the middle of a line")
    if not are_together(pieces):
        raise Glued
    if gap > LINE_BYTES_MAX:
        # What came between is read by pieces, with ours behind it.
        raise Glued
    lines, half = split_whole(reader.bytes_at(end, gap))
    if half:
        raise Glued
    return lines


def make_blank(files: Files, reader: LineReader, data: bytes, pieces: Sequence[Piece]) -> None:
    """Put blanks in the place of our bytes; lines stay lines. Safe to repeat. Raises OSError."""
    for piece in pieces:
        if not _is_ours(reader, data, piece):
            continue
        ours = data[piece.first : piece.last]
        blank = b"\n".join(b" " * len(line) for line in ours.split(b"\n"))
        done = 0
        while done < len(blank):
            done += files.pwrite(reader.fd, memoryview(blank)[done:], piece.start + done)


def _is_ours(reader: LineReader, data: bytes, piece: Piece) -> bool:
    """Whether a piece is where it was written, blank or not, and nobody was told of it."""
    if piece.start < reader.file_end:
        return False
    ours = data[piece.first : piece.last]
    found = reader.bytes_at(piece.start, len(ours))
    if len(found) < len(ours):
        return False
    return found == ours or all(
        one in (byte, _BLANK) for one, byte in zip(found, ours, strict=True)
    )
