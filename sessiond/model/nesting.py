"""A check of how deeply JSON nests, without decoding."""

from __future__ import annotations

from itertools import accumulate
from typing import Final

from sessiond.limits import NESTING_MAX

# Each level takes two brackets, so a body of at most this size cannot nest too deeply.
SHALLOW_BYTES: Final = 2 * NESTING_MAX

# To copy a body of this size is faster than to look for each of its brackets.
_COPIED_BYTES: Final = 64 * 1024

# Two kinds of brackets, so that twice as many are still allowed, also within some levels.
_FEW: Final = 16

# A bracket as a step: 1 for an opening bracket, -1 as a signed byte for a closing bracket.
_AS_STEPS: Final = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_DOWN_UP: Final = b"\x01\xff"
_NO_BRACKETS: Final = bytes(byte for byte in range(256) if byte not in b"[]{}")


def nests_too_deeply(body: bytes, within: int = 0) -> bool:
    """Return whether arrays and objects nest more than NESTING_MAX levels deep.

    `within` counts the levels in which the body is to stand.

    The decoder's own bound depends on the stack and on the version of the interpreter. With
    that bound alone, one thread could store a line that another thread could not read, and
    Python 3.11 would take a file of Python 3.13 for damaged.
    """
    if len(body) > _COPIED_BYTES and _has_few(body, b"[") and _has_few(body, b"{"):
        return False
    # `bytes.count` compares byte by byte, `bytes.replace` jumps from bracket to bracket. Of each
    # bracket, one more than may nest is as good as all.
    most = NESTING_MAX - within
    rest = len(body.replace(b"[", b"", most + 1))
    rest += len(body.replace(b"{", b"", most + 1))
    if 2 * len(body) - rest <= most:
        return False
    outside = body.replace(rb"\\", b"").replace(rb"\"", b"").split(b'"')[::2]
    steps = b"".join(outside).translate(_AS_STEPS, _NO_BRACKETS)
    levels = 0
    # Each pass removes the innermost level, which is nearly all brackets of usual bodies. Once
    # a pass removes less than half, adding up is cheaper than one more pass per level.
    while len(fewer := steps.replace(_DOWN_UP, b"")) * 2 < len(steps):
        steps = fewer
        levels += 1
    return levels + max(accumulate(memoryview(steps).cast("b")), default=0) > most


def _has_few(body: bytes, bracket: bytes) -> bool:
    """Return whether a bracket stands in a body at most _FEW times.

    A body of text has few brackets. To look for the next one takes a twentieth of the time that
    counting takes, as long as there are few.
    """
    at = -1
    for _ in range(_FEW + 1):
        at = body.find(bracket, at + 1)
        if at < 0:
            return True
    return False
