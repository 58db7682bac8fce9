"""Kept copies of lines: what is found again, and what leaves no file."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from sessiond.journal import scanning
from sessiond.journal.disk.files import Files
from sessiond.journal.kept_copies import KeptCopies, KeptCopy
from sessiond.journal.splitter import joined
from sessiond.limits import SPOOL_ROOM_BYTES

PATH = Path("a-session")
LINES = [b"header", b"", b"x" * 100, b"\xff\x00", b"last"]


@pytest.fixture
def copies(tmp_path: Path) -> KeptCopies:
    return KeptCopies(Files(), tmp_path / "copies", 10_000)


def opened(copies: KeptCopies, name: str = "1") -> KeptCopy:
    copy = copies.copy(name, PATH)
    assert copy is not None
    return copy


def kept(copies: KeptCopies, lines: list[bytes], name: str = "1") -> None:
    copy = opened(copies, name)
    copy.put(lines)
    copy.take(lines)
    copy.close()


def found(copies: KeptCopies, name: str = "1") -> list[bytes]:
    copy = opened(copies, name)
    lines = [line for piece in copy.found() for line in piece]
    copy.doubt()
    copy.close()
    assert all(line.endswith(b"\n") for line in lines)
    return [line[:-1] for line in lines]


@pytest.mark.parametrize("chunk", [1, 7, 103, 4096])
def test_the_next_opening_finds_the_lines(
    copies: KeptCopies, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(scanning, "_CHUNK_BYTES", chunk)
    kept(copies, LINES)
    assert found(copies) == LINES


def test_a_copy_goes_on_behind_its_lines(copies: KeptCopies) -> None:
    kept(copies, LINES)
    copy = opened(copies)
    for piece in copy.found():
        copy.take_stored(piece)
    copy.put([b"more"])
    copy.take([b"more"])
    assert copy.reader.read(3, 5) == [b"\xff\x00", b"last", b"more"]
    copy.close()
    assert found(copies) == [*LINES, b"more"]


def test_room_for_lines_is_no_part_of_them(copies: KeptCopies, tmp_path: Path) -> None:
    copy = opened(copies)
    assert not copy.has_room(1)
    size = copy.put(LINES)
    copy.keep_room(size)
    copy.take(LINES)
    assert copy.has_room(SPOOL_ROOM_BYTES)
    assert not copy.has_room(SPOOL_ROOM_BYTES + 1)
    place = tmp_path / "copies" / "1.lines"
    left_by_a_kill = place.read_bytes()
    assert len(left_by_a_kill) == size + SPOOL_ROOM_BYTES
    copy.settle()
    assert not copy.has_room(1)
    copy.keep_room(0)
    assert copy.has_room(1)
    copy.close()
    assert place.read_bytes() == joined(LINES)
    place.write_bytes(left_by_a_kill)
    assert found(copies) == LINES


def test_a_disk_without_room_for_more_takes_the_lines(tmp_path: Path) -> None:
    class Nearly(Files):
        """A disk that is full but for some lines."""

        def pwrite(self, fd: int, data: bytes | memoryview, offset: int) -> int:
            if len(data) > 1_000:
                raise OSError(errno.ENOSPC, "no room")
            return super().pwrite(fd, data, offset)

    copies = KeptCopies(Nearly(), tmp_path / "copies", 10_000)
    copy = opened(copies)
    copy.keep_room(copy.put(LINES))
    copy.take(LINES)
    assert not copy.has_room(1)
    copy.close()
    assert found(copies) == LINES


def test_lines_that_were_put_and_not_taken_are_not_kept(copies: KeptCopies) -> None:
    copy = opened(copies)
    copy.put(LINES)
    copy.take(LINES)
    copy.put([b"never stored"])
    copy.close()
    assert found(copies) == LINES


def test_half_a_line_is_left_out(copies: KeptCopies, tmp_path: Path) -> None:
    kept(copies, LINES)
    with (tmp_path / "copies" / "1.lines").open("ab") as file:
        file.write(b"half a")
    assert found(copies) == LINES


def test_a_copy_is_only_for_its_user(copies: KeptCopies, tmp_path: Path) -> None:
    kept(copies, LINES)
    assert (tmp_path / "copies").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "copies" / "1.lines").stat().st_mode & 0o777 == 0o600


def test_a_copy_in_use_is_no_copy_for_another_log(copies: KeptCopies) -> None:
    copy = opened(copies)
    assert copies.copy("1", PATH) is None
    copy.close()
    assert found(copies) == []


def test_a_copy_that_is_forgotten_in_use_ends_with_its_log(copies: KeptCopies) -> None:
    copy = opened(copies)
    copy.put(LINES)
    copy.take(LINES)
    copies.forget("1")
    assert copy.reader.read(4, 4) == [b"last"]
    copy.close()
    assert copies.names() == []


def test_a_copy_that_is_closed_twice_touches_no_other_file(
    copies: KeptCopies, tmp_path: Path
) -> None:
    copy = opened(copies)
    copy.put(LINES)
    copy.take(LINES)
    copy.close()
    # The next file has the descriptor that the copy had.
    other = tmp_path / "other"
    other.write_bytes(b"x" * 1000)
    fd = os.open(other, os.O_RDWR)
    assert fd == copy.reader.fd
    again = opened(copies)
    copy.close()
    assert other.stat().st_size == 1000
    # The copy is in use by another log.
    assert copies.copy("1", PATH) is None
    os.close(fd)
    again.close()


def test_doubted_lines_are_not_kept(copies: KeptCopies) -> None:
    kept(copies, LINES)
    assert copies.names() == ["1"]
    assert found(copies) == LINES
    assert copies.names() == []


def test_the_copies_that_were_closed_least_recently_make_room(
    copies: KeptCopies, tmp_path: Path
) -> None:
    for number in range(1, 4):
        kept(copies, [b"x" * 3000], str(number))
        place = tmp_path / "copies" / f"{number}.lines"
        os.utime(place, ns=(number, number))
    copy = opened(copies, "1")
    assert sum(map(len, copy.found())) == 1
    kept(copies, [b"x" * 3000], "4")
    # The first one is older, but in use.
    assert sorted(copies.names()) == ["1", "3", "4"]
    copy.close()


def test_a_folder_that_cannot_be_used_costs_the_copy_alone(
    copies: KeptCopies, tmp_path: Path
) -> None:
    (tmp_path / "copies").write_bytes(b"no folder")
    assert copies.copy("1", PATH) is None
    assert copies.names() == []
    (tmp_path / "copies").unlink()
    (tmp_path / "copies").mkdir()
    (tmp_path / "copies" / "1.lines").mkdir()
    assert copies.copy("1", PATH) is None
    assert opened(copies, "2").close() is None  # type: ignore[func-returns-value]
