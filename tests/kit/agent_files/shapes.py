"""Checks of lines against the shapes that the facts on the formats state, for generators and samples.

Each check returns the faults of one line, as texts. A line of an unknown type has none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from tests.kit.agent_files.said import Json, as_list, as_object

Types = tuple[type, ...]

TEXT: Final[Types] = (str,)
NUMBER: Final[Types] = (int,)
FLAG: Final[Types] = (bool,)
OBJECT: Final[Types] = (dict,)
LIST: Final[Types] = (list,)
TEXT_OR_NONE: Final[Types] = (str, type(None))

ENVELOPE: Final[Mapping[str, Types]] = {
    "uuid": TEXT,
    "parentUuid": TEXT_OR_NONE,
    "sessionId": TEXT,
    "timestamp": TEXT,
    "cwd": TEXT,
    "version": TEXT,
    "isSidechain": FLAG,
}

CLAUDE: Final[Mapping[str, Mapping[str, Types]]] = {
    "user": {**ENVELOPE, "message": OBJECT},
    "assistant": {**ENVELOPE, "message": OBJECT},
    "system": {**ENVELOPE, "subtype": TEXT},
    "attachment": {**ENVELOPE, "attachment": OBJECT},
    "progress": ENVELOPE,
    "custom-title": {"customTitle": TEXT},
    "ai-title": {"aiTitle": TEXT},
    "summary": {"summary": TEXT, "leafUuid": TEXT},
    "last-prompt": {"lastPrompt": TEXT, "leafUuid": TEXT_OR_NONE},
    "tag": {"tag": TEXT},
}

CLAUDE_BLOCKS: Final[Mapping[str, Mapping[str, Types]]] = {
    "text": {"text": TEXT},
    "thinking": {"thinking": TEXT, "signature": TEXT},
    "image": {"source": OBJECT},
    "tool_use": {"id": TEXT, "name": TEXT, "input": OBJECT},
    "tool_result": {"tool_use_id": TEXT, "content": (str, list)},
}

CODEX: Final[Mapping[str, Mapping[str, Types]]] = {
    "session_meta": {"id": TEXT, "timestamp": TEXT, "cwd": TEXT, "cli_version": TEXT},
    "turn_context": {"turn_id": TEXT, "cwd": TEXT, "model": TEXT},
    "response_item": {"type": TEXT},
    "event_msg": {"type": TEXT},
    "compacted": {"message": TEXT},
}

CODEX_ITEMS: Final[Mapping[str, Mapping[str, Types]]] = {
    "message": {"role": TEXT, "content": LIST},
    "reasoning": {"summary": LIST, "encrypted_content": TEXT},
    "function_call": {"name": TEXT, "arguments": TEXT, "call_id": TEXT},
    "function_call_output": {"call_id": TEXT, "output": (str, list, dict)},
    "custom_tool_call": {"name": TEXT, "input": TEXT, "call_id": TEXT},
    "custom_tool_call_output": {"call_id": TEXT, "output": (str, list, dict)},
    "local_shell_call": {"call_id": TEXT, "action": OBJECT},
    "web_search_call": {"status": TEXT, "action": OBJECT},
    "compaction": {"encrypted_content": TEXT},
    "context_compaction": {"encrypted_content": TEXT},
}

CODEX_EVENTS: Final[Mapping[str, Mapping[str, Types]]] = {
    "user_message": {"message": TEXT, "images": LIST},
    "agent_message": {"message": TEXT, "phase": TEXT},
    "agent_reasoning": {"text": TEXT},
    "token_count": {"info": (dict, type(None))},
    "thread_rolled_back": {"num_turns": NUMBER},
    "turn_aborted": {"turn_id": TEXT, "reason": TEXT},
    "task_started": {"turn_id": TEXT},
    "task_complete": {"turn_id": TEXT, "last_agent_message": TEXT_OR_NONE},
    "item_completed": {
        "thread_id": TEXT,
        "turn_id": TEXT,
        "item": OBJECT,
        "completed_at_ms": NUMBER,
    },
}

LEGACY_EVENTS: Final = ("user_message", "agent_message", "agent_reasoning", "context_compacted")

GEMINI_MESSAGE: Final[Mapping[str, Types]] = {
    "id": TEXT,
    "timestamp": TEXT,
    "content": (str, dict, list),
}
GEMINI_CALL: Final[Mapping[str, Types]] = {
    "id": TEXT,
    "name": TEXT,
    "args": OBJECT,
    "result": (list, type(None)),
    "status": TEXT,
    "timestamp": TEXT,
}
GEMINI_TOKENS: Final[Mapping[str, Types]] = dict.fromkeys(
    ("input", "output", "cached", "thoughts", "tool", "total"), NUMBER
)


def faults(where: str, value: Json, wanted: Mapping[str, Types]) -> list[str]:
    """Return the members of an object that are missing or of another type."""
    return [
        f"{where}: {name}"
        for name, types in wanted.items()
        if name not in value or not isinstance(value[name], types)
    ]


def claude_faults(line: Json) -> list[str]:
    """Return the faults of a line of Claude Code."""
    kind = str(line.get("type"))
    found = faults(kind, line, CLAUDE.get(kind, {}))
    if kind not in ("user", "assistant"):
        return found + _boundary_faults(line)
    message = as_object(line.get("message"))
    if message.get("role") != kind:
        found.append(f"{kind}: role")
    content = message.get("content")
    if kind == "assistant":
        found += faults("reply", message, {"id": TEXT, "model": TEXT, "usage": OBJECT})
        found += [] if len(as_list(content)) == 1 else ["reply: one block a line"]
    for block in map(as_object, as_list(content)):
        wanted = CLAUDE_BLOCKS.get(str(block.get("type")))
        found += ["block: type"] if wanted is None else faults(str(block["type"]), block, wanted)
    return found


def _boundary_faults(line: Json) -> list[str]:
    if line.get("subtype") != "compact_boundary":
        return []
    found = faults("boundary", line, {"compactMetadata": OBJECT, "logicalParentUuid": TEXT_OR_NONE})
    if line.get("parentUuid") is not None:
        found.append("boundary: parentUuid")
    about = as_object(line.get("compactMetadata"))
    found += faults("boundary", about, {"trigger": TEXT, "preTokens": NUMBER})
    if "preservedSegment" in about:
        ends = {"headUuid": TEXT, "anchorUuid": TEXT, "tailUuid": TEXT}
        found += faults("segment", as_object(about["preservedSegment"]), ends)
    if "preservedMessages" in about:
        kept = {"anchorUuid": TEXT, "uuids": LIST}
        found += faults("kept", as_object(about["preservedMessages"]), kept)
    return found


def codex_faults(line: Json, *, paginated: bool) -> list[str]:
    """Return the faults of a line of Codex."""
    kind = str(line.get("type"))
    found = faults(kind, line, {"timestamp": TEXT, "type": TEXT, "payload": OBJECT})
    if ("ordinal" in line) is not paginated:
        found.append(f"{kind}: ordinal")
    payload = as_object(line.get("payload"))
    found += faults(kind, payload, CODEX.get(kind, {}))
    inner = str(payload.get("type"))
    if kind == "response_item":
        found += _item_faults(payload)
    elif kind == "event_msg":
        found += faults(inner, payload, CODEX_EVENTS.get(inner, {}))
        wrong = inner in LEGACY_EVENTS if paginated else inner == "item_completed"
        found += [f"event of the other mode: {inner}"] if wrong else []
    elif kind == "compacted":
        for item in as_list(payload.get("replacement_history")):
            found += _item_faults(as_object(item))
    return found


def _item_faults(item: Json) -> list[str]:
    kind = str(item.get("type"))
    found = faults(kind, item, CODEX_ITEMS.get(kind, {}))
    if kind == "function_call":
        found += [] if isinstance(_decoded(item.get("arguments")), dict) else ["arguments"]
    return found


def _decoded(text: Any) -> Any:
    try:
        return json.loads(text)
    except (TypeError, ValueError):
        return None


def gemini_faults(line: Json, *, first: bool) -> list[str]:
    """Return the faults of a line of Gemini CLI; the first line of a chat has its facts."""
    if first:
        names = ("sessionId", "projectHash", "startTime", "lastUpdated", "kind")
        return faults("head", line, dict.fromkeys(names, TEXT))
    patch = as_object(line.get("$set"))
    found = [
        one
        for message in as_list(patch.get("messages"))
        for one in _message_faults(as_object(message))
    ]
    if "$rewindTo" in line:
        found += faults("rewind", line, {"$rewindTo": TEXT})
    return found + (_message_faults(line) if "type" in line else [])


def _message_faults(message: Json) -> list[str]:
    found = faults(str(message.get("type")), message, GEMINI_MESSAGE)
    if message.get("type") not in ("user", "gemini", "info", "error", "warning"):
        found.append("message: type")
    if message.get("tokens") is not None:
        found += faults("tokens", as_object(message["tokens"]), GEMINI_TOKENS)
    for call in as_list(message.get("toolCalls")):
        found += faults("call", as_object(call), GEMINI_CALL)
    return found
