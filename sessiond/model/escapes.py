r"""Escapes of JSON that are half a character: `\ud83d` without its other half.

Law: they are legal to write and stand in real files, but are no text: no UTF-8 can hold them, and
strict readers, such as the providers' APIs, refuse all of a request that has one.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["ESCAPES", "whole_characters"]

# Every escape is consumed, so that `\\ud83d` (a backslash, then text) is no match.
ESCAPES: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
"""Any escape; its group is there for half a character alone."""
_REPLACEMENT: Final = rb"\ufffd"


def whole_characters(encoded: bytes) -> bytes:
    """The same JSON with U+FFFD for each half."""
    return ESCAPES.sub(_repaired, encoded) if b"\\u" in encoded else encoded


def _repaired(found: re.Match[bytes]) -> bytes:
    return found[0] if found[1] is None else _REPLACEMENT
