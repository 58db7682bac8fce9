"""Row makers: processes that read new files ahead of the thread of a scan.

Nearly all of a first list is Python, of which one process does one thing at a time. So where many files are
new, other processes of sessiond make the rows of some of them, each from the beginning of the next batch on.

Law: a row maker only saves time. A file that none has read is read by the scan, which tells what is wrong
with the file. A row maker knows no other session: the scan decides under which id a file
is listed, and takes a row only if that is the id in the file's header.
"""

from __future__ import annotations

import os
import subprocess
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from select import POLLIN, poll
from struct import Struct as Packed
from typing import Final, Self, TypeVar

import msgspec
from msgspec import Struct

from sessiond import typed
from sessiond.catalog.rows import Fingerprint, Stored
from sessiond.limits import (
    ROW_MAKER_AHEAD_FILES,
    ROW_MAKER_FILES,
    ROW_MAKER_SECONDS,
    ROW_MAKERS_FILES_MIN,
)
from sessiond.service.files.roots.roots import Root

_T = TypeVar("_T")

# Questions to one process: it goes on with the second while the scan has no time for its first answer.
_QUESTIONS: Final = 2

_size: Final = Packed(">I")
_encode: Final = msgspec.msgpack.Encoder().encode


class Setup(Struct, frozen=True):
    """The first message to a row maker: whose files it reads, and which code asks.

    A row maker whose code was replaced meanwhile ends.
    """

    build: str
    home: bytes
    profile: str
    roots: Sequence[Root]


class Asked(Struct, frozen=True, array_like=True):
    """A file whose row is asked for, and its state before."""

    path: str
    fingerprint: Fingerprint


_rows: Final = typed.unpacker(list[Stored | None])


def send(fd: int, message: object) -> None:
    """Write a message to a pipe. Raises OSError."""
    data = _encode(message)
    left = memoryview(_size.pack(len(data)) + data)
    while left:
        left = left[os.write(fd, left) :]


def receive(
    fd: int, unpack: Callable[[bytes], _T], is_there: Callable[[], bool] = lambda: True
) -> _T | None:
    """Return the next message of a pipe; None at the pipe's end. Raises OSError, msgspec.DecodeError.

    `is_there` waits for the next bytes, and returns False if none have come.
    """
    head = _read(fd, _size.size, is_there)
    if head is None:
        return None
    data = _read(fd, _size.unpack(head)[0], is_there)
    return None if data is None else unpack(data)


def _read(fd: int, size: int, is_there: Callable[[], bool]) -> bytes | None:
    data = b""
    while len(data) < size:
        more = os.read(fd, size - len(data)) if is_there() else b""
        if not more:
            return None
        data += more
    return data


class _RowMaker:
    """One process, and the files that it was asked for."""

    def __init__(self, command: Sequence[str]) -> None:
        """Start the process, which waits for `begin`. Raises OSError."""
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin.fileno(), self._process.stdout.fileno()
        self._poll = poll()
        self._poll.register(self._out, POLLIN)
        self.has_started = False
        self.asked = deque[Sequence[Asked]]([()])
        """The questions without an answer, each with its files. The first answer, to the setup, has no rows."""

    @property
    def has_room(self) -> bool:
        """True if the process may be asked one more question."""
        return self.has_started and len(self.asked) < _QUESTIONS

    def begin(self, setup: Setup) -> None:
        """Tell the process whose files it reads. Raises OSError."""
        send(self._in, setup)

    def ask(self, files: Sequence[Asked]) -> None:
        """Ask for the rows of files. Raises OSError."""
        send(self._in, files)
        self.asked.append(files)

    def has_answered(self, seconds: float = 0) -> bool:
        """Return whether an answer begins, or the process ends, within so many seconds."""
        return bool(self._poll.poll(seconds * 1000))

    def answer(self) -> list[Stored | None] | None:
        """Return the rows of the files of the oldest question; None if the process has ended, or hangs."""
        is_there = partial(self.has_answered, ROW_MAKER_SECONDS)
        try:
            rows = receive(self._out, _rows.decode, is_there)
        except (OSError, msgspec.DecodeError):
            return None
        return rows if rows is not None and len(rows) == len(self.asked[0]) else None

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        # A process whose disk does not answer ends once the disk does.
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1)


class RowMakers:
    """The row makers of one scan. One thread at a time asks them."""

    def __init__(
        self, commands: Sequence[Sequence[str]], setup: Setup, files: Sequence[Asked]
    ) -> None:
        """Start a process by each of the commands, if so many files, in the order of the scan, pay."""
        self._files = files
        self._next = 0
        self._at = 0
        # What the processes have made of files, or the process that was asked.
        self._found: dict[str, Stored | _RowMaker | None] = {}
        self._makers: list[_RowMaker] = []
        with suppress(OSError):
            for command in commands if len(files) >= ROW_MAKERS_FILES_MIN else ():
                self._makers.append(_RowMaker(command))
                # One that ends at once is noticed where its answer is.
                self._makers[-1].begin(setup)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for maker in self._makers:
            maker.end()

    def take(self, path: str) -> Stored | None:
        """Return the row of the scan's next file; None if the scan has to read the file."""
        self._at += 1
        for maker in self._makers.copy():
            if maker.has_answered():
                self._settle(maker)
            while maker.has_room and self._ask(maker):
                pass
        while isinstance(found := self._found.get(path), _RowMaker):
            self._settle(found)
        self._found.pop(path, None)
        return found

    def _ask(self, maker: _RowMaker) -> bool:
        """Ask a process for the rows of further files; return False if there are none, or too many wait already."""
        start = max(self._next, self._at + ROW_MAKER_AHEAD_FILES)
        end = self._at + ROW_MAKER_AHEAD_FILES * (1 + len(self._makers))
        files = self._files[start : min(start + ROW_MAKER_FILES, end)]
        if not files:
            return False
        try:
            maker.ask(files)
        except OSError:
            self._leave(maker)
            return False
        self._next = start + len(files)
        self._found.update(dict.fromkeys((one.path for one in files), maker))
        return True

    def _settle(self, maker: _RowMaker) -> None:
        """Take the answer of a process, which is waited for."""
        rows = maker.answer()
        if rows is None:
            self._leave(maker)
            return
        maker.has_started = True
        asked = maker.asked.popleft()
        self._found.update(zip((one.path for one in asked), rows, strict=True))

    def _leave(self, maker: _RowMaker) -> None:
        """End a process that has ended or hangs: the scan reads the files that it was asked for."""
        self._makers.remove(maker)
        maker.has_started = False
        for files in maker.asked:
            self._found.update(dict.fromkeys(one.path for one in files))
        maker.end()
