"""What the tables of methods stand on, with and without `async`.

Law: a method is written once, in `async_*.py`; `scripts/unasync` writes `blocking_*.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, TypeVar

from sessiond_client.results import Reader

__all__ = ["Asking", "AsyncAsking"]

T = TypeVar("T")


class AsyncAsking(ABC):
    """Can ask the daemon, in a task."""

    @abstractmethod
    async def _ask(self, method: str, read: Reader[T], params: Mapping[str, Any]) -> T:
        """The outcome of a call, read."""


class Asking(ABC):
    """Can ask the daemon, in a thread."""

    @abstractmethod
    def _ask(self, method: str, read: Reader[T], params: Mapping[str, Any]) -> T:
        """The outcome of a call, read."""
