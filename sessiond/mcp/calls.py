"""Calls of tools: arguments checked, the daemon asked, its refusals told as errors of the tool."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec
from mcp import types

from sessiond import typed
from sessiond.by_now import by_now
from sessiond.mcp.arguments import faults, wrong
from sessiond.mcp.pages import PAGE_CHARS, cut, describe, newest_that_fit, page_of_path
from sessiond.mcp.tools import READING, WRITING
from sessiond_client import Client, RpcError, SessiondClientError
from sessiond_client.errors import Unanswered
from sessiond_client.generated.results import SearchAnswer, SessionPage

LIST_DEFAULT: Final = 20

# Params of the protocol that are arguments of other names.
_ARGUMENTS: Final = {
    "entry_id": "upto",
    "message": "text",
    "expected": "expected_leaf",
    "query": "question",
    "ref": "session",
}

Arguments = Mapping[str, Any]


async def call_tool(client: Client, name: str, given: Arguments, **options: Any) -> Any:
    """Return the result of a tool call. `options` go with each question to the daemon."""
    (schema,) = (tool.input_schema for tool in (*READING, *WRITING) if tool.name == name)
    if (said := faults(name, schema, given)) is not None:
        return refusal(said)
    try:
        result = await ask(client, name, given, **options)
    except SessiondClientError as error:
        return refusal(refused(name, schema, given, error))
    text = result.get("text") or json.dumps(result, ensure_ascii=False)
    shown: list[types.ContentBlock] = [types.TextContent(type="text", text=text)]
    return types.CallToolResult(content=shown, structured_content=result)


def refused(
    name: str, schema: Mapping[str, Any], given: Arguments, error: SessiondClientError
) -> str:
    """Return why the daemon refuses a call of a tool or a prompt, and what a caller can do about it."""
    if not isinstance(error, RpcError) or (argument := _argument(error, schema)) not in given:
        return f"{name}: {error}; {next_step(error)}"
    said = f"is refused: {error.message}"
    if error.kind != "invalid_params":
        said += f"; {next_step(error)}"
    return wrong(name, schema, {argument: said})


def _argument(error: RpcError, schema: Mapping[str, Any]) -> str:
    """Return the argument of a tool whose value the daemon does not take; "" if none is the cause."""
    path = str(error.data.get("path")).partition(".")[0]
    return path if path in schema["properties"] else _ARGUMENTS.get(path, "")


async def ask(client: Client, name: str, given: Arguments, **options: Any) -> dict[str, Any]:
    """Return what a tool tells, from arguments that fit its schema. Raise SessiondClientError."""
    return await _CALLS[name](client, given, options)


def next_step(error: SessiondClientError) -> str:
    """Return what a caller can do about an error."""
    if isinstance(error, Unanswered) and error.outcome_unknown:
        return "it may have been done: look with list_sessions or read_session before you try again"
    if not isinstance(error, RpcError):
        return "the daemon did not answer; try again, or look at `sessiond status`"
    return {
        "session_not_found": "list_sessions shows the ids",
        "entry_not_found": "read_session shows the ids of entries",
        "precondition_failed": "read the session again, then decide",
        "too_large": "ask for less: read_session gives pages",
    }.get(error.kind, "try again" if error.retryable else "change the call")


def session_facts(info: Any) -> dict[str, Any]:
    """Return the facts of a session that lists show; long texts are cut."""
    names = ("id", "title", "agent", "cwd", "message_count", "updated_at", "archived", "read_only")
    facts = {name: getattr(info, name) for name in names}
    if info.partial:
        facts["partial"] = True
    facts["title"] = (info.title or info.auto_title or "")[:200]
    return facts


def refusal(text: str) -> types.CallToolResult:
    """Return the result of a tool call that was refused."""
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)


async def _list(client: Client, given: Arguments, options: dict[str, Any]) -> dict[str, Any]:
    asked: dict[str, Any] = {"limit": LIST_DEFAULT, **given, **options}
    page = await by_now(client, SessionPage, "session/list", **asked)
    shown = [session_facts(info) for info in page.sessions]
    return {"sessions": shown, "next_cursor": page.next_cursor} | _missing(page)


async def _search(client: Client, given: Arguments, options: dict[str, Any]) -> dict[str, Any]:
    asked: dict[str, Any] = {"limit": LIST_DEFAULT, **given, **options}
    found = await by_now(client, SearchAnswer, "session/search", **asked)
    return {"hits": msgspec.to_builtins(found.hits)} | _missing(found)


def _missing(found: SessionPage | SearchAnswer) -> dict[str, Any]:
    """Return what is not in an answer: what is still being read, cannot be read, or has no room in the index."""
    missing: dict[str, Any] = {}
    if found.looking is not None:
        more = "more sessions are being read: the same call finds more in a moment"
        missing["looking"] = msgspec.to_builtins(found.looking) | {"note": more}
    if found.unreadable:
        missing["unreadable"] = msgspec.to_builtins(found.unreadable)
    if isinstance(found, SearchAnswer) and found.unsearched:
        missing["unsearched"] = msgspec.to_builtins(found.unsearched)
    return missing


async def _read(client: Client, given: Arguments, options: dict[str, Any]) -> dict[str, Any]:
    await client.open(session_id=given["session_id"], **options)
    page = await page_of_path(client, given["session_id"], given.get("upto"))
    text = "\n\n".join(describe(entry) for entry in page.entries)
    if page.older:
        text = f"[older entries: read_session with upto={page.older}]\n\n{text}"
    return {"text": text, "older": page.older}


async def _entry(client: Client, given: Arguments, options: dict[str, Any]) -> dict[str, Any]:
    stored = await client.entry(given["session_id"], given["entry_id"], **options)
    text, more = cut(bytes(stored.raw).decode(), PAGE_CHARS, given.get("offset", 0))
    return {"text": text, "next_offset": more}


async def _context(client: Client, given: Arguments, options: dict[str, Any]) -> dict[str, Any]:
    found = await client.build_context(**{**given, **options})
    kept = newest_that_fit(found.raw_messages, len)
    messages = [typed.decode(one) for one in kept]
    if kept and len(kept[-1]) > PAGE_CHARS:
        # Alone over the page: its beginning, in words.
        role, entry_id = messages[-1].get("role"), found.sources[-1]
        text = describe({"type": "message", "id": entry_id, "message": messages[-1]})
        messages = [{"role": role, "content": text}]
    return {"messages": messages, "omitted": len(found.raw_messages) - len(messages)}


async def _tree(client: Client, given: Arguments, options: dict[str, Any]) -> dict[str, Any]:
    asked: dict[str, Any] = {"limit": 200, **given, **options}
    page = await client.tree(**asked)
    nodes = [
        {"id": n.id, "parent_id": n.below_id, "type": n.type, "depth": n.depth}
        | {"label": n.label, "on_active_path": n.on_active_path, "preview": n.preview}
        for n in page.nodes
    ]
    return {"nodes": nodes, "next_cursor": page.next_cursor}


async def _append(client: Client, given: Arguments, options: dict[str, Any]) -> dict[str, Any]:
    if "idempotency_key" in given:
        options = {**options, "idempotency_key": given["idempotency_key"]}
    if "expected_leaf" in given:
        options = {**options, "expected": {"leaf_id": given["expected_leaf"]}}
    message = {"role": given["role"], "content": given["text"]}
    done = await client.append(given["session_id"], message=message, **options)
    first = done.entries[0]
    return {"entry_id": first.id, "seq": first.seq, "duplicate": done.duplicate}


async def _fork(client: Client, given: Arguments, options: dict[str, Any]) -> dict[str, Any]:
    made = await client.fork(**{**given, **options})
    return {"session_id": made.id}


_CALLS: Final[
    dict[str, Callable[[Client, Arguments, dict[str, Any]], Awaitable[dict[str, Any]]]]
] = {
    "list_sessions": _list,
    "search_sessions": _search,
    "read_session": _read,
    "read_entry": _entry,
    "session_context": _context,
    "session_tree": _tree,
    "append_message": _append,
    "fork_session": _fork,
}
