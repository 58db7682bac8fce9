"""Words of removed lines: they leave the pages of the search index, in steps between which others have their turn."""

from __future__ import annotations

import random
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sessiond.catalog.fulltext import Addition, Indexed, TextIndex
from sessiond.catalog.matching import match_of
from tests.kit.limits import set_limits
from tests.kit.patience import PATIENCE_SECONDS
from tests.unit.test_search import line

# The indexes keep of each word what it does not share with the word before: these begin and end alike nowhere.
SECRETS = ("quxzorblat", "vyqjumpkin", "kzhwimbrel", "机密")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TextIndex]:
    """Index of forty sessions, each with many words; every third one has the secrets."""
    set_limits(monkeypatch, MERGE_PAGES=1, REMOVED_ROWS_MAX=2)
    index = TextIndex(tmp_path / "search.sqlite", pytest.fail)
    dice = random.Random(11)
    for number in range(40):
        put(index, number, dice)
    yield index
    index.close()


def put(index: TextIndex, number: int, dice: random.Random) -> None:
    secret = " ".join(SECRETS) if number % 3 == 0 else ""
    texts = [
        line(seq, f"e{seq}", " ".join([secret, *(f"w{dice.randrange(3000)}" for _ in range(80))]))
        for seq in range(5)
    ]
    index.put([Addition(f"session-{number}", Indexed("epoch", 5, 5), texts, anew=True)])


def left_in(folder: Path) -> set[str]:
    """Return the secrets in the index's files."""
    data = b"".join(path.read_bytes() for path in folder.glob("search.sqlite*"))
    return {secret for secret in SECRETS if secret.encode() in data}


def with_secrets() -> list[str]:
    return [f"session-{number}" for number in range(0, 40, 3)]


def test_words_of_forgotten_sessions_leave_every_page_in_steps(
    index: TextIndex, tmp_path: Path
) -> None:
    index.file.erase(lambda _: None)
    assert left_in(tmp_path) == set(SECRETS)
    assert not index.leaves_words
    index.forget(with_secrets())
    assert index.leaves_words
    steps = sum(1 for _ in index.erased())
    assert steps > 5
    assert not index.leaves_words
    assert left_in(tmp_path) == set()
    assert index.indexed().keys() == {f"session-{n}" for n in range(40)} - set(with_secrets())
    match = match_of("w7*")
    assert match is not None
    assert index.find(match, {*index.indexed()}.__and__, 1000)


def test_lines_that_come_between_the_steps_leave_no_word_behind(
    index: TextIndex, tmp_path: Path
) -> None:
    index.forget(with_secrets())
    dice = random.Random(12)
    for at, _ in enumerate(index.erased()):
        if at < 30:
            put(index, 101 + 3 * at, dice)
    assert not index.leaves_words
    assert left_in(tmp_path) == set()


def test_an_erasure_goes_on_where_it_was_cut_off(index: TextIndex, tmp_path: Path) -> None:
    index.forget(with_secrets())
    steps = index.erased()
    next(steps)
    next(steps)
    index.close()
    later = TextIndex(tmp_path / "search.sqlite", pytest.fail)
    assert later.leaves_words
    for _ in later.erased():
        pass
    assert not later.leaves_words
    later.close()
    assert left_in(tmp_path) == set()


def test_a_session_that_was_removed_in_part_is_indexed_anew(index: TextIndex) -> None:
    use, count = index.file.use, 0

    def cut_off(work: Callable[[sqlite3.Connection], Any]) -> Any:
        nonlocal count
        count += 1
        if count == 2:
            raise KeyboardInterrupt
        return use(work)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index.file, "use", cut_off)
        with pytest.raises(KeyboardInterrupt):
            index.forget(["session-4"])
    left = index.indexed_of("session-4")
    assert left is not None
    assert left.epoch == ""
    index.forget(["session-4"])
    assert index.indexed_of("session-4") is None


class WatchedLock:
    """A lock that tells when a thread is about to wait for it."""

    def __init__(self, awaited: threading.Event) -> None:
        self._lock, self._awaited = threading.RLock(), awaited
        self._is_held = False

    def acquire(self) -> None:
        """Take the lock."""
        if self._is_held:
            self._awaited.set()
        self._lock.acquire()
        self._is_held = True

    def release(self) -> None:
        """Give the lock back."""
        self._is_held = False
        self._lock.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_error: object) -> None:
        self.release()


def test_a_use_that_waits_has_its_turn_before_the_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    awaited, order = threading.Event(), list[str]()
    with monkeypatch.context() as patch:
        patch.setattr(threading, "Lock", lambda: WatchedLock(awaited))
        index = TextIndex(tmp_path / "search.sqlite", pytest.fail)
    put(index, 0, random.Random(11))
    other = threading.Thread(target=lambda: index.file.use(lambda _: order.append("use")))

    def step(_: sqlite3.Connection) -> None:
        other.start()
        assert awaited.wait(PATIENCE_SECONDS)

    index.file.use(step)
    index.forget(["session-0"])
    order.append("step")
    other.join()
    index.close()
    assert order == ["use", "step"]
