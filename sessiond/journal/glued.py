"""What landed between our look at a file and our write into it.

    {"whole":1}\n{"theirs"{"ours":1}\n{"ours":2}\n

Law: nothing that another program wrote is touched. Its whole lines come before ours.
Where ours were glued to half a line, they are made blank, which leaves that half a line
of its own, and written again behind it: nobody was told of them yet, and their offset
proves whose they are.
"""

from __future__ import annotations

import errno

from sessiond.journal.files import Files
from sessiond.journal.reader import LineReader
from sessiond.journal.recovery import split_whole

__all__ = ["Glued", "lines_between", "make_blank"]


class Glued(Exception):
    """Our bytes, which begin at `start`, follow half a line."""

    def __init__(self, start: int) -> None:
        super().__init__(start)
        self.start = start


def lines_between(reader: LineReader, data: bytes, gap: int) -> list[bytes]:
    """The whole lines in the `gap` bytes before ours, which follow the last known line.

    Raises Glued, and OSError when that is not what happened to the file.
    """
    end = reader.ends[-1]
    if gap < 0:
        raise OSError(errno.ESTALE, "it was shortened by another program")
    found = reader.bytes_at(end, gap + len(data))
    if found[gap:] != data:
        # In several pieces, and others wrote between them too.
        raise OSError(errno.EBUSY, "another program wrote into the middle of a line")
    lines, half = split_whole(found[:gap])
    if half:
        raise Glued(end + gap)
    return lines


def make_blank(files: Files, reader: LineReader, data: bytes, start: int) -> None:
    """Put blanks in the place of our bytes; lines stay lines. Safe to repeat. Raises OSError."""
    blank = b"\n".join(b" " * len(line) for line in data.split(b"\n"))
    done = 0
    while done < len(blank):
        done += files.pwrite(reader.fd, memoryview(blank)[done:], start + done)
