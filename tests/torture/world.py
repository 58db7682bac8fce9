"""The beliefs of one actor about the sessions, from its answers; they may be out of date.

The beliefs prove nothing: they only decide the next requests of the actor.
"""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Any

from tests.torture.records import Act

__all__ = ["Belief", "World"]

KEPT = 48


class Belief:
    """The beliefs about one session."""

    def __init__(self, session: str) -> None:
        self.session = session
        self.heads: dict[str, str | None] = {"main": None}
        self.ids: deque[str] = deque(maxlen=KEPT)
        """The ids of stored nodes of the tree."""
        self.behind: dict[str, deque[str]] = {}
        """The latest chain of appends to each head: the end of its path."""
        self.seq = 0
        self.known: dict[str, Any] | None = None
        """The context that the actor holds: {leaf_id, count}."""
        self.etag: str | None = None
        self.leases: dict[str, str] = {}
        """The leases this connection has, by head."""
        self.done: deque[Act] = deque(maxlen=KEPT)
        """Appends that were answered and can be asked again."""

    def learn(self, act: Act, sight: dict[str, Any]) -> None:
        """Take in a result."""
        method, params = act.method, act.params
        self.seq = max(self.seq, sight.get("seq") or 0)
        head = sight.get("head", params.get("head", "main"))
        match method:
            case "session/append":
                nodes = [
                    entry["id"]
                    for entry, sent in zip(sight["entries"], act.entries, strict=True)
                    if sent.type not in {"label", "session_info"}
                ]
                self.ids.extend(nodes)
                self._grown(head, sight["entries"][0]["parent_id"], nodes)
                self.heads[head] = sight["leaf_id"]
                if params.get("idempotency_key") or all(sent.id for sent in act.entries):
                    self.done.append(act)
            case "session/branch" | "session/reset" | "session/rewind" if params.get("drop"):
                self.heads.pop(head, None)
            case "session/branch" | "session/reset" | "session/rewind":
                self.heads[head] = sight["leaf_id"]
            case "session/compact":
                self.heads[head] = sight["leaf_id"]
                self.ids.append(sight["leaf_id"])
            case "session/get" | "session/heads":
                self.heads = {one["name"]: one["leaf_id"] for one in sight["heads"]}
            case "session/build_context" if not sight.get("not_modified"):
                count = sight["unchanged"] + sight["count"]
                self.known = {"leaf_id": sight["leaf_id"], "count": count}
                self.etag = sight["etag"]
            case "session/acquire":
                self.leases[head] = sight["lease_id"]
            case "session/release":
                self.forget_lease(params["lease_id"])
            case _:
                pass

    def _grown(self, head: str, parent_id: str | None, nodes: list[str]) -> None:
        behind = self.behind.setdefault(head, deque(maxlen=KEPT))
        if parent_id is None or parent_id not in list(behind)[-1:]:
            behind.clear()
        behind.extend(nodes)

    def on_path(self, head: str) -> list[str | None]:
        """Return ids that are likely on a head's path."""
        return [*self.behind.get(head, ()), self.heads.get(head)]

    def refuse(self, act: Act, kind: str, data: dict[str, Any]) -> None:
        """Learn from an error."""
        head = act.params.get("head", "main")
        if kind == "precondition_failed":
            self.heads[head] = data["actual"]["leaf_id"]
            self.seq = max(self.seq, data["actual"]["seq"])
        elif kind == "head_not_found":
            self.heads.pop(head, None)
            self.heads.setdefault("main", None)
        elif kind in {"lease_lost", "lease_held"} and "lease_id" in act.params:
            self.forget_lease(act.params["lease_id"])

    def forget_lease(self, lease_id: str) -> None:
        self.leases = {head: id_ for head, id_ in self.leases.items() if id_ != lease_id}


class World:
    """The beliefs about all sessions of a round."""

    def __init__(self, sessions: list[str]) -> None:
        self.beliefs = {session: Belief(session) for session in sessions}
        self.archived: set[str] = set()

    def pick(self, chance: Random) -> Belief:
        """Pick a session; the first ones are picked most often."""
        names = list(self.beliefs)
        return self.beliefs[chance.choices(names, range(len(names), 0, -1))[0]]

    def learn(self, act: Act, sight: dict[str, Any]) -> None:
        if act.session in self.beliefs:
            self.beliefs[act.session].learn(act, sight)
        if act.method == "session/archive":
            self.archived.add(act.session)
        elif act.method == "session/unarchive":
            self.archived.discard(act.session)

    def refuse(self, act: Act, kind: str, data: dict[str, Any]) -> None:
        if kind == "session_archived":
            self.archived.add(act.session)
        elif kind == "session_not_found" and len(self.beliefs) > 1:
            # One in memory has ended with its daemon.
            self.beliefs.pop(act.session, None)
        if act.session in self.beliefs:
            self.beliefs[act.session].refuse(act, kind, data)

    def reconnected(self) -> None:
        """Forget the leases, which end with a connection."""
        for belief in self.beliefs.values():
            belief.leases.clear()
