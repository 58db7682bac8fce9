"""The story of one session, put together from the logs of all actors.

Law: the order of a log is the order of its actor; only times relate different actors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf
from typing import Final

from msgspec import Struct

from tests.torture.records import (
    Act,
    Answered,
    Asked,
    Closed,
    Connected,
    Done,
    Flushed,
    Heard,
    Killed,
    Lagged,
    Lost,
    Record,
    Refused,
    Seen,
    Synced,
    Trouble,
    Watching,
    Writing,
    Wrote,
)

__all__ = ["MUTATIONS", "Op", "Story", "stories"]

MUTATIONS: Final = frozenset(
    f"session/{name}"
    for name in ("append", "branch", "reset", "rewind", "label", "update", "compact")
)
Told = Watching | Seen | Synced | Flushed | Lagged | Heard | Closed


class Op(Struct, eq=False):
    """A request and its outcome."""

    conn: str
    kind: str
    n: int
    act: Act
    asked: float
    ended: float = inf
    outcome: Answered | Refused | Lost | None = None
    seqs: tuple[int, ...] = ()
    """The seqs of the entries that the request stored, whether or not it was answered."""
    is_first: bool = False
    """True if this request, not an earlier try, stored the entries, as far as known."""

    @property
    def name(self) -> str:
        """Name of the request for messages."""
        return f"{self.act.method.removeprefix('session/')} {self.n} of {self.conn}"

    @property
    def is_duplicate(self) -> bool:
        return isinstance(self.outcome, Answered) and bool(self.outcome.sight.get("duplicate"))

    @property
    def is_unknown(self) -> bool:
        """True if the request may have been done, but its answer is unknown."""
        return self.outcome is None or isinstance(self.outcome, Lost)


class Story(Struct):
    """The records of one session."""

    session: str
    ops: list[Op] = []
    told: dict[str, list[Told]] = {}
    """The notifications of each connection's subscription, in order."""
    lines: dict[str, list[Seen | Op]] = {}
    """The events and answers of each raw connection, in the order in which they came."""
    writing: list[Writing] = []
    """Lines that were appended beside the daemon, or may have been."""
    wrote: dict[str, float] = {}
    """The foreign lines that were certainly appended, by id, and since when they are in the file."""
    foreign: dict[int, Writing] = {}
    """The foreign lines by their seq in the file."""
    kinds: dict[str, str] = {}
    """The kind of client of each connection."""


def stories(
    logs: Iterable[Iterable[Record]], sessions: Iterable[str]
) -> tuple[dict[str, Story], list[Killed], list[str]]:
    """Return the stories by session, the misfortunes of processes, and the actors' complaints."""
    found = {session: Story(session) for session in sessions}
    killed: list[Killed] = []
    troubles: list[str] = []
    for log in logs:
        reading = _Reading(found, killed, troubles)
        for record in log:
            reading.take(record)
    for story in found.values():
        story.ops.sort(key=lambda op: op.asked)
    return found, sorted(killed, key=lambda one: one.t), troubles


class _Reading:
    """The reading of one log."""

    def __init__(
        self, stories: Mapping[str, Story], killed: list[Killed], troubles: list[str]
    ) -> None:
        self._stories = stories
        self._killed = killed
        self._troubles = troubles
        self._kinds: dict[str, str] = {}
        self._waiting: dict[tuple[str, int], Op] = {}

    def take(self, record: Record) -> None:
        match record:
            case Connected():
                self._kinds[record.conn] = record.kind
            case Killed():
                self._killed.append(record)
            case Trouble():
                self._troubles.append(f"{record.conn}: {record.text}")
            case Asked():
                self._asked(record)
            case Answered() | Refused() | Lost():
                self._ended(record)
            case Done():
                pass
            case _ if record.session not in self._stories:
                pass
            case Writing():
                self._stories[record.session].writing.append(record)
            case Wrote():
                self._stories[record.session].wrote[record.id] = record.t
            case _:
                self._tell(self._stories[record.session], record)

    def _asked(self, record: Asked) -> None:
        op = Op(record.conn, self._kinds[record.conn], record.n, record.act, record.t)
        self._waiting[record.conn, record.n] = op
        if record.act.session in self._stories:
            self._stories[record.act.session].ops.append(op)

    def _ended(self, record: Answered | Refused | Lost) -> None:
        op = self._waiting.pop((record.conn, record.n))
        op.outcome, op.ended = record, record.t
        if op.kind == "raw" and op.act.session in self._stories:
            lines = self._stories[op.act.session].lines
            lines.setdefault(op.conn, []).append(op)
        elif op.act.session not in self._stories and _was_on_disk(record):
            self._troubles.append(f"{op.name}: {op.act.session} was on disk and has no file")

    def _tell(self, story: Story, record: Told) -> None:
        story.told.setdefault(record.conn, []).append(record)
        story.kinds[record.conn] = self._kinds[record.conn]
        if isinstance(record, Seen):
            story.lines.setdefault(record.conn, []).append(record)


def _was_on_disk(record: Answered | Refused | Lost) -> bool:
    """Return whether an answer says that the session is on disk; else it ends with its daemon."""
    sight = record.sight if isinstance(record, Answered) else {}
    return bool(sight.get("persisted")) or sight.get("durability") in {"disk", "os"}
