"""Crash recovery at an opening: the end of a file behind its last whole line, judged without a change.

While a session is open, `journal/interleaved` and `service/external` deal with the bytes of other programs.

Law: opening and listing write nothing. A last line that lacks only its newline is a line. The rest
that a crash left at the end stays where it is until the first change. Then only what is provably
the rest of a write of sessiond's own is cut, and copied aside first. Everything else at the end
belongs to a foreign writer: half a line is left to that writer, and the first append closes it with
a blank and a newline, keeps it and reports it. Half a line is provably the rest of a write if it has zero bytes,
which only a power cut leaves, or if it begins as every line of sessiond's does and one of these
conditions holds:

* an earlier owner of the file did not end in order, and noted that it had written no further;
* half an append that sessiond made in this session stands right before it;
* the last write to the file was before this machine started, so that no program continues it.

An append of several entries whose last ones never came is cut if its first line shows that sessiond
made it in this session. A file without a valid header is refused before it is written to.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from sessiond.journal.disk.failures import telling
from sessiond.journal.disk.files import Files
from sessiond.journal.journal import Journal, Recall
from sessiond.journal.splitter import stored_size
from sessiond.service.log.indexer import Indexer
from sessiond.service.log.line_indexer import is_zeros
from sessiond.visible import counted

_OWN_BEGINNING: Final = b'{"type":"'


def open_unchanged(
    files: Files,
    indexer: Indexer,
    *,
    locks: Path,
    stamp: Callable[[], str],
    recall: Recall | None = None,
) -> Journal:
    """Return the open file of an indexer that has begun no file yet, and index its lines.

    An incomplete end is among the index's problems. `stamp()` names the copy of the bytes that are
    cut before the first change; `recall` is as in `Journal.open`. Raises SessionCorrupt,
    SessionLocked, StorageError.
    """
    journal = Journal.open(files, indexer.path, indexer.visit_lines, locks=locks, recall=recall)
    try:
        with telling("open", indexer.path):
            judge_tail(files, journal, indexer, stamp=stamp)
    except BaseException:
        # The next opening must find the file in the state that this one found.
        journal.close(settled=journal.left_at is None)
        raise
    return journal


def judge_tail(
    files: Files,
    journal: Journal,
    indexer: Indexer,
    stamp: Callable[[], str] = str,
) -> None:
    """Decide what the journal does with its tail, and report a torn tail.

    If some lines belong to half an append, the indexer gets the other ones again. Raises
    SessionCorrupt, OSError.
    """
    tail, seq = journal.tail, journal.line_count
    # If the file is only a tail, a header makes it a session, and anything else is refused.
    if tail and (not seq or indexer.parses(tail)):
        indexer.visit(seq, tail)
        journal.take_tail()
        tail = b""
    journal.truncates = indexer.dialect.rules.truncates
    first, lines = indexer.incomplete_atom, journal.line_count
    if tail and not (journal.truncates and _is_ours(files, journal, indexer)):
        journal.leave_half()
        # A foreign half line stands behind the append, so the append stays.
        indexer.intake.end_atom()
        first = None
    elif first is not None:
        indexer.begin_again()
        journal.leave_torn(stamp, first, indexer.visit_lines)
    elif tail:
        journal.leave_torn(stamp, lines, indexer.visit_lines)
    if tail:
        indexer.session.report(lines, "torn_tail", torn_detail(tail))
    if first is not None:
        report_incomplete(indexer, first, lines)


def _is_ours(files: Files, journal: Journal, indexer: Indexer) -> bool:
    """Return whether half a line at the end is provably the rest of a write of sessiond's own."""
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
    written_at = files.stat(journal.path).st_mtime_ns / 1e9
    # A clock that is set is set to whole seconds, hence the margin of one.
    return written_at + 1 < files.booted_at()


def report_incomplete(indexer: Indexer, first: int, lines: int) -> None:
    """Report that an append whose lines begin at `first` lacks its last lines, at the end of so many lines."""
    detail = f"{counted(lines - first, 'line')} of an append whose last lines are missing"
    indexer.session.report(first, "incomplete_atom", detail)


def torn_detail(tail: bytes) -> str:
    """Return a description of half a line at the end of a file."""
    what = "zero bytes, as a power loss leaves them," if is_zeros(tail) else "bytes of half a line"
    return f"{stored_size(tail)} {what} at the end"
