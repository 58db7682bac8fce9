"""A batch's staged entries on top of a session, before anything is stored.

A draft is private to the session's single writer: commands stage entries on the draft and may be
refused; the session is not touched until `commit`, which cannot fail. A refused command leaves no
trace (`all_or_nothing`). The draft answers the questions that the session answers, with the staged
entries in view, so later commands of a batch build on earlier ones.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, Protocol

import msgspec
from msgspec import UNSET, Raw

from sessiond.errors import (
    EntryInvalid,
    EntryNotFound,
    HeadNotFound,
    SessionArchived,
    SessionCorrupt,
    SessionReadOnly,
    TooLarge,
)
from sessiond.limits import ARTIFACTS_MAX, HEADS_MAX
from sessiond.model.entries import BranchSummary, Entry, Message, Opaque, SessionInfoEntry
from sessiond.model.events import ReadOnlyReason
from sessiond.model.ids import MAIN
from sessiond.model.row import (
    MESSAGE_KINDS,
    CompactionEffect,
    InfoEffect,
    Kind,
    LabelEffect,
    LeafEffect,
    MessageFacts,
    MessageRun,
    Row,
)
from sessiond.model.times import rfc3339
from sessiond.model.working.annotations import AnnotationEffect
from sessiond.model.working.entries import ArtifactSet, BadState, StateEffect, StateSet
from sessiond.model.working.state import WorkingState, overflow
from sessiond.session.index import FIRST_WORDS_CHARS, Head, Session
from sessiond.session.leases import HeadLeases, lease_lost

Staged = Entry | Opaque

_NEW_ID_TRIES: Final = 100
_WRITABLE_COPY: Final = "session/import or session/fork"
_UNWRITABLE: Final[Mapping[ReadOnlyReason, str]] = {
    "bad_line": "a line of the session file does not parse",
    "older_version": "the session file is of an older version: it is read where it is and never"
    " rewritten; session/import or session/fork makes a copy that can be changed",
    "other_agent": "the session file belongs to another program: it is read where it is and never"
    " written to; session/import or session/fork makes a copy that can be changed",
    "not_writable": "the user of the daemon may not write to the session file: it is read where it is;"
    " let that user write to it and open it again, or make a copy by session/import or session/fork",
}
_LIST: Final = (
    "the session file is of an older version, a list of messages: it takes messages behind the last one and"
    " nothing else; session/import or session/fork makes a copy that can be changed"
)
_FACT_OF_FIELD: Final = {"name": "title"}
_BRANCH_SUMMARY: Final = int(Kind.BRANCH_SUMMARY)
_USER: Final = int(Kind.USER)


def read_only(reason: ReadOnlyReason, why: str | None = None) -> SessionReadOnly:
    """Return the refusal of a change of a session whose file is only read, or does not take this change."""
    return SessionReadOnly(why or _UNWRITABLE[reason], reason=reason, use=_WRITABLE_COPY)


class Codec(Protocol):
    """The part of a file's dialect that staging needs."""

    def plain(self, messages: Sequence[Raw]) -> list[MessageFacts]:
        """Return the facts of the messages up to the first one that needs a closer look."""
        ...

    def plain_lines(self, run: MessageRun, messages: Sequence[Raw]) -> list[bytes]:
        """Return the lines of as many of these messages as the run has ids."""
        ...

    def row_of(self, entry: Staged) -> Row:
        """Return the index row of an entry. Raises EntryInvalid if the entry may not be stored."""
        ...

    def encode(self, entry: Staged) -> bytes:
        """Return the entry's line."""
        ...

    def wire(self, line: bytes) -> bytes:
        """Return the entry of a line as clients see it."""
        ...

    def preview(self, line: bytes, chars: int) -> str:
        """Return the first words of the entry of a line."""
        ...


class Draft:
    """Staged entries that wait for the disk; the session does not know them yet."""

    def __init__(
        self,
        session: Session,
        codec: Codec,
        *,
        new_id: Callable[[], str],
        now: str,
        stored: Mapping[int, bytes],
    ) -> None:
        self.session = session
        self.codec = codec
        self.now = now
        self._new_id = new_id
        self._stored = stored
        self.archived = False
        self.unwritable: ReadOnlyReason | None = None
        """True if the session's file lies in the archive, so that no change may be staged."""
        self.leases: HeadLeases | None = None
        """Leases to ask before a head moves; None if the session has no leases."""
        self.base_seq = session.seq
        """Seq of the last stored line; staged lines come behind that line."""
        self.rows: list[Row] = []
        self.lines: list[bytes] = []
        """Line to store for each row."""
        self._runs: list[tuple[int, int]] = []
        """Rows of each run of several messages: the first one, and the first one behind the run."""
        self._parents: list[int] = []
        self._ids: dict[str, int] = {}
        self._heads: dict[str, Head | None] = {}
        self._named: list[Staged] = []
        self._timed: list[Staged] = []
        self._state: WorkingState | None = None
        """Working state with the first rows in view, or None until a command asks for the state."""
        self._state_rows = 0

    # -- the session as it would be ------------------------------------------

    @property
    def seq(self) -> int:
        """Seq of the last line, staged ones included."""
        return self.base_seq + len(self.rows)

    def find(self, entry_id: str) -> int:
        """Return the seq of an entry by its id, record or node; 0 when there is none."""
        return self._ids.get(entry_id) or self.session.ids.get(entry_id, 0)

    def find_all(self, entry_id: str) -> list[int]:
        """Return the seqs of the entries with an id, beginning with the seq that `find` returns."""
        found = self.find(entry_id)
        return [found, *self.session.same_ids.get(entry_id, ())] if found else []

    def kind(self, seq: int) -> int:
        """Return the kind of the line at `seq`."""
        if seq <= self.base_seq:
            return self.session.kinds[seq]
        return self.rows[seq - self.base_seq - 1].kind

    def is_node(self, seq: int) -> bool:
        """Return whether the entry is a node of the tree."""
        return self.kind(seq) not in self.session.rules.records

    def receipt_of(self, seq: int) -> tuple[str, str | None, int, str]:
        """Return id, parent id, seq and time of a staged entry for its receipt."""
        index = seq - self.base_seq - 1
        row = self.rows[index]
        assert row.timestamp is not None, "the writer gives every entry a time"
        # A dialect may keep times as numbers.
        time = row.timestamp if isinstance(row.timestamp, str) else rfc3339(row.timestamp)
        return row.id, row.parent_id, seq, time

    def parent(self, seq: int) -> int:
        """Return the resolved parent of the entry at `seq`, 0 for a root."""
        if seq <= self.base_seq:
            return self.session.parents[seq]
        return self._parents[seq - self.base_seq - 1]

    def id_of(self, seq: int) -> str | None:
        """Return the id at `seq`; None for 0."""
        if seq <= self.base_seq:
            return self.session.id_of(seq)
        return self.rows[seq - self.base_seq - 1].id

    def node(self, entry_id: str, path: str = "entry_id") -> int:
        """Return the seq of a node by its id. Raises EntryNotFound."""
        seq = self.find(entry_id)
        kind = self.kind(seq)
        if seq == 0 or kind == Kind.NONE or kind in self.session.rules.records:
            raise EntryNotFound("no entry of this id in the tree", entry_id=entry_id, path=path)
        return seq

    def entry(self, entry_id: str, path: str = "entry_id") -> int:
        """Return the seq of an entry by its id, record or node. Raises EntryNotFound."""
        seq = self.find(entry_id)
        if seq == 0 or self.kind(seq) == Kind.NONE:
            raise EntryNotFound("no entry of this id", entry_id=entry_id, path=path)
        return seq

    def head(self, name: str) -> Head | None:
        """Return the position of a head; None when there is no such head."""
        if name in self._heads:
            return self._heads[name]
        return self.session.heads.get(name)

    def leaf(self, name: str) -> int:
        """Return the leaf of a head. Raises HeadNotFound."""
        # `head`, word by word: this runs for every append.
        head = self._heads[name] if name in self._heads else self.session.heads.get(name)
        if head is None:
            raise HeadNotFound(
                "no head of this name; send parent_id to create it, or call session/branch",
                head=name,
            )
        return head.leaf

    def _head_count(self) -> int:
        staged = {name for name, at in self._heads.items() if at is not None}
        return len(staged | self.session.heads.keys())

    def parent_named(self, entry_id: str, path: str = "parent_id") -> int:
        """Return the seq of an entry that an append names as its parent. Raises EntryNotFound.

        A record may be named, unless the file has no id for the record.
        """
        nameless = self.session.rules.whole_info
        return self.node(entry_id, path) if nameless else self.entry(entry_id, path)

    def states(self, name: str) -> bool:
        """Return whether a `session_info` states a fact, staged ones included."""
        return name in self.session.facts or any(
            isinstance(row.effect, InfoEffect) and name in row.effect.facts for row in self.rows
        )

    def fact(self, name: str) -> Any:
        """Return a fact that a `session_info` states, staged ones included; None without one."""
        for row in reversed(self.rows):
            if isinstance(row.effect, InfoEffect) and name in row.effect.facts:
                return row.effect.facts[name]
        return self.session.facts.get(name)

    @property
    def state(self) -> WorkingState:
        """Working state, staged entries included. The caller does not change it."""
        if self._state is None or self._state_rows > len(self.rows):
            self._state, self._state_rows = self.session.state.copied(), 0
        for at in range(self._state_rows, len(self.rows)):
            row = self.rows[at]
            if isinstance(row.effect, StateEffect):
                self._state.take(row.effect, self.base_seq + at + 1, row.timestamp)
        self._state_rows = len(self.rows)
        return self._state

    def is_above(self, ancestor: int, seq: int) -> bool:
        """Return whether `ancestor` is on the path of `seq`. The walk stops at `ancestor`."""
        while seq > ancestor:
            seq = self.parent(seq)
        return seq == ancestor

    def line_of(self, seq: int) -> bytes:
        """Return the line of an entry that is staged or was given in `stored`."""
        if seq <= self.base_seq:
            return self._stored[seq]
        return self.lines[seq - self.base_seq - 1]

    def known_line_of(self, seq: int) -> bytes | None:
        """Return the line of an entry that is staged or was given in `stored`; else None."""
        is_known = seq > self.base_seq or seq in self._stored
        return self.line_of(seq) if is_known else None

    def wire_of(self, seq: int) -> bytes:
        """Return an entry as clients see it. The entry is staged or was given in `stored`."""
        return self.codec.wire(self.line_of(seq))

    # -- staging -------------------------------------------------------------

    @contextmanager
    def all_or_nothing(self) -> Generator[None]:
        """Unstage everything that the block staged if the block raises."""
        count = len(self.rows)
        heads = dict(self._heads)
        try:
            yield
        except BaseException:
            for row in self.rows[count:]:
                del self._ids[row.id]
            del self.lines[count:], self.rows[count:], self._parents[count:]
            self._heads = heads
            self._state = None
            raise

    def require_writable(self) -> None:
        """Raise SessionArchived, SessionReadOnly, or SessionCorrupt for a line that does not parse."""
        if self.archived:
            raise SessionArchived(
                "the session is archived; call session/unarchive before you change it"
            )
        if self.unwritable is not None:
            raise read_only(self.unwritable)
        line = self.session.read_only_line
        if line is not None:
            raise SessionCorrupt(
                f"line {line} of the session file does not parse, so the session is read-only;"
                " the bytes are kept as they are, and session/repair makes a writable file of the rest",
                line=line,
                repairable=True,
            )

    @property
    def is_open(self) -> bool:
        """Return whether a change needs no permission: not archived, not damaged, nothing leased."""
        return not (
            self.archived
            or self.leases is not None
            or self.unwritable is not None
            or self.session.read_only_line is not None
        )

    def require_lease(self, head: str, lease_id: str | None) -> None:
        """Raise LeaseHeld if another client leases the head, LeaseLost if the named lease is over.

        Raises InvalidParams if the named lease is for another head.
        """
        if self.leases is not None:
            self.leases.require(head, lease_id)
        elif lease_id is not None:
            raise lease_lost(lease_id)

    def is_leased(self, head: str) -> bool:
        """Return whether a client holds a lease on the head."""
        return self.leases is not None and self.leases.is_held(head)

    def give_id(self, entry: Staged, besides: Container[object] = ()) -> None:
        """Give the entry an id that is neither in the session nor in `besides`."""
        entry.id = self._fresh_id(besides)
        self._named.append(entry)

    def give_up(self) -> None:
        """Take back the ids and times that this draft gave; the entries go to another draft.

        With a time of its own an entry would not equal the entry that an earlier call has stored.
        """
        for entry in self._named:
            entry.id = UNSET
        for entry in self._timed:
            entry.timestamp = UNSET

    def follow(self) -> None:
        """Move the staged lines behind foreign lines that landed first.

        Call after staging, before `commit`.
        """
        self.base_seq = self.session.seq

    def stage_run(self, head: str, messages: Sequence[Raw]) -> int:
        """Stage messages below a head, each below the one before; return how many could be.

        The result is what `stage` makes of the same messages, one after another. The first message
        that needs a closer look ends the run. Raises HeadNotFound; then the draft is unchanged.
        """
        parent = self.leaf(head)
        said = self.codec.plain(messages)
        if not said:
            return 0
        first = self.base_seq + len(self.rows) + 1
        run = MessageRun(self._fresh_ids(len(said)), self.id_of(parent), self.now, head)
        self.lines += self.codec.plain_lines(run, messages)
        above, seq = run.parent_id, first
        for entry_id, facts in zip(run.ids, said, strict=True):
            row = Row(facts.kind, entry_id, above, head, facts.model, timestamp=self.now)
            row.usage = facts.usage
            self.rows.append(row)
            self._ids[entry_id] = seq
            self._parents.append(parent)
            above, parent, seq = entry_id, seq, seq + 1
        if len(said) > 1:
            self._runs.append((len(self.rows) - len(said), len(self.rows)))
        self._heads[head] = Head(parent, parent)
        return len(said)

    def _fresh_ids(self, count: int) -> list[str]:
        """Return so many ids that no entry has: those that single calls of `_fresh_id` would give."""
        if count == 1:
            return [self._fresh_id(())]
        new_id = self._new_id
        drawn = dict.fromkeys([new_id() for _ in range(count)])
        known, staged, ids = self.session.ids.keys(), self._ids.keys(), drawn.keys()
        if len(ids) == count and ids.isdisjoint(known) and ids.isdisjoint(staged):
            return list(drawn)
        fresh = [one for one in drawn if one not in known and one not in staged]
        while len(fresh) < count:
            fresh.append(self._fresh_id(fresh))
        return fresh

    def _fresh_id(self, besides: Container[object]) -> str:
        for _ in range(_NEW_ID_TRIES):
            entry_id = self._new_id()
            if not (entry_id in self._ids or entry_id in self.session.ids or entry_id in besides):
                return entry_id
        raise AssertionError("the id generator repeats itself")

    def stage(self, entry: Staged, *, head: str, parent: int | None = None, path: str = "") -> int:
        """Stage one entry for `head` and return its seq.

        Without `parent` the entry goes below the head's leaf. With `parent`, a head that does not
        exist yet is created. A record as `parent` is stored as the parent; the entry stands where
        the record stands. Raises EntryInvalid, EntryNotFound, HeadNotFound, TooLarge; the draft is
        then unchanged.
        """
        rules = self.session.rules
        if parent is None or head != MAIN:
            parent = self._parent_for(head, parent)
        if entry.id is UNSET:
            self.give_id(entry)
        if entry.timestamp is UNSET:
            entry.timestamp = self.now
            self._timed.append(entry)
        if rules.is_list and (not isinstance(entry, Message) or parent != self.leaf(MAIN)):
            self.require_tree()
        entry.parent_id = self.id_of(parent)
        entry.head = UNSET if head == MAIN else head
        if rules.whole_info and isinstance(entry, SessionInfoEntry):
            entry = self._whole(entry, rules.whole_info)
        parent = parent if self.is_node(parent) else self.parent(parent)
        try:
            row = self.codec.row_of(entry)
            if row.effect is not None or row.kind == _BRANCH_SUMMARY:
                self._check(entry, row, parent)
            line = self.codec.encode(entry)
        except (EntryInvalid, EntryNotFound) as bad:
            raise bad.inside(path) from None
        self.rows.append(row)
        self.lines.append(line)
        seq = self.base_seq + len(self.rows)
        self._ids[row.id] = seq
        self._parents.append(parent)
        if row.kind not in rules.records:
            self._heads[head] = Head(seq, seq)
        elif isinstance(row.effect, LeafEffect):
            self._move(head, row.effect, seq)
        return seq

    def require_tree(self) -> None:
        """Raise SessionReadOnly if the file is a list, which takes messages and nothing else."""
        if self.session.rules.is_list:
            raise read_only("older_version", _LIST)

    def _parent_for(self, head: str, parent: int | None) -> int:
        """Return the parent of a new entry, the head's leaf unless there is another one.

        Raises HeadNotFound, TooLarge.
        """
        if head != MAIN and not self.session.rules.named_heads:
            raise HeadNotFound("files of this dialect have one head, main", head=head)
        if parent is None:
            return self.leaf(head)
        if self.head(head) is None and self._head_count() >= HEADS_MAX:
            raise TooLarge(
                "the session has as many heads as it may have; drop a head first", limit=HEADS_MAX
            )
        return parent

    def _whole(self, entry: SessionInfoEntry, names: Sequence[str]) -> SessionInfoEntry:
        """Return the entry with the facts that it leaves as they are."""
        same: dict[str, Any] = {}
        for name in names:
            fact = _FACT_OF_FIELD.get(name, name)
            if getattr(entry, name) is UNSET and self.states(fact):
                same[name] = self.fact(fact)
        if same.get("metadata", UNSET) is None:
            same["metadata"] = Raw(b"null")
        return msgspec.structs.replace(entry, **same)

    def _move(self, head: str, effect: LeafEffect, seq: int) -> None:
        """Move a head to the target of a `leaf` record, or drop the head.

        The record stands there too.
        """
        if effect.drop:
            self._heads[head] = None
            return
        target = self.find(effect.target_id) if effect.target_id is not None else 0
        self._heads[head] = Head(target, seq)
        self._parents[seq - self.base_seq - 1] = target

    def _check(self, entry: Staged, row: Row, parent: int) -> None:
        """Raise if the entry refers to an entry or a head that does not exist, or is no state.

        Raises EntryNotFound, HeadNotFound; EntryInvalid for a first kept entry off the path, and for
        the data of a state entry; TooLarge for an artifact that has no room.
        """
        if isinstance(entry, BranchSummary) and entry.from_id is not None:
            self.node(entry.from_id, "from_id")
        match row.effect:
            case LabelEffect(target_id, _):
                self.node(target_id, "target_id")
            case LeafEffect() as effect:
                self._check_leaf(row.head, effect)
            case CompactionEffect(str() as first_kept_entry_id, replacement=False):
                self._check_first_kept(first_kept_entry_id, parent)
            case AnnotationEffect(entry_id):
                self.entry(entry_id, "data.entry_id")
            case BadState(detail, path):
                raise EntryInvalid(detail, path=path)
            case ArtifactSet() | StateSet() as named:
                if (full := overflow(self.state, named)) is not None:
                    raise TooLarge(full, limit=ARTIFACTS_MAX)
            case _:
                pass

    def _check_leaf(self, head: str, effect: LeafEffect) -> None:
        """Raise HeadNotFound for a drop of main or of no head, EntryNotFound for an unknown target."""
        if effect.drop and (head == MAIN or self.head(head) is None):
            raise HeadNotFound("only a named head that exists can be dropped", head=head)
        if effect.target_id is not None:
            self.node(effect.target_id, "target_id")

    def _check_first_kept(self, entry_id: str, parent: int) -> None:
        """Raise EntryNotFound, or EntryInvalid for an entry that no compaction here can keep first."""
        kept = self.node(entry_id, "first_kept_entry_id")
        if self.session.rules.strict_kept and self.kind(kept) not in MESSAGE_KINDS:
            raise EntryInvalid(
                "a compaction of this file can only begin to keep at a message",
                entry_id=entry_id,
                path="first_kept_entry_id",
            )
        if not self.is_above(kept, parent):
            raise EntryInvalid(
                "first_kept_entry_id is not on the path of the head",
                entry_id=entry_id,
                path="first_kept_entry_id",
            )

    def commit(self) -> None:
        """Fold the staged rows into the session. Called once, when the lines are stored."""
        assert self.session.seq == self.base_seq, "draft is stale: two writers?"
        session, at = self.session, 0
        for first, end in (*self._runs, (len(self.rows), len(self.rows))):
            for row in self.rows[at:first]:
                session.fold(row)
            if first < end:
                session.fold_run(self.rows[first:end])
            at = end
        if session.first_message is None:
            for row, line in zip(self.rows, self.lines, strict=True):
                if row.kind == _USER:
                    words = self.codec.preview(line, FIRST_WORDS_CHARS)
                    session.begin_with(words, row.timestamp)
                    break
