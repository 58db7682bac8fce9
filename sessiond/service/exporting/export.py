"""Export: a session as the lines of a file, in a dialect that the caller names.

A session is exported in its own dialect as the bytes of its file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from msgspec import UNSET
from msgspec.structs import replace

from sessiond.dialects.base import Dialect
from sessiond.dialects.native.dialect import NATIVE
from sessiond.limits import PROGRESS_LINES
from sessiond.model.formats import AgentFormatName
from sessiond.model.ids import MAIN
from sessiond.service.exporting.converting import Converter, Standing
from sessiond.service.exporting.losses import Losses
from sessiond.service.exporting.native import native_lines, native_notes
from sessiond.service.log.chunks import chunks
from sessiond.service.log.open_session import OpenSession
from sessiond.service.ports import Progress
from sessiond.service.sources.agents.joining import JoinedPart, agent_of, joined_lines
from sessiond.service.sources.dry_run import in_memory

__all__ = ["Export", "export"]


class Export(NamedTuple):
    """The bytes of an exported session, in pieces, and notes on what had to change.

    `notes` is asked behind the last piece.
    """

    pieces: Iterator[bytes]
    notes: Callable[[], list[str]]


def export(opened: OpenSession, target: Dialect, at: Standing, progress: Progress) -> Export:
    """Return the session as lines of a dialect. The pieces may raise StorageError.

    Raises TooLarge, StorageError for another agent's session, which is made native first.
    """
    agent = agent_of(opened)
    if agent is not None:
        return _of_agent(opened, agent, target, at, progress)
    if opened.dialect.name == target.name:
        return Export(_own_lines(opened, at.upto, progress), list)
    if target is NATIVE:
        losses = Losses()
        pieces = native_lines(opened, at.upto, losses, progress)
        return Export(pieces, lambda: [*native_notes(opened, at.upto), *losses.notes()])
    converter = Converter(opened, target, at)
    first = f"converted from {opened.dialect.name}"
    pieces = _converted(opened, converter, at.upto, progress)
    return Export(pieces, lambda: [first, *converter.losses.notes()])


def _of_agent(
    opened: OpenSession, agent: AgentFormatName, target: Dialect, at: Standing, progress: Progress
) -> Export:
    header = replace(opened.header, version=UNSET, id=opened.session_id)
    lines, lacking = joined_lines(opened, agent, header, JoinedPart(at.upto), progress)
    made = in_memory(opened.session_id, [lines])
    there = Standing(made.session.seq, made.session.heads[MAIN].leaf, at.title)
    exported = export(made, target, there, progress)
    return Export(exported.pieces, lambda: [f"converted from {agent}", *lacking, *exported.notes()])


def _own_lines(opened: OpenSession, upto: int, progress: Progress) -> Iterator[bytes]:
    """Yield the bytes as they are stored, so a line that no reader understands is exported too."""
    for first in range(0, upto + 1, PROGRESS_LINES):
        last = min(first + PROGRESS_LINES - 1, upto)
        yield from opened.journal.chunks(first, last)
        progress.report(last + 1, upto + 1, "lines")


def _converted(
    opened: OpenSession, converter: Converter, upto: int, progress: Progress
) -> Iterator[bytes]:
    session = opened.session
    yield converter.header_line + b"\n"
    for chunk in chunks(opened.journal, filter(session.is_entry, range(1, upto + 1))):
        lines = converter.convert(chunk, opened.journal.read_many(chunk))
        yield b"".join(line + b"\n" for line in lines)
        progress.report(chunk[-1], upto + 1, "lines")
    yield b"".join(line + b"\n" for line in converter.end())
    progress.report(upto + 1, upto + 1, "lines")
