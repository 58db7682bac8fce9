"""The records of another agent's file, in the order in which a reading takes them.

Most lines are one record each. A damaged line may hold whole records beside fragments of records: each whole
one is a record of its own here. A record that stands before its parent in the file waits for the parent, so
that a parent always comes first; where the file lacks the parent, nothing waits.

Law: records are counted from 1, in the order in which they are taken. A line without a record counts as
one, so a record of a file without damaged lines has the number of its line.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Final

from msgspec import Struct

from sessiond.dialects.agents.reading import Links, Reading
from sessiond.dialects.agents.source_line import SourceLine, source_line
from sessiond.dialects.base import BadLine
from sessiond.dialects.lenient_json import text
from sessiond.dialects.recovery import Piece, pieces
from sessiond.limits import AGENT_HELD_BYTES_MAX
from sessiond.model.entries import Entry, Opaque
from sessiond.model.times import rfc3339

_NONE_BEHIND: Final[tuple[bytes, ...]] = ()


class Taken(Struct, frozen=True):
    """A record or a line without one: its bytes, the number of its line, and what the reading made.

    `entry` is None for what is no record, and `why` says the reason. `bridge` is the entry at which the
    path goes on where the parent is missing. `damage` says what is wrong with the line, on its first
    record.
    """

    line: int
    raw: bytes
    entry: Entry | Opaque | None = None
    why: str = ""
    bridge: str | None = None
    damage: str | None = None


class _Record(Struct):
    """A record that was found, or a line without one, before the reading takes it."""

    line: int
    source: SourceLine
    links: Links = Links()
    why: str = ""
    damage: str | None = None


class Transcript:
    """The records so far of one file, for one reading."""

    def __init__(
        self, reading: Reading, behind: Callable[[], Iterable[bytes]] | None = None
    ) -> None:
        """Make the records of a file's lines; `behind` reads on, without effect, behind those lines."""
        self.reading = reading
        self._behind = behind
        self._line = 0
        self._number = 0
        # The time of the last record with one, as it is spelled.
        self._timed: bytes | None = None
        # Names of records that stand behind; None until a record has a parent that did not come yet.
        self._later: set[str] | None = None
        # Records that wait, by the name of the record that they wait for; their own names, and their bytes.
        self._waiting: dict[str, list[_Record]] = {}
        self._waiting_names: set[str] = set()
        self._held = 0

    def take(
        self, lines: Sequence[bytes], *, is_last: bool, first: int | None = None
    ) -> Iterator[Taken]:
        """Yield what the next lines hold. Behind the last line of a file nothing waits any longer.

        `first` is the number of the first line in its file, if the lines do not follow those before.
        """
        ahead, number = deque(lines), self._line if first is None else first - 1
        self._line = number + len(lines)
        while ahead:
            line = ahead.popleft()
            number += 1
            if not line or line.isspace():
                # A small file may have hundreds of thousands of such lines.
                self._number += 1
                yield Taken(number, line)
                continue
            try:
                source = source_line(self._number + 1, line)
            except BadLine as bad:
                for record in self._recovered(line, number, str(bad)):
                    yield from self._put(record, ahead)
                continue
            links = self.reading.links(source)
            if self._later is None and self._is_ready(links):
                # As most lines are: nothing waits, and the parent is there.
                yield self._read(number, source)
            else:
                yield from self._put(_Record(number, source, links), ahead)
        if is_last:
            yield from self._release()
            self._later = None

    def state(self) -> object | None:
        """Return what the records so far leave to later ones, for `resume`; None while a record waits."""
        if self._waiting or self._later is not None:
            return None
        return self.reading, self._line, self._number, self._timed

    def resume(self, state: Any) -> None:
        """Go on behind the records of another transcript, of which this is the state."""
        self.reading, self._line, self._number, self._timed = state

    # -- lines -------------------------------------------------------------------------------

    def _recovered(self, line: bytes, number: int, why: str = "") -> list[_Record]:
        """Return the records on a damaged line; the line itself, with the reason, if there is none."""
        found: list[_Record] = []
        # What stands for a line that is too long is none of its bytes.
        for piece in pieces(line) if type(line) is bytes else ():
            source = self._own(piece)
            if source is not None:
                found.append(_Record(number, source, self.reading.links(source)))
        if not found:
            return [_Record(number, SourceLine(0, {}, line), why=why)]
        rest = len(line.strip()) - sum(len(one.source.raw) for one in found)
        what = f"whole records {len(found)}, other bytes {rest}"
        found[0].damage = f"line {number} of the file is damaged: {what}"
        return found

    def _own(self, piece: Piece) -> SourceLine | None:
        """Return an object on a damaged line as a record; None if it is none.

        An object that may be quoted in a record that was cut off is a record if it is a new one, and no
        older than the records before. At an edge of the line it is a record, too, if it says a message
        anew: a quote rarely stands right beside the cut.
        """
        try:
            source = source_line(0, piece.data)
        except BadLine:
            return None
        if not self.reading.is_own(source):
            return None
        if piece.is_apart or (piece.is_at_edge and self.reading.is_again(source)):
            return source
        name, time = self.reading.links(source).name, source.time()
        is_old = bool(time) and self._timed is not None and time < rfc3339(text(self._timed))
        return None if is_old or (name is not None and self.reading.knows(name)) else source

    # -- order -------------------------------------------------------------------------------

    def _put(self, record: _Record, ahead: Iterable[bytes]) -> Iterator[Taken]:
        """Yield a record, and those that waited for the record; nothing if the record waits."""
        name, parent = record.links.name, record.links.parent
        if self._later is not None and name is not None:
            self._later.discard(name)
        if (
            parent is not None
            and not self._is_ready(record.links)
            and self._is_later(parent, ahead)
        ):
            self._waiting.setdefault(parent, []).append(record)
            self._waiting_names.add(name or "")
            self._held += len(record.source.raw)
            if self._held > AGENT_HELD_BYTES_MAX:
                yield from self._release()
            return
        yield from self._taken(record)

    def _is_ready(self, links: Links) -> bool:
        """Return whether a record has no parent, or a known one."""
        parent = links.parent
        return parent is None or parent == links.name or self.reading.knows(parent)

    def _is_later(self, parent: str, ahead: Iterable[bytes]) -> bool:
        """Return whether a record of the file that was not taken yet has this name."""
        if self._later is None:
            self._later = self._names(ahead)
        return parent in self._later or parent in self._waiting_names

    def _names(self, ahead: Iterable[bytes]) -> set[str]:
        """Return the names of all records behind the last one. Reads the file to its end, once."""
        found: set[str] = set()
        behind = _NONE_BEHIND if self._behind is None else self._behind()
        for line in chain(ahead, behind):
            try:
                names = [self.reading.links(source_line(0, line)).name]
            except BadLine:
                names = [record.links.name for record in self._recovered(line, 0)]
            found.update(name for name in names if name is not None)
        return found

    def _taken(self, first: _Record) -> Iterator[Taken]:
        """Yield a record, and all records that waited for it or for one of those."""
        ready = deque((first,))
        while ready:
            record = ready.popleft()
            self._waiting_names.discard(record.links.name or "")
            yield self._taken_now(record)
            held = self._waiting.pop(record.links.name or "", ())
            self._held -= sum(len(one.source.raw) for one in held)
            ready.extend(held)

    def _release(self) -> Iterator[Taken]:
        """Yield the records that wait for one that does not come, in the order of the file."""
        held = [one for waiting in self._waiting.values() for one in waiting]
        self._waiting, self._held = {}, 0
        self._waiting_names.clear()
        for record in sorted(held, key=lambda one: one.line):
            yield self._taken_now(record)

    def _taken_now(self, record: _Record) -> Taken:
        """Return what the reading makes of a record; a line without a record counts as one."""
        raw = record.source.raw
        if record.why:
            self._number += 1
            return Taken(record.line, raw, None, record.why)
        source = SourceLine(self._number + 1, record.source.members, raw)
        return self._read(record.line, source, record.damage)

    def _read(self, line: int, source: SourceLine, damage: str | None = None) -> Taken:
        """Return what the reading makes of the next record."""
        self._number = source.number
        if "timestamp" in source.members:
            # A copy: a slice would keep the whole line in memory.
            self._timed = bytes(source.members["timestamp"])
        try:
            entry = self.reading.take(source)
        except BadLine as bad:
            return Taken(line, source.raw, None, str(bad), None, damage)
        return Taken(line, source.raw, entry, "", self.reading.bridge, damage)
