"""The law of order: the order of the file agrees with the clock.

Law: the file is the order. If an actor learned of a line before another line was requested, the
first line stands before the second. The requests of one connection are stored in their order.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate
from math import inf

from tests.torture.records import Answered, Closed, Flushed, Lagged, Seen, Synced, Watching
from tests.torture.story import Op, Story

__all__ = ["Windows", "order_faults"]


class Windows:
    """The minimum and the maximum length of the file at any moment."""

    def __init__(self, story: Story, length: int) -> None:
        told: list[tuple[float, int]] = []
        asked: dict[int, float] = {}
        for op in story.ops:
            for seq in op.seqs:
                asked[seq] = min(asked.get(seq, inf), op.asked)
            if isinstance(op.outcome, Answered):
                told.append((op.ended, _told_seq(op)))
        asked |= {seq: writing.t for seq, writing in story.foreign.items()}
        for line in story.told.values():
            told += [(one.t, one.seq) for one in line if isinstance(one, Seen | Flushed)]
        told.sort()
        self._told = [t for t, _ in told]
        self._longest = list(accumulate((seq for _, seq in told), max))
        asked_first = sorted((t, seq) for seq, t in asked.items())
        self._asked = [t for t, _ in asked_first]
        self._first = list(accumulate((seq for _, seq in reversed(asked_first)), min))[::-1]
        self._length = length
        written = {seq: story.wrote.get(one.id, inf) for seq, one in story.foreign.items()}
        self._foreign = sorted(written.items())
        self.asked = asked
        """The time of the first request for each line."""

    def floor(self, moment: float) -> int:
        """Return the greatest length that any actor learned of before this moment."""
        at = bisect_left(self._told, moment)
        return self._longest[at - 1] if at else 0

    def looked(self, moment: float) -> int:
        """Return the length that a look at the file finds at least, which begins after this moment."""
        there = (seq for seq, written in self._foreign if written < moment)
        return max([self.floor(moment), *there])

    def ceiling(self, moment: float) -> int:
        """Every line behind this one was asked for after this moment."""
        at = bisect_right(self._asked, moment)
        return self._first[at] - 1 if at < len(self._first) else self._length


def _told_seq(op: Op) -> int:
    """Return the length of the file according to an answer."""
    assert isinstance(op.outcome, Answered)
    said = op.outcome.sight.get("seq")
    return max(op.seqs, default=0) if said is None else max(said, *op.seqs, 0)


def order_faults(story: Story, windows: Windows) -> list[str]:
    """Return the conflicts between the orders of answers, requests and stored lines."""
    found: list[str] = []
    for seq, moment in windows.asked.items():
        floor = windows.floor(moment)
        if seq <= floor:
            found.append(f"{seq} was asked for when {floor} was already told of")
    for conn, told in story.told.items():
        found += [
            f"{conn} saw {one.seq} before what stands before it was asked for"
            for one in told
            if isinstance(one, Seen) and one.seq > windows.ceiling(one.t)
        ]
    last: dict[str, Op] = {}
    for op in story.ops:
        if op.kind != "raw" or not op.is_first:
            continue
        before = last.get(op.conn)
        if before is not None and before.seqs[-1] >= op.seqs[0]:
            found.append(f"{op.name} at {op.seqs[0]} is not behind {before.name}")
        last[op.conn] = op
    return found + _events_before_answers(story)


def _events_before_answers(story: Story) -> list[str]:
    """Return answers of mutations that came before their event on a live subscription."""
    return [
        f"{conn}: {op.name} was answered before its event"
        for conn, lines in story.lines.items()
        for op in _early(conn, story, lines)
    ]


def _early(conn: str, story: Story, lines: list[Seen | Op]) -> list[Op]:
    live = _live_times(conn, story)
    found: list[Op] = []
    seen = 0
    for line in lines:
        if isinstance(line, Seen):
            seen = line.seq
        elif line.is_first and isinstance(line.outcome, Answered) and seen < line.seqs[-1]:
            seq = line.seqs[-1]
            if any(a < line.asked and line.ended < b and seq <= last for a, b, last in live):
                found.append(line)
    return found


def _live_times(conn: str, story: Story) -> list[tuple[float, float, float]]:
    """Return the times at which a subscription without filters was live, and up to which line.

    `lagged` comes late: mutations after its seq may be answered before it. So nobody knows whether a
    subscription still was live behind the last line that its connection was told.
    """
    found: list[tuple[float, float, float]] = []
    since: float | None = None
    told = story.told.get(conn, [])
    for one in told:
        match one:
            case Watching():
                plain = one.types is None and one.heads is None and one.after is None
                since = one.t if plain else None
            case Synced():
                since = one.t
            case Lagged() | Closed():
                if since is not None:
                    found.append((since, one.t, one.seq if isinstance(one, Lagged) else inf))
                since = None
            case _:
                pass
    if since is not None:
        found.append((since, told[-1].t, inf))
    return found
