"""The documents of states and secrets on PostgreSQL: a row for each namespace."""

from __future__ import annotations

from contextlib import suppress

from sessiond.limits import DATABASE_LOOK_SECONDS
from sessiond.postgresql.asking import Asking
from sessiond.service.database.database import NO_TOKEN, StoredDocument


class DocumentTable(Asking):
    """The documents of one schema. Safe in any thread; each method raises StorageError."""

    def document_tokens(self, kind: str) -> dict[str, bytes]:
        """Return the tokens of all documents of a kind, by namespace; one that is no text is left out."""
        rows = self._asked(
            "list documents",
            lambda each: each.execute(
                "SELECT namespace, token FROM documents WHERE kind = %s", [kind]
            ).fetchall(),
            patience=DATABASE_LOOK_SECONDS,
        )
        found: dict[str, bytes] = {}
        for namespace, token in rows:
            # A person may have put other bytes there.
            with suppress(UnicodeDecodeError):
                found[bytes(namespace).decode()] = bytes(token)
        return found

    def document(self, kind: str, namespace: str, unless: bytes) -> StoredDocument | None:
        """Return a document; None if the document has the token `unless`."""
        row = self._asked(
            "read a document",
            lambda each: each.execute(
                "SELECT token, CASE WHEN token <> %s THEN data ELSE '' END FROM documents"
                " WHERE kind = %s AND namespace = %s",
                [unless, kind, namespace.encode()],
                binary=True,
            ).fetchone(),
            patience=DATABASE_LOOK_SECONDS,
        )
        token, data = (NO_TOKEN, b"") if row is None else row
        return None if token == unless else StoredDocument(bytes(token), bytes(data))

    def put_document(self, kind: str, namespace: str, at: bytes, token: bytes, data: bytes) -> bool:
        """Replace a document that has the token `at`; return whether the document had it."""
        values = {
            "kind": kind,
            "namespace": namespace.encode(),
            "at": at,
            "token": token,
            "data": data,
        }
        statement = (
            "INSERT INTO documents VALUES (%(kind)s, %(namespace)s, %(token)s, %(data)s)"
            " ON CONFLICT DO NOTHING RETURNING true"
            if at == NO_TOKEN
            else "UPDATE documents SET token = %(token)s, data = %(data)s WHERE kind = %(kind)s"
            " AND namespace = %(namespace)s AND token = %(at)s RETURNING true"
        )
        with self._changing("write a document") as connection:
            return connection.execute(statement, values).fetchone() is not None

    def fence_document(self, kind: str, namespace: str, token: bytes) -> bytes:
        """Give a document another token, and return its data."""
        with self._changing("settle a document") as connection:
            row = connection.execute(
                "INSERT INTO documents VALUES (%s, %s, %s, '') ON CONFLICT (kind, namespace)"
                " DO UPDATE SET token = excluded.token RETURNING data",
                [kind, namespace.encode(), token],
            ).fetchone()
        assert row is not None, "an insert or update returns its row"
        return bytes(row[0])
