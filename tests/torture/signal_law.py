"""The law of signals: a subscriber gets each once, in its sender's order, or is told the loss.

Law: a signal is stored nowhere. A later signal on the same connection, without a `lagged` between,
proves that an earlier signal is missing.
"""

from __future__ import annotations

from math import inf

from tests.torture.records import Answered, Closed, Heard, Lagged, Synced, Watching
from tests.torture.story import Op, Story

__all__ = ["signal_faults"]


def signal_faults(story: Story) -> list[str]:
    """Return signals that were received unsent, twice, in another order, or not at all."""
    said = {
        op.act.params["data"]["mark"]: op for op in story.ops if op.act.method == "session/signal"
    }
    found: list[str] = []
    for conn, told in story.told.items():
        heard = [one for one in told if isinstance(one, Heard)]
        if heard:
            found += [f"{conn}: {fault}" for fault in _wrongly_heard(heard, said)]
            if story.kinds[conn] == "raw":
                found += [f"{conn}: {fault}" for fault in _not_heard(list(told), said)]
    return found


def _wrongly_heard(heard: list[Heard], said: dict[str, Op]) -> list[str]:
    found: list[str] = []
    marks: set[str] = set()
    last: dict[str, int] = {}
    for one in heard:
        op = said.get(one.mark)
        if op is None or op.asked > one.t:
            found.append(f"heard {one.mark}, which nobody had said")
            continue
        if one.mark in marks:
            found.append(f"heard {one.mark} twice")
        marks.add(one.mark)
        if op.kind == "raw" and op.n < last.get(op.conn, 0):
            found.append(f"heard {op.name} behind a later one")
        last[op.conn] = op.n
    return found


def _not_heard(told: list[object], said: dict[str, Op]) -> list[str]:
    """Return signals missing in any time in which a subscription was live and did not lag."""
    found: list[str] = []
    since = inf
    heard: set[str] = set()
    for one in told:
        match one:
            case Watching():
                since = one.t if one.after is None and one.signals else inf
                heard = set()
            case Synced():
                since = one.t
                heard = set()
            case Heard():
                heard.add(one.mark)
                found += _missed(one, since, heard, said)
            case Lagged() | Closed():
                since = inf
            case _:
                pass
    return found


def _missed(last: Heard, since: float, heard: set[str], said: dict[str, Op]) -> list[str]:
    """Signals that were over before this one was said, and were not heard."""
    by = said.get(last.mark)
    if by is None:
        return []
    return [
        f"missed {op.name}, and nobody told it"
        for mark, op in said.items()
        if mark not in heard
        and since < op.asked
        and op.ended < by.asked
        and isinstance(op.outcome, Answered)
    ]
