"""Looks at places outside the profile: roots of other programs, and folders. Each has a few seconds.

Law: a look at a place that does not answer ends, by an error that names the place, and holds no thread but those
of its place. While the place is silent, the next looks there are refused at once; one in a few seconds is tried,
and is not waited for. Calls that change a file are not guarded, since their outcome must be known.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Lock, local
from time import monotonic
from typing import Any, Generic, TypeVar, cast

from sessiond.journal.disk.descriptor import close_quietly
from sessiond.journal.disk.files import Files, FileStat
from sessiond.limits import PLACE_PATIENCE_SECONDS
from sessiond.service.thread_pool import Outcome, ThreadPool
from sessiond.visible import printable

T = TypeVar("T")
P = TypeVar("P", Path, Path | str)


def guarded(files: Files, place_of: Callable[[str], str], pool: ThreadPool) -> Files:
    """Return a disk whose looks outside the profile end. `place_of` names the place of a path; "" is the profile.

    The threads of `pool` look.
    """
    return cast("Files", _GuardedFiles(files, place_of, pool))


class Answer(Generic[T]):
    """Outcome of a look, for the thread that waits a while."""

    def __init__(self, too_late: Callable[[T], object] | None) -> None:
        self._too_late = too_late
        self.ended = Lock()
        self.ended.acquire()
        self._changing = Lock()
        self._outcome: Outcome | None = None
        self._is_given_up = False

    @property
    def outcome(self) -> Outcome:
        """The outcome that has come."""
        assert self._outcome is not None, "the look has ended"
        return self._outcome

    def come(self, outcome: Outcome) -> None:
        """Take the outcome."""
        with self._changing:
            self._outcome = outcome
        self.ended.release()
        if self._is_given_up and self._too_late is not None and outcome.failure is None:
            self._too_late(outcome.result)

    def wait(self, seconds: float, give_up: Callable[[], None]) -> Outcome | None:
        """Return the outcome. If there is none after so long, call `give_up` before any comes, and return None."""
        self.ended.acquire(timeout=seconds)
        with self._changing:
            self._is_given_up = self._outcome is None
            if self._is_given_up:
                give_up()
            return self._outcome


class _GivenUp(BaseException):
    """End of a visit that is not waited for any more: no handler of the work goes on with it."""


class _Visit:
    """Work in a thread of one place, which takes its looks there by itself; each of them has its own end."""

    def __init__(self, place: str) -> None:
        self.place = place
        self._changing = Lock()
        self._due: float | None = monotonic() + PLACE_PATIENCE_SECONDS
        """The end of the look under way, or of the wait for a thread; None while the work needs no place."""
        self.is_given_up = False

    def begin(self) -> None:
        """Take note that the work has a thread. Raises _GivenUp."""
        self._look_for(None)

    def call(
        self, look: Callable[[], T], too_late: Callable[[T], object] | None, seconds: float
    ) -> T:
        """Return what a look finds. Raises what the look raises, and _GivenUp."""
        self._look_for(monotonic() + PLACE_PATIENCE_SECONDS + seconds)
        try:
            found = look()
        except Exception:
            self._look_for(None)
            raise
        try:
            self._look_for(None)
        except _GivenUp:
            if too_late is not None:
                too_late(found)
            raise
        return found

    def _look_for(self, due: float | None) -> None:
        with self._changing:
            if self.is_given_up:
                raise _GivenUp
            self._due = due

    def left(self) -> float:
        """Return for how many seconds to wait before the next look at the visit."""
        with self._changing:
            return (
                PLACE_PATIENCE_SECONDS if self._due is None else max(0.0, self._due - monotonic())
            )

    def give_up(self, give_up: Callable[[], None]) -> bool:
        """Call `give_up` and return True if the look under way is over its end: the visit goes no further then."""
        with self._changing:
            self.is_given_up = self._due is not None and monotonic() >= self._due
            if self.is_given_up:
                give_up()
            return self.is_given_up


class _GuardedFiles:
    """The disk, with looks that end."""

    def __init__(self, files: Files, place_of: Callable[[str], str], pool: ThreadPool) -> None:
        self._files = files
        self._place_of = place_of
        self._pool = pool
        self._silent: dict[str, float] = {}
        """Times of the last tries, by place that does not answer."""
        self._here = local()
        """The visit of each thread of the pool."""
        self._read_at: dict[int, str] = {}
        """The places of the files outside the profile that are open for reading, by descriptor."""

    def __getattr__(self, name: str) -> Any:
        # What waits for no other place, and what changes files.
        return getattr(self._files, name)

    def open_read(self, path: Path) -> int:
        """Open a file for reading only."""
        place = self._place_of(str(path))
        fd = self._look(place, lambda: self._files.open_read(path), too_late=self._close)
        if place:
            self._read_at[fd] = place
        return fd

    def open_update(self, path: Path) -> int:
        """Open a file for reading and writing in place."""
        return self._at(path, self._files.open_update, too_late=self._close)

    def open_append(self, path: Path) -> int:
        """Open a file for writing at its end."""
        return self._at(path, self._files.open_append, too_late=self._close)

    def close(self, fd: int) -> None:
        """Close a descriptor. A file that was read is closed without waiting for its place."""
        place = self._read_at.pop(fd, "")
        visit = self._visit_at(place)
        if visit is not None and not visit.is_given_up:
            visit.call(lambda: self._close(fd), None, 0)
        elif not place:
            self._files.close(fd)
        elif not sys.is_finalizing():
            # At the end of the process no thread begins any more, and the system closes the file.
            self._pool.submit(lambda: self._close(fd), _ignore, place=place)

    def _close(self, fd: int) -> None:
        close_quietly(self._files, fd)

    def pread(self, fd: int, count: int, offset: int) -> bytes:
        """Return up to `count` bytes at an offset."""
        return self._look(self._read_at.get(fd, ""), lambda: self._files.pread(fd, count, offset))

    def fstat(self, fd: int) -> FileStat:
        """Return the stat result of the file behind a descriptor."""
        return self._look(self._read_at.get(fd, ""), lambda: self._files.fstat(fd))

    def stat(self, path: Path) -> FileStat:
        """Return the stat result of the file that the name leads to."""
        return self._at(path, self._files.stat)

    def lstat(self, path: Path) -> FileStat:
        """Return the stat result of the name itself."""
        return self._at(path, self._files.lstat)

    def exists(self, path: Path | str) -> bool:
        """Return whether the name leads to a file or folder."""
        return self._at(path, self._files.exists)

    def real(self, path: Path | str) -> str:
        """Return the path without links."""
        return self._at(path, self._files.real)

    def listdir(self, folder: Path) -> list[str]:
        """Return the names in a folder."""
        return self._at(folder, self._files.listdir)

    def stats(self, folder: Path) -> dict[str, FileStat]:
        """Return the stat result for every name in a folder."""
        return self._at(folder, self._files.stats)

    def together(self, path: Path, looks: Callable[[Files], T], seconds: float = 0) -> T:
        """Return what several looks at one place find. They take one thread, and end together."""
        place = self._place_of(str(path))
        return self._look(place, lambda: looks(self._files), seconds=seconds)

    def visit(self, path: Path, work: Callable[[], T]) -> T:
        """Return the result of work that looks at one place many times: one thread does it all.

        Raises what the work raises, and TimeoutError once a look of the work is over its end.
        """
        place = self._place_of(str(path))
        if not place or place in self._silent or self._visit_at(place) is not None:
            return work()
        visit, answer = _Visit(place), Answer[T](None)

        def visited() -> T | None:
            self._here.visit = visit
            try:
                visit.begin()
                return work()
            except _GivenUp:
                return None
            finally:
                self._here.visit = None

        self._pool.submit(visited, partial(self._ended, place, answer), place=place)
        while not answer.ended.acquire(timeout=visit.left()):
            if visit.give_up(partial(self._fall_silent, place)):
                raise _silence(place)
        try:
            found: T = answer.outcome.get()
            return found
        finally:
            # With its traceback a failure holds this frame, and with it the files that the work has open.
            del answer

    def _visit_at(self, place: str) -> _Visit | None:
        """Return the visit of this thread at a place; None without one."""
        visit: _Visit | None = getattr(self._here, "visit", None)
        return visit if visit is not None and place and visit.place == place else None

    def _at(
        self, path: P, look: Callable[[P], T], too_late: Callable[[T], object] | None = None
    ) -> T:
        return self._look(self._place_of(os.fspath(path)), lambda: look(path), too_late)

    def _look(
        self,
        place: str,
        look: Callable[[], T],
        too_late: Callable[[T], object] | None = None,
        seconds: float = 0,
    ) -> T:
        """Return what a look at a place finds; `too_late` takes a result that comes behind the end of the wait.

        The wait is longer by `seconds`.
        A look in the profile is taken by the caller. Raises what the look raises, and TimeoutError for a place that
        does not answer.
        """
        if not place:
            return look()
        visit = self._visit_at(place)
        if visit is not None:
            return visit.call(look, too_late, seconds)
        tried = self._silent.get(place)
        if tried is not None and (
            monotonic() - tried < PLACE_PATIENCE_SECONDS or self._pool.is_full(place)
        ):
            # Also where every thread of the place hangs: the first one that goes on tells that the place answers.
            raise _silence(place)
        answer = Answer(too_late)
        self._pool.submit(look, partial(self._ended, place, answer), place=place)
        # A silent place is not waited for again. Once it answers, it is none.
        patience = PLACE_PATIENCE_SECONDS + seconds if tried is None else 0
        outcome = answer.wait(patience, partial(self._fall_silent, place))
        if outcome is None:
            raise _silence(place)
        try:
            found: T = outcome.get()
            return found
        finally:
            del answer, outcome

    def _ended(self, place: str, answer: Answer[Any], outcome: Outcome) -> None:
        answer.come(outcome)
        self._silent.pop(place, None)

    def _fall_silent(self, place: str) -> None:
        self._silent[place] = monotonic()


def _silence(place: str) -> TimeoutError:
    return TimeoutError(
        errno.ETIMEDOUT, f"{printable(place)} does not answer: try again once it does"
    )


def _ignore(_outcome: Outcome) -> None:
    """Do nothing with the outcome."""
