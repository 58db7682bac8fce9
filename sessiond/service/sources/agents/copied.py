"""A copy of another agent's session, made of the entries that a reading gives.

The entries of one answer are one step of the copy, and a line with several results is a step of several
entries. Records are left out and reported, but for those whose facts are in other entries.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import tee
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from sessiond.dialects.agents.own_entries import USAGE_RECORD, native_entry, native_line
from sessiond.dialects.agents.reading import Origin, Reading
from sessiond.dialects.agents.replies import REQUEST_TOKENS
from sessiond.dialects.agents.source_line import decoded
from sessiond.dialects.agents.tables.ids import IdTable
from sessiond.dialects.agents.transcript import Taken
from sessiond.dialects.agents.view import arranged, exchange
from sessiond.dialects.base import ContextMessage
from sessiond.dialects.lenient_json import join, lenient, text
from sessiond.dialects.native.dialect import NATIVE
from sessiond.journal.store import SessionLog
from sessiond.limits import LINE_BYTES_MAX
from sessiond.model.entries import (
    Compaction,
    CustomMessage,
    Entry,
    Leaf,
    Message,
    Opaque,
    SessionInfoEntry,
)
from sessiond.model.parsed_message import Block, ParsedMessage
from sessiond.model.problems import without_parent
from sessiond.service.log.chunks import StoredLines, chunks, emptied, line_is_too_long
from sessiond.service.sources.agents.source import Report
from sessiond.service.sources.agents.writing import Conversation, Step

LeftOut = Callable[[Opaque], str | None]
"""Names the lines that became a record; None if the record's facts are in other entries."""

_RESPONSE: Final = "responseId"


def copied(
    records: Iterable[Taken],
    reading: Reading,
    report: Report,
    left_out: LeftOut,
    log: SessionLog,
) -> Conversation:
    """Return the conversation that the entries of a reading make; an empty log keeps the entries.

    `report` gets the lines that have no place in the conversation.
    """
    made = Joined(report, left_out, log)
    for taken in records:
        entry, number, bridge = taken.entry, taken.line, taken.bridge
        # A long line is there three times at most: as it came, as an entry, and on its way to the log.
        del taken
        if entry is None:
            continue
        made.take(log.line_count, number, entry, bridge)
        if not isinstance(entry, Opaque) or entry.type == USAGE_RECORD:
            lines = [native_line(entry, None, None)]
            del entry
            log.append(lines, sync=False)
            del lines
    return made.conversation(reading.origin)


class Joined:
    """The conversation that entries make: each answer and each result as one step.

    All entries are taken first, and then the steps are made one by one of lines that are read again. In
    between an entry costs a row of seven numbers, and its id some 30 bytes. An entry, or a record of tokens,
    is the number of its row; a step is the number of its first entry; 0 is none.
    """

    def __init__(self, report: Report, left_out: LeftOut, lines: StoredLines) -> None:
        self._report = report
        self._left_out = left_out
        self._lines = lines
        # The ordinal of each entry's native line, and the number of its line at the source.
        self._at, self._line = array("i", (0,)), array("i", (0,))
        # The step that has the words of each entry, and the step below which its children stand.
        self._step, self._place = array("i", (0,)), array("i", (0,))
        # The step above each step; the next part of the same step; the last part of each step.
        self._above, self._next, self._last = array("i", (0,)), array("i", (0,)), array("i", (0,))
        self._compactions: set[int] = set()
        # The entries by their ids, and the steps of answers by the ids of their responses.
        self._ids, self._entries = IdTable(keeps_names=False), array("i", (0,))
        self._responses, self._answers = IdTable(keeps_names=False), array("i", (0,))
        # The last answer, which a record of tokens is about, and records before any answer.
        self._last_answer = 0
        self._early: list[int] = []
        self._begun = ""
        self._info = SessionInfoEntry()
        self._leaf: str | None = None

    def take(self, at: int, line: int, entry: Entry | Opaque, bridge: str | None = None) -> None:
        """Take the next entry, whose native line is read again at the ordinal `at`.

        Its path goes on at `bridge` where its parent is missing.
        """
        match entry:
            case Opaque(type=word):
                if word == USAGE_RECORD:
                    self._add_usage(self._row(at, line))
                elif (what := self._left_out(entry)) is not None:
                    self._report.leave_out(line, what)
            case SessionInfoEntry():
                self._take_facts(entry)
            case Leaf(target_id=target):
                self._leaf = target
            case _:
                self._add(at, line, entry, bridge)

    def _take_facts(self, entry: SessionInfoEntry) -> None:
        info = self._info
        info.name = info.name if entry.name is UNSET else entry.name
        info.auto_title = info.auto_title if entry.auto_title is UNSET else entry.auto_title
        info.tags = info.tags if entry.tags is UNSET else entry.tags

    def _row(self, at: int, line: int) -> int:
        """Return the number of a new row."""
        self._at.append(at)
        self._line.append(line)
        for column in (self._step, self._place, self._above, self._next, self._last):
            column.append(0)
        return len(self._at) - 1

    def _add_usage(self, record: int) -> None:
        """Add the tokens of a record to the last answer, as a part of the answer without words."""
        if self._last_answer:
            self._add_part(self._last_answer, record)
        else:
            self._early.append(record)

    def _add_part(self, step: int, part: int) -> None:
        self._next[self._last[step]] = self._last[step] = part
        self._step[part] = step

    def _add(self, at: int, line: int, entry: Entry, bridge: str | None) -> None:
        assert isinstance(entry.id, str), "a reading gives every entry an id"
        above = self._step_above(line, entry, bridge)
        self._leaf = entry.id
        said = entry.message if isinstance(entry, Message) else None
        response_id = None if said is None else text(lenient(said).get(_RESPONSE))
        answer = self._answers[self._responses.last(response_id or "")]
        number = self._row(at, line)
        self._entries.append(number)
        self._ids.add(entry.id)
        if response_id is not None and answer and self._is_below(above, answer):
            self._add_part(answer, number)
            self._place[number] = above or answer
        else:
            self._step[number] = self._place[number] = self._last[number] = number
            self._above[number] = above
            if isinstance(entry, Compaction):
                self._compactions.add(number)
            if not self._begun and not isinstance(entry.timestamp, UnsetType):
                self._begun = entry.timestamp
            answer = number
            if response_id is not None:
                self._responses.add(response_id)
                self._answers.append(answer)
        if response_id is not None:
            self._last_answer = answer
        if self._last_answer and self._early:
            early, self._early = self._early, []
            for record in early:
                self._add_usage(record)

    def _number(self, entry_id: str) -> int:
        """Return the last entry with an id; 0 for no such entry."""
        return self._entries[self._ids.last(entry_id)]

    def _step_above(self, line: int, entry: Entry, bridge: str | None) -> int:
        """Return the step above an entry; report a line that is missing."""
        named = entry.parent_id
        if isinstance(named, UnsetType) or named is None:
            return 0
        if found := self._number(named):
            return self._place[found]
        above = 0 if bridge is None else self._place[self._number(bridge)]
        self._report.add(line, "orphan", without_parent(self._key(above) if above else None))
        return above

    def _key(self, step: int) -> str:
        """Return the id of a step's first entry."""
        ((entry, *_),) = map(native_entry, self._lines.read_many([self._at[step]]))
        return str(entry.id)

    def _is_below(self, step: int, answer: int) -> bool:
        """Return whether a step is an answer, or below the answer and in the same context."""
        while step and step != answer:
            step = 0 if step in self._compactions else self._above[step]
        return step != 0

    # -- the steps ---------------------------------------------------------------------------

    def conversation(self, origin: Origin) -> Conversation:
        """Return what the entries say. Its steps are made one by one, and may raise StorageError."""
        info = SessionInfoEntry(
            name=self._info.name or UNSET,
            auto_title=self._info.auto_title or UNSET,
            tags=self._info.tags or UNSET,
        )
        has_info = info != SessionInfoEntry()
        leaf = 0 if self._leaf is None else self._place[self._number(self._leaf)]
        return Conversation(origin, self._steps(), info if has_info else None, leaf, self._begun)

    def _steps(self) -> Iterator[Step]:
        firsts = (one for one in range(1, len(self._at)) if self._step[one] == one)
        for step, parts in self._read(firsts):
            first = parts[0]
            time = "" if isinstance(first.timestamp, UnsetType) else first.timestamp
            made = Step(step, self._above[step], str(first.id), time, [], self._line[step])
            # A long line goes before the next one comes.
            del first
            self._say(made, parts)
            yield made
            del made, parts

    def _read(self, steps: Iterable[int]) -> Iterator[tuple[int, list[Entry | Opaque]]]:
        """Yield each step with its parts, which are read again."""
        ahead, wanted = tee(steps)
        lines = self._read_lines(self._at[part] for step in ahead for part in self._parts(step))
        for step in wanted:
            yield step, [native_entry(next(lines))[0] for _ in self._parts(step)]

    def _read_lines(self, places: Iterable[int]) -> Iterator[bytes]:
        for some in chunks(self._lines, places):
            yield from emptied(self._lines.read_many(some))

    def _parts(self, step: int) -> Iterator[int]:
        while step:
            yield step
            step = self._next[step]

    def _say(self, step: Step, parts: list[Entry | Opaque]) -> None:
        """Give a step what its parts say. Empties the list of the parts."""
        first = parts.pop(0)
        if isinstance(first, Message):
            response_id = text(lenient(first.message).get(_RESPONSE))
            messages = [ContextMessage("", bytes(first.message))]
            del first
            while parts:
                messages.append(ContextMessage("", _part_of(response_id, parts.pop(0))))
            found = deque(arranged(messages))
            # Of a long message there is one copy at a time, and the next one in the making.
            messages.clear()
            while found:
                step.entries.append(_message(found.popleft().body))
            return
        assert not isinstance(first, Opaque), "a record of tokens is a part of an answer"
        if isinstance(first, Compaction):
            self._complete(step, first)
        step.entries = [first]

    def _complete(self, step: Step, entry: Compaction) -> None:
        """Let a compaction say in a native file's terms what it keeps. Raises TooLarge."""
        line, first = step.line, entry.first_kept_entry_id
        if isinstance(first, str):
            # A copy of a part of the session may lack that entry.
            step.kept_from, entry.first_kept_entry_id = self._step[self._number(first)], None
        if isinstance(entry.details, UnsetType):
            return
        details = lenient(entry.details)
        for uuid in decoded(details.get("missing"), list[str], []):
            if not self._number(uuid):
                what = "a message that this compaction keeps is not in the file"
                self._report.add(line, "orphan", what)
        for kind, count in decoded(details.get("left_out"), dict[str, int], {}).items():
            for _ in range(count):
                self._report.leave_out(line, f"items of type {kind}")
        kept: list[str] | None = decoded(details.get("kept"), list[str], None)
        asked = text(details.get("asked"))
        entry.details = UNSET
        if kept is None and asked is None:
            return
        if asked is not None:
            said = exchange(asked, entry.summary or "")
        else:
            summary = Block("text", text=entry.summary or "")
            said = NATIVE.compose(ParsedMessage("user", (summary,)), "")
        said += self._kept(step, kept or ())
        step.kept_from, entry.first_kept_entry_id = 0, UNSET
        entry.messages, entry.summary = said, UNSET

    def _kept(self, step: Step, kept: Iterable[str]) -> Iterator[Raw]:
        """Yield what a compaction keeps of the entries before it, as messages. Raises TooLarge."""
        steps = dict.fromkeys(self._step[number] for one in kept if (number := self._number(one)))
        before = (one for one in steps if one < step.number and one not in self._compactions)
        size = 0
        for number, parts in self._read(before):
            other = Step(number)
            self._say(other, parts)
            for said in map(_said, filter(_is_said, other.entries)):
                size += len(said)
                if size > LINE_BYTES_MAX:
                    raise line_is_too_long(size)
                yield said


def _part_of(response_id: str | None, part: Entry | Opaque) -> bytes:
    """Return a later part of an answer; the tokens of a record are a part without words."""
    if isinstance(part, Opaque):
        usage = part.fields["usage"]
        said = {"role": "assistant", "content": (), "usage": usage, _RESPONSE: response_id}
        return msgspec.json.encode(said)
    assert isinstance(part, Message), "an answer has messages as its parts"
    return bytes(part.message)


def _message(said: bytes) -> Message:
    """Return the entry of a message, without the id of its answer."""
    members = lenient(said)
    members.pop(_RESPONSE, None)
    members.pop(REQUEST_TOKENS, None)
    return Message(message=Raw(join(members)))


def _is_said(entry: Entry) -> bool:
    return isinstance(entry, Message | CustomMessage)


def _said(entry: Entry) -> Raw:
    """Return what an entry says as a message."""
    if isinstance(entry, Message):
        return entry.message
    assert isinstance(entry, CustomMessage), "a compaction keeps messages alone"
    return Raw(msgspec.json.encode({"role": "user", "content": entry.content}))
