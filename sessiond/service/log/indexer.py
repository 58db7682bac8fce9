"""Indexer: from the lines of a file to a session's index, for opening and for listing.

The first line decides the dialect; the intake indexes the other lines.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final

from sessiond.dialects import UNKNOWN_HEADER, recognise
from sessiond.dialects.base import BadHeader, BadLine, Dialect, Upgrade
from sessiond.dialects.lenient_json import lenient, text
from sessiond.errors import SessionCorrupt
from sessiond.journal.splitter import LongLine, without_end
from sessiond.model.entries import Header
from sessiond.service.log.line_indexer import LineIndexer, too_long
from sessiond.session.atoms import Atoms
from sessiond.session.index import Session
from sessiond.session.settings import SETTINGS
from sessiond.visible import printable

_FIRST_BYTES: Final = (
    (b"\xef\xbb\xbf", "it begins with a byte order mark; save the file without one"),
    (b"\xff\xfe", "it is UTF-16; make it UTF-8 first: iconv -f UTF-16 -t UTF-8"),
    (b"\xfe\xff", "it is UTF-16; make it UTF-8 first: iconv -f UTF-16 -t UTF-8"),
    (b"\x1f\x8b", "it is compressed by gzip; unpack it first, by gunzip or tar -xzf"),
    (b"BZh", "it is compressed by bzip2; unpack it first, by bunzip2 or tar -xjf"),
    (b"\xfd7zXZ\0", "it is compressed by xz; unpack it first, by unxz or tar -xJf"),
    (b"PK\3\4", "it is a zip archive; unpack it first, by unzip"),
)

# Members in which a line of an older version may state its id.
_ID_MEMBERS: Final = ("id", "entryId")


class Indexer:
    """Indexer of a file's lines, which `visit` takes in order.

    `in_place`: the file is to be served where it is, so a file of an older version of its dialect is
    indexed as the current version has its lines. `strict`: a line that is no entry raises BadLine
    instead of being kept. `session_id`: the id under which the file is served, if known; `identify`
    gives that id by the id in the header, once. What `identify` raises comes out of a visit.

    `gap` is set for the part of a file that a list reads: the seq of the first line behind those that are left out.
    Then `end_part` follows the last line.
    """

    def __init__(
        self,
        path: Path,
        *,
        in_place: bool = False,
        strict: bool = False,
        session_id: str | None = None,
        identify: Callable[[str], str] | None = None,
    ) -> None:
        self.path = path
        self.session_id = session_id
        self._identify = identify
        self._in_place = in_place
        self._strict = strict
        self._dialect: Dialect | None = None
        self._session: Session | None = None
        self._intake: LineIndexer | None = None
        self._header: Header | None = None
        self._upgrade: Upgrade | None = None
        self.gap: int | None = None
        self._told: tuple[str | None, str] = (None, "")

    def begin_again(self) -> None:
        """Forget every line; the first line comes next."""
        self._dialect = self._session = self._intake = self._header = self._upgrade = None

    @property
    def has_begun(self) -> bool:
        """Return whether there was a header."""
        return self._dialect is not None

    @property
    def upgrade(self) -> Upgrade | None:
        """Migration of a file of an older version that is served in place."""
        upgrade = self._upgrade
        return upgrade if upgrade is not None and upgrade.is_older else None

    @property
    def has_shown_version(self) -> bool:
        """True if later lines do not tell whether the file is appended to."""
        upgrade = self._upgrade
        return upgrade is None or upgrade.is_older is not None or upgrade.spelled is not None

    @property
    def is_only_read(self) -> bool:
        """True for a file of an older version that is not appended to."""
        return self.upgrade is not None and self.upgrade.spelled is None

    @property
    def dialect(self) -> Dialect:
        """The file's dialect. Raises SessionCorrupt when there was no header."""
        if self._dialect is None:
            raise self._corrupt(1, "the file is empty; a session begins with a header line")
        return self._dialect

    @property
    def intake(self) -> LineIndexer:
        """Intake of further lines. Raises SessionCorrupt when there was no header."""
        assert self.dialect is not None
        assert self._intake is not None
        return self._intake

    @property
    def atoms(self) -> Atoms:
        """Appends of several lines. Raises SessionCorrupt when there was no header."""
        return self.intake.atoms

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
        """First line of an append of sessiond's own whose end is missing at the end of the file.

        None in a file that is never cut.
        """
        return self.atoms.unfinished if self.dialect.rules.truncates else None

    def visit(self, seq: int, line: bytes) -> None:
        """Index the next line. Raises SessionCorrupt for a bad header, BadLine if strict."""
        if seq:
            self._take(seq, line)
        else:
            self._begin(line)

    def visit_lines(self, first: int, lines: list[bytes]) -> None:
        """Index the next lines, each of which may have its newline; raises what `visit` raises."""
        if not first:
            self._begin(without_end(lines[0]))
            first, lines = 1, lines[1:]
        if self.gap is not None and first <= self.gap <= first + len(lines):
            at = self.gap - first
            self._visit_lines(first, lines[:at])
            self._leave_out()
            first, lines = self.gap, lines[at:]
            if lines:
                # Whether an append is sessiond's own, only all ids before it tell.
                self._begin_intake(())
        self._visit_lines(first, lines)

    def _visit_lines(self, first: int, lines: list[bytes]) -> None:
        at = 0
        while self._upgrade is not None and at < len(lines):
            same = self._upgrade.pass_over(lines, at)
            if same:
                self.intake.take_lines(first + at, lines[at : at + same])
                at += same
            else:
                self._take(first + at, without_end(lines[at]))
                at += 1
        if at < len(lines):
            self.intake.take_lines(first + at, lines[at:] if at else lines)

    def begin_as(self, dialect: Dialect, header: Header) -> None:
        """Begin a file without a header line of its own: the lines come next, from seq 1 on."""
        self._start(dialect, header, None)
        self.session.header_lines = 0

    def _leave_out(self) -> None:
        """Go on behind lines that are left out."""
        session = self.session
        self._told = session.first_message, session.started_at
        session.leave_out()
        session.facts.update(dict.fromkeys(SETTINGS))

    def end_part(self) -> None:
        """Forget what a part does not tell: the first message, if it stands behind lines that are left out."""
        if not self.session.is_part:
            self._leave_out()
        self.session.first_message, self.session.started_at = self._told

    def parses(self, line: bytes) -> bool:
        """Return whether a last line without a newline is a whole entry."""
        try:
            self.dialect.row(line if self._upgrade is None else self._upgrade.peek(line))
        except BadLine:
            return False
        return True

    def _begin(self, line: bytes) -> None:
        if isinstance(line, LongLine):
            raise self._corrupt(1, f"the header {too_long(line)}")
        try:
            dialect, header = recognise(line)
        except BadHeader as bad:
            raise self._corrupt(1, _why_no_header(line, str(bad))) from bad
        self._start(dialect, header, dialect.upgrade(line) if self._in_place else None)

    def _start(self, dialect: Dialect, header: Header, upgrade: Upgrade | None) -> None:
        self._dialect, self._header, self._upgrade = dialect, header, upgrade
        self._session = Session(dialect.rules)
        if self._upgrade is not None:
            self._session.facts.update(self._upgrade.facts)
        if self._identify is not None and self.session_id is None:
            self.session_id = self._identify(header.id)
        self._begin_intake({header.id, self.session_id or header.id})

    def _begin_intake(self, session_ids: Collection[str]) -> None:
        self._intake = LineIndexer(self.session, self.dialect, session_ids, strict=self._strict)
        # Bound once, since the call runs for every line of the file.
        self._take = self._intake.take if self._upgrade is None else self._take_older

    def _take_older(self, seq: int, line: bytes) -> None:
        assert self._upgrade is not None, "the file may be of an older version"
        self.intake.take(seq, self._upgrade.take(line))
        if self.session.is_part:
            self._forget_derived_id(seq, line)
        if self._upgrade.is_older is False:
            self._upgrade, self._take = None, self.intake.take

    def _forget_derived_id(self, seq: int, line: bytes) -> None:
        """Forget the id of an entry if the line does not state the id: such an id counts the lines before it."""
        session, found = self.session, lenient(line)
        derived = session.names[seq]
        if derived not in {text(found.get(name)) for name in _ID_MEMBERS}:
            session.names[seq] = ""
            session.ids.pop(derived, None)

    def _corrupt(self, line: int, why: str) -> SessionCorrupt:
        return SessionCorrupt(
            f"{printable(self.path.name)}, line {line}: {why}; the file is unchanged",
            path=printable(self.path),
            line=line,
            repairable=False,
        )


def _why_no_header(line: bytes, reason: str) -> str:
    told = next((why for first, why in _FIRST_BYTES if line.startswith(first)), None)
    if told is not None:
        return told
    if not line.strip():
        return "it is empty; a session begins with a header line"
    return f"it {reason}" if reason == UNKNOWN_HEADER else f"the header {reason}"
