"""Tools: names, descriptions and schemas. Models read the descriptions."""

from __future__ import annotations

from typing import Any, Final

from mcp import types

_TEXT: Final = {"type": "string"}


def _text(sample: str, about: str = "") -> dict[str, Any]:
    return {"type": "string", "examples": [sample]} | ({"description": about} if about else {})


def _number(sample: int, least: int, most: int | None = None) -> dict[str, Any]:
    most_of = {} if most is None else {"maximum": most}
    return {"type": "integer", "minimum": least, **most_of, "examples": [sample]}


def _choice(*words: str) -> dict[str, Any]:
    return {"enum": list(words), "examples": [words[0]]}


_ID: Final = _text("01999999-0000-7000-8000-000000000000", "Id of the session")
_ENTRY: Final = "4c1e0a7b52d94f3c8e6a1b0d7f2c9e58"
_CWD: Final = _text("/home/me/project", "Only sessions of this project: its folder")
_LIMIT: Final = _number(20, 1, 100)
# No cursor is an example: each belongs to a page.
_CURSOR: Final = {"type": "string", "description": "`next_cursor` of the page before"}


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
        " `looking` says that older ones are still being read, `unreadable` which files cannot be.",
        {},
        {
            "cwd": _CWD,
            "query": _text("clock", "Only with this text in the title, first message or folder"),
            "agent": _text("claude-code", "Only sessions of exactly this agent"),
            "cursor": _CURSOR,
            "limit": _LIMIT,
        },
        gives={"sessions": _LIST, "next_cursor": _MORE},
    ),
    _tool(
        "search_sessions",
        "Find entries that hold all words of the query in a message, in the arguments of a tool's"
        " call or in its output, best first. Quotes make a phrase."
        " `looking` says that sessions are still being read, `unreadable` which cannot be, `unsearched` which texts"
        " the index has no room for.",
        {"query": _text('"time zone" clock')},
        {
            "session_id": _ID,
            "cwd": _CWD,
            "role": _choice("user", "assistant", "tool", "custom", "summary", "title"),
            "tool": _text("Bash", "Name of a tool: only its calls and outputs"),
            "since": _text("2026-01-31T00:00:00Z", "Only entries since this RFC 3339 time"),
            "limit": _LIMIT,
        },
        gives={"hits": _LIST},
    ),
    _tool(
        "read_session",
        "Read a session as text, newest page first. Give `older` as `upto` for the page before.",
        {"session_id": _ID},
        {"upto": _text(_ENTRY, "Entry id at which the page ends")},
        gives={"text": _TEXT, "older": _MORE},
    ),
    _tool(
        "read_entry",
        "Read one entry as stored, in parts. Give `next_offset` as `offset` for the next part.",
        {"session_id": _ID, "entry_id": _text(_ENTRY)},
        {"offset": _number(0, 0)},
        gives={"text": _TEXT, "next_offset": {"type": ["integer", "null"]}},
    ),
    _tool(
        "session_context",
        "Get the messages that a model would see, after compactions. Use this to go on with a"
        " session. `omitted` counts older messages that did not fit.",
        {"session_id": _ID},
        {"shape": _choice("stored", "anthropic", "openai")},
        gives={"messages": _LIST, "omitted": {"type": "integer"}},
    ),
    _tool(
        "session_tree",
        "List the entries of all branches in the order of the tree, a page at a time.",
        {"session_id": _ID},
        {"cursor": _CURSOR},
        gives={"nodes": _LIST, "next_cursor": _MORE},
    ),
)

WRITING: Final = (
    _tool(
        "append_message",
        "Append a message to the head `main`. Give an idempotency_key, and a repeated call is"
        " stored once. Give expected_leaf, and the call is refused if the session moved on.",
        {"session_id": _ID, "role": _choice("user", "assistant"), "text": _text("Go on.")},
        {
            "idempotency_key": _text("my-call-1"),
            "expected_leaf": _text(_ENTRY, "Id of the entry that has to be the newest one"),
        },
        gives={"entry_id": _TEXT, "seq": {"type": "integer"}, "duplicate": {"type": "boolean"}},
    ),
    _tool(
        "fork_session",
        "Copy a session into a new one, up to the entry `at` if given. The source is unchanged.",
        {"session_id": _ID},
        {
            "at": _text(_ENTRY, "Id of the last entry to copy"),
            "title": _text("Another way"),
            "new_session_id": _text("another-way-1"),
        },
        gives={"session_id": _TEXT},
    ),
)
