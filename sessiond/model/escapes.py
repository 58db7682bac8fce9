r"""JSON escapes that are half a character: `\ud83d` without its other half.

Law: JSON allows such escapes and real files have them, but they are no text. UTF-8 cannot encode
them, and strict readers, such as the providers' APIs, refuse a whole request that has one.
"""

from __future__ import annotations

import re
from typing import Final

# Every escape is consumed, so that `\\ud83d` (a backslash, then text) is no match.
ESCAPES: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
"""Any escape; the group matches only half a character."""
_REPLACEMENT: Final = rb"\ufffd"


def whole_characters(encoded: bytes) -> bytes:
    """Return the JSON with each half character replaced by U+FFFD."""
    return ESCAPES.sub(_repaired, encoded) if b"\\u" in encoded else encoded


def _repaired(found: re.Match[bytes]) -> bytes:
    return found[0] if found[1] is None else _REPLACEMENT
