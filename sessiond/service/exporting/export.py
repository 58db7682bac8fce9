"""Export: a session as the lines of a file, in a dialect that the caller names.

A session is exported in its own dialect as the bytes of its file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from sessiond.dialects.base import Dialect
from sessiond.dialects.native.dialect import NATIVE
from sessiond.journal.store import SessionLog
from sessiond.limits import PROGRESS_LINES
from sessiond.model.ids import MAIN
from sessiond.service.exporting.converting import Converter, Standing
from sessiond.service.exporting.losses import Losses
from sessiond.service.exporting.native import native_lines, native_notes
from sessiond.service.log.chunks import chunks
from sessiond.service.log.open_session import OpenSession
from sessiond.service.ports import Progress
from sessiond.service.sources.agents.joining import JoinedPart, agent_of, joined_lines
from sessiond.service.sources.dry_run import indexed


class Export(NamedTuple):
    """The bytes of an exported session, in pieces, and notes on what had to change.

    `notes` is asked behind the last piece.
    """

    pieces: Iterator[bytes]
    notes: Callable[[], list[str]]


def export(
    opened: OpenSession,
    target: Dialect,
    at: Standing,
    progress: Progress,
    spooled: Callable[[], SessionLog],
) -> Export:
    """Return the session as lines of a dialect. The pieces may raise StorageError, TooLarge.

    Another agent's session is made native first; `spooled` gives the log for the native lines. Raises
    StorageError.
    """
    agent = agent_of(opened)
    if agent is not None:
        header = replace(opened.header, version=UNSET, id=opened.session_id)
        notes = [f"converted from {agent}"]
        lines = joined_lines(opened, agent, header, JoinedPart(at.upto, notes=notes), progress)
        if target is NATIVE:
            return Export(map(_piece, lines), lambda: notes)
        return converted(opened.session_id, lines, target, progress, spooled, notes, at.title)
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


def converted(  # noqa: PLR0913 - a session, a target, and where the work is told
    session_id: str,
    lines: Iterable[Sequence[bytes]],
    target: Dialect,
    progress: Progress,
    spooled: Callable[[], SessionLog],
    notes: list[str],
    title: str | UnsetType | None = UNSET,
) -> Export:
    """Return the lines of a session as those of another dialect; `notes` gets what had to change.

    `title` is that of the lines unless one is given. The lines are asked for with the first piece.
    """

    def pieces() -> Iterator[bytes]:
        log = spooled()
        try:
            made = indexed(session_id, lines, log)
            said = made.info().title if isinstance(title, UnsetType) else title
            there = Standing(made.session.seq, made.session.heads[MAIN].leaf, said)
            exported = export(made, target, there, progress, spooled)
            yield from exported.pieces
            notes.extend(exported.notes())
        finally:
            log.close()

    return Export(pieces(), lambda: notes)


def _piece(lines: Iterable[bytes]) -> bytes:
    return b"\n".join([*lines, b""])


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
        yield _piece(converter.convert(chunk, opened.journal.read_many(chunk)))
        progress.report(chunk[-1], upto + 1, "lines")
    yield _piece(converter.end())
    progress.report(upto + 1, upto + 1, "lines")
