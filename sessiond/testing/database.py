"""A database of sessions in memory, for tests of what is built on the port.

    place = MemoryDatabase()
    store = DatabaseStore(place.connection(), files)

Connections of one place see its sessions, as the daemons of several machines do.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import accumulate, chain
from queue import Empty, SimpleQueue
from typing import Any

from msgspec import structs

from sessiond.errors import StorageError
from sessiond.journal.splitter import joined
from sessiond.limits import (
    DATABASE_PIECE_BYTES,
    DATABASE_PIECE_LINES,
    OPEN_NOTE_COUNTS_SECONDS,
    SENDER_KEPT_SECONDS,
)
from sessiond.service.database.database import (
    NO_LINES,
    NO_TOKEN,
    ChangedHeads,
    Head,
    Place,
    StoredDocument,
    Totals,
    Trashed,
    chained,
    size_of,
)
from sessiond.testing.company import MemoryCompany

__all__ = ["MemoryConnection", "MemoryDatabase"]

_PATIENCE_SECONDS = 20.0


class MemoryDatabase:
    """The rows and lines of a place. Safe in any thread."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        """Take the clock of the place."""
        self.now_ns = now_ns
        self.guard = threading.Lock()
        self.holders: dict[int, MemoryHold] = {}
        """The holds on rows; other writers of these rows wait for their ends."""
        self.released = threading.Condition(self.guard)
        self.heads: dict[int, Head] = {}
        self.lines: dict[int, list[bytes]] = {}
        self.changes: dict[int, int] = {}
        """The number of each row's last change."""
        self.last_change = 0
        self.reserved: dict[str, int] = {}
        self.documents: dict[tuple[str, str], StoredDocument] = {}
        """Documents of the state store by kind and namespace."""
        self.claims: dict[str, tuple[str, int]] = {}
        """The holder of each piece of work, and the end of the claim by the clock of the place."""
        self.beats: dict[str, int] = {}
        self.open_notes: dict[str, tuple[frozenset[int], int]] = {}
        """The sessions that each daemon has open, and when the daemon noted them."""
        self.bells: set[SimpleQueue[frozenset[int]]] = set()
        """The rings that each connection has not heard yet."""
        self.company = MemoryCompany(now_ns, self._keep_noted_daemons)

    def _keep_noted_daemons(self) -> set[str]:
        """Remove the daemons that have noted nothing within SENDER_KEPT_SECONDS; return those that stay."""
        since = self.now_ns() - int(SENDER_KEPT_SECONDS * 1e9)
        with self.guard:
            noted = {daemon for daemon, (_, at) in self.open_notes.items() if at > since}
            for daemon in self.beats.keys() - noted:
                self.beats.pop(daemon)
                self.open_notes.pop(daemon, None)
        return noted

    def connection(self) -> MemoryConnection:
        """Return a connection of one more daemon."""
        return MemoryConnection(self)

    # -- under the guard -------------------------------------------------------------------

    def put(self, head: Head) -> Head:
        """Keep a row, and return the row as it was read now."""
        head = self.heads[head.number] = structs.replace(head, now_ns=self.now_ns())
        self.last_change += 1
        self.changes[head.number] = self.last_change
        return head

    def at(self, at: Head) -> Head | None:
        """Return the row if the session is still at a position."""
        there = self.heads.get(at.number)
        if there is None or there.is_deleted:
            return None
        position = (there.epoch, there.seq, there.digest, there.version)
        return there if position == (at.epoch, at.seq, at.digest, at.version) else None

    def append(self, at: Head, lines: Sequence[bytes], digest: bytes) -> Head | None:
        """Store lines behind a position, in the place of `at`; None if the session is elsewhere by now."""
        there = self.at(at)
        if there is None:
            return None
        if len(self.lines[at.number]) > there.seq + 1:
            text = "there are lines behind the last one that the row of the session counts"
            raise StorageError(text, errno="EEXIST", path=at.session_id, retryable=False)
        self.lines[at.number] += lines
        return self.put(
            structs.replace(
                there,
                seq=there.seq + len(lines),
                digest=digest,
                size=there.size + size_of(lines),
                place=at.place,
                version=there.version + (at.place != there.place),
                written_ns=self.now_ns(),
            )
        )


class MemorySent:
    """An append on its way: the port `SentAppend`."""

    def __init__(self, append: Callable[[], Head | None]) -> None:
        """Take what stores the lines."""
        self.stored = append


class MemoryHold:
    """A held row of a `MemoryDatabase`: the port `HeldRow`."""

    def __init__(self, place: MemoryDatabase, head: Head, lines: Sequence[bytes]) -> None:
        self.head = head
        self.lines = lines
        self._place = place

    def send(self, at: Head, lines: Sequence[bytes], digest: bytes, *, sync: bool) -> MemorySent:
        """Begin an append that releases the row."""
        del sync
        return MemorySent(partial(self._append, at, lines, digest))

    def _append(self, at: Head, lines: Sequence[bytes], digest: bytes) -> Head | None:
        with self._place.guard:
            stored = self._place.append(at, lines, digest) if self._is_held else None
            self._release()
            return stored

    def release(self) -> None:
        """Let other writers have the row."""
        with self._place.guard:
            self._release()

    @property
    def _is_held(self) -> bool:
        return self._place.holders.get(self.head.number) is self

    def _release(self) -> None:
        if self._is_held:
            del self._place.holders[self.head.number]
            self._place.released.notify_all()


class MemoryConnection:
    """A connection to a `MemoryDatabase`: the port `SessionDatabase`."""

    name = "a database in memory"
    unreachable_since: float | None = None
    notifications = True

    def __init__(self, place: MemoryDatabase) -> None:
        self._place = place
        self._bell: SimpleQueue[frozenset[int]] = SimpleQueue()
        self._heads = place.heads
        self._lines = place.lines

    @property
    def company(self) -> MemoryCompany:
        """The tables of signals and presence."""
        return self._place.company

    @property
    def _guard(self) -> threading.Lock:
        """The lock of the place. Every method waits, as for a real database: the loop must call none."""
        time.sleep(0)
        return self._place.guard

    @contextmanager
    def _changing(self, number: int) -> Generator[None]:
        """Take the guard once no other writer holds the row of a session."""
        with self._guard:
            holders = self._place.holders
            if not self._place.released.wait_for(lambda: number not in holders, _PATIENCE_SECONDS):
                text = f"could not change a session at {self.name}: the row is held"
                raise StorageError(text, errno="ETIMEDOUT", path=self.name, retryable=True)
            yield

    # -- rows ----------------------------------------------------------------------------

    def create(
        self,
        session_id: str,
        epoch: str,
        chunks: Iterable[Sequence[bytes]],
        place: Place,
        leases: bytes = b"",
    ) -> Head | None:
        """Store a session, all lines or none; None if a session has the id."""
        lines = list(chain.from_iterable(chunks))
        with self._guard:
            if self._alive(session_id) is not None:
                return None
            return self._insert(session_id, epoch, lines, place, leases)

    def _insert(
        self, session_id: str, epoch: str, lines: list[bytes], place: Place, leases: bytes = b""
    ) -> Head:
        number = max(self._heads, default=0) + 1
        self._lines[number] = lines
        size = size_of(lines)
        head = Head(
            number,
            session_id,
            epoch,
            len(lines) - 1,
            chained(NO_LINES, lines),
            size,
            place,
            is_deleted=False,
            written_ns=self._place.now_ns(),
            version=0,
            leases=leases,
            now_ns=0,
        )
        return self._place.put(head)

    def _change(self, head: Head, **changes: Any) -> Head:
        """Change a row otherwise than by an append."""
        return self._place.put(structs.replace(head, version=head.version + 1, **changes))

    def _alive(self, session_id: str) -> Head | None:
        for head in self._heads.values():
            if head.session_id == session_id and not head.is_deleted:
                return head
        return None

    def find(self, session_id: str) -> Head | None:
        """Return the row of the session of this id that is not deleted; None without one."""
        with self._guard:
            head = self._alive(session_id)
            return None if head is None else self._seen(head)

    def _seen(self, head: Head) -> Head:
        """Return a row as it is read now, with the senders of the session."""
        senders = self._place.company.senders_of(head.number)
        return structs.replace(head, now_ns=self._place.now_ns(), senders=senders)

    def ids(self, limit: int) -> list[str]:
        """Return the ids of sessions that are no drafts, those made last first; archived ones last."""
        with self._guard:
            alive = [head for head in self._heads.values() if not head.is_deleted]
            shown = [head for head in alive if head.place != "draft"]
            shown.sort(key=lambda head: (head.place == "archived", -head.number))
            return [head.session_id for head in shown[:limit]]

    def heads(self, numbers: Sequence[int]) -> list[Head]:
        """Return the rows of sessions, deleted or not; unknown numbers are left out."""
        with self._guard:
            return [self._seen(self._heads[each]) for each in numbers if each in self._heads]

    # -- lines ---------------------------------------------------------------------------

    def append(self, at: Head, lines: Sequence[bytes], digest: bytes, *, sync: bool) -> Head | None:
        """Store lines behind a position, in the place of `at`; None if the session is elsewhere by now."""
        del sync
        with self._changing(at.number):
            return self._place.append(at, lines, digest)

    def send(self, at: Head, lines: Sequence[bytes], digest: bytes, *, sync: bool) -> MemorySent:
        """Begin an append, which takes effect where its outcome is waited for."""
        return MemorySent(partial(self.append, at, lines, digest, sync=sync))

    def hold(self, at: Head) -> MemoryHold | None:
        """Wait in turn for the row of a session, and hold the row; None for an unknown number."""
        with self._changing(at.number):
            head = self._heads.get(at.number)
            if head is None:
                return None
            lines = self._piece(at.number, at.seq + 1, head.seq)
            held = MemoryHold(self._place, self._seen(head), lines)
            self._place.holders[at.number] = held
            return held

    def fence(self, number: int) -> Head | None:
        """Count the version of a session up, and return the row; None for an unknown number."""
        with self._changing(number):
            head = self._heads.get(number)
            return None if head is None else self._change(head)

    def lease(self, at: Head, leases: bytes) -> Head | None:
        """Replace the leases of a session; None if the session has another version, or is deleted."""
        with self._changing(at.number):
            there = self._heads.get(at.number)
            if there is None or there.is_deleted or there.version != at.version:
                return None
            return self._change(there, leases=leases)

    def ring(self, numbers: Collection[int]) -> None:
        """Tell the other connections that these sessions have changed."""
        with self._guard:
            for bell in self._place.bells - {self._bell}:
                bell.put(frozenset(numbers))

    def wait(self, seconds: float) -> frozenset[int] | None:
        """Wait until another connection rings, or so many seconds."""
        with self._guard:
            self._place.bells.add(self._bell)
        try:
            return self._bell.get(timeout=min(seconds, threading.TIMEOUT_MAX))
        except Empty:
            return None

    def stop_listening(self) -> None:
        """Hear no rings until the next `wait`."""
        with self._guard:
            self._place.bells.discard(self._bell)
        self._bell = SimpleQueue()

    def beat(self, daemon: str, open_numbers: Collection[int]) -> None:
        """Count the beats of a daemon up, and note which sessions the daemon has open."""
        with self._guard:
            self._place.beats[daemon] = self._place.beats.get(daemon, 0) + 1
            self._place.open_notes[daemon] = frozenset(open_numbers), self._place.now_ns()

    def beats(self) -> dict[str, int]:
        """Return the number of beats of each daemon."""
        with self._guard:
            return dict(self._place.beats)

    def forget_daemons(self, daemons: Sequence[str]) -> None:
        """Remove the beats of daemons that have ended."""
        with self._guard:
            for daemon in daemons:
                self._place.beats.pop(daemon, None)
                self._place.open_notes.pop(daemon, None)

    def sync(self) -> None:
        """Do nothing: there is no disk."""

    def pieces(
        self, number: int, first: int, last: int, *, ahead: bool = False
    ) -> Generator[bytes]:
        """Yield the lines `first` to `last` of a session, both included, as a file has them."""
        del ahead  # nothing is far away
        while first <= last:
            with self._guard:
                some = self._piece(number, first, last)
            if not some:
                return
            first += len(some)
            yield joined(some)

    def _piece(self, number: int, first: int, last: int) -> list[bytes]:
        """Return the first lines of a range, at least one if there is any."""
        some = self._lines.get(number, [])[first : min(first + DATABASE_PIECE_LINES, last + 1)]
        ends = list(accumulate(map(len, some)))
        return some[: max(bisect_right(ends, DATABASE_PIECE_BYTES), 1)]

    # -- places --------------------------------------------------------------------------

    def move(self, at: Head, place: Place) -> Head | None:
        """Bring a session to a place; None if the session is deleted, or has another epoch or version."""
        with self._changing(at.number):
            head = self._heads.get(at.number)
            if head is None or head.is_deleted:
                return None
            if (head.epoch, head.version) != (at.epoch, at.version):
                return None
            if head.place == "archived" != place:
                head = structs.replace(head, written_ns=self._place.now_ns())
            return self._change(head, place=place)

    def delete(
        self, at: Head, *, unless_appended: bool = False, epoch: str | None = None
    ) -> Head | None:
        """Delete a session, which stays until `purge`; None for a deleted one, or another version or position."""
        with self._changing(at.number):
            head = self._heads.get(at.number)
            if head is None or head.is_deleted or head.version != at.version:
                return None
            if unless_appended and self._place.at(at) is None:
                return None
            return self._delete(head, epoch)

    def _delete(self, head: Head, epoch: str | None = None) -> Head:
        return self._change(head, is_deleted=True, leases=b"", epoch=epoch or head.epoch)

    def open_elsewhere(self, daemon: str) -> list[str]:
        """Return the ids of the sessions that other daemons have noted as open."""
        with self._guard:
            noted = self._noted_elsewhere(daemon)
            found = [self._heads[number] for number in noted if number in self._heads]
            return [head.session_id for head in found if not head.is_deleted]

    def _noted_elsewhere(self, daemon: str) -> set[int]:
        since = self._place.now_ns() - int(OPEN_NOTE_COUNTS_SECONDS * 1e9)
        notes = self._place.open_notes.items()
        noted = [numbers for other, (numbers, at) in notes if other != daemon and at > since]
        return {number for numbers in noted for number in numbers}

    def delete_unused(self, number: int | None, before_ns: int, daemon: str) -> list[int]:
        """Delete a session, or all drafts, if unused since a time; return what was deleted."""
        with self._guard:
            noted = self._noted_elsewhere(daemon)
            found = [
                head
                for head in self._heads.values()
                if not head.is_deleted
                and (head.place == "draft" if number is None else head.number == number)
                and head.place != "archived"
                and head.written_ns < before_ns
                and head.number not in noted
            ]
            return [self._delete(head).number for head in found]

    def restore(self, at: Head) -> Head | None:
        """Bring a deleted session back; None if no session of this version is in the trash, or the id is taken."""
        with self._changing(at.number):
            head = self._heads.get(at.number)
            if head is None or not (head.is_deleted and self._lines[at.number]):
                return None
            if head.version != at.version:
                return None
            if self._alive(head.session_id) is not None:
                return None
            return self._change(head, is_deleted=False)

    def renew(self, at: Head, epoch: str, digest: bytes) -> Head | None:
        """Give a session another epoch at an unchanged position; None as for `append`."""
        with self._changing(at.number):
            there = self._place.at(at)
            if there is None:
                return None
            return self._change(there, epoch=epoch, digest=digest, leases=b"")

    def replace(self, at: Head, epoch: str, chunks: Iterable[Sequence[bytes]]) -> Head | None:
        """Put a new session in the place of one at this position; None as for `append`."""
        lines = list(chain.from_iterable(chunks))
        with self._changing(at.number):
            there = self._place.at(at)
            if there is None:
                return None
            self._delete(there)
            return self._insert(there.session_id, epoch, lines, there.place)

    # -- the trash -----------------------------------------------------------------------

    def _in_trash(self) -> list[Head]:
        """Return the deleted sessions that have lines, those made last first."""
        found = (head for head in self._heads.values() if head.is_deleted)
        return sorted((one for one in found if self._lines[one.number]), key=_number, reverse=True)

    def purge(self, session_id: str) -> int:
        """Remove the deleted sessions of an id for good; return how many there were."""
        with self._guard:
            found = [head for head in self._in_trash() if head.session_id == session_id]
            for head in found:
                self._lines[head.number] = []
                self._place.company.remove(head.number)
                self._change(head, seq=-1, digest=NO_LINES, size=0)
            return len(found)

    def trashed(self, limit: int, before: int | None) -> list[Trashed]:
        """Return deleted sessions, those made last first, with numbers below `before`."""
        with self._guard:
            found = [one for one in self._in_trash() if before is None or one.number < before]
            return [Trashed(one, self._lines[one.number][0]) for one in found[:limit]]

    def newest_trashed(self, session_id: str) -> Head | None:
        """Return the session of an id that was deleted and made last; None without one."""
        with self._guard:
            return next((one for one in self._in_trash() if one.session_id == session_id), None)

    # -- all of them ---------------------------------------------------------------------

    def changes(self, after: int) -> ChangedHeads:
        """Return the rows with changes behind a number; all rows behind 0."""
        with self._guard:
            upto = self._place.last_change
            later = sorted(
                (at, number)
                for number, at in self._place.changes.items()
                if after == 0 or after < at <= upto
            )
            heads = self._heads.values()
            totals = Totals(
                len(heads), sum(head.version for head in heads), sum(head.seq for head in heads)
            )
            return ChangedHeads([self._heads[number] for _, number in later], upto, totals)

    def holding(self, text: bytes) -> Iterator[str]:
        """Yield the ids of the sessions that have a line with these bytes, those made last first."""
        with self._guard:
            found = [
                head.session_id
                for head in sorted(self._heads.values(), key=_number, reverse=True)
                if not head.is_deleted and any(text in line for line in self._lines[head.number])
            ]
        yield from found

    def document_tokens(self, kind: str) -> dict[str, bytes]:
        """Return the tokens of all documents of a kind, by namespace."""
        with self._guard:
            known = self._place.documents
            return {key[1]: one.token for key, one in known.items() if key[0] == kind}

    def document(self, kind: str, namespace: str, unless: bytes) -> StoredDocument | None:
        """Return a document; None if the document has the token `unless`."""
        with self._guard:
            found = self._document(kind, namespace)
            return None if found.token == unless else found

    def put_document(self, kind: str, namespace: str, at: bytes, token: bytes, data: bytes) -> bool:
        """Replace a document that has the token `at`; return whether the document had it."""
        with self._guard:
            if self._document(kind, namespace).token != at:
                return False
            self._place.documents[kind, namespace] = StoredDocument(token, data)
            return True

    def fence_document(self, kind: str, namespace: str, token: bytes) -> bytes:
        """Give a document another token, and return its data."""
        with self._guard:
            data = self._document(kind, namespace).data
            self._place.documents[kind, namespace] = StoredDocument(token, data)
            return data

    def _document(self, kind: str, namespace: str) -> StoredDocument:
        return self._place.documents.get((kind, namespace), StoredDocument(NO_TOKEN, b""))

    def reserve(self, name: str, least: int, count: int) -> int:
        """Reserve `count` numbers under a name, from `least` on or behind; return the first."""
        with self._guard:
            first = max(least, self._place.reserved.get(name, 0))
            self._place.reserved[name] = first + count
            return first

    def claim(self, work: str, holder: str, seconds: float) -> bool:
        """Let a holder have a piece of work, unless another holder has the work."""
        with self._guard:
            now_ns = self._place.now_ns()
            there, ends_ns = self._place.claims.get(work, (holder, 0))
            if there != holder and ends_ns > now_ns:
                return False
            self._place.claims[work] = holder, now_ns + int(seconds * 1e9)
            return True

    def end_claim(self, work: str, holder: str) -> None:
        """End the claim of a holder."""
        with self._guard:
            if self._place.claims.get(work, ("", 0))[0] == holder:
                del self._place.claims[work]

    def now_ns(self) -> int:
        """Return the time by the clock of the place."""
        with self._guard:
            return self._place.now_ns()

    def close(self) -> None:
        """Hear no more rings; the place outlives its connections."""
        self._place.bells.discard(self._bell)
        # Wakes a thread that still waits.
        self._bell.put(frozenset())


def _number(head: Head) -> int:
    return head.number
