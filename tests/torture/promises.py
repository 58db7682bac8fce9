"""Acknowledged is there, once, where it was told, byte for byte; refused is not; nothing else is.

Law: this is about what, not when. It says of every request where the file has what it
stored (`Op.seqs`), which everything else builds on.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Final

from tests.torture.claims import is_of, marks_of
from tests.torture.payloads import key_id, own_fields
from tests.torture.records import Act, Answered, Refused, Sent
from tests.torture.replay import Row
from tests.torture.story import MUTATIONS, Op, Story

__all__ = ["place"]

# Refusals that no request of a torture run may get.
_NEVER: Final = frozenset(
    {"internal", "parse_error", "invalid_request", "method_not_found", "session_corrupt"}
    | {"idempotency_conflict", "too_large", "permission_denied", "session_locked"}
)
# Refusals that come before anybody looks whether a call is stored already.
_NOT_LOOKED: Final = frozenset(
    {"session_not_found", "draining", "overloaded", "cancelled", "not_sent", "storage_error"}
)


def place(story: Story, rows: list[Row]) -> list[str]:
    """Fill in `seqs` of every request; what is wrong, in words."""
    return _Placing(story, rows).faults()


class _Placing:
    def __init__(self, story: Story, rows: list[Row]) -> None:
        self._story = story
        self._rows = rows
        self._by_id: dict[str, int] = {row.id: row.seq for row in rows}
        self._by_mark: defaultdict[str, list[int]] = defaultdict(list)
        for row in rows:
            if row.mark is not None:
                self._by_mark[row.mark].append(row.seq)
        self._claimed: set[int] = set()
        self._found: list[str] = []

    def faults(self) -> list[str]:
        for mark, seqs in self._by_mark.items():
            if len(seqs) > 1:
                self._found.append(f"{mark} is stored {len(seqs)} times, at {seqs}")
        acknowledged: set[str] = set()
        for op in self._story.ops:
            if op.act.method in MUTATIONS:
                self._place(op)
                self._retried(op, acknowledged)
            if isinstance(op.outcome, Refused) and op.outcome.kind in _NEVER:
                self._found.append(f"{op.name} was refused with {op.outcome.kind}")
        self._refused_are_absent()
        self._written_beside()
        self._nobody_else()
        self._say_who_was_first()
        return self._found

    # -- one request -----------------------------------------------------------------------

    def _place(self, op: Op) -> None:
        marks = marks_of(op.act)
        if isinstance(op.outcome, Answered):
            self._acknowledged(op, op.outcome.sight)
        elif op.is_unknown and marks:
            seqs = [self._at(op.act, index, mark) for index, mark in enumerate(marks)]
            there = [seq for seq in seqs if seq]
            if there and len(there) < len(seqs):
                self._found.append(f"of {op.name} only a part is stored, at {there}")
            op.seqs = tuple(there)
        self._claimed.update(op.seqs)

    def _at(self, act: Act, index: int, mark: str) -> int:
        """Return the seq of an entry in the file; 0 if the file lacks the entry."""
        own = act.entries[index].id if act.entries else None
        if "idempotency_key" in act.params:
            own = key_id(act.session, act.params["idempotency_key"], index)
        if own:
            return self._by_id.get(own, 0)
        return next(iter(self._by_mark.get(mark, ())), 0)

    def _acknowledged(self, op: Op, sight: dict[str, Any]) -> None:
        act = op.act
        match act.method:
            case "session/append":
                op.seqs = tuple(entry["seq"] for entry in sight["entries"])
                for index, (told, sent) in enumerate(
                    zip(sight["entries"], act.entries, strict=True)
                ):
                    self._entry(op, index, told, sent)
                self._together(op, sight)
            case "session/update":
                seq = self._at(act, 0, act.params["title"])
                op.seqs = (seq,) if seq else ()
                if not seq or seq > sight["seq"]:
                    self._found.append(f"{op.name} was acknowledged and is lost")
            case "session/compact":
                op.seqs = (sight["entry"]["seq"],)
                self._told(op, sight["entry"]["seq"], "compaction", sight["entry"]["id"])
            case "session/label":
                op.seqs = (sight["seq"],)
                row = self._told(op, sight["seq"], "label", None)
                if row and row.text("target_id") != act.params["entry_id"]:
                    self._found.append(f"{op.name} labels {row.text('target_id')} in the file")
            case _:
                op.seqs = (sight["seq"],)
                self._moved(op, sight)

    def _entry(self, op: Op, index: int, told: dict[str, Any], sent: Sent) -> None:
        """Check that an entry of an append is the row in the answer."""
        row = self._told(op, told["seq"], sent.type, told["id"])
        at = self._at(op.act, index, sent.mark)
        if row is None:
            return
        if at != told["seq"]:
            where = f"is at {at}" if at else "is lost"
            self._found.append(f"{sent.mark} was acknowledged at {told['seq']} and {where}")
        if row.parent_id != told["parent_id"]:
            self._found.append(f"{op.name}: the parent of {row.seq} is another than was told")
        for name, spelling in own_fields(sent).items():
            if bytes(row.fields.get(name, b"")) != spelling.encode():
                self._found.append(f"{op.name}: {name} at {row.seq} has other bytes than were sent")

    def _together(self, op: Op, sight: dict[str, Any]) -> None:
        first, count = op.seqs[0], len(op.seqs)
        if op.seqs != tuple(range(first, first + count)):
            self._found.append(f"the entries of {op.name} are at {op.seqs}")
        for index, seq in enumerate(op.seqs, 1):
            if seq > len(self._rows):
                return
            row = self._rows[seq - 1]
            if row.atom != ((index, count) if count > 1 else None):
                self._found.append(f"{op.name}: the atom of {seq} is {row.atom}")
            if row.head != sight["head"]:
                self._found.append(f"{op.name}: {seq} is on {row.head}, not {sight['head']}")

    def _moved(self, op: Op, sight: dict[str, Any]) -> None:
        """Check the row of a branch, drop, reset or rewind."""
        params = op.act.params
        word = "branch_summary" if "summary" in params else "leaf"
        row = self._told(op, sight["seq"], word, None)
        if row is None:
            return
        if row.head != sight["head"]:
            self._found.append(f"{op.name}: {row.seq} moves {row.head}, not {sight['head']}")
        if word == "leaf" and not is_of(row, op.act):
            self._found.append(f"{op.name}: {row.seq} is another move than was asked")

    def _told(self, op: Op, seq: int, word: str, id_: str | None) -> Row | None:
        """Return the row at an acknowledged seq if type and id fit; else record a fault."""
        if not 0 < seq <= len(self._rows):
            self._found.append(f"{op.name} was acknowledged at {seq} and is lost")
            return None
        row = self._rows[seq - 1]
        if row.type != word or (id_ is not None and row.id != id_):
            self._found.append(f"{op.name} was acknowledged at {seq}, where {row.type} {row.id} is")
            return None
        return row

    # -- all of them -----------------------------------------------------------------------

    def _retried(self, op: Op, acknowledged: set[str]) -> None:
        """Check that a retry of an acknowledged request is answered as a duplicate."""
        if not op.act.entries:
            return
        identity = op.act.entries[0].mark
        match op.outcome:
            case Refused(kind=kind) if identity in acknowledged and kind not in _NOT_LOOKED:
                self._found.append(f"{op.name} was stored before, and refused with {kind}")
            case Answered():
                if identity in acknowledged and not op.is_duplicate:
                    self._found.append(f"{op.name} was stored before, and is no duplicate")
                acknowledged.add(identity)
            case _:
                pass

    def _written_beside(self) -> None:
        """Check that foreign lines are kept, byte for byte."""
        for writing in self._story.writing:
            seq = self._by_id.get(writing.id, 0)
            if not seq:
                if writing.id in self._story.wrote:
                    self._found.append(f"{writing.id} was written by another program and is lost")
                continue
            if self._rows[seq - 1].digest != writing.digest:
                self._found.append(f"{writing.id} of another program has other bytes")
            self._story.foreign[seq] = writing
            self._claimed.add(seq)

    def _refused_are_absent(self) -> None:
        kinds: dict[str, Op] = {}
        others: set[str] = set()
        for op in self._story.ops:
            for mark in marks_of(op.act) if op.act.method in MUTATIONS else ():
                if isinstance(op.outcome, Refused) and op.outcome.kind != "storage_error":
                    kinds[mark] = op
                else:
                    others.add(mark)
        for mark, op in kinds.items():
            if mark not in others and (seqs := self._by_mark.get(mark)):
                assert isinstance(op.outcome, Refused)
                self._found.append(f"{op.name} was refused ({op.outcome.kind}), stored at {seqs}")

    def _nobody_else(self) -> None:
        """Check that all other rows belong to requests with a lost answer; a move has no mark."""
        unknown = [op for op in self._story.ops if op.is_unknown and not op.seqs]
        for row in self._rows:
            if row.seq in self._claimed or not row.is_entry:
                continue
            op = next((op for op in unknown if is_of(row, op.act)), None)
            if op is None:
                self._found.append(f"{row.type} at {row.seq} is stored and nobody sent it")
            else:
                op.seqs = (row.seq,)
                unknown.remove(op)

    def _say_who_was_first(self) -> None:
        """Mark the try that stored an entry: the one whose answer says so, or the only one."""
        tries: defaultdict[int, list[Op]] = defaultdict(list)
        for op in self._story.ops:
            if op.seqs and not op.is_duplicate:
                tries[op.seqs[0]].append(op)
        for ops in tries.values():
            told = [op for op in ops if not op.is_unknown]
            if told or len(ops) == 1:
                (told or ops)[0].is_first = True
