"""The tree of a session of Claude Code: answers put together, compactions in their places.

One answer is written in several lines, one for each block, that share `message.id`: one step here.
The result of a parallel call stands below its own call there, and below the answer's other results
here. A compaction there is a boundary, a summary below the boundary, and a list of kept lines before
the boundary: one step here. What follows stands below it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from msgspec import UNSET, Raw, Struct

from sessiond.dialects.lenient_json import text
from sessiond.dialects.native.dialect import NATIVE
from sessiond.model.entries import Compaction, Message
from sessiond.model.parsed_message import ParsedMessage
from sessiond.service.files.agents.replies import calls_in, joined, named
from sessiond.service.files.agents.source import Report, SourceLine, decoded, member, truth
from sessiond.service.files.agents.writing import Step, messages

__all__ = ["TreeLine", "TreeOfLines"]

_BOUNDARY: Final = "compact_boundary"


class TreeLine(Struct):
    """A line of the tree. A later line with the same `uuid` replaces `members`."""

    number: int
    uuid: str
    parent: str | None
    members: dict[str, Raw]
    kind: str
    message: ParsedMessage | None = None

    @property
    def time(self) -> str:
        """The time of the line; "" if it has none."""
        return SourceLine(self.number, self.members).time()

    def is_copy(self, other: TreeLine) -> bool:
        """Return whether another line with this id is the same line, written again."""
        same_place = (self.parent, self.kind) == (other.parent, other.kind)
        return same_place and self.time == other.time

    @property
    def is_summary(self) -> bool:
        """True for the summary of a compaction."""
        return truth(self.members, "isCompactSummary")

    @property
    def is_boundary(self) -> bool:
        """True for the line that marks a compaction."""
        return self.kind == "system" and text(self.members.get("subtype")) == _BOUNDARY


class TreeOfLines:
    """The steps of a conversation, in the order of the file."""

    def __init__(self, lines: dict[str, TreeLine], report: Report) -> None:
        self.newest: str | None = None
        self.newest_line = 0
        self._lines = lines
        self._report = report
        self._steps: dict[str, Step] = {}
        # The first line of an answer by its other lines, and the answer's lines.
        self._answers: dict[str, str] = {}
        self._parts: dict[str, list[TreeLine]] = {}
        # The answer and the tool of each call.
        self._calls: dict[str, str] = {}
        self._tools: dict[str, str] = {}
        # The last step of an answer: the answer, or its last result so far.
        self._ends: dict[str, str] = {}
        self._answer_of: dict[str, str] = {}
        # The compaction below which that goes on which named a line before the compaction.
        self._moved: dict[str, str] = {}
        self._summary_of: dict[str, str] = {}

    def steps(self) -> list[Step]:
        """Return the steps."""
        self._join_answers()
        for line in self._lines.values():
            if line.message is None or line.uuid in self._answers:
                continue
            if line.is_summary:
                self._compact(line, line.message)
            else:
                self._say(line, line.message)
            self.newest = line.uuid
        self._see_newest()
        return list(self._steps.values())

    def step_of(self, uuid: str) -> str | None:
        """Return the step of a line, or of the nearest line above it that has one."""
        for line in self._up(uuid):
            key = self._answers.get(line.uuid, line.uuid)
            if key in self._steps:
                return key
        return None

    def _see_newest(self) -> None:
        """Take the last message of the file as newest; an answer ends with its last line."""
        last = next((one for one in reversed(self._lines.values()) if one.message), None)
        if last is not None:
            self.newest_line = last.number
            if last.uuid in self._answers:
                self.newest = self._ends[self._answers[last.uuid]]

    def _join_answers(self) -> None:
        by_id: dict[str, str] = {}
        for line in self._lines.values():
            if line.kind != "assistant" or line.message is None:
                continue
            said = text(member(line.members, "message").get("id")) or line.uuid
            first = by_id.setdefault(said, line.uuid)
            self._parts.setdefault(first, []).append(line)
            if first != line.uuid:
                self._answers[line.uuid] = first
            tools = calls_in(line.message)
            self._tools.update(tools)
            self._calls.update(dict.fromkeys(tools, first))

    def _say(self, line: TreeLine, message: ParsedMessage) -> None:
        asked = next((b.id for b in message.blocks if b.kind == "tool_result"), None)
        answer = self._calls.get(asked or "")
        if line.uuid in self._parts:
            message = joined([one.message for one in self._parts[line.uuid] if one.message])
            self._ends[line.uuid] = line.uuid
            self._answer_of[line.uuid] = line.uuid
        else:
            message = named(message, self._tools)
        if answer is not None and answer in self._steps:
            above: str | None = self._go_on(self._ends[answer])
            self._ends[answer] = line.uuid
            self._answer_of[line.uuid] = answer
        else:
            above = self._above(line)
        entries = messages(message, line.time)
        self._steps[line.uuid] = Step(line.uuid, above, line.time, entries)

    def _above(self, line: TreeLine) -> str | None:
        """Return the step below which a line stands."""
        for one in self._up(line.parent, line.number):
            key = self._summary_of.get(one.uuid, self._answers.get(one.uuid, one.uuid))
            if key not in self._steps:
                continue
            return self._go_on(self._end_of(key))
        return None

    def _end_of(self, key: str) -> str:
        """Return the last step of the answer that a step belongs to, or the step itself."""
        return self._ends.get(self._answer_of.get(key, ""), key)

    def _go_on(self, key: str) -> str:
        """Return the step below which that goes on which would stand below a step."""
        while key in self._moved:
            key = self._moved[key]
        return key

    def _up(self, uuid: str | None, below: int = 0) -> Iterator[TreeLine]:
        """Yield a line and the lines above it; report a line that is missing, for line `below`."""
        met: set[str] = set()
        while uuid is not None and uuid not in met:
            met.add(uuid)
            line = self._lines.get(uuid)
            if line is None:
                if below:
                    what = "a line above it is not in the file; shown as a root"
                    self._report.add(below, "orphan", what)
                return
            yield line
            uuid = line.parent

    # -- compactions ---------------------------------------------------------------------

    def _compact(self, line: TreeLine, message: ParsedMessage) -> None:
        boundary = next((one for one in self._up(line.parent) if one.is_boundary), None)
        found = {} if boundary is None else member(boundary.members, "compactMetadata")
        kept = self._kept(line, found)
        entry = Compaction(
            summary=message.text,
            tokens_before=_count(found, "preTokens"),
            tokens_after=_count(found, "postTokens"),
        )
        if kept:
            end = self._end_of(kept[-1])
            if self._path(end, kept[0]) == kept:
                entry.first_kept_entry_id = kept[0]
            else:
                entry.summary = UNSET
                entry.messages = [*NATIVE.compose(message, line.time), *self._messages_of(kept)]
            above: str | None = end
            self._moved[self._go_on(end)] = line.uuid
        else:
            above = None if boundary is None else self._logical(boundary)
            entry.first_kept_entry_id = None
        if boundary is not None:
            self._summary_of[boundary.uuid] = line.uuid
        self._steps[line.uuid] = Step(line.uuid, above, line.time, [entry])

    def _logical(self, boundary: TreeLine) -> str | None:
        before = text(boundary.members.get("logicalParentUuid"))
        key = None if before is None else self.step_of(before)
        return self.newest if key is None else key

    def _kept(self, line: TreeLine, found: dict[str, Raw]) -> list[str]:
        """Return the steps that a compaction keeps, each once, in their order."""
        uuids = decoded(member(found, "preservedMessages").get("uuids"), list[Any], None)
        if uuids is None:
            uuids = self._segment(member(found, "preservedSegment"))
        kept: dict[str, None] = {}
        for uuid in uuids:
            key = self._answers.get(uuid, uuid) if isinstance(uuid, str) else ""
            if key in self._steps:
                kept[key] = None
            elif key not in self._lines:
                what = "a message that this compaction keeps is not in the file"
                self._report.add(line.number, "orphan", what)
        return list(kept)

    def _segment(self, found: dict[str, Raw]) -> list[str]:
        head, tail = text(found.get("headUuid")), text(found.get("tailUuid"))
        chain: list[str] = []
        for line in self._up(tail):
            chain.append(line.uuid)
            if line.uuid == head:
                break
        return chain[::-1]

    def _path(self, end: str, first: str) -> list[str]:
        """Return the steps from `first` down to `end`; none if `first` is not above `end`."""
        path: list[str] = []
        at: str | None = end
        while at is not None:
            path.append(at)
            if at == first:
                return path[::-1]
            at = self._steps[at].parent
        return []

    def _messages_of(self, keys: list[str]) -> list[Raw]:
        entries = (entry for key in keys for entry in self._steps[key].entries)
        return [entry.message for entry in entries if isinstance(entry, Message)]


def _count(found: dict[str, Raw], name: str) -> Any:
    count = decoded(found.get(name), int, -1)
    return count if 0 <= count < 2**53 else UNSET
