"""Copies of the lines of long logs, kept as files so that a later opening need not fetch the lines.

Law: no module believes a copy. The log that takes lines from a copy compares their digest with the digest of
its store, or its source with what the index tells of the source, and drops the copy if the two differ. So a
crash costs one copy at most, and `settle` is for an index that spares the reading of the lines. No failure of
a copy is an error of its session.

Blocking, for worker threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Final

from sessiond.journal.disk.files import Files
from sessiond.journal.disk.regular import open_regular
from sessiond.journal.scanning import chunks_of
from sessiond.journal.splitter import stored_lines
from sessiond.journal.spool import Spool

_SUFFIX: Final = ".lines"
_INDEX: Final = ".index"
"""Suffix of what is known of the lines of a copy, which another module writes beside the copy."""


class KeptCopy(Spool):
    """A spool whose file has a name, and stays for the next opening unless its lines are doubted."""

    def __init__(
        self,
        files: Files,
        fd: int,
        path: Path,
        remove: Callable[[], None],
        release: Callable[[], None],
    ) -> None:
        """Take the file of a copy; `remove` removes the file, `release` is called behind the close."""
        super().__init__(files, fd, path)
        self._is_doubted = False
        self._remove = remove
        self._release = release

    @property
    def stays(self) -> bool:
        """True unless the lines are doubted."""
        return not self._is_doubted

    def doubt(self) -> None:
        """Remove the file at the close."""
        self._is_doubted = True

    def found(self) -> Iterator[list[bytes]]:
        """Yield the whole lines of the file, each with its newline, a piece at a time. Raises OSError."""
        begun: list[bytes] = []
        for chunk in chunks_of(self.files, self.reader.fd):
            first, *lines = stored_lines(chunk)
            begun.append(first)
            if first.endswith(b"\n"):
                lines.insert(0, b"".join(begun))
                begun = [] if lines[-1].endswith(b"\n") else [lines.pop()]
                yield lines

    def settle(self) -> None:
        """Leave no more than the lines that were taken in the file, durably. Raises OSError."""
        self._cut()
        self.files.fdatasync(self.reader.fd)

    def _cut(self) -> None:
        fd, end = self.reader.fd, self.reader.ends[-1]
        # A cut to the same size would change the times.
        if self.files.fstat(fd).st_size != end:
            self.files.truncate(fd, end)
        self._room_end = 0

    def close(self) -> None:
        """Leave the file to the next opening, with the lines that were taken, or remove the file. Safe to repeat."""
        if self.reader.is_closed:
            # The descriptor may be that of another file by now.
            return
        if self.stays:
            try:
                self._cut()
            except OSError:
                self.doubt()
        super().close()
        if self._is_doubted:
            self._remove()
        self._release()


class KeptCopies:
    """The copies in one folder, by names that callers give. Safe in any thread."""

    def __init__(self, files: Files, folder: Path, bytes_max: int) -> None:
        """Take the folder, which need not exist, and the bound of the bytes of all copies."""
        self._files = files
        self._folder = folder
        self._bytes_max = bytes_max
        self._used: dict[str, KeptCopy | None] = {}
        self._guard = Lock()

    def copy(self, name: str, path: Path, *, makes: bool = True) -> KeptCopy | None:
        """Return the copy of this name; `path` is its name in errors.

        None if the copy is in use, if the folder cannot be used, or if there is none that this call
        `makes`.
        """
        with self._guard:
            if name in self._used:
                return None
            self._used[name] = None
        try:
            fd = self._opened(self._folder / f"{name}{_SUFFIX}", makes=makes)
        except OSError:
            with self._guard:
                del self._used[name]
            return None
        remove, release = partial(self.forget, name), partial(self._release, name)
        copy = self._used[name] = KeptCopy(self._files, fd, path, remove, release)
        return copy

    def _opened(self, place: Path, *, makes: bool) -> int:
        """Return the descriptor of a copy. Raises OSError."""
        try:
            return open_regular(self._files, place, update=True)
        except FileNotFoundError:
            if not makes:
                raise
            self._files.make_folder(self._folder)
            return self._files.create(place)

    def _release(self, name: str) -> None:
        """Let the next opening have a copy."""
        with self._guard:
            del self._used[name]
        self._make_room()

    def forget(self, name: str) -> None:
        """Remove a copy and its index; one in use ends with its log, which keeps no index of it."""
        used = self._used.get(name)
        if used is not None:
            used.doubt()
        for suffix in (_SUFFIX, _INDEX):
            with suppress(OSError):
                self._files.unlink(self._folder / f"{name}{suffix}")

    def names(self) -> list[str]:
        """Return the names of all copies."""
        try:
            found = self._files.listdir(self._folder)
        except OSError:
            return []
        return [name.removesuffix(_SUFFIX) for name in found if name.endswith(_SUFFIX)]

    def _make_room(self) -> None:
        """Remove the copies that were written to least recently until the rest is within the bound."""
        with suppress(OSError):
            stats = self._files.stats(self._folder)
            copies = {name: found for name, found in stats.items() if name.endswith(_SUFFIX)}
            size = sum(found.st_size for found in copies.values())
            for name in sorted(copies, key=lambda name: copies[name].st_mtime_ns):
                if size <= self._bytes_max:
                    return
                own = name.removesuffix(_SUFFIX)
                if own not in self._used:
                    self.forget(own)
                    size -= copies[name].st_size
