"""The dialects: line to entry and back, one file each.

To add one: a file here, a line in `DIALECTS`, samples in `tests/samples/<name>/`.
"""

from __future__ import annotations

from typing import Final

from sessiond.dialects.base import BadHeader, Dialect
from sessiond.dialects.native import NATIVE
from sessiond.dialects.pi import PI
from sessiond.model.entries import Header

__all__ = ["DIALECTS", "UNKNOWN_HEADER", "recognise", "sniff"]

DIALECTS: Final[tuple[Dialect, ...]] = (NATIVE, PI)

UNKNOWN_HEADER: Final = "is no session header of a known format"
# What a dialect says of a line that was never meant for it.
_NOT_MINE: Final = frozenset({"is no session header", "is empty"})


def recognise(first_line: bytes) -> tuple[Dialect, Header]:
    """The dialect whose header this is, and the header. Raises BadHeader.

    The reason is that of the dialect the line was meant for, if it was meant for one.
    """
    reason: BadHeader | None = None
    for dialect in DIALECTS:
        try:
            return dialect, dialect.decode_header(first_line)
        except BadHeader as bad:
            if reason is None and str(bad) not in _NOT_MINE:
                reason = bad
    raise reason or BadHeader(UNKNOWN_HEADER)


def sniff(first_line: bytes) -> Dialect | None:
    """The dialect whose header this is; None if it is nobody's."""
    try:
        return recognise(first_line)[0]
    except BadHeader:
        return None
