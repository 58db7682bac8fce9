"""How deeply JSON nests, without decoding it."""

from __future__ import annotations

from itertools import accumulate
from typing import Final

from sessiond.limits import NESTING_MAX

__all__ = ["SHALLOW_BYTES", "nests_too_deeply"]

# Every level takes a byte to open and one to close: what is no longer needs no look.
SHALLOW_BYTES: Final = 2 * NESTING_MAX

# A bracket as a step: 1 down, and -1, read as a signed byte, up again.
_AS_STEPS: Final = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_DOWN_UP: Final = b"\x01\xff"
_NO_BRACKETS: Final = bytes(byte for byte in range(256) if byte not in b"[]{}")


def nests_too_deeply(body: bytes) -> bool:
    """Whether arrays and objects lie more than NESTING_MAX deep in each other.

    The decoder has a bound of its own, but one that depends on the stack and on the version of
    the interpreter: what one thread could store another could not read back, and a file that
    3.13 wrote would be damaged to 3.11.
    """
    if body.count(b"[") + body.count(b"{") <= NESTING_MAX:
        return False
    outside = body.replace(rb"\\", b"").replace(rb"\"", b"").split(b'"')[::2]
    steps = b"".join(outside).translate(_AS_STEPS, _NO_BRACKETS)
    levels = 0
    # Each pass takes the innermost level away: of what clients send, nearly everything. Once it
    # takes less than half, adding up is cheaper; passes alone would be one for each level.
    while len(fewer := steps.replace(_DOWN_UP, b"")) * 2 < len(steps):
        steps = fewer
        levels += 1
    return levels + max(accumulate(memoryview(steps).cast("b")), default=0) > NESTING_MAX
