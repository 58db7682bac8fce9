"""Notices of what other daemons have changed in a database: one query for all open sessions."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Any, TypeVar

import anyio
from msgspec import Struct

from sessiond.errors import StorageError, as_outage
from sessiond.limits import CONTENDED_SECONDS, DOORBELL_SECONDS
from sessiond.service.database.database import OF_DOCUMENTS, SessionDatabase
from sessiond.service.database.leases import DatabaseLeases
from sessiond.service.database.log import DatabaseLog
from sessiond.service.database.open_notes import OpenNotes
from sessiond.service.database.silence import Silence
from sessiond.service.external.watcher import Changed, Watch
from sessiond.service.thread_pool import ThreadPool

T = TypeVar("T")


class _Watched:
    """Watch of one session."""

    looks = False

    def __init__(
        self,
        log: DatabaseLog,
        leases: DatabaseLeases,
        changed: Changed,
        watched: dict[_Watched, None],
    ) -> None:
        self.log = log
        self.leases = leases
        self.changed = changed
        self._watched = watched

    def end(self) -> None:
        self._watched.pop(self, None)


class _Interest(Struct, frozen=True):
    """Interest of connections in more than open sessions: in documents of one kind, or in lists."""

    is_watched: Callable[[], bool]
    changed: Callable[[], None]

    def tell(self) -> None:
        """Call `changed` if a connection watches."""
        if self.is_watched():
            self.changed()


class DatabaseWatches:
    """The open sessions of one database, asked for together; rests while nothing is watched.

    While connections of this daemon hold leases or are present, each poll shows other daemons that it is there; while
    it has sessions open, a note every OPEN_NOTE_SECONDS says which.
    """

    def __init__(
        self,
        database: SessionDatabase,
        daemon: str,
        seconds: float,
        silence: Silence,
        report: Callable[[str], None],
    ) -> None:
        """Ask each `seconds`; tell people by `report` if the database is away, or only polls bring changes."""
        self._database = database
        self._daemon = daemon
        self._seconds = seconds
        self._silence = silence
        self._report = report
        self._hears = True
        self._is_away = False
        """True if people were told that the database is away."""
        self._watched: dict[_Watched, None] = {}
        self._documents: list[_Interest] = []
        self._lists: list[_Interest] = []
        self.notes = OpenNotes(database, daemon, self.logs)
        self._contended: frozenset[int] = frozenset()
        """Sessions that were rung for while this daemon appended to them in turn with other daemons."""
        self._wanted = anyio.Event()
        # The waits for rings, and the polls and beats, take no thread of other work, and wait for none.
        self._ears = ThreadPool(1)
        self._hands = ThreadPool(1)

    def watch(self, log: DatabaseLog, leases: DatabaseLeases, changed: Changed) -> Watch:
        """Call `changed` after each change of a session by another writer."""
        watch = _Watched(log, leases, changed, self._watched)
        self._watched[watch] = None
        self.notes.opened(log.head.number)
        self._wanted.set()
        return watch

    def logs(self) -> dict[int, DatabaseLog]:
        """Return the logs of the open sessions by number. Safe in any thread."""
        return {watch.log.head.number: watch.log for watch in list(self._watched)}

    def watch_documents(self, is_watched: Callable[[], bool], changed: Callable[[], None]) -> None:
        """Call `changed` when documents may have changed, for as long as `is_watched` is true."""
        self._documents.append(_Interest(is_watched, changed))

    def watch_lists(self, is_watched: Callable[[], bool], changed: Callable[[], None]) -> None:
        """Call `changed` when sessions may have changed that are not open here; else as for documents."""
        self._lists.append(_Interest(is_watched, changed))

    def wake(self) -> None:
        """Look again whether anything is watched."""
        self._wanted.set()

    @property
    def _is_wanted(self) -> bool:
        if self._watched:
            return True
        return any(one.is_watched() for one in (*self._documents, *self._lists))

    async def run(self) -> None:
        """Ask for changes until cancelled."""
        try:
            await self._ask_for_changes()
        finally:
            self._ears.end()
            self._hands.end()

    async def _ask_for_changes(self) -> None:
        while True:
            await self._wanted.wait()
            while self._is_wanted:
                try:
                    with as_outage():
                        await self._look(None)
                        await self._listen()
                        self._tell_of_outage(None)
                        await self._rest()
                except StorageError as error:
                    self._tell_of_outage(error)
                    self._silence.outage()
                    await anyio.sleep(self._seconds)
            # Before the note: a session may be opened while the note is written.
            self._wanted = anyio.Event()
            with suppress(StorageError), as_outage():
                await self._ears.finish(self._database.stop_listening)
                if not self.notes.is_empty:
                    await self._ask(self.notes.write)

    async def _rest(self) -> None:
        """Look at what other daemons ring for, until the next poll."""
        until = monotonic() + self._seconds
        self._tell_whether_rings_come()
        while self._is_wanted and (left := until - monotonic()) > 0:
            wait = min(left, CONTENDED_SECONDS) if self._contended else left
            began = monotonic()
            try:
                rung = await self._ears.finish(partial(self._database.wait, wait), abandon=True)
            except StorageError:
                # The poll goes on without rings.
                await anyio.sleep(left)
                return
            if rung is None and monotonic() - began < wait:
                # A ring for all sessions, or a beginning behind rings that were not heard: the poll is due.
                return
            due = self._due(frozenset() if rung is None else rung)
            if due:
                await self._look(due)
            if rung is not None:
                # The rings of a while are heard together, however many daemons ring.
                await anyio.sleep(DOORBELL_SECONDS)

    def _due(self, rung: frozenset[int]) -> frozenset[int]:
        """Return the sessions to look at now.

        A session that is contended is left for later: each append to the session looks at the row.
        """
        rung |= self._contended
        contended = {one.log.head.number for one in self._watched if one.log.is_contended}
        self._contended = rung & contended
        return rung - contended

    def _tell_of_outage(self, error: StorageError | None) -> None:
        """Tell people of the first poll that fails, and of the next one that does not."""
        was_away, self._is_away = self._is_away, error is not None
        if error is not None and not was_away:
            self._report(f"{error.message}; this daemon tries again each {self._seconds:g} s")
        elif was_away and error is None:
            self._report(f"{self._database.name} answers again")

    def _tell_whether_rings_come(self) -> None:
        before, self._hears = self._hears, self._database.notifications
        if before and not self._hears:
            self._report(
                f"notifications of {self._database.name} do not come through, so changes by other"
                f" daemons are seen every {self._seconds:g} s: name the server itself as the store, raise"
                " its max_connections, or end the transaction that keeps its queue of notifications full"
                " (see `sessiond doctor`)"
            )

    async def _look(self, rung: frozenset[int] | None) -> None:
        """Look at these sessions, or at all of them; none is looked at without a client here."""
        if rung is None or OF_DOCUMENTS in rung:
            for one in self._documents:
                one.tell()
        watched = {watch.log.head.number for watch in self._watched}
        if rung is None or rung - watched - {OF_DOCUMENTS}:
            # The actors of open sessions tell what changes in these.
            for one in self._lists:
                one.tell()
        numbers = sorted(watched if rung is None else watched & rung)
        if not numbers:
            return
        found = await self._ask(self._database.heads, numbers)
        heads = {head.number: head for head in found}
        for watch in list(self._watched):
            head = heads.get(watch.log.head.number)
            if head is not None and watch.log.notice(head):
                watch.changed(False)  # noqa: FBT003 - a session keeps its number

    async def _ask(self, method: Callable[..., T], *arguments: Any) -> T:
        """Call a method of the database in the thread of this object."""
        return await self._hands.finish(partial(method, *arguments))

    def _clean(self) -> None:
        """Remove old signals, and rows of senders that have ended. A failure is not told."""
        with suppress(StorageError):
            self._database.company.clean()

    async def _listen(self) -> None:
        """Show that this daemon is there, and find out which other ones are."""
        logs = [watch.log for watch in self._watched]
        companies = [log.company for log in logs if log.company is not None]
        present = {name for company in companies for name in company.daemons}
        holders = {name for watch in self._watched for name in watch.leases.holders} | present
        if any(company.is_present for company in companies):
            holders.add(self._daemon)
        is_due = self.notes.is_due
        if self._daemon in holders or is_due:
            await self._ask(self.notes.write)
        if is_due:
            await self._ask(self._clean)
        others = holders - {self._daemon}
        if not others:
            return
        beats = await self._ask(self._database.beats)
        ended = self._silence.hear(beats, others)
        if dead := present & self._silence.ended:
            await self._ask(self._database.company.end_of_daemons, sorted(dead))
        if ended:
            await self._ask(self._database.forget_daemons, sorted(ended))
        for watch in list(self._watched):
            company = watch.log.company
            if watch.leases.is_stale or (company is not None and company.is_stale):
                watch.changed(False)  # noqa: FBT003 - a session keeps its number
