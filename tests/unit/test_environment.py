"""The environment of production: ids that any thread may ask for."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest

from sessiond.daemon.environment import EntryIds

THREADS, IDS = 4, 20_000


@pytest.fixture
def hasty() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("hasty")
def test_threads_that_take_ids_at_once_get_each_once(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = count()

    def urandom(size: int) -> bytes:
        """Return bytes that never repeat, so that an id that comes twice was given twice."""
        first = next(numbers) * size
        return b"".join((first + at).to_bytes(4, "big") for at in range(0, size, 4))

    monkeypatch.setattr(os, "urandom", urandom)
    new_id = EntryIds()
    with ThreadPoolExecutor(THREADS) as threads:
        takers = [threads.submit(lambda: [new_id() for _ in range(IDS)]) for _ in range(THREADS)]
        ids = [one for taker in takers for one in taker.result()]
    assert len(set(ids)) == THREADS * IDS
    assert {len(one) for one in ids} == {8}
