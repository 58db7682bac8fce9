"""The reading of sessions for the search index. Blocking, for worker threads, one at a time.

Rule 1: once all sessions are indexed, only those are read whose rows the catalog has seen changing. A walk through all
of them comes first, out of which a search takes those that it covers. Another walk follows where rows were lost, where
the roots or the bound change, and where a root with a full room changes.

Rule 2: outputs of tools leave the index before the next answer where a root has none searched, and are read again
where it has.

Rule 3: the sessions of a root have at most ROOT_TEXT_CHARS_MAX characters in the index. The session whose
text has no room is left out, with all sessions of the root that were written before it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Set

from msgspec import Struct
from msgspec.structs import replace

from sessiond.catalog.catalog import Catalog
from sessiond.catalog.fulltext import Addition, Indexed, TextIndex
from sessiond.catalog.query import Query
from sessiond.catalog.rows import NOTHING, Known
from sessiond.catalog.schema import ANY
from sessiond.errors import SessiondError, StorageError
from sessiond.limits import SEARCH_STEP_CHARS, SEARCH_STEP_SESSIONS
from sessiond.model.searched import Part
from sessiond.model.times import rfc3339
from sessiond.service.listing.pages import LookProgress
from sessiond.service.listing.root_rooms import Place, Room, RootRooms
from sessiond.service.store.listed import TextsChanged, Unreadable
from sessiond.service.store.session_store import SessionStore
from sessiond.visible import printable


class Covered(Struct, frozen=True):
    """The sessions that a search covers: one of them, or else those of a query."""

    query: Query
    session_id: str | None

    def among(self, catalog: Catalog, ids: Collection[str]) -> dict[str, Known]:
        """Return the records of those of these sessions that a search covers."""
        if self.session_id is None:
            return catalog.chosen(self.query, ids)
        return catalog.chosen(None, {self.session_id} & {*ids})

    def all(self, catalog: Catalog) -> set[str]:
        """Return the sessions that a search covers."""
        return {*catalog.ids(self.query)} if self.session_id is None else {self.session_id}


class _Stop(Struct, frozen=True):
    """A session that a walk comes to, with the room of its root.

    `found` is what the index has of a session that need not be read; None for one that is behind.
    """

    session_id: str
    mtime_ns: int | None
    """None for a file that is being written."""
    room: Room | None
    found: Indexed | None


class _Walk(Struct):
    """A way through sessions, the newest first: its rest, and what could not be read.

    With `is_counted` the rooms have the texts of the sessions already, but for those `uncounted`.
    """

    stops: deque[_Stop]
    places: RootRooms
    total: int
    is_counted: bool = False
    uncounted: Set[str] = frozenset()
    done: int = 0
    unread: list[Unreadable] = []
    stuck: set[str] = set()
    """Roots of which a session could not be read."""

    def far(self) -> LookProgress:
        """Return how far the walk is."""
        ns = next((stop.mtime_ns for stop in self.stops if stop.found is None), None)
        until = None if ns is None else rfc3339(ns // 1_000_000 / 1000)
        return LookProgress(self.done, self.total, until)


class _Batch:
    """Texts of several sessions, which come to the index in one transaction."""

    def __init__(self, index: TextIndex) -> None:
        self._index = index
        self._added: list[Addition] = []
        self._chars = 0

    def add(self, added: Addition) -> None:
        """Take texts of a session."""
        self._added.append(added)
        self._chars += sum(text.chars for text in added.texts)

    @property
    def is_full(self) -> bool:
        """True if the batch is to be put."""
        return len(self._added) >= SEARCH_STEP_SESSIONS or self._chars >= SEARCH_STEP_CHARS

    def drop(self, session_id: str) -> None:
        """Forget what was taken of a session, and what the index has of it. Raises StorageError."""
        self._added = [one for one in self._added if one.session_id != session_id]
        self._index.forget([session_id])

    def put(self) -> None:
        """Put everything into the index. Raises StorageError."""
        added, self._added, self._chars = self._added, [], 0
        if added:
            self._index.put(added)


class Indexing:
    """The work on the index of one profile."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store
        self._catalog = store.catalog
        self._index = store.texts
        self._walk: _Walk | None = None
        """Walk through all sessions; None behind its end."""
        self._is_walk_due = True
        self._generation = -1
        """Generation of the index's file that has what was read."""
        self._changed: dict[str, None] = {}
        """Sessions that may be behind, besides those of the walk."""
        self._places = RootRooms(store.whereabouts)

    @property
    def far(self) -> LookProgress | None:
        """Progress of the walk; None where no session of it is behind."""
        walk = self._walk
        return None if walk is None or walk.done == walk.total else walk.far()

    def walk_anew(self) -> None:
        """Let the next reading begin with a walk through all sessions. Waits for nothing."""
        self._is_walk_due = True

    def take_changes(self) -> None:
        """Take note of what has changed, and remove from the index what is gone. Raises StorageError."""
        self._index.file.look()
        is_bound_raised = self._index.take_back()
        changed = self._catalog.take_changed()
        self._changed |= dict.fromkeys(changed - {ANY})
        is_lost = self._generation != self._index.file.generation
        if ANY in changed or is_lost or is_bound_raised or self._is_walk_due:
            self._begin_walk()
            return
        gone = self._changed.keys() - self._catalog.chosen(None, self._changed).keys()
        self._index.forget(gone)
        for session_id in gone:
            del self._changed[session_id]
        self._is_walk_due = bool(gone) and self._places.any_full

    def catch_up(
        self, wanted: Covered | None, unread: list[Unreadable], *, whole: bool = True
    ) -> Generator[LookProgress]:
        """Read what the index lacks of the wanted sessions, and keep the index within its bound.

        Without `wanted`, of all sessions; unless `whole`, of those alone that have changed since the last reading.
        A root of which a session cannot be read is not read on, and its session is added to `unread`. Yields behind
        each batch of lines how many sessions were read, and how many there may be. Raises StorageError.
        """
        self.take_changes()
        for _ in self._index.trimmed():
            yield LookProgress(0, None, None)
        for walk in self._walks(wanted, whole=whole):
            for far in self._walked(walk):
                yield far
                for _ in self._index.trimmed():
                    yield far
            unread += walk.unread

    def _walks(self, wanted: Covered | None, *, whole: bool) -> Iterator[_Walk]:
        """Yield the walks of a reading, each behind the end of the one before."""
        ahead = self._take_ahead(wanted) if wanted is not None and whole else []
        try:
            if wanted is None:
                changed = self._catalog.chosen(None, self._changed)
            else:
                changed = wanted.among(self._catalog, self._changed)
            if changed:
                uncounted = {stop.session_id for stop in ahead}
                yield self._walk_to(changed.values(), uncounted)
        finally:
            self._put_back(ahead)
        # Of a full room the newest sessions have their part: all are gone through in their order.
        is_over = wanted is not None and not self._is_walk_due
        if self._is_walk_due:
            self._begin_walk()
        if whole and not is_over and self._walk is not None:
            yield self._walk
            self._walk = None

    def _take_ahead(self, wanted: Covered) -> list[_Stop]:
        """Take the wanted sessions that are behind out of the walk, to those that have changed."""
        walk = self._walk
        if walk is None or walk.done == walk.total:
            return []
        ids = wanted.all(self._catalog)
        ahead = [stop for stop in walk.stops if stop.found is None and stop.session_id in ids]
        taken = {stop.session_id for stop in ahead}
        walk.stops = deque(stop for stop in walk.stops if stop.session_id not in taken)
        self._changed |= dict.fromkeys(taken)
        walk.done += len(ahead)
        return ahead

    def _put_back(self, ahead: list[_Stop]) -> None:
        """Give the walk back what was taken ahead, and is still behind."""
        left = [stop for stop in ahead if stop.session_id in self._changed]
        if self._walk is not None:
            self._walk.stops.extendleft(reversed(left))
            self._walk.done -= len(left)
            for stop in left:
                del self._changed[stop.session_id]

    # -- the ways -----------------------------------------------------------------------

    def _begin_walk(self) -> None:
        self._is_walk_due = False
        self._generation = self._index.file.generation
        self._changed.clear()
        self._walk = self._whole_walk()
        self._places = self._walk.places

    def _walk_to(self, changed: Iterable[Known], uncounted: Set[str]) -> _Walk:
        """Return a walk to sessions that have changed."""
        places = self._places
        stops = deque(_stop(known, places) for known in sorted(changed, key=_newest_first))
        return _Walk(stops, places, len(stops), is_counted=True, uncounted=uncounted)

    def _whole_walk(self) -> _Walk:
        """Return a walk through all sessions."""
        listed = {known.session_id: known for known in self._catalog.all() if known.listed}
        indexed = self._index.indexed()
        self._index.forget(indexed.keys() - listed.keys())
        self._index.keep_older_of(listed.keys())
        places = RootRooms(self._store.whereabouts)
        indexed |= self._without_outputs(listed.values(), indexed, places)
        stops, total = deque[_Stop](), 0
        for known in sorted(listed.values(), key=_newest_first):
            found = indexed.get(known.session_id)
            if not self._is_current(found, known, places):
                stops.append(_stop(known, places))
                total += 1
            elif places.at(known).room is not None:
                stops.append(_stop(known, places, found))
        return _Walk(stops, places, total)

    def _without_outputs(
        self, concerned: Collection[Known], indexed: Mapping[str, Indexed], places: RootRooms
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

    # -- the steps ----------------------------------------------------------------------

    def _walked(self, walk: _Walk) -> Iterator[LookProgress]:
        """Go on with a walk; yield behind each batch, which is in the index then."""
        batch = _Batch(self._index)
        try:
            while walk.stops:
                stop = walk.stops[0]
                for _ in self._come_to(stop, walk, batch):
                    batch.put()
                    yield walk.far()
                walk.stops.popleft()
                walk.done += stop.found is None
                if batch.is_full:
                    batch.put()
                    yield walk.far()
            batch.put()
        except Exception:
            # What was read and not put, nothing else tells of.
            self._is_walk_due = True
            raise
        yield walk.far()

    def _come_to(self, stop: _Stop, walk: _Walk, batch: _Batch) -> Iterator[None]:
        """Read a session that is behind, and count its texts in its room; yield where the batch is full."""
        session_id, room, found = stop.session_id, stop.room, stop.found
        if room is not None and room.is_full:
            if walk.is_counted:
                self._is_walk_due = True
            else:
                self._index.forget([session_id])
            return
        if room is not None and found is not None:
            fits = room.fits(found.chars)
            if not (found.left_out and fits):
                if not (found.left_out or fits):
                    mark = replace(found, left_out=True)
                    batch.add(Addition(session_id, mark, (), anew=True))
                room.take(found.chars)
                return
        known = self._catalog.known(session_id)
        if known is not None and known.listed:
            yield from self._bring(known, walk, batch)

    def _bring(self, known: Known, walk: _Walk, batch: _Batch) -> Iterator[None]:
        session_id, place = known.session_id, walk.places.at(known)
        self._changed[session_id] = None
        if place.root in walk.stuck:
            return
        found = self._index.indexed_of(session_id)
        room = place.room
        is_counted = walk.is_counted and session_id not in walk.uncounted
        if is_counted and room is not None and found is not None and not found.left_out:
            room.give(found.chars)
        if found and not found.left_out and self._is_current(found, known, walk.places):
            del self._changed[session_id]
            if room is not None:
                room.take(found.chars)
            return
        try:
            chars = yield from self._read(known, found, place, batch)
        except SessiondError as error:
            if place.root is None:
                raise
            # Each other session there would be waited for as long.
            walk.stuck.add(place.root)
            walk.unread.append(Unreadable(printable(known.path), str(error)))
            return
        if room is not None:
            room.take(chars)
            if room.is_full and walk.is_counted:
                self._is_walk_due = True
        # A file that is being written is read again.
        if known.end or not place.is_agents:
            self._changed.pop(session_id, None)

    def _read(
        self, known: Known, found: Indexed | None, place: Place, batch: _Batch
    ) -> Generator[None, None, int]:
        """Read the lines that the index lacks, if there is room; return the session's characters."""
        if found is not None and not _goes_on(found, known, place):
            found = None
        anew, chars = found is None, 0 if found is None else found.chars
        try:
            for mark, texts in self._store.texts_behind(known, found):
                if batch.is_full:
                    yield
                if not place.outputs:
                    texts = [text for text in texts if text.said.part is not Part.OUTPUT]
                chars += sum(text.chars for text in texts)
                mark = replace(mark, chars=chars, outputs=place.outputs)
                if place.room is not None and not place.room.fits(chars):
                    seq, end = known.mark.seen_seq, known.end
                    mark = replace(mark, seq=seq, end=end, left_out=True)
                    batch.add(Addition(known.session_id, mark, (), anew=True))
                    break
                batch.add(Addition(known.session_id, mark, texts, anew))
                anew = False
        except (TextsChanged, StorageError) as error:
            if isinstance(error, StorageError) and error.data()["errno"] != "ENOENT":
                raise
            batch.drop(known.session_id)
            if found is not None and isinstance(error, TextsChanged):
                # The file was written anew since a part of it was indexed.
                return (yield from self._read(known, None, place, batch))
            # The file is not the one that lists know, which report it; the next scan finds out.
            return 0
        return chars

    def _is_current(self, indexed: Indexed | None, known: Known, places: RootRooms) -> bool:
        place = places.at(known)
        if indexed is None or (indexed.epoch, indexed.outputs) != (known.mark.epoch, place.outputs):
            return False
        if place.is_agents or known.mark.is_part:
            # Both are 0 for a file that was just being written.
            return 0 < indexed.end == known.end
        if known.is_file and not indexed.left_out and known.mark.end not in {None, indexed.end}:
            # A file that was written anew, since a part of it was indexed, may have as many lines.
            return False
        return indexed.seq == known.mark.seen_seq


def _stop(known: Known, places: RootRooms, found: Indexed | None = None) -> _Stop:
    mtime_ns = None if known.fingerprint == NOTHING else known.fingerprint.mtime_ns
    return _Stop(known.session_id, mtime_ns, places.at(known).room, found)


def _goes_on(indexed: Indexed, known: Known, place: Place) -> bool:
    if (indexed.epoch, indexed.outputs) != (known.mark.epoch, place.outputs) or indexed.left_out:
        return False
    if place.is_agents:
        return True
    is_behind = indexed.seq < known.mark.seen_seq
    if known.mark.is_part:
        is_behind = indexed.end <= known.end
    # The row may have been changed by hand.
    return is_behind and indexed.end >= 0


def _newest_first(known: Known) -> tuple[bool, int, str]:
    """Return a key by which the session comes first whose file was written last."""
    found = known.fingerprint
    # A file that is being written has no fingerprint.
    return found != NOTHING, -found.mtime_ns, known.session_id
