"""SHA-256 of bytes: equal bytes have equal digests, so ids and names are made of digests."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Final, Protocol

_SHORT_BYTES: Final = 16
_KEY_DIGITS: Final = 24


class _Hash(Protocol):
    def digest(self) -> bytes: ...

    def hexdigest(self) -> str: ...


def sha256_hex(data: bytes) -> str:
    """Return the digest as 64 hex digits."""
    return _sha256()(data).hexdigest()


def key_digest(text: str) -> str:
    """Return the hex digits that stand for a text in the keys of the daemon's own namespaces."""
    return sha256_hex(text.encode())[:_KEY_DIGITS]


def short_digest(data: bytes) -> bytes:
    """Return the first 16 bytes of the digest."""
    return _sha256()(data).digest()[:_SHORT_BYTES]


@cache
def _sha256() -> Callable[[bytes], _Hash]:
    # Imported here: the hashes of OpenSSL are a fiftieth of a start, and no start needs one.
    from hashlib import sha256

    return sha256
