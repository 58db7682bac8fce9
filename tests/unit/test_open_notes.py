"""Notes of the sessions that a daemon has open, between openings and polls."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from msgspec import structs

from sessiond.service.database.database import NO_LINES, Head
from sessiond.service.database.open_notes import OpenNotes

OLD = Head(
    7,
    "session-a",
    "epoch",
    0,
    NO_LINES,
    0,
    "placed",
    is_deleted=False,
    written_ns=0,
    version=0,
    leases=b"",
    now_ns=3600 * 10**9,
)


class Database:
    """A database with one session, which keeps the last note."""

    def __init__(self) -> None:
        self.noted: set[int] = set()

    def find(self, _session_id: str) -> Head:
        return structs.replace(OLD)

    def beat(self, _daemon: str, open_numbers: Collection[int]) -> None:
        self.noted = set(open_numbers)


def test_a_session_that_is_opened_again_stays_in_a_note_that_comes_meanwhile() -> None:
    database: Any = Database()
    open_numbers = {7}
    notes = OpenNotes(database, "one", lambda: open_numbers)
    notes.write()
    # The session was closed, and the last note still names the session.
    open_numbers.clear()
    notes.find("session-a")
    notes.write()
    assert database.noted == {7}
    notes.opened(7)
    notes.write()
    assert database.noted == set()
