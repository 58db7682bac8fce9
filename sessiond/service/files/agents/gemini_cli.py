"""Sessions of Gemini CLI: a log of operations on a list of messages, as the entries of a native file.

A message that is written again under its id replaces its earlier version. A rewind takes messages off
the list: here they stay as a branch. A replaced list (`$set.messages`) is a compaction here, which has
the list's messages, unless the list only became shorter.

    {"sessionId":"…","projectHash":"…","startTime":"…","lastUpdated":"…","kind":"main"}
    {"id":"…","timestamp":"…","type":"user","content":[{"text":"hi"}]}
    {"$rewindTo":"…"}
"""

from __future__ import annotations

from typing import Final

from msgspec import Raw, Struct

from sessiond.dialects.lenient_json import is_null, items, join, lenient, one_line, text
from sessiond.dialects.native.dialect import NATIVE
from sessiond.model.entries import Compaction, Entry, SessionInfoEntry
from sessiond.model.parsed_message import Block, ParsedMessage
from sessiond.model.usage import Usage
from sessiond.service.files.agents.source import AgentLog, Report, SourceLine, count_in, member
from sessiond.service.files.agents.writing import Conversation, Origin, Step, messages

__all__ = ["document_lines", "gemini_cli", "is_gemini_cli"]

AGENT: Final = "gemini-cli"
_NOTICES: Final = frozenset({"info", "error", "warning"})
# What the program sends along or asks itself; the model's history is made without these.
_COMMANDS: Final = ("/", "?", "<session_context>", "<hook_context>")
_FACTS: Final = ("projectHash", "kind", "directories")


def is_gemini_cli(first: list[SourceLine]) -> bool:
    """Return whether a file that begins with these lines is a session of Gemini CLI."""
    return any(line.word("sessionId") and line.word("projectHash") for line in first)


def document_lines(content: bytes) -> list[bytes] | None:
    """Return the lines that say what one document says, as older versions wrote; None for no such one."""
    members = lenient(content)
    messages_in = items(members["messages"]) if "messages" in members else None
    if messages_in is None or "projectHash" not in members:
        return None
    head = {name: raw for name, raw in members.items() if name != "messages"}
    return [join(head), *map(one_line, map(bytes, messages_in))]


def gemini_cli(log: AgentLog, report: Report) -> Conversation:
    """Return the conversation of a file; `report` gets what has no place in it."""
    reading = _Reading(report)
    reading.origin.cwd = log.beside.cwd or ""
    for line in report.objects(log):
        reading.take(line)
    return reading.conversation()


class _Said(Struct):
    """A message in its newest version, and the message or list below which the message stands."""

    id: str
    parent: str | None
    line: SourceLine
    replaced: list[SourceLine] | None = None
    """The messages of a list that replaced the list so far."""

    def is_earlier(self, line: SourceLine) -> bool:
        """Return whether a line is a later version of this message."""
        return line.word("type") == self.line.word("type")


class _Reading:
    """All messages that were on the list, and the ids that are on the list now."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self.origin = Origin(AGENT)
        self._said: dict[str, _Said] = {}
        self._list: list[str] = []
        # The replaced list that holds a message, by the message's id.
        self._within: dict[str, _Said] = {}
        self._below: str | None = None
        self._title: str | None = None

    def take(self, line: SourceLine) -> None:
        """Take the next operation."""
        if "$rewindTo" in line.members:
            self._rewind(line, line.word("$rewindTo") or "")
        elif "$set" in line.members:
            self._set(line, member(line.members, "$set"))
        elif line.word("sessionId") is not None:
            self._begin(line.members)
            self._set(line, line.members)
        elif (message_id := line.word("id")) is not None and line.word("type") is not None:
            self._say(message_id, line)
        else:
            self._report.leave_out(line.number, "lines of no known form")

    def conversation(self) -> Conversation:
        """Return what the operations leave."""
        steps = [self._step(one) for one in self._said.values()]
        for said, step in zip(self._said.values(), steps, strict=True):
            if not step.entries:
                what = said.line.word("type") or "none"
                self._report.leave_out(said.line.number, f"messages of type {what}")
        info = SessionInfoEntry(auto_title=self._title) if self._title else None
        leaf = self._list[-1] if self._list else self._below
        return Conversation(self.origin, steps, info, leaf)

    def _begin(self, found: dict[str, Raw]) -> None:
        origin = self.origin
        origin.session_id = text(found.get("sessionId"))
        origin.created_at = SourceLine(1, found).time("startTime")
        origin.facts = {name: found[name] for name in _FACTS if name in found}

    def _say(self, message_id: str, line: SourceLine) -> None:
        known = self._said.get(message_id)
        within = self._within.get(message_id)
        if within is not None and within.replaced is not None:
            within.replaced = [
                line if one.word("id") == message_id else one for one in within.replaced
            ]
        elif known is not None and known.is_earlier(line) and message_id in self._list:
            known.line = line
        else:
            key = message_id if known is None else f"{message_id}.{line.number}"
            self._said[key] = _Said(key, self._tail, line)
            self._list.append(key)

    @property
    def _tail(self) -> str | None:
        return self._list[-1] if self._list else self._below

    def _rewind(self, line: SourceLine, message_id: str) -> None:
        """Take a message and what follows off the list; an unknown id empties the list."""
        if message_id in self._list:
            del self._list[self._list.index(message_id) :]
            return
        within = self._within.get(message_id)
        replaced = (within.replaced if within is not None else None) or []
        ids = [one.word("id") or "" for one in replaced]
        if message_id in ids[1:]:
            self._replace(line, replaced[: ids.index(message_id)])
        else:
            self._list, self._below, self._within = [], None, {}

    def _replace(self, line: SourceLine, replaced: list[SourceLine]) -> None:
        """Put a compaction with these messages behind the list, which is empty then."""
        key = f"line-{line.number}"
        compaction = _Said(key, self._tail, line, replaced)
        self._said[key] = compaction
        self._list, self._below = [], key
        self._within = dict.fromkeys((one.word("id") or "" for one in replaced), compaction)

    def _set(self, line: SourceLine, patch: dict[str, Raw]) -> None:
        self._title = text(patch.get("summary")) or self._title
        found = items(patch["messages"]) if "messages" in patch else None
        if not found:
            return
        replaced = [SourceLine(line.number, lenient(one)) for one in found]
        ids = [one.word("id") or "" for one in replaced]
        if not self._within and ids == self._list[: len(ids)] and self._is_unchanged(replaced):
            del self._list[len(ids) :]
            return
        self._replace(line, replaced)

    def _is_unchanged(self, replaced: list[SourceLine]) -> bool:
        return all(
            one.members.get("content")
            == self._said[one.word("id") or ""].line.members.get("content")
            for one in replaced
        )

    def _step(self, said: _Said) -> Step:
        time = said.line.time()
        if said.replaced is None:
            return Step(said.id, said.parent, time, _entries(said.line, time))
        kept = [message for one in said.replaced for message in _spoken(one)]
        raws = [raw for message in kept for raw in NATIVE.compose(message, time)]
        return Step(said.id, said.parent, time, [Compaction(messages=raws)] if raws else [])


def _entries(line: SourceLine, time: str) -> list[Entry]:
    return [entry for message in _spoken(line) for entry in messages(message, time)]


def _spoken(line: SourceLine) -> list[ParsedMessage]:
    """Return what the model sees of a message: the message, and the results of its calls."""
    kind = line.word("type")
    blocks = _blocks(line.members.get("content"))
    if kind == "user":
        said = "".join(block.text for block in blocks if block.kind == "text")
        if said.startswith(_COMMANDS) or not (
            said.strip() or any(b.kind != "text" for b in blocks)
        ):
            return []
        return [ParsedMessage("user", tuple(blocks))]
    if kind != "gemini":
        return []
    thoughts = [_thought(lenient(one)) for one in items(line.members.get("thoughts", b"")) or ()]
    calls = [lenient(one) for one in items(line.members.get("toolCalls", b"")) or ()]
    answer = ParsedMessage(
        "assistant",
        (*thoughts, *(b for b in blocks if b.kind != "text" or b.text), *map(_call, calls)),
        model_id=line.word("model"),
        usage=_usage(member(line.members, "tokens")),
    )
    results = tuple(_result(call) for call in calls)
    return [answer, ParsedMessage("tool", results)] if results else [answer]


def _blocks(content: Raw | None) -> list[Block]:
    """Return the blocks of a text, of a part, or of a list of parts."""
    if content is None or is_null(content):
        return []
    said = text(content)
    if said is not None:
        return [Block("text", text=said)]
    parts = items(content)
    return [_part(raw) for raw in ([content] if parts is None else parts)]


def _part(raw: Raw) -> Block:
    found = lenient(raw)
    said = text(raw) if text(raw) is not None else text(found.get("text"))
    if said is not None:
        return Block("text", text=said)
    inline = member(found, "inlineData")
    data = text(inline.get("data"))
    if data is not None:
        mime_type = text(inline.get("mimeType")) or ""
        return Block("image", data=data, mime_type=mime_type, size=len(data))
    return Block("other", spelling=next(iter(found), ""), raw=raw)


def _thought(found: dict[str, Raw]) -> Block:
    parts = (text(found.get("subject")), text(found.get("description")))
    return Block("thinking", text="\n".join(filter(None, parts)))


def _call(found: dict[str, Raw]) -> Block:
    return Block(
        "tool_call",
        id=text(found.get("id")) or "",
        name=text(found.get("name")) or "",
        arguments=found.get("args"),
    )


def _result(found: dict[str, Raw]) -> Block:
    """Return the result of a call; a call without one was interrupted."""
    said = [
        text(value) if text(value) is not None else bytes(value).decode()
        for part in map(lenient, items(found.get("result", b"")) or ())
        for value in member(part, "functionResponse", "response").values()
    ]
    status = text(found.get("status"))
    words = "\n".join(one for one in said if one is not None)
    return Block(
        "tool_result",
        text=words or status or "",
        id=text(found.get("id")) or "",
        name=text(found.get("name")) or "",
        is_error=status in {"error", "cancelled"},
    )


def _usage(found: dict[str, Raw]) -> Usage | None:
    """Return the tokens of an answer; those of the input include cached ones there, but not here."""
    if not found:
        return None

    def count(name: str) -> int:
        return count_in(found, name)

    cached = count("cached")
    sent, got = max(0, count("input") - cached), count("output") + count("thoughts")
    total = count("total") or sent + cached + got
    return Usage(sent, got, cached, 0, total, 0.0)
