"""Repair of a session file: a new file without the bad lines, and the old file in the trash.

Law: the new file has every line that parses, byte for byte and in order, but for what `mending` says of
missing parents and of damaged lines. At each moment, and after a
crash at any moment, the session's name has the old file or the new one, whole. Only files that no
other program writes are made anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from msgspec import Struct

from sessiond.errors import SessionCorrupt
from sessiond.journal.disk.descriptor import close_quietly, write_all
from sessiond.journal.disk.failures import telling
from sessiond.journal.disk.files import Files
from sessiond.journal.disk.regular import check_regular, open_regular
from sessiond.journal.profile.making import write_unfinished
from sessiond.journal.scanning import chunks_of
from sessiond.journal.splitter import without_end
from sessiond.limits import LATE_LINE_SECONDS, LATE_LINES_WAIT_SECONDS, PROBLEMS_MAX
from sessiond.service.files.checking.mending import below
from sessiond.service.files.checking.verifying import WHOLE, FileSurvey, VerifyScope, survey
from sessiond.service.log.open_session import OpenSession
from sessiond.service.store.checks import Repair


class Repaired(Struct, frozen=True):
    """A plan that was carried out, and how many bytes of the old file the plan covers.

    `unfinished` is the new file, which does not have the session's name yet; None if the plan has a
    reason not to write a file.
    """

    plan: Repair
    size: int
    unfinished: Path | None


def plan_repair(
    files: Files, path: Path, look: VerifyScope = WHOLE, *, dry_run: bool = True
) -> Repair:
    """Return what a repair would do, without a change. Raises SessionCorrupt, StorageError."""
    with telling("read", path):
        fd = open_regular(files, path)
        try:
            total = check_regular(files, fd) if look.size is None else look.size
            found = _survey(files, path, fd, look.upto(total))
        finally:
            files.close(fd)
    return plan_of(found, path, dry_run=dry_run)


def plan_in_memory(opened: OpenSession, *, dry_run: bool) -> Repair:
    """Return the plan for a session without a file: there is nothing to repair."""
    return Repair(
        dry_run=dry_run,
        repaired=False,
        problems=[],
        problem_count=0,
        kept=opened.journal.line_count,
        dropped=0,
        dropped_lines=[],
        reason="the session is in memory only: there is no file to repair",
    )


def write_repaired(files: Files, path: Path, fd: int, look: VerifyScope = WHOLE) -> Repaired:
    """Write the kept lines to a new file, durably, if the plan has no reason not to.

    Raises SessionCorrupt for a file that may not be made anew, StorageError.
    """
    with telling("repair", path):
        found = _survey(files, path, fd, look)
        plan = plan_of(found, path, dry_run=False)
        unfinished = None
        if plan.reason is None:
            out, unfinished = write_unfinished(files, path.parent, kept_lines(files, fd, found))
            close_quietly(files, out)
    return Repaired(plan, found.size, unfinished)


def bring_over(files: Files, fd: int, start: int, young: Path) -> int:
    """Append the old file's whole lines from `start` on, durably; return where they end.

    Foreign writers may append to the old file until the new file has its name. Raises OSError.
    """
    end = at = start
    # The size of a file can stand inside a line: the kernel takes a write page by page.
    for chunk in chunks_of(files, fd, start, files.fstat(fd).st_size):
        last = chunk.rfind(b"\n")
        end = end if last < 0 else at + last + 1
        at += len(chunk)
    if end > start:
        _append(files, young, chunks_of(files, fd, start, end))
    return end


def bring_late_lines(files: Files, fd: int, start: int, young: Path) -> None:
    """Append what programs that had the old file open still write there, until they are quiet.

    Half a line that does not become whole gets an end, so that no other line joins the half. Raises OSError.
    """
    end = bring_over(files, fd, start, young)
    for _ in range(int(LATE_LINES_WAIT_SECONDS / LATE_LINE_SECONDS)):
        files.pause(LATE_LINE_SECONDS)
        start, end = end, bring_over(files, fd, end, young)
        if start == end == files.fstat(fd).st_size:
            return
    size = files.fstat(fd).st_size
    if size > end:
        _append(files, young, chain(chunks_of(files, fd, end, size), [b"\n"]))


def _append(files: Files, path: Path, chunks: Iterable[bytes]) -> None:
    """Append bytes to a file, durably. Raises OSError."""
    out = files.open_append(path)
    try:
        for chunk in chunks:
            write_all(files, out, chunk)
        files.fdatasync(out)
    finally:
        files.close(out)


def _survey(files: Files, path: Path, fd: int, look: VerifyScope) -> FileSurvey:
    try:
        return survey(files, path, fd, look)
    except SessionCorrupt as corrupt:
        # Without the header the other lines have no meaning.
        raise SessionCorrupt(
            f"{corrupt.message}. It cannot be repaired: put a good copy in its place, write a"
            " header line by hand, or session/delete it",
            path=str(path),
            line=1,
            repairable=False,
        ) from corrupt


def plan_of(found: FileSurvey, path: Path, *, dry_run: bool) -> Repair:
    """Return what a repair of a file would do. Raises SessionCorrupt."""
    session = found.indexer.session
    reason = None
    if not found.damaged:
        reason = "every line is whole, and no parent is missing: there is nothing to do"
    elif not found.is_native:
        reason = (
            f"a file of {found.indexer.dialect.name} is that program's too, so it is never made"
            " anew; what does not parse is skipped and keeps nobody from writing"
        )
        if not dry_run:
            line = found.left_out()[0] + 1
            message = f"{path.name}, line {line}: {reason}"
            raise SessionCorrupt(message, path=str(path), line=line, repairable=False)
    entries = found.mended.entries if reason is None else ()
    dropped = [] if reason is not None else found.left_out()
    return Repair(
        dry_run=dry_run,
        repaired=False,
        problems=session.problems,
        problem_count=session.problem_count,
        kept=found.lines - len(dropped),
        dropped=len(dropped),
        dropped_lines=[seq + 1 for seq in dropped[:PROBLEMS_MAX]],
        recovered=sum(one.found is not None for one in entries),
        reparented=sum(one.above is not None and one.found is None for one in entries),
        moved=sum(one.is_moved for one in entries),
        reason=reason,
    )


def kept_lines(files: Files, fd: int, found: FileSurvey) -> Iterator[bytes]:
    """Yield the bytes of the new file: lines that stay as they are together, and each other line alone."""

    def lines(start: int, end: int) -> Iterator[bytes]:
        if start < end:
            has_newline = end < len(found.ends)
            upto = found.ends[end] if has_newline else found.size
            yield from chunks_of(files, fd, found.ends[start], upto)
            if not has_newline:
                yield b"\n"

    start, end = 0, found.mended.first
    for entry in found.mended.entries:
        if entry.found is None and entry.above is None and entry.seq == end:
            end += 1
            continue
        yield from lines(start, end)
        start, end = (end, end) if entry.found is not None else (entry.seq, entry.seq + 1)
        if entry.found is not None or entry.above is not None:
            line = entry.found or without_end(b"".join(lines(start, end)))
            yield (line if entry.above is None else below(line, entry.above)) + b"\n"
            start = end
    yield from lines(start, end)
