"""Lines as a plan reads them: where they are more than a plan may hold, without the bytes of their images.

Law: a plan says nothing of an image but that there is one, so a context full of screenshots can be planned. Only
where the lines as they are stored would be too large are images cut; then sharur's estimate of an image, which goes
by its size, is the least one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from sessiond.errors import TooLarge
from sessiond.journal.store import SessionLog
from sessiond.limits import PLAN_BYTES_MAX
from sessiond.service.log.chunks import chunks

# The beginning of a text of base64, perhaps a data URL, with line breaks or escaped slashes: 4,096 units, which tell
# the type of the image. What follows is cut.
_BEGINNING: Final = rb'"(?:data:[a-z0-9.+;=/-]{1,100},)?(?:[A-Za-z0-9+/_-]|\\[/rn]){4096}'
_RUN: Final = rb"[A-Za-z0-9+/_=-]*(?:\\[/rn])?"


def plan_lines(journal: SessionLog, seqs: Sequence[int], refusal: str) -> list[bytes]:
    """Return the lines at `seqs`. Blocks; raises StorageError, and TooLarge with the words of `refusal`."""
    size = sum(map(journal.line_bytes, seqs))
    if size <= PLAN_BYTES_MAX:
        return journal.read_many(seqs)
    found: list[bytes] = []
    size = 0
    for chunk in chunks(journal, seqs):
        lines = [_without_images(line) for line in journal.read_many(chunk)]
        size += sum(map(len, lines))
        if size > PLAN_BYTES_MAX:
            raise TooLarge(refusal, limit=PLAN_BYTES_MAX, size=size)
        found += lines
    return found


def _without_images(line: bytes) -> bytes:
    """Return a line with the ends of its texts of base64 left out."""
    beginning, run = re.compile(_BEGINNING), re.compile(_RUN)
    kept: list[bytes] = []
    at = 0
    while (text := beginning.search(line, at)) is not None:
        end = text.end()
        while (more := run.match(line, end)) is not None and more.end() > end:
            end = more.end()
        is_base64 = line[end : end + 1] == b'"'
        kept.append(line[at : text.end() if is_base64 else end])
        at = end
    return b"".join([*kept, line[at:]]) if kept else line
