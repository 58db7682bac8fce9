"""Replacements of an open file: one with all known bytes is adopted and made durable."""

from __future__ import annotations

import pytest

from sessiond.journal.store import Replaced
from sessiond.testing.disk import FaultDisk
from tests.kit.journals import FILE, FOLDER, LOCKS, opened_on

pytestmark = pytest.mark.platform

COPY = FOLDER / "copy"
MIB = 1024 * 1024
BOTH = pytest.mark.parametrize("truncates", [True, False], ids=["native", "foreign"])


def replace(disk: FaultDisk, content: bytes) -> None:
    """Put another file in its place as a program does that waits for no disk but for the name."""
    fd = disk.create(COPY)
    disk.write(fd, content)
    disk.close(fd)
    disk.rename(COPY, FILE)
    disk.fsync_folder(FOLDER)


@BOTH
@pytest.mark.parametrize("at", [0, 4095, 64 * 1024 - 1, 64 * 1024, MIB - 1, MIB, MIB + 70_000])
@pytest.mark.parametrize("more", [b"", b'{"more":1}\n'], ids=["as long", "longer"])
def test_a_file_that_differs_in_one_byte_anywhere_is_another_log(
    truncates: bool, at: int, more: bytes
) -> None:
    """A longer file is compared here alone: a look sums up only a file that has not grown."""
    disk = FaultDisk(FOLDER, LOCKS)
    content = b"x" * (MIB + 80_000) + b'\n{"last":1}\n'
    journal = opened_on(disk, content, truncates=truncates)
    replace(disk, content[:at] + b"y" + content[at + 1 :] + more)
    with pytest.raises(Replaced, match="epoch"):
        journal.look()


@BOTH
def test_a_copy_that_is_gone_over_to_is_durable_before_anything_is_appended(
    truncates: bool,
) -> None:
    disk = FaultDisk(FOLDER, LOCKS)
    content = b'{"header":1}\n{"first":1}\n'
    journal = opened_on(disk, content, truncates=truncates)
    replace(disk, content)
    assert disk.crash().content(FILE) == b""
    journal.look()
    assert disk.crash().content(FILE) == content
