"""Conversion of a session's entries to the lines of another program.

Law: the copy has the entries of the source with their ids, and each stands below its parent. An entry
that the other program cannot have is left out and counted; its children go to the next entry up. The
head main stands in the copy where it stands in the source.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from sessiond.dialects.base import Dialect
from sessiond.dialects.entry_members import entry_of
from sessiond.dialects.lenient_json import fields, text
from sessiond.dialects.times import raw_rfc3339
from sessiond.model.entries import (
    ENTRY_TYPES,
    Compaction,
    Custom,
    Header,
    Leaf,
    Message,
    Opaque,
    SessionInfoEntry,
)
from sessiond.model.ids import MAIN
from sessiond.model.row import MESSAGE_KINDS, Kind
from sessiond.service.exporting.compactions import compaction_forms
from sessiond.service.exporting.copy import Copy
from sessiond.service.exporting.forms import Form, weaker_forms
from sessiond.service.exporting.losses import Losses
from sessiond.service.exporting.messages import (
    KEPT,
    SILENT,
    UNSEEN,
    Said,
    part_id,
    ways_to_say,
)
from sessiond.service.exporting.visibility import MAY_DIFFER, changed_visibility
from sessiond.service.log.open_session import OpenSession
from sessiond.session.draft import Staged

_ENVELOPE: Final = frozenset({"id", "parent_id", "timestamp", "head", "atom", "atom_of"})
_HEADS: Final = "entries of named heads became branches without a name"
_FACTS: Final = "facts of the header were left out"
# The title is written behind the last entry; folder, id and time are in every header.
_HEADER_FACTS: Final = (
    "agent",
    "model",
    "tags",
    "system_prompt",
    "compaction",
    "dry_run",
    "metadata",
)
_EDITS: Final = "edits of earlier messages were left out: the messages are as they were first"
_NO_MESSAGE: Final = "messages that cannot be read were left out"


class Standing(Struct, frozen=True):
    """A session as of line `upto`: the leaf of main, and the title."""

    upto: int
    leaf: int
    title: str | None


class Converter:
    """Writer of one session's entries as lines of another dialect.

    `at` is the last line that is converted, and what the session says there.
    """

    def __init__(self, opened: OpenSession, target: Dialect, at: Standing) -> None:
        self._opened = opened
        self._at = at
        header = replace(opened.header, version=UNSET, id=opened.session_id)
        dialect = target.for_file(header)
        self.header_line = dialect.encode_header(header)
        now = opened.session.updated_at or opened.created_at
        self._copy = Copy(dialect, opened.session_id, now)
        self.losses = Losses()
        self._own_title = self._note_header(header)
        # The line of the copy at which the entries below each line of the source stand, and whether
        # the line itself is in the copy.
        self._places = array("q", bytes(8 * (at.upto + 1)))
        self._carried = bytearray(at.upto + 1)
        self._held: Said | None = None

    def convert(self, seqs: Sequence[int], lines: Iterable[bytes]) -> list[bytes]:
        """Return the lines of the copy for the next entries of the source. Raises StorageError."""
        for seq, line in zip(seqs, lines, strict=True):
            self._convert(seq, line)
        return self._copy.take_lines()

    def end(self) -> list[bytes]:
        """Return the lines behind the last entry."""
        self._let_go()
        copy, leaf = self._copy, self._places[self._at.leaf]
        copy.put_main(leaf)
        lines = copy.take_lines()
        # A title may have been made of the first message, or stand in the header alone.
        title = copy.session.facts.get("title") or self._own_title
        if self._at.title and title != self._at.title:
            copy.add([(SessionInfoEntry(name=self._at.title), "")], copy.session.heads[MAIN].leaf)
            lines += copy.take_lines()
        return lines

    def _note_header(self, header: Header) -> str | None:
        """Note the facts that the copy's first line cannot hold; return the title that the line holds."""
        held = self._copy.dialect.decode_header(self.header_line)
        for name in _HEADER_FACTS:
            stated = getattr(header, name)
            if stated is not None and stated is not UNSET and getattr(held, name) != stated:
                self.losses.add(_FACTS)
        return held.title

    # -- one entry -----------------------------------------------------------------

    def _convert(self, seq: int, line: bytes) -> None:
        session, dialect = self._opened.session, self._opened.dialect
        kind = session.kinds[seq]
        wire = fields(dialect.wire(line))
        stamp = wire.get("timestamp")
        time = text(stamp) or raw_rfc3339(stamp) or UNSET
        if kind in MESSAGE_KINDS:
            self._message(seq, line, wire, time if isinstance(time, str) else "")
            return
        self._let_go()
        if kind == Kind.CONTEXT_EDIT:
            self._leave_out(seq, _EDITS)
            return
        entry = _entry_of(wire, is_opaque=kind == Kind.OPAQUE)
        if isinstance(entry, str):
            self._leave_out(seq, entry)
            return
        entry.id, entry.timestamp = session.names[seq], time
        if isinstance(entry, Leaf):
            self._move(seq, entry)
            return
        self._note_head(wire)
        self._refer(seq, entry)
        if isinstance(entry, Compaction):
            forms = compaction_forms(self._opened, seq, line, entry, self._copy.dialect)
        else:
            forms = _forms(entry, self._copy.dialect)
        place, loss = self._copy.add(forms, self._places[session.parents[seq]])
        if not place:
            self._leave_out(seq, f"entries were left out: {loss}")
            return
        self.losses.add(loss)
        if kind in MAY_DIFFER and self._copy.kind(place) == kind:
            copied = (self._copy.dialect, self._copy.line_of(place))
            self.losses.add(changed_visibility(kind, (dialect, line), copied))
        self._carry(seq, place)

    def _carry(self, seq: int, place: int) -> None:
        """Note that a line of the source is in the copy, and where the entries below the line stand."""
        self._carried[seq] = True
        kind = self._copy.kind(place)
        is_record = kind in self._copy.dialect.rules.records
        self._places[seq] = self._places[self._opened.session.parents[seq]] if is_record else place

    def _leave_out(self, seq: int, why: str) -> None:
        self.losses.add(why)
        self._places[seq] = self._places[self._opened.session.parents[seq]]

    def _note_head(self, wire: dict[str, Raw]) -> None:
        if (text(wire.get("head")) or MAIN) != MAIN:
            self.losses.add(_HEADS)

    def _move(self, seq: int, entry: Leaf) -> None:
        """Write a move of main, if the copy records moves; else only the last place counts."""
        session = self._opened.session
        place = self._places[session.parents[seq]]
        self._places[seq] = place
        if self._copy.dialect.rules.moves == "leaf" and entry.reason != "drop":
            moved = Leaf(target_id=self._copy.id_of(place), id=entry.id, timestamp=entry.timestamp)
            self._copy.add([(moved, "")], place)
            self._carried[seq] = True

    def _refer(self, seq: int, entry: Staged) -> None:
        """Let a compaction name its first kept entry as the copy has one."""
        if not (isinstance(entry, Compaction) and entry.messages is UNSET):
            return
        session = self._opened.session
        kept, first = session.kept_from.get(seq, 0), 0
        at = session.parents[seq]
        while kept and at >= kept:
            first = at if self._carried[at] else first
            at = session.parents[at]
        entry.first_kept_entry_id = session.id_of(first)

    # -- messages ------------------------------------------------------------------

    def _message(self, seq: int, line: bytes, wire: dict[str, Raw], time: str) -> None:
        session = self._opened.session
        reading = self._opened.dialect.reading(line)
        entry_id, parent = session.names[seq], session.parents[seq]
        held = self._held
        if held is not None and reading is not None and held.goes_on(parent, entry_id):
            held.take(seq, reading)
            return
        self._let_go()
        if reading is None:
            self._leave_out(seq, _NO_MESSAGE)
            return
        self._note_head(wire)
        said = Said([seq], entry_id, reading, time, wire.get("message"))
        if reading.is_result:
            self._held = said
        else:
            self._say(said)

    def _let_go(self) -> None:
        """Write the results that were held back: the entry at hand does not go on with them."""
        held, self._held = self._held, None
        if held is not None:
            self._say(held)

    def _say(self, said: Said) -> None:
        """Write a message in the first way that the dialect takes."""
        above = self._places[self._opened.session.parents[said.seqs[0]]]
        refused = SILENT
        for messages, loss in ways_to_say(
            self._copy.dialect, said.reading, said.timestamp, said.stored
        ):
            place, refusal = self._write(said, messages, above)
            if place != above:
                self.losses.add(loss)
                self.losses.add(refusal)
                self._carried[said.seqs[0]] = True
                break
            if messages[0] is not said.stored:
                refused = refusal
        else:
            place = self._keep_unseen(said, above) if refused == SILENT else 0
            self.losses.add("" if place else refused)
            place = place or above
        for seq in said.seqs:
            self._places[seq] = place

    def _keep_unseen(self, said: Said, above: int) -> int:
        """Write a message that no model sees as an extension's data; 0 if that cannot be."""
        if said.stored is None:
            return 0
        kept = Custom(
            custom_type=UNSEEN, data=said.stored, id=said.id, timestamp=said.timestamp or UNSET
        )
        place, loss = self._copy.add([(kept, KEPT)], above)
        self.losses.add(loss)
        self._carried[said.seqs[0]] = bool(place)
        return place

    def _write(self, said: Said, messages: Sequence[Raw], place: int) -> tuple[int, str]:
        """Write the parts of a message; return the last one that the dialect took, and why no more."""
        for index, message in enumerate(messages):
            part = Message(
                message=message, id=part_id(said.id, index), timestamp=said.timestamp or UNSET
            )
            made, loss = self._copy.add(_forms(part, self._copy.dialect), place)
            if not made:
                return place, f"messages were left out: {loss}"
            self.losses.add(loss)
            place = made
        return place, ""


def _forms(entry: Staged, target: Dialect) -> Iterator[Form]:
    if isinstance(entry, Custom) and entry.custom_type == UNSEEN and isinstance(entry.data, Raw):
        yield Message(message=entry.data, id=entry.id, timestamp=entry.timestamp), ""
    yield entry, ""
    yield from weaker_forms(entry, target)


def _entry_of(wire: dict[str, Raw], *, is_opaque: bool) -> Staged | str:
    """Return the entry of a native line; a text that says why there is none."""
    word = text(wire.get("type")) or ""
    own = {name: raw for name, raw in wire.items() if name not in _ENVELOPE}
    kind = None if is_opaque else ENTRY_TYPES.get(word)
    if kind is None:
        return Opaque(type=word, fields={name: raw for name, raw in own.items() if name != "type"})
    known = {name: raw for name, raw in own.items() if name in {"type", *kind.__struct_fields__}}
    try:
        return entry_of(known, kind)
    except msgspec.ValidationError:
        return f"entries without the form of {word} were left out"
