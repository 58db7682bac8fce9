"""What stands behind the last whole line of a session file, said without touching it.

Law: opening and listing write nothing. A last line that lacks only its newline is a line. What
a crash left at the end stays where it is until the first change: then only what can be shown to be
the rest of a write of sessiond's own is cut, copied aside first. Everything else at the end is
another program's: half a line that has not grown for a second is closed with a blank and a newline,
kept and reported. Half a line is shown to be the rest of a write if it has zero bytes, which only a
power cut leaves, or if it begins as every line of sessiond's does and one of these holds:

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

from sessiond.journal.disk.failures import telling
from sessiond.journal.disk.files import Files
from sessiond.journal.journal import Journal
from sessiond.journal.recovery import Visit, stored_size
from sessiond.service.files.indexer import Indexer
from sessiond.service.log.line_indexer import is_zeros

__all__ = ["judge_tail", "open_unchanged", "torn_detail"]

_OWN_BEGINNING: Final = b'{"type":"'


def open_unchanged(
    files: Files,
    path: Path,
    *,
    locks: Path,
    stamp: Callable[[], str],
    session_id: str | None = None,
) -> tuple[Journal, Indexer]:
    """Return the open file and its index; what stands behind its last line is among the problems.

    `stamp()` names the copy of what is cut before the first change; `session_id` is the id under
    which the file is served. Raises SessionCorrupt, SessionLocked, StorageError.
    """
    indexer = Indexer(path, in_place=True, session_id=session_id)
    journal = Journal.open(files, path, indexer.visit, locks=locks)
    try:
        with telling("open", path):
            judge_tail(files, journal, indexer, stamp=stamp)
    except BaseException:
        # The next opening is to find what this one has found.
        journal.close(settled=journal.left_at is None)
        raise
    return journal, indexer


def judge_tail(
    files: Files,
    journal: Journal,
    indexer: Indexer,
    visit: Visit | None = None,
    stamp: Callable[[], str] = str,
) -> None:
    """Say what the journal is to make of its tail, and report what is torn.

    `visit`, else the indexer's, is given the lines again where some of them belong to half an
    append. Raises SessionCorrupt, OSError.
    """
    visit = visit or indexer.visit
    tail, seq = journal.tail, journal.line_count
    # Where the tail is all there is, only a header makes it a file that may be written to.
    if tail and (not seq or indexer.parses(tail)):
        visit(seq, tail)
        journal.take_tail()
        tail = b""
    journal.truncates = indexer.dialect.rules.truncates
    first, lines = indexer.incomplete_atom, journal.line_count
    if tail and not (journal.truncates and _is_ours(files, journal, indexer)):
        journal.leave_half()
        # Half a line of another program stands behind it, so it stays.
        indexer.intake.end_atom()
        first = None
    elif first is not None:
        indexer.begin_again()
        journal.leave_torn(stamp, first, visit)
    elif tail:
        journal.leave_torn(stamp, lines, visit)
    if tail:
        indexer.session.report(lines + 1, "torn_tail", torn_detail(tail))
    if first is not None:
        detail = f"{lines - first} lines of an append whose last lines are missing"
        indexer.session.report(first + 1, "incomplete_atom", detail)


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
    written_at = files.stat(journal.path).st_mtime_ns / 1e9
    # Whoever sets a clock sets it by the second.
    return written_at + 1 < files.booted_at()


def torn_detail(tail: bytes) -> str:
    """Return what half a line at the end of a file is, in words."""
    what = "zero bytes, as a power loss leaves them," if is_zeros(tail) else "bytes of half a line"
    return f"{stored_size(tail)} {what} at the end"
