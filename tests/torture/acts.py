"""The next acts of an actor: bursts of requests, drawn from a seed and from its beliefs.

Law: no function here waits or does I/O. A raw connection sends a burst at once, so its requests may
depend on each other only through ids that the actor chose.

A new act needs a method of `Changes` or `Looks`, and its weight in a mix.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Final

from tests.torture.changes import Changes
from tests.torture.looks import Looks
from tests.torture.records import Act
from tests.torture.world import World

__all__ = ["MIXES", "Acts"]

_WRITING: Final = {
    "append": 30,
    "pipelined": 8,
    "flood": 0.4,
    "atom": 8,
    "guarded": 8,
    "fork": 4,
    "own_head": 12,
    "again": 4,
    "move": 5,
    "rewind": 4,
    "drop": 2,
    "label": 3,
    "update": 2,
    "compact": 4,
    "acquire": 4,
    "lease": 5,
    "signal": 3,
    "presence": 1,
    "context": 3,
    "get": 3,
    "entries": 2,
    "archive": 0.4,
    "close": 0.4,
}
_READING: Final = {
    "context": 10,
    "path": 6,
    "entries": 8,
    "tree": 2,
    "entry": 4,
    "get": 4,
    "heads": 4,
    "labels": 2,
    "append": 4,
    "again": 2,
    "label": 1,
    "close": 0.5,
    "signal": 1,
}

# By the part that an actor has.
MIXES: Final[Mapping[str, Mapping[str, float]]] = {
    "write": _WRITING,
    "read": _READING,
    "append": {"append": 3, "atom": 1},
}


class Acts(Changes, Looks):
    """The choices of one actor."""

    def __init__(self, name: str, chance: Random, weights: Mapping[str, float]) -> None:
        super().__init__(name, chance)
        self._weights = weights

    def draw(self, world: World) -> list[Act]:
        """Return the next burst."""
        for session in sorted(world.archived):
            if self._chance.random() < 0.3:
                return [Act("session/unarchive", session)]
        (what,) = self._chance.choices(list(self._weights), list(self._weights.values()))
        acts: list[Act] = getattr(self, what)(world.pick(self._chance))
        return acts
