"""The working state of a session as answers show it, and the brief made of it."""

from __future__ import annotations

from msgspec import Struct

from sessiond.service.log.open_session import OpenSession


class DecisionInfo(Struct, frozen=True):
    """Key decision and its time, null if its entry has none."""

    decision: str
    rationale: str | None
    timestamp: str | None


class Metrics(Struct, frozen=True):
    """Counts of this session alone; `decision_count` begins anew at each prune."""

    decision_count: int
    task_count: int
    total_tokens: int


class StateInfo(Struct, frozen=True):
    """Working state of a session, which an agent must remember between its turns.

    `decisions` are the newest ones, the oldest of them first.
    """

    agent: str | None
    model: str | None
    plan: str | None
    tags: list[str]
    decisions: list[DecisionInfo]
    artifacts: dict[str, str]
    tokens_used: int
    turn_count: int
    metrics: Metrics
    pruned: bool
    last_pruned_at: str | None


def state_of(opened: OpenSession) -> StateInfo:
    """Return the working state now."""
    info, state = opened.whole(), opened.session.state
    return StateInfo(
        agent=info.agent,
        model=info.model,
        plan=info.plan if isinstance(info.plan, str) else None,
        tags=info.tags,
        decisions=[
            DecisionInfo(one.decision, one.rationale, one.timestamp or None)
            for one in state.decisions
        ],
        artifacts={**state.artifacts},
        tokens_used=state.tokens_used,
        turn_count=state.turn_count,
        metrics=Metrics(state.decision_count, state.task_count, state.total_tokens),
        pruned=state.pruned,
        last_pruned_at=state.last_pruned_at or None,
    )


def brief_of(session_id: str, state: StateInfo) -> str:
    """Return a short text for a system prompt: the session, its plan, the latest decision."""
    lines = [f"Session: {session_id}"]
    if state.model:
        lines.append(f"Model: {state.model}")
    lines.append(f"Turns: {state.turn_count}")
    if state.plan:
        lines.append(f"Plan: {state.plan}")
    if state.decisions:
        lines.append(f"Latest decision: {_in_words(state.decisions[-1])}")
    return "\n".join(lines)


def _in_words(decision: DecisionInfo) -> str:
    if not decision.rationale:
        return decision.decision
    return f"{decision.decision} ({decision.rationale})"
