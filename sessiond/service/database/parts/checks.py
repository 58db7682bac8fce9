"""Checks and repairs of the sessions of a store: those of the database, and those of files. Blocking."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from sessiond.service.database.checking import DatabaseChecks
from sessiond.service.database.database import Head, SessionDatabase
from sessiond.service.database.doorbell import Doorbell
from sessiond.service.database.log import DatabaseLog
from sessiond.service.database.refusals import naming_what_is_there, outpaced
from sessiond.service.files.store import FileStore
from sessiond.service.log.open_session import OpenSession
from sessiond.service.ports import Progress
from sessiond.service.store.checks import Repair, Verification

_TRIES: Final = 100

Outcome = TypeVar("Outcome")


class StoreChecks:
    """Checks of the sessions of one database, and of a profile's files: the port `Checks`."""

    def __init__(self, database: SessionDatabase, files: FileStore, doorbell: Doorbell) -> None:
        profile = files.profile
        self._database = database
        self._files = files
        self._doorbell = doorbell
        self._new_epoch = profile.environment.new_epoch
        self._checks = DatabaseChecks(database, profile.files, profile.layout.pending)

    def verify(
        self, session_id: str, opened: OpenSession | None, progress: Progress
    ) -> Verification:
        """Return the problems of a session's lines. Raises SessionNotFound, StorageError."""
        found = self._tried(
            "check", session_id, opened, lambda head: self._checks.verify(head, progress)
        )
        if found is not None:
            return found
        with naming_what_is_there(self._database):
            return self._files.verify(session_id, _of_files(opened), progress)

    def plan_repair(
        self, session_id: str, opened: OpenSession | None, *, dry_run: bool, progress: Progress
    ) -> Repair:
        """Return what a repair would do."""
        found = self._tried(
            "check",
            session_id,
            opened,
            lambda head: self._checks.plan(head, dry_run=dry_run, progress=progress),
        )
        if found is not None:
            return found
        with naming_what_is_there(self._database):
            return self._files.plan_repair(
                session_id, _of_files(opened), dry_run=dry_run, progress=progress
            )

    def _tried(
        self,
        doing: str,
        session_id: str,
        opened: OpenSession | None,
        act: Callable[[Head], Outcome | None],
    ) -> Outcome | None:
        """Return the outcome of an act on a session's row; None for no session of the database.

        The act returns None where another daemon has changed the row meanwhile.
        """
        if opened is not None and not isinstance(opened.journal, DatabaseLog):
            return None
        for _ in range(_TRIES):
            head = self._database.find(session_id)
            outcome = None if head is None else act(head)
            if head is None or outcome is not None:
                return outcome
        raise outpaced(doing, Path(session_id))

    def repair(self, session_id: str) -> Repair:
        """Store a session anew without its bad lines, under a new epoch."""
        done = self._tried("repair", session_id, None, self._repaired)
        if done is not None:
            return done
        with naming_what_is_there(self._database):
            return self._files.repair(session_id)

    def _repaired(self, head: Head) -> Repair | None:
        done = self._checks.repair(head, self._new_epoch())
        if done is not None:
            self._doorbell.ring(head.number)
        return done


def _of_files(opened: OpenSession | None) -> OpenSession | None:
    """Return an open session unless the database has, or had, the session."""
    return None if opened is None or isinstance(opened.journal, DatabaseLog) else opened
