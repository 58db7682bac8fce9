"""Sessions of `persist: "never"` have a bound in bytes, each and together."""

from __future__ import annotations

import pytest

from sessiond.testing.daemon import Refusal
from tests.kit.calls import create, say
from tests.kit.house import House

KIB = 1024

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.both_loops,
    pytest.mark.limits(MEMORY_SESSION_BYTES_MAX=100 * KIB, MEMORY_BYTES_MAX=250 * KIB),
]


async def test_a_session_in_memory_takes_no_more_bytes_than_one_may_have(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, "session-a", persist="never")
        await say(wire, "x" * (90 * KIB), session_id="session-a")
        with pytest.raises(Refusal) as refused:
            await say(wire, "x" * (20 * KIB), session_id="session-a")
        assert refused.value.data["kind"] == "too_large"
        assert refused.value.data["limit"] == 100 * KIB
        assert "session/update" in refused.value.message
        # What was refused has changed nothing, and what still fits is taken.
        assert (await say(wire, "x" * (1 * KIB), session_id="session-a"))["seq"] == 2
        entries = (await wire.call("session/entries", session_id="session-a"))["entries"]
        assert len(entries) == 2


async def test_small_entries_cost_what_the_index_keeps_of_them(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, "session-a", persist="never")
        outcomes: list[str] = []
        for _ in range(400):
            try:
                await say(wire, "x", session_id="session-a")
                outcomes.append("ok")
            except Refusal as refusal:
                outcomes.append(refusal.data["kind"])
        assert 100 < outcomes.count("ok") < 300
        assert set(outcomes) == {"ok", "too_large"}


async def test_the_sessions_in_memory_have_a_bound_together(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        for session_id in ("session-a", "session-b", "session-c"):
            await create(wire, session_id, persist="never")
        for session_id in ("session-a", "session-b"):
            await say(wire, "x" * (90 * KIB), session_id=session_id)
        with pytest.raises(Refusal) as refused:
            await say(wire, "x" * (90 * KIB), session_id="session-c")
        assert (refused.value.data["kind"], refused.value.data["limit"]) == (
            "overloaded",
            250 * KIB,
        )
        assert refused.value.data["retryable"] is True
        await wire.call("session/delete", session_id="session-a")
        assert (await say(wire, "x" * (90 * KIB), session_id="session-c"))["seq"] == 1
        # A session that gets a file makes room as well.
        await wire.call("session/update", session_id="session-b", persist="immediate")
        await create(wire, "session-d", persist="never")
        assert (await say(wire, "x" * (90 * KIB), session_id="session-d"))["seq"] == 1


async def test_a_full_daemon_begins_no_session_in_memory(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        for session_id in ("session-a", "session-b"):
            await create(wire, session_id, persist="never")
            await say(wire, "x" * (98 * KIB), session_id=session_id)
        await create(wire, "session-c", persist="never")
        await say(wire, "x" * (48 * KIB), session_id="session-c")
        with pytest.raises(Refusal) as refused:
            await wire.call(
                "session/create", cwd="/" + "p" * 4000, session_id="session-d", persist="never"
            )
        assert refused.value.data["kind"] == "overloaded"


async def test_a_retry_is_answered_although_nothing_more_fits(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, "session-a", persist="never")
        message = {"role": "user", "content": "x" * 98 * KIB}
        asked = {"session_id": "session-a", "message": message, "idempotency_key": "k"}
        first = await wire.call("session/append", **asked)
        again = await wire.call("session/append", **asked)
        assert (first["seq"], again["seq"], again["duplicate"]) == (1, 1, True)


async def test_a_large_append_does_not_take_the_small_ones_beside_it_along(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, "session-a", persist="never")
        sizes = [1, 90 * KIB, 20 * KIB, 1]
        messages = [{"role": "user", "content": "x" * size} for size in sizes]
        bodies = [
            {
                "jsonrpc": "2.0",
                "id": 100 + at,
                "method": "session/append",
                "params": {"session_id": "session-a", "message": message},
            }
            for at, message in enumerate(messages)
        ]
        await wire.send(*bodies)
        outcomes: list[str] = []
        for at in range(len(bodies)):
            try:
                await wire.answer(100 + at)
                outcomes.append("ok")
            except Refusal as refusal:
                outcomes.append(refusal.data["kind"])
        assert outcomes == ["ok", "ok", "too_large", "ok"]
