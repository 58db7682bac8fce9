"""Looks at places outside the profile: they end, what comes too late is put away, and a place comes back."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import weakref
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from sessiond.catalog.guarded import address
from sessiond.errors import StorageError
from sessiond.journal.disk.files import Files
from sessiond.limits import PLACE_THREADS_MAX
from sessiond.service.files import guarded_files
from sessiond.service.files.guarded_files import guarded
from sessiond.service.sources.agents.opencode import database
from sessiond.service.thread_pool import ThreadPool
from tests.kit.limits import set_limits
from tests.kit.opencode import database as make_database
from tests.kit.patience import PATIENCE_SECONDS, soon


class SlowFiles(Files):
    """A disk whose files are opened and read once they may be."""

    def __init__(self) -> None:
        super().__init__()
        self.may = Event()
        self.may.set()
        self.opened: list[int] = []
        self.closed: list[int] = []

    def open_read(self, path: Path) -> int:
        assert self.may.wait(PATIENCE_SECONDS)
        self.opened.append(super().open_read(path))
        return self.opened[-1]

    def pread(self, fd: int, count: int, offset: int) -> bytes:
        assert self.may.wait(PATIENCE_SECONDS)
        return super().pread(fd, count, offset)

    def close(self, fd: int) -> None:
        assert self.may.wait(PATIENCE_SECONDS)
        self.closed.append(fd)
        super().close(fd)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> SlowFiles:
    set_limits(monkeypatch, PLACE_PATIENCE_SECONDS=0.02)
    return SlowFiles()


@pytest.fixture
def pool() -> Generator[ThreadPool]:
    pool = ThreadPool(2 * PLACE_THREADS_MAX)
    yield pool
    pool.end()


@pytest.fixture
def files(slow: SlowFiles, pool: ThreadPool) -> Generator[Files]:
    yield guarded(
        slow, lambda path: "" if path.startswith("/proc") else str(Path(path).parent), pool
    )
    slow.may.set()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"one\n")
    return path


def test_a_look_gives_what_the_disk_gives(files: Files, file: Path) -> None:
    fd = files.open_read(file)
    assert files.pread(fd, 3, 1) == b"ne\n"
    assert files.fstat(fd).st_size == files.stat(file).st_size == files.lstat(file).st_size == 4
    assert files.exists(file)
    assert files.listdir(file.parent) == list(files.stats(file.parent)) == ["a.jsonl"]
    assert files.real(file) == str(file.resolve())
    files.close(fd)
    for missing in (files.stat, files.lstat, files.open_read, files.open_update, files.open_append):
        with pytest.raises(FileNotFoundError):
            missing(file.parent / "b.jsonl")


def test_what_is_opened_too_late_is_closed_and_the_place_answers_again(
    files: Files, slow: SlowFiles, file: Path
) -> None:
    slow.may.clear()
    with pytest.raises(TimeoutError, match=f"{file.parent} does not answer: try again"):
        files.open_read(file)
    slow.may.set()
    soon(lambda: slow.opened and slow.closed == slow.opened)
    assert soon(lambda: _opened(files, file))


def _opened(files: Files, path: Path) -> int | None:
    """Return a descriptor; None while the place is silent."""
    try:
        return files.open_read(path)
    except TimeoutError:
        return None


def test_a_file_that_is_open_is_no_more_read_and_is_closed_without_waiting(
    files: Files, slow: SlowFiles, file: Path
) -> None:
    fd = files.open_read(file)
    slow.may.clear()
    with pytest.raises(TimeoutError):
        files.pread(fd, 3, 1)
    files.close(fd)
    assert not slow.closed
    slow.may.set()
    soon(lambda: slow.closed == [fd])


def test_a_silent_place_is_waited_for_once(
    files: Files, slow: SlowFiles, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    wait = guarded_files.Answer.wait

    def note(answer: guarded_files.Answer[int], seconds: float, *more: object) -> object:
        waited.append(seconds)
        return wait(answer, seconds, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(guarded_files.Answer, "wait", note)
    slow.may.clear()
    for _ in range(100):
        with pytest.raises(TimeoutError):
            files.open_read(file)
    # Another look is tried after the patience is over.
    soon(lambda: _opened(files, file) is None and len(waited) > 1)
    assert waited[0] == 0.02
    assert set(waited[1:]) == {0}


def test_a_database_that_hangs_stops_no_other_one(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    paths = [tmp_path / name / "opencode.db" for name in ("hung", "well")]
    for path in paths:
        path.parent.mkdir()
        make_database(path)
    monkeypatch.setattr(
        database,
        "address",
        lambda path, options: address(pipe if path == paths[0] else path, options),
    )
    set_limits(monkeypatch, OPENCODE_READ_SECONDS=0.02)
    hung, well = (database.Database(path, files) for path in paths)
    executor = ThreadPoolExecutor(2)
    try:
        error = executor.submit(hung.sessions).exception(PATIENCE_SECONDS)
        assert isinstance(error, StorageError)
        assert f"{paths[0].parent} does not answer" in str(error)
        assert soon(lambda: executor.submit(_sessions_in, well).result(PATIENCE_SECONDS))
    finally:
        # The end for reading too, so that this one waits for no other.
        os.close(os.open(pipe, os.O_RDWR))
        executor.shutdown()


def _sessions_in(found: database.Database) -> int | None:
    """Return the number of sessions; None while the place is slow."""
    try:
        return len(found.sessions())
    except StorageError:
        return None


def test_looks_at_a_place_whose_threads_all_hang_do_not_pile_up(
    files: Files,
    slow: SlowFiles,
    pool: ThreadPool,
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_limits(monkeypatch, PLACE_PATIENCE_SECONDS=0.0)
    slow.may.clear()
    for _ in range(10 * PLACE_THREADS_MAX):
        with pytest.raises(TimeoutError):
            files.open_read(file)
    ended = Event()
    # Behind all work at the place that waits for a thread.
    pool.submit(lambda: None, lambda _: ended.set(), place=str(file.parent))
    slow.may.set()
    assert ended.wait(PATIENCE_SECONDS)
    assert len(slow.opened) <= PLACE_THREADS_MAX


def test_places_do_not_wait_for_each_other(files: Files, slow: SlowFiles, file: Path) -> None:
    slow.may.clear()
    with pytest.raises(TimeoutError):
        files.open_read(file)
    assert files.listdir(file.parent.parent)
    assert files.exists("/proc")


def test_a_visit_takes_one_thread_for_all_its_looks(
    files: Files, pool: ThreadPool, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places: list[str] = []
    submit = pool.submit

    def counted(work: Any, done: Any, first: Any = None, place: str = "") -> None:
        places.append(place)
        submit(work, done, first, place)

    monkeypatch.setattr(pool, "submit", counted)

    def work() -> tuple[bytes, int, bool]:
        fd = files.open_read(file)
        try:
            return files.pread(fd, 9, 0), files.fstat(fd).st_size, files.exists(file)
        finally:
            files.close(fd)

    assert files.visit(file, lambda: files.visit(file, work)) == (b"one\n", 4, True)
    assert places == [str(file.parent)]
    with pytest.raises(FileNotFoundError):
        files.visit(file, lambda: files.stat(file.with_name("none")))


def test_a_visit_ends_with_a_look_that_hangs_and_goes_no_further(
    files: Files, slow: SlowFiles, file: Path
) -> None:
    further: list[str] = []

    def work() -> None:
        try:
            files.open_read(file)
        except Exception:  # noqa: BLE001 - as work does that goes on with the next file
            further.append("behind an error")
        further.append("further")

    slow.may.clear()
    with pytest.raises(TimeoutError, match="does not answer"):
        files.visit(file, work)
    with pytest.raises(TimeoutError, match="does not answer"):
        files.visit(file, lambda: files.stat(file))
    slow.may.set()
    soon(lambda: slow.opened and slow.closed == slow.opened)
    soon(lambda: _answers(files, file))
    assert further == []


def _answers(files: Files, file: Path) -> bool:
    try:
        return files.visit(file, lambda: files.exists(file))
    except TimeoutError:
        return False


def test_a_visit_may_take_its_time_between_its_looks(files: Files, file: Path) -> None:
    def work() -> int:
        Event().wait(0.2)
        return files.stat(file).st_size

    assert files.visit(file, work) == 4


@pytest.mark.parametrize("way", ["visit", "together"])
def test_a_failed_look_keeps_nothing_that_its_work_had(files: Files, file: Path, way: str) -> None:
    class Held:
        """Something that the work has open."""

    held: list[weakref.ref[Held]] = []

    def work(*_: object) -> None:
        one = Held()
        held.append(weakref.ref(one))
        raise ValueError("of the work")

    gc.disable()
    try:
        with pytest.raises(ValueError, match="of the work"):
            getattr(files, way)(file, work)
        assert held[0]() is None
    finally:
        gc.enable()


ENDING = """
import sys
from pathlib import Path
from sessiond.journal.disk.files import Files
from sessiond.service.files.guarded_files import guarded
from sessiond.service.thread_pool import ThreadPool

pool = ThreadPool(1)
files = guarded(Files(), lambda _: "/place", pool)

def reading():
    fd = files.open_read(Path(sys.argv[1]))
    try:
        yield
    finally:
        files.close(fd)

work = [reading()]
next(work[0])
# A cycle is collected at the end of the process alone.
work.append(work)
pool.end()
"""


def test_a_file_that_is_open_at_the_end_of_the_process_does_not_hold_it(file: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", ENDING, str(file)], timeout=PATIENCE_SECONDS, check=False
    )
    assert ended.returncode == 0
