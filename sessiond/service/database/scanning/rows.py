"""Rows of the catalog for sessions of a database.

A catalog knows a session by a path, and a session of a database has none: it gets a path that no file
can have. The mark of its epoch has the digest of all lines.
"""

from __future__ import annotations

from typing import Final

from msgspec import structs

from sessiond.catalog.rows import Fingerprint, Mark, Stored
from sessiond.model.digests import sha256_hex
from sessiond.service.database.database import Head
from sessiond.service.database.log import DatabaseLog
from sessiond.service.files.catalog_records import row_of
from sessiond.service.store.listed import Snapshot

IN_DATABASE: Final = "database:"
"""Folder of the paths, for queries of the catalog."""


def is_in_database(path: str) -> bool:
    """Return whether a path of the catalog is that of a session in a database."""
    return path.startswith(f"{IN_DATABASE}/")


def is_at(mark: Mark, head: Head) -> bool:
    """Return whether a mark was made at the position of a row."""
    return (mark.epoch, mark.seen_seq, digest_in(mark)) == (
        head.epoch,
        head.seq,
        head.digest.hex(),
    )


def digest_in(mark: Mark) -> str:
    """Return the digest of all lines that a mark was made at, in hexadecimal digits."""
    return mark.seen_digest.rpartition(" ")[2]


def row_in_database(seen: Snapshot, log: DatabaseLog) -> Stored:
    """Return the row of an open session whose lines are those of the log. Raises StorageError."""
    opened, head = seen.opened, seen.position
    assert isinstance(head, Head), "a log of the database is at a row"
    (line,) = log.read(head.seq, head.seq)
    mark = Mark(head.epoch, head.seq, f"{sha256_hex(line)} {head.digest.hex()}")
    written = Fingerprint(0, head.size, head.written_ns)
    row = row_of(opened.with_state(seen.info), mark, written, has_assistant=seen.has_assistant)
    facts = structs.replace(row.facts, draft=not seen.info.persisted)
    return structs.replace(row, path=f"{IN_DATABASE}/{opened.session_id}", facts=facts)
