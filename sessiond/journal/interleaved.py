"""Foreign bytes that landed between the last look and a write, or between two pieces of a write.

    {"whole":1}\n{"theirs"{"ours":1}\n{"ours":2}\n
    {"ours":1}\n{"ou{"theirs":1}\nrs":2}\n

Law: foreign bytes are never changed. Whole foreign lines come before our lines. Where our
bytes and foreign bytes ended up in one line, our bytes are overwritten with blanks, so that the
foreign bytes become a line of their own. Then our lines are written again behind that line. This
is safe: no client was told of our lines yet, and their offsets prove which bytes are ours.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from sessiond.journal.disk.descriptor import WrittenPiece
from sessiond.journal.disk.files import Files
from sessiond.journal.reader import LineReader
from sessiond.journal.splitter import split_whole
from sessiond.limits import LINE_BYTES_MAX

_BLANK: Final = ord(" ")


class InterleavedWrite(Exception):
    """The bytes of our write share a line with foreign bytes and must be written again."""


def are_together(pieces: Sequence[WrittenPiece]) -> bool:
    """Return whether no foreign bytes lie between the pieces of a write."""
    return all(one.start + one.last - one.first == other.start for one, other in pairwise(pieces))


def lines_between(reader: LineReader, data: bytes, pieces: Sequence[WrittenPiece]) -> list[bytes]:
    """Return the whole foreign lines between the last known line and our write.

    Raises Glued if our bytes must be written again. Raises OSError if the file was cut or our bytes
    were overwritten.
    """
    end = reader.ends[-1]
    gap = pieces[0].start - end
    if gap < 0:
        raise OSError(errno.ESTALE, "it was shortened by another program")
    if not all(_is_ours(reader, data, piece) for piece in pieces):
        raise OSError(errno.EBUSY, "another program wrote into the middle of a line")
    if not are_together(pieces):
        raise InterleavedWrite
    if gap > LINE_BYTES_MAX:
        # So many foreign bytes are read in pieces, and our lines are written again behind them.
        raise InterleavedWrite
    lines, half = split_whole(reader.bytes_at(end, gap))
    if half:
        raise InterleavedWrite
    return lines


def blank_out(
    files: Files, reader: LineReader, data: bytes, pieces: Sequence[WrittenPiece]
) -> None:
    """Overwrite our bytes with blanks, newlines excepted. Safe to repeat. Raises OSError."""
    for piece in pieces:
        if not _is_ours(reader, data, piece):
            continue
        ours = data[piece.first : piece.last]
        blank = b"\n".join(b" " * len(line) for line in ours.split(b"\n"))
        done = 0
        while done < len(blank):
            done += files.pwrite(reader.fd, memoryview(blank)[done:], piece.start + done)


def _is_ours(reader: LineReader, data: bytes, piece: WrittenPiece) -> bool:
    """Return whether the file has the piece, perhaps blanked, behind all committed lines."""
    if piece.start < reader.file_end:
        return False
    ours = data[piece.first : piece.last]
    found = reader.bytes_at(piece.start, len(ours))
    if len(found) < len(ours):
        return False
    return found == ours or all(
        one in (byte, _BLANK) for one, byte in zip(found, ours, strict=True)
    )
