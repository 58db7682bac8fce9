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

__all__ = ["plan_lines"]

# A text of base64, perhaps as a data URL, with line breaks or escaped slashes: its first 4,096 units, which tell the
# type of the image, and what is cut.
_UNIT: Final = rb"[A-Za-z0-9+/_-]"
_BASE64: Final = (
    rb'"((?:data:[a-z0-9.+;=/-]{1,100},)?(?:%b|\\[/rn]){4096})(?:%b++|\\[/rn])++(?:=|\\[rn])*+"'
    % (_UNIT, _UNIT)
)


def plan_lines(journal: SessionLog, seqs: Sequence[int], refusal: str) -> list[bytes]:
    """Return the lines at `seqs`. Blocks; raises StorageError, and TooLarge with the words of `refusal`."""
    size = sum(map(journal.line_bytes, seqs))
    if size <= PLAN_BYTES_MAX:
        return journal.read_many(seqs)
    found: list[bytes] = []
    size = 0
    for chunk in chunks(journal, seqs):
        lines = [re.sub(_BASE64, rb'"\1"', line) for line in journal.read_many(chunk)]
        size += sum(map(len, lines))
        if size > PLAN_BYTES_MAX:
            raise TooLarge(refusal, limit=PLAN_BYTES_MAX, size=size)
        found += lines
    return found
