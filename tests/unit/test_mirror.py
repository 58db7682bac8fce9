"""Logs of files that sessiond only reads: what was read stays, whatever becomes of the file."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from sessiond.errors import StorageError
from sessiond.journal.disk.files import Files, FileStat
from sessiond.journal.mirror import Mirror
from sessiond.journal.source import FileSource
from sessiond.journal.splitter import LongLine
from sessiond.journal.store import Replaced
from sessiond.limits import LINE_BYTES_MAX
from sessiond.testing.disk import FaultDisk
from sessiond.testing.journals import HEADER, LINES
from tests.kit.journals import FILE, FOLDER, lines_of, text

SPOOLS = Path("/pending")


FOLDERS = (FOLDER, SPOOLS)


def translate(lines: Sequence[bytes], is_end: bool) -> list[bytes]:
    del is_end
    return [translated(line) for line in lines]


def translated(line: bytes) -> bytes:
    """Return a line as a log has it here; a line that is too long stays as it is."""
    return line if isinstance(line, LongLine) else b"<" + line + b">"


def mirror(disk: FaultDisk) -> Mirror:
    """Return the log of the file, which was read to its end."""
    source = FileSource(disk, FILE)
    log = Mirror(disk, source, header=HEADER, translate=translate, folder=SPOOLS)
    log.index(lambda _seq, _lines: None)
    return log


def test_each_line_is_a_line_of_the_log(disk: FaultDisk) -> None:
    disk.put(FILE, text([*LINES]) + b"half")
    log = mirror(disk)
    stored = [HEADER, *map(translated, LINES)]
    assert lines_of(log) == stored
    assert b"".join(log.chunks(1, 2)) == text(stored[1:3])
    assert log.read_many([3, 1]) == [stored[3], stored[1]]
    assert log.line_bytes(1) == len(stored[1])
    assert log.span_bytes(0, log.line_count - 1) == log.size_bytes
    assert log.size_bytes + log.slack_bytes == disk.stat(FILE).st_size
    assert log.held_bytes == len(b"half")
    assert log.statistics().lines == len(stored)
    log.close()
    # The spool has no name, so nothing of it is left.
    assert disk.paths == [FILE]
    assert disk.open_descriptors == 0


def test_a_visit_gets_the_lines_of_the_log_in_order(disk: FaultDisk) -> None:
    disk.put(FILE, text([*LINES]))
    visited: list[tuple[int, bytes]] = []
    source = FileSource(disk, FILE)
    log = Mirror(disk, source, header=HEADER, translate=translate, folder=SPOOLS)
    log.index(lambda first, lines: visited.extend(enumerate(lines, first)))
    assert visited == [(at, translated(line)) for at, line in enumerate(LINES, 1)]


class GrowingDisk(FaultDisk):
    """A disk on which the file grows right behind the look of this number."""

    grows_behind = 0

    def fstat(self, fd: int) -> FileStat:
        found = super().fstat(fd)
        self.grows_behind -= 1
        if self.grows_behind == 0:
            self.write_as_another(FILE, b"b\n")
        return found


@pytest.mark.parametrize("looks", range(1, 9))
def test_what_comes_between_two_looks_of_one_read_is_found(looks: int) -> None:
    disk = GrowingDisk(FOLDER, SPOOLS)
    disk.put(FILE, b"a\n")
    disk.grows_behind = looks
    log = mirror(disk)
    # The file may grow behind a question, too, so each notice of a change is one more.
    for _ in range(looks + 1):
        if log.has_grown():
            log.look()
    assert disk.grows_behind <= 0
    assert lines_of(log) == [HEADER, b"<a>", b"<b>"]
    log.close()


def test_growth_is_found_once_its_lines_are_whole(disk: FaultDisk) -> None:
    disk.put(FILE, b"a\n")
    log = mirror(disk)
    assert not log.has_grown()
    disk.write_as_another(FILE, b"b")
    assert log.has_grown()
    log.look()
    assert (log.take_found(), log.held_bytes, log.has_grown()) == ([], 1, False)
    disk.write_as_another(FILE, b"c\nd\n")
    log.look()
    found = log.take_found()
    assert [(one.line, one.external) for one in found] == [(b"<bc>", True), (b"<d>", True)]
    assert log.take_found() == []
    assert lines_of(log) == [HEADER, b"<a>", b"<bc>", b"<d>"]


def test_a_full_disk_loses_no_line(disk: FaultDisk) -> None:
    disk.put(FILE, b"a\n")
    log = mirror(disk)
    disk.write_as_another(FILE, b"b\n")
    disk.fail("pwrite", errno=errno.ENOSPC, partial=2)
    with pytest.raises(StorageError) as caught:
        log.look()
    assert caught.value.data()["errno"] == "ENOSPC"
    assert lines_of(log) == [HEADER, b"<a>"]
    assert log.has_grown()
    # An index of these lines would lack the line that waits.
    assert not log.is_at_rest
    disk.write_as_another(FILE, b"c\n")
    log.look()
    assert not log.is_at_rest
    assert [one.line for one in log.take_found()] == [b"<b>", b"<c>"]
    assert log.is_at_rest
    assert lines_of(log) == [HEADER, b"<a>", b"<b>", b"<c>"]
    assert not log.has_grown()


@pytest.mark.parametrize("op", ["create", "unlink", "pwrite"])
def test_an_opening_that_fails_leaves_nothing(disk: FaultDisk, op: str) -> None:
    disk.put(FILE, b"a\n")
    disk.fail(op, errno=errno.ENOSPC)
    source = FileSource(disk, FILE)
    with pytest.raises(OSError, match=r".") as caught:
        Mirror(disk, source, header=HEADER, translate=translate, folder=SPOOLS)
    assert caught.value.errno == errno.ENOSPC
    source.close()
    assert disk.open_descriptors == 0


def replace(disk: FaultDisk) -> None:
    """Put another file at the path."""
    other = FILE.with_name("other")
    disk.put(other, b"a\nb\n")
    disk.rename(other, FILE)


def shorten(disk: FaultDisk) -> None:
    """Cut the file."""
    fd = disk.open_update(FILE)
    disk.truncate(fd, 2)
    disk.close(fd)


def change(disk: FaultDisk) -> None:
    """Change a byte of the file."""
    fd = disk.open_update(FILE)
    disk.pwrite(fd, b"x", 0)
    disk.close(fd)
    disk.set_time(FILE, disk.seconds + 9)


def write_anew(disk: FaultDisk) -> None:
    """Cut the file and write longer lines."""
    shorten(disk)
    disk.write_as_another(FILE, b"longer\n" * 200)


REWRITES = {
    "another file": (replace, "epoch"),
    "shortened": (shorten, "truncated"),
    "changed": (change, "epoch"),
    "written anew": (write_anew, "epoch"),
}


@pytest.mark.parametrize("how", REWRITES)
def test_a_file_that_lost_known_bytes_is_another_log(disk: FaultDisk, how: str) -> None:
    first = b"a" * 1000
    disk.put(FILE, first + b"\nb\n")
    log = mirror(disk)
    rewrite, reason = REWRITES[how]
    rewrite(disk)
    with pytest.raises(Replaced) as caught:
        log.look()
    assert caught.value.reason == reason
    # Its readers still get what they got before.
    assert lines_of(log) == [HEADER, translated(first), b"<b>"]


def test_a_touched_file_is_the_same_log(disk: FaultDisk) -> None:
    disk.put(FILE, b"a\nb\n")
    log = mirror(disk)
    disk.set_time(FILE, disk.seconds + 9)
    assert log.has_grown()
    log.look()
    assert not log.has_grown()
    assert not log.is_rewritten()


def test_nothing_is_written_to_the_file(disk: FaultDisk) -> None:
    disk.put(FILE, b"a\n")
    log = mirror(disk)
    with pytest.raises(StorageError) as caught:
        log.append([b"x"], sync=True)
    assert caught.value.data()["errno"] == "EROFS"
    with pytest.raises(StorageError) as caught:
        log.move(FOLDER / "elsewhere")
    assert caught.value.data()["errno"] == "EROFS"
    log.sync()
    log.close_half()
    assert (log.half(), log.half_bytes) == (b"", 0)
    assert disk.content(FILE) == b"a\n"


def test_a_line_that_is_too_long_has_a_stand_in(tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    with path.open("wb") as file:
        file.write(b"a\n" + b"x" * 8)
        os.truncate(path, 2 + LINE_BYTES_MAX + 8)
        file.seek(0, os.SEEK_END)
        file.write(b"\nb\n")
    found: list[bytes] = []
    source = FileSource(Files(), path)
    log = Mirror(Files(), source, header=HEADER, translate=translate, folder=tmp_path)
    log.index(lambda _seq, lines: found.extend(lines))
    assert (found[0], found[2]) == (b"<a>", b"<b>")
    assert isinstance(found[1], LongLine)
    assert len(found[1]) < 8192
    assert log.line_count == 4
    log.close()
    assert list(tmp_path.iterdir()) == [path]
