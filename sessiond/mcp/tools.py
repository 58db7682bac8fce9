"""Tools: names, descriptions and schemas. Models read the descriptions."""

from __future__ import annotations

from typing import Any, Final

from mcp import types

__all__ = ["READING", "WRITING"]

_ID: Final = {"type": "string", "description": "Id of the session"}
_TEXT: Final = {"type": "string"}


def _tool(
    name: str, text: str, needs: dict[str, Any], may: dict[str, Any], *, gives: dict[str, Any]
) -> types.Tool:
    writes = name in {"append_message", "fork_session"}
    return types.Tool(
        name=name,
        description=text,
        input_schema={
            "type": "object",
            "properties": needs | may,
            "required": list(needs),
            "additionalProperties": False,
        },
        output_schema={"type": "object", "properties": gives, "required": list(gives)},
        annotations=types.ToolAnnotations(
            read_only_hint=not writes,
            destructive_hint=False,
            idempotent_hint=not writes,
            open_world_hint=False,
        ),
    )


_LIST: Final = {"type": "array"}
_MORE: Final = {"type": ["string", "null"]}

READING: Final = (
    _tool(
        "list_sessions",
        "List sessions, newest first. Use this to find a session by title, folder or agent."
        " `looking` says that older ones are still being read.",
        {},
        {"cwd": _TEXT, "query": _TEXT, "agent": _TEXT, "cursor": _TEXT}
        | {"limit": {"type": "integer", "minimum": 1, "maximum": 100}},
        gives={"sessions": _LIST, "next_cursor": _MORE},
    ),
    _tool(
        "search_sessions",
        "Find entries that hold all words of the query in a message, in the arguments of a tool's"
        " call or in its output, best first. Quotes make a phrase. `looking` says that sessions are still being read.",
        {"query": _TEXT},
        {
            "session_id": _ID,
            "cwd": _TEXT,
            "role": {"enum": ["user", "assistant", "tool", "custom", "summary", "title"]},
            "tool": {"type": "string", "description": "Name of a tool: only its calls and outputs"},
            "since": {"type": "string", "description": "Only entries since this RFC 3339 time"},
            "limit": {"type": "integer", "minimum": 1, "maximum": 100},
        },
        gives={"hits": _LIST},
    ),
    _tool(
        "read_session",
        "Read a session as text, newest page first. Give `older` as `upto` for the page before.",
        {"session_id": _ID},
        {"upto": {"type": "string", "description": "Entry id at which the page ends"}},
        gives={"text": _TEXT, "older": _MORE},
    ),
    _tool(
        "read_entry",
        "Read one entry as stored, in parts. Give `next_offset` as `offset` for the next part.",
        {"session_id": _ID, "entry_id": _TEXT},
        {"offset": {"type": "integer", "minimum": 0}},
        gives={"text": _TEXT, "next_offset": {"type": ["integer", "null"]}},
    ),
    _tool(
        "session_context",
        "Get the messages that a model would see, after compactions. Use this to go on with a"
        " session. `omitted` counts older messages that did not fit.",
        {"session_id": _ID},
        {"shape": {"enum": ["stored", "anthropic", "openai"]}},
        gives={"messages": _LIST, "omitted": {"type": "integer"}},
    ),
    _tool(
        "session_tree",
        "List the entries of all branches in the order of the tree, a page at a time.",
        {"session_id": _ID},
        {"cursor": _TEXT},
        gives={"nodes": _LIST, "next_cursor": _MORE},
    ),
)

WRITING: Final = (
    _tool(
        "append_message",
        "Append a message to the head `main`. Give an idempotency_key, and a repeated call is"
        " stored once. Give expected_leaf, and the call is refused if the session moved on.",
        {"session_id": _ID, "role": {"enum": ["user", "assistant"]}, "text": _TEXT},
        {"idempotency_key": _TEXT, "expected_leaf": _TEXT},
        gives={"entry_id": _TEXT, "seq": {"type": "integer"}, "duplicate": {"type": "boolean"}},
    ),
    _tool(
        "fork_session",
        "Copy a session into a new one, up to the entry `at` if given. The source is unchanged.",
        {"session_id": _ID},
        {"at": _TEXT, "title": _TEXT, "new_session_id": _TEXT},
        gives={"session_id": _TEXT},
    ),
)
