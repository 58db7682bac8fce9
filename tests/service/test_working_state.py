"""Working state: changed by methods and entries, kept over restarts, the same for every client."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from tests.kit.calls import append, call, create, part_of, refused, say, watch
from tests.kit.house import House
from tests.kit.limits import set_limits
from tests.kit.sessions import SESSION, stored_entry

DECISIONS = "decisions[].decision"
DECIDED = f"state.{DECISIONS}"


async def test_the_view_has_ten_decisions_and_the_log_all(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        for number in range(11):
            await call(wire, "session/decide", decision=f"d{number}", rationale=f"r{number}")
        made = await call(wire, "session/decide", decision="d11", rationale="r11")
        assert made["state"] == await call(wire, "session/get", "state")
        assert part_of(made, DECIDED) == [f"d{number}" for number in range(2, 12)]
        assert (made["seq"], made["state"]["decisions"][-1]["rationale"]) == (12, "r11")
        assert made["state"]["metrics"]["decision_count"] == 12
        logged = await call(wire, "session/entries", "entries[].entry.custom_type")
        assert logged == ["sessiond.decision"] * 12


async def test_facts_are_part_of_the_state(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, agent="implementer", model="m-1", tags=["feature"])
        await call(wire, "session/update", plan="First the table.")
        state = await call(wire, "session/get", "state")
        assert (state["agent"], state["model"], state["tags"]) == (
            "implementer",
            "m-1",
            ["feature"],
        )
        assert state["plan"] == "First the table."


async def test_artifacts_are_pointers_by_name(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        for name, path in (("a", "1"), ("b", "2"), ("a", "3")):
            await call(wire, "session/artifact", name=name, path=path)
        made = await call(wire, "session/artifact", name="b", path=None)
        assert made["state"]["artifacts"] == {"a": "3"}


async def test_a_task_counts_its_turn_and_answers_what_a_resumed_turn_needs(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, model="m-1")
        await call(wire, "session/update", plan="The plan")
        done = await call(
            wire,
            "session/task",
            task="Add registration",
            decision={"decision": "E-mail first", "rationale": "no phones"},
            tokens_added=500,
        )
        assert (done["session_id"], done["resume"], done["model"]) == (SESSION, SESSION, "m-1")
        assert done["context"].splitlines() == [
            f"Session: {SESSION}",
            "Model: m-1",
            "Turns: 1",
            "Plan: The plan",
            "Latest decision: E-mail first (no phones)",
        ]
        assert (done["pruned"], done["duplicate"], done["seq"]) == (False, False, 3)
        state = done["state"]
        assert (state["turn_count"], state["tokens_used"]) == (1, 500)
        assert state["metrics"] == {"decision_count": 1, "task_count": 1, "total_tokens": 500}
        brief = await call(wire, "session/brief")
        assert brief.pop("fork_count") == 0
        assert brief == {name: done[name] for name in brief}


async def test_turns_and_tokens_are_added_by_hand_and_negatives_ignored(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        counted: list[tuple[int, int, int]] = []
        for added in (
            {"turns_added": 3},
            {"turns_added": -3, "tokens_added": -50},
            {"turns_added": 0, "tokens_added": 50},
            {"turns_added": 0, "tokens_added": 5, "task": "named"},
        ):
            state = (await call(wire, "session/task", **added))["state"]
            metrics = state["metrics"]
            counted.append((state["turn_count"], state["tokens_used"], metrics["task_count"]))
        assert counted == [(3, 0, 1), (3, 0, 2), (3, 50, 2), (3, 55, 3)]


async def test_a_turn_and_its_decision_survive_a_kill(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, session_id=SESSION)
        await call(wire, "session/decide", decision="Use SQLite")
        await call(wire, "session/task", decision={"decision": "No ORM"}, tokens_added=7)
        before = await call(wire, "session/get", "state")
        left = house.disk.crash()
    house.files = left
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await call(wire, "session/get", "state") == before
        assert part_of(before, DECISIONS) == ["Use SQLite", "No ORM"]
        assert (before["turn_count"], before["tokens_used"]) == (1, 7)


async def test_a_prune_can_happen_twice(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        for round_ in range(2):
            for number in range(3):
                await call(wire, "session/decide", decision=f"d{round_}{number}")
            asked = await call(wire, "session/prune", max_decisions=2, dry_run=True)
            assert (asked["would_prune"], asked["pruned"]) == (True, False)
            assert asked["reasons"] == ["decisions"]
            pruned = await call(wire, "session/prune", max_decisions=2)
            assert (pruned["pruned"], pruned["would_prune"]) == (True, False)
            assert part_of(pruned, DECIDED) == [f"d{round_}1", f"d{round_}2"]
            assert pruned["state"]["metrics"]["decision_count"] == 0
            assert pruned["state"]["pruned"]
        logged = await call(wire, "session/entries", "entries[].entry.custom_type")
        assert logged.count("sessiond.prune") == 2
        state = await call(wire, "session/get", "state")
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await call(wire, "session/get", "state") == state


async def test_a_smaller_bound_prunes_what_an_earlier_prune_left(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        for number in range(12):
            await call(wire, "session/decide", decision=f"d{number}")
        first = await call(wire, "session/prune")
        assert (first["pruned"], len(first["state"]["decisions"])) == (True, 10)
        assert not (await call(wire, "session/prune"))["pruned"]
        asked = await call(wire, "session/prune", max_decisions=3, dry_run=True)
        assert asked["reasons"] == ["decisions"]
        pruned = await call(wire, "session/prune", max_decisions=3)
        assert (pruned["pruned"], pruned["reasons"]) == (True, ["decisions"])
        assert part_of(pruned, DECIDED) == ["d9", "d10", "d11"]


async def test_a_prune_without_a_reason_stores_nothing(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        await call(wire, "session/decide", decision="a")
        answer = await call(wire, "session/prune")
        assert (answer["pruned"], answer["reasons"], answer["seq"]) == (False, [], 1)
        assert not answer["state"]["pruned"]
        forced = await call(wire, "session/prune", force=True, max_decisions=0)
        assert (forced["pruned"], forced["reasons"]) == (True, ["decisions"])
        again = await call(wire, "session/prune", force=True)
        assert (again["pruned"], again["reasons"], again["seq"]) == (True, ["force"], 3)


async def test_a_task_that_passes_a_limit_prunes_in_its_own_atom(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        await call(wire, "session/artifact", name="a", path="1")
        for number in range(10):
            await call(wire, "session/decide", decision=f"d{number}")
        done = await call(wire, "session/task", decision={"decision": "last"})
        assert done["pruned"]
        assert part_of(done, DECIDED) == [
            *(f"d{number}" for number in range(1, 10)),
            "last",
        ]
        assert done["state"]["artifacts"] == {"a": "1"}
        spent = await call(wire, "session/task", tokens_added=150_001)
        assert (spent["pruned"], spent["state"]["artifacts"]) == (True, {})
        assert spent["state"]["tokens_used"] == 150_001
        assert not (await call(wire, "session/task", tokens_added=150_000))["pruned"]
        assert (await call(wire, "session/task", tokens_added=1))["pruned"]
        rows = (await call(wire, "session/entries", after_seq=11, limit=3))["entries"]
        assert [row["entry"]["custom_type"] for row in rows] == [
            "sessiond.task",
            "sessiond.decision",
            "sessiond.prune",
        ]
        assert [row["entry"]["atom"] for row in rows] == [[1, 3], [2, 3], [3, 3]]


CALLS: dict[str, dict[str, Any]] = {
    "session/decide": {"decision": "x"},
    "session/artifact": {"name": "a", "path": "p"},
    "session/task": {"decision": {"decision": "x"}, "tokens_added": 200_000},
    "session/prune": {"force": True},
}


@pytest.mark.parametrize("method", CALLS)
async def test_a_retry_under_a_key_stores_nothing_again(house: House, method: str) -> None:
    params = CALLS[method] | {"idempotency_key": "once"}
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        first = await call(wire, method, **params)
        again = await call(wire, method, **params)
        assert (first["duplicate"], again["duplicate"]) == (False, True)
        assert first | {"duplicate": True, "reasons": None} == again | {"reasons": None}
        other = {"decision": "y", "idempotency_key": "once"}
        assert await refused(wire, "session/decide", **other) == "idempotency_conflict"
    async with house.daemon() as daemon, daemon.connect() as wire:
        again = await call(wire, method, **params)
        assert (again["duplicate"], again["seq"]) == (True, first["seq"])


async def test_each_change_is_an_event(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as watcher:
        await create(wire)
        await watch(watcher)
        for method, params in CALLS.items():
            await call(wire, method, **params)
        events = [(await watcher.next_notification())["params"] for _ in range(6)]
        assert [event["entry"]["custom_type"] for event in events] == [
            *("sessiond.decision", "sessiond.artifact", "sessiond.task"),
            *("sessiond.decision", "sessiond.prune", "sessiond.prune"),
        ]
        assert [event["seq"] for event in events] == list(range(1, 7))


async def test_a_head_an_expectation_and_a_lease_hold_here_too(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await create(wire)
        leaf = await call(wire, "session/decide", "leaf_id", decision="a")
        await call(wire, "branch", entry_id=leaf, head="side")
        beside = await call(
            wire, "session/decide", decision="b", head="side", expected={"leaf_id": leaf}
        )
        stale = {"decision": "c", "expected": {"leaf_id": None}}
        assert await refused(wire, "session/decide", **stale) == "precondition_failed"
        # Entries count in the order of the file, on every head.
        assert part_of(beside, DECIDED) == ["a", "b"]
        lease = await call(wire, "session/acquire", ttl_ms=60_000)
        assert await refused(other, "session/decide", decision="c") == "lease_held"
        made = await call(wire, "session/decide", decision="c", lease_id=lease["lease_id"])
        assert part_of(made, DECIDED) == ["a", "b", "c"]


async def test_state_entries_can_be_appended_and_a_wrong_one_is_refused(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        good = {"type": "custom", "custom_type": "sessiond.task", "data": {"turns": 2}}
        bad = {"type": "custom", "custom_type": "sessiond.decision", "data": {"decision": 5}}
        await call(wire, "append", entry=good)
        told = await refused(wire, "append", "{kind,path}", entries=[good, bad])
        assert told == ("entry_invalid", "entries[1].data.decision")
        state = await call(wire, "session/get", "state")
        assert (state["turn_count"], state["decisions"]) == (2, [])
        assert await call(wire, "session/decide", "seq", decision="after") == 2


async def test_one_artifact_too_many_is_refused(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, ARTIFACTS_MAX=2)
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        named = [
            {"type": "custom", "custom_type": "sessiond.artifact", "data": {"name": n, "path": "p"}}
            for n in "abc"
        ]
        assert await refused(wire, "append", "{kind,limit}", entries=named) == ("too_large", 2)
        for name in "ab":
            await call(wire, "session/artifact", name=name, path="p")
        assert await refused(wire, "session/artifact", name="c", path="p") == "too_large"
        await call(wire, "session/artifact", name="a", path=None)
        made = await call(wire, "session/artifact", name="c", path="p")
        assert made["state"]["artifacts"] == {"b": "p", "c": "p"}


async def test_a_wrong_entry_in_a_file_is_reported_and_changes_no_state(house: House) -> None:
    data = {"decision": "good"}
    house.put(
        [
            stored_entry("custom", "d1", None, custom_type="sessiond.decision", data=data),
            stored_entry("custom", "d2", "d1", custom_type="sessiond.decision", data=[1]),
            stored_entry("custom", "d3", "d2", custom_type="sessiond.task", data={"turns": -1}),
        ]
    )
    async with house.daemon() as daemon, daemon.connect() as wire:
        answer = await call(wire, "session/get")
        assert part_of(answer, DECIDED) == ["good"]
        assert answer["state"]["turn_count"] == 0
        assert (answer["session"]["problems"], answer["session"]["read_only"]) == (2, False)
        checked = await call(wire, "session/verify")
        assert [(one["line"], one["kind"]) for one in checked["problems"]] == [
            (3, "bad_state"),
            (4, "bad_state"),
        ]
        assert await call(wire, "session/decide", DECIDED, decision="goes on") == [
            "good",
            "goes on",
        ]


@pytest.mark.parametrize("method", ["session/decide", "session/artifact", "session/task"])
async def test_the_first_entry_of_the_state_makes_a_session_of_a_draft(
    house: House, method: str
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        assert [path.parent.name for path in house.session_files()] == ["pending"]
        await call(wire, method, **CALLS[method])
        assert [path.parent.name for path in house.session_files()] == ["sessions"]
        assert await call(wire, "session/get", "session.persisted")
        listed = (await wire.call("session/list"))["sessions"]
        assert [one["id"] for one in listed] == [SESSION]


async def test_a_draft_that_a_crash_kept_from_its_place_comes_there_at_the_next_start(
    house: House,
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        house.disk.fail("rename")
        await call(wire, "session/decide", decision="kept")
        left = house.disk.crash()
    house.files = left
    assert [path.parent.name for path in house.session_files()] == ["pending"]
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await call(wire, "session/get", DECIDED) == ["kept"]
        assert [path.parent.name for path in house.session_files()] == ["sessions"]


async def test_state_in_memory_comes_to_its_place_with_its_session(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, persist="never")
        await call(wire, "session/decide", decision="a")
        assert house.session_files() == []
        await call(wire, "session/update", persist="on_assistant")
        assert [path.parent.name for path in house.session_files()] == ["sessions"]


async def test_a_kept_index_has_the_state(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    set_limits(monkeypatch, KEPT_INDEX_ENTRIES=5)
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        for number in range(12):
            time = f"2026-01-01T00:00:{number:02}Z"
            await call(wire, "session/decide", decision=f"d{number}", timestamp=time)
        await call(wire, "session/artifact", name="a", path="p")
        await call(wire, "session/task", tokens_added=9)
        before = await call(wire, "session/get", "state")
    assert house.disk.exists(house.layout.index_path(SESSION))
    async with house.daemon(scanned=False) as daemon, daemon.connect() as wire:
        assert await call(wire, "session/get", "state") == before
        more = await call(wire, "session/decide", decision="next")
        assert part_of(more, DECIDED) == [
            *(f"d{number}" for number in range(3, 12)),
            "next",
        ]


async def test_what_another_program_appends_counts(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, persist="immediate")
        leaf = await call(wire, "session/decide", "leaf_id", decision="ours")
        (path,) = house.session_files()
        theirs = stored_entry(
            "custom", "t1", leaf, custom_type="sessiond.decision", data={"decision": "theirs"}
        )
        house.disk.land(path, msgspec.json.encode(theirs) + b"\n")
        assert await call(wire, "session/decide", DECIDED, decision="after") == [
            "ours",
            "theirs",
            "after",
        ]


async def test_no_model_sees_the_state(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        await say(wire)
        for method, params in CALLS.items():
            await call(wire, method, **params)
        assert len((await call(wire, "build_context"))["messages"]) == 1


async def test_a_fork_inherits_what_was_decided_and_the_tokens_and_counts_anew(
    house: House,
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, agent="implementer", model="m-1", tags=["feature"])
        await call(wire, "session/update", plan="The plan")
        for number in range(4):
            await call(wire, "session/decide", decision=f"d{number}")
        await call(wire, "session/artifact", name="a", path="p")
        await call(wire, "session/task", tokens_added=500)
        await call(wire, "session/prune", max_decisions=2)
        before = await call(wire, "session/get", "state")
        for params in ({"entries": "none"}, {"entries": "path"}, {"entries": "context"}):
            made = await call(wire, "session/fork", state=True, **params)
            child = await call(wire, "session/get", "state", session_id=made["session"]["id"])
            assert part_of(child, DECISIONS) == ["d2", "d3"]
            assert child["tokens_used"] == 500
            assert child == before | {
                "turn_count": 0,
                "metrics": {"decision_count": 0, "task_count": 0, "total_tokens": 0},
                "pruned": False,
                "last_pruned_at": None,
            }
        assert await call(wire, "session/get", "state") == before
        assert (await call(wire, "session/brief"))["fork_count"] == 3
        whole = await call(wire, "session/fork", "session.id", entries="all")
        assert await call(wire, "session/get", "state", session_id=whole) == before
        bare = await call(wire, "session/fork", "session.id", entries="none")
        state = await call(wire, "session/get", "state", session_id=bare)
        assert (state["decisions"], state["tokens_used"], state["plan"]) == ([], 0, None)
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert (await call(wire, "session/brief"))["fork_count"] == 5


async def test_a_fork_of_a_fork_has_the_state_of_both(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        await call(wire, "session/task", tokens_added=5, decision={"decision": "first"})
        child = await call(wire, "session/fork", "session.id", entries="none", state=True)
        await wire.call("session/decide", session_id=child, decision="second")
        await wire.call("session/task", session_id=child, tokens_added=7)
        made = await wire.call("session/fork", session_id=child, entries="none", state=True)
        last = await call(wire, "session/get", "state", session_id=made["session"]["id"])
        assert (part_of(last, DECISIONS), last["tokens_used"]) == (["first", "second"], 12)
        assert last["turn_count"] == 0


async def test_beside_a_path_with_decisions_the_counts_alone_need_an_entry(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        leaf = await call(wire, "session/decide", "leaf_id", decision="a")
        made = await call(wire, "session/fork", "session", state=True)
        assert (made["leaf_id"], made["entry_count"]) == (leaf, 1)
        await call(wire, "session/task")
        made = await call(wire, "session/fork", "session", state=True)
        assert made["leaf_id"] not in {leaf, None}
        state = await call(wire, "session/get", "state", session_id=made["id"])
        assert (part_of(state, DECISIONS), state["turn_count"]) == (["a"], 0)


async def test_a_session_without_a_model_has_the_configured_one(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        daemon.service.environment.policies.model = "m-usual"
        made = (await create(wire))["session"]
        assert made["model"] == await call(wire, "session/get", "state.model") == "m-usual"
        other = (await create(wire, session_id="other-session", model="m-2"))["session"]
        assert other["model"] == "m-2"
        new = await wire.call("session/continue_recent", cwd="/nowhere")
        assert (new["created"], new["session"]["model"]) == (True, "m-usual")
    async with house.daemon() as daemon, daemon.connect() as wire:
        daemon.service.environment.policies.model = None
        # The header says it, so that another configuration changes no session.
        assert await call(wire, "session/get", "state.model") == "m-usual"
        assert (await create(wire, session_id="third-session"))["session"]["model"] is None


async def test_a_resumed_turn_with_a_brief_is_a_small_part_of_the_context(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        await call(wire, "session/update", plan="The plan")
        for number in range(20):
            await append(wire, f"n{number}", "x" * 500)
            await call(wire, "session/task", decision={"decision": f"decision {number}"})
        newest = (await call(wire, "build_context"))["messages"]
        brief = (await call(wire, "session/brief"))["context"]
        resumed = len(brief) + len(json.dumps(newest[-1]))
        assert resumed < len(json.dumps(newest)) / 10
