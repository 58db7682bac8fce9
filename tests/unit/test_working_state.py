"""Working state: what entries make of it, and what a wrong entry does not."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from sessiond.dialects import DIALECTS
from sessiond.dialects.base import Dialect
from sessiond.limits import ARTIFACTS_BYTES_MAX, ARTIFACTS_MAX, DECISIONS_SHOWN_MAX
from sessiond.model.entries import Custom, Header
from sessiond.model.row import Kind
from sessiond.model.working.entries import (
    COUNT_MAX,
    STATE_TYPES,
    ArtifactSet,
    BadState,
    Decision,
    Prune,
    StateSet,
    TaskDone,
    state_effect,
)
from sessiond.model.working.state import WorkingState, overflow, prune_reasons

NOW = "2026-01-15T10:30:00.000Z"


def folded(*effects: Any, time: str = NOW) -> WorkingState:
    """Return the state that these entries make."""
    state = WorkingState()
    for seq, effect in enumerate(effects, 1):
        assert state.take(effect, seq, time) is None
    return state


def test_the_view_has_the_newest_ten_decisions() -> None:
    state = folded(*[Decision(f"d{number}") for number in range(12)])
    assert [one.decision for one in state.decisions] == [f"d{number}" for number in range(2, 12)]
    assert len(state.decisions) == DECISIONS_SHOWN_MAX
    assert state.decision_count == 12


def test_a_decision_has_its_own_time_or_that_of_its_entry() -> None:
    state = folded(Decision("a"), Decision("b", "why", "2026-01-01T02:00:00+02:00"))
    assert [one.timestamp for one in state.decisions] == [NOW, "2026-01-01T00:00:00.000Z"]
    assert state.decisions[1].rationale == "why"


def test_the_last_path_of_an_artifact_wins_and_null_removes_it() -> None:
    state = folded(ArtifactSet("a", "1"), ArtifactSet("b", "22"), ArtifactSet("a", "333"))
    assert (state.artifacts, state.artifact_bytes) == ({"b": "22", "a": "333"}, 7)
    assert state.take(ArtifactSet("b"), 4, NOW) is None
    assert state.take(ArtifactSet("never there"), 5, NOW) is None
    assert (state.artifacts, state.artifact_bytes) == ({"a": "333"}, 4)


def test_tasks_add_up_and_a_sum_ends_where_integers_end() -> None:
    state = folded(TaskDone(turns=1, tasks=1, tokens=5), TaskDone(turns=2, tokens=COUNT_MAX))
    assert (state.turn_count, state.task_count) == (3, 1)
    assert state.tokens_used == state.total_tokens == COUNT_MAX


def test_a_prune_moves_the_view_again_and_again() -> None:
    state = folded(
        *[Decision(f"d{number}") for number in range(5)],
        ArtifactSet("a", "1"),
        Prune(2, 100),
    )
    assert ([one.decision for one in state.decisions], state.decision_count, state.pruned) == (
        ["d3", "d4"],
        0,
        True,
    )
    assert (state.artifacts, state.last_pruned_at) == ({"a": "1"}, NOW)
    for decision in [Decision(f"d{number}") for number in range(5, 16)]:
        state.take(decision, 0, NOW)
    assert [one.decision for one in state.decisions] == [f"d{number}" for number in range(6, 16)]
    assert prune_reasons(state, 10, 100) == ["decisions"]
    state.take(Prune(0, 100, clear_artifacts=True), 0, "2026-01-16T10:30:00.000Z")
    assert ([one.decision for one in state.decisions], state.artifacts, state.artifact_bytes) == (
        [],
        {},
        0,
    )
    assert state.last_pruned_at == "2026-01-16T10:30:00.000Z"
    assert prune_reasons(state, 10, 100) == []


def test_a_prune_for_tokens_is_due_again_after_as_many_tokens() -> None:
    state = folded(TaskDone(tokens=101))
    assert prune_reasons(state, 10, 101) == []
    assert prune_reasons(state, 10, 100) == ["tokens"]
    state.take(Prune(10, 100), 2, NOW)
    assert (state.tokens_used, prune_reasons(state, 10, 100)) == (101, [])
    state.take(TaskDone(tokens=101), 3, NOW)
    assert prune_reasons(state, 10, 100) == ["tokens"]


def test_the_whole_state_can_be_stated() -> None:
    stated = StateSet(
        decisions=[
            Decision("x", None, NOW),
            *[Decision(f"d{number}") for number in range(10)],
        ],
        artifacts={"a": "1"},
        tokens_used=7,
        tokens_since_prune=3,
        turn_count=2,
        pruned=True,
        last_pruned_at="2026-01-01T00:00:00Z",
    )
    state = folded(
        *[Decision(f"d{number}") for number in range(90, 93)],
        TaskDone(turns=9, tasks=9, tokens=9),
        stated,
    )
    assert [one.decision for one in state.decisions] == [f"d{number}" for number in range(10)]
    assert (state.tokens_used, state.tokens_since_prune, state.total_tokens) == (7, 3, 0)
    assert (state.turn_count, state.task_count, state.artifacts) == (2, 0, {"a": "1"})
    assert (state.pruned, state.last_pruned_at) == (True, "2026-01-01T00:00:00.000Z")
    assert state.set_at == 5


def test_one_artifact_too_many_has_no_room() -> None:
    full = folded(StateSet(artifacts={f"a{number}": "x" for number in range(ARTIFACTS_MAX)}))
    assert overflow(full, ArtifactSet("a0", "another path")) is None
    assert overflow(full, ArtifactSet("new", None)) is None
    before = full.copied()
    refused = full.take(ArtifactSet("new", "x"), 2, NOW)
    assert refused is not None
    assert str(ARTIFACTS_MAX) in refused
    assert full == before
    names = {f"a{number}": "x" * 4000 for number in range(ARTIFACTS_BYTES_MAX // 4000)}
    heavy = folded(StateSet(artifacts=names))
    refused = heavy.take(ArtifactSet("new", "x" * 4000), 2, NOW)
    assert refused is not None
    assert str(ARTIFACTS_BYTES_MAX) in refused
    assert heavy.take(ArtifactSet("a0", "y" * 4000), 3, NOW) is None
    assert WorkingState().take(StateSet(artifacts=names | {"b": "x" * 8000}), 1, NOW)


@pytest.mark.parametrize(
    ("custom_type", "data", "path"),
    [
        ("sessiond.decision", None, "data"),
        ("sessiond.decision", [], "data"),
        ("sessiond.decision", {}, "data.decision"),
        ("sessiond.decision", {"decision": ""}, "data.decision"),
        ("sessiond.decision", {"decision": "x" * 16_385}, "data.decision"),
        ("sessiond.decision", {"decision": "a", "rationale": 5}, "data.rationale"),
        ("sessiond.decision", {"decision": "a", "timestamp": "now"}, "data.timestamp"),
        ("sessiond.artifact", {"path": "x"}, "data.name"),
        ("sessiond.artifact", {"name": "a", "path": ""}, "data.path"),
        ("sessiond.task", {"turns": -1}, "data.turns"),
        ("sessiond.task", {"tokens": "5"}, "data.tokens"),
        ("sessiond.prune", {"max_decisions": 1}, "data.max_tokens"),
        ("sessiond.prune", {"max_decisions": -1, "max_tokens": 1}, "data.max_decisions"),
        ("sessiond.state", {"artifacts": {"": "x"}}, "data.artifacts"),
        ("sessiond.state", {"decisions": [{"decision": 5}]}, "data.decisions[0].decision"),
        (
            "sessiond.state",
            {"decisions": [{"decision": "a", "timestamp": "x"}]},
            "data.decisions[0].timestamp",
        ),
        ("sessiond.state", {"last_pruned_at": "x"}, "data.last_pruned_at"),
    ],
)
def test_data_of_another_shape_changes_nothing(custom_type: str, data: Any, path: str) -> None:
    effect = state_effect(custom_type, None if data is None else Raw(json.dumps(data).encode()))
    assert isinstance(effect, BadState)
    assert effect.path == path
    state = folded(Decision("a"))
    before = state.copied()
    assert state.take(effect, 2, NOW) == effect.detail
    assert state == before


def test_other_types_and_further_members_mean_nothing() -> None:
    assert state_effect("my.decision", Raw(b'{"decision":5}')) is None
    found = state_effect("sessiond.decision", Raw(b'{"decision":"a","author":"b"}'))
    assert found == Decision("a")
    assert state_effect("sessiond.task", Raw(b'{"turns":1.0}')) == TaskDone(turns=1)


SAMPLES = {
    "sessiond.decision": {"decision": "Use SQLite", "rationale": "one file", "timestamp": NOW},
    "sessiond.artifact": {"name": "branch", "path": "feat/x"},
    "sessiond.task": {"task": "t", "turns": 1, "tasks": 1, "tokens": 5},
    "sessiond.prune": {"max_decisions": 1, "max_tokens": 5, "clear_artifacts": True},
    "sessiond.state": {"decisions": [{"decision": "a"}], "turn_count": 5, "pruned": True},
}


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
@pytest.mark.parametrize("custom_type", sorted(STATE_TYPES))
def test_in_every_dialect_a_state_entry_says_the_same(dialect: Dialect, custom_type: str) -> None:
    header = Header(version=3, id="session-a", timestamp=NOW, cwd="/p")
    own = dialect.for_file(header)
    data = Raw(msgspec.json.encode(SAMPLES[custom_type]))
    entry = Custom(
        custom_type=custom_type,
        data=data,
        id="11111111-1111-4111-8111-111111111111" if own.rules.uuids else "00000001",
        parent_id=None,
        timestamp=NOW,
    )
    row = own.row_of(entry)
    assert row.kind == Kind.CUSTOM
    assert row.effect == state_effect(custom_type, data)
    assert row.effect is not None
    assert own.row(own.encode(entry)).effect == row.effect
