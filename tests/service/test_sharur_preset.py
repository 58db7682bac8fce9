"""sharur's figures, asked of a session with its preset as any client asks."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.calls import append_message, call, create
from tests.kit.house import House
from tests.kit.sessions import SESSION

IMAGE = {"type": "image", "mimeType": "image/png", "data": "x" * 750}
HELLO_WITH_IMAGE = [{"type": "text", "text": "hello"}, IMAGE]
RECORDED: list[tuple[dict[str, Any], int]] = [
    ({"role": "user", "content": "u" * 40}, 12),
    ({"role": "assistant", "content": "a" * 400}, 120),
    ({"role": "tool", "toolCallId": "call_1", "content": "t" * 400}, 121),
    ({"role": "assistant", "content": "a" * 400}, 120),
    ({"role": "tool", "toolCallId": "call_2", "content": "t" * 400}, 121),
    ({"role": "user", "content": "u" * 40}, 12),
    ({"role": "assistant", "content": "a" * 40}, 12),
]
# Of those: how much is kept, the first message kept, and where the turn began that is split.
CUTS = [(10, 6, 5), (24, 5, None), (150, 3, 0), (270, 1, 0), (400, 1, 0), (10_000, None, None)]


@pytest.mark.parametrize(
    ("content", "expected"), [("hello", 1), ("héllo", 7), (HELLO_WITH_IMAGE, 1230)]
)
async def test_a525_the_estimator_says_what_sharurs_says(
    house: House, content: Any, expected: int
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, compaction={"preset": "sharur"})
        await append_message(wire, "m0", {"role": "user", "content": content})
        assert await call(wire, "session/usage", "tokens") == expected


async def test_a525_the_cuts_are_where_sharurs_are(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, compaction={"preset": "sharur"})
        so_far = 0
        for n, (message, estimate) in enumerate(RECORDED):
            await append_message(wire, f"m{n}", message)
            so_far += estimate
            assert await call(wire, "session/usage", "tokens") == so_far
        for budget, kept, turn in CUTS:
            asked = {"session_id": SESSION, "keep_recent_tokens": budget}
            answer = await wire.call("session/plan_compaction", **asked)
            if kept is None:
                assert answer == {"plan": None, "reason": "fits"}, budget
                continue
            plan = answer["plan"]
            assert plan["first_kept_entry_id"] == f"m{kept}", budget
            begun = kept if turn is None else turn
            assert plan["summarize"] == [f"m{n}" for n in range(begun)], budget
            assert plan["turn_prefix"] == [f"m{n}" for n in range(begun, kept)], budget


async def test_what_is_kept_is_at_least_what_is_asked(house: House) -> None:
    """A document of sharur's calls `keepRecentTokens` a minimum, whatever summary and prompt take."""
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, compaction={"preset": "sharur", "keep_recent_tokens": 600})
        estimates: list[int] = []
        for n, (message, tokens) in enumerate(RECORDED * 2):
            await append_message(wire, f"m{n}", message)
            estimates.append(tokens)

        async def first_kept() -> int:
            plan = (await wire.call("session/plan_compaction", session_id=SESSION))["plan"]
            assert plan["prompt"].count("<!-- sharur-summary -->") == 1
            return int(plan["first_kept_entry_id"].removeprefix("m"))

        assert await first_kept() == 3
        assert sum(estimates[3:]) >= 600
        await wire.call("session/update", session_id=SESSION, system_prompt="s" * 320)
        assert await first_kept() == 3
        # Never fewer than 512, which a compaction by hand keeps.
        await wire.call(
            "session/update",
            session_id=SESSION,
            compaction={"preset": "sharur", "keep_recent_tokens": 0},
        )
        assert await first_kept() == 7
