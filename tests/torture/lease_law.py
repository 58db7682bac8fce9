"""A head has one lease at a time, and what moves it meanwhile names that lease.

Law: no clock is read. A lease certainly held from the answer of its acquire until the
last request under it that succeeded was asked; between two lines that were stored under
it, every line that moves the head was too.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from math import inf

from msgspec import Struct

from tests.torture.reads import After
from tests.torture.records import Answered, Killed, Refused
from tests.torture.story import Op, Story

__all__ = ["lease_faults"]


class _Lease(Struct, eq=False):
    """A lease that was granted."""

    lease_id: str
    head: str
    epoch: int
    given: Op
    last: float
    """The time of the last request that succeeded under the lease."""
    over: float = inf
    """The time of the first answer that the lease is over."""
    seqs: list[int] = []


def lease_faults(
    stories: list[Story], after: dict[str, list[After]], killed: list[Killed]
) -> list[str]:
    """Over all sessions, since epochs grow for the whole profile."""
    found: list[str] = []
    grants: list[_Lease] = []
    for story in stories:
        leases = _leases(story)
        grants += leases.values()
        found += _overlaps(story, list(leases.values()))
        found += _after_the_end(story, leases, killed)
        found += _intruders(story, leases, after[story.session])
    grants.sort(key=lambda lease: lease.given.ended)
    by_asked = sorted(grants, key=lambda lease: lease.given.asked)
    highest, at = 0, 0
    for lease in by_asked:
        while at < len(grants) and grants[at].given.ended < lease.given.asked:
            highest = max(highest, grants[at].epoch)
            at += 1
        if lease.epoch <= highest:
            found.append(f"{lease.given.name} got epoch {lease.epoch}, {highest} was given before")
    return found


def _leases(story: Story) -> dict[str, _Lease]:
    found: dict[str, _Lease] = {}
    for op in story.ops:
        if op.act.method == "session/acquire" and isinstance(op.outcome, Answered):
            sight = op.outcome.sight
            head = op.act.params.get("head", "main")
            lease_id = sight["lease_id"]
            found[lease_id] = _Lease(lease_id, head, sight["epoch"], op, op.ended)
    for op in story.ops:
        lease = found.get(op.act.params.get("lease_id", ""))
        if lease is None:
            continue
        if isinstance(op.outcome, Refused) and op.outcome.kind in {"lease_lost", "lease_held"}:
            lease.over = min(lease.over, op.ended)
        if not isinstance(op.outcome, Answered) or op.is_duplicate:
            lease.seqs += op.seqs
        elif op.act.method == "session/release":
            lease.over = min(lease.over, op.ended)
        else:
            lease.last = max(lease.last, op.asked)
            lease.seqs += op.seqs
    return found


def _overlaps(story: Story, leases: list[_Lease]) -> list[str]:
    """Return grants and moves of a head by other actors while the head was certainly leased."""
    found: list[str] = []
    heads: defaultdict[str, list[_Lease]] = defaultdict(list)
    for lease in leases:
        heads[lease.head].append(lease)
    for lease in leases:
        since, until = lease.given.ended, lease.last
        found += [
            f"{other.given.name} got {lease.head} while {lease.given.name} had it"
            for other in heads[lease.head]
            if since < other.given.asked and other.given.ended < until
        ]
        if since < until:
            found += [
                f"{op.name} moved {lease.head} while {lease.given.name} had it"
                for op in story.ops
                if since < op.asked
                and op.ended < until
                and op.is_first
                and op.act.params.get("lease_id") != lease.lease_id
                and _moves(op) == lease.head
            ]
    return found


def _moves(op: Op) -> str | None:
    """Return the head that a request moved, by its answer; None if it moved none."""
    if op.act.method in {"session/label", "session/update"} or not isinstance(op.outcome, Answered):
        return None
    if all(sent.type in {"label", "session_info"} for sent in op.act.entries) and op.act.entries:
        return None
    head: str = op.outcome.sight.get("head", op.act.params.get("head", "main"))
    return head


def _after_the_end(story: Story, leases: dict[str, _Lease], killed: list[Killed]) -> list[str]:
    """Return uses of leases after their end; the end of a daemon ends all its leases."""
    ends = [one.t for one in killed if one.who == "daemon" and one.how == "kill"]
    found: list[str] = []
    for op in story.ops:
        lease = leases.get(op.act.params.get("lease_id", ""))
        if lease is None or not isinstance(op.outcome, Answered) or op.is_duplicate:
            continue
        if op.act.method == "session/release":
            continue
        if op.asked > lease.over:
            found.append(f"{op.name} succeeded under a lease that was over")
        if any(lease.given.ended < end < op.asked for end in ends):
            found.append(f"{op.name} succeeded under a lease of a daemon that was killed")
    return found


def _intruders(story: Story, leases: dict[str, _Lease], after: list[After]) -> list[str]:
    """Return foreign moves of a leased head between two lines stored under the lease."""
    found: list[str] = []
    under: dict[int, str] = {}
    for op in story.ops:
        for seq in op.seqs:
            if op.is_first:
                under[seq] = op.act.params.get("lease_id", "")
    for lease in leases.values():
        seqs = sorted(seq for seq in lease.seqs if under.get(seq) == lease.lease_id)
        for a, b in pairwise(seqs):
            found += [
                f"{seq} moves {lease.head}, leased to {lease.given.name}"
                for seq in range(a + 1, b)
                if after[seq].head == lease.head
                and under.get(seq) != lease.lease_id
                and seq not in story.foreign
            ]
    return found
