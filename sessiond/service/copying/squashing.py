"""Squash: the summary that the model sees in place of chosen entries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import UNSET, Struct

from sessiond.dialects.base import ContextLine
from sessiond.errors import InvalidParams
from sessiond.model.entries import Compaction
from sessiond.model.ids import MAIN
from sessiond.model.parsed_message import ParsedMessage
from sessiond.model.plans import SquashPlan
from sessiond.model.requests import SummarizeParams
from sessiond.model.row import Kind
from sessiond.service.copying.source import Source
from sessiond.service.log.plan_lines import plan_lines
from sessiond.service.summaries.summarizers import Wanted
from sessiond.session.compaction.policy import Preset, stored_summary
from sessiond.session.compaction.prompts import squash_prompt
from sessiond.session.compaction.touched_files import TouchedFiles, touched

_SUMMARIES = frozenset({int(Kind.COMPACTION), int(Kind.BRANCH_SUMMARY)})


class Squash(Struct, frozen=True):
    """A summary that the daemon has written: the request for it, and the files that it is about."""

    wanted: Wanted
    files: TouchedFiles


def plan_squash(source: Source, seqs: Sequence[int], preset: Preset) -> Squash:
    """Return what a summary of these entries needs. Blocks.

    Raises InvalidParams, TooLarge, StorageError.
    """
    lines = plan_lines(
        source.opened.journal,
        seqs,
        "the entries are larger than a prompt may be: send a summary of your own as squash.summary",
    )
    told: dict[str, list[ParsedMessage]] = {}
    read: list[str] = []
    modified: list[str] = []
    for seq, line in zip(seqs, lines, strict=True):
        readings = list(_readings(source, seq, line))
        if readings:
            told[source.session.names[seq]] = readings
        if source.session.kinds[seq] in _SUMMARIES:
            earlier = source.opened.dialect.summary(line)
            read += earlier.read
            modified += earlier.modified
    if not told:
        raise InvalidParams(
            "the chosen entries give a model no message to summarise", path="squash"
        )
    said = [reading for readings in told.values() for reading in readings]
    files = touched(said, TouchedFiles(tuple(read), tuple(modified)), preset.files)
    follow = source.opened.dialect.rules.shows_files
    plan = SquashPlan(squash_prompt(said, files, lists_follow=follow), list(told))
    request = SummarizeParams(
        source.info.id, MAIN, "squash", None, plan.prompt, entry_ids=plan.entry_ids
    )
    return Squash(Wanted(request, plan, "squash.summary"), files)


def squashed(source: Source, summary: str, files: TouchedFiles, preset: Preset) -> Compaction:
    """Return the entry of a summary that the daemon had written, with the files in its details."""
    dialect = source.opened.dialect
    summary = stored_summary(summary, files, dialect.rules, preset)
    named = files.read or files.modified
    details = dialect.file_details(files.read, files.modified) if named else UNSET
    return Compaction(summary=summary, first_kept_entry_id=None, details=details)


def _readings(source: Source, seq: int, line: bytes) -> Iterator[ParsedMessage]:
    """Yield the messages that the entry gives a context by itself."""
    name, dialect = source.session.names[seq], source.opened.dialect
    for message in dialect.context([ContextLine(name, source.session.kinds[seq], line)]):
        reading = dialect.read(message.body) if message.source == name else None
        if reading is not None:
            yield reading
