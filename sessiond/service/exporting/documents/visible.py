"""Text as a page may show it: no character acts on the screen or on the reading order."""

from __future__ import annotations

import re
from typing import Final

from sessiond.visible import spelled_out

_LINE_ENDS: Final = re.compile("\r\n|\u2028|\u2029")


def visible(text: str) -> str:
    r"""Return the text with each such character spelled out, as in JSON: `\u202e`."""
    return spelled_out(_LINE_ENDS.sub("\n", text))


def one_line(text: str, chars: int) -> str:
    """Return the text in one line, cut to `chars` characters."""
    line = visible(" ".join(text[: chars * 16].split()))
    return line if len(line) <= chars else line[: chars - 1] + "…"
