"""The dialects: line to entry and back, one file each.

To add one: a file here, a line in `DIALECTS`, samples in `tests/samples/<name>/`.
"""

from __future__ import annotations

from typing import Final

from sessiond.dialects.base import BadHeader, Dialect
from sessiond.dialects.native import NATIVE
from sessiond.dialects.pi import PI

__all__ = ["DIALECTS", "sniff"]

DIALECTS: Final[tuple[Dialect, ...]] = (NATIVE, PI)


def sniff(first_line: bytes) -> Dialect | None:
    """The dialect whose header this is; None if it is nobody's."""
    for dialect in DIALECTS:
        try:
            dialect.decode_header(first_line)
        except BadHeader:
            continue
        return dialect
    return None
