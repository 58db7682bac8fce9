"""Journals: the contract of every log, what an append costs, opening, and the end of a file."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from sessiond.errors import SessiondError, StorageError
from sessiond.journal.disk.files import Files
from sessiond.journal.journal import Journal
from sessiond.journal.memory import MemoryJournal
from sessiond.journal.scanning import scan
from sessiond.journal.spool import Spool
from sessiond.journal.store import Overtaken, Replaced
from sessiond.service.database.following.positions import Positions
from sessiond.service.database.log import DatabaseLog
from sessiond.testing.database import MemoryDatabase
from sessiond.testing.disk import FaultDisk
from sessiond.testing.journals import (
    HEADER,
    SESSION_LOG_CHECKS,
    MakeLog,
    check_session_log,
)
from tests.kit.journals import FILE, FOLDER, LOCKS, ignore, lines_of, opened, opened_on

pytestmark = pytest.mark.platform

MIB = 1024 * 1024

# -- the contract of every log -----------------------------------------------------


def in_memory(_folder: Path) -> MakeLog:
    return MemoryJournal


def on_fault_disk(_folder: Path) -> MakeLog:
    def make(header: bytes) -> Journal:
        return Journal.create(FaultDisk(FOLDER, LOCKS), FILE, header, locks=LOCKS)

    return make


def in_a_file(folder: Path) -> MakeLog:
    numbers = iter(range(1000))

    def make(header: bytes) -> Journal:
        return Journal.create(Files(), folder / f"{next(numbers)}.jsonl", header, locks=folder)

    return make


def in_a_file_of_others(folder: Path) -> MakeLog:
    make_own = in_a_file(folder)

    def make(header: bytes) -> Journal:
        log = make_own(header)
        assert isinstance(log, Journal)
        log.truncates = False
        return log

    return make


def in_a_database(folder: Path) -> MakeLog:
    database, numbers = MemoryDatabase(time.time_ns).connection(), count(1)

    def make(header: bytes) -> DatabaseLog:
        head = database.create(f"log-{next(numbers)}", "epoch", [header.split(b"\n")], "placed")
        assert head is not None
        spool = Spool.nameless(Files(), folder, Path("log"))
        log = DatabaseLog(database, Positions(database), head, spool, lambda: "next")
        assert log.index(lambda _first, _lines: None)
        return log

    return make


PLACES = [in_memory, on_fault_disk, in_a_file, in_a_file_of_others, in_a_database]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("check", SESSION_LOG_CHECKS, ids=lambda check: check.__name__)
def test_every_log_keeps_the_promises_of_a_session_log(
    place: Callable[[Path], MakeLog], check: Callable[[MakeLog], None], tmp_path: Path
) -> None:
    check(place(tmp_path))


def test_the_suite_as_a_whole_is_its_checks() -> None:
    check_session_log(MemoryJournal)


def test_a_log_that_loses_a_line_does_not_pass() -> None:
    class Forgetful(MemoryJournal):
        def read_many(self, seqs: object) -> list[bytes]:
            return super().read_many(seqs)[:-1]  # type: ignore[arg-type]

    with pytest.raises(AssertionError):
        check_session_log(Forgetful)


def test_a_session_in_memory_never_becomes_a_file() -> None:
    journal = MemoryJournal(HEADER)
    with pytest.raises(AssertionError):
        journal.move(FILE)


# -- what an append costs ------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 500])
def test_an_append_is_one_write_and_one_sync_between_two_looks_and_no_other_call(
    disk: FaultDisk, count: int
) -> None:
    journal = opened_on(disk, HEADER + b"\n")
    before = disk.counts.copy()
    journal.append([b"line"] * count, sync=True)
    assert disk.counts - before == {"stat": 1, "write": 1, "fdatasync": 1, "fstat": 1}
    before = disk.counts.copy()
    journal.append([b"line"] * count, sync=False)
    assert disk.counts - before == {"stat": 1, "write": 1, "fstat": 1}


def test_an_append_costs_the_same_in_a_long_session(disk: FaultDisk) -> None:
    journal = opened_on(disk, HEADER + b"\n" + b'{"n":1}\n' * 100_000)
    before = disk.counts.copy()
    journal.append([b"line"], sync=True)
    assert disk.counts - before == {"stat": 1, "write": 1, "fdatasync": 1, "fstat": 1}
    assert journal.line_count == 100_002


def test_an_offset_costs_eight_bytes_and_a_line_is_not_kept(disk: FaultDisk) -> None:
    journal = opened_on(disk, b"".join(b"%06d\n" % n for n in range(10_000)))
    assert journal._reader.ends.itemsize == 8
    assert len(journal._reader.ends) == 10_001
    before = disk.counts.copy()
    assert journal.read(9_999, 9_999) == [b"009999"]
    assert disk.counts - before == {"pread": 1}


def test_neighbours_are_read_together(disk: FaultDisk) -> None:
    journal = opened_on(disk, b"".join(b"%d\n" % n for n in range(20)))
    before = disk.counts.copy()
    assert journal.read_many([2, 3, 4, 9, 10, 1]) == [b"2", b"3", b"4", b"9", b"10", b"1"]
    assert disk.counts - before == {"pread": 3}


def test_short_writes_are_completed(disk: FaultDisk) -> None:
    journal = opened_on(disk, HEADER + b"\n")
    disk.write_bytes_max = 3
    journal.append([b"0123456789", b"abc"], sync=True)
    assert disk.content(FILE) == HEADER + b"\n0123456789\nabc\n"
    statistics = journal.statistics()
    assert statistics.writes == 5
    assert statistics.written_bytes == 15
    assert statistics.syncs == 2


def test_what_is_durable_is_told(disk: FaultDisk) -> None:
    journal = opened_on(disk, HEADER + b"\n")
    begin = journal.durable_bytes
    journal.append([b"a"], sync=False)
    assert journal.durable_bytes == begin
    assert disk.crash().content(FILE) == HEADER + b"\n"
    journal.sync()
    assert journal.durable_bytes == begin + 2
    assert disk.crash().content(FILE) == HEADER + b"\na\n"
    before = disk.counts.copy()
    journal.sync()
    assert disk.counts == before


# -- opening -----------------------------------------------------------------------


def test_opening_visits_each_whole_line_once_and_syncs_once(disk: FaultDisk) -> None:
    disk.put(FILE, b"h\na\r\n\nlast\ntorn")
    seen: list[tuple[int, bytes]] = []
    journal = Journal.open(
        disk, FILE, lambda seq, lines: seen.extend(enumerate(lines, seq)), locks=LOCKS
    )
    assert seen == [(0, b"h\n"), (1, b"a\r\n"), (2, b"\n"), (3, b"last\n")]
    assert journal.tail == b"torn"
    assert disk.counts["fdatasync"] == 1
    assert lines_of(journal) == [b"h", b"a", b"", b"last"]
    assert journal.truncates is False


def test_a_line_that_spans_many_reads_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    long = b"x" * (20 * 1024 * 1024 + 17)
    path.write_bytes(b"h\n" + long + b"\nend\n")
    journal = Journal.open(Files(), path, ignore, locks=tmp_path)
    assert journal.read(1, 2) == [long, b"end"]
    journal.close()


@pytest.mark.parametrize("at", [5, MIB - 1, MIB, MIB + 5], ids=str)
def test_a_newline_written_into_a_line_is_found_in_whichever_piece_it_is(
    disk: FaultDisk, at: int
) -> None:
    """Pieces end inside the line, and only its end was to be a newline."""
    journal = opened_on(disk, b"header\n" + b"x" * (2 * MIB) + b"\nlast\n")
    fd = disk.open_update(FILE)
    disk.pwrite(fd, b"\n", len(b"header\n") + at)
    with pytest.raises(StorageError):
        list(journal.chunks(0, journal.line_count - 1))


def test_a_visitor_that_refuses_closes_the_file_and_frees_it(disk: FaultDisk) -> None:
    disk.put(FILE, b"h\n")

    def refuse(seq: int, lines: list[bytes]) -> None:
        raise SessiondError("no")

    with pytest.raises(SessiondError):
        Journal.open(disk, FILE, refuse, locks=LOCKS)
    assert disk.open_descriptors == 0
    assert disk.content(FILE) == b"h\n"
    Journal.open(disk, FILE, ignore, locks=LOCKS).close()


def test_an_empty_file_has_no_lines_and_no_tail(disk: FaultDisk) -> None:
    journal = opened_on(disk, b"")
    assert (journal.line_count, journal.tail, journal.size_bytes) == (0, b"", 0)


def open_to_own(path: Path) -> None:
    Journal.open(Files(), path, ignore, locks=path.parent)


def open_to_read(path: Path) -> None:
    Journal.read_only(Files(), path, ignore)


def open_to_scan(path: Path) -> None:
    scan(Files(), path, ignore, lines_max=1)


@pytest.mark.parametrize("open_it", [open_to_own, open_to_read, open_to_scan])
def test_what_is_no_file_is_refused_by_name(
    open_it: Callable[[Path], None], tmp_path: Path
) -> None:
    fifo = tmp_path / "pipe.jsonl"
    os.mkfifo(fifo)
    folder = tmp_path / "folder.jsonl"
    folder.mkdir()
    for path, name in ((fifo, "EINVAL"), (folder, "EISDIR"), (tmp_path / "none", "ENOENT")):
        with pytest.raises(StorageError) as caught:
            open_it(path)
        assert caught.value.data()["errno"] == name
        assert path.name in caught.value.message


def test_reading_only_takes_no_lock_and_writes_nothing(disk: FaultDisk) -> None:
    owner = opened_on(disk, b"h\na\nhal")
    before = disk.counts.copy()
    reader = Journal.read_only(disk, FILE, ignore)
    assert lines_of(reader) == [b"h", b"a"]
    assert reader.tail == b"hal"
    reader.close()
    made = disk.counts - before
    assert not {"write", "fdatasync", "lock", "create"} & set(made)
    owner.close()
    assert disk.open_descriptors == 0


def test_nothing_can_be_appended_to_what_is_open_for_reading(disk: FaultDisk) -> None:
    disk.put(FILE, b"h\n")
    reader = Journal.read_only(disk, FILE, ignore)
    for _again in range(2):
        with pytest.raises(StorageError):
            reader.append([b"a"], sync=True)
        with pytest.raises(StorageError):
            reader.sync()
    assert disk.content(FILE) == b"h\n"


def test_a_whole_tail_in_what_is_open_for_reading_is_a_line_and_stays(disk: FaultDisk) -> None:
    disk.put(FILE, b"h\nwhole")
    reader = Journal.read_only(disk, FILE, ignore)
    reader.take_tail()
    assert lines_of(reader) == [b"h", b"whole"]
    assert reader.slack_bytes == -1
    with pytest.raises(StorageError) as caught:
        reader.append([b"a"], sync=True)
    assert caught.value.data()["errno"] == "EBADF"
    assert disk.content(FILE) == b"h\nwhole"


@pytest.mark.parametrize(
    ("content", "lines_max", "lines", "tail"),
    [
        (b"", 1, [], b""),
        (b"h", 1, [], b"h"),
        (b"h\r\nrest", 1, [b"h"], b""),
        (b"h\na\nb\n", 2, [b"h", b"a"], b""),
        (b"h\na", 2, [b"h"], b"a"),
        (b"x" * 40_000 + b"\nrest\n", 1, [b"x" * 40_000], b""),
    ],
)
def test_scanning_stops_after_the_lines_it_was_asked_for(
    disk: FaultDisk, content: bytes, lines_max: int, lines: list[bytes], tail: bytes
) -> None:
    disk.put(FILE, content)
    seen: list[bytes] = []
    rest = scan(disk, FILE, lambda _seq, line: seen.append(line), lines_max=lines_max)
    assert seen == lines
    assert rest == tail
    assert disk.open_descriptors == 0


def test_scanning_a_long_file_reads_its_beginning_only(disk: FaultDisk) -> None:
    disk.put(FILE, b"h\n" + b"x" * 5_000_000)
    scan(disk, FILE, ignore, lines_max=1)
    assert disk.counts["pread"] == 1


# -- the tail ------------------------------------------------------------------------


def test_a_whole_tail_gets_its_newline_and_is_a_line(disk: FaultDisk) -> None:
    journal = opened_on(disk, b"h\nwhole", truncates=False)
    journal.take_tail()
    assert journal.tail == b""
    assert lines_of(journal) == [b"h", b"whole"]
    assert disk.content(FILE) == b"h\nwhole"
    journal.append([b"next"], sync=True)
    assert lines_of(journal) == [b"h", b"whole", b"next"]
    assert disk.crash().content(FILE) == b"h\nwhole\nnext\n"


def test_a_torn_tail_is_put_aside_durably_before_it_is_cut(disk: FaultDisk) -> None:
    journal = opened_on(disk, b"h\na\nto\0rn")
    kept = Path(journal.cut_tail("2026"))
    assert kept.name == "s.jsonl.torn-2026"
    journal.append([b"next"], sync=True)
    rebooted = disk.crash()
    assert rebooted.content(kept) == b"to\0rn"
    assert rebooted.content(FILE) == b"h\na\nnext\n"


def test_whole_lines_can_be_cut_with_the_tail(disk: FaultDisk) -> None:
    journal = opened_on(disk, b"h\na\nb\nc\nto")
    kept = journal.cut_tail("2026", 2)
    assert disk.content(Path(kept)) == b"b\nc\nto"
    assert journal.line_count == 2
    journal.append([b"next"], sync=True)
    assert lines_of(journal) == [b"h", b"a", b"next"]


def test_an_earlier_copy_is_never_overwritten(disk: FaultDisk) -> None:
    first = opened_on(disk, b"h\none").cut_tail("2026")
    disk = disk.crash()
    journal = opened(disk)
    journal.append([b"a"], sync=True)
    second = journal.cut_tail("2026", 1)
    assert first != second
    assert disk.content(Path(first)) == b"one"
    assert disk.content(Path(second)) == b"a\n"


def test_a_file_of_others_is_never_shortened(disk: FaultDisk) -> None:
    journal = opened_on(disk, b"h\ntorn", truncates=False)
    with pytest.raises(AssertionError):
        journal.cut_tail("2026")
    assert disk.content(FILE) == b"h\ntorn"
    assert [path.parent for path in disk.paths] == [LOCKS, FOLDER]


def test_a_torn_tail_stays_until_the_first_append(disk: FaultDisk) -> None:
    journal = opened_on(disk, b"h\na\nto\0rn")
    journal.leave_torn(lambda: "2026", 2, ignore)
    assert (lines_of(journal), journal.slack_bytes) == ([b"h", b"a"], 5)
    journal.look()
    assert not journal.has_grown()
    journal.sync()
    assert [path for path in disk.paths if path.parent == FOLDER] == [FILE]
    assert disk.content(FILE) == b"h\na\nto\0rn"
    journal.append([b"next"], sync=True)
    assert disk.content(FILE.with_name("s.jsonl.torn-2026")) == b"to\0rn"
    assert disk.crash().content(FILE) == b"h\na\nnext\n"


def test_whole_lines_that_are_torn_stay_until_the_first_append(disk: FaultDisk) -> None:
    journal = opened_on(disk, b"h\na\nb\nc\nto")
    seen: list[bytes] = []
    journal.leave_torn(lambda: "2026", 2, lambda _seq, lines: seen.extend(lines))
    assert seen == [b"h\n", b"a\n"]
    assert lines_of(journal) == [b"h", b"a"]
    assert disk.content(FILE) == b"h\na\nb\nc\nto"
    journal.append([b"next"], sync=True)
    assert disk.content(FILE.with_name("s.jsonl.torn-2026")) == b"b\nc\nto"
    assert disk.content(FILE) == b"h\na\nnext\n"


def test_a_torn_tail_that_another_program_goes_on_with_is_not_cut(disk: FaultDisk) -> None:
    journal = opened_on(disk, b"h\n{to")
    journal.leave_torn(lambda: "2026", 1, ignore)
    disk.write_as_another(FILE, b"rn}\n")
    with pytest.raises(Overtaken):
        journal.append([b"next"], sync=True)
    assert [found.line for found in journal.take_found()] == [b"{torn}"]
    journal.append([b"next"], sync=True)
    assert disk.content(FILE) == b"h\n{torn}\nnext\n"
    assert [path for path in disk.paths if path.parent == FOLDER] == [FILE]


def test_a_newline_that_another_program_writes_ends_a_whole_tail(disk: FaultDisk) -> None:
    journal = opened_on(disk, b"h\nwhole")
    journal.take_tail()
    disk.write_as_another(FILE, b"\ntheirs\n")
    journal.look()
    assert [found.line for found in journal.take_found()] == [b"theirs"]
    journal.append([b"next"], sync=True)
    assert disk.content(FILE) == b"h\nwhole\ntheirs\nnext\n"


def test_a_whole_tail_that_another_program_goes_on_with_is_another_log(disk: FaultDisk) -> None:
    journal = opened_on(disk, b"h\nwhole")
    journal.take_tail()
    disk.write_as_another(FILE, b"theirs\n")
    with pytest.raises(Replaced):
        journal.append([b"next"], sync=True)
    assert disk.content(FILE) == b"h\nwholetheirs\n"


def test_nothing_is_appended_behind_a_tail(disk: FaultDisk) -> None:
    journal = opened_on(disk, b"h\ntorn")
    with pytest.raises(AssertionError):
        journal.append([b"a"], sync=True)
    assert disk.content(FILE) == b"h\ntorn"
