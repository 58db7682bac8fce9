"""Freshness of times: whether a later change would show in the time of a file or folder.

Law: a time shows a change only if the time is old enough. A file written a moment ago may be
written again within one tick of the file system's clock.
"""

from __future__ import annotations

from typing import Final

from sessiond.limits import SAME_TIME_SECONDS

_SECOND_NS: Final = 1_000_000_000
# Tick of file systems that count whole seconds, or every second one.
_COARSE_SECONDS: Final = 2.0


def is_settled(mtime_ns: int, now: float) -> bool:
    """Return whether a later change would show in the time.

    Some file systems count whole seconds.
    """
    step = SAME_TIME_SECONDS if mtime_ns % _SECOND_NS else _COARSE_SECONDS
    return abs(now - mtime_ns / _SECOND_NS) > step
