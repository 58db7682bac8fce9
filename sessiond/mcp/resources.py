"""Resources: sessions, newest first, and the parts of a session, each a page of bounded size."""

from __future__ import annotations

import json
from typing import Any, Final

from mcp import types

from sessiond.by_now import by_now
from sessiond.mcp.calls import ask, session_facts
from sessiond.mcp.pages import PAGE_CHARS, cut, describe, page_of_entries, page_of_path
from sessiond.mcp.uris import Address, format_uri, parse_uri
from sessiond.visible import counted
from sessiond_client import Client
from sessiond_client.generated.results import SessionPage

PAGE_SESSIONS: Final = 100

_MARKDOWN: Final = "text/markdown"
_JSON: Final = "application/json"

TEMPLATES: Final = [
    types.ResourceTemplate(name=name, description=text, uri_template=uri, mime_type=mime)
    for name, uri, mime, text in (
        ("session", "sessiond://session/{id}{?upto}", _MARKDOWN, "Newest page of a session."),
        ("context", "sessiond://session/{id}/context", _JSON, "Messages that a model would see."),
        ("tree", "sessiond://session/{id}/tree{?cursor}", _JSON, "Page of the tree of entries."),
        ("entries", "sessiond://session/{id}/entries{?before}", _JSON, "Entries of all branches."),
        ("entry", "sessiond://session/{id}/entry/{entry_id}{?offset}", _JSON, "Part of an entry."),
    )
]


async def list_resources(client: Client, cursor: str | None) -> types.ListResourcesResult:
    """Return a page of the sessions; the cursor is the daemon's own.

    The daemon reads the files that were written last first: a full page need not wait for the rest.
    """
    at: dict[str, Any] = {"cursor": cursor} if cursor else {}
    while True:
        page = await by_now(client, SessionPage, "session/list", limit=PAGE_SESSIONS, **at)
        if page.looking is None or len(page.sessions) == PAGE_SESSIONS:
            break
    shown: list[types.Resource] = []
    for info in page.sessions:
        facts = session_facts(info)
        count = counted(info.message_count or 0, "message", has_more=bool(info.partial))
        about = [facts["agent"], facts["cwd"], count]
        shown.append(
            types.Resource(
                uri=format_uri(Address(info.id)),
                name=info.id,
                title=facts["title"] or info.id,
                description=", ".join(word for word in about if word),
                mime_type=_MARKDOWN,
                annotations=types.Annotations(last_modified=info.updated_at),
            )
        )
    return types.ListResourcesResult(resources=shown, next_cursor=page.next_cursor)


async def read_resource(client: Client, uri: str, **options: Any) -> types.ReadResourceResult:
    """Return the text of a resource. Raise BadUri, SessiondClientError."""
    address = parse_uri(uri)
    await client.open(session_id=address.session_id, **options)
    text = await _READERS[address.part](client, address)
    mime = _JSON if address.part else _MARKDOWN
    if address.part == "entry":
        mime = "text/plain"  # A part of JSON is no JSON.
    contents = types.TextResourceContents(uri=uri, mime_type=mime, text=text)
    return types.ReadResourceResult(contents=[contents])


async def _session(client: Client, address: Address) -> str:
    page = await page_of_path(client, address.session_id, address.at or None)
    parts = [describe(entry) for entry in page.entries]
    if page.older:
        older = format_uri(Address(address.session_id, at=page.older))
        parts.insert(0, f"Older entries: {older}")
    return "\n\n".join(parts)


async def _entries(client: Client, address: Address) -> str:
    page = await page_of_entries(client, address.session_id, address.number)
    older = page.older and format_uri(Address(address.session_id, "entries", at=page.older))
    return json.dumps({"entries": page.entries, "older": older}, ensure_ascii=False)


async def _entry(client: Client, address: Address) -> str:
    stored = await client.entry(address.session_id, address.entry_id)
    whole = bytes(stored.raw).decode()
    text, more = cut(whole, PAGE_CHARS, address.number)
    if more is None:
        return text
    uri = format_uri(Address(address.session_id, "entry", address.entry_id, str(more)))
    return f"{text}\n[cut at {more} of {len(whole)} characters; next part: {uri}]"


async def _of_tool(client: Client, address: Address, name: str) -> str:
    given = {"session_id": address.session_id} | ({"cursor": address.at} if address.at else {})
    return json.dumps(await ask(client, name, given), ensure_ascii=False)


async def _context(client: Client, address: Address) -> str:
    return await _of_tool(client, address, "session_context")


async def _tree(client: Client, address: Address) -> str:
    return await _of_tool(client, address, "session_tree")


_READERS: Final = {
    "": _session,
    "context": _context,
    "tree": _tree,
    "entries": _entries,
    "entry": _entry,
}
