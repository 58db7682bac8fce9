"""Pieces of a long session, of which the next one is fetched while one is worked on."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

__all__ = ["ahead"]

T = TypeVar("T")


def ahead(pieces: Iterator[T]) -> Generator[T]:
    """Yield the items of an iterator, which runs one item ahead in a thread; raises what it raises."""
    with ThreadPoolExecutor(1, "ahead") as thread:
        coming = thread.submit(next, pieces, None)
        while (piece := coming.result()) is not None:
            coming = thread.submit(next, pieces, None)
            yield piece
