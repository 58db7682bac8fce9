"""Notices of what other daemons have changed in a database: one query for all open sessions."""

from __future__ import annotations

from contextlib import suppress

import anyio
from anyio import to_thread

from sessiond.errors import StorageError
from sessiond.service.database.database import SessionDatabase
from sessiond.service.database.log import DatabaseLog
from sessiond.service.external.watcher import Changed, Watch

__all__ = ["DatabaseWatches"]


class _Watched:
    """Watch of one session."""

    looks = False

    def __init__(self, log: DatabaseLog, changed: Changed, watched: dict[_Watched, None]) -> None:
        self.log = log
        self.changed = changed
        self._watched = watched

    def end(self) -> None:
        self._watched.pop(self, None)


class DatabaseWatches:
    """The open sessions of one database, asked for together; rests while there is none."""

    def __init__(self, database: SessionDatabase, seconds: float) -> None:
        self._database = database
        self._seconds = seconds
        self._watched: dict[_Watched, None] = {}
        self._wanted = anyio.Event()

    def watch(self, log: DatabaseLog, changed: Changed) -> Watch:
        """Call `changed` after each change of a session by another writer."""
        watch = _Watched(log, changed, self._watched)
        self._watched[watch] = None
        self._wanted.set()
        return watch

    async def run(self) -> None:
        """Ask for changes until cancelled."""
        while True:
            await self._wanted.wait()
            while self._watched:
                # While the database is away, appends and reads say so.
                with suppress(StorageError):
                    await self._look()
                await anyio.sleep(self._seconds)
            self._wanted = anyio.Event()

    async def _look(self) -> None:
        numbers = sorted({watch.log.head.number for watch in self._watched})
        found = await to_thread.run_sync(self._database.heads, numbers)
        heads = {head.number: head for head in found}
        for watch in list(self._watched):
            head = heads.get(watch.log.head.number)
            if head is not None and watch.log.notice(head):
                watch.changed(False)  # noqa: FBT003 - a session keeps its number
