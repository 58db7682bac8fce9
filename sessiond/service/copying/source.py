"""Source of a copy: a session as it was at one line, unaffected by later appends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from sessiond.dialects.lenient_json import lenient, text
from sessiond.errors import HeadNotFound, InvalidParams
from sessiond.journal.store import SessionLog
from sessiond.limits import COPY_CHUNK_BYTES, PROGRESS_LINES
from sessiond.model.entries import Entry
from sessiond.model.ids import MAIN
from sessiond.model.row import MESSAGE_KINDS, Kind
from sessiond.model.working.entries import PRUNE, STATE, TASK
from sessiond.model.working.state import WorkingState
from sessiond.service.actor.actor import SessionActor
from sessiond.service.log.open_session import OpenSession
from sessiond.service.log.session_info import SessionInfo
from sessiond.service.ports import Progress
from sessiond.session.index import Session
from sessiond.session.moves import LEAF_CUSTOM_TYPE
from sessiond.session.settings import Stated
from sessiond.visible import counted

Step = int | Entry
"""A line of the source, or an entry that the copy adds and that has no id yet."""
S = TypeVar("S", bound=Step)

MERGE_CUSTOM_TYPE: Final = "sessiond.merge"
# Prefix of the custom types that hold an agent's state (decisions, artifacts and the like), and the
# types with this prefix that describe their own file, or count what was done there.
_STATE: Final = "sessiond."
_NO_STATE: Final = (LEAF_CUSTOM_TYPE, MERGE_CUSTOM_TYPE, TASK, PRUNE, STATE)


class CopyDeps(Struct, frozen=True):
    """Tools for a copy: its time, ids for new entries, and the receiver of its progress."""

    now: str
    new_id: Callable[[], str]
    progress: Progress


class Source(Struct, frozen=True):
    """A session as of line `upto`. Any thread may read it; later lines are not read."""

    opened: OpenSession
    upto: int
    leaf: int
    """Leaf of main, or of the requested head, at that line."""
    info: SessionInfo
    """Info of the session then, with its long members."""
    stated: Stated
    """Model and thinking level as the header and facts stated them then."""
    state: WorkingState = msgspec.field(default_factory=WorkingState)
    """Working state then."""

    @classmethod
    def of(cls, actor: SessionActor, head: str = MAIN) -> Source:
        """Return the session as it is now.

        Called where its index does not change. Raises HeadNotFound.
        """
        opened = actor.opened
        at = opened.session.heads.get(head)
        if at is None:
            raise HeadNotFound("no head of this name", head=head)
        state = opened.session.state.copied()
        return cls(opened, actor.seq, at.leaf, opened.whole(), opened.stated, state)

    @property
    def session(self) -> Session:
        """Index of the session, which goes on growing."""
        return self.opened.session


def message_at(session: Session, leaf: int, index: int, path: str) -> int:
    """Return the message at a place on the path to `leaf`, 0 the first. Raises InvalidParams."""
    count = session.message_counts[leaf]
    if index >= count:
        raise InvalidParams(out_of_range(count), path=path)
    for seq in session.up(leaf):
        if session.kinds[seq] in MESSAGE_KINDS and session.message_counts[seq] == index + 1:
            return seq
    raise AssertionError("a path has as many messages as its end counts")


def message_index(session: Session, leaf: int) -> int | None:
    """Return the place of the last message on the path to `leaf`; None if there is none."""
    return session.message_counts[leaf] - 1 if session.message_counts[leaf] else None


def out_of_range(count: int) -> str:
    """Return the error text for a place that no message has."""
    if not count:
        return "the path has no message"
    places = "0 alone" if count == 1 else f"0 to {count - 1}"
    return f"the path has {counted(count, 'message')}, {places}"


def label_seqs(source: Source, seqs: Iterable[int]) -> list[int]:
    """Return the lines that gave these entries their labels as of line `upto`, in order."""
    found: list[int] = []
    for seq in seqs:
        states = source.session.label_states.get(seq, ())
        latest = next((state for state in reversed(states) if state.seq <= source.upto), None)
        if latest is not None and latest.label:
            found.append(latest.seq)
    return sorted(found)


def annotation_seqs(source: Source, seqs: Sequence[int]) -> list[int]:
    """Return the annotations of these entries as of line `upto`, in order.

    An annotation that is itself among the entries is left out; one of another annotation is not.
    """
    found, unseen = set(seqs), list(seqs)
    while unseen:
        known = source.session.annotations_at(unseen.pop(), source.upto)
        more = [seq for seq in known if seq not in found]
        found.update(more)
        unseen += more
    return sorted(found.difference(seqs))


def state_seqs(source: Source, besides: Sequence[int]) -> list[int]:
    """Return the entries that hold an agent's state, anywhere in the session, in order."""
    taken = set(besides)
    kinds = source.session.kinds[: source.upto + 1]
    customs = [seq for seq, kind in enumerate(kinds) if kind == Kind.CUSTOM and seq not in taken]
    wire = source.opened.dialect.wire
    found: list[int] = []
    for seqs in portions(source.opened.journal, customs):
        for seq, line in zip(seqs, source.opened.journal.read_many(seqs), strict=True):
            word = text(lenient(wire(line)).get("custom_type")) or ""
            if word.startswith(_STATE) and word not in _NO_STATE:
                found.append(seq)
    return found


def portions(log: SessionLog, steps: Iterable[S]) -> Iterator[list[S]]:
    """Yield the steps in order, in portions that fit into memory for a session of any length."""
    line_bytes = log.line_bytes
    some: list[S] = []
    size = 0
    for step in steps:
        some.append(step)
        size += line_bytes(step) if isinstance(step, int) else 0
        if len(some) == PROGRESS_LINES or size >= COPY_CHUNK_BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some
