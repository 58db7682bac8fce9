"""Retention: unused sessions whose files are old go to the trash.

Rule 1: only sessions of this profile that have their place, never an archived session, never one
that is open for a client, at this daemon or at another one.
Rule 2: the age is that of the file, by the disk's clock. Times in entries decide nothing here,
since a client may have sent any. Right before a file goes, its time is checked again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from anyio import to_thread
from msgspec import Raw, Struct

from sessiond import typed
from sessiond.catalog.query import Position
from sessiond.errors import SessiondError, SessionNotFound, StorageError
from sessiond.limits import PAGE_ROWS_DEFAULT, PAGE_ROWS_MAX
from sessiond.service.log.open_session import OpenSession
from sessiond.service.ports import Asker
from sessiond.service.service import Service
from sessiond.service.store.session_store import SessionStore

_HOUR_SECONDS: Final = 3600.0
_SECOND_NS: Final = 1_000_000_000


class Failed(Struct, frozen=True):
    """Session that should have gone but could not be moved, and why."""

    session_id: str
    kind: str
    message: str


class Retention(Struct, frozen=True):
    """Sessions that went to the trash, or would go; at most PAGE_ROWS_MAX in one run."""

    sessions: list[Raw]
    failed: list[Failed]
    dry_run: bool


class _Old(Struct, frozen=True):
    """List row of a session that is due, or may be, and when the session was written."""

    info: Raw
    written_ns: int
    failure: StorageError | None = None
    """Error that kept the time from being read; None if the time is known."""

    def require_age(self) -> None:
        """Raise StorageError if the session may be young."""
        if self.failure is not None:
            raise self.failure


class _Named(Struct):
    id: str


def _id_in(info: bytes) -> str:
    return typed.decode(info, _Named).id


async def retain(
    service: Service, max_age_hours: float, *, dry_run: bool, asker: Asker
) -> Retention:
    """Move older sessions to the trash, or only list them. Raise Draining, StorageError."""
    done = Retention([], [], dry_run)
    before = await to_thread.run_sync(service.store.now) - max_age_hours * _HOUR_SECONDS
    if before <= 0:
        return done
    before_ns = int(before * _SECOND_NS)
    # A run asks again at each session, in the step that takes the session.
    spared = await to_thread.run_sync(service.store.open_elsewhere) if dry_run else ()
    old = await _older(service, before_ns, spared, asker)
    for count, one in enumerate(old):
        asker.progress.report(count, len(old), "sessions")
        info, session_id = one.info, _id_in(one.info)
        try:
            if dry_run:
                one.require_age()
            if dry_run or await _discard(service, session_id, before_ns):
                done.sessions.append(info)
        except SessionNotFound:
            # The session was deleted meanwhile.
            continue
        except SessiondError as error:
            done.failed.append(Failed(session_id, error.kind, error.message))
    return done


async def _older(
    service: Service, before_ns: int, spared: Collection[str], asker: Asker
) -> list[_Old]:
    """Return the sessions that are due, or may be, the oldest first."""
    query = service.store.older(before_ns)
    found: list[_Old] = []
    after: Position | None = None
    while len(found) < PAGE_ROWS_MAX:
        page = await service.live_catalog.select(query, PAGE_ROWS_DEFAULT, after, asker)
        unused = [
            info
            for info in page.sessions
            if _unused(service, session_id := _id_in(info)) and session_id not in spared
        ]
        found += await to_thread.run_sync(_due, service.store, unused, before_ns)
        after = page.last
        if after is None:
            break
    found.sort(key=_age)
    return found[:PAGE_ROWS_MAX]


def _age(old: _Old) -> tuple[int, bytes]:
    return old.written_ns, bytes(old.info)


def _due(store: SessionStore, infos: Sequence[bytes], before_ns: int) -> list[_Old]:
    """Return the sessions whose files are old, with the files' times.

    The catalog does not know the time of a file that was written a moment ago. A file that cannot be
    examined now may be due: the answer reports why it stays.
    """
    found: list[_Old] = []
    for info in infos:
        try:
            written_ns = store.written_at(_id_in(info))
        except SessionNotFound:
            continue
        except StorageError as error:
            found.append(_Old(Raw(info), 0, error.with_traceback(None)))
            continue
        if written_ns < before_ns:
            found.append(_Old(Raw(info), written_ns))
    return found


def _unused(service: Service, session_id: str) -> bool:
    actor = service.find(session_id)
    return actor is None or actor.can_unload


async def _discard(service: Service, session_id: str, before_ns: int) -> bool:
    """Return whether the session went; a session in use, or written to by now, stays."""
    if not _unused(service, session_id):
        return False

    def discard(opened: OpenSession | None) -> bool:
        return service.store.discard_unused(session_id, opened, before_ns)

    went: bool = await service.registry.retire(session_id, "deleted", discard).outcome()
    return went
