"""Exit status of a run of `sessiond`."""

from __future__ import annotations

from enum import IntEnum


class Status(IntEnum):
    """End of a run; scripts may rely on the values."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    NO_DAEMON = 3
    NOT_FOUND = 4
    INTERRUPTED = 130
    READER_GONE = 141
