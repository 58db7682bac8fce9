"""The items of Codex's rollouts: the words, calls and results of one item, and a request's tokens.

{"type":"function_call","name":"exec_command","arguments":"{\\"cmd\\":\\"ls\\"}","call_id":"call_1"}
{"type":"function_call_output","call_id":"call_1","output":"a.txt"}
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw, structs

from sessiond.dialects.agents.source_line import count_in, source_line
from sessiond.dialects.base import BadLine
from sessiond.dialects.lenient_json import items, lenient, text
from sessiond.dialects.payload import read_message
from sessiond.model.parsed_message import Block, ParsedMessage
from sessiond.model.usage import Usage

_CALLS: Final = frozenset({"function_call", "custom_tool_call", "local_shell_call"})
_OUTPUTS: Final = frozenset({"function_call_output", "custom_tool_call_output"})
ITEMS: Final = _CALLS | _OUTPUTS | {"message", "reasoning"}
"""Types of items that say something."""
# Codex says these for the user; no event repeats them for people.
_INJECTED: Final = (
    "<environment_context>",
    "<user_instructions>",
    "# AGENTS.md instructions",
    "<turn_aborted>",
    "<user_shell_command>",
)


def message_of(payload: dict[str, Raw], tools: dict[str, str]) -> ParsedMessage | None:
    """Return what an item says; None for an item without words, calls or results.

    A call adds its tool to `tools`.
    """
    kind = text(payload.get("type"))
    if kind == "message":
        role = text(payload.get("role"))
        if role not in {"user", "assistant"}:
            return None
        return read_message(msgspec.json.encode({"role": role, "content": payload.get("content")}))
    if kind == "reasoning":
        parts = map(lenient, items(payload.get("summary", b"")) or ())
        said = "\n\n".join(filter(None, (text(part.get("text")) for part in parts)))
        return ParsedMessage("assistant", (Block("thinking", text=said),)) if said else None
    if kind in _CALLS:
        return ParsedMessage("assistant", (_call(payload, tools),))
    if kind in _OUTPUTS:
        return ParsedMessage("tool", (_output(payload),))
    return None


def _call(payload: dict[str, Raw], tools: dict[str, str]) -> Block:
    call_id = text(payload.get("call_id")) or text(payload.get("id")) or ""
    name = text(payload.get("name")) or "shell"
    given = text(payload.get("arguments"))
    if given is not None and _is_object(given.encode()):
        # Newlines stand between the tokens alone, and an entry is one line.
        arguments = Raw(given.replace("\n", " ").encode())
    elif "action" in payload:
        arguments = payload["action"]
    else:
        said = given if given is not None else text(payload.get("input")) or ""
        arguments = Raw(msgspec.json.encode({"input": said}))
    tools[call_id] = name
    return Block("tool_call", id=call_id, name=name, arguments=arguments)


def _is_object(given: bytes) -> bool:
    try:
        source_line(0, given)
    except BadLine:
        return False
    return True


def _output(payload: dict[str, Raw]) -> Block:
    raw = payload.get("output", Raw(b'""'))
    within = lenient(raw)
    failed = bytes(within.get("success", b"")) == b"false"
    given = within.get("content", raw)
    call_id = text(payload.get("call_id")) or ""
    if (output := text(given)) is not None:
        # As most outputs are.
        parts = (Block("text", text=output),)
        return Block("tool_result", text=output, id=call_id, is_error=failed, parts=parts)
    said = read_message(msgspec.json.encode({"role": "tool", "content": given}))
    (block,) = said.blocks if said is not None else (Block("tool_result"),)
    return structs.replace(block, id=call_id, is_error=failed)


def usage_of(found: dict[str, Raw]) -> Usage:
    """Return the tokens of one request; those of the input include cached ones there, but not here."""

    def count(name: str) -> int:
        return count_in(found, name)

    cached = count("cached_input_tokens")
    written = count("cache_write_input_tokens")
    sent = max(0, count("input_tokens") - cached - written)
    got = count("output_tokens")
    total = count("total_tokens") or sent + cached + written + got
    return Usage(sent, got, cached, written, total, 0.0)


def is_injected(message: ParsedMessage) -> bool:
    """Return whether Codex itself wrote a message of the user."""
    return message.role == "user" and message.text.lstrip().startswith(_INJECTED)


def said_by_user(said: str) -> ParsedMessage:
    """Return the message of a user with this text."""
    return ParsedMessage("user", (Block("text", text=said),))
