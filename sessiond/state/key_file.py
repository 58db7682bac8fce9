"""File of the keys of the secrets, outside the data folder and readable by its owner only.

A new key file is written under a temporary name beside the old one, locked and synced, and then gets
the name, so neither a kill nor a full disk leaves half a key file. What a kill leaves under the
temporary name is removed when the next key file is made, and by the next start that has secrets.

A key is added under a lock on the key file, so that of two daemons which add a key at once neither drops
the other one's.

Law: a key file that other users can read is not used. This module removes only files that it made:
the whole name has the form of an unfinished file of this key file, the file belongs to this user
alone, and no process has it locked.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from sessiond.errors import SecretKeyUnavailable, StorageError
from sessiond.journal.disk.descriptor import close_quietly
from sessiond.journal.disk.failures import telling
from sessiond.journal.disk.files import Files, FileStat
from sessiond.journal.disk.lookup import has_file
from sessiond.journal.disk.regular import check_regular, open_regular
from sessiond.journal.profile.making import fill, give_name, remove_own
from sessiond.journal.profile.names import is_unfinished_key, unfinished_key_name
from sessiond.limits import KEY_FILE_BYTES_MAX
from sessiond.state.keys import Key, KeySettings, keys_in
from sessiond.visible import printable

_TRIES: Final = 500
_PAUSE_SECONDS: Final = 0.01
_TOLD: Final = (
    "# The key of the secrets that sessiond keeps. Without it they cannot be read: keep a copy in a"
    " safe place.\n"
)


class Flaw(Struct, frozen=True):
    """Reason why a key file is not used, and what to do."""

    why: str
    then: str


_FULL: Final = Flaw(
    "has no room for one more key",
    "rotate the key of each profile that has this file, so that the first key opens all secrets, and"
    " remove the last keys",
)


class _Taken(Exception):
    """Name of a new file that another file has."""


class KeyFile:
    """File of keys. Blocking, for worker threads."""

    def __init__(self, files: Files, path: Path, data_folder: Path) -> None:
        self.path = path
        self._files = files
        self._data_folder = data_folder

    def read(self) -> list[Key] | None:
        """Return the keys; None without a file. Raises SecretKeyUnavailable, StorageError."""
        self._require(self._flaw_of_place())
        files, path = self._files, self.path
        with telling("read", path):
            try:
                fd = open_regular(files, path)
            except FileNotFoundError:
                return None
            try:
                size = check_regular(files, fd)
                self._require(_flaw_of_rights(files.fstat(fd), self.path))
                text = files.pread(fd, min(size, KEY_FILE_BYTES_MAX + 1), 0)
            finally:
                close_quietly(files, fd)
        return keys_in(text, f"the key file {printable(path)}")

    def flaw(self) -> Flaw | None:
        """Return why the file is not used; None for a good one. No key is read.

        Raises OSError, for a missing file too.
        """
        if flaw := self._flaw_of_place():
            return flaw
        fd = open_regular(self._files, self.path)
        try:
            return _flaw_of_rights(self._files.fstat(fd), self.path)
        finally:
            close_quietly(self._files, fd)

    def create(self, key: Key) -> list[Key]:
        """Make the file with a key, durably; return the keys of a file that was made meanwhile.

        Raises SecretKeyUnavailable, StorageError.
        """
        try:
            self._write([key], give_name)
        except _Taken:
            return self.read() or self.create(key)
        return [key]

    def write(self, keys: Sequence[Key]) -> None:
        """Put these keys into the file, durably, in place of those before.

        Raises SecretKeyUnavailable, StorageError.
        """
        self._write(keys, lambda files, old, new: files.rename(old, new))

    def add(self, key: Key) -> list[Key]:
        """Put a key before those of the file, durably, and return all of them; no other daemon's key is lost.

        Raises SecretKeyUnavailable, StorageError.
        """
        for _ in range(_TRIES):
            with telling("lock", self.path):
                fd = open_regular(self._files, self.path, update=True)
            try:
                # Another daemon may have put another file there.
                if _lock(self._files, fd) and self._is_there(fd):
                    keys = [key, *(self.read() or [])]
                    self.write(keys)
                    return keys
            finally:
                close_quietly(self._files, fd)
            time.sleep(_PAUSE_SECONDS)
        raise StorageError(
            "another program has locked the key file: try again when it has ended",
            errno="EAGAIN",
            path=printable(self.path),
            retryable=True,
        )

    def _is_there(self, fd: int) -> bool:
        """Return whether the name of the key file is that of an open file."""
        with telling("examine", self.path):
            return has_file(self._files, self.path, self._files.fstat(fd))

    def unfinished(self) -> list[Path]:
        """Return the unfinished files that belong to this key file and user. Raises OSError."""
        folder, own = self.path.parent, self.path.name
        try:
            names = sorted(self._files.listdir(folder))
        except (FileNotFoundError, NotADirectoryError):
            return []
        paths = [folder / name for name in names if is_unfinished_key(name, own)]
        return [path for path in paths if self._is_own(path)]

    def remove_unfinished(self) -> None:
        """Remove what killed daemons left; leave what cannot be removed, or is being written."""
        with suppress(OSError):
            for path in self.unfinished():
                with suppress(OSError):
                    self._remove_unlocked(path)

    # -- inside ------------------------------------------------------------------------

    def _write(self, keys: Sequence[Key], name: Callable[[Files, Path, Path], None]) -> None:
        """Write a file and give it its name. Raises _Taken, StorageError."""
        self._require(self._flaw_of_place())
        files, folder = self._files, self.path.parent
        text = (_TOLD + "".join(f"{key.data.hex()}\n" for key in keys)).encode()
        if len(text) > KEY_FILE_BYTES_MAX:
            # A file that no daemon reads would lose all secrets.
            self._require(_FULL, "full_key_file")
        with telling("write", self.path):
            self._make_folder(folder)
            self.remove_unfinished()
            fd, unfinished = self._begin()
            fill(files, fd, unfinished, [text])
            try:
                name(files, unfinished, self.path)
            except FileExistsError:
                remove_own(files, unfinished, fd)
                raise _Taken from None
            except BaseException:
                remove_own(files, unfinished, fd)
                raise
            finally:
                close_quietly(files, fd)
            files.fsync_folder(folder)

    def _begin(self) -> tuple[int, Path]:
        """Return the descriptor and path of a new empty file that is locked. Raises OSError."""
        files = self._files
        while True:
            name = unfinished_key_name(self.path.name, files.random_digits())
            path = self.path.with_name(name)
            fd = files.create(path)
            try:
                # A daemon that shares the key file may remove a file that is not locked yet.
                if _lock(files, fd) and has_file(files, path, files.fstat(fd)):
                    return fd, path
            except BaseException:
                remove_own(files, path, fd)
                close_quietly(files, fd)
                raise
            close_quietly(files, fd)

    def _remove_unlocked(self, path: Path) -> None:
        fd = open_regular(self._files, path, update=True)
        try:
            if self._files.lock(fd):
                remove_own(self._files, path, fd)
        finally:
            close_quietly(self._files, fd)

    def _is_own(self, path: Path) -> bool:
        found = self._files.lstat(path)
        return stat.S_ISREG(found.st_mode) and _flaw_of_rights(found, self.path) is None

    def _make_folder(self, folder: Path) -> None:
        """Make the folder and those above it that are missing, for the user only, durably."""
        missing: list[Path] = []
        while not self._files.exists(folder):
            missing.append(folder)
            folder = folder.parent
        for one in reversed(missing):
            self._files.make_folder(one)
            self._files.fsync_folder(one.parent)

    def _flaw_of_place(self) -> Flaw | None:
        real, data = os.path.realpath(self.path), os.path.realpath(self._data_folder)
        if not real.startswith(f"{data}/"):
            return None
        why = "lies in the data folder, whose copy would hold secrets and key"
        return Flaw(why, "name another place with secrets.key_file in the configuration")

    def _require(self, flaw: Flaw | None, reason: str = "unsafe_key") -> None:
        if flaw is not None:
            raise SecretKeyUnavailable(
                f"the key file {printable(self.path)} {flaw.why}: {flaw.then}",
                reason=reason,
                path=printable(self.path),
            )


def _lock(files: Files, fd: int) -> bool:
    """Lock a file; return False if another descriptor has the lock."""
    try:
        return files.lock(fd)
    except OSError:
        # Where files have no locks, no process can remove an unfinished file either.
        return True


def _flaw_of_rights(found: FileStat, path: Path) -> Flaw | None:
    if found.st_uid != os.geteuid():
        return Flaw("belongs to another user", "make it yours, or name another file")
    mode = stat.S_IMODE(found.st_mode)
    if not mode & 0o077:
        return None
    from shlex import quote  # loaded where a file is at fault

    why = f"can be read or written by other users (mode {mode:04o})"
    then = (
        f"run `chmod 600 {printable(quote(str(path)))}`, and think of the key as known to them:"
        " `sessiond secret rotate` makes another"
    )
    return Flaw(why, then)


class KeySource:
    """Place of the keys of one profile; `home` is the data folder of all profiles."""

    def __init__(self, files: Files, home: Path, settings: Callable[[], KeySettings]) -> None:
        self.files = files
        self.settings = settings
        self._home = home

    def file(self) -> KeyFile:
        """Return the key file that is configured now."""
        return KeyFile(self.files, self.settings().file, self._home)
