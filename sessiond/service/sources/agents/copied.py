"""A copy of another agent's session, made of the entries that a reading gives.

The entries of one answer are one step of the copy, and a line with several results is a step of several
entries. Records are left out and reported, but for those whose facts are in other entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from sessiond.dialects.agents.own_entries import USAGE_RECORD
from sessiond.dialects.agents.reading import Origin, Reading
from sessiond.dialects.agents.replies import REQUEST_TOKENS
from sessiond.dialects.agents.source_line import decoded
from sessiond.dialects.agents.transcript import Taken
from sessiond.dialects.agents.view import arranged, exchange
from sessiond.dialects.base import ContextMessage
from sessiond.dialects.lenient_json import join, lenient, text
from sessiond.dialects.native.dialect import NATIVE
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
from sessiond.service.sources.agents.source import Report
from sessiond.service.sources.agents.writing import Conversation, Step

__all__ = ["Joined", "LeftOut", "copied"]

LeftOut = Callable[[Opaque], str | None]
"""Names the lines that became a record; None if the record's facts are in other entries."""

_RESPONSE: Final = "responseId"


class _Node(Struct):
    """A step of the copy in the making: the messages of its entries, or one other entry."""

    step: Step
    line: int
    messages: list[ContextMessage]
    other: Entry | None


def copied(
    records: Iterable[Taken], reading: Reading, report: Report, left_out: LeftOut
) -> Conversation:
    """Return the conversation that the entries of a reading make.

    `report` gets the lines that have no place in the conversation.
    """
    made = Joined(report, left_out)
    for taken in records:
        if taken.entry is not None:
            made.take(taken.line, taken.entry, taken.bridge)
    return made.conversation(reading.origin)


class Joined:
    """The conversation that entries make: each answer and each result as one step."""

    def __init__(self, report: Report, left_out: LeftOut) -> None:
        self._report = report
        self._left_out = left_out
        self._nodes: dict[str, _Node] = {}
        # The step that has the words of each entry, and the step below which its children stand.
        self._step_of: dict[str, str] = {}
        self._place_of: dict[str, str] = {}
        self._answers: dict[str, str] = {}
        # The id of the last answer, which a record of tokens is about, and records before any answer.
        self._last_answer: str | None = None
        self._early: list[Opaque] = []
        self._info = SessionInfoEntry()
        self._leaf: str | None = None

    def take(self, line: int, entry: Entry | Opaque, bridge: str | None = None) -> None:
        """Take the entry of the next record; its path goes on at `bridge` where its parent is missing."""
        match entry:
            case Opaque(type=word):
                if word == USAGE_RECORD:
                    self._add_usage(entry)
                elif (what := self._left_out(entry)) is not None:
                    self._report.leave_out(line, what)
            case SessionInfoEntry():
                self._take_facts(entry)
            case Leaf(target_id=target):
                self._leaf = target
            case _:
                self._add(line, entry, bridge)

    def _take_facts(self, entry: SessionInfoEntry) -> None:
        info = self._info
        info.name = info.name if entry.name is UNSET else entry.name
        info.auto_title = info.auto_title if entry.auto_title is UNSET else entry.auto_title
        info.tags = info.tags if entry.tags is UNSET else entry.tags

    def _add_usage(self, record: Opaque) -> None:
        """Add the tokens of a record to the last answer, as a part of the answer without words."""
        if self._last_answer is None:
            self._early.append(record)
            return
        part = {
            "role": "assistant",
            "content": (),
            "usage": record.fields["usage"],
            _RESPONSE: self._last_answer,
        }
        answer = self._nodes[self._answers[self._last_answer]]
        answer.messages.append(ContextMessage("", msgspec.json.encode(part)))

    def _add(self, line: int, entry: Entry, bridge: str | None) -> None:
        assert isinstance(entry.id, str), "a reading gives every entry an id"
        entry_id, above = entry.id, self._above(line, entry, bridge)
        self._leaf = entry_id
        said = None if not isinstance(entry, Message) else ContextMessage("", bytes(entry.message))
        response_id = None if said is None else text(lenient(said.body).get(_RESPONSE))
        self._last_answer = response_id or self._last_answer
        answer = self._answers.get(response_id or "")
        if said is not None and answer is not None and self._is_below(above, answer):
            self._nodes[answer].messages.append(said)
            self._step_of[entry_id], self._place_of[entry_id] = answer, above or answer
            return
        if response_id is not None:
            self._answers[response_id] = entry_id
        self._step_of[entry_id] = self._place_of[entry_id] = entry_id
        time = "" if isinstance(entry.timestamp, UnsetType) else entry.timestamp
        step = Step(entry_id, above, time, [], line)
        alone = entry if said is None else None
        self._nodes[entry_id] = _Node(step, line, [] if said is None else [said], alone)
        if self._last_answer is not None and self._early:
            early, self._early = self._early, []
            for record in early:
                self._add_usage(record)

    def _above(self, line: int, entry: Entry, bridge: str | None) -> str | None:
        """Return the step above an entry; report a line that is missing."""
        named = entry.parent_id
        if isinstance(named, UnsetType) or named is None:
            return None
        if named not in self._place_of:
            above = None if bridge is None else self._place_of.get(bridge)
            self._report.add(line, "orphan", without_parent(above))
            return above
        return self._place_of[named]

    def _is_below(self, key: str | None, answer: str) -> bool:
        """Return whether a step is an answer, or below the answer and in the same context."""
        while key is not None and key != answer:
            node = self._nodes[key]
            key = None if isinstance(node.other, Compaction) else node.step.parent
        return key is not None

    # -- the steps ---------------------------------------------------------------------------

    def conversation(self, origin: Origin) -> Conversation:
        """Return what the entries say."""
        steps: list[Step] = []
        for node in self._nodes.values():
            step = node.step
            step.entries = [_message(one.body) for one in arranged(node.messages)]
            if isinstance(node.other, Compaction):
                self._complete(node, node.other)
            if node.other is not None:
                step.entries = [node.other]
            steps.append(step)
        info = SessionInfoEntry(
            name=self._info.name or UNSET,
            auto_title=self._info.auto_title or UNSET,
            tags=self._info.tags or UNSET,
        )
        has_info = info != SessionInfoEntry()
        leaf = None if self._leaf is None else self._place_of.get(self._leaf)
        return Conversation(origin, steps, info if has_info else None, leaf)

    def _complete(self, node: _Node, entry: Compaction) -> None:
        """Let a compaction say in a native file's terms what it keeps."""
        line = node.line
        first = entry.first_kept_entry_id
        if isinstance(first, str):
            # A copy of a part of the session may lack that entry.
            entry.first_kept_entry_id = self._step_of.get(first)
        if isinstance(entry.details, UnsetType):
            return
        details = lenient(entry.details)
        for uuid in decoded(details.get("missing"), list[str], []):
            if uuid not in self._step_of:
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
        steps = [self._step_of[one] for one in kept or () if one in self._step_of]
        for key in dict.fromkeys(steps):
            said += [_said(one) for one in self._nodes[key].step.entries if _is_said(one)]
        entry.messages, entry.summary, entry.first_kept_entry_id = said, UNSET, UNSET


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
