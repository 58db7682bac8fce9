"""Fork of another agent's session into a native one: answers in one piece, results in messages.

Entries of such a session are lines of its agent. With the bytes of these lines, a native session would
show the parts of an answer as answers. So the fork has the messages that the agent's model would see,
and notes name what has no place in a native session.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct

from sessiond.dialects.agents.reading import Origin
from sessiond.dialects.agents.view import AgentDialect
from sessiond.dialects.lenient_json import fields, text
from sessiond.errors import TooLarge
from sessiond.limits import IMPORT_BYTES_MAX, PROGRESS_LINES
from sessiond.model.entries import ENTRY_TYPES, Entry, Header, Opaque
from sessiond.model.formats import AgentFormatName
from sessiond.model.row import Kind
from sessiond.service.copying.header import Birth
from sessiond.service.copying.source import Source, portions
from sessiond.service.files.agents.copied import Joined
from sessiond.service.files.agents.found import left_out
from sessiond.service.files.agents.source import Report
from sessiond.service.files.agents.writing import lines_below
from sessiond.service.log.rewritten import as_stored

__all__ = ["TakenLines", "agent_of", "fork_of_agent"]


class TakenLines(Struct, frozen=True):
    """The lines that a fork takes, and whether their entries get new ids.

    Each entry of the chain stands below the one before. Without a chain the fork has all entries in
    their places.
    """

    chain: Sequence[int] | None
    renew: bool


def agent_of(source: Source) -> AgentFormatName | None:
    """Return the agent whose session this is; None for a session of a dialect."""
    dialect = source.opened.dialect
    return dialect.agent if isinstance(dialect, AgentDialect) else None


def fork_of_agent(
    agent: AgentFormatName,
    source: Source,
    birth: Birth,
    header: Header,
    taken: TakenLines,
) -> Iterator[list[bytes]]:
    """Return the lines of a native session. Blocks. Raises TooLarge, StorageError."""
    chain = taken.chain
    seqs = _with_records(source, range(1, source.upto + 1) if chain is None else chain)
    size = sum(map(source.opened.journal.line_bytes, seqs))
    if size > IMPORT_BYTES_MAX:
        said = "the session is too large to be copied at once: take less of its path with at"
        raise TooLarge(said, limit=IMPORT_BYTES_MAX, size=size)
    report = Report()
    joined = Joined(report, left_out(agent))
    above: str | None = None
    for done, (seq, line) in enumerate(as_stored(source.opened, _read(source, seqs)), 1):
        entry = _entry_in(line)
        if chain is not None:
            entry.parent_id = above
            above = above if isinstance(entry, Opaque) else source.session.names[seq]
        joined.take(seq, entry)
        birth.deps.progress.report(done, len(seqs), "lines")
    info = source.info
    talk = joined.conversation(Origin(agent, info.id, info.cwd, info.created_at))
    birth.notes.extend(f"line {one.line}: {one.detail}" for one in report.problems)
    return _chunks(lines_below(header, talk, birth.deps.new_id if taken.renew else None))


def _with_records(source: Source, chain: Sequence[int]) -> list[int]:
    """Return the entries with the records that are about them, such as tokens that were used."""
    session, there = source.session, set(chain)
    return [
        seq
        for seq in range(1, source.upto + 1)
        if seq in there or (session.kinds[seq] == Kind.OPAQUE and session.parents[seq] in there)
    ]


def _read(source: Source, seqs: Sequence[int]) -> Iterator[tuple[int, bytes]]:
    entries = [seq for seq in seqs if source.session.kinds[seq] != Kind.NONE]
    for some in portions(source, entries):
        yield from zip(some, source.opened.journal.read_many(some), strict=True)


def _entry_in(line: bytes) -> Entry | Opaque:
    """Return the entry of a line that a reading made."""
    members = fields(line)
    kind = text(members.get("type")) or ""
    if kind in ENTRY_TYPES:
        return msgspec.json.decode(line, type=ENTRY_TYPES[kind])
    return Opaque(type=kind, fields=members)


def _chunks(lines: list[bytes]) -> Iterator[list[bytes]]:
    for at in range(0, len(lines), PROGRESS_LINES):
        yield lines[at : at + PROGRESS_LINES]
