"""The kept part of a compaction never begins with a result whose tool call is gone.

This holds under the rules of every program, however little is kept, for all spellings of results,
and after any number of compactions.
"""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

import pytest

from sessiond.testing.wire import Refusal, Wire
from tests.kit.calls import call, create
from tests.kit.house import House

pytestmark = pytest.mark.slow
PRESETS = ["pi", "operator", "piglet", "sharur"]
BUDGETS = [0, 1, 4, 12, 40, 150]
SEEDS = [1, 2, 3]
ROUNDS = 3


def called(n: int, text: str) -> list[dict[str, Any]]:
    """Return a tool call and its result, in the spelling of a random program."""
    call_id = f"c{n}"
    block = {"id": call_id, "name": "ls"}
    asked: dict[str, dict[str, Any]] = {
        "toolCall": {"type": "toolCall", "arguments": {}},
        "tool_use": {"type": "tool_use", "input": {}},
        "tool_call": {"type": "tool_call", "args": {}},
        "untold": {"arguments": {}},
    }
    word = list(asked)[n % 4]
    results: dict[str, dict[str, Any]] = {
        "toolCall": {"role": "toolResult", "toolCallId": call_id, "content": text},
        "tool_use": {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": call_id, "content": text},
                {"type": "text", "text": "and"},
            ],
        },
        "tool_call": {
            "role": "tool",
            "contents": [{"type": "tool_result", "id": call_id, "content": text}],
        },
        "untold": {"role": "tool_result", "toolCallId": call_id, "content": [{"text": text}]},
    }
    return [{"role": "assistant", "content": [asked[word] | block]}, results[word]]


def is_result(message: dict[str, Any]) -> bool:
    blocks = message.get("content", message.get("contents"))
    inside = any(
        block.get("type") == "tool_result" for block in (blocks if isinstance(blocks, list) else [])
    )
    return message["role"] in {"toolResult", "tool", "tool_result"} or inside


def drawn(chance: random.Random, n: int) -> list[dict[str, Any]]:
    text = "x" * chance.choice([1, 20, 300])
    level = {"type": "thinking_level_change", "thinking_level": "high"}
    note = {"type": "custom_message", "custom_type": "x", "content": text, "display": True}
    kinds: list[list[dict[str, Any]]] = [
        [{"role": "user", "content": text}],
        [{"role": "assistant", "content": [{"type": "text", "text": text}]}],
        [level],
        [note],
        *[called(n, text)] * 4,
    ]
    found = chance.choice(kinds)
    if len(found) == 2 and chance.random() < 0.3:
        found = [found[0], level, found[1]]
    return [one if "type" in one else {"type": "message", "message": one} for one in found]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("preset", PRESETS)
async def test_no_context_begins_with_a_result_after_a_compaction(
    house: House, preset: str
) -> None:
    planned = 0
    async with house.daemon() as daemon, daemon.connect() as wire:
        for seed in SEEDS:
            chance = random.Random(seed)
            session_id = f"session-{seed}"
            await create(wire, session_id, compaction={"preset": preset})
            at = {"session_id": session_id}
            leaf: Any = None
            for n in range(8 * ROUNDS):
                for entry in drawn(chance, n):
                    leaf = await wire.call("append", **at, entry=entry)
                if n % 8 < 7:
                    continue
                for budget in BUDGETS:
                    sent = {**at, "keep_recent_tokens": budget}
                    plan = await call(wire, "session/plan_compaction", "plan", **sent)
                    if plan is None:
                        continue
                    planned += 1
                    await wire.call("compact", **at, plan_id=plan["plan_id"], summary="S")
                    kept = (await call(wire, "build_context", "messages", **at))[1:]
                    assert not kept or not is_result(kept[0]), (seed, n, budget)
                    if budget != BUDGETS[-1]:
                        await wire.call("session/rewind", **at, to=leaf["leaf_id"])
                await refused_or_right(wire, session_id)
    assert planned > 20


async def refused_or_right(wire: Wire, session_id: str) -> None:
    """Check that a kept part chosen by a client is refused or begins with no lone result, too."""
    path = await wire.call("session/path", session_id=session_id)
    leaf_id = path["entries"][-1]["entry"]["id"]
    for row in path["entries"][-12:]:
        sent = {"summary": "S", "first_kept_entry_id": row["entry"]["id"]}
        with suppress(Refusal):
            await wire.call("compact", session_id=session_id, **sent)
        said = await call(wire, "build_context", "messages", session_id=session_id)
        kept = said[said[0]["role"] == "compaction_summary" :]
        assert not kept or not is_result(kept[0]), row["entry"]
        await wire.call("session/rewind", session_id=session_id, to=leaf_id)
