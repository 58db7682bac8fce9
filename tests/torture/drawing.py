"""The common draws of all acts: marks, sizes, spellings, and the lease of a head."""

from __future__ import annotations

from random import Random
from typing import Any, Final

from tests.torture.records import Act, Sent
from tests.torture.world import Belief

__all__ = ["Drawing"]

_LARGE: Final = {60_000: 0.02, 200_000: 0.01}
_TYPES: Final = {
    "message": 60,
    "custom_message": 8,
    "custom": 8,
    "thinking_level_change": 3,
    "model_change": 3,
    "branch_summary": 2,
    "x.note": 4,
}


class Drawing:
    """The random source of one actor, and the marks that it has used."""

    def __init__(self, name: str, chance: Random) -> None:
        self._name = name
        self._chance = chance
        self._count = 0

    def _append(self, at: Belief, head: str, entries: list[Sent], params: dict[str, Any]) -> Act:
        params = {**self._under_lease(at, head), **params}
        return Act("session/append", at.session, params, tuple(entries))

    def _under_lease(self, at: Belief, head: str) -> dict[str, Any]:
        params: dict[str, Any] = {} if head == "main" else {"head": head}
        if head in at.leases:
            params["lease_id"] = at.leases[head]
        return params

    def _sent(self, *, own_id: bool = False, size: int | None = None) -> Sent:
        chance = self._chance
        (word,) = chance.choices(list(_TYPES), list(_TYPES.values()))
        if size is None:
            size = chance.choice([0, 10, 200, 1500, 4000])
            for large, share in _LARGE.items():
                if chance.random() < share:
                    size = large
        mark = self._mark()
        role = chance.choice(["user", "assistant", "tool"])
        flavour = chance.choice([0, 0, 1, 2, 3])
        return Sent(word, mark, mark if own_id else None, role, size, flavour)

    def _new_head(self, at: Belief) -> str:
        return f"{self._name}/{len(at.heads) % 5}"

    def _mark(self) -> str:
        self._count += 1
        return f"{self._name}-{self._count}"
