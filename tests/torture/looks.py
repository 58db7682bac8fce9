"""Acts that change nothing."""

from __future__ import annotations

from typing import Any

from tests.torture.drawing import Drawing
from tests.torture.records import Act
from tests.torture.world import Belief

__all__ = ["Looks"]


class Looks(Drawing):
    """Every way to read a session."""

    def context(self, at: Belief) -> list[Act]:
        chance = self._chance
        params: dict[str, Any] = {"head": chance.choice(sorted(at.heads))}
        if chance.random() < 0.2 and at.ids:
            params = {"entry_id": chance.choice(at.ids)}
        if at.known and chance.random() < 0.7:
            params["known"] = at.known
        elif at.etag and chance.random() < 0.2:
            params["if_none_match"] = at.etag
        return [Act("session/build_context", at.session, params)]

    def path(self, at: Belief) -> list[Act]:
        chance = self._chance
        params: dict[str, Any] = {"head": chance.choice(sorted(at.heads)), "from_end": True}
        if chance.random() < 0.3 and at.ids:
            params = {"entry_id": chance.choice(at.ids)}
        return [Act("session/path", at.session, {**params, "limit": chance.choice([5, 60])})]

    def entries(self, at: Belief) -> list[Act]:
        chance = self._chance
        params: dict[str, Any] = {"limit": chance.choice([10, 100])}
        where = chance.choice(["after_seq", "before_seq"])
        params[where] = max(0, at.seq - chance.randrange(-5, 60))
        return [Act("session/entries", at.session, params)]

    def tree(self, at: Belief) -> list[Act]:
        return [Act("session/tree", at.session, {"limit": 40})]

    def entry(self, at: Belief) -> list[Act]:
        if not at.ids:
            return self.get(at)
        params = {"entry_id": self._chance.choice(at.ids)}
        return [Act("session/entry", at.session, params)]

    def get(self, at: Belief) -> list[Act]:
        return [Act("session/get", at.session)]

    def heads(self, at: Belief) -> list[Act]:
        return [Act("session/heads", at.session)]

    def labels(self, at: Belief) -> list[Act]:
        return [Act("session/labels", at.session, {"limit": 10_000})]
