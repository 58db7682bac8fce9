"""One line of a session of Claude Code: its message, words of the harness, or a compaction."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct, structs

from sessiond.dialects.agents.claude_tree import Boundary
from sessiond.dialects.agents.source_line import SourceLine, decoded, member
from sessiond.dialects.lenient_json import array, items, join, lenient, text
from sessiond.dialects.payload import read_message
from sessiond.model.parsed_message import ParsedMessage

BOUNDARY: Final = "system.compact_boundary"
OUTPUT_FILE: Final = "outputFile"
"""Member of a result of which the message has only a part: the name of the file with all of it."""
_PERSISTED: Final = "persistedOutputPath"
_SAID: Final = frozenset({"user", "assistant"})
_QUEUED: Final = "attachment.queued_command"
# What the harness tells in a line of the user.
_EVENTS: Final = (
    "<local-command-caveat>",
    "<local-command-stdout>",
    "<local-command-stderr>",
    "<bash-input>",
    "<bash-stdout>",
    "<bash-stderr>",
    "<task-notification>",
    "<session-start-hook>",
    "<tick>",
    "<goal>",
    "[Request interrupted by user",
)
_COMMANDS: Final = ("<command-name>", "<command-message>")
_ARGUMENTS: Final = r"<command-args>\s*[^\s<]"
_COUNT_MAX: Final = 2**53


class Told(Struct, rename="camel", gc=False):
    """The members of a line that are asked for in each line."""

    type: str | None = None
    subtype: str | None = None
    uuid: str | None = None
    parent_uuid: str | None = None
    logical_parent_uuid: str | None = None
    session_id: str | None = None
    timestamp: str | None = None
    cwd: str | None = None
    is_sidechain: bool = False
    is_compact_summary: bool = False
    is_meta: bool = False
    is_api_error_message: bool = False


def word_for(line: SourceLine) -> str:
    """Return the agent's word for a line: its type, and the kind of a system line or attachment."""
    told = line.tell(Told)
    kind = told.type or ""
    detail = told.subtype if kind == "system" else None
    if kind == "attachment":
        detail = text(member(line.members, "attachment").get("type"))
    return f"{kind}.{detail}" if detail else kind


def said_in(line: SourceLine) -> ParsedMessage | None:
    """Return the message of a line, or of a prompt that was queued while the model answered."""
    told = line.tell(Told)
    kind = told.type
    if kind in _SAID:
        said = line.members.get("message")
    elif is_queued(line):
        prompt = member(line.members, "attachment").get("prompt", Raw(b'""'))
        said = Raw(msgspec.json.encode({"role": "user", "content": prompt}))
    else:
        return None
    found = None if said is None else read_message(said)
    if found is None:
        return None
    if kind != "assistant":
        if found.role == "user" and found.usage is None:
            return found
        return structs.replace(found, role="user", usage=None)
    is_failed = told.is_api_error_message
    if found.role == "assistant" and found.model_id != "<synthetic>" and not is_failed:
        return found
    return structs.replace(
        found,
        role="assistant",
        model_id=None if found.model_id == "<synthetic>" else found.model_id,
        stop_reason="error" if is_failed else found.stop_reason,
    )


def is_queued(line: SourceLine) -> bool:
    """Return whether a line is a prompt that was queued while the model answered."""
    return line.tell(Told).type == "attachment" and word_for(line) == _QUEUED


def custom_type(line: SourceLine, message: ParsedMessage) -> str | None:
    """Return the type of words that the harness says for the user; None for any other message.

    A command with arguments is a prompt of the user.
    """
    if message.role != "user" or message.is_result:
        return None
    if line.tell(Told).is_meta:
        return "claude-code.meta"
    said = message.text.lstrip()
    if said.startswith(_COMMANDS):
        return None if re.search(_ARGUMENTS, said) else "claude-code.command"
    return "claude-code.event" if said.startswith(_EVENTS) else None


def with_output_file(line: SourceLine, said: Raw) -> Raw:
    """Return the message of a line with the name of the file that has the output of its one result."""
    about = line.members.get("toolUseResult", b"")
    path = text(lenient(about).get(_PERSISTED)) if _PERSISTED.encode() in bytes(about) else None
    if path is None:
        return said
    name = Raw(msgspec.json.encode(re.split(r"[/\\]", path)[-1]))
    members = lenient(said)
    if text(members.get("role")) == "toolResult" and "toolCallId" in members:
        return Raw(join(members | {OUTPUT_FILE: name}))
    blocks = items(members.get("content", b"")) or []
    places = [
        at for at, one in enumerate(blocks) if text(lenient(one).get("type")) == "tool_result"
    ]
    if len(places) != 1:
        # The line does not say whose output the file has.
        return said
    (at,) = places
    blocks[at] = Raw(join(lenient(blocks[at]) | {OUTPUT_FILE: name}))
    return Raw(join(members | {"content": array(blocks)}))


def boundary_in(line: SourceLine) -> Boundary:
    """Return what the boundary of a compaction says."""
    found = member(line.members, "compactMetadata")
    kept: list[Any] | None = decoded(
        member(found, "preservedMessages").get("uuids"), list[Any], None
    )
    segment = member(found, "preservedSegment")
    return Boundary(
        kept=None if kept is None else tuple(one for one in kept if isinstance(one, str)),
        segment=(text(segment.get("headUuid")), text(segment.get("tailUuid"))),
        before=line.word("logicalParentUuid"),
        tokens_before=_count(found, "preTokens"),
        tokens_after=_count(found, "postTokens"),
    )


def _count(found: dict[str, Raw], name: str) -> int | None:
    count: int = decoded(found.get(name), int, -1)
    return count if 0 <= count < _COUNT_MAX else None
