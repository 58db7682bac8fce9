"""Index of one session: what its entries mean, without their payloads.

Rule 1: every decision about a session's state is made in this folder. Rule 2: nothing here awaits,
reads a clock or touches a file, so every change is atomic and every test is a function call. Rule
3: replay and commit are one function, `fold`; a restart cannot see another session than the one
that was served. `fold_run` and `fold_lines` (`columns`) make of many messages what `fold` makes of
them one by one.

An entry is its `seq`, the ordinal of its line; 0, the header, also stands for "no parent" and
"before the first entry". A parent is always an earlier line, so a chain ends after at most `seq`
steps and no file can make a cycle. A head moves once every column has its leaf, so a thread that takes
a leaf from `heads`, or from the loop, finds all of the leaf's path. A line may name a record as its parent. The index then keeps the
resolved parent: the entry in the tree at which the record stands (for a `leaf` record, its target).
Each entry also keeps the seq of its nearest ancestor with a compaction, a model or a thinking
level, so no path walk has to search for one.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import accumulate, repeat
from typing import Any, Final

from msgspec import Struct

from sessiond.limits import FIRST_MESSAGE_CHARS, PROBLEMS_MAX, SAME_ID_MAX
from sessiond.model.ids import MAIN
from sessiond.model.problems import Problem, ProblemKind, without_parent
from sessiond.model.row import (
    MESSAGE_KINDS,
    CompactionEffect,
    InfoEffect,
    Kind,
    LabelEffect,
    LeafEffect,
    ModelName,
    Row,
    Rules,
)
from sessiond.model.times import newest, rfc3339
from sessiond.model.usage import Usage
from sessiond.model.working.annotations import AnnotationEffect
from sessiond.model.working.state import WorkingState

FIRST_WORDS_CHARS: Final = FIRST_MESSAGE_CHARS - len("...")
"""Characters of the first message that a preview keeps."""

# Plain ints, since opening a file compares one per line and an enum member costs a lookup.
# Problems of an entry above which something is missing, or which lacks a part.
_GAPS: Final = frozenset({"orphan", "damaged_line"})
# Problems that a line has whatever the lines before it say.
_OF_ONE_LINE: Final = frozenset({"bad_line", "damaged_line", "torn_tail"})
_ASSISTANT: Final = int(Kind.ASSISTANT)
_COMPACTION: Final = int(Kind.COMPACTION)


@cache
def _table(kinds: frozenset[int]) -> bytes:
    """Return a table of 256 bytes: 1 at each of these kinds, else 0."""
    return bytes(kind in kinds for kind in range(256))


_IS_MESSAGE: Final = _table(frozenset(MESSAGE_KINDS))
# A turn begins at each message of a user; the first turn of a path also at an answer or a result.
_BEGINS: Final = _table(frozenset({Kind.USER}))
_BEGINS_FIRST: Final = _table(frozenset({Kind.USER, Kind.ASSISTANT, Kind.TOOL}))


class Head(Struct, frozen=True):
    """Position of a named head: `leaf` is its entry, `seq` the line that moved the head last."""

    leaf: int = 0
    seq: int = 0


class LabelState(Struct, frozen=True):
    """A label ("" if it was cleared) and the line that set the label."""

    label: str
    seq: int


class Session:
    """The index of one session. Only `fold`, `skip` and `fold_lines` add lines to the index."""

    __slots__ = (
        "_record",
        "_timestamp",
        "annotations",
        "compaction_refs",
        "depths",
        "fact_seqs",
        "facts",
        "first_message",
        "has_assistant",
        "header_lines",
        "heads",
        "ids",
        "is_part",
        "kept_from",
        "kinds",
        "label_states",
        "labels",
        "message_counts",
        "message_total",
        "model_refs",
        "names",
        "parents",
        "problem_count",
        "problems",
        "read_only_line",
        "rerouted",
        "rules",
        "same_ids",
        "setting_ids",
        "setting_refs",
        "settings",
        "skipped",
        "started_at",
        "state",
        "thinking_refs",
        "turn_counts",
        "updated_at",
        "usage",
    )

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self._record = _table(rules.records)
        self.ids: dict[str, int] = {}
        # Earlier entries whose id a later entry has too; at most SAME_ID_MAX per id, oldest first.
        self.same_ids: dict[str, list[int]] = {}
        self.names: list[str] = [""]
        self.kinds = bytearray(1)
        # The resolved parent of each line; for a record, the entry in the tree where it stands.
        self.parents = array("i", (0,))
        # The lines whose named parent is not the resolved one: a record, or no earlier entry.
        self.rerouted: set[int] = set()
        self.depths = array("i", (0,))
        self.compaction_refs = array("i", (0,))
        self.model_refs = array("i", (0,))
        self.thinking_refs = array("i", (0,))
        # Index into `settings` of each entry's setting; `settings` holds each model and level once.
        self.setting_refs = array("i", (0,))
        self.settings: list[ModelName | str | None] = [None]
        self.setting_ids: dict[ModelName | str | None, int] = {None: 0}
        # First line that each compaction keeps; 0 if the compaction keeps nothing.
        self.kept_from: dict[int, int] = {}
        self.heads: dict[str, Head] = {MAIN: Head()}
        self.labels: dict[int, LabelState] = {}
        # All labels that an entry ever had, oldest first: answers show the session as of one line.
        self.label_states: dict[int, list[LabelState]] = {}
        # The lines of the annotations of each entry that has any.
        self.annotations: dict[int, list[int]] = {}
        self.facts: dict[str, Any] = {}
        # The line that stated each fact last.
        self.fact_seqs: dict[str, int] = {}
        # Number of messages on the path from the root down to each entry.
        self.message_counts = array("i", (0,))
        self.message_total = 0
        # Number of turns on the path from the root down to each entry.
        self.turn_counts = array("i", (0,))
        self.skipped = 0
        self.has_assistant = False
        # The sum of what all assistant messages report.
        self.usage: Usage | None = None
        # First words of the first message of a user; set by the code that has the lines.
        self.first_message: str | None = None
        self.state = WorkingState()
        # Time of the first message of a user; "" while there is none, or the message has no time.
        self.started_at = ""
        # True once lines were left out: what they say of ids and heads is not known.
        self.is_part = False
        # Lines of the file before the line of the first entry.
        self.header_lines = 1
        self.problems: list[Problem] = []
        self.problem_count = 0
        self.read_only_line: int | None = None
        # The newest time of any entry, RFC 3339 UTC; "" while no entry has a time.
        self.updated_at = ""
        self._timestamp: str | float | None = None

    @property
    def seq(self) -> int:
        """Ordinal of the last line; 0 for a session with only its header."""
        return len(self.kinds) - 1

    # -- change ------------------------------------------------------------

    def skip(self, count: int = 1) -> None:
        """Take a seq for each line that is no entry."""
        self.skipped += count
        self.names += [""] * count
        self.kinds += bytes([Kind.NONE]) * count
        none = array("i", (0,)) * count
        for column in (
            self.parents,
            self.depths,
            self.compaction_refs,
            self.model_refs,
            self.thinking_refs,
            self.setting_refs,
            self.message_counts,
            self.turn_counts,
        ):
            column.extend(none)

    def leave_out(self) -> None:
        """Go on behind lines that are left out, for a list.

        No later line finds an entry before them, and no head is known until a later line moves the head.
        """
        self.is_part = True
        self.ids, self.heads = {}, {MAIN: Head()}

    def fold(self, row: Row) -> None:
        """Index `row` as the next line. Never fails: a reference to a missing entry is reported."""
        kind, entry_id, parent_id = row.kind, row.id, row.parent_id
        ids, kinds = self.ids, self.kinds
        seq = len(kinds)
        parent = 0
        if parent_id is not None:
            parent = ids.get(parent_id, 0)
            if parent == 0 or self._record[kinds[parent]]:
                parent = self._reroute(seq, parent, row.bridge)
        if entry_id in ids:
            self._share_id(entry_id, seq)
        ids[entry_id] = seq
        self.names.append(entry_id)
        kinds.append(kind)
        self.parents.append(parent)
        if self._record[kind]:
            self._spend(row.usage)
            self.depths.append(0)
            self.compaction_refs.append(0)
            self.model_refs.append(0)
            self.thinking_refs.append(0)
            self.setting_refs.append(0)
            self.message_counts.append(0)
            self.turn_counts.append(0)
        else:
            depths, compactions = self.depths, self.compaction_refs
            models, levels = self.model_refs, self.thinking_refs
            depths.append(depths[parent] + 1)
            compactions.append(seq if kind == _COMPACTION else compactions[parent])
            models.append(models[parent])
            levels.append(levels[parent])
            self.setting_refs.append(0)
            if row.setting is not None:
                self._set(seq, row.setting)
            counts = self.message_counts
            counts.append(counts[parent] + _IS_MESSAGE[kind])
            turns = self.turn_counts[parent]
            self.turn_counts.append(turns + (_BEGINS if turns else _BEGINS_FIRST)[kind])
            self.heads[row.head] = Head(seq, seq)
            if _IS_MESSAGE[kind]:
                self.message_total += 1
                if kind == _ASSISTANT:
                    self.take_answer(row.usage)
        if row.timestamp != self._timestamp:
            # The entries of a batch share one time, so only the first of them is parsed.
            self._timestamp = row.timestamp
            self.updated_at = max(self.updated_at, rfc3339(row.timestamp))
        if row.effect is not None:
            self._apply(row, seq)

    def fold_run(self, rows: Sequence[Row]) -> None:
        """Index messages of one append time, each below the one before, as `fold` does one by one.

        Their ids are new. The columns grow once for all rows but the first.
        """
        self.fold(rows[0])
        rest = rows[1:]
        above, count = self.seq, len(rest)
        end = above + count
        if [row.setting for row in rest].count(None) < count:
            for row in rest:
                self.fold(row)
            return
        kinds = bytes([row.kind for row in rest])
        self.names += [row.id for row in rest]
        self.ids.update(zip(self.names[above + 1 :], range(above + 1, end + 1), strict=True))
        self.kinds += kinds
        self.parents.extend(range(above, end))
        depth, messages = self.depths[above], self.message_counts[above]
        self.depths.extend(range(depth + 1, depth + count + 1))
        self.message_counts.extend(range(messages + 1, messages + count + 1))
        for column in (self.compaction_refs, self.model_refs, self.thinking_refs):
            column.extend(repeat(column[above], count))
        self.setting_refs.extend(repeat(0, count))
        self.extend_turns(kinds)
        self.message_total += count
        self.heads[rows[0].head] = Head(end, end)
        if _ASSISTANT in kinds:
            for row in rest:
                if row.kind == _ASSISTANT:
                    self.take_answer(row.usage)

    def extend_turns(self, kinds: bytes) -> None:
        """Extend the column of turns by a chain of messages of these kinds, below the last line."""
        turns, column = self.turn_counts[-1], self.turn_counts
        if not turns:
            first = kinds.translate(_BEGINS_FIRST).find(1)
            if first < 0:
                column.extend(repeat(0, len(kinds)))
                return
            column.extend(repeat(0, first))
            column.append(1)
            turns, kinds = 1, kinds[first + 1 :]
        # An array takes a list in half the time of an iterator.
        column.extend(array("i", [*accumulate(kinds.translate(_BEGINS), initial=turns)])[1:])

    def take_times(self, times: Sequence[str | float | None]) -> None:
        """Take the times of consecutive entries."""
        self._timestamp = times[-1]
        self.updated_at = max(self.updated_at, newest(times))

    def begin_with(self, words: str, time: str | float | None) -> None:
        """Take the first words and the time of the first message of a user."""
        self.first_message = words
        self.started_at = rfc3339(time)

    def take_answer(self, usage: Usage | None) -> None:
        """Take an assistant's message, and the usage that the message reports."""
        self.has_assistant = True
        self._spend(usage)

    def _spend(self, usage: Usage | None) -> None:
        if usage is not None:
            self.usage = usage if self.usage is None else self.usage.plus(usage)

    def _reroute(self, seq: int, named: int, bridge: str | None) -> int:
        """Return the resolved parent of a line that names a record, or no earlier entry (0).

        `bridge` is the entry at which the path goes on in the second case, if the line says one.
        """
        self.rerouted.add(seq)
        if not named:
            named = self.ids.get(bridge, 0) if bridge is not None else 0
            self.report(seq, "orphan", without_parent(bridge if named else None))
        return self._through(named)

    def _through(self, seq: int) -> int:
        """Return the entry in the tree that a reference to line `seq` means."""
        # A record's parent was resolved when the record was folded, so no chain is walked.
        return self.parents[seq] if self._record[self.kinds[seq]] else seq

    def _share_id(self, entry_id: str, seq: int) -> None:
        self.report(seq, "duplicate_id", "an earlier entry has the same id")
        earlier = self.same_ids.setdefault(entry_id, [])
        if len(earlier) < SAME_ID_MAX:
            earlier.append(self.ids[entry_id])

    def _set(self, seq: int, setting: ModelName | str) -> None:
        refs = self.thinking_refs if isinstance(setting, str) else self.model_refs
        refs[seq] = seq
        self.setting_refs[seq] = self.setting_ids.setdefault(setting, len(self.settings))
        if self.setting_refs[seq] == len(self.settings):
            self.settings.append(setting)

    def _apply(self, row: Row, seq: int) -> None:
        match row.effect:
            case CompactionEffect() as effect:
                kept = self._first_kept(effect, seq)
                self.kept_from[seq] = kept
                if self.rules.strict_kept:
                    self._require_kept(effect, kept, seq)
            case InfoEffect(facts):
                # A None is kept, so that a cleared fact does not come back from the header.
                self.facts.update(facts)
                self.fact_seqs.update(dict.fromkeys(facts, seq))
            case LabelEffect(target_id, label):
                target = self.ids.get(target_id, 0)
                if target == 0:
                    self.report(seq, "unknown_target", "labels an entry that is not there")
                else:
                    self._label(target, LabelState(label or "", seq))
            case LeafEffect() as effect:
                self._move(row.head, effect, seq)
            case AnnotationEffect(entry_id):
                self._annotate(entry_id, seq)
            case None:  # pragma: no cover - the caller looked
                pass
            case effect:
                ignored = self.state.take(effect, seq, row.timestamp)
                if ignored is not None:
                    self.report(seq, "bad_state", ignored)

    def _annotate(self, entry_id: str, seq: int) -> None:
        """Note an annotation at its entry; a copy may lack the entry."""
        if target := self.ids.get(entry_id, 0):
            self.annotations.setdefault(target, []).append(seq)

    def _label(self, target: int, state: LabelState) -> None:
        self.label_states.setdefault(target, []).append(state)
        if state.label:
            self.labels[target] = state
        else:
            self.labels.pop(target, None)

    def _first_kept(self, effect: CompactionEffect, seq: int) -> int:
        """Return the first line that a pointer compaction keeps; 0 for none."""
        if effect.replacement or effect.first_kept_entry_id is None:
            return 0
        first = self.ids.get(effect.first_kept_entry_id, 0)
        at, below = self.parents[seq], 0
        while first and at > first:
            at, below = self.parents[at], at
        if first and at == self._through(first):
            # For a record, the first kept entry is the next one down the path.
            return at if at == first else below
        if not self.rules.strict_kept:
            self.report(seq, "first_kept_off_path", "keeps nothing of what precedes it")
        return 0

    def _require_kept(self, effect: CompactionEffect, kept: int, seq: int) -> None:
        """Ignore a compaction whose first kept entry is no message on its path."""
        if effect.first_kept_entry_id is None:
            self.report(seq, "first_kept_off_path", "the model sees nothing but its summary")
        elif not _IS_MESSAGE[self.kinds[kept]]:
            self.report(seq, "first_kept_off_path", "it counts for nothing: no message is kept")
            self.kept_from[seq] = self.compaction_refs[seq] = 0

    def _move(self, head: str, effect: LeafEffect, seq: int) -> None:
        if effect.drop:
            if head == MAIN or self.heads.pop(head, None) is None:
                self.report(seq, "unknown_target", "drops a head that is not there")
            return
        target = 0
        if effect.target_id is not None:
            target = self.ids.get(effect.target_id, 0)
            if target == 0:
                self.report(seq, "unknown_target", "moves a head to an entry that is not there")
                if self.is_part:
                    # The entry may be among the lines that are left out.
                    self.heads[head] = Head(0, seq)
                return
            target = self._through(target)
        self.heads[head] = Head(target, seq)
        self.parents[seq] = target

    def withdraw(self, seq: int, kind: ProblemKind) -> None:
        """Forget a problem of a line that was replaced since."""
        line = seq + self.header_lines
        kept = [one for one in self.problems if (one.line, one.kind) != (line, kind)]
        self.problem_count -= len(self.problems) - len(kept)
        self.problems = kept

    def report(self, seq: int, kind: ProblemKind, detail: str) -> None:
        """Remember a problem of a line; beyond PROBLEMS_MAX only the count grows.

        Behind lines that are left out, only what a line says by itself is a problem.
        """
        if self.is_part and kind not in _OF_ONE_LINE:
            return
        self.problem_count += 1
        if len(self.problems) < PROBLEMS_MAX:
            self.problems.append(Problem(seq + self.header_lines, kind, detail))

    def gaps(self, seqs: Iterable[int]) -> list[Problem]:
        """Return the problems of these lines for which a path lacks something, in the order of `seqs`.

        These problems are missing parents and damaged lines.
        """
        found = {one.line - self.header_lines: one for one in self.problems if one.kind in _GAPS}
        return [found[seq] for seq in seqs if seq in found] if found else []

    @property
    def entry_count(self) -> int:
        """Number of lines that are entries, records included."""
        return self.seq - self.skipped

    # -- look --------------------------------------------------------------

    def is_entry(self, seq: int) -> bool:
        """Return whether the line is an entry, record or node."""
        return self.kinds[seq] != Kind.NONE

    def is_node(self, seq: int) -> bool:
        """Return whether the line is a node: an entry in the tree, not a record."""
        kind = self.kinds[seq]
        return kind != Kind.NONE and not self._record[kind]

    def node(self, entry_id: str) -> int:
        """Return the seq of a node by its id; 0 when there is none."""
        seq = self.ids.get(entry_id, 0)
        return seq if self.is_node(seq) else 0

    def target_of(self, entry_id: str, seq: int) -> int | None:
        """Return the entry to which line `seq` moves a head by naming `entry_id`.

        None if the id is of no earlier entry.
        """
        target = self.ids.get(entry_id, 0)
        return self._through(target) if 0 < target < seq else None

    def setting(self, seq: int) -> ModelName | str | None:
        """Return the model or the thinking level that the entry at `seq` sets; None for neither."""
        return self.settings[self.setting_refs[seq]]

    def id_of(self, seq: int) -> str | None:
        """Return the id at `seq`; None for 0, the place before the first entry, and for an id that is not known."""
        return self.names[seq] or None

    def label_at(self, seq: int, upto: int) -> str | None:
        """Return an entry's label as of line `upto`; None if it had none."""
        for state in reversed(self.label_states.get(seq, ())):
            if state.seq <= upto:
                return state.label or None
        return None

    def annotations_at(self, seq: int, upto: int) -> list[int]:
        """Return the lines of an entry's annotations up to a line, oldest first."""
        return [at for at in self.annotations.get(seq, ()) if at <= upto]

    def up(self, seq: int) -> Iterator[int]:
        """Yield the path from `seq` up to its root, the entry itself first."""
        parents = self.parents
        while seq:
            yield seq
            seq = parents[seq]

    def path(self, seq: int) -> list[int]:
        """Return the path to `seq`, the root first."""
        found = list(self.up(seq))
        found.reverse()
        return found
