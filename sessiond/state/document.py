"""Document: the values of one namespace, and a draft of changes of them. Pure: no I/O, no clock.

Law: a draft changes nothing in its document. `Document.commit` takes a draft over once the draft is
durable, and cannot fail.

Every change gets a revision from one counter of the whole store, so no two changes of any key of any
namespace have one revision. A key that does not exist has revision 0.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from msgspec import UNSET, Raw, Struct, UnsetType, structs

from sessiond.errors import RevisionMismatch, TooLarge
from sessiond.limits import STATE_KEYS_MAX, STATE_VALUE_BYTES_MAX
from sessiond.model.events import StateChange

ABSENT: Final = 0
"""Revision of a key that does not exist."""

# Bytes of a record beside its key, tags and value.
_RECORD_BYTES: Final = 256


class Record(Struct, frozen=True, omit_defaults=True):
    """Value of a key as it is stored. `expires_ms` is a time in milliseconds since 1970."""

    revision: int
    created_at: str
    updated_at: str
    value: Raw
    expires_ms: int | None = None
    tags: tuple[str, ...] = ()


class Write(Struct, frozen=True):
    """Value that a caller wants to store."""

    key: str
    value: Raw
    tags: tuple[str, ...] = ()
    expires_ms: int | None = None
    expected: int | UnsetType | None = UNSET
    """Revision that the key must have; 0 or None: the key must not exist."""


class Moment(Struct, frozen=True):
    """Time of a draft, and the source of the revisions of its changes."""

    text: str
    """RFC 3339, UTC with milliseconds."""
    ms: int
    """Milliseconds since 1970."""
    next_revision: Callable[[], int]


class Change(Struct, frozen=True):
    """Change of one key."""

    key: str
    revision: int
    change: StateChange


class Document:
    """Durable values of one namespace."""

    def __init__(
        self,
        namespace: str,
        revision: int = ABSENT,
        records: dict[str, Record] | None = None,
        *,
        file_id: str = "",
        seal: Raw | UnsetType = UNSET,
    ) -> None:
        self.namespace = namespace
        self.file_id: str = file_id
        """Id of the file of a namespace of secrets; else empty."""
        self.seal = seal
        """Seal of a file of secrets as it was read."""
        self.revision = revision
        """Revision of the latest change."""
        self.records: dict[str, Record] = {} if records is None else records
        self.size = sum(_size(key, record) for key, record in self.records.items())
        """Bytes of all values, keys and tags, with an allowance for each record."""
        self.next_expiry = _next_expiry(self.records)
        """Time of the first value that expires, in milliseconds since 1970; None without one."""

    def get(self, key: str) -> Record | None:
        """Return the value of a key; None if there is none."""
        return self.records.get(key)

    def tagged(self, tags: Sequence[str]) -> Iterator[tuple[str, Record]]:
        """Yield the keys and values that have all of these tags, by key."""
        wanted = set(tags)
        for key in sorted(self.records):
            record = self.records[key]
            if wanted.issubset(record.tags):
                yield key, record

    def is_due(self, now_ms: int) -> bool:
        """Return whether a value has expired at this time."""
        return self.next_expiry is not None and self.next_expiry <= now_ms

    def commit(self, draft: Draft) -> None:
        """Take over a draft that is durable."""
        self.revision, self.records, self.file_id = draft.revision, draft.records, draft.file_id
        self.size, self.next_expiry = draft.size, _next_expiry(draft.records)


class Draft(Document):
    """Changes on top of a document. A change that raises has changed nothing."""

    def __init__(self, document: Document, now: Moment, *, bytes_max: int) -> None:
        """Take the time of the changes, and drop the values that have expired at that time."""
        self.namespace: str = document.namespace
        self.file_id: str = document.file_id
        self.seal = document.seal
        self.revision, self.size = document.revision, document.size
        self.records = dict(document.records)
        self.next_expiry = document.next_expiry
        self.changes: list[Change] = []
        self.is_rewritten = False
        """True if the file is to be written although no key has changed."""
        self._now = now
        self._bytes_max = bytes_max
        if document.is_due(now.ms):
            self._expire(now.ms)

    @contextmanager
    def all_or_nothing(self) -> Generator[None]:
        """Undo every change of the block if the block raises."""
        before = dict(self.records), self.revision, self.size, len(self.changes)
        try:
            yield
        except BaseException:
            self.records, self.revision, self.size, count = before
            del self.changes[count:]
            raise

    def put(self, write: Write, seal: Callable[[int], Raw] | None = None) -> Record:
        """Store a value. Raises RevisionMismatch, TooLarge.

        `seal` makes what is stored, as long as `write.value`, once the revision is known.
        """
        found = self.records.get(write.key)
        self._require(write.key, found, write.expected)
        if len(write.value) > STATE_VALUE_BYTES_MAX:
            raise TooLarge(
                "the value is larger than a value may be",
                limit=STATE_VALUE_BYTES_MAX,
                size=len(write.value),
            )
        if found is None and len(self.records) >= STATE_KEYS_MAX:
            raise TooLarge(
                "the namespace has as many keys as it may have: delete some, or use another namespace",
                limit=STATE_KEYS_MAX,
            )
        record = Record(
            # The number is taken once nothing can refuse the change any more.
            revision=ABSENT,
            created_at=self._now.text if found is None else found.created_at,
            updated_at=self._now.text,
            value=write.value,
            expires_ms=write.expires_ms,
            tags=write.tags,
        )
        size = self.size + _size(write.key, record) - _size(write.key, found)
        if size > self._bytes_max and size > self.size:
            raise TooLarge(
                "the namespace, or the store, would be larger than it may be: delete some keys",
                limit=self._bytes_max,
                size=size,
            )
        self.size = size
        revision = self._note(write.key, "set")
        value = write.value if seal is None else seal(revision)
        record = structs.replace(record, revision=revision, value=value)
        self.records[write.key] = record
        return record

    def delete(self, key: str, expected: int | UnsetType | None) -> bool:
        """Delete a key; return whether the key existed. Raises RevisionMismatch."""
        found = self.records.get(key)
        self._require(key, found, expected)
        if found is None:
            return False
        self._drop(key, found, "deleted")
        return True

    def rewrite(self, key: str, value: Raw) -> None:
        """Store a value in another form. Nothing has changed for readers."""
        self.records[key] = structs.replace(self.records[key], value=value)
        self.is_rewritten = True

    def _expire(self, now_ms: int) -> None:
        for key, record in list(self.records.items()):
            if record.expires_ms is not None and record.expires_ms <= now_ms:
                self._drop(key, record, "expired")

    def _drop(self, key: str, record: Record, change: StateChange) -> None:
        del self.records[key]
        self.size -= _size(key, record)
        self._note(key, change)

    def _note(self, key: str, change: StateChange) -> int:
        self.revision = self._now.next_revision()
        self.changes.append(Change(key, self.revision, change))
        return self.revision

    def _require(self, key: str, found: Record | None, expected: int | UnsetType | None) -> None:
        """Raise RevisionMismatch if the key does not have the expected revision."""
        if isinstance(expected, UnsetType):
            return
        actual = ABSENT if found is None else found.revision
        wanted = expected or ABSENT
        if actual != wanted:
            raise RevisionMismatch(
                "the key does not exist" if found is None else "the key has another revision",
                namespace=self.namespace,
                key=key,
                expected_revision=wanted,
                actual_revision=actual,
            )


def _size(key: str, record: Record | None) -> int:
    if record is None:
        return 0
    words = sum(len(tag.encode()) for tag in record.tags)
    return _RECORD_BYTES + len(key.encode()) + words + len(record.value)


def _next_expiry(records: dict[str, Record]) -> int | None:
    times = [record.expires_ms for record in records.values() if record.expires_ms is not None]
    return min(times, default=None)
