"""Contexts that are too large: by which figures, which clients are told, and how often."""

from __future__ import annotations

from typing import Any

import pytest

from sessiond.testing.wire import Wire
from tests.kit.calls import call, create, say
from tests.kit.house import House
from tests.kit.sessions import SESSION

pytestmark = pytest.mark.recommends

PRESETS = {"pi": 16_384, "operator": 8_192, "piglet": 16_384, "sharur": 2_048}
SHOULD = "should_compact"
TINY: dict[str, Any] = {"context_window": 10, "reserve_tokens": 2, "keep_recent_tokens": 1}


async def told_so_far(wire: Wire, watcher: Wire, mark: str) -> list[str]:
    """Return the sessions that were recommended for compaction so far.

    Makes two sessions too large: once they are recommended, all earlier changes were looked at,
    too.
    """
    found: list[str] = []
    for session_id in (f"first-{mark}", f"second-{mark}"):
        await create(wire, session_id, persist="immediate", compaction=TINY)
        await watcher.call("subscribe", session_id=session_id)
        await say(wire, "x" * 100, session_id=session_id)
        while session_id not in found:
            message = await watcher.next_notification()
            if message["method"] == "session/compaction":
                found.append(message["params"]["session_id"])
    return [name for name in found if not name.endswith(f"-{mark}")]


@pytest.mark.parametrize(("preset", "reserve"), PRESETS.items())
async def test_more_than_the_window_less_the_reserve_is_too_much_and_no_less(
    house: House, preset: str, reserve: int
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, persist="immediate", compaction={"preset": preset})
        for _ in range(8):
            await say(wire, "abcd" * 5)
        found = await call(wire, "session/usage")
        assert found["reserve"] == reserve
        tokens = found["tokens"]
        assert tokens == (48 if preset == "sharur" else 40)
        for window, is_too_much in ((tokens + reserve, False), (tokens + reserve - 1, True)):
            found = await call(wire, "session/usage", context_window=window)
            assert found["should_compact"] is is_too_much
        # The session's own word comes before the preset's.
        own = {"preset": preset, "reserve_tokens": 5, "context_window": tokens + 4}
        await wire.call("session/update", session_id=SESSION, compaction=own)
        assert await call(wire, "session/usage", SHOULD) is True
        await wire.call(
            "session/update", session_id=SESSION, compaction=own | {"context_window": tokens + 5}
        )
        assert await call(wire, "session/usage", SHOULD) is False


async def test_with_piglets_rules_seven_messages_are_never_too_many(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(
            wire, persist="immediate", compaction={"preset": "piglet", "reserve_tokens": 0}
        )
        for n in range(8):
            await say(wire, "abcd" * 5)
            assert await call(wire, "session/usage", SHOULD, context_window=1) is (n == 7)
        # It is the messages that the model sees: a summary is one, and what it kept.
        plan = await call(wire, "session/plan_compaction", "plan", keep_recent_tokens=7)
        kept = 8 - len(plan["summarize"])
        assert kept == 2
        sent = {"session_id": SESSION, "plan_id": plan["plan_id"], "summary": "S"}
        await wire.call("compact", **sent)
        for n in range(1 + kept, 9):
            assert await call(wire, "session/usage", SHOULD, context_window=1) is (n == 8)
            await say(wire, "abcd" * 5)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("said", [None, {}, {"totalTokens": 0}, {"input": 0, "output": 0}, "x"])
async def test_usage_from_before_a_compaction_counts_no_more_and_none_is_an_estimate(
    house: House, said: Any
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, persist="immediate", compaction={"keep_recent_tokens": 1})
        await say(wire, "go")
        text = {"type": "text", "text": "abcdefgh"}
        answer = {"role": "assistant", "content": [text], "usage": {"totalTokens": 190_000}}
        await call(wire, "append", message=answer)
        assert await call(wire, "session/usage", "{tokens,should_compact}") == (190_000, True)
        plan = (await wire.call("session/plan_compaction", session_id=SESSION))["plan"]
        sent = {"session_id": SESSION, "plan_id": plan["plan_id"], "summary": "SSSS"}
        done = await wire.call("compact", **sent)
        # The answer is kept, but what it cost was the whole of before.
        assert (done["tokens_before"], done["tokens_after"]) == (190_000, 1 + 2)
        assert await call(wire, "session/usage", "{tokens,should_compact}") == (3, False)
        text = {"type": "text", "text": "abcd"}
        answer = {"role": "assistant", "content": [text], "usage": said}
        await call(wire, "append", message=answer)
        assert await call(wire, "session/usage", "tokens") == 4
        await call(wire, "append", message=answer | {"usage": {"totalTokens": 77}})
        assert await call(wire, "session/usage", "tokens") == 77
        built = await wire.call("build_context", session_id=SESSION)
        assert built["tokens"] == 77
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await call(wire, "session/usage", "tokens") == 77


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_head_that_stays_too_large_is_told_once_and_once_more_after_a_restart(
    house: House,
) -> None:
    for life in ("one", "two"):
        async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as watcher:
            if life == "one":
                await create(wire, persist="immediate", compaction=TINY)
            await watcher.call("subscribe", session_id=SESSION)
            for n in range(3):
                for _ in range(4):
                    await say(wire, "x" * 40)
                told = await told_so_far(wire, watcher, f"{life}{n}")
                assert told == ([SESSION] if n == 0 else [])


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_what_is_switched_on_again_is_told_again(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as watcher:
        await create(wire, persist="immediate", compaction=TINY)
        await watcher.call("subscribe", session_id=SESSION)
        await say(wire, "x" * 100)
        assert await told_so_far(wire, watcher, "on") == [SESSION]
        off = TINY | {"enabled": False}
        await wire.call("session/update", session_id=SESSION, compaction=off)
        await say(wire, "x" * 100)
        assert await told_so_far(wire, watcher, "off") == []
        await wire.call("session/update", session_id=SESSION, compaction=TINY)
        assert await told_so_far(wire, watcher, "again") == [SESSION]
