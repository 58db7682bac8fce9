"""Old sessions into the trash: those that nobody has changed for a while and nobody uses.

Law: only sessions of this profile that have their place, never an archived one,
never one that is open for somebody, and none that was written to since the look.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct

from sessiond.catalog.query import Position, Query
from sessiond.errors import SessiondError, SessionNotFound
from sessiond.limits import PAGE_ROWS_DEFAULT, PAGE_ROWS_MAX
from sessiond.model.times import rfc3339, unix_ms
from sessiond.service.opened import Opened
from sessiond.service.ports import Progress
from sessiond.service.service import Service

__all__ = ["Failed", "Retention", "retain"]

_HOUR_MS = 3_600_000


class Failed(Struct, frozen=True):
    """A session that should have gone and is still there, and why."""

    session_id: str
    kind: str
    message: str


class Retention(Struct, frozen=True):
    """The sessions that went to the trash, or would; at most PAGE_ROWS_MAX in one run."""

    sessions: list[Raw]
    failed: list[Failed]
    dry_run: bool


class _Named(Struct):
    id: str


_named = msgspec.json.Decoder(_Named)


async def retain(
    service: Service, max_age_hours: float, *, dry_run: bool, progress: Progress
) -> Retention:
    """Move what is older to the trash, or only say what that would be. Raises Draining, StorageError."""
    now = unix_ms(service.environment.now())
    assert now is not None, "the clock tells the time"
    before = rfc3339((now - max_age_hours * _HOUR_MS) / 1000)
    if max_age_hours * _HOUR_MS >= now or not before:
        return Retention([], [], dry_run)
    done = Retention([], [], dry_run)
    began = service.store.keeping.now()
    old = await _older(service, before, progress)
    for count, info in enumerate(old):
        progress.report(count, len(old), "sessions")
        session_id = _named.decode(info).id
        try:
            if dry_run or await _discard(service, session_id, began):
                done.sessions.append(info)
        except SessionNotFound:
            # Somebody deleted it meanwhile.
            continue
        except SessiondError as error:
            done.failed.append(Failed(session_id, error.kind, error.message))
    return done


async def _older(service: Service, before: str, progress: Progress) -> list[Raw]:
    """What lists show of the sessions that are due, the oldest first."""
    folder = service.store.keeping.folder
    query = Query(updated_before=before, root=str(folder), descending=False)
    found: list[Raw] = []
    after: Position | None = None
    while len(found) < PAGE_ROWS_MAX:
        page = await service.roster.select(query, PAGE_ROWS_DEFAULT, after, progress)
        found += [Raw(info) for info in page.sessions if _unused(service, _named.decode(info).id)]
        after = page.last
        if after is None:
            break
    return found[:PAGE_ROWS_MAX]


def _unused(service: Service, session_id: str) -> bool:
    host = service.find(session_id)
    return host is None or host.can_unload


async def _discard(service: Service, session_id: str, began: float) -> bool:
    """Whether it went; not if it is used, or was written to, by now."""
    if not _unused(service, session_id):
        return False
    keeping = service.store.keeping

    def discard(opened: Opened | None) -> bool:
        if keeping.written_since(session_id, began):
            return False
        keeping.discard(session_id, opened)
        return True

    went: bool = await service.hosts.retire(session_id, "deleted", discard).outcome()
    return went
