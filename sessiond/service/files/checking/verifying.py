"""Verification of a session file as it lies on disk.

Reads through the indexer that openings use, and changes nothing. Blocking; needs no daemon, so the
command line uses it on any path.

    verification = verify_file(Files(), path)
"""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import Final

from msgspec import Struct, structs

from sessiond.errors import SessionCorrupt
from sessiond.journal.disk.failures import telling
from sessiond.journal.disk.files import Files
from sessiond.journal.disk.regular import check_regular, open_regular
from sessiond.journal.scanning import chunks_of, feed
from sessiond.journal.splitter import Splitter, Visit, stored_size, without_end
from sessiond.model.problems import Problem
from sessiond.model.row import Kind
from sessiond.service.files.checking.lint import oddities
from sessiond.service.files.checking.mending import Gaps, Mended
from sessiond.service.files.crash_recovery import report_incomplete, torn_detail
from sessiond.service.log.indexer import Indexer
from sessiond.service.log.open_session import OpenSession
from sessiond.service.ports import Progress
from sessiond.service.store.checks import Verification
from sessiond.session.index import Session


class VerifyScope(Struct, frozen=True):
    """Bounds of a check: a number of bytes (None: all), and the session id in the file's name.

    `named` is None if the name has no session id.
    """

    size: int | None = None
    named: str | None = None
    progress: Progress | None = None

    def upto(self, size: int) -> VerifyScope:
        """Return the look bounded to `size` bytes."""
        return structs.replace(self, size=size)


WHOLE: Final = VerifyScope()


class FileSurvey(Struct, frozen=True):
    """The index of a file, the offsets of its lines, and the lines that a repair would leave out.

    `ends[n]` is where line n begins. `tail` holds the bytes behind the last newline. `mended` is what a repair
    makes of the file if only sessiond writes it; else it ends at the first line that does not parse.
    """

    indexer: Indexer
    ends: array[int]
    tail: bytes
    mended: Mended

    @property
    def lines(self) -> int:
        """Number of lines, with the header and a last line without its newline."""
        return len(self.ends) - 1 + bool(self.tail)

    @property
    def size(self) -> int:
        """Number of bytes that were checked."""
        return self.ends[-1] + stored_size(self.tail)

    @property
    def is_native(self) -> bool:
        """Return whether only sessiond writes the file, so that it may be made anew."""
        return self.indexer.dialect.rules.truncates

    @property
    def damaged(self) -> bool:
        """Return whether a repair would leave out any line, or give an entry another place."""
        is_misplaced = any(one.above is not None or one.is_moved for one in self.mended.entries)
        return is_misplaced or bool(self.left_out())

    def left_out(self) -> list[int]:
        """Return the lines that a repair leaves out."""
        kept = {one.seq for one in self.mended.entries if one.found is None}
        return [seq for seq in range(self.mended.first, self.lines) if seq not in kept]


def verify_file(files: Files, path: Path, look: VerifyScope = WHOLE) -> Verification:
    """Check every line of a file. Raises StorageError."""
    with telling("read", path):
        fd = open_regular(files, path)
        total = 0
        try:
            total = check_regular(files, fd) if look.size is None else look.size
            return verification_of(survey(files, path, fd, look.upto(total)))
        except SessionCorrupt as corrupt:
            return no_session(corrupt, total)
        finally:
            files.close(fd)


def survey(files: Files, path: Path, fd: int, look: VerifyScope = WHOLE) -> FileSurvey:
    """Return the survey of an open file. Raises SessionCorrupt, OSError."""
    indexer = Indexer(path, in_place=True, session_id=look.named)
    ends = array("q", [0])
    gaps = Gaps(indexer)

    def visit(seq: int, line: bytes) -> None:
        gaps.visit(seq, line)
        if seq == 0:
            _compare_ids(indexer, look.named)
        elif indexer.session.is_entry(seq):
            if indexer.upgrade is not None:
                line = indexer.upgrade.again(seq, line)
            for kind, detail in oddities(indexer.dialect, line):
                indexer.session.report(seq, kind, detail)
        elif line.strip():
            gaps.damaged(seq, line)

    splitter = Splitter(ends)
    done = 0
    size = check_regular(files, fd) if look.size is None else look.size
    seq = 0
    for chunk, lines in feed(splitter, chunks_of(files, fd, 0, size)):
        for line in lines:
            visit(seq, without_end(line))
            seq += 1
        done += len(chunk)
        if look.progress is not None:
            look.progress.report(done, size, "bytes")
    tail = splitter.rest()
    tail_is_whole = _take_tail(indexer, len(ends) - 1, tail, visit)
    whole = len(ends) - 1 + (tail_is_whole and bool(tail))
    half = _take_half(indexer, whole)
    return FileSurvey(indexer, ends, tail, gaps.mended(whole if half is None else half))


def _compare_ids(indexer: Indexer, named: str | None) -> None:
    if named is not None and indexer.header.id != named:
        detail = f"the header names another session than the file, which is {named}: that counts"
        indexer.session.report(0, "other_id", detail)


def _take_tail(indexer: Indexer, seq: int, tail: bytes, visit: Visit) -> bool:
    """Return whether the tail is a line; report half a line as a problem."""
    # A file of a single line must be a header; an empty file has none, which raises.
    if seq == 0 or (tail and indexer.parses(tail)):
        visit(seq, tail)
        return True
    if not tail:
        return True
    indexer.session.report(seq, "torn_tail", torn_detail(tail))
    return False


def _take_half(indexer: Indexer, lines: int) -> int | None:
    """Return the first line of sessiond's own append whose last lines are missing at the end."""
    first = indexer.atoms.unfinished_but_for_bad_lines
    if first is None or not indexer.dialect.rules.truncates:
        # An append that is not provably ours stays.
        indexer.intake.end_atom()
        return None
    report_incomplete(indexer, first, lines)
    return first


def verification_of(found: FileSurvey) -> Verification:
    """Return the verification of a file that sessiond may write to."""
    made = verified(found.indexer, lines=found.lines, size=found.size)
    damaged = found.indexer.session.read_only_line is not None
    is_read_only = damaged or found.indexer.is_only_read
    return structs.replace(
        made, repairable=found.is_native and found.damaged, read_only=is_read_only
    )


def verified(indexer: Indexer, *, lines: int, size: int) -> Verification:
    """Return the verification of a file that is only read, by the index of its lines."""
    session = indexer.session
    return Verification(
        ok=not session.problem_count,
        dialect=indexer.dialect.name,
        entries=_entries(session),
        lines=lines,
        bytes=size,
        problems=session.problems,
        problem_count=session.problem_count,
        repairable=False,
        read_only=True,
    )


def no_session(corrupt: SessionCorrupt, size: int) -> Verification:
    """Return the verification of a file without a header."""
    return Verification(
        ok=False,
        dialect=None,
        entries=0,
        lines=0,
        bytes=size,
        problems=[Problem(1, "bad_header", corrupt.message)],
        problem_count=1,
        repairable=False,
        read_only=True,
    )


def verify_memory(opened: OpenSession) -> Verification:
    """Return the verification of a session without a file: nothing can be damaged."""
    session, statistics = opened.session, opened.journal.statistics()
    return Verification(
        ok=True,
        dialect=opened.dialect.name,
        entries=_entries(session),
        lines=statistics.lines,
        bytes=statistics.size_bytes,
        problems=[],
        problem_count=0,
        repairable=False,
        read_only=False,
    )


def _entries(session: Session) -> int:
    return session.seq - session.kinds.count(Kind.NONE, 1)
