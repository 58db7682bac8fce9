"""The exit status of a run of `sessiond`."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["Status"]


class Status(IntEnum):
    """How a run ended; scripts may rely on it."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    NO_DAEMON = 3
    NOT_FOUND = 4
    INTERRUPTED = 130
    READER_GONE = 141
