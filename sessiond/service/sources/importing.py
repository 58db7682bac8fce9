"""Import: the lines of a foreign or exported file, checked, under a new id.

The copy stays in the dialect of its source, so an export in that format gives equal JSON values. An
older version of a dialect is migrated to the current one. The source is read, never written.

Law: every line of the source is in the copy, or the report has its number and the reason. A native
file must be whole, since a repair is to examine its damage first.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct, structs

from sessiond.dialects import sniff
from sessiond.dialects.base import BadHeader, BadLine, current_lines
from sessiond.errors import InvalidParams, SessiondError, TooLarge
from sessiond.journal.disk.failures import telling
from sessiond.journal.disk.files import Files
from sessiond.journal.disk.regular import check_regular, open_regular
from sessiond.journal.scanning import chunks_of, feed
from sessiond.journal.splitter import Splitter, without_end
from sessiond.limits import (
    IMPORT_BYTES_MAX,
    PROBLEMS_MAX,
    PROGRESS_LINES,
    RESULT_BYTES_MAX,
)
from sessiond.model.problems import Problem
from sessiond.service.log.indexer import Indexer
from sessiond.service.ports import Progress
from sessiond.service.sources.agents.compressed import COMPRESSED, unpacked
from sessiond.service.sources.agents.found import AgentSession, found_agent
from sessiond.service.sources.agents.inlining import outputs_beside
from sessiond.service.sources.agents.neighbours import beside
from sessiond.service.sources.agents.opencode.store import Chosen, stored_lines
from sessiond.service.sources.agents.source import AgentLog, Beside, Report
from sessiond.service.sources.documents.found import (
    FoundDocument,
    NewSession,
    found_document,
    may_be_document,
)
from sessiond.service.sources.documents.refusal import corrupt

__all__ = [
    "ImportReport",
    "ImportSource",
    "id_in",
    "read_import",
    "read_source",
    "read_stored",
    "source_of",
]


class ImportSource(Struct, frozen=True):
    """The content to import and its name. `tail` holds the bytes behind the last newline."""

    name: str
    lines: list[bytes]
    tail: bytes
    index: bytes | None = None
    """The index of sessions beside a file of Construct, which has the title."""
    beside: Beside = Beside()
    agent: AgentSession | None = None
    """The session, where the source is a store of several sessions and no file of lines."""


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
    """Return the content of a file to import. Raises SessionCorrupt, StorageError, TooLarge."""
    with telling("read", path):
        fd = open_regular(files, path)
        try:
            size = check_regular(files, fd)
            if size > IMPORT_BYTES_MAX:
                raise TooLarge(
                    f"{path.name} is too large to be imported", limit=IMPORT_BYTES_MAX, size=size
                )
            is_packed = files.pread(fd, len(COMPRESSED), 0) == COMPRESSED
            pieces = (
                unpacked(files, fd, size, str(path)) if is_packed else chunks_of(files, fd, 0, size)
            )
            found = source_of(str(path), pieces)
        finally:
            files.close(fd)
    near = structs.replace(beside(path, found.lines, files), outputs=outputs_beside(path, files))
    return structs.replace(found, index=_index_beside(path, files), beside=near)


def read_stored(chosen: Chosen, path: Path, parent_id: str | None) -> ImportSource:
    """Return the content of a session of a store; `parent_id` is the copy of the session's parent.

    Raises SessionCorrupt, StorageError, TooLarge.
    """
    name = str(path)
    log = AgentLog(
        name, stored_lines(chosen.store, chosen.session), b"", Beside(parent_id=parent_id)
    )
    return ImportSource(name, [], b"", agent=AgentSession("opencode", log))


def source_of(name: str, chunks: Iterable[bytes]) -> ImportSource:
    """Return the content of `chunks` to import."""
    lines: list[bytes] = []
    splitter = Splitter(array("q", [0]))
    for _, found in feed(splitter, chunks):
        lines.extend(map(without_end, found))
    return ImportSource(name, lines, splitter.rest())


def read_import(
    source: ImportSource,
    *,
    wanted: str,
    session_id: str,
    cwd: str | None,
    progress: Progress,
) -> tuple[list[bytes], ImportReport]:
    """Return the lines of the copy. Raises InvalidParams, SessionCorrupt naming file and line."""
    name = source.name
    if source.agent is not None:
        _require_wanted(wanted, source.agent.name)
        return _copied(source.agent, session_id, cwd, progress)
    document = _whole_document(source)
    if document is not None:
        _require_wanted(wanted, document.name)
        made = document.lines(NewSession(session_id, cwd, source.index))
        # Every line has been made here, so a line can only be too long.
        found = _check(made, name, 0, progress)
        return made, ImportReport(
            document.name, None, len(made) - 1, found.problems, found.problem_count, 0
        )
    agent = _of_an_agent(source)
    if agent is not None:
        _require_wanted(wanted, agent.name)
        return _copied(agent, session_id, cwd, progress)
    lines, torn = source.lines, source.tail
    indexer = Indexer(Path(name))
    if not lines and torn:
        lines, torn = [torn], b""
    indexer.visit(0, lines[0] if lines else b"")
    dialect = indexer.dialect
    _require_wanted(wanted, dialect.name)
    torn_tail: list[Problem] = []
    if torn.strip():
        if indexer.parses(torn):
            lines.append(torn)
        else:
            torn_tail.append(Problem(len(lines) + 1, "torn_tail", "half a line was left out"))
    version = indexer.header.version
    current = list(current_lines(dialect, lines))
    is_migrated = current[1:] != lines[1:]
    # A migration may put entries behind the header; all further lines are those of the source.
    checked = _check(current, name, len(current) - len(lines), progress)
    kept = [line for seq, line in enumerate(current) if seq not in checked.left_out]
    kept[0] = dialect.copied_header(kept[0], session_id, cwd)
    header = dialect.decode_header(kept[0])
    kept[1:] = [dialect.restated(line, header) for line in kept[1:]]
    dropped = len(checked.left_out) + len(torn_tail)
    return kept, ImportReport(
        format=dialect.name,
        migrated_from=version if isinstance(version, int) and is_migrated else None,
        entries=sum(1 for line in kept[1:] if line.strip()),
        problems=_in_order([*torn_tail, *checked.bad_lines], checked.problems),
        problem_count=dropped + checked.problem_count,
        dropped=dropped,
    )


def id_in(source: ImportSource) -> str | None:
    """Return the id that the header of a file of a dialect has; None for any other content."""
    first = next((line for line in (*source.lines, source.tail) if line.strip()), b"")
    dialect = sniff(first) if first else None
    try:
        return None if dialect is None else dialect.decode_header(first).id
    except BadHeader:
        return None


class _Checked(Struct, frozen=True):
    """Findings in the lines of a source: the seqs that are left out, and the problems.

    `bad_lines` and `problems` have the first PROBLEMS_MAX each; the lists are apart.
    """

    left_out: set[int]
    bad_lines: list[Problem]
    problems: list[Problem]
    problem_count: int


def _whole_document(source: ImportSource) -> FoundDocument | None:
    """Return the session that the content is as one JSON document. Raises SessionCorrupt."""
    content = (*source.lines, source.tail)
    first = next((line for line in content if line.strip()), b"")
    return found_document(source.name, b"\n".join(content)) if may_be_document(first) else None


def _of_an_agent(source: ImportSource) -> AgentSession | None:
    """Return the session of another agent that the content is; None for a file of a dialect."""
    first = next((line for line in (*source.lines, source.tail) if line.strip()), b"")
    if not first or sniff(first) is not None:
        return None
    return found_agent(AgentLog(source.name, source.lines, source.tail, source.beside))


def _copied(
    agent: AgentSession, session_id: str, cwd: str | None, progress: Progress
) -> tuple[list[bytes], ImportReport]:
    """Return the lines of a native copy. Raises SessionCorrupt if no line has a place in it."""
    report = Report()
    made = agent.lines(session_id, cwd, report)
    if len(made) == 1:
        raise corrupt(agent.log.name, f"no line of this {agent.name} file says anything")
    found = _check(made, agent.log.name, 0, progress)
    problems = _in_order(report.problems, found.problems)
    count = report.problem_count + found.problem_count
    entries = len(made) - 1
    return made, ImportReport(agent.name, None, entries, problems, count, report.dropped)


def _require_wanted(wanted: str, found: str) -> None:
    if wanted not in {"auto", found}:
        raise InvalidParams(f"the file is in format {found}", path="format")


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


def _check(lines: list[bytes], name: str, inserted: int, progress: Progress) -> _Checked:
    """Return the findings in the lines, of which the first `inserted` entries are not in the source.

    Raises SessionCorrupt for a line of a native file that is no entry, and if no line is an entry.
    """
    indexer = Indexer(Path(name), strict=True)
    left_out: set[int] = set()
    bad_lines: list[Problem] = []
    whole = 0
    for seq, line in enumerate(lines):
        try:
            indexer.visit(seq, line)
            whole += seq > inserted and bool(line.strip())
        except BadLine as bad:
            number = _line_of(seq + 1, inserted)
            if indexer.dialect.rules.truncates:
                raise corrupt(name, str(bad), number) from bad
            left_out.add(seq)
            if len(bad_lines) < PROBLEMS_MAX:
                why = f"{bad}; the line was left out"
                bad_lines.append(Problem(number, "bad_line", why))
            # Further lines keep their ordinals.
            indexer.visit(seq, b"")
        if not (seq + 1) % PROGRESS_LINES:
            progress.report(seq + 1, len(lines), "lines")
    if left_out and not whole:
        raise corrupt(name, "neither this nor another line is a whole entry", bad_lines[0].line)
    session = indexer.session
    problems = [
        Problem(_line_of(one.line, inserted), one.kind, one.detail) for one in session.problems
    ]
    return _Checked(left_out, bad_lines, problems, session.problem_count)


def _line_of(line: int, inserted: int) -> int:
    """Return the number in the source of a line that a migration moved down."""
    return max(1, line - inserted) if line > 1 else line


def _in_order(dropped: list[Problem], others: list[Problem]) -> list[Problem]:
    """Return PROBLEMS_MAX problems by their lines; `others` get the room that `dropped` leaves."""
    shown = [*dropped, *others][:PROBLEMS_MAX]
    return sorted(shown, key=lambda one: one.line)
