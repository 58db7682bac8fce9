"""Statistics of a session: what its entries say of messages, tools, cost, files and compactions.

Law: figures are counted from the stored lines up to one seq, in one pass, in a worker thread; an
opening pays nothing for them. No name list grows beyond STATISTICS_NAMES_BYTES_MAX.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import Struct

from sessiond import typed
from sessiond.dialects.lenient_json import lenient
from sessiond.limits import COMPACTIONS_SHOWN_MAX, STATISTICS_NAMES_BYTES_MAX
from sessiond.model.parsed_message import ParsedMessage
from sessiond.model.row import MESSAGE_KINDS, Kind
from sessiond.model.usage import Usage
from sessiond.service.log.chunks import chunks
from sessiond.service.log.open_session import OpenSession
from sessiond.service.log.rewritten import as_stored
from sessiond.service.ports import Progress
from sessiond.session.compaction.touched_files import FileTools, touches
from sessiond.session.context.stringify import whole_text

_COUNT_MAX: Final = 2**53


class MessageFigures(Struct, frozen=True):
    """Numbers of messages by role; `other` counts the roles that only some programs have."""

    user: int
    assistant: int
    tool: int
    other: int
    total: int


class ToolFigures(Struct, frozen=True):
    """Number of calls of a tool."""

    name: str
    calls: int


class FileFigures(Struct, frozen=True):
    """Files by what tools did to them; `more` is true if the names of some files were left out."""

    read: list[str]
    modified: list[str]
    more: bool


class CompactionShown(Struct, frozen=True):
    """Compaction with the sizes of the context that its entry states, in tokens."""

    entry_id: str
    seq: int
    timestamp: str
    tokens_before: int | None
    tokens_after: int | None


class CompactionFigures(Struct, frozen=True):
    """Number of compactions, tokens that they freed where both sizes are stated, and the newest."""

    count: int
    tokens_before: int
    tokens_after: int
    tokens_freed: int
    newest: list[CompactionShown]


class SessionFigures(Struct, frozen=True):
    """Figures of entries: of the whole session or of one path."""

    entries: int
    messages: MessageFigures
    tool_calls: int
    tool_errors: int
    tools: list[ToolFigures]
    usage: Usage
    files: FileFigures
    compactions: CompactionFigures
    first_at: str | None
    last_at: str | None


def statistics(
    opened: OpenSession, leaf: int, upto: int, tools: FileTools, progress: Progress
) -> tuple[SessionFigures, SessionFigures]:
    """Return the figures of the whole session and of the path to `leaf`. Raise StorageError."""
    session = opened.session
    on_path = bytearray(upto + 1)
    for seq in session.up(leaf):
        on_path[seq] = True
    whole, path = _Tally(tools), _Tally(tools)
    for fact in as_stored(opened, _facts(opened, upto, progress)):
        whole.take(fact)
        if on_path[fact.seq]:
            path.take(fact)
    return whole.figures(), path.figures()


class _Fact(Struct, frozen=True):
    """The part of one entry that statistics count."""

    seq: int
    kind: int
    timestamp: str
    reading: ParsedMessage | None
    compaction: CompactionShown | None
    files: tuple[tuple[bool, str], ...] = ()
    """Files that a summary names: whether the file was modified, and its path."""


def _facts(opened: OpenSession, upto: int, progress: Progress) -> Iterator[_Fact]:
    session = opened.session
    progress.report(0, upto + 1, "lines")
    for chunk in chunks(opened.journal, filter(session.is_entry, range(1, upto + 1))):
        for seq, line in zip(chunk, opened.journal.read_many(chunk), strict=True):
            yield _fact(opened, seq, line)
        progress.report(chunk[-1], upto + 1, "lines")


def _fact(opened: OpenSession, seq: int, line: bytes) -> _Fact:
    dialect, kind = opened.dialect, opened.session.kinds[seq]
    timestamp = dialect.timestamp(line)
    if kind in MESSAGE_KINDS:
        return _Fact(seq, kind, timestamp, dialect.reading(line), None)
    if kind not in {Kind.COMPACTION, Kind.BRANCH_SUMMARY}:
        return _Fact(seq, kind, timestamp, None, None)
    said = dialect.summary(line)
    files = (*((False, path) for path in said.read), *((True, path) for path in said.modified))
    shown = None
    if kind == Kind.COMPACTION:
        fields = lenient(dialect.wire(line))
        before, after = (_count(fields.get(name)) for name in ("tokens_before", "tokens_after"))
        shown = CompactionShown(opened.session.names[seq], seq, timestamp, before, after)
    return _Fact(seq, kind, timestamp, None, shown, files)


def _count(raw: msgspec.Raw | None) -> int | None:
    """Return a number of tokens; None for no number, or one that no context has."""
    try:
        found = None if raw is None else typed.decode(raw, int | float | None)
    except msgspec.DecodeError:
        return None
    return int(found) if found is not None and 0 <= found < _COUNT_MAX else None


class _Names:
    """Set of names that stops at STATISTICS_NAMES_BYTES_MAX."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.more = False
        self._room = STATISTICS_NAMES_BYTES_MAX

    def add(self, name: str) -> None:
        """Count a name. Half characters, which no answer could hold, become U+FFFD."""
        name = whole_text(name)
        if name not in self.counts:
            size = len(name.encode())
            if size > self._room:
                self.more = True
                return
            self._room -= size
        self.counts[name] += 1


class _Tally:
    """Sums over the entries that were taken."""

    def __init__(self, tools: FileTools) -> None:
        self._tools = tools
        self._kinds: Counter[int] = Counter()
        self._calls = self._errors = 0
        self._usage = Usage()
        self._names, self._read, self._modified = _Names(), _Names(), _Names()
        self._newest: deque[CompactionShown] = deque(maxlen=COMPACTIONS_SHOWN_MAX)
        self._before = self._after = self._freed = 0
        self._times: tuple[str, str] | None = None

    def take(self, fact: _Fact) -> None:
        """Add one entry."""
        self._kinds[fact.kind] += 1
        if fact.timestamp:
            first, last = self._times or (fact.timestamp, fact.timestamp)
            self._times = min(first, fact.timestamp), max(last, fact.timestamp)
        if fact.reading is not None:
            self._take_message(fact.kind, fact.reading)
        for is_modified, path in fact.files:
            (self._modified if is_modified else self._read).add(path)
        if fact.compaction is not None:
            self._take_compaction(fact.compaction)

    def _take_message(self, kind: int, reading: ParsedMessage) -> None:
        if kind == Kind.ASSISTANT and reading.usage is not None:
            self._usage = self._usage.plus(reading.usage)
        for block in reading.blocks:
            if block.kind == "tool_call":
                self._calls += 1
                self._names.add(block.name)
            elif block.kind == "tool_result":
                self._errors += block.is_error
        for is_modified, path in touches(reading, self._tools):
            (self._modified if is_modified else self._read).add(path)

    def _take_compaction(self, shown: CompactionShown) -> None:
        self._newest.append(shown)
        self._before += shown.tokens_before or 0
        self._after += shown.tokens_after or 0
        if shown.tokens_before is not None and shown.tokens_after is not None:
            self._freed += shown.tokens_before - shown.tokens_after

    def figures(self) -> SessionFigures:
        """Return the figures of the entries taken so far."""
        kinds = self._kinds
        first_at, last_at = self._times or (None, None)
        return SessionFigures(
            entries=kinds.total(),
            messages=MessageFigures(
                kinds[Kind.USER],
                kinds[Kind.ASSISTANT],
                kinds[Kind.TOOL],
                kinds[Kind.OTHER_ROLE],
                sum(kinds[kind] for kind in MESSAGE_KINDS),
            ),
            tool_calls=self._calls,
            tool_errors=self._errors,
            tools=[ToolFigures(name, calls) for name, calls in self._names.counts.most_common()],
            usage=self._usage,
            files=self._files(),
            compactions=CompactionFigures(
                kinds[Kind.COMPACTION],
                self._before,
                self._after,
                self._freed,
                list(self._newest),
            ),
            first_at=first_at,
            last_at=last_at,
        )

    def _files(self) -> FileFigures:
        read, modified = self._read.counts.keys(), self._modified.counts.keys()
        return FileFigures(
            sorted(read - modified if self._tools.apart else read),
            sorted(modified),
            self._read.more or self._modified.more,
        )
