"""The way of a profile's states and secrets from files into a database, and back. Blocking.

Law 1: as in `moving`. Law 2: the daemon's own namespaces have records of sessions, and each key begins
with the digest of its session's id. So the records of two places join, as the sessions do, and those of
a session that stays in the database, be it in its trash, stay there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import structs

from sessiond.errors import StorageError
from sessiond.model.digests import key_digest
from sessiond.model.ids import is_open_namespace
from sessiond.service.database.database import NO_TOKEN, SessionDatabase, StoredDocument
from sessiond.service.database.documents import REVISIONS, new_token
from sessiond.service.database.moving.way import was_changed
from sessiond.service.files.store import FileStore
from sessiond.state.codec import STATE, Damaged, NewerVersion, decode_as, encode
from sessiond.state.document import Document, Record

__all__ = ["DocumentsIn", "DocumentsOut"]

Reserve = Callable[[int, int], int]
"""Reserves so many revisions, from the first number on or behind; returns the first."""

_NOTHING: Final = StoredDocument(NO_TOKEN, b"")


class _OtherValues(Exception):
    """Two documents of a namespace that do not join."""


class DocumentsIn:
    """Namespaces of one kind from the profile's files into a database; the files are removed."""

    def __init__(self, database: SessionDatabase, files: FileStore, kind: str) -> None:
        self._database = database
        self._files = files
        self._folder = files.raw_documents(kind)
        self._kind = kind

    def names(self) -> list[str]:
        """Return the namespaces that have a file."""
        return self._folder.namespaces()

    def move(self, name: str) -> None:
        """Move a namespace; what is encrypted stays encrypted.

        Raises StorageError, retryable, if another daemon has changed the namespace.
        """
        data = self._folder.load(name)
        if data is None:
            return
        there = self._document(name)
        try:
            wanted = _joined(self._kind, name, there.data, data, _reserve(self._database))
        except _OtherValues:
            raise _has_other_values(name, "the database") from None
        if wanted != there.data:
            token = new_token()
            if not self._database.put_document(self._kind, name, there.token, token, wanted):
                raise was_changed(name)
            stored = self._document(name)
            # A daemon that has written since has gone on from what was there.
            if stored.data != wanted and stored.token in {token, NO_TOKEN}:
                raise was_changed(name)
        self._folder.remove(name)

    def _document(self, name: str) -> StoredDocument:
        return self._database.document(self._kind, name, NO_TOKEN) or _NOTHING


class DocumentsOut:
    """Namespaces of one kind from a database into the profile's files; the rows are emptied."""

    def __init__(self, database: SessionDatabase, files: FileStore, kind: str) -> None:
        self._database = database
        self._files = files
        self._folder = files.raw_documents(kind)
        self._kind = kind

    def names(self) -> list[str]:
        """Return the namespaces that have values."""
        tokens = self._database.document_tokens(self._kind)
        found = ((name, self._database.document(self._kind, name, NO_TOKEN)) for name in tokens)
        return sorted(name for name, document in found if document is not None and document.data)

    def move(self, name: str) -> None:
        """Move a namespace. Raises StorageError, retryable, if another daemon has changed the namespace."""
        # The write of an earlier move may still be under way, and takes no effect behind this.
        at = new_token()
        data = self._database.fence_document(self._kind, name, at)
        if not data:
            return
        moved, rest = data, b""
        if not is_open_namespace(name):
            moved, rest = _parted(self._kind, name, data, self._sessions())
        if not moved:
            return
        before = self._folder.load(name)
        try:
            wanted = _joined(self._kind, name, before or b"", moved, _reserve(self._database))
        except _OtherValues:
            raise _has_other_values(name, "the profile") from None
        if wanted != before:
            self._folder.replace(name, wanted)
        if self._folder.load(name) != wanted:
            raise _has_other_values(name, "the profile")
        if not self._database.put_document(self._kind, name, at, new_token(), rest):
            self._bring_back(name, None if before == moved else before)
            raise was_changed(name)

    def _sessions(self) -> set[str]:
        """Return what the keys of the profile's sessions begin with."""
        files, layout = self._files.profile.files, self._files.profile.layout
        ids = map(layout.id_of, layout.scan(files, drafts=True))
        return {key_digest(one) for one in ids if one is not None}

    def _bring_back(self, name: str, before: bytes | None) -> None:
        """Bring the file back that was there before the move."""
        if before is None:
            self._folder.remove(name)
        else:
            self._folder.replace(name, before)


def _joined(kind: str, name: str, there: bytes, moved: bytes, reserve: Reserve) -> bytes:
    """Return the document of a place with that of the other place. Raises _OtherValues, StorageError.

    Records that come from the other place get revisions that no change has, in their order.
    """
    if there in {b"", moved}:
        return moved
    if kind != STATE:
        # A secret is bound to its file and its revision.
        raise _OtherValues
    try:
        place, other = decode_as(kind, there, name), decode_as(kind, moved, name)
    except (Damaged, NewerVersion):
        raise _OtherValues from None
    if is_open_namespace(name) and place.records:
        raise _OtherValues
    records = dict(place.records)
    more = list[tuple[int, str, Record]]()
    for key, record in other.records.items():
        found = records.get(key)
        if found is None:
            more.append((record.revision, key, record))
        elif found.value != record.value:
            raise _OtherValues
    if not more:
        return there
    first = reserve(max(place.revision, other.revision) + 1, len(more))
    for revision, (_, key, record) in enumerate(sorted(more, key=lambda one: one[0]), first):
        records[key] = structs.replace(record, revision=revision)
    return encode(Document(name, first + len(more) - 1, records))


def _parted(kind: str, name: str, data: bytes, sessions: set[str]) -> tuple[bytes, bytes]:
    """Return a namespace of the daemon's own with the records of these sessions alone, and without them.

    Either is empty without records. What cannot be read goes as a whole.
    """
    try:
        document = decode_as(kind, data, name)
    except (Damaged, NewerVersion):
        return data, b""
    there: dict[str, Record] = {}
    rest: dict[str, Record] = {}
    for key, record in document.records.items():
        (there if key.partition(".")[0] in sessions else rest)[key] = record
    if not rest:
        return data, b""
    moved = encode(Document(name, document.revision, there)) if there else b""
    return moved, encode(Document(name, document.revision, rest))


def _reserve(database: SessionDatabase) -> Reserve:
    return lambda least, count: database.reserve(REVISIONS, least, count)


def _has_other_values(namespace: str, where: str) -> StorageError:
    text = f"{where} has other values in the namespace {namespace}, which stay as they are"
    return StorageError(text, errno="EEXIST", path=namespace, retryable=False)
