"""The messages of Gemini CLI's chats: what one message says, with the results of its calls.

{"id":"…","timestamp":"…","type":"gemini","content":"I look.","thoughts":[],"model":"gemini-3-pro",
 "tokens":{"input":12,"output":3,"cached":0,"thoughts":0,"tool":0,"total":15},
 "toolCalls":[{"id":"c1","name":"ls","args":{},"status":"success",
   "result":[{"functionResponse":{"id":"c1","name":"ls","response":{"output":"a.txt"}}}]}]}
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import msgspec
from msgspec import Raw

from sessiond.dialects.agents.source_line import SourceLine, count_in, member
from sessiond.dialects.lenient_json import is_null, items, lenient, text
from sessiond.model.digests import sha256_hex
from sessiond.model.parsed_message import Block, ParsedMessage
from sessiond.model.usage import Usage

# What the program sends along or asks itself; the model's history is made without these.
_COMMANDS: Final = ("/", "?", "<session_context>", "<hook_context>")
# A call in one of these states will have a result in a later version of its message.
_RUNNING: Final = frozenset({"validating", "scheduled", "executing", "awaiting_approval"})
_FAILED: Final = frozenset({"error", "cancelled"})


def message_of(line: SourceLine) -> ParsedMessage | None:
    """Return what the model sees of a message, results of its calls last; None for no words."""
    kind = line.word("type")
    blocks = _blocks(line.members.get("content"))
    if kind == "user":
        said = "".join(block.text for block in blocks if block.kind == "text")
        if said.startswith(_COMMANDS) or not (
            said.strip() or any(block.kind != "text" for block in blocks)
        ):
            return None
        return ParsedMessage("user", tuple(blocks))
    if kind != "gemini":
        return None
    thoughts = [_thought(lenient(one)) for one in items(line.members.get("thoughts", b"")) or ()]
    calls = [lenient(one) for one in items(line.members.get("toolCalls", b"")) or ()]
    results = [_result(call) for call in calls if not _is_running(call)]
    words = [block for block in blocks if block.kind != "text" or block.text]
    return ParsedMessage(
        "assistant",
        (*thoughts, *words, *map(_call, calls), *results),
        model_id=line.word("model"),
        usage=_usage(member(line.members, "tokens")),
    )


def split(message: ParsedMessage) -> list[ParsedMessage]:
    """Return the message, and apart from it the results of its calls."""
    results = tuple(block for block in message.blocks if block.kind == "tool_result")
    if not results:
        return [message]
    rest = tuple(block for block in message.blocks if block.kind != "tool_result")
    return [msgspec.structs.replace(message, blocks=rest), ParsedMessage("tool", results)]


def digest_of(block: Block) -> int:
    """Return a number that equal blocks share, and no other blocks."""
    return int(sha256_hex(msgspec.json.encode(block))[:16], 16)


def chosen(
    message: ParsedMessage, blocks: tuple[int, ...], lacking: Counter[int]
) -> tuple[Block, ...]:
    """Return the blocks of a message that its earlier versions lack."""
    chosen: list[Block] = []
    for block, digest in zip(message.blocks, blocks, strict=True):
        if lacking[digest] > 0:
            lacking[digest] -= 1
            chosen.append(block)
    return tuple(chosen)


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


def _is_running(call: dict[str, Raw]) -> bool:
    return not items(call.get("result", b"")) and text(call.get("status")) in _RUNNING


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
        is_error=status in _FAILED,
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
