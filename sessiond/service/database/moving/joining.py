"""Documents of a namespace in two places, made one. Pure, but for the reservation of revisions.

Law: two open namespaces that have values never mix, nor do secrets, which are bound to their file. The records
of the daemon's own namespaces join key by key. Where the two differ, an operator says which side stays, and
the document of the other side is returned whole, to be put aside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Literal, NamedTuple

from msgspec import structs

from sessiond.errors import StorageError
from sessiond.model.ids import is_open_namespace
from sessiond.state.codec import STATE, Damaged, NewerVersion, decode_as, encode
from sessiond.state.document import Document, Record

Keep = Literal["source", "target"]
"""Side whose values stay where those of two places differ; a thing moves from the source to the target."""

Reserve = Callable[[int, int], int]
"""Reserves so many revisions, from the first number on or behind; returns the first."""

_NAMED_MAX: Final = 10


class OtherValues(Exception):
    """Two documents of a namespace that do not join."""

    def __init__(self, keys: list[str]) -> None:
        """Take the keys that differ; none if a document cannot be read."""
        super().__init__()
        self.keys = keys


class JoinedDocument(NamedTuple):
    """The document of a namespace that the target is to have."""

    data: bytes
    lost: bytes = b""
    """The document whose values are not all in `data`; empty without one."""


def joined(  # noqa: PLR0913 - two documents, and how to join them
    kind: str, name: str, there: bytes, moved: bytes, reserve: Reserve, keep: Keep | None
) -> JoinedDocument:
    """Return the document of the target with that of the source. Raises OtherValues, StorageError.

    Records of the source get revisions that no change has, in their order.
    """
    if there in {b"", moved}:
        return JoinedDocument(moved)
    place, other = _decoded(kind, name, there), _decoded(kind, name, moved)
    lost = moved if keep == "target" else there
    if kind == STATE and place is not None and other is not None:
        if not is_open_namespace(name):
            clashing = _clashing(place, other)
            if clashing and keep is None:
                raise OtherValues(sorted(clashing))
            more = clashing if keep == "source" else set[str]()
            more |= other.records.keys() - place.records.keys()
            data = _with(place, place.records, _some(other, more), reserve) if more else there
            return JoinedDocument(data, lost if clashing else b"")
        if not _differing(kind, place, other):
            return JoinedDocument(there)
        if not place.records:
            return JoinedDocument(_with(place, {}, other.records, reserve))
        if keep == "source":
            return JoinedDocument(_with(place, {}, other.records, reserve), lost)
    if keep is None:
        raise OtherValues(sorted(_differing(kind, place, other)))
    return JoinedDocument(there if keep == "target" else moved, lost)


def _decoded(kind: str, name: str, data: bytes) -> Document | None:
    """Return a document; None for one that cannot be read."""
    try:
        return decode_as(kind, data, name)
    except (Damaged, NewerVersion):
        return None


def _clashing(place: Document, other: Document) -> set[str]:
    """Return the keys that have different values in two documents of the daemon's own."""
    common = place.records.keys() & other.records.keys()
    return {key for key in common if place.records[key].value != other.records[key].value}


def _differing(kind: str, place: Document | None, other: Document | None) -> set[str]:
    """Return the keys whose records differ; none if a document cannot be read."""
    if place is None or other is None:
        return set()
    one, two = place.records, other.records
    return {
        key for key in one.keys() | two.keys() if _said(kind, one, key) != _said(kind, two, key)
    }


def _said(kind: str, records: Mapping[str, Record], key: str) -> object:
    """Return what a record says; a secret is bound to its revision."""
    record = records.get(key)
    if record is None or kind != STATE:
        return record
    return bytes(record.value), record.tags, record.expires_ms


def _some(document: Document, keys: set[str]) -> dict[str, Record]:
    return {key: record for key, record in document.records.items() if key in keys}


def _with(
    place: Document, stay: Mapping[str, Record], more: Mapping[str, Record], reserve: Reserve
) -> bytes:
    """Return a document with records that stay and records that come, which replace those of equal keys."""
    in_order = sorted(more.items(), key=lambda one: one[1].revision)
    latest = max([place.revision, *(record.revision for record in more.values())])
    first = reserve(latest + 1, len(in_order))
    records = dict(stay)
    for revision, (key, record) in enumerate(in_order, first):
        records[key] = structs.replace(record, revision=revision)
    return encode(Document(place.namespace, first + len(in_order) - 1, records))


def parted(kind: str, name: str, data: bytes, sessions: set[str]) -> tuple[bytes, bytes]:
    """Return a namespace of the daemon's own with the records of these sessions alone, and without them.

    Either is empty without records. What cannot be read goes as a whole.
    """
    document = _decoded(kind, name, data)
    if document is None:
        return data, b""
    keys = {key for key in document.records if key.partition(".")[0] in sessions}
    there, rest = _some(document, keys), _some(document, document.records.keys() - keys)
    if not rest:
        return data, b""
    moved = encode(Document(name, document.revision, there)) if there else b""
    return moved, encode(Document(name, document.revision, rest))


def has_other_values(namespace: str, where: str, others: OtherValues) -> StorageError:
    """Return the refusal to replace values; it names keys, and no values."""
    text = f"{where} has other values in the namespace {namespace}, which stay as they are"
    named = ", ".join(others.keys[:_NAMED_MAX])
    more = len(others.keys) - _NAMED_MAX
    if named:
        text = f"{text}; the two differ in: {named}{f' and {more} more' if more > 0 else ''}"
    return StorageError(text, errno="EEXIST", path=namespace, retryable=False)
