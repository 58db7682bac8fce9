"""From the lines of a file to a session's index: what opening and listing share.

The first line decides the dialect. A line that does not parse keeps its
ordinal and is reported; in a file that only we write it also makes the session
read-only, since something went wrong that repair should look at. A file of
another program may have such lines for good.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from sessiond.dialects import UNKNOWN_HEADER, recognise
from sessiond.dialects.base import BadHeader, BadLine, Dialect
from sessiond.errors import SessionCorrupt
from sessiond.journal.failures import printable
from sessiond.model.entries import Header
from sessiond.session.atoms import Atoms
from sessiond.session.state import Session

__all__ = ["Indexer", "is_zeros"]

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_ZEROS: Final = "is nothing but zero bytes, as a power loss leaves them"
_LINES_ARE_MISSING: Final = "lines of this append are missing; what is there is kept"
_OLDER_VERSION: Final = "the file is of an older version; bring it in with session/import"


class Indexer:
    """Takes a file's lines in order through `visit`.

    `in_place`: the file is to be served where it is, so it must be of its dialect's
    current version; an older one is brought up to it by an import. `strict`: a line
    that is no entry is refused with BadLine instead of kept.
    """

    def __init__(self, path: Path, *, in_place: bool = False, strict: bool = False) -> None:
        self._path = path
        self._in_place = in_place
        self._strict = strict
        self._dialect: Dialect | None = None
        self._session: Session | None = None
        self._header: Header | None = None
        self.atoms = Atoms()

    @property
    def dialect(self) -> Dialect:
        """The file's dialect. Raises SessionCorrupt when there was no header."""
        if self._dialect is None:
            raise self._corrupt(1, "the file is empty; a session begins with a header line")
        return self._dialect

    @property
    def session(self) -> Session:
        """The index. Raises SessionCorrupt when there was no header."""
        assert self.dialect is not None
        assert self._session is not None
        return self._session

    @property
    def header(self) -> Header:
        """The header. Raises SessionCorrupt when there was none."""
        assert self.dialect is not None
        assert self._header is not None
        return self._header

    @property
    def incomplete_atom(self) -> int | None:
        """The first line of an atom whose end is missing at the end of the file."""
        return self.atoms.unfinished

    def visit(self, seq: int, line: bytes) -> None:
        """Take in the next line. Raises SessionCorrupt for a bad header, BadLine if strict."""
        if seq == 0:
            self._begin(line)
            return
        try:
            row = self._row(line)
        except BadLine as bad:
            if self._strict and line.strip():
                raise
            self._skip(self.session, seq, line, str(bad))
            return
        self._fold(row)
        if row.atom is not None or self.atoms.first is not None:
            self._follow_atom(seq, row.atom)

    def parses(self, line: bytes) -> bool:
        """Whether an unterminated last line is whole after all."""
        try:
            self.dialect.row(line)
        except BadLine:
            return False
        return True

    def _begin(self, line: bytes) -> None:
        try:
            dialect, self._header = recognise(line)
        except BadHeader as bad:
            raise self._corrupt(1, _why_no_header(line, str(bad))) from bad
        if self._in_place and dialect.migrate([line]) != [line]:
            raise self._corrupt(1, _OLDER_VERSION)
        self._dialect = dialect
        self._session = Session(dialect.rules)
        # Looked up once: these run for every line of the file.
        self._row = dialect.row
        self._fold = self._session.fold

    def _skip(self, session: Session, seq: int, line: bytes, why: str) -> None:
        session.skip()
        if not line.strip():
            self._follow_atom(seq, None)
            return
        self.atoms.skip()
        session.report(seq + 1, "bad_line", _ZEROS if is_zeros(line) else why)
        if session.rules.truncates and session.read_only_line is None:
            session.read_only_line = seq + 1

    def _follow_atom(self, seq: int, atom: tuple[int, int] | None) -> None:
        for first in self.atoms.take(seq, atom):
            self.session.report(first + 1, "broken_atom", _LINES_ARE_MISSING)

    def _corrupt(self, line: int, why: str) -> SessionCorrupt:
        return SessionCorrupt(
            f"{printable(self._path.name)}, line {line}: {why}; the file is unchanged",
            path=printable(self._path),
            line=line,
            repairable=False,
        )


def _why_no_header(line: bytes, reason: str) -> str:
    if line.startswith(_BYTE_ORDER_MARK):
        return "it begins with a byte order mark; save the file without one"
    if not line.strip():
        return "it is empty; a session begins with a header line"
    return f"it {reason}" if reason == UNKNOWN_HEADER else f"the header {reason}"


def is_zeros(line: bytes) -> bool:
    """Whether there is something, and all of it zero bytes."""
    return bool(line) and not line.strip(b"\0")
