"""The dialect of another agent's session, whose lines are native lines that a reading made.

A reading makes one entry of each line. So an answer that its agent wrote in several lines is several
entries, and a line with several results, or with calls and their results, is one entry. A context
shows them as every model expects them: an answer in one message, and behind it a message for each
result, in the order of the calls. A part of an answer with `"restates":true` says all of the answer, in
the place of the parts before.

A compaction that keeps only some of the entries between its first kept entry and itself names them:

    {"type":"compaction",…,"first_kept_entry_id":"a","details":{"kept":["a","d"]}}

A compaction whose summary answers a question in the context says the question:

    {"type":"compaction",…,"summary":"…","details":{"asked":"What did we do so far?"}}
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from msgspec import Raw, Struct, UnsetType, structs

from sessiond.dialects.agents.own_entries import BRIDGE, DAMAGE, USAGE_RECORD
from sessiond.dialects.agents.replies import REQUEST_TOKENS
from sessiond.dialects.agents.source_line import count_in, decoded, member
from sessiond.dialects.base import ContextLine, ContextMessage
from sessiond.dialects.compose import tagged_usage
from sessiond.dialects.lenient_json import array, fields, items, join, lenient, text
from sessiond.dialects.native.dialect import NATIVE, Native
from sessiond.dialects.usage import usage_in
from sessiond.model.entries import Entry, Message, Opaque
from sessiond.model.formats import AgentFormatName
from sessiond.model.message_lines import MessageLines
from sessiond.model.parsed_message import Block, ParsedMessage
from sessiond.model.row import Kind, Row, Rules
from sessiond.model.usage import Usage

_RULES: Final = structs.replace(
    NATIVE.rules,
    records=NATIVE.rules.records | {Kind.OPAQUE},
    truncates=False,
    atoms=False,
    joins=True,
)
_USAGE_LINE: Final = b'{"type":"%b"' % USAGE_RECORD.encode()
# Members of lines that tell what the agent's file lacks.
_BRIDGED: Final = b'"%b":' % BRIDGE.encode()
_DAMAGED: Final = b'"%b":' % DAMAGE.encode()
_RESULT: Final = "tool_result"
# Members that only such messages have which need a closer look.
_MARKS: Final = (b'"responseId"', b'"%b"' % _RESULT.encode())
_STOP: Final = "stopReason"
_RESTATES: Final = "restates"
_REQUEST: Final = b'"%b"' % REQUEST_TOKENS.encode()


class AgentDialect(Native):
    """The dialect of one agent's sessions; `Dialect` describes the methods."""

    def __init__(self, agent: AgentFormatName) -> None:
        self.agent: AgentFormatName = agent

    @property
    def name(self) -> str:
        """Name of the agent's format."""
        return self.agent

    @property
    def rules(self) -> Rules:
        """Rules of a file that only its agent writes; lines that say nothing are records."""
        return _RULES

    def row(self, line: bytes) -> Row:
        """Return the row of a line; a record of tokens has their usage. Raises BadLine."""
        row = super().row(line)
        if _BRIDGED in line or _DAMAGED in line:
            found = lenient(line)
            row.bridge, row.damage = text(found.get(BRIDGE)), text(found.get(DAMAGE))
        if row.kind == Kind.OPAQUE and line.startswith(_USAGE_LINE):
            found = lenient(line)
            if text(found.get("type")) == USAGE_RECORD:
                row.usage = usage_in(found.get("usage", Raw(b"null")))
        return row

    def row_of_said(
        self, entry: Entry | Opaque, bridge: str | None, damage: str | None
    ) -> Row | None:
        """Return the row of a message that a reading made, as `row` returns it for the message's line.

        None for any other entry, whose line has to be read.
        """
        facts = NATIVE.plain([entry.message]) if type(entry) is Message else ()
        if not facts:
            return None
        assert isinstance(entry.id, str), "a reading gives every entry an id"
        return Row(
            facts[0].kind,
            entry.id,
            None if isinstance(entry.parent_id, UnsetType) else entry.parent_id,
            setting=facts[0].model,
            timestamp=None if isinstance(entry.timestamp, UnsetType) else entry.timestamp,
            usage=facts[0].usage,
            bridge=bridge,
            damage=damage,
        )

    def message_lines(self, lines: Sequence[bytes]) -> MessageLines:
        """Return the columns of the usual messages up to the first line that needs a closer look."""
        found = super().message_lines(lines)
        for at, line in enumerate(lines[: len(found.ids)]):
            if _BRIDGED in line or _DAMAGED in line:
                return super().message_lines(lines[:at])
        return found

    def reading(self, line: bytes) -> ParsedMessage | None:
        """Return the decoded message of a line; a later part of an answer tells the whole request's tokens."""
        found = super().reading(line)
        if found is None or found.usage is None or _REQUEST not in line:
            return found
        whole = count_in(member(fields(line), "message"), REQUEST_TOKENS)
        most = max(whole, found.usage.total_tokens)
        return structs.replace(found, usage=structs.replace(found.usage, total_tokens=most))

    def context(self, lines: Sequence[ContextLine]) -> list[ContextMessage]:
        """Return the messages of these entries, in order, each answer and each result as one message."""
        return arranged(_with_question(lines, super().context(_kept(lines))))


def _kept(lines: Sequence[ContextLine]) -> Sequence[ContextLine]:
    """Return the lines without those which the first one, a compaction, does not keep."""
    if not lines or lines[0].kind != Kind.COMPACTION:
        return lines
    kept = decoded(member(lenient(lines[0].line), "details").get("kept"), list[str], None)
    if kept is None:
        return lines
    wanted = frozenset(kept)
    return [line for line in lines if not line.kept or line.id in wanted]


def exchange(asked: str, summary: str) -> list[Raw]:
    """Return the messages that a context has of a summary: the question, and the summary as answer."""
    said = {"user": asked, "assistant": summary}
    parsed = (ParsedMessage(role, (Block("text", text=one),)) for role, one in said.items())
    return [raw for message in parsed for raw in NATIVE.compose(message, "")]


def _with_question(
    lines: Sequence[ContextLine], messages: list[ContextMessage]
) -> list[ContextMessage]:
    """Return the messages with the question that the summary of the compaction answers, if it does."""
    if not lines or lines[0].kind != Kind.COMPACTION or not messages:
        return messages
    found = lenient(lines[0].line)
    asked = text(member(found, "details").get("asked"))
    if asked is None:
        return messages
    said = exchange(asked, text(found.get("summary")) or "")
    return [*(ContextMessage(lines[0].id, bytes(one)) for one in said), *messages[1:]]


# -- answers and results --------------------------------------------------------------------------


class _Piece(Struct):
    """A message of the context: a result, a part of an answer, or another message."""

    source: str
    members: dict[str, Raw]
    result_of: str | None = None
    response_id: str | None = None
    is_all: bool = False
    """True for a part that says all of its answer."""


class _Answer(Struct):
    """An answer: its parts, and the results of its calls by the calls' ids."""

    parts: list[_Piece] = []
    results: dict[str, list[ContextMessage]] = {}

    def take(self, part: _Piece, asked: dict[str, _Answer]) -> None:
        """Take the next part; `asked` gets its calls."""
        if part.is_all:
            for call_id in self.results:
                asked.pop(call_id, None)
            self.results = {}
        self.parts.append(part)
        for call_id in _calls(part):
            self.results.setdefault(call_id, [])
            asked[call_id] = self


def arranged(messages: Sequence[ContextMessage]) -> list[ContextMessage]:
    """Return the messages with each answer in one message, its results behind it, one in each."""
    if not any(mark in message.body for message in messages for mark in _MARKS):
        return list(messages)
    places: list[ContextMessage | _Answer] = []
    answers: dict[str, _Answer] = {}
    asked: dict[str, _Answer] = {}
    for message in messages:
        for one in _split(message):
            if isinstance(one, ContextMessage):
                places.append(one)
            elif one.response_id is not None:
                answer = answers.get(one.response_id)
                if answer is None:
                    answer = answers[one.response_id] = _Answer()
                    places.append(answer)
                answer.take(one, asked)
            elif one.result_of in asked:
                asked[one.result_of].results[one.result_of].append(_message(one))
            else:
                places.append(_message(one))
    return [message for place in places for message in _messages_at(place)]


def _messages_at(place: ContextMessage | _Answer) -> Iterable[ContextMessage]:
    if isinstance(place, ContextMessage):
        yield place
        return
    first, *more = place.parts
    yield _message(structs.replace(first, members=_joined(place.parts)) if more else first)
    for results in place.results.values():
        yield from results


def _message(piece: _Piece) -> ContextMessage:
    return ContextMessage(piece.source, join(piece.members))


def _split(message: ContextMessage) -> list[_Piece | ContextMessage]:
    """Return the pieces of a message; the message itself where nothing is to be done."""
    if b'"toolCallId"' not in message.body and not any(one in message.body for one in _MARKS):
        return [message]
    found = fields(message.body)
    role, response_id = text(found.get("role")), text(found.get("responseId"))
    content = [(item, lenient(item)) for item in items(found.get("content", b"")) or ()]
    rest = [item for item, block in content if text(block.get("type")) != _RESULT]
    is_all = found.pop(_RESTATES, None) is not None
    if len(rest) == len(content):
        result_of = text(found.get("toolCallId"))
        return [_Piece(message.source, found, result_of, response_id, is_all)]
    said: list[_Piece | ContextMessage] = [
        _Piece(message.source, _as_message(block), text(block.get("toolCallId")))
        for _, block in content
        if text(block.get("type")) == _RESULT
    ]
    if not rest:
        return said
    found["content"] = array(rest)
    beside = _Piece(message.source, found, None, response_id, is_all)
    return [beside, *said] if role == "assistant" else [*said, beside]


def _as_message(block: dict[str, Raw]) -> dict[str, Raw]:
    """Return the members of the message that says what a block of a result says."""
    members = {name: value for name, value in block.items() if name != "type"}
    return {"role": Raw(b'"toolResult"')} | members


def _calls(piece: _Piece) -> list[str]:
    blocks = map(lenient, items(piece.members.get("content", b"")) or ())
    calls = (block for block in blocks if text(block.get("type")) == "toolCall")
    return [call_id for call in calls if (call_id := text(call.get("id")))]


def _joined(parts: Sequence[_Piece]) -> dict[str, Raw]:
    """Return the members of the answer that is written in these parts."""
    members: dict[str, Raw] = {}
    usage: Usage | None = None
    content: list[Raw] = []
    for part in parts:
        stated = usage_in(part.members.get("usage", Raw(b"null")))
        usage = usage.plus(stated) if usage and stated else usage or stated
        content = [*([] if part.is_all else content), *_items(part.members.get("content"))]
        members = part.members | members
    members["content"] = array(content)
    members.pop(REQUEST_TOKENS, None)
    if usage is not None:
        members["usage"] = Raw(msgspec.json.encode(tagged_usage(usage)))
    ends = [part.members[_STOP] for part in parts if _STOP in part.members]
    return members | ({_STOP: ends[-1]} if ends else {})


def _items(content: Raw | None) -> list[Raw]:
    """Return the blocks of a content; a text is one block."""
    if content is None:
        return []
    said = items(content)
    if said is not None:
        return said
    return [Raw(b'{"type":"text","text":%b}' % bytes(content))]
