"""A program whose documented usage is walked: its messages, and the second reader of its files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

__all__ = ["Program", "Seen"]

Json = Any


@dataclass(frozen=True)
class Seen:
    """Findings of a program in a file that it reads by itself.

    `facts` are those of title, labels, thinking_level and model that its reader knows.
    """

    leaf: str | None
    context: list[Json]
    facts: Mapping[str, Json]


class Program(Protocol):
    """A program whose usage is walked: its dialect, its messages, and the second reader of its files."""

    name: str
    unlike: frozenset[str]
    """Roles of messages that contexts of its files or of native files have, but not of both."""

    def see(self, data: bytes) -> Seen:
        """Read a file as the program does."""
        ...

    def spell(self, message: Json) -> Json:
        """Return what `Seen.context` has of a message that the daemon answered."""
        ...

    def user(self, text: str) -> Json:
        """Return a message of the user."""
        ...

    def assistant(self, text: str, /) -> Json:
        """Return an answer of the model."""
        ...
