"""session/trash: return the deleted sessions, which session/restore brings back."""

from __future__ import annotations

from typing import Any

from anyio import to_thread
from msgspec import Struct

from sessiond.catalog.finding import Kept, find_kept
from sessiond.errors import SessiondError
from sessiond.journal.disk.failures import printable, telling
from sessiond.journal.trash.restoring import Trashed
from sessiond.methods._shared.common import DEFERRED, Call, Client, Method, Params, page_limit
from sessiond.service.files.store import Store

__all__ = ["METHOD"]


class TrashParams(Params):
    """Page of the trash."""

    limit: int | None = None
    cursor: str | None = None


class TrashedSession(Struct, frozen=True):
    """Session in the trash. `origin` is where a restore puts its file; null if unknown."""

    session_id: str
    title: str | None
    cwd: str | None
    path: str
    origin: str | None
    bytes: int


class TrashResult(Struct, frozen=True):
    """Page of deleted sessions, those created last first."""

    sessions: list[TrashedSession]
    next_cursor: str | None


def handle(client: Client, params: TrashParams, call: Call[Client]) -> Any:
    """Read the folder in a worker thread."""
    limit = page_limit(params.limit)
    store = client.service.store
    client.service.work(call, lambda: to_thread.run_sync(_page, store, limit, params.cursor or ""))
    return DEFERRED


def _page(store: Store, limit: int, cursor: str) -> TrashResult:
    found = store.session_files.restoring.all()
    names = [one.path.name for one in found]
    first = names.index(cursor) + 1 if cursor in names else 0
    shown = [_shown(store, one) for one in found[first : first + limit]]
    more = first + limit < len(found)
    return TrashResult(shown, names[first + limit - 1] if more else None)


def _shown(store: Store, one: Trashed) -> TrashedSession:
    with telling("look at", one.path):
        stat = store.files.lstat(one.path)
    kept = store.catalog.ask(lambda connection: find_kept(connection, one.session_id))
    if kept is None:
        kept = _read(store, one)
    return TrashedSession(
        one.session_id,
        title=kept.title,
        cwd=kept.cwd,
        path=printable(one.path),
        origin=None if one.origin is None else printable(one.origin),
        bytes=stat.st_size,
    )


def _read(store: Store, one: Trashed) -> Kept:
    """Return the title and cwd of the header, or None for both without a readable header."""
    try:
        header = store.rows.header(one.path)
    except SessiondError:
        return Kept(None, None)
    return Kept(header.title, header.cwd)


METHOD = Method(
    name="session/trash", params=TrashParams, result=TrashResult, handle=handle, access="read"
)
