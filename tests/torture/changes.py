"""Acts that change a session, or try to."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from tests.torture.drawing import Drawing
from tests.torture.records import Act, Sent
from tests.torture.world import Belief

__all__ = ["Changes"]


class Changes(Drawing):
    """Appends, heads and records, leases and company."""

    # -- appends -------------------------------------------------------------------------

    def append(self, at: Belief) -> list[Act]:
        chance = self._chance
        how = chance.choice(["plain", "plain", "own id", "key", "parent"])
        sent = self._sent(own_id=how in {"own id", "parent"})
        params: dict[str, Any] = {}
        if how == "key":
            params["idempotency_key"] = f"key {sent.mark}"
        if how == "parent" and at.ids:
            params["parent_id"] = at.ids[-1]
        if chance.random() < 0.1:
            params["durability"] = "os"
        head = "main" if chance.random() < 0.6 else chance.choice(sorted(at.heads))
        return [self._append(at, head, [sent], params)]

    def pipelined(self, at: Belief) -> list[Act]:
        """Each below the one before, by ids of our own; none waits for an answer."""
        head = self._chance.choice(sorted(at.heads))
        burst = [self._sent(own_id=True) for _ in range(self._chance.randrange(2, 8))]
        acts = [self._append(at, head, burst[:1], {})]
        acts += [
            self._append(at, head, [sent], {"parent_id": before.id})
            for before, sent in pairwise(burst)
        ]
        return acts

    def flood(self, at: Belief) -> list[Act]:
        """Append more at once than an outbox holds, so that slow subscribers lag."""
        entries = [self._sent(size=150_000) for _ in range(self._chance.randrange(8, 16))]
        return [self._append(at, "main", [sent], {}) for sent in entries]

    def atom(self, at: Belief) -> list[Act]:
        chance = self._chance
        how = chance.choice(["plain", "own id", "key"])
        entries = [self._sent(own_id=how == "own id") for _ in range(chance.randrange(2, 6))]
        if chance.random() < 0.3 and at.ids:
            mark, target = self._mark(), at.ids[-1]
            entries[1] = Sent("label", mark, mark if how == "own id" else None, target=target)
        params: dict[str, Any] = {}
        if how == "key":
            params["idempotency_key"] = f"key {entries[0].mark}"
        return [self._append(at, chance.choice(sorted(at.heads)), entries, params)]

    def guarded(self, at: Belief) -> list[Act]:
        """Append with `expected`: the leaf, the seq or both; sometimes branch on a conflict."""
        chance = self._chance
        head = chance.choice(sorted(at.heads))
        expected: dict[str, Any] = {"leaf_id": at.heads[head]}
        if chance.random() < 0.2:
            expected = {"seq": at.seq}
        params: dict[str, Any] = {"expected": expected}
        if chance.random() < 0.25 and "leaf_id" in expected and len(at.heads) < 12:
            params["on_conflict"] = "branch"
            # Labels and titles come after it all the time, and move nothing.
            expected["seq"] = at.seq
        # Two who mean the same place: one of them is refused.
        count = 2 if chance.random() < 0.2 else 1
        return [self._append(at, head, [self._sent()], params) for _ in range(count)]

    def fork(self, at: Belief) -> list[Act]:
        parent = self._chance.choice([None, *at.ids])
        head = "main" if self._chance.random() < 0.2 else self._new_head(at)
        return [self._append(at, head, [self._sent()], {"parent_id": parent})]

    def own_head(self, at: Belief) -> list[Act]:
        """Append to a head of this actor's own, which no other actor should move."""
        if self._name not in at.heads:
            parent = self._chance.choice([None, *at.ids])
            return [self._append(at, self._name, [self._sent()], {"parent_id": parent})]
        return [self._append(at, self._name, [self._sent()], {})]

    def again(self, at: Belief) -> list[Act]:
        """Repeat a request that was answered."""
        return [self._chance.choice(at.done)] if at.done else self.append(at)

    # -- heads and records -----------------------------------------------------------------

    def move(self, at: Belief) -> list[Act]:
        chance = self._chance
        head = self._new_head(at) if chance.random() < 0.3 else chance.choice(sorted(at.heads))
        params = self._under_lease(at, head)
        if head in at.heads and chance.random() < 0.5:
            params["expected"] = {"leaf_id": at.heads[head]}
        if chance.random() < 0.15 and head in at.heads:
            return [Act("session/reset", at.session, params)]
        params["entry_id"] = chance.choice([None, *at.ids])
        if chance.random() < 0.3:
            params |= {"summary": "left", "details": {"mark": self._mark()}}
        return [Act("session/branch", at.session, params)]

    def rewind(self, at: Belief) -> list[Act]:
        head = self._chance.choice(sorted(at.heads))
        to = self._chance.choice(at.on_path(head)[-9:])
        return [Act("session/rewind", at.session, {**self._under_lease(at, head), "to": to})]

    def drop(self, at: Belief) -> list[Act]:
        heads = sorted(set(at.heads) - {"main"})
        if not heads:
            return self.fork(at)
        params = self._under_lease(at, self._chance.choice(heads))
        return [Act("session/branch", at.session, {**params, "drop": True})]

    def label(self, at: Belief) -> list[Act]:
        if not at.ids:
            return self.append(at)
        label = None if self._chance.random() < 0.1 else self._mark()
        params = {"entry_id": self._chance.choice(at.ids), "label": label}
        return [Act("session/label", at.session, params)]

    def update(self, at: Belief) -> list[Act]:
        params = {"title": self._mark()}
        if self._chance.random() < 0.4:
            # From memory, or from among the drafts, to its place.
            params["persist"] = "immediate"
        return [Act("session/update", at.session, params)]

    def compact(self, at: Belief) -> list[Act]:
        chance = self._chance
        head = chance.choice(sorted(at.heads))
        params = self._under_lease(at, head)
        params["details"] = {"mark": self._mark()}
        if chance.random() < 0.3:
            params["expected"] = {"leaf_id": at.heads[head]}
            params["messages"] = [{"role": "user", "content": "all that", "n": 1}]
        else:
            kept = chance.choice([None, *at.on_path(head)[-12:]])
            params |= {"summary": "so far", "first_kept_entry_id": kept}
        return [Act("session/compact", at.session, params)]

    # -- leases, company ---------------------------------------------------------------------

    def acquire(self, at: Belief) -> list[Act]:
        chance = self._chance
        head = chance.choice([*sorted(at.heads), self._name])
        params = {"head": head, "ttl_ms": chance.choice([300, 1500, 5000])}
        params["wait_ms"] = chance.choice([0, 50, 400])
        return [Act("session/acquire", at.session, params)]

    def lease(self, at: Belief) -> list[Act]:
        """Do something with a lease: renew it, write under it, let it go."""
        if not at.leases:
            return self.acquire(at)
        head = self._chance.choice(sorted(at.leases))
        lease_id = at.leases[head]
        match self._chance.choice(["renew", "release", "write", "write", "write"]):
            case "renew":
                params = {"lease_id": lease_id, "ttl_ms": 800}
                return [Act("session/renew", at.session, params)]
            case "release":
                return [Act("session/release", at.session, {"lease_id": lease_id})]
            case _:
                params = {} if head in at.heads else {"parent_id": None}
                return [self._append(at, head, [self._sent()], params)]

    def signal(self, at: Belief) -> list[Act]:
        params = {"kind": "delta", "data": {"mark": self._mark()}}
        return [Act("session/signal", at.session, params)]

    def presence(self, at: Belief) -> list[Act]:
        state = self._chance.choice(["thinking", "typing", None])
        return [Act("session/presence", at.session, {"state": state})]

    # -- the session as a whole ------------------------------------------------------------

    def archive(self, at: Belief) -> list[Act]:
        """Archive a session; mutations are refused until a refused actor unarchives it."""
        writing = self.append(at)
        return [
            Act("session/archive", at.session),
            *writing,
            Act("session/unarchive", at.session),
        ]

    def close(self, at: Belief) -> list[Act]:
        return [Act("session/close", at.session)]
