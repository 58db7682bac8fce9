"""For N = 1, 2, … the Nth call of a creation, an opening, a cut or a move fails."""

from __future__ import annotations

import errno
from contextlib import suppress

import pytest

from sessiond.errors import StorageError
from sessiond.journal.journal import Journal
from sessiond.testing.disk import FaultDisk
from tests.crash.harness.journal_faults import (
    BATCH,
    CALLS_MAX,
    MOVED,
    STORED,
    every_fault,
    found_after,
    new_disk,
    without_unsynced_lines,
)
from tests.kit.journals import FILE, LOCKS, lines_of, opened, text

pytestmark = pytest.mark.platform


def append_behind_the_tail(journal: Journal) -> None:
    journal.append(BATCH, sync=True)


# -- create, open, tail, move --------------------------------------------------------------


@pytest.mark.parametrize("partial", [0, 4])
def test_a_creation_that_fails_leaves_nothing_and_one_that_works_is_durable(partial: int) -> None:
    for nth in range(1, CALLS_MAX):
        disk = new_disk()
        fault = disk.fail(None, nth=nth, errno=errno.ENOSPC, partial=partial)
        try:
            journal = Journal.create(disk, FILE, b"\n".join(STORED), locks=LOCKS)
        except StorageError:
            disk.heal()
            assert disk.paths == []
            assert disk.open_descriptors == 0
            journal = Journal.create(disk, FILE, b"\n".join(STORED), locks=LOCKS)
        disk.heal()
        assert lines_of(journal) == STORED
        assert found_after(disk, keep=0) == (STORED, b"")
        if not fault.hit:
            break
    assert nth > 8


@pytest.mark.parametrize("keep", [0, 6, 10_000])
def test_a_crash_inside_a_creation_leaves_the_whole_file_or_none_of_its_name(keep: int) -> None:
    for nth in range(1, CALLS_MAX):
        disk = new_disk()
        fault = disk.fail(None, nth=nth)
        with suppress(StorageError):
            Journal.create(disk, FILE, b"\n".join(STORED), locks=LOCKS)
        for names in range(5):
            rebooted = disk.crash(keep=keep, names=names)
            if rebooted.exists(FILE):
                assert rebooted.content(FILE) == text(STORED)
        if not fault.hit:
            break


def test_an_opening_that_fails_changes_nothing_and_leaves_nothing_open() -> None:
    content = text(STORED) + b'{"torn'
    for nth in range(1, CALLS_MAX):
        disk = new_disk(content)
        fault = disk.fail(None, nth=nth)
        try:
            journal = opened(disk)
        except StorageError:
            disk.heal()
            assert disk.open_descriptors == 0
            journal = opened(disk)
        disk.heal()
        assert disk.content(FILE) == content
        assert lines_of(journal) == STORED
        assert journal.tail == b'{"torn'
        journal.close()
        assert disk.open_descriptors == 0
        if not fault.hit:
            break
    assert nth > 8


def test_what_is_served_after_an_opening_survives_a_power_cut() -> None:
    disk = new_disk(text(STORED))
    disk.write(disk.open_append(FILE), text(BATCH))
    assert lines_of(opened(disk)) == STORED + BATCH
    assert found_after(disk, keep=0) == (STORED + BATCH, b"")


@pytest.mark.parametrize("partial", [0, 4])
@pytest.mark.parametrize("from_seq", [None, 1])
def test_a_cut_loses_no_byte_wherever_it_stops(from_seq: int | None, partial: int) -> None:
    content = text(STORED) + b'{"torn'

    def prepare() -> tuple[FaultDisk, Journal]:
        disk = new_disk(content)
        return disk, opened(disk)

    def act(journal: Journal) -> None:
        journal.cut_tail("2026", from_seq)

    kept = STORED[:from_seq]
    for disk, journal, refused in every_fault(prepare, act, partial=partial):
        if refused:
            assert disk.crash().content(FILE) in {content, text(kept)}
            journal.close()
            journal = opened(disk)
            if journal.tail or journal.line_count > len(kept):
                act(journal)
        assert lines_of(journal) == kept
        rebooted = disk.crash()
        torn = [rebooted.content(path) for path in rebooted.paths if ".torn-" in path.name]
        assert content[len(text(kept)) :] in torn
        # A cut whose sync failed is found undone or done, with the copy there in both cases.
        assert rebooted.content(FILE) in {text(kept), content if refused else text(kept)}


@pytest.mark.parametrize("partial", [0, 1, 30])
@pytest.mark.parametrize("truncates", [True, False])
def test_an_append_behind_a_line_without_its_newline_is_whole_or_refused(
    truncates: bool, partial: int
) -> None:
    whole = [*STORED, b'{"whole":1}']

    def prepare() -> tuple[FaultDisk, Journal]:
        disk = new_disk(text(whole)[:-1])
        journal = opened(disk, truncates=truncates)
        journal.take_tail()
        assert lines_of(journal) == whole
        return disk, journal

    for disk, journal, refused in every_fault(prepare, append_behind_the_tail, partial=partial):
        stored = lines_of(journal)
        if refused:
            # The refused batch is sent again. In a file with foreign writers its stored lines stay,
            # and its half line is ended.
            assert stored[: len(whole)] == whole
            assert truncates is False or stored == whole
            if stored[-len(BATCH) :] != BATCH:
                journal.append(BATCH, sync=True, late=True)
                stored = lines_of(journal)
        assert stored[: len(whole)] == whole
        assert stored[-len(BATCH) :] == BATCH
        rest = stored[len(whole) : -len(BATCH)]
        assert all(line in BATCH or line.endswith(b" ") for line in rest)
        assert not (truncates and rest)
        assert found_after(disk, keep=0) == (stored, b"")


@pytest.mark.parametrize("partial", [0, 4])
@pytest.mark.parametrize("from_seq", [2, len(STORED)])
def test_an_append_behind_a_torn_end_cuts_it_first_and_loses_no_byte(
    from_seq: int, partial: int
) -> None:
    content = text(STORED) + b'{"torn'
    kept = STORED[:from_seq]

    def prepare() -> tuple[FaultDisk, Journal]:
        disk = new_disk(content)
        journal = opened(disk)
        journal.leave_torn(lambda: "2026", from_seq, lambda _seq, _lines: None)
        assert lines_of(journal) == kept
        return disk, journal

    for disk, journal, refused in every_fault(prepare, append_behind_the_tail, partial=partial):
        if refused:
            assert lines_of(journal) == kept
            append_behind_the_tail(journal)
        assert lines_of(journal) == kept + BATCH
        rebooted = disk.crash()
        assert rebooted.content(FILE) == text(kept + BATCH)
        torn = [rebooted.content(path) for path in rebooted.paths if ".torn-" in path.name]
        assert content[len(text(kept)) :] in torn


def test_a_move_that_fails_can_be_repeated_and_never_loses_the_file() -> None:
    def prepare() -> tuple[FaultDisk, Journal]:
        return without_unsynced_lines()

    for disk, journal, refused in every_fault(prepare, lambda journal: journal.move(MOVED)):
        for names in range(4):
            rebooted = disk.crash(names=names)
            assert rebooted.exists(FILE) != rebooted.exists(MOVED)
        journal.append(BATCH, sync=True)
        assert disk.content(journal.path) == text(STORED + BATCH)
        journal.move(MOVED)
        assert journal.path == MOVED
        rebooted = disk.crash()
        assert not rebooted.exists(FILE)
        assert rebooted.content(MOVED) == text(STORED + BATCH)
        assert refused in {True, False}


def test_a_close_that_fails_has_let_go_all_the_same() -> None:
    def prepare() -> tuple[FaultDisk, Journal]:
        return without_unsynced_lines()

    for disk, _journal, refused in every_fault(prepare, lambda journal: journal.close()):
        assert not refused
        assert disk.open_descriptors == 0
        opened(disk).close()
