"""The environment of production: times, and ids that any thread may ask for."""

from __future__ import annotations

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest

from sessiond.daemon.environment import TOKENIZERS, Clock, EntryIds, InstalledTokenizers

THREADS, IDS = 4, 20_000


def test_threads_that_take_ids_at_once_get_each_once(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = count()

    def urandom(size: int) -> bytes:
        """Return bytes that never repeat, so that an id that comes twice was given twice."""
        first = next(numbers) * size
        return b"".join((first + at).to_bytes(4, "big") for at in range(0, size, 4))

    monkeypatch.setattr(os, "urandom", urandom)
    new_id = EntryIds()
    before = sys.getswitchinterval()
    # Threads take turns as often as they can.
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(THREADS) as threads:
            takers = [
                threads.submit(lambda: [new_id() for _ in range(IDS)]) for _ in range(THREADS)
            ]
            ids = [one for taker in takers for one in taker.result()]
    finally:
        sys.setswitchinterval(before)
    assert len(set(ids)) == THREADS * IDS
    assert {len(one) for one in ids} == {8}


@pytest.mark.parametrize(
    "moment",
    [
        datetime(2026, 2, 28, 23, 59, 59, 999_999, UTC),
        datetime(2028, 2, 28, 23, 59, 59, 1_000, UTC),
        datetime(1999, 12, 31, 23, 59, 58, 0, UTC),
    ],
)
def test_the_clock_spells_each_moment_as_the_calendar_does(
    monkeypatch: pytest.MonkeyPatch, moment: datetime
) -> None:
    """Forward over the end of a second, and back again as after a correction of the clock."""
    clock = Clock()
    microseconds = timedelta(microseconds=1)
    for step in (0, 1, 500_000, 1_000_000, 2_000_000, 1_500_000, 0):
        now = moment + step * microseconds
        since_1970 = (now - datetime(1970, 1, 1, tzinfo=UTC)) // microseconds
        monkeypatch.setattr(time, "time_ns", lambda micros=since_1970: micros * 1000 + 999)
        assert clock() == now.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def test_the_tokenizers_that_are_installed_are_looked_up_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = tmp_path / "words-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: words\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[{TOKENIZERS}]\nwords = words_of_this_test:count\n")
    (tmp_path / "words_of_this_test.py").write_text("def count(text): return len(text.split())\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    installed = InstalledTokenizers()
    assert "words" in installed.names()
    assert installed.load("words")("three words here") == 3
    with pytest.raises(LookupError):
        installed.load("none")
    (about / "entry_points.txt").unlink()
    assert "words" in installed.names()
