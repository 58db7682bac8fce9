"""The ids of sessions, entries and heads: their grammar and the derivation of some ids.

Patterns end in a look-ahead because `$` alone also matches before a trailing newline;
in other systems "abcdefgh\\n" became a file name that way.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from sessiond.model.digests import sha256_hex

__all__ = [
    "MAIN",
    "PATTERN_WORDS",
    "EntryId",
    "HeadName",
    "NewEntryId",
    "SessionId",
    "as_uuid",
    "derive_entry_id",
    "derive_session_id",
    "is_session_id",
]

SESSION_ID_PATTERN: Final = r"^[A-Za-z0-9_-]{8,128}(?!\n)$"

# An id that refers to an entry: files of other programs may have any string as an id.
EntryId = Annotated[str, Meta(min_length=1, max_length=1024)]
_ENTRY_ID_PATTERN: Final = r"^[A-Za-z0-9_.:-]{1,128}(?!\n)$"
_HEAD_NAME_PATTERN: Final = r"^[A-Za-z0-9_./:-]{1,64}(?!\n)$"
PATTERN_WORDS: Final = {
    SESSION_ID_PATTERN: "8 to 128 characters of A-Z a-z 0-9 _ -",
    _ENTRY_ID_PATTERN: "1 to 128 characters of A-Z a-z 0-9 _ . : -",
    _HEAD_NAME_PATTERN: "1 to 64 characters of A-Z a-z 0-9 _ . / : -",
}
"""A description of each pattern, for error messages and the schema."""

SessionId = Annotated[
    str, Meta(pattern=SESSION_ID_PATTERN, description=PATTERN_WORDS[SESSION_ID_PATTERN])
]
# An id that a client chooses for a new entry.
NewEntryId = Annotated[
    str, Meta(pattern=_ENTRY_ID_PATTERN, description=PATTERN_WORDS[_ENTRY_ID_PATTERN])
]
HeadName = Annotated[
    str, Meta(pattern=_HEAD_NAME_PATTERN, description=PATTERN_WORDS[_HEAD_NAME_PATTERN])
]

MAIN: Final = "main"
_UUID_PARTS: Final = ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32))
_SESSION_ID_CHARACTERS: Final = frozenset(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
)


def is_session_id(text: str) -> bool:
    """Return whether `text` may be the id of a session (and so part of a file name)."""
    return 8 <= len(text) <= 128 and _SESSION_ID_CHARACTERS.issuperset(text)


def derive_entry_id(session_id: str, idempotency_key: str, index: int) -> str:
    """Return the id of entry `index` of the call with this key: 32 hex digits of SHA-256.

    The id in the file is enough to recognise a retry; no other record is needed.
    """
    text = f"{session_id}\0{idempotency_key}\0{index}"
    return sha256_hex(text.encode())[:32]


def as_uuid(digits: str) -> str:
    """Return 32 hex digits in the form of a UUID."""
    return "-".join(digits[first:end] for first, end in _UUID_PARTS)


def derive_session_id(path: str) -> str:
    """Return the session id of a file without a usable header id: 32 hex digits of SHA-256."""
    return sha256_hex(path.encode(errors="surrogateescape"))[:32]
