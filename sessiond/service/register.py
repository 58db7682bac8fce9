"""What is remembered of session files between openings: their epoch and what lists show.

The catalog behind it is never the truth. What it cannot say costs a look at the
file, and a new epoch; what it cannot note costs the same later.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from sessiond.catalog.catalog import Catalog, Fingerprint, KnownSession
from sessiond.errors import StorageError
from sessiond.journal.files import Files
from sessiond.journal.journal import Journal
from sessiond.service.opened import Opened, SessionInfo

__all__ = ["Register"]

_info_decoder: Final = msgspec.json.Decoder(SessionInfo)


class Register:
    """The catalog in terms of sessions."""

    def __init__(self, catalog: Catalog, files: Files, new_epoch: Callable[[], str]) -> None:
        self._catalog = catalog
        self._files = files
        self._new_epoch = new_epoch

    def close(self) -> None:
        """Close the catalog."""
        self._catalog.close()

    def known(self, session_id: str) -> KnownSession | None:
        """What was noted of a session."""
        with suppress(sqlite3.Error):
            return self._catalog.get(session_id)
        return None

    def by_path(self) -> dict[str, KnownSession]:
        """Everything that was noted, by file."""
        with suppress(sqlite3.Error):
            return {row.path: row for row in self._catalog.all()}
        return {}

    def epoch(self, session_id: str, journal: Journal) -> str:
        """The epoch the file was last seen under, if what was seen is still there."""
        known = self.known(session_id)
        if known is not None and known.seen_seq < journal.line_count:
            (line,) = journal.read(known.seen_seq, known.seen_seq)
            if _digest(line) == known.seen_digest:
                return known.epoch
        return self._new_epoch()

    def place(self, session_id: str, path: Path) -> None:
        """Note where a session's file is; the rest is noted when it is opened."""
        if self.known(session_id) is None:
            nothing = Fingerprint(0, 0, 0)
            row = KnownSession(session_id, str(path), self._new_epoch(), 0, "", nothing, b"")
            with suppress(sqlite3.Error):
                self._catalog.put(row)

    def note(self, opened: Opened) -> None:
        """Note a session's file, its epoch and what lists show of it."""
        journal = opened.journal
        if not isinstance(journal, Journal):
            return
        # The file may be gone, or the disk full: neither is this call's to tell.
        with suppress(sqlite3.Error, StorageError, OSError):
            last = journal.line_count - 1
            (line,) = journal.read(last, last)
            self._catalog.put(
                KnownSession(
                    opened.session_id,
                    str(journal.path),
                    opened.epoch,
                    last,
                    _digest(line),
                    self._fingerprint(journal.path),
                    msgspec.json.encode(opened.info()),
                )
            )

    def forget(self, session_id: str) -> None:
        """Note that a session is gone."""
        with suppress(sqlite3.Error):
            self._catalog.forget(session_id)

    def renew(self, session_id: str, path: Path) -> None:
        """Note that the file will be another one: it gets a new epoch. Raises StorageError."""
        nothing = Fingerprint(0, 0, 0)
        row = KnownSession(session_id, str(path), self._new_epoch(), 0, "", nothing, b"")
        try:
            self._catalog.put(row)
        except sqlite3.Error as error:
            raise StorageError(
                f"could not note a new epoch: {error}", errno="EIO", path=str(path)
            ) from error

    def unchanged(self, row: KnownSession | None, path: Path) -> SessionInfo | None:
        """What lists showed of a file, if it is still the same file. Raises OSError."""
        mark = self._fingerprint(path)
        if row is None or row.fingerprint != mark:
            return None
        # A row of another version of this program is no help.
        with suppress(msgspec.DecodeError):
            return _info_decoder.decode(row.info)
        return None

    def _fingerprint(self, path: Path) -> Fingerprint:
        found = self._files.stat(path)
        return Fingerprint(found.st_ino, found.st_size, found.st_mtime_ns)


def _digest(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()
