"""Keys of the secrets: from a command, or from a file outside the data folder that only its owner reads.

    # The key of the secrets that sessiond keeps. …
    <64 hex digits>        the key that encrypts
    <64 hex digits>        an earlier key, which only decrypts

Law: a key is never logged, never part of an error, and never in the data folder. A key file that other
users can read is not used. A key file is made only where nothing was encrypted yet.
"""

from __future__ import annotations

import base64
import binascii
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from sessiond.errors import SecretKeyUnavailable
from sessiond.journal.disk.descriptor import close_quietly
from sessiond.journal.disk.failures import printable, telling
from sessiond.journal.disk.files import Files
from sessiond.journal.disk.regular import check_regular, open_regular
from sessiond.journal.profile.making import give_name, remove_own, write_unfinished
from sessiond.limits import KEY_FILE_BYTES_MAX
from sessiond.model.digests import sha256_hex

__all__ = ["Key", "KeyFile", "KeySettings", "KeySource", "keys_in", "new_key"]

_KEY_BYTES: Final = 32
_TOLD: Final = (
    "# The key of the secrets that sessiond keeps. Without it they cannot be read: keep a copy in a"
    " safe place.\n"
)


class Key:
    """Key of AES-256. Its id tells keys apart and says nothing of the key."""

    __slots__ = ("data", "id")

    def __init__(self, data: bytes) -> None:
        assert len(data) == _KEY_BYTES, "keys are checked where they are read"
        self.data = data
        self.id = sha256_hex(b"sessiond key id\0" + data)[:16]

    def __repr__(self) -> str:
        """Return the id, so that no report shows the key."""
        return f"Key({self.id})"


class KeySettings(Struct, frozen=True):
    """Source of the keys: the output of a command, else a file."""

    file: Path
    is_shared: bool = False
    """True if several profiles may use the file, so that no key in it is ever dropped."""
    command: tuple[str, ...] = ()
    run: Callable[[Sequence[str]], bytes] | None = None
    """Function that returns what a command writes. Blocking. Raises SecretKeyUnavailable."""


def new_key() -> Key:
    """Return a random key."""
    return Key(os.urandom(_KEY_BYTES))


def keys_in(text: bytes, source: str) -> list[Key]:
    """Return the keys in a text, one a line, the current one first. Raises SecretKeyUnavailable."""
    lines = [line.strip() for line in text.split(b"\n")]
    found = [_key_in(line) for line in lines if line and not line.startswith(b"#")]
    keys = [key for key in found if key is not None]
    if not keys or len(keys) < len(found) or len(text) > KEY_FILE_BYTES_MAX:
        raise SecretKeyUnavailable(
            f"{source} gives no key: a key is 32 bytes, written as 64 hex digits or as base64, one a"
            " line, the current one first",
            reason="bad_key",
        )
    return keys


def _key_in(line: bytes) -> Key | None:
    try:
        data = bytes.fromhex(line.decode("ascii"))
    except ValueError:
        try:
            data = base64.b64decode(line, validate=True)
        except binascii.Error:
            return None
    return Key(data) if len(data) == _KEY_BYTES else None


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
        self._require_outside()
        files, path = self._files, self.path
        with telling("read", path):
            try:
                fd = open_regular(files, path)
            except FileNotFoundError:
                return None
            try:
                size = check_regular(files, fd)
                found = files.fstat(fd)
                self._require_private(found.st_uid, found.st_mode)
                text = files.pread(fd, min(size, KEY_FILE_BYTES_MAX + 1), 0)
            finally:
                close_quietly(files, fd)
        return keys_in(text, f"the key file {printable(path)}")

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

    def _write(self, keys: Sequence[Key], name: Callable[[Files, Path, Path], None]) -> None:
        """Write a file and give it its name. Raises _Taken, StorageError."""
        self._require_outside()
        files, folder = self._files, self.path.parent
        text = _TOLD + "".join(f"{key.data.hex()}\n" for key in keys)
        with telling("write", self.path):
            self._make_folder(folder)
            fd, unfinished = write_unfinished(files, folder, [text.encode()])
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

    def _make_folder(self, folder: Path) -> None:
        """Make the folder and those above it that are missing, for the user only, durably."""
        missing: list[Path] = []
        while not self._files.exists(folder):
            missing.append(folder)
            folder = folder.parent
        for one in reversed(missing):
            self._files.make_folder(one)
            self._files.fsync_folder(one.parent)

    def _require_outside(self) -> None:
        real, data = os.path.realpath(self.path), os.path.realpath(self._data_folder)
        if real.startswith(f"{data}/"):
            raise self._unsafe(
                "lies in the data folder, whose copy would hold secrets and key: name another place"
                " with secrets.key_file in the configuration"
            )

    def _require_private(self, owner: int, mode: int) -> None:
        if owner != os.geteuid():
            raise self._unsafe("belongs to another user: make it yours, or name another file")
        if stat.S_IMODE(mode) & 0o077:
            shown = f"{stat.S_IMODE(mode):04o}"
            raise self._unsafe(
                f"can be read or written by other users (mode {shown}): run chmod 600 on it, and"
                " think of the key as known to them: sessiond secret rotate makes another"
            )

    def _unsafe(self, why: str) -> SecretKeyUnavailable:
        return SecretKeyUnavailable(
            f"the key file {printable(self.path)} {why}",
            reason="unsafe_key",
            path=printable(self.path),
        )


class KeySource:
    """Place of the keys of one profile; `home` is the data folder of all profiles."""

    def __init__(self, files: Files, home: Path, settings: Callable[[], KeySettings]) -> None:
        self.files = files
        self.settings = settings
        self._home = home

    def file(self) -> KeyFile:
        """Return the key file that is configured now."""
        return KeyFile(self.files, self.settings().file, self._home)
