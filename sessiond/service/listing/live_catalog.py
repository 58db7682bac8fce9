"""Live catalog: what lists show, kept current off the append path.

Rule 1: an append costs the live catalog one entry in a set. About a second after the first change,
one worker thread stores all changes in one transaction; nothing wakes up while nothing changes.
A round that failed is repeated, after longer and longer pauses.

Rule 2: a question first stores the changes and looks at the folders, then asks the catalog. Its
answer is thus right also directly after an append, during the first scan, and after the catalog
was deleted.

Rule 3: `revision` grows with every transaction that changes what a list shows, across restarts too,
and every connection that watches the catalog is told.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Set
from functools import partial
from math import inf
from threading import Lock
from typing import Final, TypeVar

import anyio
from anyio import CancelScope, to_thread
from anyio.abc import TaskGroup
from msgspec import Struct

from sessiond.catalog.catalog import Catalog
from sessiond.catalog.rows import Mark, Stored
from sessiond.errors import SessiondError, exhausted
from sessiond.limits import (
    CATALOG_FLUSH_SECONDS,
    FIRST_SCAN_SECONDS,
    GLANCE_SECONDS,
    MISS_SECONDS,
    RETRY_AFTER_MS,
    ROOT_POLL_SECONDS,
)
from sessiond.model.events import CatalogChange
from sessiond.model.times import rfc3339, unix_ms
from sessiond.service.actor.actor import SessionActor
from sessiond.service.environment import Environment
from sessiond.service.listing.changes import Changes
from sessiond.service.listing.feed import Feed
from sessiond.service.listing.looks import ActorLooks
from sessiond.service.listing.pages import LookProgress
from sessiond.service.listing.questions import Questions
from sessiond.service.listing.whole_figures import WholeFigures
from sessiond.service.log.open_session import OpenSession
from sessiond.service.ports import Listener, Progress
from sessiond.service.store.listed import Snapshot, snapshot
from sessiond.service.store.roots import ShownAt
from sessiond.service.store.session_store import SessionStore

T = TypeVar("T")

# Times that the pause behind a failed round is doubled: to about a minute.
_DOUBLINGS_MAX: Final = 6


class RosterStatistics(Struct, frozen=True):
    """Figures of how current the live catalog is.

    `scanned` of `to_scan` files are read during a scan; otherwise both are null.
    """

    revision: int
    changes_waiting: int
    watchers: int
    scanned: int | None
    to_scan: int | None
    in_memory: bool


class LiveCatalog:
    """The catalog, the folders and the open sessions put together."""

    def __init__(
        self,
        store: SessionStore,
        environment: Environment,
        tasks: TaskGroup,
        *,
        actors: Callable[[], Iterable[SessionActor]],
        has_open: Callable[[str], bool],
    ) -> None:
        """Take `actors`, the open sessions, and `has_open`, which also covers closing ones.

        `has_open` may be called in any thread.
        """
        self.feed = Feed()
        self.revision = unix_ms(environment.now()) or 0
        self._store = store
        self._catalog: Catalog = store.catalog
        self._environment = environment
        self._tasks = tasks
        self._actors = actors
        self._scanner = store.scanner(has_open)
        self._looks = ActorLooks(self._scanner, actors, self.touch)
        self._dirty: set[SessionActor] = set()
        self._in_order = Lock()
        """Held over a transaction of the catalog and what it tells, so that no change is told before an earlier one."""
        self._told: deque[tuple[str, CatalogChange]] = deque()
        """Changes of stored transactions, in their order, that no watcher was told yet."""
        self._words: dict[str, CatalogChange] = {}
        self._wake = anyio.Event()
        self._is_woken = False
        """True if a session was touched since `run` began its last round."""
        self._turn = anyio.Lock()
        self._scanning = anyio.Lock()
        self._waiting: list[Progress] = []
        self._scan: tuple[int, int] | None = None
        self._look_behind: anyio.Event | None = None
        """Event of the end of a look whose askers do not wait for the end; None where no such look was begun."""
        self._look_failed: Exception | None = None
        """Exception that such a look ended with."""
        self._open_stored = -1
        """Generation of the catalog's file that has the rows of the open sessions, which no scan reads."""
        self._first_is_due = anyio.Event()
        self.complete = anyio.Event()
        """Event of the first complete scan."""
        self._missing = anyio.Lock()
        self._looks_begun = 0
        """Number of scans, with the one that runs."""
        self._miss_looks = 0
        """Number of looks for sessions that were not found."""
        self._missed_at = -inf
        self.figures = WholeFigures(
            self._scanner, self._put_read, self._reporting_bugs, environment.monotonic
        )
        questions = Questions(
            store,
            self._scanner,
            self._looks,
            self.figures,
            now=environment.now,
            revision=lambda: self.revision,
            is_behind=lambda: self._is_behind,
            in_turn=self._in_turn,
            look_around=self._look_for,
            glance=self._glance,
        )
        self.ask, self.select, self.glance = questions.ask, questions.select, questions.glance

    # -- what changed ------------------------------------------------------------------

    def touch(self, actor: SessionActor) -> None:
        """Record that an open session changed."""
        if self._is_woken and actor in self._dirty:
            # As after most appends: `run` comes to it anyway.
            return
        if actor.is_open and actor.opened.hidden:
            return
        self._dirty.add(actor)
        self._is_woken = True
        self._wake.set()

    def changed(self, session_id: str, change: CatalogChange) -> None:
        """Record a change of a session's file as a whole; the next scan looks at the file."""
        self._words[session_id] = change
        self._scanner.expect(session_id)
        self._wake.set()

    async def run(self) -> None:
        """Look at everything once, then store changes, each about a second later.

        A client that starts a daemon opens a session first. The first look leaves that session's
        file to its actor, and the processor to the opening.
        """
        with anyio.move_on_after(FIRST_SCAN_SECONDS):
            await self._first_is_due.wait()
        failures = 0 if await self._reporting_bugs(self._look_around) else 1
        self.complete.set()
        while True:
            # What a failed round has left is no change that anything else tells of.
            if not failures:
                await self._changed_or_polled()
            await anyio.sleep(CATALOG_FLUSH_SECONDS * 2 ** min(failures, _DOUBLINGS_MAX))
            self._wake = anyio.Event()
            self._is_woken = False
            failures = 0 if await self._reporting_bugs(self._flush) else failures + 1

    async def _changed_or_polled(self) -> None:
        """Wait for a change; in folders of roots whose changes no system tells, for a while only."""
        while not self._wake.is_set():
            is_polled = self.is_watched and self._scanner.must_be_polled
            with anyio.move_on_after(ROOT_POLL_SECONDS if is_polled else None):
                await self._wake.wait()
            if is_polled:
                return

    @property
    def is_watched(self) -> bool:
        """True if a connection watches the catalog, or an open session waits for its file to be found."""
        return len(self.feed) > 0 or any(actor.is_without_file for actor in self._actors())

    def wake(self) -> None:
        """Look for changes about a second later, if a connection watches the catalog."""
        if self.is_watched:
            self._wake.set()

    def watch(self, listener: Listener) -> None:
        """Tell a connection of changes from now on."""
        self.feed.add(listener)
        self._scanner.watched()
        if self._scanner.must_be_polled:
            self._wake.set()

    async def roots_changed(self, shown: ShownAt) -> None:
        """Record that there are other roots now: open sessions may come into lists, or leave them."""
        # A store that is under way may still list a session that is hidden here.
        async with self._turn:
            for actor in self._actors():
                opened = actor.opened
                if not opened.elsewhere or opened.path is None:
                    continue
                is_shown = shown(opened.path)
                if is_shown is not None:
                    opened.hidden = not is_shown
                    if is_shown:
                        self.touch(actor)
                    else:
                        self._dirty.discard(actor)
            self._scanner.take_roots()
        self._wake.set()

    def scan_now(self) -> None:
        """Start the first scan without delay."""
        self._first_is_due.set()

    async def _reporting_bugs(self, job: Callable[[], Awaitable[None]]) -> bool:
        """Return whether a job was done; report why not."""
        try:
            await job()
        except SessiondError as error:
            # A folder cannot be read. Each list answers with this error.
            self._environment.report_trouble(f"what lists show is not current: {error}")
        except Exception as bug:  # noqa: BLE001 - the next change gets its chance
            short = exhausted(bug, RETRY_AFTER_MS)
            if short is None:
                self._environment.report_bug("live catalog", bug)
            else:
                self._environment.report_trouble(f"what lists show is not current: {short}")
        else:
            return True
        return False

    @property
    def _is_behind(self) -> bool:
        """True if rows were lost, or never existed, and are not all there again."""
        return self._scanner.is_behind or self._catalog.file.generation != self._open_stored

    async def _flush(self) -> None:
        await self._in_turn(lambda: None)
        if self._words or self.is_watched or self._is_behind or self._scanner.has_other_roots:
            await self._look_around()
            await self._looks.catch_up()

    async def let_go(self, actor: SessionActor) -> None:
        """Store the last state of an ended session while its file is still locked.

        What became of a session whose log is closed already, the next scan finds.
        """
        # A store that is under way reads the session's file, so this one waits for its turn.
        async with self._turn:
            gone = [actor.session_id] if actor.in_memory or actor.is_gone else []
            if gone or actor in self._dirty:
                self._dirty.discard(actor)
                if actor.is_shut:
                    self._scanner.miss([actor.session_id])
                seen = [] if gone or actor.is_shut else [snapshot(actor.opened)]
                await self._put(seen, gone, lambda: None)

    async def forget(self, session_id: str) -> None:
        """Drop all records of a session that no client has open. Raises StorageError while its words stay."""

        def drop() -> None:
            # As long as there is a record, the call can be repeated.
            self._catalog.erase(session_id)
            self._catalog.forget([session_id])

        async with self._turn:
            self._scanner.forget(session_id)
            await self._put([], [session_id], drop)

    # -- the work ----------------------------------------------------------------------

    async def _in_turn(self, then: Callable[[], T]) -> T:
        """Store the changes, then run `then`, in one call of a worker thread."""
        async with self._turn:
            dirty, self._dirty = self._dirty, set()
            try:
                seen = [snapshot(actor.opened) for actor in dirty if actor.is_open]
                return await self._put(seen, [], then)
            except BaseException:
                self._dirty |= dirty
                raise

    async def _put(
        self,
        seen: list[Snapshot],
        gone: list[str],
        then: Callable[[], T],
        *,
        created: Set[str] | None = None,
    ) -> T:
        changes = Changes(self._words)
        behind = self._scanner.is_behind
        if behind and created is None:
            created = {one.info.id for one in seen if one.opened.created}

        def work() -> T:
            found = [(one.info.id, self._store.row(one)) for one in seen]
            rows = [row for _, row in found if row is not None]
            self._scanner.miss([session_id for session_id, row in found if row is None])
            if rows or gone:
                with self._in_order:
                    changes.add(self._catalog.put(rows, gone), rows, gone, created)
                    self._stored(changes)
                self._scanner.meet(rows, gone)
            return then()

        try:
            return await _whole(work)
        finally:
            # What is stored is no news for the next transaction, whatever became of `then`.
            self._tell_watchers()

    async def _look_for(self, progress: Progress) -> None:
        """Run one scan for a question, and report how far it is."""
        self._waiting.append(progress)
        self.scan_now()
        try:
            await self._look_around()
        finally:
            self._waiting.remove(progress)

    async def _glance(self, progress: Progress) -> LookProgress | None:
        """Begin the look that a question is due for, and wait a moment for its end; return how far the look is.

        The look goes on by itself. Returns None where no look is due, and behind its end. Raises what the look raised.
        """
        if self._look_behind is None:
            if not await self._in_turn(self._scanner.is_due):
                return None
            self._look_behind, self._look_failed = anyio.Event(), None
            self._tasks.start_soon(self._look_on, self._look_behind)
        over = self._look_behind
        self._waiting.append(progress)
        try:
            with anyio.move_on_after(GLANCE_SECONDS):
                await over.wait()
        finally:
            self._waiting.remove(progress)
        if over.is_set():
            self._look_behind = None
            if self._look_failed is not None:
                raise self._look_failed
            return None
        done, total = self._scan or (0, None)
        unread_ns = self._scanner.unread_ns
        until = None if unread_ns is None else rfc3339(unread_ns // 1_000_000 / 1000)
        return LookProgress(done, total, until)

    async def _look_on(self, over: anyio.Event) -> None:
        self.scan_now()
        try:
            await self._look_around()
        except Exception as error:  # noqa: BLE001 - each question that waits for the look raises it
            self._look_failed = error
        finally:
            over.set()

    async def look_for_files(self) -> bool:
        """Look once for files that programs have put into roots since the call; return whether any may be there.

        Calls that come meanwhile share the next look: there is one in MISS_SECONDS at most.
        """
        if not self._scanner.has_roots:
            # A file of the profile is found by its name.
            return False
        before, now = self._miss_looks, self._environment.monotonic
        async with self._missing:
            if self._miss_looks == before:
                await anyio.sleep(max(0.0, self._missed_at + MISS_SECONDS - now()))
                self._miss_looks, self._missed_at = before + 1, now()
                return await self._reporting_bugs(self._look_around)
        return True

    async def look_before_creation(self) -> None:
        """Look for files that programs have put into roots, if anything has changed there since the last look.

        One of these files may have the id that a new session is about to get. Nothing is waited for where
        no folder of a root has changed. Calls that come meanwhile share the next look. A scan that is under
        way, as the first one over very many files, is waited for MISS_SECONDS at most.
        """
        if not self._scanner.has_roots:
            return
        begun, is_quiet = self._looks_begun, False
        self.scan_now()
        with anyio.move_on_after(MISS_SECONDS):
            await self.complete.wait()
            async with self._scanning:
                is_quiet = True
        if is_quiet and await to_thread.run_sync(self._scanner.roots_have_changed):
            await self._reporting_bugs(partial(self._look_around, begun))

    async def _look_around(self, begun: int | None = None) -> None:
        """Run one scan. At a start, and after rows were lost, its findings count as no change.

        With `begun`, a number of scans, a scan that began behind them is enough.
        """
        async with self._scanning:
            if begun not in {None, self._looks_begun}:
                return
            self._looks_begun += 1
            changes, words = Changes(self._words), dict(self._words)
            self._scanner.prepare()

            def work() -> None:
                self._catalog.file.look()
                rebuilt = self._scanner.is_behind
                if rebuilt:
                    self.revision = self._catalog.raise_revision(self.revision)
                known = set[str]() if rebuilt else None

                def store(rows: list[tuple[Stored, Mark | None]], gone: list[str]) -> list[Stored]:
                    return self._store_read(rows, gone, changes, known)

                self._scanner.run(store, self._report)

            try:
                await _whole(work)
            finally:
                self._scan = None
                self._tell_watchers()
                self.figures.wake()
            # Of these changes the scan has found what there is to find.
            for session_id, word in words.items():
                if self._words.get(session_id) == word:
                    self._words.pop(session_id, None)
        if self._is_behind:
            await self._store_open()

    def _store_read(
        self,
        rows: list[tuple[Stored, Mark | None]],
        gone: list[str],
        changes: Changes,
        known: set[str] | None,
    ) -> list[Stored]:
        """Store rows that were read from files, in one transaction; return those that were stored."""
        with self._in_order:
            before, stored = self._catalog.put_read(rows, gone)
            changes.add(before, stored, gone, known)
            # At once: before the scanner takes what it has found for shown, pages are new.
            self._stored(changes)
        return stored

    async def _put_read(self, row: Stored, mark: Mark | None) -> None:
        """Store a row that was read beside the scans, and tell of it."""
        async with self._scanning:
            changes = Changes(self._words)
            try:
                await _whole(lambda: self._store_read([(row, mark)], [], changes, None))
            finally:
                self._tell_watchers()

    async def _store_open(self) -> None:
        """Store rows of the open sessions, which no scan reads.

        Their epochs are recorded nowhere else.
        """
        async with self._turn:
            actors = list(self._actors())
            self._dirty.difference_update(actors)
            hidden = [actor.opened for actor in actors if actor.opened.hidden]
            seen = [snapshot(actor.opened) for actor in actors if not actor.opened.hidden]
            new = {one.info.id for one in seen if one.opened.created and not self.complete.is_set()}
            # Before the rows: a file that is lost from here on may have none of them.
            generation = self._catalog.file.generation
            await self._put(seen, [], lambda: self._note_all(hidden), created=new)
            self._open_stored = generation

    def _note_all(self, hidden: Iterable[OpenSession]) -> None:
        for opened in hidden:
            self._store.note(opened)

    def _stored(self, changes: Changes) -> None:
        """Take the changes of a transaction that was just stored."""
        if changes.any:
            self.revision = self._catalog.raise_revision(self.revision + 1)
            changes.any = False
        self._told.extend(changes.told)
        changes.told.clear()

    def _tell_watchers(self) -> None:
        """Tell the changes of all stored transactions, in their order."""
        self.feed.tell(self.revision, [self._told.popleft() for _ in range(len(self._told))])

    def _report(self, done: int, total: int) -> None:
        self._scan = (done, total)
        for progress in tuple(self._waiting):
            progress.report(done, total, "sessions")

    def statistics(self) -> RosterStatistics:
        """Return how current the live catalog is."""
        scanned, to_scan = self._scan or (None, None)
        return RosterStatistics(
            revision=self.revision,
            changes_waiting=len(self._dirty) + len(self._words),
            watchers=len(self.feed),
            scanned=scanned,
            to_scan=to_scan,
            in_memory=self._catalog.file.stands_in,
        )


async def _whole(work: Callable[[], T]) -> T:
    """Run in a worker thread to its end, even if the caller is cancelled."""
    outcome: list[T] = []
    with CancelScope(shield=True):
        outcome.append(await to_thread.run_sync(work))
    return outcome[0]
