"""What happened to one session, put together from everybody's logs.

Law: the order of a log is the order of its actor; between actors there is only time.
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
    """One request and what came of it."""

    conn: str
    kind: str
    n: int
    act: Act
    asked: float
    ended: float = inf
    outcome: Answered | Refused | Lost | None = None
    seqs: tuple[int, ...] = ()
    """Where the file has what it stored, whether that was answered or not."""
    is_first: bool = False
    """It is this request that stored it, as far as can be known, and no earlier try."""

    @property
    def name(self) -> str:
        """How people are told of it."""
        return f"{self.act.method.removeprefix('session/')} {self.n} of {self.conn}"

    @property
    def is_duplicate(self) -> bool:
        return isinstance(self.outcome, Answered) and bool(self.outcome.sight.get("duplicate"))

    @property
    def is_unknown(self) -> bool:
        """It may have been done, and nobody was told."""
        return self.outcome is None or isinstance(self.outcome, Lost)


class Story(Struct):
    """One session."""

    session: str
    ops: list[Op] = []
    told: dict[str, list[Told]] = {}
    """What each connection's subscription was told, in order."""
    lines: dict[str, list[Seen | Op]] = {}
    """For each raw connection, events and answers in the order in which they came."""
    writing: list[Writing] = []
    """Lines that were appended beside the daemon, or may have been."""
    wrote: set[str] = set()
    """The ids of those that certainly were."""
    foreign: dict[int, Writing] = {}
    """Which lines of the file these are."""
    kinds: dict[str, str] = {}
    """The kind of client of each connection."""


def stories(
    logs: Iterable[Iterable[Record]], sessions: Iterable[str]
) -> tuple[dict[str, Story], list[Killed], list[str]]:
    """The stories by session, what was done to processes, and what actors complained of."""
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
    """One log."""

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
                self._stories[record.session].wrote.add(record.id)
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
    """Whether an answer says so; only what was in memory is gone with its daemon."""
    sight = record.sight if isinstance(record, Answered) else {}
    return bool(sight.get("persisted")) or sight.get("durability") in {"disk", "os"}
