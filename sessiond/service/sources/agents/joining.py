"""Native lines of another agent's open session: answers in one piece, results in messages.

Entries of such a session are lines of its agent. With the bytes of these lines, a native session would
show the parts of an answer as answers. So a copy has the messages that the agent's model would see,
and notes name what has no place in a native session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct, structs

from sessiond.dialects.agents.own_entries import BRIDGE, DAMAGE
from sessiond.dialects.agents.reading import Origin
from sessiond.dialects.agents.view import AgentDialect
from sessiond.dialects.entry_members import entry_of
from sessiond.dialects.lenient_json import fields, text
from sessiond.errors import TooLarge
from sessiond.journal.mirror import Mirror
from sessiond.limits import IMPORT_BYTES_MAX
from sessiond.model.entries import ENTRY_TYPES, Entry, Header, Opaque
from sessiond.model.formats import AgentFormatName
from sessiond.model.problems import without_parent
from sessiond.model.row import Kind
from sessiond.service.log.chunks import chunks
from sessiond.service.log.open_session import OpenSession
from sessiond.service.log.rewritten import as_stored
from sessiond.service.ports import Progress
from sessiond.service.sources.agents.copied import Joined
from sessiond.service.sources.agents.found import left_out
from sessiond.service.sources.agents.inlining import inline, outputs_beside
from sessiond.service.sources.agents.source import Report
from sessiond.service.sources.agents.writing import Step, lines_below

__all__ = ["JoinedPart", "agent_of", "joined_lines"]


class JoinedPart(Struct, frozen=True):
    """The lines that a copy takes, up to a line of the session.

    Each entry of the chain stands below the one before. Without a chain the copy has all entries in
    their places. `new_id` gives every entry a new id; `last` comes behind all of them.
    """

    upto: int
    chain: Sequence[int] | None = None
    new_id: Callable[[], str] | None = None
    last: Step | None = None


def agent_of(opened: OpenSession) -> AgentFormatName | None:
    """Return the agent whose session this is; None for a session of a dialect."""
    return opened.dialect.agent if isinstance(opened.dialect, AgentDialect) else None


def joined_lines(
    opened: OpenSession,
    agent: AgentFormatName,
    header: Header,
    taken: JoinedPart,
    progress: Progress,
) -> tuple[list[bytes], list[str]]:
    """Return the lines of a native file, and the notes. Blocks. Raises TooLarge, StorageError."""
    session, chain = opened.session, taken.chain
    seqs = _with_records(opened, taken)
    size = sum(map(opened.journal.line_bytes, seqs))
    if size > IMPORT_BYTES_MAX:
        said = "the session is too large to be copied at once: fork a part of it with at"
        raise TooLarge(said, limit=IMPORT_BYTES_MAX, size=size)
    report = Report()
    joined = Joined(report, left_out(agent))
    above: str | None = None
    for done, (seq, line) in enumerate(as_stored(opened, _read(opened, seqs)), 1):
        entry, bridge, damage = _entry_in(line)
        if damage is not None:
            report.add(seq, "damaged_line", damage)
        if chain is not None:
            if isinstance(entry.parent_id, str) and entry.parent_id not in session.ids:
                report.add(seq, "orphan", without_parent(bridge))
            entry.parent_id = above
            above = above if isinstance(entry, Opaque) else session.names[seq]
        joined.take(seq, entry, bridge)
        progress.report(done, len(seqs), "lines")
    origin = Origin(agent, opened.session_id, opened.header.cwd, opened.created_at)
    talk = joined.conversation(origin)
    if taken.last is not None:
        talk.steps.append(structs.replace(taken.last, parent=talk.leaf))
        talk.leaf = taken.last.key
    log = opened.journal
    inline(talk, report, outputs_beside(log.path, log.files) if isinstance(log, Mirror) else None)
    lines = lines_below(header, talk, taken.new_id)
    return lines, [one.note for one in report.problems]


def _with_records(opened: OpenSession, taken: JoinedPart) -> list[int]:
    """Return the entries with the records that are about them, such as tokens that were used."""
    kinds, parents = opened.session.kinds, opened.session.parents
    every = [seq for seq in range(1, taken.upto + 1) if kinds[seq] != Kind.NONE]
    if taken.chain is None:
        return every
    about: dict[int, list[int]] = {seq: [] for seq in taken.chain}
    for seq in every:
        if kinds[seq] == Kind.OPAQUE and parents[seq] in about and seq not in about:
            about[parents[seq]].append(seq)
    return [one for seq in taken.chain for one in (seq, *about[seq])]


def _read(opened: OpenSession, seqs: Sequence[int]) -> Iterator[tuple[int, bytes]]:
    for some in chunks(opened.journal, seqs):
        yield from zip(some, opened.journal.read_many(some), strict=True)


def _entry_in(line: bytes) -> tuple[Entry | Opaque, str | None, str | None]:
    """Return the entry of a line that a reading made, and what the line tells of a gap and of damage."""
    members = fields(line)
    bridge, damage = text(members.pop(BRIDGE, None)), text(members.pop(DAMAGE, None))
    kind = text(members.get("type")) or ""
    if kind in ENTRY_TYPES:
        return entry_of(members, ENTRY_TYPES[kind]), bridge, damage
    return Opaque(type=kind, fields=members), bridge, damage
