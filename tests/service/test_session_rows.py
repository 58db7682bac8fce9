"""Rows of sessions, as every `SessionDatabase` has them: what a change finds, leaves and refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
from msgspec import structs

from sessiond.journal.splitter import whole_lines
from sessiond.service.database.database import Head, SessionDatabase, chained

ID: Final = "a-session"
HEADER: Final = b'{"type":"session"}'
LEASES: Final = b"[1]"

Change = Callable[[SessionDatabase, Head], Any]


def made(database: SessionDatabase, epoch: str = "epoch-1") -> Head:
    head = database.create(ID, epoch, [[HEADER], [b"one", b"two"]], "placed", LEASES)
    assert head is not None
    return head


def row(database: SessionDatabase, number: int) -> Head:
    """Return a row as it is now, without what a look adds."""
    (head,) = database.heads([number])
    return as_stored(head)


def as_stored(head: Head) -> Head:
    return structs.replace(head, now_ns=0, senders=None)


def append(database: SessionDatabase, at: Head) -> Head | None:
    return database.append(at, [b"more"], chained(at.digest, [b"more"]), sync=True)


CHANGES: Final[dict[str, Change]] = {
    "append": append,
    "lease": lambda database, at: database.lease(at, b"[2]"),
    "move": lambda database, at: database.move(at, "archived"),
    "renew": lambda database, at: database.renew(at, "epoch-2", at.digest),
    "replace": lambda database, at: database.replace(at, "epoch-2", [[HEADER]]),
    "delete": lambda database, at: database.delete(at),
    "delete-there": lambda database, at: database.delete(at, unless_appended=True),
    "restore": lambda database, at: database.restore(at),
}
AT_A_POSITION: Final = ("append", "renew", "replace", "delete-there")
"""Changes that take effect only at the position, and under the version, that they name."""
OF_SESSIONS: Final = tuple(name for name in CHANGES if name != "restore")
"""Changes of sessions that are not deleted."""


def test_a_session_has_its_lines_and_its_row(database: SessionDatabase) -> None:
    head = made(database)
    lines = [HEADER, b"one", b"two"]
    assert whole_lines(b"".join(database.pieces(head.number, 0, 9))) == lines
    assert (head.session_id, head.epoch, head.place) == (ID, "epoch-1", "placed")
    assert (head.seq, head.digest, head.leases) == (2, chained(b"", lines), LEASES)
    assert head.size == sum(map(len, lines)) + len(lines)
    assert row(database, head.number) == as_stored(head)
    found = database.find(ID)
    assert found is not None
    assert as_stored(found) == as_stored(head)


def test_an_id_is_free_once_its_session_is_deleted(database: SessionDatabase) -> None:
    head = made(database)
    assert database.create(ID, "epoch-2", [[HEADER]], "draft") is None
    assert database.delete(head) is not None
    assert made(database, "epoch-2").number != head.number


@pytest.mark.parametrize("name", CHANGES)
def test_no_change_finds_a_number_that_no_session_has(database: SessionDatabase, name: str) -> None:
    head = made(database)
    unknown = structs.replace(head, number=head.number + 1)
    assert CHANGES[name](database, unknown) is None
    assert database.fence(unknown.number) is None
    assert database.hold(unknown) is None
    assert database.heads([unknown.number]) == []
    assert list(database.pieces(unknown.number, 0, 9)) == []
    assert row(database, head.number) == as_stored(head)


@pytest.mark.parametrize("name", OF_SESSIONS)
def test_a_deleted_session_is_changed_by_a_restore_alone(
    database: SessionDatabase, name: str
) -> None:
    deleted = database.delete(made(database))
    assert deleted is not None
    assert (deleted.is_deleted, deleted.leases) == (True, b"")
    assert CHANGES[name](database, deleted) is None
    assert row(database, deleted.number) == as_stored(deleted)
    restored = database.restore(deleted)
    assert restored is not None
    assert (restored.is_deleted, restored.place, restored.leases) == (False, "placed", b"")


@pytest.mark.parametrize("name", AT_A_POSITION)
@pytest.mark.parametrize(
    "change",
    [
        lambda database, head: append(database, head),
        lambda database, head: database.fence(head.number),
        lambda database, head: database.lease(head, b""),
        lambda database, head: database.move(head, "placed"),
        lambda database, head: database.renew(head, "epoch-3", head.digest),
    ],
    ids=["appended", "fenced", "leased", "moved", "renewed"],
)
def test_a_change_at_a_position_meets_no_other_change(
    database: SessionDatabase, name: str, change: Change
) -> None:
    head = made(database)
    there = change(database, head)
    assert there is not None
    assert CHANGES[name](database, head) is None
    assert row(database, head.number) == as_stored(there)
    assert CHANGES[name](database, there) is not None


def test_a_change_under_another_version_changes_nothing(database: SessionDatabase) -> None:
    head = made(database)
    archived = database.move(head, "archived")
    assert archived is not None
    assert database.move(head, "placed") is None
    assert database.delete(head) is None
    assert row(database, archived.number) == as_stored(archived)
    deleted = database.delete(archived)
    assert deleted is not None
    restored = database.restore(deleted)
    assert restored is not None
    again = database.delete(restored)
    assert again is not None
    assert database.restore(deleted) is None
    assert row(database, again.number) == as_stored(again)


def test_a_delete_takes_what_was_appended_meanwhile(database: SessionDatabase) -> None:
    head = made(database)
    said = append(database, head)
    assert said is not None
    assert database.delete(head, unless_appended=True) is None
    deleted = database.delete(head)
    assert deleted is not None
    assert deleted.seq == said.seq


@pytest.mark.parametrize("name", ["lease", "move", "renew", "delete", "delete-there"])
def test_each_change_but_an_append_counts_the_version_up(
    database: SessionDatabase, name: str
) -> None:
    head = made(database)
    changed = CHANGES[name](database, head)
    assert (changed.version, changed.seq) == (head.version + 1, head.seq)
    fenced = database.fence(head.number)
    assert fenced is not None
    assert fenced.version == head.version + 2


def test_leases_stay_over_an_append_and_a_move_and_end_with_the_epoch(
    database: SessionDatabase,
) -> None:
    head = append(database, made(database))
    assert head is not None
    moved = database.move(head, "archived")
    assert moved is not None
    assert moved.leases == LEASES
    renewed = database.renew(moved, "epoch-2", moved.digest)
    assert renewed is not None
    assert (renewed.epoch, renewed.leases) == ("epoch-2", b"")
    leased = database.lease(renewed, LEASES)
    assert leased is not None
    replaced = database.replace(leased, "epoch-3", [[HEADER]])
    assert replaced is not None
    assert (replaced.place, replaced.leases) == ("archived", b"")
    assert row(database, head.number).leases == b""


def test_a_session_is_moved_under_the_epoch_that_its_daemon_knows(
    database: SessionDatabase,
) -> None:
    known = made(database)
    said = append(database, known)
    assert said is not None
    archived = database.move(known, "archived")
    assert archived is not None
    assert (archived.place, archived.seq) == ("archived", said.seq)
    renewed = database.renew(archived, "epoch-2", archived.digest)
    assert renewed is not None
    assert database.move(known, "placed") is None
    assert row(database, known.number) == as_stored(renewed)


def test_a_delete_gives_the_session_an_epoch_that_outlives_a_purge(
    database: SessionDatabase,
) -> None:
    first = made(database)
    assert database.delete(first, unless_appended=True, epoch="epoch-9") is not None
    assert row(database, first.number).epoch == "epoch-9"
    assert database.purge(ID) == 1
    purged = row(database, first.number)
    assert (purged.epoch, purged.session_id, purged.is_deleted) == ("epoch-9", ID, True)
    second = made(database)
    assert database.delete(second) is not None
    assert row(database, second.number).epoch == second.epoch


def test_a_session_is_restored_from_the_trash_unless_its_id_is_taken(
    database: SessionDatabase,
) -> None:
    first = made(database)
    assert database.restore(row(database, first.number)) is None
    second = database.replace(first, "epoch-2", [[HEADER]])
    assert second is not None
    assert database.restore(row(database, first.number)) is None
    assert database.delete(second) is not None
    newest = database.newest_trashed(ID)
    assert newest is not None
    assert newest.number == second.number
    assert [one.head.number for one in database.trashed(1, None)] == [second.number]
    assert [one.head.number for one in database.trashed(9, second.number)] == [first.number]
    assert database.restore(row(database, first.number)) is not None
    assert database.purge(ID) == 1
    assert database.restore(row(database, second.number)) is None
    assert database.newest_trashed(ID) is None
    assert database.purge(ID) == 0
