"""Import: the lines of a foreign or exported file, checked, under a new id.

The copy stays in the dialect of its source, so an export in that format gives equal JSON values. An
older version of a dialect is migrated to the current one. The source is read, never written.

Law: every line of the source is in the copy, or the report has its number and the reason. A native
file must be whole, since a repair is to examine its damage first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from io import BytesIO
from pathlib import Path

from msgspec import Struct, structs

from sessiond.dialects import sniff
from sessiond.dialects.base import BadHeader, BadLine, current_lines
from sessiond.errors import InvalidParams, SessiondError, TooLarge
from sessiond.journal.disk.failures import telling
from sessiond.journal.disk.files import Files
from sessiond.journal.disk.regular import check_regular, open_regular
from sessiond.journal.scanning import chunks_of
from sessiond.journal.splitter import is_blank
from sessiond.journal.store import SessionLog
from sessiond.limits import (
    IMPORT_BYTES_MAX,
    PROBLEMS_MAX,
    PROGRESS_LINES,
    RESULT_BYTES_MAX,
)
from sessiond.model.problems import Problem
from sessiond.service.log.chunks import chunks, emptied, lists_of
from sessiond.service.log.indexer import Indexer
from sessiond.service.log.open_session import OpenSession
from sessiond.service.ports import Progress
from sessiond.service.sources.agents.compressed import COMPRESSED, unpacked
from sessiond.service.sources.agents.found import AgentSession, found_agent, found_chat
from sessiond.service.sources.agents.inlining import outputs_beside
from sessiond.service.sources.agents.neighbours import beside
from sessiond.service.sources.agents.opencode.store import Chosen, stored_lines
from sessiond.service.sources.agents.source import AgentLog, Beside, Report, in_parts
from sessiond.service.sources.documents.found import (
    FoundDocument,
    NewSession,
    found_document,
    may_be_document,
)
from sessiond.service.sources.documents.refusal import corrupt


class ImportSource(Struct, frozen=True):
    """The content to import and its name.

    `pieces` yields the content from its beginning, as often as it is called.
    """

    name: str
    pieces: Callable[[], Iterator[bytes]]
    index: bytes | None = None
    """The index of sessions beside a file of Construct, which has the title."""
    beside: Beside = Beside()
    agent: AgentSession | None = None
    """The session, where the source is a store of several sessions and no file of lines."""

    @property
    def log(self) -> AgentLog:
        """The lines of the content."""
        return AgentLog(self.name, lambda: in_parts(self.pieces()), self.beside)

    def first(self) -> bytes:
        """Return the first line that is not blank."""
        return next((line for line in self.log.lines() if line.strip()), b"")

    def whole(self) -> bytes:
        """Return the content in one piece, for a document. Raises TooLarge."""
        # What is written becomes the value without a copy.
        found = BytesIO()
        for piece in self.pieces():
            found.write(piece)
            if found.tell() > IMPORT_BYTES_MAX:
                said = f"{Path(self.name).name} is one document, and too large to be imported"
                raise TooLarge(said, limit=IMPORT_BYTES_MAX, size=found.tell())
        return found.getvalue()


class ImportedLines(Struct, frozen=True):
    """The lines of a copy, header first, in a log that is closed with them."""

    log: SessionLog

    @property
    def count(self) -> int:
        """Number of lines."""
        return self.log.line_count

    def lists(self) -> Iterator[list[bytes]]:
        """Yield the lines in lists. Raises StorageError."""
        return map(self.log.read_many, chunks(self.log, range(self.count)))

    def are_those_of(self, opened: OpenSession) -> bool:
        """Return whether a session has exactly these lines behind its header. Raises StorageError."""
        mine, other, last = self.log, opened.journal, self.count - 1
        if other.line_count != self.count or other.span_bytes(1, last) != mine.span_bytes(1, last):
            return False
        left, waiting = mine.chunks(1, last), b""
        for chunk in other.chunks(1, last):
            while len(waiting) < len(chunk):
                waiting += next(left)
            if not waiting.startswith(chunk):
                return False
            waiting = waiting[len(chunk) :]
        return True

    def close(self) -> None:
        """Drop the lines, once no read runs."""
        self.log.close()


class ImportReport(Struct, frozen=True):
    """The result of an import; `migrated_from` is the older version of the source, if any.

    `problems` are PROBLEMS_MAX of `problem_count`, first of all those of the lines left out, of which
    there are `dropped`.
    """

    format: str
    migrated_from: int | None
    entries: int
    problems: list[Problem]
    problem_count: int
    dropped: int


def read_source(path: Path, files: Files) -> ImportSource:
    """Return the content of a file to import. Raises SessionCorrupt, StorageError, TooLarge, as its pieces do."""

    def pieces() -> Iterator[bytes]:
        with telling("read", path):
            fd = open_regular(files, path)
            try:
                size = check_regular(files, fd)
                is_packed = files.pread(fd, len(COMPRESSED), 0) == COMPRESSED
                read = unpacked(files, fd, size, str(path)) if is_packed else None
                yield from read or chunks_of(files, fd, 0, size)
            finally:
                files.close(fd)

    found = ImportSource(str(path), pieces)
    first = next(found.log.lines(), b"")
    near = structs.replace(beside(path, first, files), outputs=outputs_beside(path, files))
    return structs.replace(found, index=_index_beside(path, files), beside=near)


def read_stored(chosen: Chosen, path: Path, parent_id: str | None) -> ImportSource:
    """Return the content of a session of a store; `parent_id` is the copy of the session's parent.

    Raises SessionCorrupt, StorageError, TooLarge, as reading the content does.
    """

    def parts() -> Iterator[tuple[list[bytes], bool]]:
        for line in stored_lines(chosen.store, chosen.session):
            yield [line], False
            del line
        yield [], True

    log = AgentLog(str(path), parts, Beside(parent_id=parent_id))
    return ImportSource(log.name, lambda: iter(()), agent=AgentSession("opencode", log))


def source_of(name: str, content: bytes) -> ImportSource:
    """Return a content to import."""
    return ImportSource(name, lambda: iter((content,)))


def read_import(  # noqa: PLR0913 - a source, and where its copy goes
    source: ImportSource,
    *,
    wanted: str,
    session_id: str,
    cwd: str | None,
    progress: Progress,
    spooled: Callable[[], SessionLog],
) -> tuple[ImportedLines, ImportReport]:
    """Return the lines of the copy, which the caller closes. `spooled` gives logs for lines.

    Raises InvalidParams, SessionCorrupt naming file and line, StorageError, TooLarge.
    """
    made = spooled()
    new = NewSession(session_id, cwd, source.index)
    try:
        report = _Import(source, wanted, new, made, progress, spooled).report()
    except BaseException:
        made.close()
        raise
    return ImportedLines(made), report


class _Import(Struct, frozen=True):
    """An import: its source, and the empty log that gets the lines of the copy."""

    source: ImportSource
    wanted: str
    new: NewSession
    made: SessionLog
    progress: Progress
    spooled: Callable[[], SessionLog]

    def report(self) -> ImportReport:
        """Put the lines of the copy into the log; return what is to be said of them."""
        source = self.source
        first, agent = source.first(), source.agent
        is_strange, is_document = bool(first) and sniff(first) is None, may_be_document(first)
        # The first line may be long, and comes again.
        del first
        if agent is None and is_strange:
            agent = found_agent(source.log)
        if agent is None and is_document:
            content = source.whole()
            document = found_document(source.name, content)
            if document is not None:
                return self._of_document(document)
            agent = found_chat(source.log, content) if is_strange else None
        return self._of_dialect() if agent is None else self._of_agent(agent)

    def _of_document(self, document: FoundDocument) -> ImportReport:
        """Take one JSON document."""
        self._require_wanted(document.name)
        check = _Check(self.source.name, self.progress)
        # Every line has been made here, so a line can only be too long.
        self._put(check.passed(document.lines(self.new)))
        found, count = check.found(), self.made.line_count - 1
        return ImportReport(document.name, None, count, found.problems, found.problem_count, 0)

    def _of_agent(self, agent: AgentSession) -> ImportReport:
        """Take a session of another agent, as a native one. Raises SessionCorrupt if no line says anything."""
        self._require_wanted(agent.name)
        name, report = agent.log.name, Report()
        check = _Check(name, self.progress)
        kept = self.spooled()
        try:
            lines = agent.lines(self.new.session_id, self.new.cwd, report, kept)
            self._put(check.passed(lines))
        finally:
            kept.close()
        if self.made.line_count == 1:
            raise corrupt(name, f"no line of this {agent.name} file says anything")
        found = check.found()
        problems = _in_order(report.problems, found.problems)
        count = report.problem_count + found.problem_count
        entries = self.made.line_count - 1
        return ImportReport(agent.name, None, entries, problems, count, report.dropped)

    def _of_dialect(self) -> ImportReport:
        """Take a file of a dialect, in the current version of the dialect."""
        log, new = self.source.log, self.new
        indexer = Indexer(Path(log.name))
        indexer.visit(0, next(log.lines(), b""))
        dialect, version = indexer.dialect, indexer.header.version
        self._require_wanted(dialect.name)
        taken = _Taken(log, indexer)
        check = _Check(log.name, self.progress, taken)
        lines = check.passed(taken.compared(current_lines(dialect, taken.lines())))
        first = dialect.copied_header(next(lines), new.session_id, new.cwd)
        header = dialect.decode_header(first)
        self._put([first])
        entries = self._put(dialect.restated(line, header) for line in lines)
        checked = check.found()
        dropped = checked.left_out + len(taken.torn)
        return ImportReport(
            format=dialect.name,
            migrated_from=version if isinstance(version, int) and taken.is_migrated else None,
            entries=entries,
            problems=_in_order([*taken.torn, *checked.bad_lines], checked.problems),
            problem_count=dropped + checked.problem_count,
            dropped=dropped,
        )

    def _put(self, lines: Iterable[bytes]) -> int:
        """Add lines to the log; return how many are not blank."""
        count = 0
        for some in lists_of(lines):
            self.made.append(some, sync=False)
            count += sum(1 for line in some if not is_blank(line))
            # A long line goes before the next one comes.
            del some
        return count

    def _require_wanted(self, found: str) -> None:
        if self.wanted not in {"auto", found}:
            raise InvalidParams(f"the file is in format {found}", path="format")


class _Taken:
    """The lines that a file of a dialect has, and those that are made of them."""

    def __init__(self, log: AgentLog, indexer: Indexer) -> None:
        """Take the lines of a log whose first line is indexed."""
        self.count = 0
        """Number of lines of the file that were taken."""
        self.torn: list[Problem] = []
        self.is_migrated = False
        self._log = log
        self._indexer = indexer
        self._line = b""

    def lines(self) -> Iterator[bytes]:
        """Yield the lines. Half a line at the end is one if it is whole but for its newline."""
        for first, lines, is_end in self._log.parts():
            for line in emptied(lines):
                if is_end and first > 1 and not self._indexer.parses(line):
                    self.torn.append(Problem(first, "torn_tail", "half a line was left out"))
                    return
                self.count += 1
                self._line = line
                yield line
                del line

    def compared(self, current: Iterator[bytes]) -> Iterator[bytes]:
        """Yield the lines that are made of the lines; note whether one differs behind the header."""
        yield next(current)
        for line in current:
            self.is_migrated = self.is_migrated or line != self._line
            self._line = b""
            yield line
            del line


def id_in(source: ImportSource) -> str | None:
    """Return the id that the header of a file of a dialect has; None for any other content."""
    first = source.first()
    dialect = sniff(first) if first else None
    try:
        return None if dialect is None else dialect.decode_header(first).id
    except BadHeader:
        return None


class _Checked(Struct, frozen=True):
    """Findings in the lines of a source: the number of lines that are left out, and the problems.

    `bad_lines` and `problems` have the first PROBLEMS_MAX each; the lists are apart.
    """

    left_out: int
    bad_lines: list[Problem]
    problems: list[Problem]
    problem_count: int


class _Check:
    """A check of lines one by one. The first entries may be made of the header: they are not in the source."""

    def __init__(self, name: str, progress: Progress, taken: _Taken | None = None) -> None:
        self._name = name
        self._progress = progress
        self._taken = taken
        self._indexer = Indexer(Path(name), strict=True)
        self._left_out = self._whole = self._count = 0
        self._bad_lines: list[Problem] = []

    def passed(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the lines that are entries, or blank.

        Raises SessionCorrupt for a line of a native file that is no entry, and if no line is an entry.
        """
        indexer = self._indexer
        # `enumerate` would hold the line before.
        for line in lines:
            seq, self._count = self._count, self._count + 1
            try:
                indexer.visit(seq, line)
            except BadLine as bad:
                self._leave_out(seq, bad)
            else:
                self._whole += seq > self._inserted and not is_blank(line)
                yield line
            del line
            if not self._count % PROGRESS_LINES:
                self._progress.report(self._count, None, "lines")
        if self._left_out and not self._whole:
            why = "neither this nor another line is a whole entry"
            raise corrupt(self._name, why, self._bad_lines[0].line)

    def _leave_out(self, seq: int, bad: BadLine) -> None:
        number = _line_of(seq + 1, self._inserted)
        if self._indexer.dialect.rules.truncates:
            raise corrupt(self._name, str(bad), number) from bad
        self._left_out += 1
        if len(self._bad_lines) < PROBLEMS_MAX:
            why = f"{bad}; the line was left out"
            self._bad_lines.append(Problem(number, "bad_line", why))
        # Further lines keep their ordinals.
        self._indexer.visit(seq, b"")

    @property
    def _inserted(self) -> int:
        """Number of entries so far that are not in the source."""
        return 0 if self._taken is None else self._count - self._taken.count

    def found(self) -> _Checked:
        """Return the findings, behind the last line."""
        session, inserted = self._indexer.session, self._inserted
        problems = [
            Problem(_line_of(one.line, inserted), one.kind, one.detail) for one in session.problems
        ]
        return _Checked(self._left_out, self._bad_lines, problems, session.problem_count)


def _index_beside(path: Path, files: Files) -> bytes | None:
    """Return the index of sessions beside a file of Construct; None if there is none to read."""
    if path.suffix != ".json":
        return None
    try:
        fd = open_regular(files, path.with_name("index.json"))
    except (OSError, SessiondError):
        return None
    try:
        size = check_regular(files, fd)
        return None if size > RESULT_BYTES_MAX else b"".join(chunks_of(files, fd, 0, size))
    except (OSError, SessiondError):
        return None
    finally:
        files.close(fd)


def _line_of(line: int, inserted: int) -> int:
    """Return the number in the source of a line that a migration moved down."""
    return max(1, line - inserted) if line > 1 else line


def _in_order(dropped: list[Problem], others: list[Problem]) -> list[Problem]:
    """Return PROBLEMS_MAX problems by their lines; `others` get the room that `dropped` leaves."""
    shown = [*dropped, *others][:PROBLEMS_MAX]
    return sorted(shown, key=lambda one: one.line)
