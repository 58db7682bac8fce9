"""Pages of a session: text of bounded size, with the place where to read on.

The size of a page is counted in characters; long messages are cut with a note.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from sessiond_client import Client, RpcError

PAGE_CHARS: Final = 64 * 1024
ENTRY_CHARS: Final = 16 * 1024
PAGE_ENTRIES: Final = 50


class Page(NamedTuple):
    """Entries, oldest first, and the place of the page before; None at the start."""

    entries: list[dict[str, Any]]
    older: str | None


def cut(text: str, limit: int, offset: int = 0) -> tuple[str, int | None]:
    """Return the part of a text at an offset, and the offset of the next part."""
    end = offset + limit
    return text[offset:end], end if end < len(text) else None


def describe(entry: Mapping[str, Any]) -> str:
    """Return the readable text of an entry, at most `ENTRY_CHARS` long, with a note if cut."""
    body = entry.get("message")
    message: Mapping[str, Any] = (
        cast("Mapping[str, Any]", body) if isinstance(body, Mapping) else {}
    )
    text = _text(message["content"] if "content" in message else entry.get("summary"))
    if not text:
        known = {"id", "parent_id", "timestamp", "type"}
        text = json.dumps({k: v for k, v in entry.items() if k not in known}, ensure_ascii=False)
    part, more = cut(text, ENTRY_CHARS)
    if more is not None:
        part += f"\n[cut at {more} of {len(text)} characters; read_entry has the whole entry]"
    return f"### {message.get('role', entry.get('type', 'entry'))} ({entry.get('id', '-')})\n{part}"


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    words: list[str] = []
    for block in cast("list[object]", content):
        if isinstance(block, Mapping):
            named = cast("Mapping[str, Any]", block)
            text = named.get("text") or named.get("thinking")
            words.append(text if isinstance(text, str) else json.dumps(block, ensure_ascii=False))
    return "\n".join(words)


async def page_of_path(client: Client, session_id: str, upto: str | None) -> Page:
    """Return the part of a branch that ends with the entry `upto`, or at the head `main`."""
    options: dict[str, Any] = {"entry_id": upto} if upto else {}

    async def ask(limit: int) -> list[Any]:
        page = await client.path(session_id, from_end=True, limit=limit, **options)
        return page.entries

    rows = await _ask_for_less(ask)
    kept = newest_that_fit(rows, lambda row: min(len(row.raw), ENTRY_CHARS))
    older: str | None = None
    if len(kept) < len(rows):
        older = rows[len(rows) - len(kept) - 1].entry["id"]
    elif kept:
        resolved = kept[0].resolved_parent_id
        parent = kept[0].entry.get("parent_id")
        older = resolved if isinstance(resolved, str) or resolved is None else parent
    return Page([row.entry for row in kept], older)


async def page_of_entries(client: Client, session_id: str, before: int) -> Page:
    """Return the newest entries of the log, all branches; before a seq, if that is not 0."""
    options: dict[str, Any] = {"before_seq": before} if before else {}
    if not before:
        info = await client.get(session_id)
        options = {"before_seq": (info.seq or 0) + 1}

    async def ask(limit: int) -> list[Any]:
        page = await client.entries(session_id, limit=limit, **options)
        return sorted(page.entries, key=lambda row: row.seq)

    rows = await _ask_for_less(ask)
    kept = newest_that_fit(rows, lambda row: min(len(row.raw), ENTRY_CHARS))
    shown = [{"seq": row.seq, "text": describe(row.entry)} for row in kept]
    return Page(shown, str(kept[0].seq) if kept and kept[0].seq > 1 else None)


async def _ask_for_less(ask: Callable[[int], Any]) -> list[Any]:
    """Return a page; of one entry if the answer would be too large."""
    try:
        found: list[Any] = await ask(PAGE_ENTRIES)
    except RpcError as error:
        if error.kind != "too_large":
            raise
        found = await ask(1)
    return found


def newest_that_fit(rows: Sequence[Any], size: Callable[[Any], int]) -> list[Any]:
    """Return the last rows that fit into a page, at least one."""
    taken, total = 0, 0
    for row in reversed(rows):
        total += size(row)
        if taken and total > PAGE_CHARS:
            break
        taken += 1
    return list(rows[len(rows) - taken :])
