"""`sessiond unarchive`: bring sessions back."""

from __future__ import annotations

from sessiond.cli.bulk import for_each

COMMAND = for_each(
    "unarchive",
    "Bring archived sessions back. A part of a title names no session here.",
    examples=("sessiond unarchive my-session",),
)
