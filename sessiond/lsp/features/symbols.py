"""Workspace symbols: a search over all sessions, each hit at its line.

Law: a hit in a file that the editor has open is placed by the editor's text, and a hit that the text
does not have is left out; while no daemon reads the text, the stored lines count. An empty query lists the
latest sessions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from anyio import CapacityLimiter, create_task_group, to_thread
from lsprotocol import types
from msgspec import Struct

from sessiond.limits import SEARCH_QUERY_CHARS_MAX, WORKSPACE_SYMBOLS_MAX
from sessiond.lsp.features.desk import Desk, Refusal
from sessiond.lsp.outline import one_line
from sessiond.lsp.places import line_shift
from sessiond_client import Client, SessiondClientError
from sessiond_client.errors import Unanswered
from sessiond_client.results import Hit, SessionInfo

OPTIONS: Final = types.WorkspaceSymbolOptions(work_done_progress=True)
_LOOKS_AT_ONCE: Final = 8


class Found(Struct, frozen=True):
    """A session file with hits."""

    path: Path
    title: str
    shift: int | None
    """Number to add to a `seq` for the line; None where lines cannot be counted."""


async def answer(
    desk: Desk, params: types.WorkspaceSymbolParams
) -> list[types.SymbolInformation] | None:
    """Return the entries that a query finds. Raises Refusal and Cancelled."""
    query = params.query.strip()[:SEARCH_QUERY_CHARS_MAX]

    async def search(client: Client) -> tuple[list[Hit], dict[str, SessionInfo]]:
        async with desk.window.work("searching", params.work_done_token) as work:
            if not query:
                listed = await client.list(limit=WORKSPACE_SYMBOLS_MAX, on_progress=work.report)
                sessions = {one.id: one for one in listed.sessions}
                return [Hit(session_id, None, 0, "") for session_id in sessions], sessions
            hits = await client.search(query, limit=WORKSPACE_SYMBOLS_MAX, on_progress=work.report)
            return hits, await _sessions(client, hits)

    try:
        found = await desk.editor.ask(search)
    except SessiondClientError as error:
        raise Refusal(f"the search failed: {error}; try again") from error
    if found is None:
        return None
    hits, sessions = found
    return await _placed(desk, hits, await to_thread.run_sync(_files, sessions))


def symbol(hit: Hit, found: Found, uri: str, line: int) -> types.SymbolInformation:
    """Return a hit as an editor lists it: the words around, and the session's title beside."""
    at = types.Position(line, 0)
    is_entry = hit.entry_id is not None
    name = one_line(hit.snippet) if is_entry else found.title
    return types.SymbolInformation(
        name=name or found.title,
        kind=types.SymbolKind.String if is_entry else types.SymbolKind.File,
        location=types.Location(uri, types.Range(at, at)),
        container_name=found.title if is_entry else found.path.name,
    )


async def _sessions(client: Client, hits: Sequence[Hit]) -> dict[str, SessionInfo]:
    """Return the sessions with hits; one that is gone meanwhile is left out. Raises Unanswered."""
    found: dict[str, SessionInfo] = {}
    lost: list[Unanswered] = []
    limiter = CapacityLimiter(_LOOKS_AT_ONCE)

    async def look(session_id: str) -> None:
        async with limiter:
            try:
                found[session_id] = await client.resolve(session_id)
            except Unanswered as error:
                lost.append(error)
            except SessiondClientError:
                return

    async with create_task_group() as tasks:
        for session_id in dict.fromkeys(hit.session_id for hit in hits):
            tasks.start_soon(look, session_id)
    if lost:
        raise lost[0]
    return found


def _files(sessions: Mapping[str, SessionInfo]) -> dict[str, Found]:
    """Return the files of sessions; a session in memory or in a database has none."""
    found: dict[str, Found] = {}
    for session_id, info in sessions.items():
        path = Path(info.path or "")
        if info.path and path.is_file():
            title = one_line(info.title or info.first_message or "") or session_id
            found[session_id] = Found(path, title, line_shift(msgspec.structs.asdict(info)))
    return found


async def _placed(
    desk: Desk, hits: Sequence[Hit], files: Mapping[str, Found]
) -> list[types.SymbolInformation]:
    symbols: list[types.SymbolInformation] = []
    for hit in hits:
        found = files.get(hit.session_id)
        if found is None:
            continue
        document = desk.editor.document_of(found.path)
        uri = found.path.as_uri() if document is None else document.uri
        line = 0
        view = None if hit.entry_id is None or document is None else await desk.view(uri)
        if hit.entry_id is not None and view is not None:
            placed = view.places.line_of(hit.entry_id)
            if placed is None:
                continue
            line = placed
        elif hit.entry_id is not None and found.shift is not None:
            line = max(0, hit.seq + found.shift)
        symbols.append(symbol(hit, found, uri, line))
    return symbols
