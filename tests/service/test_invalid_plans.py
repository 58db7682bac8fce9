"""Refusals of bad plans and compactions: clear words, and an unchanged session."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessiond.testing.wire import Wire
from tests.kit.calls import append, append_message, call, create_to_compact, refused
from tests.kit.house import House
from tests.kit.sessions import SESSION

CALL = {"type": "toolCall", "id": "c1", "name": "ls", "arguments": {}}
RESULT = {"role": "toolResult", "toolCallId": "c1", "content": "out"}
USERS_RESULT = {
    "role": "user",
    "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "out"}],
}


async def grow(wire: Wire, result: dict[str, Any] = RESULT) -> None:
    """u1, a1 with a call, a setting, its result r1, u2; aside, off the path, s1; a label on u1."""
    await create_to_compact(wire, persist="immediate")
    await append(wire, "u1")
    await append_message(wire, "a1", {"role": "assistant", "content": [CALL]})
    level = {"type": "thinking_level_change", "id": "t1", "thinking_level": "high"}
    await call(wire, "append", entry=level)
    await append_message(wire, "r1", result)
    await append(wire, "u2")
    await append(wire, "s1", head="side", parent_id="u1")
    label = {"type": "label", "id": "l1", "target_id": "u1", "label": "x"}
    await call(wire, "append", entry=label)


async def everything(wire: Wire) -> str:
    """Return all that a client can see of the session."""
    entries = await call(wire, "session/entries")
    heads = await call(wire, "session/heads")
    context = await call(wire, "build_context")
    return json.dumps([entries, heads, context])


BAD: list[tuple[dict[str, Any], str, str]] = [
    # What is sent, the kind of the refusal, and the member it names.
    ({"summary": "S", "first_kept_entry_id": "s1"}, "entry_invalid", "first_kept_entry_id"),
    ({"summary": "S", "first_kept_entry_id": "nobody"}, "entry_not_found", "first_kept_entry_id"),
    ({"summary": "S", "first_kept_entry_id": "l1"}, "entry_not_found", "first_kept_entry_id"),
    ({"summary": "S", "first_kept_entry_id": "r1"}, "entry_invalid", "first_kept_entry_id"),
    ({"summary": "S", "first_kept_entry_id": "t1"}, "entry_invalid", "first_kept_entry_id"),
    ({"summary": "S", "first_kept_entry_id": ""}, "invalid_params", "first_kept_entry_id"),
    ({"summary": "S", "first_kept_entry_id": 5}, "invalid_params", "first_kept_entry_id"),
    ({"summary": ""}, "entry_invalid", "summary"),
    ({"summary": " \n\t"}, "entry_invalid", "summary"),
    ({"summary": None}, "invalid_params", "summary"),
    ({"summary": ["S"]}, "invalid_params", "summary"),
    ({"summary": "S", "messages": []}, "invalid_params", "messages"),
    ({"summary": "S", "instructions": "I"}, "invalid_params", "instructions"),
    ({"summary": "S", "head": "nobody"}, "head_not_found", ""),
    ({"summary": "S", "tokens_before": -1}, "invalid_params", "tokens_before"),
    ({"summary": "S", "tokens_before": 2**70}, "invalid_params", "tokens_before"),
    ({"summary": "S", "plan_id": ""}, "invalid_params", "plan_id"),
    ({"summary": "S", "plan_id": "plan-1-AAAA"}, "invalid_params", "plan_id"),
    ({"summary": "S", "plan_id": "p" * 100_000}, "invalid_params", "plan_id"),
    ({"messages": []}, "invalid_params", "expected.leaf_id"),
    ({"messages": [RESULT], "expected": {"leaf_id": "u2"}}, "entry_invalid", "messages[0]"),
    ({"messages": [USERS_RESULT], "expected": {"leaf_id": "u2"}}, "entry_invalid", "messages[0]"),
    ({"messages": [{"content": "x"}], "expected": {"leaf_id": "u2"}}, "entry_invalid", "messages"),
    ({"messages": ["x"], "expected": {"leaf_id": "u2"}}, "entry_invalid", "messages[0]"),
    ({"messages": [], "expected": {"leaf_id": "u1"}}, "precondition_failed", ""),
    ({"first_kept_entry_id": "u2"}, "summarizer_unavailable", ""),
    ({"first_kept_entry_id": "s1"}, "entry_invalid", "first_kept_entry_id"),
    ({"first_kept_entry_id": "nobody"}, "entry_not_found", "first_kept_entry_id"),
    ({"first_kept_entry_id": "l1"}, "entry_not_found", "first_kept_entry_id"),
    ({"first_kept_entry_id": "t1"}, "entry_invalid", "first_kept_entry_id"),
    ({"first_kept_entry_id": ""}, "invalid_params", "first_kept_entry_id"),
    ({"details": {}}, "invalid_params", "details"),
]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize(("sent", "kind", "path"), BAD, ids=lambda value: str(value)[:60])
async def test_a_bad_compaction_is_refused_and_changes_nothing(
    house: House, sent: dict[str, Any], kind: str, path: str
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await grow(wire)
        before, file = await everything(wire), house.stored()
        refusal = await wire.refusal("compact", session_id=SESSION, **sent)
        assert refusal.data["kind"] == kind, refusal
        assert refusal.data.get("path", "").startswith(path), refusal
        assert await everything(wire) == before
        assert house.stored() == file
        # And the next one is taken.
        await call(wire, "compact", summary="S", first_kept_entry_id="u2")
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert house.stored()[: len(file)] == file


async def test_a_result_in_the_users_words_is_no_first_entry_either(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await grow(wire, USERS_RESULT)
        for kept in ("t1", "r1"):
            sent = {"summary": "S", "first_kept_entry_id": kept}
            refusal = await refused(wire, "compact", "{kind,path}", **sent)
            assert refusal == ("entry_invalid", "first_kept_entry_id")
        await call(wire, "compact", summary="S", first_kept_entry_id="a1")
        roles = await call(wire, "build_context", "messages[].role")
        assert roles[:2] == ["compaction_summary", "assistant"]


BAD_PLANS: list[tuple[str, dict[str, Any], str]] = [
    ("session/plan_compaction", {"keep_recent_tokens": -1}, "keep_recent_tokens"),
    ("session/plan_compaction", {"keep_recent_tokens": 2**63}, "keep_recent_tokens"),
    ("session/plan_compaction", {"keep_recent_tokens": 1.5}, "keep_recent_tokens"),
    ("session/plan_compaction", {"instructions": "x" * 100_001}, "instructions"),
    ("session/plan_compaction", {"head": ""}, "head"),
    ("session/plan_branch_summary", {"entry_id": None, "budget_tokens": -1}, "budget_tokens"),
    ("session/plan_branch_summary", {}, "entry_id"),
    ("session/usage", {"context_window": 0}, "context_window"),
    ("session/usage", {"context_window": 2**70}, "context_window"),
    ("build_context", {"known": {"leaf_id": "u1", "count": -1}}, "known.count"),
    ("build_context", {"known": {"leaf_id": "u1"}}, "known"),
    ("build_context", {"shape": "cohere"}, "shape"),
    ("build_context", {"include": ["all"]}, "include"),
    ("build_context", {"head": "main", "entry_id": "u1"}, ""),
]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize(("method", "sent", "path"), BAD_PLANS, ids=lambda value: str(value)[:50])
async def test_bad_questions_name_what_is_wrong(
    house: House, method: str, sent: dict[str, Any], path: str
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await grow(wire)
        refusal = await wire.refusal(method, session_id=SESSION, **sent)
        assert refusal.data["kind"] == "invalid_params"
        assert refusal.data.get("path", "").startswith(path), refusal


async def test_a_compaction_below_a_compaction_needs_something_between(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await grow(wire)
        plan_id = await call(wire, "session/plan_compaction", "plan.plan_id")
        compact = {"summary": "S"}
        await call(wire, "compact", **compact, plan_id=plan_id)
        before = await everything(wire)
        refusal = await refused(wire, "compact", "{kind,path}", **compact)
        assert refusal == ("entry_invalid", "head")
        # The same plan once more, without a key, is one of what is no more.
        assert await refused(wire, "compact", **compact, plan_id=plan_id) == "plan_stale"
        refusal = await refused(wire, "compact", "{kind,reason}")
        assert refusal == ("nothing_to_compact", "compacted")
        # A record is nothing that came between.
        await call(wire, "session/label", entry_id="u1", label="y")
        assert await refused(wire, "compact", "path", **compact) == "head"
        assert json.loads(await everything(wire))[2] == json.loads(before)[2] | {
            "seq": json.loads(before)[2]["seq"] + 1
        }


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize(
    "details",
    [
        "garbage",
        [1, [2]],
        None,
        7,
        {"read_files": "a", "modified_files": [1, None, {"x": 1}, "m"]},
        {"read_files": [f"folder/{n}.py" for n in range(50_000)]},
    ],
    ids=lambda value: str(value)[:30],
)
async def test_details_may_be_anything_and_the_next_plan_takes_from_them_what_it_can(
    house: House, details: Any
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await grow(wire)
        sent = {"summary": "S", "first_kept_entry_id": "u2", "details": details}
        done = await call(wire, "compact", **sent)
        stored = await call(wire, "session/entry", "entry", entry_id=done["entry"]["id"])
        assert stored["details"] == details
        await append(wire, "u3")
        files = await call(wire, "session/plan_compaction", "plan.files")
        read, modified = [], []
        if isinstance(details, dict):
            read = sorted(details["read_files"]) if len(details["read_files"]) > 1 else []
            modified = ["m"] if "modified_files" in details else []
        assert files == {"read": read, "modified": modified}


async def test_while_a_plan_waits_ten_appends_and_a_branch_elsewhere_the_commit_lands(
    house: House,
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await grow(wire)
        plan_id = await call(wire, "session/plan_compaction", "plan.plan_id")
        for n in range(10):
            await append(other, f"later{n}")
        await call(other, "session/branch", entry_id="u1", head="elsewhere")
        await append(other, "there", head="elsewhere")
        done = await call(wire, "compact", summary="S", plan_id=plan_id)
        built = await call(wire, "build_context")
        later = [f"later{n}" for n in range(10)]
        assert built["sources"] == [done["entry"]["id"], "u2", *later]


@pytest.mark.parametrize("to", ["a1", "u1"])
async def test_a_rewind_below_the_plans_leaf_makes_it_stale_and_tells_both_leaves(
    house: House, to: str
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await grow(wire)
        plan_id = await call(wire, "session/plan_compaction", "plan.plan_id")
        await call(wire, "session/rewind", to=to)
        before = await everything(wire)
        sent = {"summary": "S", "plan_id": plan_id}
        refusal = await refused(wire, "compact", "{kind,plan_leaf_id,leaf_id}", **sent)
        assert refusal == ("plan_stale", "u2", to)
        assert await everything(wire) == before
        # Back where it was, the plan is as good as ever.
        await call(wire, "session/branch", entry_id="u2")
        await call(wire, "compact", **sent)
