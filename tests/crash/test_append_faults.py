"""For N = 1, 2, … the Nth call of an append to a file of ours fails."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from sessiond.errors import StorageError
from sessiond.journal.journal import Journal
from sessiond.journal.store import Replaced
from sessiond.testing.disk import FaultDisk
from tests.crash.harness.journal_faults import (
    BATCH,
    CALLS_MAX,
    MOVED,
    PARTIAL,
    STORED,
    UNSYNCED,
    every_fault,
    found_after,
    found_in,
    with_unsynced_lines,
    without_unsynced_lines,
)
from tests.kit.journals import FILE, FOLDER, LOCKS, lines_of, opened, text

pytestmark = pytest.mark.platform

# -- append --------------------------------------------------------------------------


@pytest.mark.parametrize("partial", PARTIAL)
@pytest.mark.parametrize("prepare", [with_unsynced_lines, without_unsynced_lines])
def test_a_refused_batch_leaves_memory_and_the_reopened_file_as_they_were(
    prepare: Callable[[], tuple[FaultDisk, Journal]], partial: int
) -> None:
    runs = every_fault(prepare, lambda journal: journal.append(BATCH, sync=True), partial=partial)
    for disk, journal, refused in runs:
        before = STORED + (UNSYNCED if prepare is with_unsynced_lines else [])
        expected = before if refused else before + BATCH
        assert lines_of(journal) == expected
        assert disk.content(FILE) == text(expected)
        if not refused or journal.statistics().failures:
            # Otherwise the look at the file failed, before the first write.
            assert journal.durable_bytes == len(text(expected))
            for keep in (0, 5, 10_000):
                assert found_after(disk, keep=keep) == (expected, b"")
        assert found_in(journal) == []
        journal.append(BATCH, sync=True)
        assert lines_of(journal) == expected + BATCH
        assert found_after(disk, keep=0) == (expected + BATCH, b"")


@pytest.mark.parametrize("partial", PARTIAL)
@pytest.mark.parametrize("third", range(1, 9))
def test_while_the_repair_fails_too_nothing_is_written_and_reads_go_on(
    partial: int, third: int
) -> None:
    before = STORED + UNSYNCED
    refusals = 0
    for nth in range(1, CALLS_MAX):
        disk, journal = with_unsynced_lines()
        disk.fail("fdatasync" if nth % 2 else "write", partial=partial)
        # Both failures are counted from this moment, so the second one hits the repair.
        second = disk.fail(None, nth=nth + 2, partial=partial)
        with pytest.raises(StorageError):
            journal.append(BATCH, sync=True)
        if not second.hit:
            break
        refusals += 1
        assert lines_of(journal) == before
        assert journal.line_count == len(before)
        for keep in (0, 3, 40, 10_000):
            found, _torn = found_after(disk, keep=keep)
            # Storage error means: whole atoms of the batch may be found. Nothing else.
            assert found[: len(STORED)] == STORED
            assert found == (before + BATCH)[: len(found)]
        # And a third, in the repair before the next append.
        disk.fail(None, nth=third, partial=partial)
        expected = [*before]
        with suppress(StorageError):
            journal.append([b"again"], sync=True)
            expected.append(b"again")
        disk.heal()
        assert lines_of(journal) == expected
        journal.append([b"after"], sync=True)
        expected.append(b"after")
        assert lines_of(journal) == expected
        assert disk.content(FILE) == text(expected)
        assert found_after(disk, keep=0) == (expected, b"")
    assert refusals > 3


def test_a_disk_that_refuses_for_long_is_asked_again_at_every_append() -> None:
    disk, journal = without_unsynced_lines()
    for _attempt in range(3):
        for nth in (1, 2):
            disk.fail("fdatasync", nth=nth)
        with pytest.raises(StorageError):
            journal.append(BATCH, sync=True)
        assert lines_of(journal) == STORED
        disk.heal()
    journal.append(BATCH, sync=True)
    assert disk.content(FILE) == text(STORED + BATCH)
    assert journal.statistics().failures >= 1


def test_a_sync_that_failed_is_never_tried_again_on_the_same_descriptor() -> None:
    disk, journal = without_unsynced_lines()
    descriptor = journal._writer.out._open_fd()
    synced: list[int] = []
    real = disk.fdatasync

    def noted(fd: int) -> None:
        synced.append(fd)
        real(fd)

    disk.fdatasync = noted  # type: ignore[method-assign]
    disk.fail("fdatasync")
    with pytest.raises(StorageError):
        journal.append(BATCH, sync=True)
    assert synced[0] == descriptor
    assert descriptor not in synced[1:]
    assert len(synced) == 2


@pytest.mark.parametrize("partial", PARTIAL)
def test_lines_that_were_accepted_without_a_sync_are_stored_again_after_one_failed(
    partial: int,
) -> None:
    disk, journal = with_unsynced_lines()
    disk.fail("fdatasync", partial=partial)
    with pytest.raises(StorageError):
        journal.append(BATCH, sync=True)
    # The kernel dropped them with the failed sync; only writing them again brings them back.
    journal.append([b"durable"], sync=True)
    assert found_after(disk, keep=0) == ([*STORED, *UNSYNCED, b"durable"], b"")


@pytest.mark.parametrize("partial", PARTIAL)
def test_a_flush_that_fails_loses_nothing_and_can_be_repeated(partial: int) -> None:
    runs = every_fault(with_unsynced_lines, lambda journal: journal.sync(), partial=partial)
    for disk, journal, _refused in runs:
        assert lines_of(journal) == STORED + UNSYNCED
        journal.sync()
        assert found_after(disk, keep=0) == (STORED + UNSYNCED, b"")


def test_a_file_that_shrank_is_not_filled_up_with_zeros() -> None:
    for truncates in (True, False):
        disk, journal = with_unsynced_lines(truncates=truncates)
        fd = disk.open_update(FILE)
        disk.truncate(fd, 3)
        disk.fail("write")
        for _attempt in range(2):
            with pytest.raises(Replaced, match="truncated"):
                journal.append(BATCH, sync=True)
        assert disk.content(FILE) == text(STORED)[:3]


def test_a_disk_that_takes_no_more_bytes_without_saying_why_is_full() -> None:
    class Tired(FaultDisk):
        def write(self, fd: int, data: bytes | memoryview) -> int:
            return 0 if bytes(data).startswith(b"atch") else super().write(fd, data)

    disk = Tired(FOLDER, LOCKS)
    disk.put(FILE, text(STORED))
    journal = opened(disk)
    disk.write_bytes_max = 3
    with pytest.raises(StorageError) as caught:
        journal.append(BATCH, sync=True)
    assert caught.value.data()["errno"] == "ENOSPC"
    assert disk.content(FILE) == text(STORED)


def test_bytes_that_are_gone_when_they_are_to_be_written_again_are_not_made_up() -> None:
    disk, journal = with_unsynced_lines()
    disk.fail("fdatasync")
    disk.pread = lambda fd, count, offset: b""  # type: ignore[method-assign]
    with pytest.raises(StorageError):
        journal.append(BATCH, sync=True)
    with pytest.raises(StorageError) as caught:
        journal.append(BATCH, sync=True)
    assert caught.value.data()["errno"] == "ESTALE"
    assert journal.durable_bytes == len(text(STORED))


def test_a_file_that_was_replaced_is_not_written_to() -> None:
    disk, journal = without_unsynced_lines()
    disk.rename(FILE, MOVED)
    theirs = b"somebody's\n" * 20
    disk.put(FILE, theirs)
    disk.fail("write")
    for _attempt in range(2):
        with pytest.raises(Replaced, match="epoch"):
            journal.append(BATCH, sync=True)
    assert disk.content(FILE) == theirs
    assert lines_of(journal) == STORED
