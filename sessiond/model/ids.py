"""The ids of sessions, entries and heads: their grammar and the derivation of some ids.

Patterns end in a look-ahead because `$` alone also matches before a trailing newline;
in other systems "abcdefgh\\n" became a file name that way.
"""

from __future__ import annotations

import re
from typing import Annotated, Final

from msgspec import Meta

from sessiond.model.digests import sha256_hex

SESSION_ID_PATTERN: Final = r"^[A-Za-z0-9_-]{8,128}(?!\n)$"

# An id that refers to an entry: files of other programs may have any string as an id, of any length.
EntryId = Annotated[str, Meta(min_length=1)]
_ENTRY_ID_PATTERN: Final = r"^[A-Za-z0-9_.:-]{1,128}(?!\n)$"
_HEAD_NAME_PATTERN: Final = r"^[A-Za-z0-9_./:-]{1,64}(?!\n)$"
# A namespace is the name of a file, and some file systems do not tell A from a.
_NAMESPACE_PATTERN: Final = r"^[a-z0-9][a-z0-9_.-]{0,63}(?!\n)$"
_OPEN_NAMESPACE_PATTERN: Final = r"^(?!sessiond\.)[a-z0-9][a-z0-9_.-]{0,63}(?!\n)$"
# A key is no file name; parts like ".." are refused all the same, as programs make paths of keys.
_STATE_KEY_PATTERN: Final = (
    r"^(?!\.{1,2}(?:/|$))(?!.*/\.{1,2}(?:/|$))[^\x00-\x1f\x7f-\x9f\\]{1,256}(?!\n)$"
)
_TAG_PATTERN: Final = r"^[^\x00-\x1f\x7f-\x9f]{1,64}(?!\n)$"
PATTERN_WORDS: Final = {
    SESSION_ID_PATTERN: "8 to 128 characters of A-Z a-z 0-9 _ -",
    _ENTRY_ID_PATTERN: "1 to 128 characters of A-Z a-z 0-9 _ . : -",
    _HEAD_NAME_PATTERN: "1 to 64 characters of A-Z a-z 0-9 _ . / : -",
    _OPEN_NAMESPACE_PATTERN: (
        "1 to 64 characters of a-z 0-9 _ . -, the first a letter or a digit, not sessiond. at the"
        " beginning"
    ),
    _STATE_KEY_PATTERN: (
        "1 to 256 characters without control characters and backslashes, and no part between slashes"
        " that is . or .."
    ),
    _TAG_PATTERN: "1 to 64 characters without control characters",
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
# Namespaces that begin with sessiond. are the daemon's own.
Namespace = Annotated[
    str, Meta(pattern=_OPEN_NAMESPACE_PATTERN, description=PATTERN_WORDS[_OPEN_NAMESPACE_PATTERN])
]
StateKey = Annotated[
    str, Meta(pattern=_STATE_KEY_PATTERN, description=PATTERN_WORDS[_STATE_KEY_PATTERN])
]
Tag = Annotated[str, Meta(pattern=_TAG_PATTERN, description=PATTERN_WORDS[_TAG_PATTERN])]

MAIN: Final = "main"
_UUID_PARTS: Final = ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32))
_SESSION_ID_CHARACTERS: Final = frozenset(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
)
_ENTRY_ID_CHARACTERS: Final = _SESSION_ID_CHARACTERS | frozenset(".:")


def is_session_id(text: str) -> bool:
    """Return whether `text` may be the id of a session (and so part of a file name)."""
    return 8 <= len(text) <= 128 and _SESSION_ID_CHARACTERS.issuperset(text)


def is_new_entry_id(text: str) -> bool:
    """Return whether `text` may be the id that a client chooses for a new entry."""
    return 1 <= len(text) <= 128 and _ENTRY_ID_CHARACTERS.issuperset(text)


def is_namespace(text: str) -> bool:
    """Return whether `text` may be a namespace of the state store (and so part of a file name)."""
    return re.search(_NAMESPACE_PATTERN, text) is not None


def is_open_namespace(text: str) -> bool:
    """Return whether a namespace is one that clients use, and none of the daemon's own."""
    return re.search(_OPEN_NAMESPACE_PATTERN, text) is not None


def is_state_key(text: str) -> bool:
    """Return whether `text` may be a key of the state store."""
    return re.search(_STATE_KEY_PATTERN, text) is not None


def derive_entry_id(session_id: str, idempotency_key: str, index: int) -> str:
    """Return the id of entry `index` of the call with this key: 32 hex digits of SHA-256.

    The id in the file is enough to recognise a retry; no other record is needed.
    """
    text = f"{session_id}\0{idempotency_key}\0{index}"
    return sha256_hex(text.encode())[:32]


def derive_entry_ids(session_id: str, idempotency_key: str | None, count: int) -> tuple[str, ...]:
    """Return the ids that a key gives the first entries of its call; none without a key."""
    if idempotency_key is None:
        return ()
    return tuple(derive_entry_id(session_id, idempotency_key, index) for index in range(count))


def as_uuid(digits: str) -> str:
    """Return 32 hex digits in the form of a UUID."""
    return "-".join(digits[first:end] for first, end in _UUID_PARTS)


def derive_session_id(path: str) -> str:
    """Return the session id of a file without a usable header id: 32 hex digits of SHA-256."""
    return sha256_hex(path.encode(errors="surrogateescape"))[:32]
