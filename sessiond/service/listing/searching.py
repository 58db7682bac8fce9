"""Search in what was said: updates the index of the lines, then asks the index.

Rule 1: an answer covers every append that was stored before the question. The catalog says how far
a session's lines go, and lines that the index lacks are read first.

Rule 2: the index is made in the background, from the first scan on, the newest sessions first. The work gives way: a
search takes the turn between two batches of lines, and behind each batch the work rests as long as it read.
A search that need not be whole begins to read what the index lacks, and leaves the rest to the background.

Rule 3: a session without a file is never indexed, nor is a line that is not on disk yet.

Rule 4: outputs of tools leave the index before the next answer where a root has none searched, and are read again
where it has.

Rule 5: the sessions of a root have at most ROOT_TEXT_CHARS_MAX characters in the index. The session whose
text has no room is left out, with all sessions of the root that were written before it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from typing import Final, Literal

import anyio
from anyio import to_thread
from msgspec import Struct
from msgspec.structs import replace

from sessiond.catalog.catalog import Catalog
from sessiond.catalog.finding import find_by_ref
from sessiond.catalog.fulltext import Filters, Found, Hit, Indexed
from sessiond.catalog.matching import Match
from sessiond.catalog.query import Query
from sessiond.catalog.rows import NOTHING, Known
from sessiond.errors import SessiondError, SessionNotFound, StorageError
from sessiond.limits import GLANCE_SECONDS
from sessiond.model.searched import Part, Unsearched
from sessiond.model.times import rfc3339
from sessiond.service.listing.live_catalog import LiveCatalog
from sessiond.service.listing.pages import LookProgress
from sessiond.service.listing.root_rooms import Place, RootRooms
from sessiond.service.ports import Asker
from sessiond.service.store.listed import TextsChanged, Unreadable
from sessiond.service.store.session_store import SessionStore
from sessiond.visible import printable

__all__ = ["IndexStatistics", "Search"]

_OVER: Final = object()
_KINDS: Final[Mapping[Part, Literal["outputs", "arguments", "messages"]]] = {
    Part.OUTPUT: "outputs",
    Part.ARGUMENTS: "arguments",
    Part.MESSAGE: "messages",
}


class _Stock(Struct, frozen=True):
    """The sessions that exist, and those that a search covers."""

    known: Mapping[str, Known]
    wanted: Sequence[str]


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

        def stock(catalog: Catalog) -> _Stock:
            known = _listed(catalog)
            wanted = catalog.ids(query) if only is None else [only]
            if only is not None and only not in known:
                # Sessions in memory are listed, and not searched.
                found = catalog.ask(partial(find_by_ref, ref=only, limit=1))
                if not any(one.brief.session_id == only for one in found):
                    raise SessionNotFound("no listed session has this id", session_id=only)
            return _Stock(known, [found for found in wanted if found in known])

        there, looking = None, None
        if not whole:
            there, looking = await self._live_catalog.glance(stock, asker)
        if looking is None:
            far = LookProgress(0, None, None)
            with anyio.move_on_after(None if whole else GLANCE_SECONDS) as scope:
                async with self.turn:
                    there = await self._live_catalog.ask(stock, asker)
                    work = self._catch_up(there, unread)
                    # One batch of lines per step, so that a cancelled search stops.
                    while (step := await to_thread.run_sync(next, work, None)) is not None:
                        far = step
                        asker.progress.report(far.done, far.total, "sessions")
            if scope.cancelled_caught:
                looking = self._reading if far.total is None and self._reading else far
        if looking is not None:
            self.is_due.set()
        assert there is not None, "a glance has a stock too"
        hits = await to_thread.run_sync(self._index.find, match, there.wanted, limit, filters)
        checked = await to_thread.run_sync(self._checked, hits, there.known)
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

        def stock(catalog: Catalog) -> _Stock:
            known = _listed(catalog)
            return _Stock(known, [*known])

        unread: list[Unreadable] = []
        async with self.turn:
            work = self._catch_up(await self._live_catalog.ask(stock, asker), unread)
            while True:
                began = self._monotonic()
                step = await to_thread.run_sync(next, work, None)
                if step is None:
                    if not unread:
                        await to_thread.run_sync(self._index.take_place)
                    await to_thread.run_sync(self._weigh)
                    return True
                self._reading = step
                await anyio.sleep(self._monotonic() - began)
                if self.turn.statistics().tasks_waiting:
                    return False

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
            known = await self._live_catalog.ask(_listed, asker)
            await to_thread.run_sync(self._index.keep_older_of, known.keys())
            gone = (await to_thread.run_sync(self._index.indexed)).keys() - known.keys()
            await to_thread.run_sync(self._index.forget, gone)
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

    def _catch_up(self, there: _Stock, unread: list[Unreadable]) -> Iterator[LookProgress]:
        """Index what the index lacks of the wanted sessions, and keep the index within its bound; as `_read_behind`."""
        self._index.take_back()
        for _ in self._index.trimmed():
            yield LookProgress(0, None, None)
        for far in self._read_behind(there, unread):
            yield far
            for _ in self._index.trimmed():
                yield far

    def _read_behind(self, there: _Stock, unread: list[Unreadable]) -> Iterator[LookProgress]:
        """Index what the index lacks of the wanted sessions, and remove deleted ones.

        A root of which a session cannot be read is not read on in this search. Its session is added to `unread`.
        Yields behind each batch of lines how many sessions were read, and how many there may be. Blocking.
        """
        indexed = self._index.indexed()
        self._index.forget(indexed.keys() - there.known.keys())
        places, wanted = RootRooms(self._store.whereabouts), frozenset(there.wanted)
        concerned = [there.known[one] for one in there.known if one in wanted or one in indexed]
        indexed |= self._without_outputs(concerned, indexed, places)
        concerned.sort(key=_newest_first)
        behind = {
            known.session_id: known
            for known in concerned
            if known.session_id in wanted
            and not self._is_current(indexed.get(known.session_id), known, places)
        }
        total = len(behind)
        for known in concerned:
            session_id = known.session_id
            found, room = indexed.get(session_id), places.at(known).room
            if room is not None and room.is_full:
                if found is not None:
                    self._index.forget([session_id])
            elif room is not None and found is not None and session_id not in behind:
                chars = found.chars
                if found.left_out and room.fits(chars):
                    # Other sessions are gone, so there is room again.
                    for _ in self._read(known, places, unread):
                        pass
                    continue
                if not (found.left_out or room.fits(chars)):
                    self._leave_out(known, chars, outputs=found.outputs)
                room.take(chars)
            elif session_id in behind:
                for _ in self._read(known, places, unread):
                    yield _progress(total, behind)
                del behind[session_id]
                yield _progress(total, behind)

    def _read(self, known: Known, places: RootRooms, unread: list[Unreadable]) -> Iterator[None]:
        """Index what the index lacks of a session, unless a session of its root could not be read before.

        Yields behind each batch of lines but the last.
        """
        room = places.at(known).room
        if room is None:
            yield from self._add(known, places)
            return
        if room.is_stuck:
            return
        try:
            room.take((yield from self._add(known, places)))
        except SessiondError as error:
            room.is_stuck = True
            unread.append(Unreadable(printable(known.path), str(error)))

    def _without_outputs(
        self, concerned: list[Known], indexed: Mapping[str, Indexed], places: RootRooms
    ) -> dict[str, Indexed]:
        """Remove the outputs that are not to be searched; return what is indexed of their sessions now."""
        changed = dict[str, Indexed]()
        bare = (known.session_id for known in concerned if not places.at(known).outputs)
        self._index.leave_older(bare, outputs=True)
        for known in concerned:
            session_id = known.session_id
            found = indexed.get(session_id)
            if found is not None and found.outputs and not places.at(known).outputs:
                while self._index.drop_outputs(session_id):
                    pass
                changed[session_id] = self._index.indexed_of(session_id) or found
        return changed

    def _is_current(self, indexed: Indexed | None, known: Known, places: RootRooms) -> bool:
        place = places.at(known)
        if indexed is None or (indexed.epoch, indexed.outputs) != (known.mark.epoch, place.outputs):
            return False
        if place.is_agents:
            # Both are 0 for a file that was just being written.
            return 0 < indexed.end == known.end
        return indexed.seq == known.mark.seen_seq

    def _leave_out(self, known: Known, chars: int, *, outputs: bool) -> None:
        epoch, seq = known.mark.epoch, known.mark.seen_seq
        mark = Indexed(epoch, seq, known.end, chars, left_out=True, outputs=outputs)
        self._index.put(known.session_id, mark, (), anew=True)

    def _add(self, known: Known, places: RootRooms) -> Generator[None, None, int]:
        """Index the lines that the index lacks, if there is room; return the session's characters.

        Yields between batches of lines. Lists report a file that cannot be read.
        """
        place = places.at(known)
        indexed = self._index.indexed_of(known.session_id)
        if indexed is not None and not _goes_on(indexed, known, place):
            indexed = None
        anew = indexed is None
        chars = 0 if indexed is None else indexed.chars
        try:
            for number, (mark, texts) in enumerate(self._store.texts_behind(known, indexed)):
                if number:
                    yield
                if not place.outputs:
                    texts = [text for text in texts if text.said.part is not Part.OUTPUT]
                chars += sum(text.chars for text in texts)
                if place.room is not None and not place.room.fits(chars):
                    self._leave_out(known, chars, outputs=place.outputs)
                    return chars
                mark = replace(mark, chars=chars, outputs=place.outputs)
                self._index.put(known.session_id, mark, texts, anew=anew)
                anew = False
        except (TextsChanged, StorageError) as error:
            if isinstance(error, StorageError) and error.data()["errno"] != "ENOENT":
                raise
            # The file is not the one that lists know; the next scan of the folders finds out.
            self._index.forget([known.session_id])
            return 0
        return chars


def _listed(catalog: Catalog) -> dict[str, Known]:
    return {row.session_id: row for row in catalog.all() if row.listed}


def _progress(total: int, behind: Mapping[str, Known]) -> LookProgress:
    """Return how far a reading is that has still to read the sessions `behind`, in their order."""
    known = next(iter(behind.values()), None)
    is_told = known is not None and known.fingerprint != NOTHING
    until = rfc3339(known.fingerprint.mtime_ns // 1_000_000 / 1000) if known and is_told else None
    return LookProgress(total - len(behind), total, until)


def _goes_on(indexed: Indexed, known: Known, place: Place) -> bool:
    is_behind = place.is_agents or indexed.seq < known.mark.seen_seq
    is_same = (indexed.epoch, indexed.outputs) == (known.mark.epoch, place.outputs)
    return is_same and is_behind and not indexed.left_out


def _newest_first(known: Known) -> tuple[bool, int, str]:
    """Return a key by which the session comes first whose file was written last."""
    found = known.fingerprint
    # A file that is being written has no fingerprint.
    return found != NOTHING, -found.mtime_ns, known.session_id
