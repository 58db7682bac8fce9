"""The items of a head: read from its leaf towards the root, no further than wanted."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, Final

from msgspec import Struct

from sessiond_client.aio import Client
from sessiond_client.openai_agents.foreign import summary_item
from sessiond_client.openai_agents.items import items_of, message_items

__all__ = ["Step", "newest_first"]

PAGE: Final = 200
_TOLD: Final = "The conversation history before this point was compacted into this summary:"


class Step(Struct, frozen=True):
    """An entry of the path, with its items and the entry before it.

    `is_compacted` tells that a compaction further down the path shows the items: what is appended
    below `parent_id` would leave that compaction out.
    """

    entry: dict[str, Any]
    items: list[Any]
    parent_id: str | None
    is_compacted: bool = False


async def newest_first(
    client: Client, session_id: str, head: str, wanted: int | None = None
) -> AsyncGenerator[Step, None]:
    """Yield the entries that a model sees at a head, the newest first.

    The path ends at its last compaction: with the messages that replaced the context, or, behind
    the entries that the compaction kept, with its summary. The first step is always the leaf.
    """
    kept_from: str | None = None
    summary: Step | None = None
    async for entry, parent_id in _path(client, session_id, head, wanted):
        if summary is not None:
            if entry["type"] != "compaction":
                yield Step(entry, items_of(entry), parent_id, is_compacted=True)
            if entry["id"] == kept_from:
                break
        elif entry["type"] != "compaction":
            yield Step(entry, items_of(entry), parent_id)
        elif isinstance(entry.get("messages"), list):
            replaced = [item for each in entry["messages"] for item in message_items(each)]
            yield Step(entry, replaced, parent_id, is_compacted=True)
            return
        else:
            yield Step(entry, [], parent_id, is_compacted=True)
            told = [summary_item(_TOLD, str(entry.get("summary", "")))]
            summary = Step(entry, told, parent_id, is_compacted=True)
            kept_from = entry.get("first_kept_entry_id")
            if kept_from is None:
                break
    if summary is not None:
        yield summary


async def _path(
    client: Client, session_id: str, head: str, wanted: int | None
) -> AsyncIterator[tuple[dict[str, Any], str | None]]:
    """Yield each entry of a path with its parent on the path, the leaf first."""
    limit = PAGE if wanted is None else max(2, min(PAGE, wanted + 1))
    later: dict[str, Any] | None = None
    page = await client.path(session_id, head=head, from_end=True, limit=limit)
    while True:
        for row in reversed(page.entries):
            if later is not None:
                yield later, row.entry["id"]
            later = row.entry
        if page.next_cursor is None:
            break
        page = await client.path(
            session_id, head=head, from_end=True, limit=PAGE, cursor=page.next_cursor
        )
    if later is not None:
        yield later, None
