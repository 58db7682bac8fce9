"""The errors of a benchmark, one class for each text in the report."""

from __future__ import annotations

__all__ = ["BenchError", "Missing"]


class BenchError(Exception):
    """A measurement that does not count: lost entries, a dead server, an error for an answer."""


class Missing(BenchError):
    """A contender that is not there; the report names it and the reason."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name}: {reason}")
        self.name = name
        self.reason = reason
