"""`sessiond delete`: put sessions into the trash."""

from __future__ import annotations

from sessiond.cli.putting import for_each

__all__ = ["COMMAND"]

COMMAND = for_each(
    "delete",
    """Put sessions into the trash.

    `sessiond purge` with the id that is printed takes one out of it for good.""",
    examples=("sessiond delete my-session",),
)
