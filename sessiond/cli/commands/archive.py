"""`sessiond archive`: archive sessions."""

from __future__ import annotations

from sessiond.cli.bulk import for_each

COMMAND = for_each(
    "archive",
    """Archive sessions: they leave the list and accept no more entries.

    `sessiond list --archived only` lists them. A part of a title names no session here.""",
    examples=("sessiond archive my-session",),
)
