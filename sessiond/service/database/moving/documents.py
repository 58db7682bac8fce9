"""The way of a profile's states and secrets from files into a database, and back. Blocking.

Law 1: as in `moving`. Law 2: the daemon's own namespaces have records of sessions, and each key begins
with the digest of its session's id. So the records of two places join, as the sessions do, and those of
a session that stays in the database, be it in its trash, stay there.
"""

from __future__ import annotations

from typing import Final

from sessiond.model.digests import key_digest
from sessiond.model.ids import is_open_namespace
from sessiond.service.database.database import NO_TOKEN, SessionDatabase, StoredDocument
from sessiond.service.database.documents import REVISIONS, new_token
from sessiond.service.database.moving.joining import (
    Keep,
    OtherValues,
    has_other_values,
    joined,
    parted,
)
from sessiond.service.database.moving.way import Remark, was_changed
from sessiond.service.files.store import FileStore
from sessiond.visible import printable

_NOTHING: Final = StoredDocument(NO_TOKEN, b"")


class _Documents:
    """Namespaces of one kind in two places, each of which has values of its own or none."""

    def __init__(
        self, database: SessionDatabase, files: FileStore, kind: str, keep: Keep | None = None
    ) -> None:
        """Take the side whose values stay where those of the two differ; without one, both stay."""
        self._database = database
        self._files = files
        self._folder = files.raw_documents(kind)
        self._kind = kind
        self._keep: Keep | None = keep

    def _joined(
        self, name: str, there: bytes, moved: bytes, where: str
    ) -> tuple[bytes, Remark | None]:
        """Return the document that the target is to have, and what is to be said of values that do not stay.

        `where` names the target. Raises StorageError.
        """

        def reserve(least: int, count: int) -> int:
            return self._database.reserve(REVISIONS, least, count)

        try:
            data, lost = joined(self._kind, name, there, moved, reserve, self._keep)
        except OtherValues as others:
            raise has_other_values(name, where, others) from None
        if not lost:
            return data, None
        aside = printable(self._folder.keep_aside(name, lost))
        return data, Remark(f"the values that were not kept are in {aside}", is_moved=True)


class DocumentsIn(_Documents):
    """Namespaces of one kind from the profile's files into a database; the files are removed."""

    def names(self) -> list[str]:
        """Return the namespaces that have a file."""
        return self._folder.namespaces()

    def move(self, name: str) -> Remark | None:
        """Move a namespace; what is encrypted stays encrypted.

        Raises StorageError, retryable, if another daemon has changed the namespace.
        """
        data = self._folder.load(name)
        if data is None:
            return None
        there = self._document(name)
        wanted, remark = self._joined(name, there.data, data, "the database")
        if wanted != there.data:
            token = new_token()
            if not self._database.put_document(self._kind, name, there.token, token, wanted):
                raise was_changed(name)
            stored = self._document(name)
            # A daemon that has written since has gone on from what was there.
            if stored.data != wanted and stored.token in {token, NO_TOKEN}:
                raise was_changed(name)
        self._folder.remove(name)
        return remark

    def _document(self, name: str) -> StoredDocument:
        return self._database.document(self._kind, name, NO_TOKEN) or _NOTHING


class DocumentsOut(_Documents):
    """Namespaces of one kind from a database into the profile's files; the rows are emptied."""

    def names(self) -> list[str]:
        """Return the namespaces that have values."""
        tokens = self._database.document_tokens(self._kind)
        found = ((name, self._database.document(self._kind, name, NO_TOKEN)) for name in tokens)
        return sorted(name for name, document in found if document is not None and document.data)

    def move(self, name: str) -> Remark | None:
        """Move a namespace. Raises StorageError, retryable, if another daemon has changed the namespace."""
        # The write of an earlier move may still be under way, and takes no effect behind this.
        at = new_token()
        data = self._database.fence_document(self._kind, name, at)
        if not data:
            return None
        moved, rest = data, b""
        if not is_open_namespace(name):
            moved, rest = parted(self._kind, name, data, self._sessions())
        if not moved:
            return None
        before = self._folder.load(name)
        wanted, remark = self._joined(name, before or b"", moved, "the profile")
        if wanted != before:
            self._folder.replace(name, wanted)
        if self._folder.load(name) != wanted:
            raise has_other_values(name, "the profile", OtherValues([]))
        if not self._database.put_document(self._kind, name, at, new_token(), rest):
            self._bring_back(name, None if before == moved else before)
            raise was_changed(name)
        return remark

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
