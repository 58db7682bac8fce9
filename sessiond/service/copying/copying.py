"""Lines of a copy: chosen entries of one session, chained anew, between some new entries.

Law: only the place of a chosen entry changes; the bytes of its payload do not. A copy of all
entries has the source's lines. Any other copy is laid out so:

    first    facts of the session, which stand in no tree
    aside    a chain of its own: state entries from outside the path
    chain    the path: each entry below the one before it
    about    labels and annotations as they were, behind the entries that they are about
    last     entries that the copy adds at its end
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import takewhile
from typing import Final

import msgspec
from msgspec import UNSET, Struct, UnsetType

from sessiond.dialects.base import CopyPlace, Dialect
from sessiond.model.entries import Entry, Header
from sessiond.model.row import MESSAGE_KINDS, Kind
from sessiond.service.copying.labels import without_labels
from sessiond.service.copying.source import CopyDeps, Source, Step, portions
from sessiond.service.log.rewritten import as_stored
from sessiond.session.index import Session

# Kinds that always give a message; a branch summary may be empty and then gives none.
_SAYS: Final = MESSAGE_KINDS | {Kind.CUSTOM_MESSAGE}
# Fields of an entry's place in its own file: its head and its append there.
_OWN_PLACE: Final = ("head", "atom", "atom_of")


class Copying(Struct, frozen=True):
    """A copy that is about to be made."""

    source: Source
    header: Header
    deps: CopyDeps
    first: Sequence[Entry] = ()
    aside: Sequence[Step] = ()
    chain: Sequence[Step] = ()
    about: Sequence[int] = ()
    last: Sequence[Entry] = ()
    renew: bool = False
    picked: bool = False
    """True if the entries were chosen one by one: a tool's result may be here without its call."""
    messages: Mapping[int, int] = {}
    """Number of messages that a compaction keeps, by its line, where the copy keeps not all."""

    @property
    def dialect(self) -> Dialect:
        """Dialect of the source, for the file of the copy."""
        return self.source.opened.dialect.for_file(self.header)


def chunks_of_all(copying: Copying, *, labels: bool) -> Iterator[list[bytes]]:
    """Yield every entry in order, then the entries that the copy adds. Other lines are left out."""
    return as_stored(copying.source.opened, _all(copying, labels=labels))


def _all(copying: Copying, *, labels: bool) -> Iterator[list[bytes]]:
    source, dialect = copying.source, copying.dialect
    session, upto = source.session, source.upto
    ids = _new_ids(copying, range(1, upto + 1))
    # An incomplete append in the copy would look like one whose last lines are being written.
    whole = labels and not session.problem_count
    without = ("atom", "atom_of") if session.rules.atoms and not whole else ()
    yield [dialect.encode_header(copying.header)]
    kept = [
        seq
        for seq in range(1, upto + 1)
        if session.kinds[seq] != Kind.NONE and (labels or session.kinds[seq] != Kind.LABEL)
    ]
    done = 0
    for some in portions(source.opened.journal, kept):
        chunk = source.opened.journal.read_many(some)
        if ids or without or not labels or session.rules.header_is_root:
            places = [
                CopyPlace(
                    ids.get(session.names[seq], session.names[seq]),
                    _root_parent(session, seq),
                    ids=ids,
                    without=without,
                )
                for seq in some
            ]
            if not labels:
                places = list(map(partial(without_labels, copying.source), some, chunk, places))
            chunk = list(map(dialect.placed, chunk, places))
        yield [dialect.restated(line, copying.header) for line in chunk]
        done += len(some)
        copying.deps.progress.report(done, len(kept), "lines")
    writer = _Chain(copying, ids, session.id_of(source.leaf))
    yield [line for entry in copying.last for line in writer.lines([entry])]


def _root_parent(session: Session, seq: int) -> UnsetType | None:
    """Return None for a root that names the header of its own file as its parent."""
    is_root = not session.parents[seq] and seq not in session.rerouted
    return None if is_root and session.rules.header_is_root else UNSET


def chunks_of_chosen(copying: Copying) -> Iterator[list[bytes]]:
    """Yield the chosen entries at their new places, and the entries that the copy adds."""
    return as_stored(copying.source.opened, _chosen(copying))


def _chosen(copying: Copying) -> Iterator[list[bytes]]:
    yield [copying.dialect.encode_header(copying.header)]
    chosen = [
        step for step in (*copying.aside, *copying.chain, *copying.about) if isinstance(step, int)
    ]
    ids = _new_ids(copying, chosen)
    done = 0
    aside = _Chain(copying, ids, None)
    yield list(aside.lines(copying.first))
    main = _Chain(copying, ids, None)
    behind = (*copying.chain, *copying.about, *copying.last)
    for chain, steps in ((aside, copying.aside), (main, behind)):
        for some in portions(copying.source.opened.journal, steps):
            yield list(chain.lines(some))
            done += len(some)
            copying.deps.progress.report(done, len(copying.aside) + len(behind), "lines")


def _new_ids(copying: Copying, seqs: Sequence[int]) -> dict[str, str]:
    """Return the ids of the entries in the copy, by their current ids."""
    if not copying.renew:
        return {}
    session = copying.source.session
    taken: set[str] = set()
    ids: dict[str, str] = {}
    for seq in seqs:
        if session.kinds[seq] != Kind.NONE and session.names[seq] not in ids:
            ids[session.names[seq]] = _free_id(copying, taken)
    return ids


def _free_id(copying: Copying, taken: set[str]) -> str:
    names = copying.source.session.ids
    while (entry_id := copying.deps.new_id()) in names or entry_id in taken:
        pass
    taken.add(entry_id)
    return entry_id


class _Chain:
    """Writer of lines, each below the one before it; a record is never a parent."""

    def __init__(self, copying: Copying, ids: Mapping[str, str], parent_id: str | None) -> None:
        self._copying = copying
        self._dialect = copying.dialect
        self._ids = ids
        self._parent_id = parent_id if parent_id is None else ids.get(parent_id, parent_id)
        self._records = copying.source.session.rules.records
        self._without = _OWN_PLACE if copying.source.session.rules.named_heads else ()
        self._before: list[int] = []
        self._here: set[int] = set()
        self._taken: set[str] = set(ids.values())

    def lines(self, steps: Sequence[Step]) -> Iterator[bytes]:
        """Yield the lines of these steps, in order. Raises StorageError."""
        seqs = [step for step in steps if isinstance(step, int)]
        stored = iter(self._copying.source.opened.journal.read_many(seqs))
        for step in steps:
            yield self._copied(step, next(stored)) if isinstance(step, int) else self._new(step)

    def _copied(self, seq: int, line: bytes) -> bytes:
        session = self._copying.source.session
        name = session.names[seq]
        place = CopyPlace(
            self._ids.get(name, name),
            self._parent_id,
            ids=self._ids,
            first_kept_id=self._first_kept_id(seq),
            messages=self._copying.messages.get(seq),
            without=self._without,
        )
        self._before.append(seq)
        self._here.add(seq)
        self._advance(session.kinds[seq], place.id)
        return self._dialect.placed(line, place)

    def _new(self, entry: Entry) -> bytes:
        copying = self._copying
        entry = msgspec.structs.replace(
            entry,
            id=_free_id(copying, self._taken),
            parent_id=self._parent_id,
            timestamp=copying.deps.now,
        )
        row = self._dialect.row_of(entry)
        self._advance(row.kind, row.id)
        return self._dialect.encode(entry)

    def _advance(self, kind: int, entry_id: str) -> None:
        if kind not in self._records:
            self._parent_id = entry_id

    def _first_kept_id(self, seq: int) -> str | UnsetType | None:
        """Return the first kept entry of a compaction that stands before it in the copy too.

        None if there is no such entry, UNSET for an entry that is no compaction.
        """
        session = self._copying.source.session
        if session.kinds[seq] != Kind.COMPACTION:
            return UNSET
        kept = session.kept_from.get(seq, 0)
        if not kept:
            return None
        first = self._picked_first(seq, kept) if self._copying.picked else self._first(kept)
        name = session.id_of(first)
        return name if name is None else self._ids.get(name, name)

    def _first(self, kept: int) -> int:
        """Return the first entry of one path from line `kept` on; 0 if none is here."""
        at = bisect_left(self._before, kept)
        return self._before[at] if at < len(self._before) else 0

    def _picked_first(self, compaction: int, kept: int) -> int:
        """Return the first of the kept entries, in the order of picking; 0 if none is here.

        From that entry on, no result comes first whose call was left behind.
        """
        session = self._copying.source.session
        kinds = session.kinds
        up = session.up(session.parents[compaction])
        span = set(takewhile(lambda at: at >= kept, up))
        may_say = _SAYS | {Kind.BRANCH_SUMMARY}
        own = min((at for at in span if kinds[at] in may_say), default=0)
        first = says = 0
        span &= self._here
        for at in reversed(self._before):
            if not span:
                break
            if kinds[at] in _SAYS:
                says = at
            if at in span:
                span.remove(at)
                if not says or kinds[says] != Kind.TOOL or says == own:
                    first = at
        return first
