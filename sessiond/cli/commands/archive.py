"""`sessiond archive`: put sessions away."""

from __future__ import annotations

from sessiond.cli.bulk import for_each

__all__ = ["COMMAND"]

COMMAND = for_each(
    "archive",
    """Put sessions away: they leave the list and take no more entries.

    See them with `sessiond list --archived only`.""",
    examples=("sessiond archive my-session",),
)
