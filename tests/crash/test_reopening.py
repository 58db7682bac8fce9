"""Openings make found lines durable before they trust them, also after a failed sync.

After a failed fdatasync the kernel counts the pages as clean: readers see the bytes, a later sync
on a new descriptor reports success, and a power cut loses the bytes.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable

import pytest

from sessiond.errors import StorageError
from sessiond.journal.journal import Journal
from sessiond.journal.profile.lock import owned
from sessiond.testing.disk import FaultDisk
from tests.kit.journals import FILE, FOLDER, LOCKS, lines_of, opened, text
from tests.kit.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.platform

STORED = [b'{"header":1}', b'{"first":1}']
LOST = [b'{"lost":1}', b'{"lost":2}']
NEXT = [b'{"next":1}']
BOTH = pytest.mark.parametrize("truncates", [True, False], ids=["native", "foreign"])


def new_disk(content: bytes = text(STORED)) -> FaultDisk:
    disk = FaultDisk(FOLDER, LOCKS)
    disk.put(FILE, content)
    return disk


def closed(disk: FaultDisk, journal: Journal) -> FaultDisk:
    journal.close()
    return disk


def killed(disk: FaultDisk, _journal: Journal) -> FaultDisk:
    return disk.kill()


ENDS = pytest.mark.parametrize("end", [closed, killed])
End = Callable[[FaultDisk, Journal], FaultDisk]


def lose(disk: FaultDisk, journal: Journal) -> None:
    """Let the sync of a batch fail, and the repair behind it, so that the batch stays in the file."""
    disk.fail("fdatasync")
    disk.fail("open_append")
    with pytest.raises(StorageError):
        journal.append(LOST, sync=True)
    disk.heal()
    assert disk.content(FILE) == text(STORED + LOST)
    assert disk.crash(keep=10_000).content(FILE) == text(STORED)


def after_a_lost_batch(end: End = killed, *, truncates: bool = False) -> FaultDisk:
    """Return a disk without an owner of its file, whose last batch a failed sync has lost."""
    disk = new_disk()
    journal = opened(disk, truncates=truncates)
    lose(disk, journal)
    return end(disk, journal)


def watched(disk: FaultDisk, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Record the offset and size of every write in place from now on."""
    placed: list[tuple[int, int]] = []
    real = disk.pwrite

    def pwrite(fd: int, data: bytes | memoryview, offset: int) -> int:
        placed.append((offset, len(data)))
        return real(fd, data, offset)

    monkeypatch.setattr(disk, "pwrite", pwrite)
    return placed


# -- after a failed sync ----------------------------------------------------------------


@BOTH
@ENDS
def test_lines_that_a_failed_sync_has_lost_are_durable_once_an_opening_has_found_them(
    end: End, truncates: bool
) -> None:
    disk = after_a_lost_batch(end, truncates=truncates)
    assert lines_of(opened(disk, truncates=truncates)) == STORED + LOST
    assert disk.crash().content(FILE) == text(STORED + LOST)


@BOTH
@ENDS
def test_an_acknowledged_line_is_not_glued_to_what_a_failed_sync_has_lost(
    end: End, truncates: bool
) -> None:
    disk = after_a_lost_batch(end, truncates=truncates)
    opened(disk, truncates=truncates).append(NEXT, sync=True)
    assert disk.crash().content(FILE) == text(STORED + LOST + NEXT)


@BOTH
@ENDS
def test_a_line_without_a_sync_is_durable_after_a_reopening_although_a_later_append_failed(
    end: End, truncates: bool
) -> None:
    disk = new_disk()
    journal = opened(disk, truncates=truncates)
    journal.append(LOST, sync=False)
    disk.fail("write")
    disk.fail("fdatasync")
    with pytest.raises(StorageError):
        journal.append(NEXT, sync=True)
    disk = end(disk, journal)
    assert lines_of(opened(disk, truncates=truncates)) == STORED + LOST
    assert disk.crash().content(FILE) == text(STORED + LOST)


@BOTH
def test_an_opening_whose_sync_fails_leaves_all_in_doubt_to_the_next(truncates: bool) -> None:
    disk = new_disk(b"")
    disk.write_as_another(FILE, text(STORED))
    disk.fail("fdatasync")
    with pytest.raises(StorageError):
        opened(disk, truncates=truncates)
    opened(disk, truncates=truncates)
    assert disk.crash().content(FILE) == text(STORED)


@pytest.mark.parametrize("content", [text(STORED) + b'{"half":1}', b'{"header":1}'])
def test_a_completed_line_is_durable_although_the_sync_of_an_earlier_completion_failed(
    content: bytes,
) -> None:
    disk = new_disk(b"")
    disk.write_as_another(FILE, content)
    journal = opened(disk, truncates=False)
    journal.take_tail()
    disk.fail("fdatasync")
    with pytest.raises(StorageError):
        journal.append(LOST, sync=True)
    journal.close()
    journal = opened(disk, truncates=False)
    if journal.tail:
        journal.take_tail()
    journal.append(NEXT, sync=True)
    stored = disk.crash().content(FILE)
    assert stored.startswith(content + b"\n")
    assert stored.endswith(text(NEXT))


def test_a_header_in_doubt_is_durable_once_it_is_a_line() -> None:
    disk = new_disk(b"")
    disk.write_as_another(FILE, b'{"header":1}')
    disk.fail("fdatasync")
    with pytest.raises(StorageError):
        opened(disk, truncates=False)
    opened(disk, truncates=False).take_tail()
    assert disk.crash().content(FILE) == b'{"header":1}'


def test_what_is_appended_behind_a_cut_is_in_doubt_after_a_failed_sync() -> None:
    disk = new_disk(text(STORED + NEXT))
    journal = opened(disk, truncates=True)
    journal.cut_tail("2026", 1)
    disk.fail("fdatasync")
    disk.fail("open_append")
    with pytest.raises(StorageError):
        journal.append(LOST, sync=True)
    disk = disk.kill()
    assert lines_of(opened(disk, truncates=True)) == STORED[:1] + LOST
    assert disk.crash().content(FILE) == text(STORED[:1] + LOST)


def test_a_file_in_doubt_that_only_its_name_is_changed_of_stays_in_doubt() -> None:
    disk = after_a_lost_batch()
    with owned(disk, FILE, LOCKS):
        pass
    opened(disk, truncates=False)
    assert disk.crash().content(FILE) == text(STORED + LOST)


@BOTH
def test_a_copy_in_the_place_of_the_file_whose_sync_failed_is_stored_again_at_the_next_append(
    truncates: bool,
) -> None:
    disk = new_disk()
    journal = opened(disk, truncates=truncates)
    copy = FOLDER / "copy"
    fd = disk.create(copy)
    disk.write(fd, text(STORED))
    disk.close(fd)
    disk.rename(copy, FILE)
    disk.fsync_folder(FOLDER)
    disk.fail("fdatasync")
    with pytest.raises(StorageError):
        journal.append(NEXT, sync=True)
    journal.append(NEXT, sync=True)
    assert disk.crash().content(FILE) == text(STORED + NEXT)


# -- what it costs, and what it must not do ------------------------------------------------


def test_an_opening_after_an_orderly_end_writes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = new_disk()
    placed = watched(disk, monkeypatch)
    journal = opened(disk, truncates=False)
    journal.append(LOST, sync=True)
    journal.close()
    opened(disk, truncates=False).close()
    assert placed == []
    assert [path for path in disk.paths if path.parent == LOCKS] == []


def test_an_opening_after_a_kill_writes_only_what_was_appended_since_the_one_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = new_disk()
    journal = opened(disk, truncates=False)
    journal.append(LOST, sync=True)
    disk = disk.kill()
    placed = watched(disk, monkeypatch)
    opened(disk, truncates=False).close()
    assert placed == [(len(text(STORED)), len(text(LOST)))]


def test_an_opening_after_a_kill_of_the_process_that_made_the_file_writes_what_was_appended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = FaultDisk(FOLDER, LOCKS)
    journal = Journal.create(disk, FILE, STORED[0], locks=LOCKS)
    journal.append(LOST, sync=True)
    disk = disk.kill()
    placed = watched(disk, monkeypatch)
    opened(disk, truncates=False).close()
    assert placed == [(len(text(STORED[:1])), len(text(LOST)))]


def test_a_file_that_is_refused_is_not_written_to_although_it_is_in_doubt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = after_a_lost_batch()
    placed = watched(disk, monkeypatch)

    def refuse(_seq: int, _lines: list[bytes]) -> None:
        raise ValueError("no header")

    with pytest.raises(ValueError, match="no header"):
        Journal.open(disk, FILE, refuse, locks=LOCKS)
    assert placed == []
    opened(disk, truncates=False)
    assert disk.crash().content(FILE) == text(STORED + LOST)


def test_what_another_program_appends_while_an_opening_writes_again_stays_behind() -> None:
    disk = after_a_lost_batch()
    found: list[Journal] = []
    with disk.hold("pwrite") as gate:
        opening = threading.Thread(target=lambda: found.append(opened(disk, truncates=False)))
        opening.start()
        assert gate.reached.wait(PATIENCE_SECONDS)
        disk.write_as_another(FILE, text(NEXT))
    opening.join(PATIENCE_SECONDS)
    assert disk.content(FILE) == text(STORED + LOST + NEXT)
    assert disk.crash().content(FILE) == text(STORED + LOST + NEXT)
    found[0].look()
    assert lines_of(found[0]) == STORED + LOST + NEXT


def test_an_opening_is_refused_if_the_kernel_drops_what_it_has_just_read() -> None:
    disk = after_a_lost_batch()
    refused: list[StorageError] = []

    def open_it() -> None:
        with pytest.raises(StorageError) as caught:
            opened(disk, truncates=False)
        refused.append(caught.value)

    with disk.hold("open_append") as gate:
        opening = threading.Thread(target=open_it)
        opening.start()
        assert gate.reached.wait(PATIENCE_SECONDS)
        disk.evict(FILE)
    opening.join(PATIENCE_SECONDS)
    assert refused[0].data()["errno"] == "ESTALE"
    assert opened(disk, truncates=False).tail == bytes(len(text(LOST)))


def test_nothing_is_appended_while_no_later_owner_could_tell_what_is_in_doubt() -> None:
    disk = new_disk()
    for nth in (1, 2, 3):
        disk.fail("create", nth=nth, errno=errno.ENOSPC)
    journal = opened(disk, truncates=False)
    assert lines_of(journal) == STORED
    with pytest.raises(StorageError) as caught:
        journal.append(LOST, sync=True)
    assert caught.value.data()["errno"] == "ENOSPC"
    assert lines_of(journal) == STORED
    journal.append(LOST, sync=True)
    disk = disk.kill()
    assert lines_of(opened(disk, truncates=False)) == STORED + LOST
