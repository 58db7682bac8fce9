"""Opening a session file: its lines into an index, and what a crash left at its end.

Law: only what can be shown to be the rest of a write of sessiond's own is cut, copied aside first.
Everything else at the end is another program's: half a line that has not grown for a second is
closed with a blank and a newline, kept and reported, as it is while a session is open. Half a line
is shown to be the rest of a write if it has zero bytes, which only a power cut leaves, or if it
begins as every line of sessiond's does and one of these holds:

* an earlier owner of the file did not end in order, and had written no further when it noted that;
* half an append that sessiond made in this session stands right before it;
* the file was last written to before this machine was started, so that no program goes on with it.

An append of several entries whose last ones never came is cut if its first line shows that sessiond
made it in this session. A file without a valid header is refused before it is written to.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from sessiond.journal.failures import telling
from sessiond.journal.files import Files
from sessiond.journal.journal import Journal
from sessiond.journal.writer import CLOSING
from sessiond.limits import HALF_LINE_SECONDS, HALF_LINE_WAIT_SECONDS
from sessiond.model.problems import Problem
from sessiond.service.files.indexer import Indexer

__all__ = ["open_mended"]

_OWN_BEGINNING: Final = b'{"type":"'


def open_mended(
    files: Files,
    path: Path,
    *,
    locks: Path,
    stamp: Callable[[], str],
    session_id: str | None = None,
) -> tuple[Journal, Indexer]:
    """The open file and its index; what was mended is among the problems.

    `stamp()` names the copy of what is cut; `session_id` is the id under which the file is served.
    Raises SessionCorrupt, SessionLocked, StorageError.
    """
    mended: list[Problem] = []
    waits = int(HALF_LINE_WAIT_SECONDS / HALF_LINE_SECONDS)
    while True:
        indexer = Indexer(path, in_place=True, session_id=session_id)
        journal = Journal.open(files, path, indexer.visit, locks=locks)
        try:
            waits -= 1
            goes_on = waits >= 0 and _goes_on(files, path, journal, indexer)
            if not goes_on:
                mended += _mend_tail(files, journal, indexer, stamp)
                atom = indexer.incomplete_atom
                if atom is None:
                    break
                mended.append(_cut_atom(journal, atom, stamp))
        except BaseException:
            # The next opening is to find what this one has found.
            journal.close(settled=journal.left_at is None)
            raise
        # Its first lines are in the index; it is made again without them.
        journal.close(settled=journal.left_at is None)
        if goes_on:
            files.pause(HALF_LINE_SECONDS)
    for problem in mended:
        indexer.session.report(problem.line, problem.kind, problem.detail)
    return journal, indexer


def _goes_on(files: Files, path: Path, journal: Journal, indexer: Indexer) -> bool:
    """Whether somebody may be writing the last line just now."""
    if not journal.tail or not journal.line_count or indexer.parses(journal.tail):
        return False
    with telling("look at", path):
        grown_at = files.stat(path).st_mtime_ns / 1e9
    return 0 <= files.now() - grown_at < HALF_LINE_SECONDS


def _is_ours(files: Files, journal: Journal, indexer: Indexer) -> bool:
    """Whether half a line at the end can be shown to be the rest of a write of sessiond's own."""
    tail = journal.tail
    if b"\0" in tail:
        return True
    if not (tail.startswith(_OWN_BEGINNING) or _OWN_BEGINNING.startswith(tail)):
        return False
    left_at = journal.left_at
    if left_at is not None and left_at <= journal.size_bytes:
        return True
    if indexer.incomplete_atom is not None:
        return True
    with telling("look at", journal.path):
        written_at = files.stat(journal.path).st_mtime_ns / 1e9
    # Whoever sets a clock sets it by the second.
    return written_at + 1 < files.booted_at()


def _mend_tail(
    files: Files, journal: Journal, indexer: Indexer, stamp: Callable[[], str]
) -> list[Problem]:
    tail, seq = journal.tail, journal.line_count
    if tail and not seq:
        # All there is: only a header makes it a file that may be written to.
        indexer.visit(0, tail)
    journal.truncates = indexer.dialect.rules.truncates
    if not tail:
        return []
    is_line = not seq or indexer.parses(tail)
    if journal.truncates and not is_line and _is_ours(files, journal, indexer):
        kept = Path(journal.cut_tail(stamp()))
        return [Problem(seq + 1, "torn_tail", f"half a line was moved to {kept.name}")]
    for at, line in enumerate(journal.keep_tail(b"\n" if is_line else CLOSING), seq):
        if at:
            indexer.visit(at, line)
    return []


def _cut_atom(journal: Journal, seq: int, stamp: Callable[[], str]) -> Problem:
    count = journal.line_count - seq
    kept = Path(journal.cut_tail(stamp(), seq))
    return Problem(
        seq + 1, "torn_tail", f"{count} lines of half an append were moved to {kept.name}"
    )
