"""What a copy is made of: a session as it was at one line, whatever is appended meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

from msgspec import Struct

from sessiond.dialects.lenient_json import lenient, text
from sessiond.errors import HeadNotFound, InvalidParams
from sessiond.limits import COPY_CHUNK_BYTES, PROGRESS_LINES
from sessiond.model.entries import Entry
from sessiond.model.ids import MAIN
from sessiond.model.row import MESSAGE_KINDS, Kind
from sessiond.service.actor.actor import Host
from sessiond.service.log.open_session import Opened
from sessiond.service.log.session_info import SessionInfo
from sessiond.service.ports import Progress
from sessiond.session.index import Session
from sessiond.session.moves import LEAF_CUSTOM_TYPE
from sessiond.session.settings import Stated

__all__ = [
    "MERGE_CUSTOM_TYPE",
    "Means",
    "Source",
    "Step",
    "label_seqs",
    "message_at",
    "message_index",
    "out_of_range",
    "portions",
    "state_seqs",
]

Step = int | Entry
"""A line of the source, or an entry that the copy adds; it has no id yet."""
S = TypeVar("S", bound=Step)

MERGE_CUSTOM_TYPE: Final = "sessiond.merge"
# The custom types that hold what an agent works with: decisions, artifacts and the like; not
# those that say something of their own file.
_STATE: Final = "sessiond."
_NO_STATE: Final = (LEAF_CUSTOM_TYPE, MERGE_CUSTOM_TYPE)


class Means(Struct, frozen=True):
    """What making a copy takes: the time it is made at, ids for new entries, where to say how far it is."""

    now: str
    new_id: Callable[[], str]
    progress: Progress


class Source(Struct, frozen=True):
    """A session as of line `upto`. Only what lies up to there is read, in any thread."""

    opened: Opened
    upto: int
    leaf: int
    """Where main, or the head that was asked for, stood then."""
    info: SessionInfo
    """What it was then, with what may be long."""
    stated: Stated
    """What its header and facts said then of the model and the thinking level."""

    @classmethod
    def of(cls, host: Host, head: str = MAIN) -> Source:
        """The session as it is now; called where its index stands still. Raises HeadNotFound."""
        opened = host.opened
        at = opened.session.heads.get(head)
        if at is None:
            raise HeadNotFound("no head of this name", head=head)
        return cls(opened, host.seq, at.leaf, opened.whole(), opened.stated)

    @property
    def session(self) -> Session:
        """The index, which goes on."""
        return self.opened.session


def message_at(session: Session, leaf: int, index: int, path: str) -> int:
    """The message with this place on the path to `leaf`, 0 for the first. Raises InvalidParams."""
    count = session.message_counts[leaf]
    if index >= count:
        raise InvalidParams(out_of_range(count), path=path)
    for seq in session.up(leaf):
        if session.kinds[seq] in MESSAGE_KINDS and session.message_counts[seq] == index + 1:
            return seq
    raise AssertionError("a path has as many messages as its end counts")


def message_index(session: Session, leaf: int) -> int | None:
    """The place of the last message on the path to `leaf`; None if there is none."""
    return session.message_counts[leaf] - 1 if session.message_counts[leaf] else None


def out_of_range(count: int) -> str:
    """What to say of a place that no message has."""
    if not count:
        return "the path has no message"
    return f"the path has {count} messages, 0 to {count - 1}"


def label_seqs(source: Source, seqs: Iterable[int]) -> list[int]:
    """The lines that gave these entries the labels they had, in order."""
    found: list[int] = []
    for seq in seqs:
        states = source.session.label_states.get(seq, ())
        latest = next((state for state in reversed(states) if state.seq <= source.upto), None)
        if latest is not None and latest.label:
            found.append(latest.seq)
    return sorted(found)


def state_seqs(source: Source, besides: Sequence[int]) -> list[int]:
    """The entries that hold what an agent works with, wherever they stand, in order."""
    taken = set(besides)
    kinds = source.session.kinds[: source.upto + 1]
    customs = [seq for seq, kind in enumerate(kinds) if kind == Kind.CUSTOM and seq not in taken]
    wire = source.opened.dialect.wire
    found: list[int] = []
    for seqs in portions(source, customs):
        for seq, line in zip(seqs, source.opened.journal.read_many(seqs), strict=True):
            word = text(lenient(wire(line)).get("custom_type")) or ""
            if word.startswith(_STATE) and word not in _NO_STATE:
                found.append(seq)
    return found


def portions(source: Source, steps: Iterable[S]) -> Iterator[list[S]]:
    """The steps in order, no more at once than fit into memory however long the session is."""
    line_bytes = source.opened.journal.line_bytes
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
