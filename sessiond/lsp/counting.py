"""Counts in messages for a person.

Law: pure; a count of one has a noun in the singular.
"""

from __future__ import annotations

__all__ = ["counted"]


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: "1 entry", "2 entries", "1,000 lines"."""
    if count == 1:
        return f"1 {noun}"
    return f"{count:,} {noun[:-1]}ies" if noun.endswith("y") else f"{count:,} {noun}s"
