"""Values of the state store on the wire: their parameters and their rows."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Raw, Struct, UnsetType
from msgspec.structs import asdict

from sessiond.errors import Draining, Overloaded, SessiondError, StorageError
from sessiond.limits import STATE_TAGS_MAX, STATE_TTL_MS_MAX
from sessiond.model.ids import Namespace, StateKey, Tag
from sessiond.model.times import rfc3339
from sessiond.rpc.params import Params
from sessiond.state.document import ABSENT, Record

STATE_ERRORS: Final[tuple[type[SessiondError], ...]] = (StorageError, Overloaded, Draining)
"""Errors of every method on the state store."""

NO_VALUE: Final = Raw(b"null")

ExpectedRevision = Annotated[int, Meta(ge=0, le=2**53 - 1)] | UnsetType | None
"""Revision that the key must have; 0 and null: the key must not exist."""

Tags = Annotated[tuple[Tag, ...], Meta(max_length=STATE_TAGS_MAX)]
TtlMs = Annotated[int, Meta(ge=1, le=STATE_TTL_MS_MAX)]


class NamespaceParams(Params):
    """Parameters of a method on one namespace."""

    namespace: Namespace


class StateParams(NamespaceParams):
    """Parameters of a method on one key."""

    key: StateKey


class KeyRow(Struct, frozen=True, kw_only=True):
    """Key of a namespace without its value; `revision` 0 stands for a key that does not exist."""

    key: str
    revision: int = ABSENT
    bytes: int = 0
    tags: tuple[str, ...] = ()
    created_at: str | None = None
    updated_at: str | None = None
    expires_at: str | None = None


class StateRow(KeyRow, frozen=True, kw_only=True):
    """Key of a namespace with its value, as the bytes that were stored."""

    value: Raw


def key_row(key: str, record: Record) -> KeyRow:
    """Return a key without its value."""
    return KeyRow(
        key=key,
        revision=record.revision,
        bytes=len(record.value),
        tags=record.tags,
        created_at=record.created_at,
        updated_at=record.updated_at,
        expires_at=expiry_text(record.expires_ms),
    )


def state_row(key: str, record: Record | None) -> StateRow:
    """Return a key with its value; null and revision 0 for a key that does not exist."""
    if record is None:
        return StateRow(key=key, value=NO_VALUE)
    return StateRow(value=record.value, **asdict(key_row(key, record)))


def expiry_text(expires_ms: int | None) -> str | None:
    """Return the time at which a value expires, for the wire."""
    return None if expires_ms is None else rfc3339(expires_ms / 1000)
