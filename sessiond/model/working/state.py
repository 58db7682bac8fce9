"""The working state of a session, folded from its state entries.

Law: the state is bounded. It holds the newest decisions, the artifacts and some counts, so that
neither an append nor an opening costs more in a session with a long past. The log keeps every entry.

Law: entries count in the order of the file, on every branch and head.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import Struct

from sessiond.limits import ARTIFACTS_BYTES_MAX, ARTIFACTS_MAX, DECISIONS_SHOWN_MAX
from sessiond.model.times import rfc3339
from sessiond.model.working.entries import (
    COUNT_MAX,
    ArtifactSet,
    BadState,
    Decision,
    Prune,
    StateEffect,
    StateSet,
    TaskDone,
)

PruneReason = Literal["decisions", "tokens"]


class WorkingState(Struct):
    """Working state of one session."""

    decisions: list[Decision] = []
    """The newest decisions, the oldest of them first; each with its time."""
    artifacts: dict[str, str] = {}
    artifact_bytes: int = 0
    """Bytes of the names and paths of all artifacts."""
    tokens_used: int = 0
    tokens_since_prune: int = 0
    total_tokens: int = 0
    """Tokens that were added in this session; a fork inherits `tokens_used` only."""
    turn_count: int = 0
    task_count: int = 0
    decision_count: int = 0
    """Number of decisions since the last prune."""
    pruned: bool = False
    last_pruned_at: str | None = None
    set_at: int = 0
    """The last line that stated the whole state; 0 if none did."""
    begun: bool = False
    """True once an entry has changed the state."""

    def take(self, effect: StateEffect, seq: int, time: str | float | None) -> str | None:
        """Change the state by the entry at `seq`; return why the entry changes nothing, else None.

        `time` is the time of the entry.
        """
        match effect:
            case BadState(detail):
                return detail
            case Decision():
                self._decide(effect, rfc3339(time))
            case ArtifactSet():
                if (full := overflow(self, effect)) is not None:
                    return full
                self._point(effect)
            case TaskDone():
                self._count(effect)
            case Prune():
                self._prune(effect, rfc3339(time))
            case StateSet():
                if (full := overflow(self, effect)) is not None:
                    return full
                self._set(effect, rfc3339(time))
                self.set_at = seq
        self.begun = True
        return None

    def copied(self) -> WorkingState:
        """Return a copy that can be changed by itself."""
        return msgspec.structs.replace(
            self, decisions=[*self.decisions], artifacts={**self.artifacts}
        )

    def _decide(self, made: Decision, time: str) -> None:
        self.decisions = [*self.decisions, _timed(made, time)][-DECISIONS_SHOWN_MAX:]
        self.decision_count = _sum(self.decision_count, 1)

    def _point(self, named: ArtifactSet) -> None:
        before = self.artifacts.pop(named.name, None)
        if before is not None:
            self.artifact_bytes -= _bytes(named.name, before)
        if named.path is not None:
            self.artifacts[named.name] = named.path
            self.artifact_bytes += _bytes(named.name, named.path)

    def _count(self, done: TaskDone) -> None:
        self.turn_count = _sum(self.turn_count, done.turns)
        self.task_count = _sum(self.task_count, done.tasks)
        self.tokens_used = _sum(self.tokens_used, done.tokens)
        self.tokens_since_prune = _sum(self.tokens_since_prune, done.tokens)
        self.total_tokens = _sum(self.total_tokens, done.tokens)

    def _prune(self, prune: Prune, time: str) -> None:
        kept = min(prune.max_decisions, DECISIONS_SHOWN_MAX)
        self.decisions = self.decisions[-kept:] if kept else []
        if prune.clear_artifacts:
            self.artifacts, self.artifact_bytes = {}, 0
        self.decision_count = self.tokens_since_prune = 0
        self.pruned, self.last_pruned_at = True, time

    def _set(self, state: StateSet, time: str) -> None:
        shown = state.decisions[-DECISIONS_SHOWN_MAX:]
        self.decisions = [_timed(one, time) for one in shown]
        self.artifacts = {**state.artifacts}
        self.artifact_bytes = _bytes_of(state.artifacts)
        self.tokens_used = state.tokens_used
        self.tokens_since_prune = state.tokens_since_prune
        self.total_tokens = state.total_tokens
        self.turn_count = state.turn_count
        self.task_count = state.task_count
        self.decision_count = state.decision_count
        self.pruned = state.pruned
        stated = state.last_pruned_at
        self.last_pruned_at = None if stated is None else rfc3339(stated)


def overflow(state: WorkingState, named: ArtifactSet | StateSet) -> str | None:
    """Return why there is no room for the artifacts of an entry; None if there is room."""
    if isinstance(named, StateSet):
        return _too_much(len(named.artifacts), _bytes_of(named.artifacts))
    if named.path is None:
        return None
    before = state.artifacts.get(named.name)
    count = len(state.artifacts) + (before is None)
    size = state.artifact_bytes + _bytes(named.name, named.path)
    return _too_much(count, size - (0 if before is None else _bytes(named.name, before)))


def prune_reasons(state: WorkingState, max_decisions: int, max_tokens: int) -> list[PruneReason]:
    """Return which limits the state has passed; none of them: no prune is due.

    Decisions count that are in view, or were made since the last prune; of tokens those since the last prune.
    """
    reasons: list[PruneReason] = []
    if max(state.decision_count, len(state.decisions)) > max_decisions:
        reasons.append("decisions")
    if state.tokens_since_prune > max_tokens:
        reasons.append("tokens")
    return reasons


def _too_much(count: int, size: int) -> str | None:
    if count > ARTIFACTS_MAX:
        return f"a session has at most {ARTIFACTS_MAX} artifacts: remove one first"
    if size > ARTIFACTS_BYTES_MAX:
        return (
            f"the names and paths of a session's artifacts have at most {ARTIFACTS_BYTES_MAX}"
            " bytes: remove one first"
        )
    return None


def _timed(made: Decision, time: str) -> Decision:
    stated = time if made.timestamp is None else rfc3339(made.timestamp)
    return Decision(made.decision, made.rationale, stated)


def _sum(before: int, more: int) -> int:
    return min(before + more, COUNT_MAX)


def _bytes(name: str, path: str) -> int:
    return len(name.encode()) + len(path.encode())


def _bytes_of(artifacts: dict[str, str]) -> int:
    return sum(_bytes(name, path) for name, path in artifacts.items())
