"""A move is interrupted, other daemons go on where the copies are, and the next move goes by what they did."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from sessiond.errors import SessionExists
from sessiond.journal.disk.files import Files
from sessiond.service.database.database import SessionDatabase
from sessiond.testing.database import MemoryDatabase
from sessiond.testing.wire import Wire
from tests.kit.calls import append
from tests.service.test_moving import PLACED, EndingBefore, Town, at, go_on, interrupt, store_one


def delete(database: SessionDatabase) -> None:
    """Delete the session as another daemon does."""
    head = database.find(PLACED)
    assert head is not None
    assert database.delete(head) is not None


def purge(database: SessionDatabase) -> None:
    delete(database)
    assert database.purge(PLACED) == 1


def interrupt_before_the_delete(town: Town) -> None:
    """Begin a move to files, and be killed once the file of the session is there."""
    town.move_until_killed(EndingBefore(town.place), back=True)
    assert town.layout.find(Files(), PLACED) is not None


@pytest.mark.parametrize("end", [delete, purge])
def test_a_session_that_was_purged_behind_a_move_to_the_database_stays_deleted(
    town: Town, end: Callable[[SessionDatabase], None]
) -> None:
    at(town, store_one)
    bytes_before = town.file(PLACED)
    interrupt(town, "create")
    end(town.database)
    assert town.move() == {PLACED: None}
    assert town.database.find(PLACED) is None
    assert town.layout.find(Files(), PLACED) is None
    assert not town.remarks[PLACED].is_moved
    assert f"sessiond restore {PLACED}" in town.remarks[PLACED].message
    (kept,) = town.layout.trash.iterdir()
    assert kept.read_bytes() == bytes_before


def test_a_file_that_went_on_behind_a_move_moves_though_its_copy_was_purged(town: Town) -> None:
    async def go_on_in_the_file(wire: Wire) -> None:
        await append(wire, "e-2", session_id=PLACED)

    at(town, store_one)
    interrupt(town, "create")
    purge(town.database)
    at(town, go_on_in_the_file)
    assert town.move() == {PLACED: None}
    assert town.database.find(PLACED) is not None


@pytest.mark.parametrize("end", [delete, purge])
def test_a_session_that_was_deleted_behind_a_move_to_files_stays_deleted(
    town: Town, end: Callable[[SessionDatabase], None]
) -> None:
    at(town, store_one)
    town.move()
    layout = town.layout
    trash_before = [layout.trashed_id(path) for path in sorted(layout.trash.iterdir())]
    interrupt_before_the_delete(town)
    end(town.database)
    assert town.move(back=True) == {PLACED: None}
    assert town.layout.find(Files(), PLACED) is None
    trash = [layout.trashed_id(path) for path in sorted(layout.trash.iterdir())]
    assert trash == [*trash_before, PLACED]
    assert not town.remarks[PLACED].is_moved
    assert f"sessiond restore {PLACED}" in town.remarks[PLACED].message
    assert town.move(back=True) == {}


def test_a_move_to_files_that_ended_behind_its_delete_keeps_the_session(town: Town) -> None:
    at(town, store_one)
    town.move()
    bytes_before = town.lines(PLACED)
    interrupt(town, "delete", back=True)
    assert town.move(back=True) == {PLACED: None}
    assert town.file(PLACED) == b"".join(line + b"\n" for line in bytes_before)
    assert town.move(back=True) == {}


def test_a_file_that_went_on_behind_a_move_to_files_stays(town: Town) -> None:
    async def go_on_in_the_file(wire: Wire) -> None:
        await append(wire, "e-2", session_id=PLACED)

    at(town, store_one)
    town.move()
    interrupt_before_the_delete(town)
    at(town, go_on_in_the_file)
    bytes_before = town.file(PLACED)
    delete(town.database)
    town.move(back=True)
    assert town.file(PLACED) == bytes_before
    assert town.remarks[PLACED].message.endswith("and stays")
    assert town.move(back=True) == {}


def test_a_move_says_that_the_file_and_the_session_of_a_move_are_both_gone(town: Town) -> None:
    async def delete_the_file(wire: Wire) -> None:
        await wire.call("session/delete", session_id=PLACED)

    at(town, store_one)
    town.move()
    interrupt_before_the_delete(town)
    at(town, delete_the_file)
    delete(town.database)
    assert town.move(back=True) == {PLACED: None}
    assert not town.remarks[PLACED].is_moved
    assert town.move(back=True) == {}


def test_a_session_of_a_finished_move_is_no_left_over(town: Town) -> None:
    """Another session gets the id behind a move that ended right behind its delete."""

    at(town, store_one)
    town.move()
    interrupt(town, "delete", back=True)
    bytes_before = town.file(PLACED)
    town.database.create(PLACED, "epoch-9", [[b'{"type":"session_header"}']], "placed")
    assert isinstance(town.move(back=True)[PLACED], SessionExists)
    assert town.file(PLACED) == bytes_before


def test_a_session_that_was_repaired_behind_a_move_to_files_comes_repaired(town: Town) -> None:
    at(town, store_one)
    town.move()
    interrupt_before_the_delete(town)
    # As another daemon repairs the session.
    head = town.database.find(PLACED)
    assert head is not None
    header = next(town.database.pieces(head.number, 0, 0)).rstrip(b"\n")
    assert town.database.replace(head, "another-epoch", [[header]]) is not None
    lines = town.lines(PLACED)
    assert town.move(back=True) == {PLACED: None}
    assert town.file(PLACED) == b"".join(line + b"\n" for line in lines)


def test_a_session_that_came_back_behind_a_move_to_files_is_in_one_place(town: Town) -> None:
    at(town, store_one)
    town.move()
    interrupt_before_the_delete(town)
    delete(town.database)
    deleted = town.database.newest_trashed(PLACED)
    assert deleted is not None
    assert town.database.restore(deleted) is not None
    lines = go_on(town, PLACED)
    assert town.move(back=True) == {PLACED: None}
    assert town.file(PLACED) == b"".join(line + b"\n" for line in lines)


def test_a_note_of_a_move_out_of_another_database_decides_nothing(town: Town) -> None:
    at(town, store_one)
    town.move()
    interrupt_before_the_delete(town)
    bytes_before = town.file(PLACED)
    town.database.close()
    town.place = MemoryDatabase(time.time_ns)
    town.database = town.place.connection()
    other = town.database.create("another-session", "epoch-1", [[b"{}"]], "placed")
    assert other is not None
    deleted = town.database.delete(other)
    assert deleted is not None
    assert town.move(back=True) == {PLACED: None}
    assert town.file(PLACED) == bytes_before
    assert town.remarks[PLACED].message.endswith("its file stays")
    (row,) = town.database.heads([other.number])
    assert row.version == deleted.version
    assert town.move(back=True) == {}


def test_a_session_of_another_epoch_that_was_deleted_behind_a_move_keeps_its_file(
    town: Town,
) -> None:
    at(town, store_one)
    town.move()
    interrupt_before_the_delete(town)
    bytes_before = town.file(PLACED)
    head = town.database.find(PLACED)
    assert head is not None
    assert town.database.renew(head, "another-epoch", head.digest) is not None
    delete(town.database)
    assert town.move(back=True) == {PLACED: None}
    assert town.file(PLACED) == bytes_before
    assert town.remarks[PLACED].message.endswith("its file stays")
