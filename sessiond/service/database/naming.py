"""Refusals of unknown ids, which name the sessions of the database too."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from sessiond.errors import SessionNotFound
from sessiond.limits import AVAILABLE_IDS_MAX
from sessiond.service.database.database import SessionDatabase

__all__ = ["naming_what_is_there"]


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
