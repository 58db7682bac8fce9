"""Sessions of other agents, read a line at a time and indexed like native files."""

from __future__ import annotations

import json
import random
import tracemalloc
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from typing import Any

from sessiond.dialects.agents.own_entries import native_line
from sessiond.dialects.agents.reading import Origin, Reading
from sessiond.dialects.agents.source_line import source_line
from sessiond.dialects.agents.transcript import Transcript
from sessiond.dialects.agents.view import AgentDialect
from sessiond.dialects.base import ContextLine
from sessiond.dialects.native.dialect import NATIVE
from sessiond.journal.disk.files import Files
from sessiond.journal.spooled import SpooledLog
from sessiond.model.entries import Entry, Opaque
from sessiond.model.formats import AgentFormatName
from sessiond.model.row import ModelName
from sessiond.model.usage import Usage
from sessiond.rpc.progress import NO_PROGRESS
from sessiond.service.log.line_indexer import LineIndexer
from sessiond.service.sources.agents.found import AgentSession
from sessiond.service.sources.agents.source import AgentLog
from sessiond.service.sources.importing import ImportReport, ImportSource, read_import, source_of
from sessiond.session.context.context import plan_context
from sessiond.session.index import Session
from tests.kit.agents import said

HEADER_LINES = 1
UNKNOWN = [b'{"type":"brand-new","any":[1]}', b"[]", b"null", b"{", b"\xff", b" ", b'"text"', b"7"]
# Lines that look like entries of a native file, or say nothing.
ALIKE = [b'{"type":"leaf","id":7,"target_id":null}', b'{"type":"message","message":{}}', b"{}"]


class ReadSession:
    """A session that a reading made of lines: its entries, its index, and its contexts."""

    def __init__(self, reading: Reading, *lines: Any) -> None:
        self.reading = reading
        self._transcript = Transcript(reading)
        self.dialect = AgentDialect(reading.origin.agent)
        self.session = Session(self.dialect.rules)
        self.entries: list[Entry | Opaque | None] = []
        self.lines: list[bytes] = []
        self._indexer = LineIndexer(self.session, self.dialect, ())
        self.take_all(lines)

    def take(self, line: bytes) -> ReadSession:
        """Read and index the next line of the agent's file."""
        return self.take_all((line,))

    def take_all(self, lines: Iterable[Any]) -> ReadSession:
        """Read and index the next lines of a file; one that is no bytes is spelled as JSON."""
        spelled = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in lines]
        for taken in self._transcript.take(spelled, is_last=True):
            entry = taken.entry
            self.entries.append(entry)
            self.lines.append(
                taken.raw if entry is None else native_line(entry, taken.bridge, taken.damage)
            )
            if entry is not None:
                # Lists take the rows of messages without their lines.
                row = self.dialect.row_of_said(entry, taken.bridge, taken.damage)
                assert row is None or row == self.dialect.row(self.lines[-1])
            self._indexer.take(len(self.lines) - 1 + HEADER_LINES, self.lines[-1])
        return self

    @property
    def origin(self) -> Origin:
        """Facts that the lines state."""
        return self.reading.origin

    @property
    def leaf_id(self) -> str | None:
        """Id of the main head's leaf."""
        return self.session.id_of(self.session.heads["main"].leaf)

    @property
    def model(self) -> tuple[str, str | None] | None:
        """Model at the main head's leaf, and its provider."""
        session = self.session
        setting = session.setting(session.model_refs[session.heads["main"].leaf])
        return (setting.model_id, setting.provider) if isinstance(setting, ModelName) else None

    @property
    def usage(self) -> Usage | None:
        """Sum of the usage that entries state, records of tokens included."""
        total: Usage | None = None
        for line in self.native_lines():
            usage = self.dialect.row(line).usage
            if usage is not None:
                total = usage if total is None else total.plus(usage)
        return total

    def entry(self, number: int) -> Any:
        """Return the entry of a line, by its number in the agent's file, decoded."""
        return json.loads(self.lines[number - HEADER_LINES])

    def types(self) -> list[str]:
        """Return the types of all entries."""
        return [json.loads(line)["type"] for line in self.native_lines()]

    def native_lines(self) -> list[bytes]:
        """Return the lines of all entries, so not those of the agent's lines that are no objects."""
        pairs = zip(self.lines, self.entries, strict=True)
        return [line for line, entry in pairs if entry is not None]

    def context(self, entry_id: str | None = None) -> list[tuple[str, str]]:
        """Return the context at an entry or at the leaf: for each message its source and what it says."""
        return [(source, said(message)) for source, message in self.messages(entry_id)]

    def messages(self, entry_id: str | None = None) -> list[tuple[str, Any]]:
        """Return the context at an entry or at the leaf: for each message its source and its members."""
        session = self.session
        leaf = session.ids[entry_id] if entry_id else session.heads["main"].leaf
        plan = plan_context(session, leaf)
        lines = [
            ContextLine(
                session.names[seq],
                session.kinds[seq],
                self.lines[seq - HEADER_LINES],
                kept=seq < plan.compaction,
            )
            for seq in plan.seqs
        ]
        return [(one.source, json.loads(one.body)) for one in self.dialect.context(lines)]

    def texts(self, entry_id: str | None = None) -> list[str]:
        """Return what each message of a context says."""
        return [text for _, text in self.context(entry_id)]

    def problems(self) -> list[tuple[int, str]]:
        """Return the problems of the index: the lines' numbers in the agent's file, and their kinds."""
        return [(one.line - HEADER_LINES, one.kind) for one in self.session.problems]

    def records(self) -> list[tuple[int, str]]:
        """Return the opaque entries: their lines' numbers and types."""
        found = enumerate(self.entries, 1)
        return [(number, one.type) for number, one in found if isinstance(one, Opaque)]


def agent_log(name: str, lines: Sequence[bytes], tail: bytes = b"") -> AgentLog:
    """Return the content of a file that has these lines, and half a line behind the last newline."""
    return AgentLog(name, lambda: iter([(list(lines), False), ([tail] if tail else [], True)]))


def imported(source: ImportSource, wanted: str = "auto") -> tuple[list[bytes], ImportReport]:
    """Return the lines of the copy of a source, and the report."""
    made, report = read_import(
        source,
        wanted=wanted,
        session_id="session-a",
        cwd=None,
        progress=NO_PROGRESS,
        spooled=lambda: SpooledLog(Files(), None),
    )
    with closing(made):
        return [line for some in made.lists() for line in some], report


class Copy:
    """The native copy of a file of another agent: its lines and its index."""

    def __init__(self, agent: AgentFormatName, data: bytes) -> None:
        self._read(agent, source_of("a.jsonl", data))

    @classmethod
    def of_lines(cls, agent: AgentFormatName, lines: Sequence[bytes]) -> Copy:
        """Return the copy of a session of a store, by the lines that stand for the session."""
        made = cls.__new__(cls)
        session = AgentSession(agent, agent_log("a.db", lines))
        made._read(agent, ImportSource("a.db", lambda: iter(()), agent=session))
        return made

    def _read(self, agent: AgentFormatName, source: ImportSource) -> None:
        self.lines, self.report = imported(source, agent)
        self.session = Session(NATIVE.rules)
        indexer = LineIndexer(self.session, NATIVE, ())
        for seq, line in enumerate(self.lines[1:], 1):
            indexer.take(seq, line)

    def texts(self, leaf: int | None = None) -> list[str]:
        """Return what each message of a context says, at a line or at the leaf."""
        session = self.session
        plan = plan_context(session, session.heads["main"].leaf if leaf is None else leaf)
        lines = [
            ContextLine(session.names[seq], session.kinds[seq], self.lines[seq])
            for seq in plan.seqs
        ]
        return [said(json.loads(one.body)) for one in NATIVE.context(lines)]


def read(reading: Reading, lines: Iterable[Any]) -> ReadSession:
    """Return the session that a reading makes of these lines."""
    return ReadSession(reading).take_all(lines)


def variant(data: bytes, chance: random.Random) -> bytes:
    """Return the file with its first line, and with other lines changed at random."""
    first, *lines = data.split(b"\n")
    match chance.randrange(5):
        case 0:
            return data[: chance.randrange(len(first) + 1, len(data))]
        case 1:
            chance.shuffle(lines)
        case 2:
            lines = [line for line in lines for _ in range(chance.choice([0, 1, 1, 2]))]
        case 3:
            for _ in range(4):
                lines.insert(chance.randrange(len(lines) + 1), chance.choice(UNKNOWN))
        case _:
            at = chance.randrange(len(lines))
            line = bytearray(lines[at] or b"x")
            line[chance.randrange(len(line))] = chance.randrange(256)
            lines[at] = bytes(line)
    return b"\n".join([first, *lines])


def bytes_kept(reading: Reading, lines: Iterable[bytes]) -> int:
    """Return the bytes of memory that a reading has more behind these lines."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number, line in enumerate(lines, 1):
            reading.take(source_line(number, line))
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()


def variants(lines: Sequence[bytes], seed: str, count: int) -> list[list[bytes]]:
    """Return the lines cut, in other orders, doubled, mixed with unknown ones, and damaged."""
    chance = random.Random(seed)
    return [_variant(list(lines), chance) for _ in range(count)]


def _variant(lines: list[bytes], chance: random.Random) -> list[bytes]:
    match chance.randrange(5):
        case 0:
            at = chance.randrange(len(lines))
            return [*lines[:at], lines[at][: chance.randrange(len(lines[at]))]]
        case 1:
            chance.shuffle(lines)
        case 2:
            return [line for line in lines for _ in range(chance.choice([0, 1, 1, 2]))]
        case 3:
            for _ in range(4):
                lines.insert(chance.randrange(len(lines) + 1), chance.choice([*UNKNOWN, *ALIKE]))
        case _:
            at = chance.randrange(len(lines))
            line = bytearray(lines[at])
            line[chance.randrange(len(line))] = chance.randrange(256)
            lines[at] = bytes(line)
    return lines


def check_reading(make: Callable[[], Reading], lines: Sequence[bytes]) -> ReadSession:
    """Return the session of these lines; fail if the reading breaks a law of its port.

    Each line is one entry or bad, a damaged line one or more, ids are unique, and each prefix is read as
    if nothing followed.
    """
    whole = ReadSession(make())
    seen: list[tuple[Any, ...]] = []
    for line in lines:
        whole.take(line)
        seen.append((whole.leaf_id, whole.session.facts.copy(), _facts(whole.origin)))
    names = [name for name in whole.session.names if name]
    assert len(set(names)) == len(names)
    for problem in whole.session.problems:
        assert problem.kind in {"bad_line", "damaged_line"}, problem
    is_damaged = any(problem.kind == "damaged_line" for problem in whole.session.problems)
    assert len(whole.lines) == len(lines) or (is_damaged and len(whole.lines) > len(lines))
    for native in whole.native_lines():
        assert b"\n" not in native
        assert whole.dialect.row(native).id
    whole.messages()
    for end in range(0, len(lines), max(1, len(lines) // 4)):
        part = ReadSession(make()).take_all(lines[:end])
        assert part.lines == whole.lines[: len(part.lines)]
        assert is_damaged or len(part.lines) == end
        if end:
            facts = (part.leaf_id, part.session.facts, _facts(part.origin))
            assert facts == seen[end - 1]
    return whole


def _facts(origin: Origin) -> tuple[Any, ...]:
    facts = {name: bytes(raw) for name, raw in origin.facts.items()}
    return (origin.agent, origin.session_id, origin.cwd, origin.created_at, facts)
