"""Values and errors of the methods on secrets.

A secret is any JSON value, such as the object of an OAuth login. What is encrypted of a text is the text, as
UTF-8; of any other value the JSON behind a byte that UTF-8 does not have.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw

from sessiond import typed
from sessiond.dialects.lenient_json import one_line
from sessiond.errors import (
    Draining,
    InvalidParams,
    Overloaded,
    SecretCorrupt,
    SecretKeyUnavailable,
    SessiondError,
    StorageError,
)
from sessiond.limits import SECRET_CHARS_MAX

SECRET_ERRORS: Final[tuple[type[SessiondError], ...]] = (
    SecretKeyUnavailable,
    SecretCorrupt,
    StorageError,
    Overloaded,
    Draining,
)
"""Errors of every method that encrypts or decrypts."""

_NO_TEXT: Final = b"\xff"


def plaintext_of(value: Raw) -> bytes:
    """Return the bytes to encrypt of a JSON value. Raises InvalidParams for a value that is too long."""
    encoded = bytes(value)
    is_text = encoded.startswith(b'"')
    said = typed.decode(encoded, str) if is_text else encoded.decode()
    if len(said) > SECRET_CHARS_MAX:
        what = "a secret has at most {} characters, in JSON of a value that is no text"
        raise InvalidParams(what.format(SECRET_CHARS_MAX), path="value")
    return said.encode() if is_text else _NO_TEXT + one_line(encoded)


def value_of(plaintext: bytes) -> Raw:
    """Return the JSON value of bytes that were encrypted."""
    if plaintext.startswith(_NO_TEXT):
        return Raw(plaintext.removeprefix(_NO_TEXT))
    return Raw(msgspec.json.encode(plaintext.decode()))
