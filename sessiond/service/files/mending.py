"""Opening a session file: its lines into an index, and what a crash left at its end.

Half a line behind the last newline is cut, copied aside first, or kept where the
file is not ours to cut; so is an append of several entries whose last ones
never came. A file without a valid header is refused before it is written to.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sessiond.journal.files import Files
from sessiond.journal.journal import Journal
from sessiond.model.problems import Problem
from sessiond.service.files.indexer import Indexer

__all__ = ["open_mended"]


def open_mended(
    files: Files, path: Path, *, locks: Path, stamp: Callable[[], str]
) -> tuple[Journal, Indexer]:
    """The open file and its index; what was mended is among the problems.

    `stamp()` names the copy of what is cut. Raises SessionCorrupt, SessionLocked, StorageError.
    """
    mended: list[Problem] = []
    while True:
        indexer = Indexer(path, in_place=True)
        journal = Journal.open(files, path, indexer.visit, locks=locks)
        try:
            mended += _mend_tail(journal, indexer, stamp)
            atom = indexer.incomplete_atom
            if atom is None or not journal.truncates:
                break
            mended.append(_cut_atom(journal, atom, stamp))
        except BaseException:
            journal.close()
            raise
        # Its first lines are in the index; it is made again without them.
        journal.close()
    for problem in mended:
        indexer.session.report(problem.line, problem.kind, problem.detail)
    return journal, indexer


def _mend_tail(journal: Journal, indexer: Indexer, stamp: Callable[[], str]) -> list[Problem]:
    tail, seq = journal.tail, journal.line_count
    if tail and not seq:
        # All there is: only a header makes it a file that may be written to.
        indexer.visit(0, tail)
        journal.keep_tail()
        tail = b""
    journal.truncates = indexer.dialect.rules.truncates
    if not tail:
        return []
    if indexer.parses(tail) or not journal.truncates:
        journal.keep_tail()
        indexer.visit(seq, tail)
        return []
    kept = Path(journal.cut_tail(stamp()))
    return [Problem(seq + 1, "torn_tail", f"half a line was moved to {kept.name}")]


def _cut_atom(journal: Journal, seq: int, stamp: Callable[[], str]) -> Problem:
    count = journal.line_count - seq
    kept = Path(journal.cut_tail(stamp(), seq))
    return Problem(
        seq + 1, "torn_tail", f"{count} lines of half an append were moved to {kept.name}"
    )
