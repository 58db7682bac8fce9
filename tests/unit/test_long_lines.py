"""Lines over LINE_BYTES_MAX: what stands in for them, and that no reader holds them."""

from __future__ import annotations

import tracemalloc
from array import array
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessiond.dialects.base import BadLine
from sessiond.dialects.lenient_json import lenient, require_text
from sessiond.errors import StorageError
from sessiond.journal.disk.files import Files
from sessiond.journal.journal import Journal
from sessiond.journal.reader import LineReader
from sessiond.journal.scanning import feed, lines_from, scan
from sessiond.journal.splitter import LongLine, Splitter, long_line, stored_size, without_end
from sessiond.limits import LINE_BYTES_MAX
from sessiond.testing.disk import FaultDisk
from tests.kit.journals import ignore
from tests.kit.limits import set_limits

MIB = 1 << 20
FILE = Path("/home/session.jsonl")
SHORT_MAX = 12


class CountingDisk(FaultDisk):
    """A disk that counts the bytes that are read."""

    read_bytes = 0

    def pread(self, fd: int, count: int, offset: int) -> bytes:
        data = super().pread(fd, count, offset)
        self.read_bytes += len(data)
        return data


@given(st.binary(max_size=40), st.booleans())
def test_no_dialect_takes_a_stand_in_for_an_entry(head: bytes, closed: bool) -> None:
    line = long_line(head, b" " if closed else b"x", 10**9)
    assert lenient(line) == {}
    assert line.endswith(b" ") == closed
    assert stored_size(line) == 10**9


@pytest.mark.parametrize("head", [b"{}", b'{"type":"message"}  ', b'{"a":"', b"1", b'"x"', b"[1]"])
def test_a_stand_in_is_no_json_although_its_beginning_is(head: bytes) -> None:
    assert lenient(long_line(head, b"x", 5)) == {}


@given(
    st.lists(st.sampled_from([b"a", b"\n", b"\r\n", b"bcdef", b" \n", b"x" * 20]), max_size=30),
    st.integers(1, SHORT_MAX),
)
def test_the_splitter_and_the_reader_agree_where_a_line_is_too_long(
    parts: list[bytes], chunk_bytes: int
) -> None:
    data = b"".join(parts)
    disk = FaultDisk(FILE.parent)
    disk.put(FILE, data)
    found: list[bytes] = []
    reader = LineReader(disk, disk.open_read(FILE), FILE)
    with pytest.MonkeyPatch.context() as patch:
        set_limits(patch, LINE_BYTES_MAX=SHORT_MAX, LINE_HEAD_BYTES=4)
        splitter = Splitter(reader.ends)
        for at in range(0, len(data), chunk_bytes):
            found += map(without_end, splitter.feed(data[at : at + chunk_bytes]))
        if found:
            assert reader.read(0, len(found) - 1) == found
            assert [reader.read(seq, seq)[0] for seq in range(len(found))] == found
            assert b"".join(reader.chunks(0, len(found) - 1)) == data[: reader.ends[-1]]
    whole = data.split(b"\n")
    for line, stored in zip([*found, splitter.rest()], whole, strict=True):
        if len(stored) > SHORT_MAX:
            assert isinstance(line, LongLine)
            assert line.size == len(stored)
        else:
            assert line == (stored.removesuffix(b"\r") if line in found else stored)
    reader.close()


def read_to_own(path: Path) -> None:
    Journal.open(Files(), path, ignore, locks=path.parent).close()


def read_only(path: Path) -> None:
    journal = Journal.read_only(Files(), path, ignore)
    assert isinstance(journal.tail, LongLine) or journal.line_count > 1
    if journal.line_count:
        journal.read(0, journal.line_count - 1)
    journal.close()


def scan_all(path: Path) -> None:
    scan(Files(), path, ignore, lines_max=10)


def read_from(path: Path) -> None:
    for _line in lines_from(Files(), path, 0):
        pass


@pytest.mark.parametrize("read", [read_to_own, read_only, scan_all, read_from])
@pytest.mark.parametrize(("before", "behind"), [(b"", b""), (b"h\n", b""), (b"h\n", b"\na\n")])
def test_a_reader_holds_no_more_than_one_line(
    tmp_path: Path, read: Callable[[Path], None], before: bytes, behind: bytes
) -> None:
    path = tmp_path / "s.jsonl"
    with path.open("wb") as file:
        file.write(before)
        file.seek(LINE_BYTES_MAX + 24 * MIB)
        file.write(behind)
        file.truncate(max(LINE_BYTES_MAX + 24 * MIB, file.tell()))
    tracemalloc.start()
    try:
        read(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < LINE_BYTES_MAX + 8 * MIB


def test_a_first_line_that_is_too_long_ends_the_reading() -> None:
    ends = array("q", [0])
    splitter = Splitter(ends)
    chunks = [b"x" * MIB] * 200
    assert len(list(feed(splitter, chunks))) == LINE_BYTES_MAX // MIB + 1
    assert isinstance(splitter.rest(), LongLine)


def test_half_a_foreign_line_that_grows_is_searched_once() -> None:
    disk = CountingDisk(FILE.parent)
    disk.put(FILE, b"h\n")
    journal = Journal.open(disk, FILE, ignore, locks=FILE.parent)
    step, steps = 1000, 50
    for number in range(steps):
        disk.write_as_another(FILE, b"x" * step)
        journal.look()
        assert journal.half_bytes == step * (number + 1)
    assert disk.read_bytes <= step * steps + 200
    disk.write_as_another(FILE, b'"}\nnext\n')
    journal.look()
    assert [one.line for one in journal.take_found()] == [b"x" * step * steps + b'"}', b"next"]
    journal.close()


def test_a_long_line_is_read_once(tmp_path: Path) -> None:
    size = 8 * MIB
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"h\n" + b"x" * size + b"\na\n")
    journal = Journal.read_only(Files(), path, ignore)
    tracemalloc.start()
    try:
        (line,) = journal.read(1, 1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert line == b"x" * size
    assert peak < size + MIB
    journal.close()


@pytest.mark.parametrize("at", [1, 2 + MIB, 2 + 2 * MIB])
def test_a_long_line_that_was_changed_is_not_believed(tmp_path: Path, at: int) -> None:
    path = tmp_path / "s.jsonl"
    content = bytearray(b"h\n" + b"x" * 2 * MIB + b"\na\n")
    path.write_bytes(content)
    journal = Journal.read_only(Files(), path, ignore)
    content[at] = ord("y" if content[at] == ord("\n") else "\n")
    path.write_bytes(content)
    with pytest.raises(StorageError):
        journal.read(1, 1)
    journal.close()


@pytest.mark.parametrize("shift", range(4))
def test_text_is_checked_in_pieces(shift: int) -> None:
    line = b"x" * shift + "\U0001f600".encode() * MIB
    tracemalloc.start()
    try:
        require_text(line)
        assert tracemalloc.get_traced_memory()[1] < 8 * MIB
    finally:
        tracemalloc.stop()
    for bad in (line[:-1], line + b"\xff", line[:MIB] + b"\xff" + line[MIB:]):
        with pytest.raises(BadLine):
            require_text(bad)
