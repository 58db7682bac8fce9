"""Keys of the secrets: from a command, or from a file outside the data folder that only its owner reads.

    # The key of the secrets that sessiond keeps. …
    <64 hex digits>        the key that encrypts
    <64 hex digits>        an earlier key, which only decrypts

Law: a key is never logged, never part of an error, and never in the data folder. A key file is made
only where nothing was encrypted yet.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from sessiond.errors import SecretKeyUnavailable
from sessiond.limits import KEY_FILE_BYTES_MAX
from sessiond.model.digests import sha256_hex

_KEY_BYTES: Final = 32


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
