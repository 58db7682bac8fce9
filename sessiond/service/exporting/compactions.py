"""Forms of a compaction, as a dialect has them: by a first kept entry, or by messages."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Final

from msgspec import UNSET, Raw
from msgspec.structs import replace

from sessiond.dialects.base import Dialect
from sessiond.dialects.compose import said_by_user
from sessiond.model.entries import Compaction
from sessiond.model.parsed_message import ParsedMessage
from sessiond.model.row import MESSAGE_KINDS
from sessiond.service.context.context_lines import context_line, context_lines
from sessiond.service.exporting.forms import Form
from sessiond.service.exporting.messages import ways_to_say
from sessiond.service.log.open_session import OpenSession
from sessiond.session.compaction.transcript import conversation
from sessiond.session.context.context import plan_context

_AS_MESSAGES: Final = (
    "compactions by a first kept entry became compactions by the messages they give"
)
_AS_KEPT: Final = "compactions by messages became compactions by a first kept entry"
_AS_SUMMARY: Final = "compactions by messages became a summary with the text of these messages"
_FIGURE: Final = "sizes of contexts after a compaction were left out"
_DETAILS: Final = "details of compactions were left out"


def compaction_forms(
    opened: OpenSession, seq: int, line: bytes, entry: Compaction, target: Dialect
) -> Iterator[Form]:
    """Yield the forms of a compaction, the closest first. Raises StorageError."""
    if entry.messages is UNSET:
        ending = "" if target.rules.shows_files else context_line(opened, seq, line, seq).ending
        longer = _longer(entry, ending)
        yield from _bare(longer, "")
        yield from _bare(_Said(opened, seq, target, longer).as_messages(), _AS_MESSAGES)
        return
    said = _Said(opened, seq, target, entry)
    yield from _bare(said.as_messages(), "")
    kept = said.as_kept_entries()
    if kept is not None:
        yield from _bare(kept, _AS_KEPT)
    yield from _bare(said.as_summary(), _AS_SUMMARY)


def _bare(entry: Compaction, loss: str) -> Iterator[Form]:
    yield entry, loss
    if entry.tokens_after is not UNSET:
        entry = replace(entry, tokens_after=UNSET)
        yield entry, loss or _FIGURE
    if entry.details is not UNSET:
        yield replace(entry, details=UNSET), loss or _DETAILS


def _longer(entry: Compaction, ending: str) -> Compaction:
    """Return the compaction with its file lists in the summary, if the summary lacks them."""
    if not (ending and isinstance(entry.summary, str)) or ending.strip() in entry.summary:
        return entry
    return replace(entry, summary=entry.summary + ending)


class _Said:
    """The messages with which a context begins at a compaction."""

    def __init__(self, opened: OpenSession, seq: int, target: Dialect, entry: Compaction) -> None:
        self._opened = opened
        self._seq = seq
        self._target = target
        self._entry = entry

    def as_messages(self) -> Compaction:
        """Return the compaction by messages."""
        time = self._entry.timestamp if isinstance(self._entry.timestamp, str) else ""
        readings = self._readings
        messages: list[Raw] = []
        if isinstance(self._entry.summary, str):
            # The first message stands for the summary, in the words of its program.
            messages.append(said_by_user(self._target, self._entry.summary, time))
            readings = readings[1:]
        for said in readings:
            for made, _ in ways_to_say(self._target, said, time, None):
                messages += made
                break
        return replace(self._blank(), messages=messages)

    def as_kept_entries(self) -> Compaction | None:
        """Return the compaction by the entries whose messages the newest ones repeat, if any do.

        The messages before them are the summary.
        """
        messages, above = self._readings, self._above()
        count = 0
        while count < min(len(messages), len(above)) and _says(
            messages[-1 - count], above[-1 - count][1]
        ):
            count += 1
        rest = messages[: len(messages) - count]
        if not (count and rest):
            return None
        is_one = len(rest) == 1 and rest[0].role == "user"
        summary = rest[0].text if is_one else conversation(rest)
        first = above[-count][0]
        kept = self._opened.session.id_of(first)
        return replace(self._blank(), summary=summary, first_kept_entry_id=kept)

    def _above(self) -> list[tuple[int, ParsedMessage]]:
        """Return the messages of the context that the compaction replaces, with their lines."""
        opened, session = self._opened, self._opened.session
        seqs = plan_context(session, session.parents[self._seq]).seqs
        seqs = [seq for seq in seqs if session.kinds[seq] in MESSAGE_KINDS]
        readings = map(opened.dialect.reading, opened.journal.read_many(seqs))
        return [(seq, said) for seq, said in zip(seqs, readings, strict=True) if said is not None]

    def as_summary(self) -> Compaction:
        """Return the compaction by a summary that keeps no entry."""
        summary = conversation(self._readings) or " "
        return replace(self._blank(), summary=summary, first_kept_entry_id=None)

    def _blank(self) -> Compaction:
        """Return the compaction without a summary, a first kept entry and messages."""
        entry = self._entry
        return Compaction(
            id=entry.id,
            timestamp=entry.timestamp,
            tokens_before=entry.tokens_before,
            tokens_after=entry.tokens_after,
            details=entry.details,
        )

    @cached_property
    def _readings(self) -> list[ParsedMessage]:
        opened, seq = self._opened, self._seq
        seqs = plan_context(opened.session, seq).seqs
        lines = context_lines(opened, seqs, opened.journal.read_many(seqs), seq)
        messages = opened.dialect.context(lines)
        readings = (opened.dialect.read(message.body) for message in messages)
        return [reading for reading in readings if reading is not None]


def _says(one: ParsedMessage, other: ParsedMessage) -> bool:
    """Return whether two messages have equal roles and blocks; figures and times do not count."""
    return (one.role, one.blocks) == (other.role, other.blocks)
