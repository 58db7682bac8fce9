"""Sessions of other agents where they lie: recognised by their first lines, and only ever read.

Law: nothing here opens a file for writing, locks one, or makes one beside it. The header of such a
session is made of its first lines and of the file's name, and stays as it is while the file grows.
"""

from __future__ import annotations

import errno
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import Any, cast
from zlib import crc32

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, structs

from sessiond import typed
from sessiond.catalog.fulltext import LinePlace
from sessiond.dialects import sniff
from sessiond.dialects.agents import AGENTS, Agent, FirstLines
from sessiond.dialects.agents.codex import AGENT as CODEX
from sessiond.dialects.agents.kept_state import kept_state, state_of
from sessiond.dialects.agents.opencode import AGENT as OPENCODE
from sessiond.dialects.agents.own_entries import native_line
from sessiond.dialects.agents.reading import Origin
from sessiond.dialects.agents.transcript import Taken, Transcript
from sessiond.dialects.agents.view import AgentDialect
from sessiond.dialects.native.dialect import NATIVE
from sessiond.journal.disk.failures import telling
from sessiond.journal.disk.files import Files
from sessiond.journal.kept_copies import KeptCopy
from sessiond.journal.mirror import Mirror
from sessiond.journal.source import FileSource, LineSource, SourceMark
from sessiond.journal.splitter import LinesOf, Splitter, joined, long_line
from sessiond.journal.store import Replaced, SessionLog
from sessiond.limits import (
    AGENT_LIST_BYTES_MAX,
    AGENT_STRAY_LINES_MAX,
    KEPT_COPIES_BYTES_MAX,
    KEPT_INDEX_FILE_BYTES,
    LINE_BYTES_MAX,
)
from sessiond.model.entries import Header
from sessiond.model.formats import AgentFormatName
from sessiond.model.times import rfc3339
from sessiond.service.files.checking.verifying import verified
from sessiond.service.files.kept_index import KeptIndexes
from sessiond.service.log.indexer import Indexer
from sessiond.service.log.line_indexer import LineIndexer
from sessiond.service.log.open_session import OpenSession
from sessiond.service.log.session_info import Lineage
from sessiond.service.ports import Progress
from sessiond.service.sources.agents.neighbours import ThreadNames, beside, spans_before
from sessiond.service.sources.agents.opencode.places import stored_place
from sessiond.service.sources.agents.opencode.rows import StoredSession
from sessiond.service.sources.agents.opencode.source import StoreSource, first_line_of, title_of
from sessiond.service.sources.agents.opencode.store import Chosen
from sessiond.service.sources.agents.sampling import HeldFile, never, searched_lines
from sessiond.service.sources.agents.source import BASE_IS_MISSING
from sessiond.service.sources.agents.sources import (
    Held,
    Span,
    first_lines,
    open_fork,
    open_held,
    open_sample,
    open_source,
)
from sessiond.service.store.checks import Verification
from sessiond.visible import counted


class AgentFile(Struct, frozen=True):
    """A file of another agent: the agent's name, the first line, and the header of its session.

    `stored` is the session where it lies in a store of several. `is_part` tells that only a part of a
    large file is read. `records` are those of a small file of lines, of which the first ones told the header.
    """

    path: Path
    name: AgentFormatName
    first: bytes
    header: Header
    stored: Chosen | None = None
    is_part: bool = False
    records: Iterator[Taken] | None = None

    @property
    def dialect(self) -> AgentDialect:
        """Dialect of the session."""
        return AgentDialect(self.name)


_encoder = msgspec.msgpack.Encoder()
_decoder = typed.unpacker(SourceMark)


class AgentFiles:
    """Files of other agents. Blocking, for worker threads."""

    def __init__(self, files: Files, folder: Path, indexes: KeptIndexes | None = None) -> None:
        """`folder` is where the entries of open sessions are kept while they are open.

        Those of a large file stay behind the close with their index, among the copies of `indexes`.
        """
        self._files = files
        self._folder = folder
        self._indexes = indexes
        self._names = ThreadNames(files)

    def renamed(self, folders: Iterable[Path]) -> dict[str, str]:
        """Return the new names of sessions of Codex that have their rollouts in these folders."""
        return self._names.changes(folders)

    def hold(self, path: Path) -> HeldFile:
        """Return a file for `recognise` and `summary`, which open it once."""
        return HeldFile(self._files, path)

    def recognise(self, path: Path, held: HeldFile | None = None) -> AgentFile | None:
        """Return the file as another agent's; None for any other file. Raises StorageError."""
        stored = self._stored(path)
        if stored is not None:
            return stored
        with _telling("read", path):
            if held is not None:
                return self._recognised(held)
            with self.hold(path) as own:
                return self._recognised(own)

    def _recognised(self, held: HeldFile) -> AgentFile | None:
        """Return a file of another agent by its first lines: as many as tell the agent and the header."""
        lines: list[bytes] = []
        told = FirstLines()
        agent: Agent | None = None
        transcript: Transcript | None = None
        records: Iterator[Taken] | None = None
        for more in first_lines(held, never):
            lines += more
            if transcript is None:
                agent, more = told.take(more), lines
                transcript = None if agent is None else Transcript(agent.reading())
            if transcript is not None:
                records = _begun(transcript, more)
                if transcript.reading.origin.is_told:
                    break
            elif told.is_over:
                break
        first = next((line for line in lines if line.strip()), b"")
        if agent is None or transcript is None or sniff(first) is not None:
            return None
        header = self._header(held.path, agent, transcript.reading.origin)
        return AgentFile(held.path, agent.name, first, header, records=records)

    def _stored(self, path: Path) -> AgentFile | None:
        """Return the session of a store that has this place; None for any other path."""
        place = stored_place(path)
        if place is None:
            return None
        with _telling("read", path):
            store = place.open(self._files)
            if store is None:
                return None
            contents = store.contents(place.session_id)
            if contents is None:
                raise FileNotFoundError(errno.ENOENT, "the store has no such session")
        session = contents.session
        header = Header(
            id=session.id,
            timestamp=rfc3339(session.time_created),
            cwd=session.directory,
            agent=OPENCODE,
            title=title_of(session),
            lineage=_lineage_of(session),
        )
        stored = Chosen(store, session, contents)
        return AgentFile(path, OPENCODE, first_line_of(session), header, stored)

    def source(self, found: AgentFile, lines_of: LinesOf = Splitter) -> LineSource:
        """Return the lines of a session's own file. Raises OSError, StorageError."""
        if found.stored is not None:
            return StoreSource(found.stored, found.path, self._files)
        return open_source(self._files, found.path, lines_of)

    def _sample(
        self, found: AgentFile, held: HeldFile, has_enough: Callable[[], bool]
    ) -> tuple[LineSource, bool]:
        """Return the lines that a list reads, and whether they are only a part. Raises OSError."""
        if found.stored is not None:
            source = StoreSource(found.stored, found.path, self._files, is_sample=True)
            return source, source.is_part
        return open_sample(held, found.name, has_enough)

    def _header(self, path: Path, agent: Agent, origin: Origin) -> Header:
        near = beside(path, b"", self._files)
        return Header(
            id=_session_id(path, agent, origin),
            timestamp=origin.created_at,
            cwd=near.cwd or origin.cwd,
            agent=agent.name,
            title=near.title or self._names.of(path, origin.session_id),
            lineage=_lineage(path, origin),
        )

    def open(
        self,
        found: AgentFile,
        session_id: str,
        progress: Progress | None = None,
        *,
        keeps: bool = False,
    ) -> tuple[Mirror, Indexer]:
        """Return the log of a file, and its index. Raises StorageError.

        `progress` is told of the bytes of the file. A log that `keeps` goes on where an earlier one was kept.
        """
        with _telling("open", found.path):
            source = self.source(found)
        indexer = Indexer(found.path, session_id=session_id)
        source, is_whole = self._whole(found, source)
        kept_as = session_id if keeps else None
        log = self._index(found, source, indexer, progress, kept_as)
        _report_gaps(indexer, log.held_bytes, is_whole=is_whole)
        return log, indexer

    def _copy(self, session_id: str, source: LineSource) -> KeptCopy | None:
        """Return the kept copy of a session; None for one that is small, or more than one growing file."""
        copies = None if self._indexes is None else self._indexes.copies
        if copies is None or not isinstance(source, FileSource):
            return None
        is_large = KEPT_INDEX_FILE_BYTES <= source.size_bytes <= KEPT_COPIES_BYTES_MAX
        return copies.copy(session_id, source.path) if is_large else None

    def keep(self, opened: OpenSession, log: Mirror) -> None:
        """Keep the lines of a session that is about to be closed, with their index, if the session is large."""
        source, translate = log.source, log.translate
        if self._indexes is None or not log.may_stay or not isinstance(source, FileSource):
            return
        assert isinstance(translate, _Translation), "a log with a copy was made here"
        with suppress(OSError, MemoryError):
            log.settle_copy()
            mark, state = source.mark(), translate.state()
            if mark is not None and state is not None:
                position, made = _encoder.encode(mark), partial(kept_state, state)
                log.is_kept = self._indexes.keep(opened.session_id, opened, log, position, made)

    def forget(self, session_id: str) -> None:
        """Remove what is kept of a session: its file may not have these words any more."""
        if self._indexes is not None:
            self._indexes.forget(session_id)

    def summary(
        self, found: AgentFile, session_id: str, held: HeldFile
    ) -> tuple[SessionLog, Indexer, bool]:
        """Return what a list needs of a file that is held, and whether that is only a part of a large file.

        The log has what the row of the session needs of a log.

        Raises StorageError.
        """
        indexer = Indexer(found.path, session_id=session_id)

        def has_enough() -> bool:
            return indexer.session.first_message is not None

        with _telling("open", found.path):
            source, is_part = self._sample(found, held, has_enough)
        try:
            before = self._spans_before(found)
        except BaseException:
            source.close()
            raise
        if before:
            size = source.read_bytes + sum(span.end for span in before)
            is_part = is_part or size > AGENT_LIST_BYTES_MAX
        # The first words of a fork stand in the first rollout.
        source = open_fork(
            self._files,
            source,
            (before or ())[:1] if is_part else before or (),
            has_enough if is_part else None,
        )
        # The records of the lines at hand are told already, unless other lines come between them.
        records = None if is_part or before else found.records
        found = structs.replace(found, is_part=is_part)
        try:
            indexer.begin_as(found.dialect, found.header)
            log = _ListedLines(found, source.inode)
            with _telling("read", found.path):
                log.index(source, _Translation(found, source, records), indexer)
            _report_gaps(indexer, source.held_bytes, is_whole=before is not None)
        finally:
            source.close()
        return cast("SessionLog", log), indexer, is_part

    def lines(self, found: AgentFile) -> Iterator[tuple[int, bytes]]:
        """Yield the entries of a file as native lines, each with its seq. Raises StorageError."""
        with _telling("read", found.path):
            source, _ = self._whole(found, self.source(found))
            try:
                yield from _entries(source, found)
            finally:
                source.close()

    def searched(
        self, found: AgentFile, held: HeldFile
    ) -> Iterator[tuple[bytes, LinePlace | None]]:
        """Yield the entries of a file as native lines, each with the place of its line in the file.

        A very long line of a growing file lacks the ends of its texts, and has no place. `held` was recognised;
        a small one is not read again. Raises StorageError.
        """
        with _telling("read", found.path):
            small = open_held(held) if found.stored is None else None
            own = small or self.source(found, searched_lines)
            source, _ = self._whole(found, own)
            records = found.records if source is small else None
            try:
                yield from _located(source, found, records)
            finally:
                source.close()

    def verify(self, found: AgentFile, progress: Progress | None = None) -> Verification:
        """Return the problems of a file, all of its lines read. Raises StorageError."""
        indexer = Indexer(found.path)
        indexer.begin_as(found.dialect, found.header)
        with _telling("read", found.path):
            source, is_whole = self._whole(found, self.source(found))
            try:
                for seq, line in _entries(source, found):
                    indexer.visit(seq, line)
                    _tell(progress, source)
                _report_gaps(indexer, source.held_bytes, is_whole=is_whole)
                lines = indexer.session.seq + bool(source.held_bytes)
                return verified(indexer, lines=lines, size=source.read_bytes)
            finally:
                source.close()

    def _whole(self, found: AgentFile, own: LineSource) -> tuple[LineSource, bool]:
        """Return the lines of a session that may begin in other files, and whether these are there."""
        before = self._spans_before(found)
        return open_fork(self._files, own, before or ()), before is not None

    def _spans_before(self, found: AgentFile) -> list[Span] | None:
        """Return the spans of other files with which a session begins; None if such a file is missing."""
        return spans_before(found.path, found.first, self._files) if found.name == CODEX else []

    def _index(
        self,
        found: AgentFile,
        source: LineSource,
        indexer: Indexer,
        progress: Progress | None,
        kept_as: str | None,
    ) -> Mirror:
        """Return the log of a source, which the log owns, and index all of its lines.

        `kept_as` is the id of a session that goes on where an earlier log of it was kept.
        """

        def visit(first: int, lines: list[bytes]) -> None:
            indexer.visit_lines(first, lines)
            _tell(progress, source)

        header = _header_line(found)
        translate = _Translation(found, source)
        copy = None if kept_as is None else self._copy(kept_as, source)
        try:
            with telling("open", found.path):
                log = Mirror(
                    self._files,
                    source,
                    header=header,
                    translate=translate,
                    folder=self._folder,
                    copy=copy,
                )
        except BaseException:
            source.close()
            raise
        try:
            indexer.begin_as(found.dialect, found.header)
            with _telling("read", found.path):
                if copy and kept_as and not self._recall(kept_as, log, indexer, source, translate):
                    indexer.begin_as(found.dialect, found.header)
                    log.begin()
                log.index(visit)
        except BaseException:
            log.close()
            raise
        return log

    def _recall(
        self,
        key: str,
        log: Mirror,
        indexer: Indexer,
        source: LineSource,
        translate: _Translation,
    ) -> bool:
        """Tell log and indexer the lines of a kept copy, and go on behind them; False if they are in doubt."""
        assert isinstance(source, FileSource), "no other source has a copy"
        assert self._indexes is not None, "a copy has an index"

        def believe(position: bytes, kept: bytes) -> None:
            if log.read(0, 0) != [log.header]:
                raise ValueError("the session begins otherwise")
            state = state_of(kept)
            source.resume(_decoder.decode(position))
            translate.resume(state)
            # The half line at the end may be a whole one by now.
            indexer.session.withdraw(indexer.session.seq + 1, "torn_tail")

        return self._indexes.recall(key, indexer, log.reader, believe)


def _tell(progress: Progress | None, source: LineSource) -> None:
    if progress is not None:
        progress.report(source.read_bytes, source.read_bytes + source.behind_bytes, "bytes")


def _entries(source: LineSource, found: AgentFile) -> Iterator[tuple[int, bytes]]:
    """Yield the entries of a source as native lines. Raises OSError, Replaced."""
    translate, seqs, is_end = _Translation(found, source), count(1), False
    while not is_end:
        lines = source.more()
        is_end = not lines
        made = deque(translate(lines, is_end))
        # A long line goes before the next one comes.
        lines.clear()
        while made:
            yield next(seqs), made.popleft()


def _located(
    source: LineSource, found: AgentFile, records: Iterator[Taken] | None
) -> Iterator[tuple[bytes, LinePlace | None]]:
    """Yield the entries of a source as native lines, each with the place of its line. Raises OSError, Replaced.

    `records` are those of the lines, where these were taken already.
    """
    translate, ends, is_end = _Translation(found, source, records), array("q", [0]), False
    while not is_end:
        lines = source.more()
        is_end = not lines
        if lines and isinstance(source, FileSource | Held):
            ends.extend(source.line_ends)
        made = deque(translate.taken(lines, is_end))
        # A long line goes before the next one comes.
        lines.clear()
        while made:
            taken, line = made.popleft()
            yield line, _place(taken, ends)


def _place(taken: Taken, ends: Sequence[int]) -> LinePlace | None:
    """Return the place of a record that is a whole line of one file; None for any other record."""
    if taken.line >= len(ends) or taken.damage is not None:
        return None
    begin, size = ends[taken.line - 1], len(taken.raw)
    is_whole = ends[taken.line] - begin - size in {len(b"\n"), len(b"\r\n")}
    return LinePlace(begin, size, crc32(taken.raw)) if is_whole else None


class _telling(telling):  # noqa: N801 - as its parent
    """A block in which an OSError, or the notice of another file, becomes a StorageError."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Replaced):
            replaced, said = error, "its program has just written it anew: ask again"
            error = OSError(errno.ESTALE, said)
            error.__cause__ = replaced
        super().__exit__(kind, error, trace)


def _report_gaps(indexer: Indexer, held_bytes: int, *, is_whole: bool) -> None:
    """Report a missing beginning, and half a line at the end."""
    if not is_whole:
        indexer.session.report(1, "orphan", BASE_IS_MISSING)
    if held_bytes:
        detail = f"{counted(held_bytes, 'byte')} of half a line at the end"
        indexer.session.report(indexer.session.seq + 1, "torn_tail", detail)


class _Translation:
    """The lines of a file as native lines; a parent that only a part of the file lacks is no gap."""

    def __init__(
        self, found: AgentFile, source: LineSource, records: Iterator[Taken] | None = None
    ) -> None:
        self._is_part = found.is_part
        self._strays = 0
        self._is_over = False
        self._records = records
        self._transcript: Transcript | None = None
        if records is None:
            self._transcript = Transcript(AGENTS[found.name].reading(), source.behind)

    def state(self) -> object | None:
        """Return what the lines so far leave to later ones, for `resume`; None while a record waits."""
        state = None if self._transcript is None else self._transcript.state()
        return None if state is None else (state, self._strays, self._is_over)

    def resume(self, state: Any) -> None:
        """Go on behind the lines of another translation, of which this is the state."""
        assert self._transcript is not None, "no records were at hand"
        of_transcript, self._strays, self._is_over = state
        self._transcript.resume(of_transcript)

    def __call__(self, lines: Sequence[bytes], is_end: bool) -> list[bytes]:  # noqa: FBT001
        """Return the native lines of the next lines; a line without a record stays as it is.

        Raises OSError behind the lines of a whole file of which too many are no records, as 60 MB of blank
        lines are.
        """
        return [line for _, line in self.taken(lines, is_end)]

    def taken(self, lines: Sequence[bytes], is_end: bool) -> Iterator[tuple[Taken, bytes]]:  # noqa: FBT001
        """Yield the records of the next lines, each with its native line. Raises what a call raises."""
        for taken in self.records(lines, is_end):
            yield taken, _native(taken)

    def records(self, lines: Sequence[bytes], is_end: bool) -> Iterator[Taken]:  # noqa: FBT001
        """Yield the records of the next lines. Raises what a call raises."""
        records, self._records = self._records or iter(()), None
        if self._transcript is not None:
            records = self._transcript.take(lines, is_last=is_end)
        for taken in records:
            if taken.entry is None:
                self._strays += 1
            elif taken.bridge is not None and self._is_part:
                taken.entry.parent_id = taken.bridge
                yield structs.replace(taken, bridge=None)
                continue
            yield taken
        if self._strays > AGENT_STRAY_LINES_MAX and not self._is_part and (is_end or self._is_over):
            said = f"more than {AGENT_STRAY_LINES_MAX} lines of it are no records: remove them"
            raise OSError(errno.EFBIG, said)
        self._is_over = self._strays > AGENT_STRAY_LINES_MAX


def _header_line(found: AgentFile) -> bytes:
    """Return the first line of a file's log."""
    # A title beside the file may change, and the first line of a log never does.
    return NATIVE.encode_header(structs.replace(found.header, title=None))


def _native(taken: Taken) -> bytes:
    """Return the native line of a record; a line without a record stays as it is."""
    if taken.entry is None:
        return taken.raw
    made = native_line(taken.entry, taken.bridge, taken.damage)
    return made if len(made) <= LINE_BYTES_MAX else long_line(taken.raw, b"", len(taken.raw))


class _ListedLines:
    """The lines that a list reads of a file, as a log that is read once: an opening has the same lines."""

    blocking = True
    position = None

    def __init__(self, found: AgentFile, inode: int) -> None:
        self.path = found.path
        self.inode = inode
        self._dialect = found.dialect
        self._records: list[Taken] = []
        # The lines that were spelled, by their seqs.
        self._spelled = {0: _header_line(found)}

    def index(self, source: LineSource, translate: _Translation, indexer: Indexer) -> None:
        """Index all lines of a source. Raises OSError, Replaced."""
        is_end, intake, row_of = False, indexer.intake, self._dialect.row_of_said
        while not is_end:
            lines, first = source.more(), self.line_count
            is_end = not lines
            for taken in translate.records(lines, is_end):
                entry, seq = taken.entry, self.line_count
                self._records.append(taken)
                row = None if entry is None else row_of(entry, taken.bridge, taken.damage)
                if row is not None:
                    self._take_spelled(first, seq, intake)
                    intake.take_said(seq, row, partial(self._line, seq))
                    first = seq + 1
            self._take_spelled(first, self.line_count, intake)

    def _take_spelled(self, first: int, end: int, intake: LineIndexer) -> None:
        """Index the lines from one on to before another, which no rows tell of."""
        if first < end:
            intake.take_lines(first, self.read(first, end - 1))

    def _line(self, seq: int) -> bytes:
        line = self._spelled.get(seq)
        if line is None:
            line = self._spelled[seq] = _native(self._records[seq - 1])
        return line

    @property
    def line_count(self) -> int:
        """Number of lines, the header included."""
        return 1 + len(self._records)

    def line_bytes(self, seq: int) -> int:
        """Return the size of one line."""
        return len(self._line(seq))

    def read(self, first: int, last: int) -> list[bytes]:
        """Return the lines `first` to `last`, both included."""
        return [self._line(seq) for seq in range(first, last + 1)]

    def span_bytes(self, first: int, last: int) -> int:
        """Return the size of the lines `first` to `last`, newlines included."""
        return len(joined(self.read(first, last)))

    def checksum(self, seq: int) -> int:
        """Return the checksum of all lines up to one."""
        return crc32(joined(self.read(0, seq)))

    def close(self) -> None:
        """Forget the lines."""
        self._records.clear()
        self._spelled.clear()


def _begun(transcript: Transcript, lines: list[bytes]) -> Iterator[Taken]:
    """Return the records of lines, of which those are read that tell where their session comes from."""
    first, records = list[Taken](), transcript.take(lines, is_last=True)
    for record in records:
        first.append(record)
        if transcript.reading.origin.is_told:
            # Later lines may state another folder, and the header stays as it is.
            break
    return chain(first, records)


def _session_id(path: Path, agent: Agent, origin: Origin) -> str:
    return (None if agent.named_by_file else origin.session_id) or path.name.partition(".")[0]


def _lineage(path: Path, origin: Origin) -> Raw | UnsetType:
    # Gemini CLI names the parent only by the folder of a subagent's file.
    parent_id = origin.parent_id or (path.parent.name if origin.is_subagent else None)
    return _encoded_lineage(parent_id, is_subagent=origin.is_subagent)


def _lineage_of(session: StoredSession) -> Raw | UnsetType:
    forked = session.columns.get("fork_session_id")
    parent_id = session.parent_id or (forked if isinstance(forked, str) else None)
    return _encoded_lineage(parent_id, is_subagent=session.parent_id is not None)


def _encoded_lineage(parent_id: str | None, *, is_subagent: bool) -> Raw | UnsetType:
    if not parent_id:
        return UNSET
    lineage = Lineage(parent_id=parent_id, subagent=is_subagent)
    return Raw(msgspec.json.encode(lineage))
