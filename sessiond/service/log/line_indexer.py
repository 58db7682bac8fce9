"""Index of a session from stored lines: one way for opened files and for foreign lines.

A line that does not parse keeps its ordinal and is reported. In a file that only sessiond should
write, the line also makes the session read-only, because repair should examine the damage. Half a
line of a foreign writer is no damage: it was closed with a blank before its newline, which tells it
from damage for good, as it does the rest of that line that may follow. Nor is a rest damage whose
beginning an opening took for the rest of a write of sessiond's own, and cut. A file of another dialect
may have such lines anyway.

The first line of an append of several shows that sessiond wrote the append here if the line names
this session as `atom_of`, brings a new id, and has a parent that is here. A line that another
program copied out of another session names that session.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import islice, takewhile
from typing import Final

from sessiond.dialects.base import BadLine, Dialect
from sessiond.journal.splitter import LongLine, is_blank, without_end
from sessiond.limits import LINE_BYTES_MAX
from sessiond.model.row import Kind, Row
from sessiond.session.atoms import Atoms
from sessiond.session.columns import fold_lines
from sessiond.session.index import FIRST_WORDS_CHARS, Session

_USER: Final = int(Kind.USER)
# Lines that are decoded together; they and their columns fit the processor's cache.
_RUN_LINES: Final = 256
# After fewer usual lines than this, the next lines are taken one by one.
_RUN_LINES_MIN: Final = 8
_LINES_APART: Final = 16
_ZEROS: Final = "is nothing but zero bytes, as a power loss leaves them"
_LINES_ARE_MISSING: Final = "lines of this append are missing; what is there is kept"


class LineIndexer:
    """Indexer of a file's lines behind the header, in order.

    `strict` refuses a line that is no entry. `session_ids` are the ids under which sessiond writes to
    the file.
    """

    def __init__(
        self,
        session: Session,
        dialect: Dialect,
        session_ids: Collection[str],
        *,
        strict: bool = False,
    ) -> None:
        self.session = session
        self.atoms = Atoms()
        self.session_ids = session_ids
        self._strict = strict
        # Bound once: these run for every line of a file.
        self._row = dialect.row
        self._message_lines = dialect.message_lines
        self._preview = dialect.preview
        self._fold = session.fold
        self._closed_halves = 0

    def take(self, seq: int, line: bytes) -> None:
        """Index the next line. Raise BadLine if strict."""
        try:
            row = self._row(line)
        except BadLine as bad:
            if self._strict and line.strip():
                raise BadLine(_reason(line, bad)) from None
            self._skip(seq, line, bad)
            return
        self.take_said(seq, row, lambda: line)

    def take_said(self, seq: int, row: Row, line: Callable[[], bytes]) -> None:
        """Index the next line by its row; `line` returns the line, of which the first words may be needed."""
        self.take_row(seq, row)
        if row.kind == _USER and self.session.first_message is None:
            self.session.begin_with(self._preview(line(), FIRST_WORDS_CHARS), row.timestamp)

    def take_row(self, seq: int, row: Row) -> None:
        """Index the row of the next line, without the words of the line."""
        if row.damage is not None:
            self.session.report(seq, "damaged_line", row.damage)
        is_ours = row.atom_of is not None and self._is_ours(row)
        self._fold(row)
        if row.atom is not None or self.atoms.first is not None:
            self._follow_atom(seq, row.atom, is_ours=is_ours)

    def take_lines(self, first: int, lines: Sequence[bytes]) -> None:
        """Index the next lines, each of which may have its newline. Raise BadLine if strict."""
        at, count = 0, len(lines)
        while at < count:
            if blank := _blank_lines(lines, at):
                self._skip_blank(first + at, blank)
                at += blank
                continue
            part = lines[at : at + _RUN_LINES]
            taken = self._take_usual(part)
            at += taken
            if taken < len(part):
                # Where one line is unusual, the next ones often are.
                end = min(at + (1 if taken >= _RUN_LINES_MIN else _LINES_APART), count)
                for seq in range(first + at, first + end):
                    self.take(seq, without_end(lines[seq - first]))
                at = end

    def _take_usual(self, lines: Sequence[bytes]) -> int:
        """Index the usual messages at the beginning of the lines; return how many there are."""
        if self.atoms.first is not None:
            return 0
        found = self._message_lines(lines)
        if not found.ids:
            return 0
        fold_lines(self.session, found)
        if self.session.first_message is None and _USER in found.kinds:
            at = found.kinds.index(_USER)
            words = self._preview(lines[at], FIRST_WORDS_CHARS)
            self.session.begin_with(words, found.times[at])
        return len(found.ids)

    def take_later(self, lines: Iterable[bytes]) -> int:
        """Index lines that were found behind the last one; return the seq of the first."""
        first = self.session.seq + 1
        # The half line of the opening is a whole line now, good or bad.
        self.session.withdraw(first, "torn_tail")
        for seq, line in enumerate(lines, first):
            self.take(seq, line)
        return first

    @property
    def is_at_rest(self) -> bool:
        """True if the next line is read as it would be at the beginning of a file."""
        return self.atoms.first is None and not self._closed_halves

    def end_atom(self) -> None:
        """Report an unfinished append: the next line does not continue it."""
        if self.atoms.first is not None:
            self._follow_atom(self.session.seq + 1, None)

    def _is_ours(self, row: Row) -> bool:
        ids = self.session.ids
        return (
            row.atom_of in self.session_ids
            and row.id not in ids
            and (row.parent_id is None or row.parent_id in ids)
        )

    def _skip(self, seq: int, line: bytes, bad: BadLine) -> None:
        session = self.session
        if not line.strip():
            self._skip_blank(seq, 1)
            return
        session.skip()
        session.report(seq, "bad_line", _reason(line, bad))
        if is_closed_half(line):
            self._follow_atom(seq, None)
            self._closed_halves += 1
            return
        self.atoms.skip()
        if self._closed_halves:
            self._closed_halves -= 1
        elif session.rules.truncates and session.read_only_line is None:
            # Few files have a bad line, and need the patterns.
            from sessiond.dialects.rests import is_rest

            if not is_rest(line):
                session.read_only_line = seq + 1

    def _skip_blank(self, seq: int, count: int) -> None:
        """Index blank lines, of which a small file may have hundreds of thousands."""
        self.session.skip(count)
        self._follow_atom(seq, None)

    def _follow_atom(
        self, seq: int, atom: tuple[int, int] | None, *, is_ours: bool = False
    ) -> None:
        for first in self.atoms.take(seq, atom, is_ours=is_ours):
            self.session.report(first, "broken_atom", _LINES_ARE_MISSING)


def _blank_lines(lines: Sequence[bytes], at: int) -> int:
    """Return how many lines from an offset on are blank."""
    if not is_blank(lines[at]):
        return 0
    return sum(1 for _ in takewhile(is_blank, islice(lines, at, None)))


def _reason(line: bytes, bad: BadLine) -> str:
    """Return why a line is no entry."""
    if isinstance(line, LongLine):
        return too_long(line)
    return _ZEROS if is_zeros(line) else str(bad)


def is_closed_half(line: bytes) -> bool:
    """Return whether a line that does not parse is a half line that sessiond closed."""
    return line.endswith(b" ")


def too_long(line: LongLine) -> str:
    """Return the problem of a line over LINE_BYTES_MAX."""
    return f"is {line.size} bytes long, more than the {LINE_BYTES_MAX} that a line may have"


def is_zeros(line: bytes) -> bool:
    """Return whether the line is not empty and holds only zero bytes."""
    return bool(line) and not line.strip(b"\0")
