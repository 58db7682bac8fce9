"""Native lines of another agent's open session: answers in one piece, results in messages.

Entries of such a session are lines of its agent. With the bytes of these lines, a native session would
show the parts of an answer as answers. So a copy has the messages that the agent's model would see,
and notes name what has no place in a native session.

Law: a copy holds some 60 bytes of each entry and one step of the session, however long the session is.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

from msgspec import Struct, field, structs

from sessiond.dialects.agents.own_entries import native_entry
from sessiond.dialects.agents.reading import Origin
from sessiond.dialects.agents.view import AgentDialect
from sessiond.journal.mirror import Mirror
from sessiond.model.entries import Entry, Header, Opaque
from sessiond.model.formats import AgentFormatName
from sessiond.model.problems import without_parent
from sessiond.model.row import Kind
from sessiond.service.log.chunks import chunks, emptied, lists_of
from sessiond.service.log.open_session import OpenSession
from sessiond.service.log.rewritten import as_stored
from sessiond.service.ports import Progress
from sessiond.service.sources.agents.copied import Joined
from sessiond.service.sources.agents.found import left_out
from sessiond.service.sources.agents.inlining import inlined, outputs_beside
from sessiond.service.sources.agents.source import Report
from sessiond.service.sources.agents.writing import Step, lines_below


class JoinedPart(Struct, frozen=True):
    """The lines that a copy takes, up to a line of the session.

    Each entry of the chain stands below the one before. Without a chain the copy has all entries in
    their places. `new_id` gives every entry a new id; `last` comes behind all of them.
    """

    upto: int
    chain: Sequence[int] | None = None
    new_id: Callable[[], str] | None = None
    last: Step | None = None
    notes: list[str] = field(default_factory=list[str])


def agent_of(opened: OpenSession) -> AgentFormatName | None:
    """Return the agent whose session this is; None for a session of a dialect."""
    return opened.dialect.agent if isinstance(opened.dialect, AgentDialect) else None


def joined_lines(
    opened: OpenSession,
    agent: AgentFormatName,
    header: Header,
    taken: JoinedPart,
    progress: Progress,
) -> Iterator[list[bytes]]:
    """Return the lines of a native file; the notes get what these lack, behind the last one.

    Blocks. Reads the session now, for what belongs together, and again while the lines are made. Raises
    StorageError; the lines may raise StorageError, TooLarge.
    """
    seqs = _with_records(opened, taken)
    report = Report()
    joined = Joined(report, left_out(agent), opened.journal)
    session, above, done = opened.session, None, 0
    for seq, entry, bridge, damage in _read(opened, seqs):
        if damage is not None:
            report.add(seq, "damaged_line", damage)
        if taken.chain is not None:
            if isinstance(entry.parent_id, str) and entry.parent_id not in session.ids:
                report.add(seq, "orphan", without_parent(bridge))
            entry.parent_id = above
            above = above if isinstance(entry, Opaque) else session.names[seq]
        joined.take(seq, seq, entry, bridge)
        # A long line goes before the next one comes.
        del entry
        # This reading is the first half of the work.
        done += 1  # noqa: SIM113 - `enumerate` would hold the entry before
        progress.report(done // 2, len(seqs), "lines")
    origin = Origin(agent, opened.session_id, opened.header.cwd, opened.created_at)
    talk = joined.conversation(origin)
    log = opened.journal
    read = outputs_beside(log.path, log.files) if isinstance(log, Mirror) else None
    talk.steps = _reported(inlined(talk.steps, report, read), len(seqs), progress)
    if taken.last is not None:
        last = structs.replace(taken.last, number=len(seqs) + 1, above=talk.leaf)
        talk.steps = chain(talk.steps, [last])
        talk.leaf, talk.begun = last.number, talk.begun or last.time

    def made() -> Iterator[list[bytes]]:
        yield from lists_of(lines_below(header, talk, taken.new_id))
        taken.notes.extend(one.note for one in report.problems)

    return as_stored(opened, made())


def _reported(steps: Iterable[Step], count: int, progress: Progress) -> Iterator[Step]:
    for step in steps:
        progress.report((count + step.number) // 2, count, "lines")
        yield step
        del step
    progress.report(count, count, "lines")


def _with_records(opened: OpenSession, taken: JoinedPart) -> Sequence[int]:
    """Return the entries with the records that are about them, such as tokens that were used."""
    kinds, parents = opened.session.kinds, opened.session.parents
    every = (seq for seq in range(1, taken.upto + 1) if kinds[seq] != Kind.NONE)
    if taken.chain is None:
        return array("i", every)
    chosen = bytearray(taken.upto + 1)
    for seq in taken.chain:
        chosen[seq] = 1
    about: dict[int, list[int]] = {}
    for seq in every:
        if kinds[seq] == Kind.OPAQUE and chosen[parents[seq]] and not chosen[seq]:
            about.setdefault(parents[seq], []).append(seq)
    return array("i", (one for seq in taken.chain for one in (seq, *about.get(seq, ()))))


def _read(
    opened: OpenSession, seqs: Sequence[int]
) -> Iterator[tuple[int, Entry | Opaque, str | None, str | None]]:
    """Yield the entries of lines, each with what its line tells of a gap and of damage."""
    for some in chunks(opened.journal, seqs):
        lines = emptied(opened.journal.read_many(some))
        for seq in some:
            yield seq, *native_entry(next(lines))
