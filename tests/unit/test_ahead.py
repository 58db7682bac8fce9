"""Pieces of a long session come in order, the next one meanwhile, and with their errors."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from sessiond.errors import StorageError
from sessiond.service.log.ahead import ahead

PATIENCE_SECONDS = 60.0


def test_the_next_piece_is_fetched_while_one_is_worked_on() -> None:
    fetched = [threading.Event() for _ in range(4)]

    def pieces() -> Iterator[int]:
        for number, event in enumerate(fetched):
            event.set()
            yield number

    got: list[int] = []
    for number in ahead(pieces()):
        assert fetched[min(number + 1, 3)].wait(PATIENCE_SECONDS)
        # Not all of them: a long session would be in memory as a whole.
        assert number == 3 or not any(event.is_set() for event in fetched[number + 2 :])
        got.append(number)
    assert got == [0, 1, 2, 3]


def test_no_piece_is_no_piece() -> None:
    assert list(ahead(iter(()))) == []


def test_an_error_comes_behind_the_pieces_before_it() -> None:
    away = StorageError("away", errno="ETIMEDOUT", path="db", retryable=True)

    def pieces() -> Iterator[int]:
        yield 1
        raise away

    reading = ahead(pieces())
    assert next(reading) == 1
    with pytest.raises(StorageError, match="away"):
        next(reading)


def test_a_reader_that_stops_leaves_no_thread() -> None:
    before = threading.active_count()
    reading = ahead(iter([1, 2, 3]))
    assert next(reading) == 1
    reading.close()
    assert threading.active_count() == before
