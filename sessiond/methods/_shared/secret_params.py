"""Parameters and errors of the methods on secrets."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from sessiond.errors import (
    Draining,
    Overloaded,
    SecretCorrupt,
    SecretKeyUnavailable,
    SessiondError,
    StorageError,
)
from sessiond.limits import SECRET_CHARS_MAX

__all__ = ["SECRET_ERRORS", "SecretText"]

SECRET_ERRORS: Final[tuple[type[SessiondError], ...]] = (
    SecretKeyUnavailable,
    SecretCorrupt,
    StorageError,
    Overloaded,
    Draining,
)
"""Errors of every method that encrypts or decrypts."""

SecretText = Annotated[str, Meta(max_length=SECRET_CHARS_MAX)]
