"""For N = 1, 2, … the Nth call fails on a file that other programs may write."""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import suppress

import pytest

from sessiond.errors import SessionLocked, StorageError
from sessiond.journal.journal import Journal
from sessiond.journal.splitter import split_whole
from sessiond.journal.store import Found, Overtaken, Replaced
from sessiond.testing.disk import FaultDisk
from tests.crash.harness.journal_faults import (
    BATCH,
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
from tests.kit.journals import FILE, lines_of, opened, text
from tests.kit.limits import set_limits

# -- a file that others may write --------------------------------------------------------


@pytest.mark.parametrize("partial", PARTIAL)
def test_a_file_of_others_is_never_shortened_and_whole_lines_count_as_stored(
    partial: int,
) -> None:
    def prepare() -> tuple[FaultDisk, Journal]:
        return with_unsynced_lines(truncates=False)

    before = STORED + UNSYNCED
    runs = every_fault(prepare, lambda journal: journal.append(BATCH, sync=True), partial=partial)
    for disk, journal, refused in runs:
        stored_tail = found_in(journal)
        assert found_in(journal) == []
        expected = before + (stored_tail if refused else BATCH)
        assert lines_of(journal) == expected
        assert disk.content(FILE) == text(expected)
        if refused:
            written = text(BATCH)
            assert written.startswith(text(stored_tail)[:-2])
            if journal.statistics().failures:
                assert found_after(disk, keep=0) == (expected, b"")
        else:
            assert stored_tail == []
        journal.append(BATCH, sync=True)
        assert found_after(disk, keep=0) == (expected + BATCH, b"")


THEIRS = b'{"foreign":1}\r\n{"foreign":2}\n'


THEIR_LINES = [b'{"foreign":1}', b'{"foreign":2}']


DIALECTS = pytest.mark.parametrize("truncates", [True, False], ids=["native", "foreign"])


@DIALECTS
def test_lines_that_are_there_already_come_first_and_the_batch_is_made_again(
    truncates: bool,
) -> None:
    disk, journal = without_unsynced_lines(truncates=truncates)
    disk.write_as_another(FILE, THEIRS)
    before = disk.writes
    with pytest.raises(Overtaken):
        journal.append(BATCH, sync=True)
    assert disk.writes == before
    assert journal.take_found() == [Found(line, external=True) for line in THEIR_LINES]
    assert found_after(disk, keep=0) == (STORED + THEIR_LINES, b"")
    journal.append(BATCH, sync=True)
    assert lines_of(journal) == STORED + THEIR_LINES + BATCH
    assert found_after(disk, keep=0) == (STORED + THEIR_LINES + BATCH, b"")


@DIALECTS
@pytest.mark.parametrize("sync", [True, False])
def test_lines_that_land_between_look_and_write_come_first_and_the_batch_counts(
    truncates: bool, sync: bool
) -> None:
    disk, journal = without_unsynced_lines(truncates=truncates)
    disk.land(FILE, THEIRS)
    journal.append(BATCH, sync=sync)
    assert found_in(journal) == THEIR_LINES
    assert lines_of(journal) == STORED + THEIR_LINES + BATCH
    assert found_after(disk, keep=0) == (STORED + THEIR_LINES + BATCH, b"")
    journal.append([b"next"], sync=True)
    assert disk.content(FILE) == text(STORED) + THEIRS + text([*BATCH, b"next"])


@DIALECTS
@pytest.mark.parametrize("theirs", [b"", THEIRS])
def test_lines_of_ours_that_were_glued_to_half_a_line_are_written_again(
    truncates: bool, theirs: bytes
) -> None:
    disk, journal = without_unsynced_lines(truncates=truncates)
    disk.land(FILE, theirs + b'{"half')
    with pytest.raises(Overtaken):
        journal.append(BATCH, sync=True)
    found = found_in(journal)
    whole = split_whole(theirs)[0]
    assert [line.rstrip() for line in found] == [
        *(line.rstrip() for line in whole),
        b'{"half',
        *[b""] * (len(BATCH) - 1),
    ]
    journal.append(BATCH, sync=True)
    assert lines_of(journal) == [*STORED, *found, *BATCH]
    # Nothing of theirs was touched, and ours are there once.
    assert disk.content(FILE).startswith(text(STORED) + theirs + b'{"half ')
    assert disk.content(FILE).count(BATCH[0]) == 1
    assert found_after(disk, keep=0) == ([*STORED, *found, *BATCH], b"")


def write_in_pieces(disk: FaultDisk, size: int, between: Callable[[], None]) -> None:
    """Let the next write store only `size` bytes, and call `between` before its rest is written."""
    write = disk.write
    disk.write_bytes_max = size

    def first(fd: int, data: bytes | memoryview) -> int:
        written = write(fd, data)
        del disk.__dict__["write"]
        disk.heal()
        between()
        return written

    disk.write = first  # type: ignore[method-assign]


# In the middle of a line, and at its end.
PIECES = pytest.mark.parametrize("size", [5, len(BATCH[0]) + 1], ids=["half a line", "a line"])


@DIALECTS
@PIECES
def test_lines_that_land_between_the_pieces_of_a_write_stay_whole_and_the_batch_is_made_again(
    truncates: bool, size: int
) -> None:
    disk, journal = without_unsynced_lines(truncates=truncates)
    write_in_pieces(disk, size, lambda: disk.write_as_another(FILE, THEIRS))
    with pytest.raises(Overtaken):
        journal.append(BATCH, sync=True)
    found = found_in(journal)
    assert [line.strip() for line in found if line.strip()] == THEIR_LINES
    journal.append(BATCH, sync=True)
    assert lines_of(journal) == [*STORED, *found, *BATCH]
    assert THEIRS in disk.content(FILE)
    assert found_after(disk, keep=0) == (lines_of(journal), b"")


@DIALECTS
@PIECES
def test_lines_that_land_behind_a_piece_stay_whole_when_the_rest_of_it_is_refused(
    truncates: bool, size: int
) -> None:
    disk, journal = without_unsynced_lines(truncates=truncates)

    def fill() -> None:
        disk.write_as_another(FILE, THEIRS)
        disk.fail("write", errno=errno.ENOSPC)

    write_in_pieces(disk, size, fill)
    with pytest.raises(StorageError) as refused:
        journal.append(BATCH, sync=True)
    assert refused.value.data()["errno"] == "ENOSPC"
    found = found_in(journal)
    assert [line.strip() for line in found if line.strip()] == THEIR_LINES
    journal.append(BATCH, sync=True)
    assert lines_of(journal) == [*STORED, *found, *BATCH]
    assert THEIRS in disk.content(FILE)
    assert found_after(disk, keep=0) == (lines_of(journal), b"")


@DIALECTS
def test_the_blanks_between_the_pieces_of_others_are_made_until_the_disk_takes_them(
    truncates: bool,
) -> None:
    disk, journal = without_unsynced_lines(truncates=truncates)

    def fill() -> None:
        disk.write_as_another(FILE, THEIRS)
        for nth in (1, 2):
            disk.fail("pwrite", nth=nth, partial=2)

    write_in_pieces(disk, 5, fill)
    with pytest.raises(StorageError):
        journal.append(BATCH, sync=True)
    with pytest.raises(Overtaken):
        journal.append(BATCH, sync=True)
    found = found_in(journal)
    assert [line.strip() for line in found if line.strip()] == THEIR_LINES
    journal.append(BATCH, sync=True)
    assert disk.content(FILE).count(BATCH[-1]) == 1
    assert found_after(disk, keep=0) == (lines_of(journal), b"")


@DIALECTS
@pytest.mark.parametrize("partial", PARTIAL)
def test_whatever_fails_while_others_write_their_bytes_stay(truncates: bool, partial: int) -> None:
    theirs = THEIRS + b'{"half'

    def prepare() -> tuple[FaultDisk, Journal]:
        disk, journal = with_unsynced_lines(truncates=truncates)
        disk.land(FILE, theirs)
        return disk, journal

    def append(journal: Journal) -> None:
        with suppress(Overtaken):
            journal.append(BATCH, sync=True)

    for disk, journal, _refused in every_fault(prepare, append, partial=partial):
        landed = theirs in disk.content(FILE)
        known = STORED + UNSYNCED + found_in(journal)
        assert lines_of(journal)[: len(known)] == known
        for _again in range(3):
            try:
                journal.append([b"after"], sync=True, late=True)
                break
            except Overtaken:
                known += found_in(journal)
        known += found_in(journal)
        if landed:
            assert theirs in disk.content(FILE)
        assert [*known, b"after"][-1] in lines_of(journal)
        assert found_after(disk, keep=0) == (lines_of(journal), b"")
        assert disk.content(FILE).count(b"after") == 1


@DIALECTS
def test_much_that_others_wrote_is_found_by_pieces_after_a_failure_too(
    truncates: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, INTAKE_BYTES=40)
    disk, journal = with_unsynced_lines(truncates=truncates)
    theirs = [b'{"foreign":%d}' % n for n in range(20)]
    disk.write_as_another(FILE, text(theirs))
    disk.fail("fdatasync")
    with pytest.raises(StorageError):
        journal.append(BATCH, sync=True)
    pieces = [found_in(journal)]
    while journal.behind_bytes:
        journal.look()
        pieces.append(found_in(journal))
    assert [line for piece in pieces for line in piece] == theirs
    assert max(map(len, pieces)) <= 4
    journal.append(BATCH, sync=True)
    assert found_after(disk, keep=0) == (STORED + UNSYNCED + theirs + BATCH, b"")


def test_a_refused_batch_among_lines_of_others_is_made_blank() -> None:
    disk, journal = without_unsynced_lines()
    disk.land(FILE, THEIRS)
    disk.fail("fdatasync")
    with pytest.raises(StorageError):
        journal.append(BATCH, sync=True)
    assert found_in(journal) == [*THEIR_LINES, *(b" " * len(line) for line in BATCH)]
    journal.append(BATCH, sync=True)
    assert disk.content(FILE).count(BATCH[0]) == 1


@DIALECTS
def test_half_a_line_is_waited_for_until_somebody_closes_it(truncates: bool) -> None:
    disk, journal = without_unsynced_lines(truncates=truncates)
    disk.write_as_another(FILE, b'{"half')
    for _again in range(2):
        with pytest.raises(Overtaken):
            journal.append(BATCH, sync=True)
        assert (found_in(journal), journal.half_bytes) == ([], 6)
    assert journal.half() == b'{"half'
    disk.write_as_another(FILE, b'":1')
    journal.look()
    assert journal.half_bytes == 9
    journal.close_half()
    assert found_in(journal) == [b'{"half":1 ']
    journal.append(BATCH, sync=True)
    assert lines_of(journal) == [*STORED, b'{"half":1 ', *BATCH]


@DIALECTS
def test_half_a_line_that_becomes_whole_is_a_line_like_any_other(truncates: bool) -> None:
    disk, journal = without_unsynced_lines(truncates=truncates)
    disk.write_as_another(FILE, b'{"half')
    journal.look()
    disk.write_as_another(FILE, b'":1}\n')
    journal.look()
    assert (found_in(journal), journal.half_bytes) == ([b'{"half":1}'], 0)


def test_what_is_not_provably_ours_is_not_cut_after_a_failed_write() -> None:
    disk, journal = without_unsynced_lines()
    # The foreign bytes begin like our batch, but no byte of our batch reached the file.
    disk.land(FILE, BATCH[0][:4])
    disk.fail("write")
    with pytest.raises(StorageError):
        journal.append(BATCH, sync=True)
    assert found_in(journal) == [BATCH[0][:4] + b" "]
    assert disk.content(FILE) == text([*STORED, BATCH[0][:4] + b" "])


@DIALECTS
def test_a_copy_that_takes_the_place_of_the_file_is_written_on(truncates: bool) -> None:
    disk, journal = without_unsynced_lines(truncates=truncates)
    disk.put(FILE, text(STORED) + THEIRS)
    with pytest.raises(Overtaken):
        journal.append(BATCH, sync=True)
    assert found_in(journal) == THEIR_LINES
    journal.append(BATCH, sync=True)
    assert disk.content(FILE) == text(STORED) + THEIRS + text(BATCH)
    with pytest.raises(SessionLocked):
        opened(disk)
    journal.close()
    assert disk.open_descriptors == 0
    opened(disk).close()


@DIALECTS
@pytest.mark.parametrize(
    ("content", "reason"),
    [(text(STORED[:1]), "truncated"), (text(STORED).replace(b"1", b"2") + THEIRS, "epoch")],
)
def test_another_file_in_its_place_is_told(truncates: bool, content: bytes, reason: str) -> None:
    disk, journal = without_unsynced_lines(truncates=truncates)
    disk.put(FILE, content)
    for _again in range(2):
        with pytest.raises(Replaced, match=reason):
            journal.append(BATCH, sync=True)
    assert disk.content(FILE) == content


def test_a_file_that_is_gone_is_not_made_again_and_goes_on_when_it_is_back() -> None:
    disk, journal = without_unsynced_lines()
    disk.rename(FILE, MOVED)
    for _again in range(2):
        with pytest.raises(StorageError) as caught:
            journal.append(BATCH, sync=True)
        assert caught.value.data()["errno"] == "ENOENT"
    assert not disk.exists(FILE)
    disk.rename(MOVED, FILE)
    journal.append(BATCH, sync=True)
    assert lines_of(journal) == STORED + BATCH
