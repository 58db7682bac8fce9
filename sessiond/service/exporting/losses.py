"""Losses: what an export had to change or to leave out, counted by kind."""

from __future__ import annotations

from collections import Counter


class Losses:
    """Counter of what was lost. No text contains content of a session."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, what: str) -> None:
        """Count one loss; an empty text is no loss."""
        if what:
            self._counts[what] += 1

    def notes(self) -> list[str]:
        """Return a note for each kind of loss, in the order of their first occurrence."""
        return [f"{what} ({count})" for what, count in self._counts.items()]
