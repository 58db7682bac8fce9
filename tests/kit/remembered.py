"""The working state and the queue of a session as protocol.md says that they are after each call.

Law: it knows no daemon, no file and no time.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field
from typing import Any, Final

__all__ = ["Remembered"]

Json = Any
_SHOWN: Final = 10
_DECISIONS_MAX, _TOKENS_MAX = 10, 150_000


@dataclass
class Remembered:
    """What an agent must remember between its turns, and the prompts that wait for the agent."""

    decisions: list[str] = field(default_factory=list)
    artifacts: dict[str, str] = field(default_factory=dict)
    tokens: int = 0
    tokens_since_prune: int = 0
    turns: int = 0
    tasks: int = 0
    decision_count: int = 0
    pruned: bool = False
    prompts: dict[str, str] = field(default_factory=dict)
    """Kinds of the prompts that no call has removed, by id, in the order in which they came."""

    def waiting(self, entries: Container[str]) -> list[str]:
        """Return the ids of the prompts that no entry has, in the order in which to take them."""
        left = [one for one in self.prompts if one not in entries]
        return sorted(left, key=lambda one: self.prompts[one] != "steer")

    def state(self) -> Json:
        """Return what session/get shows of the state, without times."""
        return {
            "decisions": self.decisions,
            "artifacts": self.artifacts,
            "tokens_used": self.tokens,
            "turn_count": self.turns,
            "metrics": {
                "decision_count": self.decision_count,
                "task_count": self.tasks,
                "total_tokens": self.tokens,
            },
            "pruned": self.pruned,
        }

    @staticmethod
    def seen(state: Json) -> Json:
        """Return a state that session/get showed as `state` returns it."""
        told = {"agent", "model", "plan", "tags", "last_pruned_at"}
        kept = {name: value for name, value in state.items() if name not in told}
        return kept | {"decisions": [one["decision"] for one in state["decisions"]]}

    def after(self, method: str, params: Json) -> int:
        """Change the state by a call; return how many entries store the call."""
        match method:
            case "session/decide":
                self._decide(params["decision"])
                return 1
            case "session/artifact":
                if params["path"] is None:
                    self.artifacts.pop(params["name"], None)
                else:
                    self.artifacts[params["name"]] = params["path"]
                return 1
            case "session/task":
                return self._do(params)
            case _:
                force = params.get("force", False)
                return self._prune(params.get("max_decisions", _DECISIONS_MAX), force=force)

    def _do(self, params: Json) -> int:
        self.turns += 1
        self.tasks += 1
        self.tokens += params["tokens_added"]
        self.tokens_since_prune += params["tokens_added"]
        decided = params["decision"]
        if decided is not None:
            self._decide(decided["decision"])
        return 1 + (decided is not None) + self._prune(_DECISIONS_MAX, force=False)

    def _decide(self, decision: str) -> None:
        self.decisions = [*self.decisions, decision][-_SHOWN:]
        self.decision_count += 1

    def _prune(self, kept: int, *, force: bool) -> int:
        too_long = self.tokens_since_prune > _TOKENS_MAX
        too_many = max(self.decision_count, len(self.decisions)) > kept
        if not (force or too_long or too_many):
            return 0
        self.decisions = self.decisions[-kept:] if kept else []
        if too_long:
            self.artifacts = {}
        self.decision_count = self.tokens_since_prune = 0
        self.pruned = True
        return 1
