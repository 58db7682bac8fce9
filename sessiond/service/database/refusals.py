"""Refusals: of unknown ids, and of work on a session that its database does not do."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from sessiond.errors import SessionCorrupt, SessionNotFound, StorageError
from sessiond.limits import AVAILABLE_IDS_MAX
from sessiond.service.database.database import Head, SessionDatabase
from sessiond.visible import counted


@contextmanager
def naming_what_is_there(database: SessionDatabase) -> Generator[None]:
    """Name sessions of the database too where no file of an id is found."""
    try:
        yield
    except SessionNotFound as error:
        facts = error.data()
        there = [*database.ids(AVAILABLE_IDS_MAX), *facts.get("available", ())]
        raise SessionNotFound(
            error.message,
            session_id=facts["session_id"],
            available=there[:AVAILABLE_IDS_MAX],
        ) from None


@contextmanager
def asking_for_session_id() -> Generator[None]:
    """Say how a client does without a search through the lines of all sessions, if the search fails."""
    try:
        yield
    except StorageError as error:
        facts = error.data()
        text = f"{error.message}; a call with session_id needs no search through all lines"
        raise StorageError(
            text, errno=facts["errno"], path=facts["path"], retryable=facts["retryable"]
        ) from None


def could_not(doing: str, name: Path, why: str, errno: str) -> StorageError:
    """Return the refusal of work on a session that its database does not do."""
    text = f"could not {doing} {name}: {why}"
    return StorageError(text, errno=errno, path=str(name), retryable=errno == "EBUSY")


def outpaced(doing: str, name: Path) -> StorageError:
    """Return the refusal of work on a session that met a change by another daemon each time."""
    return could_not(doing, name, "other daemons were faster each time", "EBUSY")


def refuse_missing_lines(database: SessionDatabase, head: Head, there: int) -> None:
    """Raise SessionCorrupt for a session of which the database has another number of lines.

    Does nothing if the row has changed since, as a purge leaves no lines. Raises StorageError.
    """
    # None is left of a row that was removed.
    now = [(one.version, one.seq) for one in database.heads([head.number])]
    if now != [(head.version, head.seq)]:
        return
    expected = head.seq + 1
    if there < expected:
        text = f"the database has {there} of {counted(expected, 'line')}: bring the other lines back from a backup"
    else:
        text = (
            f"the row's seq, {head.seq}, does not count the lines that are there: correct the row, or"
            " bring the session back from a backup"
        )
    raise SessionCorrupt(
        f"{head.session_id}: {text}", path=head.session_id, line=there + 1, repairable=False
    )
