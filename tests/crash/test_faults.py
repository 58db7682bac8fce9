"""Tests in which the Nth call into the operating system fails, for N = 1, 2, ... up to the last.

After each failure memory is unchanged, the error has the right kind and a retry works. A reboot
finds every acknowledged line, in order, and no invented line.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from sessiond.errors import SessionLocked, StorageError
from sessiond.journal.journal import Journal
from sessiond.journal.recovery import split_whole
from sessiond.journal.store import Found, Overtaken, Replaced
from sessiond.testing.disk import FaultDisk
from tests.kit.journals import FILE, FOLDER, LOCKS, lines_of, opened, text
from tests.kit.limits import set_limits

OTHER = Path("/pending")
MOVED = OTHER / "s.jsonl"
STORED = [b'{"header":1}', b'{"first":1}']
UNSYNCED = [b'{"os":1}', b'{"os":2}']
BATCH = [b'{"batch":1}', b'{"batch":"long enough to be torn"}', b'{"batch":3}']
# Bytes of a failed write or sync that get through: none, part of a line, lines and a part.
PARTIAL = [0, 7, len(BATCH[0]) + 1, len(BATCH[0]) + 9, 10_000]
CALLS_MAX = 200


def new_disk(content: bytes = b"") -> FaultDisk:
    disk = FaultDisk(FOLDER, OTHER, LOCKS)
    if content:
        disk.put(FILE, content)
    return disk


def found_after(disk: FaultDisk, *, keep: int, names: int = 0) -> tuple[list[bytes], bytes]:
    """Return the lines and the tail that a reboot finds."""
    journal = opened(disk.crash(keep=keep, names=names))
    return lines_of(journal), journal.tail


def every_fault(
    prepare: Callable[[], tuple[FaultDisk, Journal]],
    act: Callable[[Journal], None],
    *,
    partial: int = 0,
) -> Iterator[tuple[FaultDisk, Journal, bool]]:
    """Disk, journal and whether `act` was refused, for a failure at each of its calls."""
    for nth in range(1, CALLS_MAX):
        disk, journal = prepare()
        fault = disk.fail(None, nth=nth, errno=errno.ENOSPC, partial=partial)
        refusal: StorageError | None = None
        try:
            act(journal)
        except StorageError as error:
            refusal = error
        disk.heal()
        if refusal is not None:
            assert fault.hit
            assert refusal.data()["errno"] == "ENOSPC"
            assert refusal.data()["retryable"] is True
        yield disk, journal, refusal is not None
        if not fault.hit:
            assert nth > 1, "nothing was called"
            return
    raise AssertionError("calls without end")


def with_unsynced_lines(*, truncates: bool = True) -> tuple[FaultDisk, Journal]:
    disk = new_disk(text(STORED))
    journal = opened(disk, truncates=truncates)
    journal.append(UNSYNCED, sync=False)
    return disk, journal


def without_unsynced_lines(*, truncates: bool = True) -> tuple[FaultDisk, Journal]:
    disk = new_disk(text(STORED))
    return disk, opened(disk, truncates=truncates)


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


def append_behind_the_tail(journal: Journal) -> None:
    journal.append(BATCH, sync=True)


def found_in(journal: Journal) -> list[bytes]:
    return [one.line for one in journal.take_found()]


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
        journal.leave_torn(lambda: "2026", from_seq, lambda _seq, _line: None)
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
