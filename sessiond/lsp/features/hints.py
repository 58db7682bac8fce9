"""Inlay hints: the tokens and the label of each entry, at the beginning of its line.

Law: pure but for `answer`, which fetches the entries of the visible lines, and no more. The end of a
line is no place for a hint, since a line of a session is longer than any screen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, cast

import msgspec
from lsprotocol import types

from sessiond.limits import HINT_ENTRIES_MAX, HINTS_KEPT_MAX
from sessiond.lsp.features.desk import Desk, View
from sessiond.lsp.hovering import usage
from sessiond.lsp.outline import one_line
from sessiond.lsp.places import Row
from sessiond.scripts import QUARTERS_PER_TOKEN, quarters
from sessiond.visible import counted
from sessiond_client import SessiondClientError

_IMAGE_TOKENS: Final = 1_200
_IMAGES: Final = ("image", "image_url")
_PAGES_MAX: Final = 4
_TEXTS: Final = ("text", "thinking", "content", "summary")


async def answer(desk: Desk, params: types.InlayHintParams) -> list[types.InlayHint] | None:
    """Return the hints of a range of lines."""
    view = await desk.view(params.text_document.uri)
    if view is None:
        return None
    first, last = params.range.start.line, params.range.end.line
    rows = [row for row in view.places.rows if first <= row.line <= last][:HINT_ENTRIES_MAX]
    known = desk.figures(view)
    with suppress(SessiondClientError):
        await _fetch(view, rows, known)
    return list(hints(rows, known))


def hints(rows: Iterable[Row], known: Mapping[int, str]) -> Iterator[types.InlayHint]:
    """Yield a hint for each entry with a label or with tokens; `known` has these by seq."""
    for line, node in rows:
        said = known.get(node.seq or 0, "")
        label = f"#{one_line(node.label)}" if node.label else ""
        shown = "  ".join(part for part in (said, label) if part)
        if shown:
            yield types.InlayHint(types.Position(line, 0), shown, padding_right=True)


def tokens(entry: Mapping[str, Any]) -> str:
    """Return the tokens of an entry: those that the entry states, or else an estimate."""
    match usage(entry):
        case {"input": given, "output": said}:
            return f"{given:,} in, {said:,} out"
        case {"total": total}:
            return counted(total, "token")
        case {"before": before, "after": after}:
            return f"{counted(before, 'token')} before, {after:,} after"
        case {"before": before}:
            return f"{counted(before, 'token')} before"
        case _:
            count = estimate(entry.get("message", entry))
            return f"about {counted(count, 'token')}" if count else ""


def estimate(message: Any) -> int:
    """Return the tokens of a message as protocol.md estimates them, without a session's settings."""
    if not isinstance(message, Mapping):
        return 0
    said, images = 0, 0
    waiting: list[object] = [message]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            said += quarters(part)
        elif isinstance(part, list):
            waiting += cast("list[object]", part)
        elif isinstance(part, Mapping):
            block = cast("Mapping[str, object]", part)
            if block.get("type") in _IMAGES:
                images += 1
            else:
                waiting += _said(block)
    return -(-said // QUARTERS_PER_TOKEN) + _IMAGE_TOKENS * images


def _said(block: Mapping[str, object]) -> list[object]:
    """Return the texts of a message or of one of its blocks."""
    found = [block[name] for name in (*_TEXTS, "contents") if name in block]
    given = next((block[name] for name in ("arguments", "input") if name in block), None)
    if given is not None and "name" in block:
        written = given if isinstance(given, str) else msgspec.json.encode(given).decode()
        found += [block["name"], written]
    return found


async def _fetch(view: View, rows: Sequence[Row], known: dict[int, str]) -> None:
    """Add the tokens of rows that are not known yet. Raises SessiondClientError."""
    wanted: set[int] = {row.node.seq or 0 for row in rows} - known.keys()
    for _ in range(_PAGES_MAX):
        if not wanted:
            return
        first, last = min(wanted), max(wanted)
        count = min(last - first + 1, HINT_ENTRIES_MAX)
        page = await view.client.entries(view.session_id, after_seq=first - 1, limit=count)
        if len(known) > HINTS_KEPT_MAX:
            known.clear()
        for stored in page.entries:
            known[stored.seq] = tokens(stored.entry)
        reached = page.next_seq
        wanted = {seq for seq in wanted if reached is not None and seq > reached}
