"""Search in what was said: updates the index of the lines, then asks the index.

Rule 1: an answer covers every append that was stored before the question. The catalog says how far
a session's lines go, and lines that the index lacks are read first.

Rule 2: the index is made in the background, from the first scan on. The work gives way: a search takes the turn
between two batches of lines, and behind each batch the work rests as long as it read. A search that need not be whole
begins to read what has changed, and leaves the rest to the background.

Rule 3: a session without a file is never indexed, nor is a line that is not on disk yet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from contextlib import closing
from functools import partial
from itertools import zip_longest
from typing import Final, Literal

import anyio
from anyio import to_thread
from msgspec import Struct
from msgspec.structs import replace

from sessiond.catalog.catalog import Catalog
from sessiond.catalog.finding import find_by_ref
from sessiond.catalog.fulltext import Filters, Found, Hit
from sessiond.catalog.matching import Match
from sessiond.catalog.query import Query
from sessiond.catalog.rows import Known
from sessiond.errors import SessiondError, SessionNotFound, StorageError
from sessiond.limits import GLANCE_SECONDS
from sessiond.model.searched import Part, Unsearched
from sessiond.model.times import rfc3339
from sessiond.service.listing.indexing import Covered, Indexing
from sessiond.service.listing.live_catalog import LiveCatalog
from sessiond.service.listing.pages import LookProgress
from sessiond.service.listing.root_rooms import RootRooms
from sessiond.service.ports import Asker
from sessiond.service.store.listed import Unreadable
from sessiond.service.store.session_store import SessionStore

_OVER: Final = object()
_KINDS: Final[Mapping[Part, Literal["outputs", "arguments", "messages"]]] = {
    Part.OUTPUT: "outputs",
    Part.ARGUMENTS: "arguments",
    Part.MESSAGE: "messages",
}


class IndexStatistics(Struct, frozen=True):
    """Figures of the search index.

    `read` of `to_read` sessions are read while the index is made or brought up to date in the background; otherwise
    both are null. `problem` says why that ended early, or is null. `bytes` is null before the first search,
    and before the work in the background.
    """

    read: int | None
    to_read: int | None
    problem: str | None
    bytes: int | None
    bytes_max: int
    unsearched: list[Unsearched]


class FoundHits(Struct, frozen=True):
    """The best hits, what of the roots could not be read, and how far a reading is that goes on behind them.

    `unsearched` are texts for which the index has no room.
    """

    hits: list[Found]
    unread: list[Unreadable]
    looking: LookProgress | None
    unsearched: list[Unsearched]


class Search:
    """The searches of one profile, and its index, which one task at a time brings up to date."""

    def __init__(
        self, live_catalog: LiveCatalog, store: SessionStore, monotonic: Callable[[], float]
    ) -> None:
        self._live_catalog = live_catalog
        self._store = store
        self._index = store.texts
        self._indexing = Indexing(store)
        self._monotonic = monotonic
        self.turn = anyio.Lock()
        """Lock of the one task that brings the index up to date."""
        self.is_due = anyio.Event()
        """Event of work for the background."""
        self._reading: LookProgress | None = None
        """Progress of the work in the background; None while nothing is read there."""
        self._problem: str | None = None
        self._bytes: int | None = None
        self._unsearched: list[Unsearched] = []

    def take_bound(self, bytes_max: int) -> None:
        """Let the index have so many bytes."""
        if bytes_max != self._index.bytes_max:
            self._index.bytes_max = bytes_max
            self.is_due.set()

    def roots_changed(self) -> None:
        """Take note that there are other roots, or that other outputs of roots are searched."""
        self._indexing.walk_anew()
        self.is_due.set()

    async def find(  # noqa: PLR0913 - what is asked, where, and by whom
        self,
        match: Match,
        query: Query,
        filters: Filters,
        limit: int,
        asker: Asker,
        *,
        whole: bool = True,
    ) -> FoundHits:
        """Return the best hits in the sessions of `query`.

        With a session in `filters`, the hits in that session; `query` has no effect then. An answer that need not be
        `whole` comes a moment after it was asked for, and says how far the reading is. Raises SessionNotFound, StorageError.
        """
        unread: list[Unreadable] = []
        only = filters.session_id

        def require(catalog: Catalog) -> None:
            if only is not None and not catalog.chosen(None, [only]):
                # Sessions in memory are listed, and not searched.
                found = catalog.ask(partial(find_by_ref, ref=only, limit=1))
                if not any(one.brief.session_id == only for one in found):
                    raise SessionNotFound("no listed session has this id", session_id=only)

        looking: LookProgress | None = None
        if not whole:
            _, looking = await self._live_catalog.glance(require, asker)
        if looking is None:
            far = LookProgress(0, None, None)
            with anyio.move_on_after(None if whole else GLANCE_SECONDS) as scope:
                async with self.turn:
                    await self._live_catalog.ask(require, asker)
                    wanted = Covered(query, only)
                    with closing(self._indexing.catch_up(wanted, unread, whole=whole)) as work:
                        # One batch of lines per step, so that a cancelled search stops.
                        while (step := await to_thread.run_sync(next, work, None)) is not None:
                            far = step
                            asker.progress.report(far.done, far.total, "sessions")
                    looking = None if whole else self._indexing.far
            if scope.cancelled_caught:
                looking = self._reading if far.total is None and self._reading else far
        if looking is not None:
            self.is_due.set()
        known = dict[str, Known]()

        def choose(ids: Set[str]) -> Set[str]:
            found = self._store.catalog.chosen(None if only else query, ids)
            known.update(found)
            return found.keys()

        hits = await to_thread.run_sync(self._index.find, match, choose, limit, filters)
        checked = await to_thread.run_sync(self._checked, hits, known)
        await to_thread.run_sync(self._weigh)
        return FoundHits(checked, unread, looking, self._unsearched)

    def _weigh(self) -> None:
        """Note how large the index is, and what it has no room for. Blocking."""
        self._bytes = self._index.size()
        self._unsearched = [
            Unsearched(_KINDS[part], rfc3339(before / 1000))
            for part, before in self._index.cuts().items()
        ]

    async def catch_up(self, asker: Asker) -> None:
        """Index what the index lacks of all sessions; give way to searches, and rest between. Raises StorageError."""
        self.is_due = anyio.Event()
        try:
            while not await self._caught_up(asker):
                pass
            self._problem = None
        except StorageError as error:
            self._problem = str(error)
            raise
        finally:
            self._reading = None

    async def _caught_up(self, asker: Asker) -> bool:
        """Read until the end, or until a search waits; return whether that was the end."""
        unread: list[Unreadable] = []
        async with self.turn:
            await self._live_catalog.ask(_nothing, asker)
            with closing(self._indexing.catch_up(None, unread)) as work:
                while True:
                    began = self._monotonic()
                    step = await to_thread.run_sync(next, work, None)
                    if step is None:
                        break
                    self._reading = step
                    await anyio.sleep(self._monotonic() - began)
                    if self.turn.statistics().tasks_waiting:
                        return False
            if not unread:
                await to_thread.run_sync(self._index.take_place)
            await to_thread.run_sync(self._weigh)
            return True

    def statistics(self) -> IndexStatistics:
        """Return how current the index is."""
        far = self._reading
        return IndexStatistics(
            read=None if far is None else far.done,
            to_read=None if far is None else far.total,
            problem=self._problem,
            bytes=self._bytes,
            bytes_max=self._index.bytes_max,
            unsearched=self._unsearched,
        )

    async def erase_removed(self, asker: Asker) -> None:
        """Erase from the index the words of sessions and lines that are gone. Raises StorageError."""
        if not await to_thread.run_sync(self._index.file.is_there):
            return

        async with self.turn:
            await self._live_catalog.ask(_nothing, asker)
            await to_thread.run_sync(self._indexing.take_changes)
            steps = self._index.erased()
            while await to_thread.run_sync(next, steps, _OVER) is not _OVER:
                pass

    def _checked(self, hits: list[Hit], known: Mapping[str, Known]) -> list[Found]:
        """Return the hits whose words are still in their sessions, and those of which that cannot be seen now.

        The index keeps the text of each line with the checksum of the line's bytes, so the bytes alone are read.
        Blocking.
        """
        of_session: dict[str, list[Hit]] = {}
        for hit in hits:
            of_session.setdefault(hit[0].session_id, []).append(hit)
        places, stuck = RootRooms(self._store.whereabouts), set[str | None]()
        seen: dict[tuple[str, int], bool | None] = {}
        for session_id, some in of_session.items():
            root, states = places.at(known[session_id]).root, list[bool | None]()
            if root not in stuck:
                try:
                    states = self._store.check_hits(known[session_id], some)
                except SessiondError:
                    # Each other session there would be waited for as long.
                    stuck.add(root)
            for (found, _), is_there in zip_longest(some, states):
                seen[session_id, found.seq] = is_there
        checked = [(found, seen[found.session_id, found.seq]) for found, _ in hits]
        return [
            found if is_there else replace(found, checked=False)
            for found, is_there in checked
            if is_there is not False
        ]


def _nothing(_catalog: Catalog) -> None:
    """Ask nothing: the catalog is to be current."""
