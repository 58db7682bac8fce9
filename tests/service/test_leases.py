"""A head for oneself: who may move it, from when until when, and who is next."""

from __future__ import annotations

import socket
import time
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
import pytest

from sessiond.testing.daemon import Refusal
from tests.kit.calls import append, call, cancel, create_with, refused, refused_answer, session_info
from tests.kit.house import House, arrived
from tests.kit.patience import PATIENCE_SECONDS
from tests.kit.sessions import HI, SESSION, entry

pytestmark = pytest.mark.both_loops

TTL_MS = 10_000


async def test_a_live_lease_named_for_another_head_is_refused_with_the_head_that_it_is_for(
    house: House,
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await create_with(wire, "n1")
        await call(wire, "branch", entry_id="n1", head="side")
        lease_id = await call(wire, "session/acquire", "lease_id", ttl_ms=TTL_MS, head="side")
        for holder in (None, other):
            # Whether or not another client has leased the head that the call moves.
            if holder is not None:
                await call(holder, "session/acquire", ttl_ms=TTL_MS)
            data = await refused(wire, "append", "", entry=entry("n2"), lease_id=lease_id)
            assert (data["kind"], data["path"]) == ("invalid_params", "lease_id")
            assert data["head"] == "side"
        await append(wire, "n2", head="side", lease_id=lease_id)
        await call(wire, "session/release", lease_id=lease_id)
        data = await refused(wire, "append", "", entry=entry("n3"), head="side", lease_id=lease_id)
        assert data["kind"] == "lease_lost"


# -- what a lease refuses ------------------------------------------------------------

MOVES: list[tuple[str, dict[str, Any]]] = [
    ("session/append", {"message": HI}),
    ("session/append", {"message": HI, "parent_id": "n1"}),
    ("session/append", {"message": HI, "on_conflict": "branch", "expected": {"leaf_id": None}}),
    ("session/append", {"entries": [{"type": "message", "message": HI}, {"type": "label", "target_id": "n1", "label": "x"}]}),
    ("session/append", {"entry": {"type": "leaf", "target_id": None}}),
    ("session/branch", {"entry_id": "n1"}),
    ("session/branch", {"entry_id": "n1", "summary": "what it came to"}),
    ("session/reset", {}),
    ("session/rewind", {"to": "n1"}),
    ("session/compact", {"summary": "s", "first_kept_entry_id": "n1"}),
    ("session/decide", {"decision": "d"}),
    ("session/task", {}),
]  # fmt: skip
OTHERS: list[tuple[str, dict[str, Any]]] = [
    ("session/label", {"entry_id": "n1", "label": "x"}),
    ("session/update", {"title": "t"}),
    ("session/append", {"entry": {"type": "label", "target_id": "n1", "label": "y"}}),
    ("session/append", {"entry": {"type": "session_info", "title": "u"}}),
    ("session/append", {"message": HI, "head": "side", "parent_id": "n1"}),
    ("session/branch", {"entry_id": "n1", "head": "side"}),
    ("session/branch", {"drop": True, "head": "side"}),
]


@pytest.mark.parametrize("persist", ["immediate", "never"])
async def test_what_moves_a_leased_head_needs_the_lease_and_all_else_passes(
    house: House, persist: str
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await wire.call("initialize", client_id="agent", client_info={"name": "n"})
        await create_with(wire, "n1", persist=persist)
        lease = await call(wire, "session/acquire", ttl_ms=TTL_MS)
        for method, params in MOVES:
            before = await call(other, "session/heads")
            data = await refused(other, method, "", **params)
            assert data["kind"] == "lease_held"
            assert data["retryable"]
            assert data["holder"] == {"client_id": "agent", "name": "n"}
            assert (data["head"], data["epoch"]) == ("main", lease["epoch"])
            assert data["expires_at"] == lease["expires_at"] == "2026-01-15T10:30:10.000Z"
            assert lease["lease_id"] not in str(data)
            # Also on the connection that has it: one connection may serve several agents.
            assert await refused(wire, method, "holder", **params)
            assert await call(other, "session/heads") == before
        for method, params in OTHERS:
            await call(other, method, **params)
        for method, params in MOVES:
            await call(other, "session/branch", entry_id="n1", lease_id=lease["lease_id"])
            await call(other, method, lease_id=lease["lease_id"], **params)
        await call(wire, "session/release", lease_id=lease["lease_id"])
        await append(other, "n2")


SETTINGS: list[dict[str, Any]] = [
    {"model": "m"},
    {"provider": "p"},
    {"thinking_level": "high"},
    {"dry_run": True},
    {"system_prompt": "s"},
    {"compaction": {"enabled": False}},
    {"model": None, "title": "t"},
]


@pytest.mark.parametrize("head", ["main", "side"])
async def test_settings_stay_while_another_client_works_under_a_lease(
    house: House, head: str
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await wire.call("initialize", client_id="agent")
        await create_with(wire, "n1")
        lease_id = await call(wire, "session/acquire", "lease_id", ttl_ms=TTL_MS, head=head)
        for params in SETTINGS:
            data = await refused(other, "session/update", "", **params)
            assert (data["kind"], data["head"]) == ("lease_held", head)
            assert data["holder"] == {"client_id": "agent", "name": None}
        assert (await session_info(other))["seq"] == 1
        for params in SETTINGS:
            await call(wire, "session/update", **params)
            await call(other, "session/update", lease_id=lease_id, **params)
        seq = (await session_info(other))["seq"]
        assert seq == 1 + 2 * len(SETTINGS)
        await call(other, "session/update", title="t", status="s", plan="p")
        await call(wire, "session/release", lease_id=lease_id)
        late = {"lease_id": lease_id, "model": "late"}
        assert await refused(other, "session/update", **late) == "lease_lost"
        await call(other, "session/update", model="free")
        assert (await session_info(other))["seq"] == seq + 2


async def test_a_head_that_is_dropped_or_not_there_yet_can_be_leased(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await create_with(wire, "n1")
        lease = await call(wire, "session/acquire", ttl_ms=TTL_MS, head="side")
        for more in ({"parent_id": "n1", "head": "side"}, {"head": "side"}):
            assert await refused(other, "append", entry=entry("n2"), **more) == "lease_held"
        named = {"head": "side", "lease_id": lease["lease_id"]}
        await append(wire, "s1", parent_id="n1", **named)
        drop = {"session_id": SESSION, "drop": True}
        await refused(other, "session/branch", head="side", **drop)
        await wire.call("session/branch", **drop, **named)
        await refused(other, "session/branch", entry_id="n1", head="side")


async def test_a_conflict_never_branches_onto_a_leased_name(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1")
        await append(wire, "n2")
        await call(wire, "session/acquire", ttl_ms=TTL_MS, head="main-2")
        at_n1: dict[str, Any] = {"expected": {"leaf_id": "n1"}, "on_conflict": "branch"}
        assert (await append(wire, "n3", **at_n1))["head"] == "main-3"


async def test_stored_comes_before_lease_and_lease_before_expected(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await create_with(wire, "n1")
        lease = await call(wire, "session/acquire", ttl_ms=TTL_MS)
        assert (await append(other, "n1"))["duplicate"]
        wrong: dict[str, Any] = {"expected": {"leaf_id": "nowhere"}}
        assert await refused(other, "append", entry=entry("n2"), **wrong) == "lease_held"
        mine = {**wrong, "lease_id": lease["lease_id"]}
        assert await refused(other, "append", entry=entry("n2"), **mine) == "precondition_failed"


# -- from when until when -------------------------------------------------------------


async def test_calls_in_a_pipeline_see_the_lease_that_the_one_before_them_got(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1")
        params = {"session_id": SESSION}
        asked = [
            await wire.request("append", message=HI, **params),
            await wire.request("session/acquire", ttl_ms=1000, **params),
            await wire.request("append", message=HI, **params),
            await wire.request("append", message=HI, lease_id="lease-1", **params),
            await wire.request("session/release", lease_id="lease-1", **params),
            await wire.request("append", message=HI, lease_id="lease-1", **params),
            await wire.request("append", message=HI, **params),
        ]
        seen: list[Any] = []
        for number in asked:
            try:
                answer = await wire.answer(number)
                seen.append(answer.get("seq", answer.get("lease_id")))
            except Refusal as refusal:
                seen.append(refusal.data["kind"])
        assert seen == [2, "lease-1", "lease_held", 3, None, "lease_lost", 4]


async def test_what_is_on_its_way_to_the_disk_is_stored_before_a_lease_begins(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await create_with(wire, "n1")
        with house.disk.hold("fdatasync") as gate:
            first = await other.request("append", session_id=SESSION, message=HI)
            await arrived(gate)
            asked = await wire.request("session/acquire", session_id=SESSION, ttl_ms=1000)
            await wire.call("server/ping")
            behind = await other.request("append", session_id=SESSION, message=HI)
            await other.call("server/ping")
        lease = await wire.answer(asked)
        heads = await call(wire, "session/heads")
        assert (await other.answer(first))["seq"] == heads["heads"][0]["seq"] == 2
        # It was sent behind the question for the lease.
        with pytest.raises(Refusal, match="the head is leased"):
            await other.answer(behind)
        assert await refused(other, "append", "epoch", entry=entry("n9")) == lease["epoch"]


async def test_a_lease_is_given_although_the_batch_it_came_with_was_lost(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1", persist="immediate")
        house.disk.fail("write")
        one = await wire.request("append", session_id=SESSION, message=HI)
        two = await wire.request("session/acquire", session_id=SESSION, ttl_ms=1000)
        assert await refused_answer(wire, one) == "storage_error"
        lease = await wire.answer(two)
        house.disk.heal()
        assert (await append(wire, "n2", lease_id=lease["lease_id"]))["seq"] == 2


async def test_a_lease_ends_with_its_time_and_renewing_gives_it_another(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await create_with(wire, "n1")
        lease_id = await call(wire, "session/acquire", "lease_id", ttl_ms=1000)
        house.seconds += 0.999
        await refused(other, "append", entry=entry("n2"))
        renewed = await call(wire, "session/renew", lease_id=lease_id, ttl_ms=2000)
        assert renewed["lease_id"] == lease_id
        assert renewed["expires_at"] == "2026-01-15T10:30:02.000Z"
        house.seconds += 1.999
        await refused(other, "append", entry=entry("n2"))
        house.seconds += 0.001
        # Nobody has it now, but its holder must not write as if nothing had been.
        assert await refused(wire, "append", entry=entry("n2"), lease_id=lease_id) == "lease_lost"
        again = await call(other, "session/acquire", ttl_ms=TTL_MS)
        data = await refused(wire, "append", "", entry=entry("n2"), lease_id=lease_id)
        assert (data["kind"], data["retryable"]) == ("lease_held", False)
        assert data["epoch"] == again["epoch"] > renewed["epoch"]
        data = await refused(wire, "session/renew", "", lease_id=lease_id, ttl_ms=1000)
        assert data["kind"] == "lease_lost"
        # Ending what is over already is no error and ends nothing else.
        await call(wire, "session/release", lease_id=lease_id)
        await refused(wire, "append", entry=entry("n2"))


async def test_a_lease_ends_between_the_asking_and_the_staging_of_an_append(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1")
        lease_id = await call(wire, "session/acquire", "lease_id", ttl_ms=1000)
        named = {"session_id": SESSION, "message": HI, "lease_id": lease_id}
        with house.disk.hold("fdatasync") as gate:
            first = await wire.request("append", **named)
            await arrived(gate)
            late = await wire.request("append", **named)
            await wire.call("server/ping")
            house.seconds += 1.0
        assert (await wire.answer(first))["seq"] == 2
        assert await refused_answer(wire, late) == "lease_lost"


@pytest.mark.parametrize("persist", ["immediate", "never"])
async def test_a_lease_and_a_place_in_line_end_with_their_connection(
    house: House, persist: str
) -> None:
    async with house.daemon() as daemon, daemon.connect() as third:
        async with daemon.connect() as wire:
            await create_with(wire, "n1", persist=persist)
            await call(wire, "session/acquire", ttl_ms=TTL_MS)
            async with daemon.connect() as second:
                await second.request(
                    "session/acquire", session_id=SESSION, ttl_ms=9000, wait_ms=9000
                )
                await second.call("server/ping")
                asked = await third.request(
                    "session/acquire", session_id=SESSION, ttl_ms=9000, wait_ms=9000
                )
                await third.call("server/ping")
        lease = await third.answer(asked)
        assert await append(third, "n2", lease_id=lease["lease_id"])


async def test_who_is_killed_while_it_waits_for_another_head_lets_go_of_its_own(
    house: House,
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await create_with(wire, "n1")
        wait = {"session_id": SESSION, "ttl_ms": 60_000, "wait_ms": 60_000}
        await call(wire, "session/acquire", ttl_ms=TTL_MS, head="a")
        await call(other, "session/acquire", ttl_ms=TTL_MS, head="b")
        asked = await wire.request("session/acquire", head="b", **wait)
        await wire.call("server/ping")
        number = await other.request("session/acquire", head="a", **wait)
        await other.call("server/ping")
        # What the daemon sees of a killed process is the end of its input.
        wire._socket.shutdown(socket.SHUT_WR)
        assert await refused_answer(wire, asked) == "cancelled"
        assert (await other.answer(number))["lease_id"]


async def test_an_input_that_ends_behind_an_acquire_waits_for_nothing(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await create_with(other, "n1")
        await call(other, "session/acquire", ttl_ms=TTL_MS)
        wait = {"session_id": SESSION, "ttl_ms": 60_000, "wait_ms": 60_000}
        with house.disk.hold("fdatasync") as gate:
            await other.request("session/label", session_id=SESSION, entry_id="n1", label="x")
            await arrived(gate)
            asked = await wire.request("session/acquire", **wait)
            free = await wire.request("session/acquire", head="side", **wait)
            wire._socket.shutdown(socket.SHUT_WR)
            with anyio.fail_after(PATIENCE_SECONDS):
                while not any(client._asks_no_more for client in daemon.clients):
                    await anyio.lowlevel.checkpoint()
        assert await refused_answer(wire, asked) == "lease_held"
        assert await wire.answer(free)


async def test_epochs_grow_over_restarts_whatever_becomes_of_the_clock_or_the_catalog(
    house: House,
) -> None:
    epochs: list[int] = []
    for _ in range(2):
        for _ in range(2):
            # The clock of this house stands still: only the catalog knows better.
            async with house.daemon() as daemon, daemon.connect() as wire:
                if not epochs:
                    await create_with(wire, "n1")
                for head in ("main", "side"):
                    lease = await call(wire, "session/acquire", ttl_ms=TTL_MS, head=head)
                    await call(wire, "session/release", lease_id=lease["lease_id"])
                    epochs.append(lease["epoch"])
            async with house.daemon() as daemon, daemon.connect() as wire:
                lost = {"entry": entry("n9"), "lease_id": "lease-1"}
                assert await refused(wire, "append", **lost) == "lease_lost"
    assert epochs == sorted(set(epochs))
    for path in house.layout.catalog.parent.glob("catalog.sqlite*"):
        path.unlink()
    # And without it, the clock.
    house.environment = msgspec.structs.replace(
        house.environment, now=lambda: "2026-01-15T10:31:00.000Z"
    )
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await call(wire, "session/acquire", "epoch", ttl_ms=TTL_MS) > epochs[-1]


@pytest.mark.parametrize("now", ["2026-01-15T10:30:00.000Z", "2026-01-15T09:30:00.000Z"])
async def test_a_daemon_gives_no_epoch_that_the_one_before_gave_though_the_clock_went_back(
    house: House, now: str
) -> None:
    epochs: list[int] = []
    for _ in range(2):
        async with house.daemon() as daemon, daemon.connect() as wire:
            if not epochs:
                await create_with(wire, "n1")
            for _ in range(20):
                lease = await call(wire, "session/acquire", ttl_ms=TTL_MS)
                await call(wire, "session/release", lease_id=lease["lease_id"])
                epochs.append(lease["epoch"])
        house.environment = msgspec.structs.replace(house.environment, now=lambda: now)
    assert epochs == sorted(set(epochs))


# -- who is next -----------------------------------------------------------------------


@pytest.mark.parametrize("persist", ["immediate", "never"])
async def test_who_waits_is_served_in_order_and_others_go_on_meanwhile(
    house: House, persist: str
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as second:
        await create_with(wire, "n1", persist=persist)
        lease_id = await call(wire, "session/acquire", "lease_id", ttl_ms=TTL_MS)
        wait = {"session_id": SESSION, "ttl_ms": 9000, "wait_ms": 9000}
        numbers = [await second.request("session/acquire", **wait) for _ in range(3)]
        # What it asks later does not wait for them, and another head is free.
        await call(second, "session/get")
        assert await call(second, "session/acquire", "lease_id", ttl_ms=TTL_MS, head="side")
        await call(wire, "session/label", entry_id="n1", label="x")
        epochs = []
        for number in numbers:
            await call(wire, "session/release", lease_id=lease_id)
            lease = await second.answer(number)
            epochs.append(lease["epoch"])
            lease_id = lease["lease_id"]
            assert await refused(wire, "session/acquire", "epoch", ttl_ms=TTL_MS) == lease["epoch"]
        assert epochs == sorted(epochs)


async def test_a_wait_ends_with_a_cancel_with_its_time_and_with_the_others_time(
    real_house: House,
) -> None:
    environment = msgspec.structs.replace(real_house.environment, monotonic=time.monotonic)
    real_house.environment = environment
    async with (
        real_house.daemon() as daemon,
        daemon.connect() as wire,
        daemon.connect() as other,
    ):
        await create_with(wire, "n1")
        await call(wire, "session/acquire", ttl_ms=60_000)
        wait = {"session_id": SESSION, "ttl_ms": 9000}
        number = await other.request("session/acquire", wait_ms=60_000, **wait)
        await cancel(other, number)
        assert await refused_answer(other, number) == "cancelled"
        data = await refused(other, "session/acquire", "", ttl_ms=TTL_MS, wait_ms=50)
        assert (data["kind"], data["epoch"] > 0) == ("lease_held", True)
        number = await other.request("session/acquire", wait_ms=60_000, **wait)
        await other.call("server/ping")
        lease_id = "lease-1"
        await call(wire, "session/renew", lease_id=lease_id, ttl_ms=100)
        with anyio.fail_after(PATIENCE_SECONDS):
            assert (await other.answer(number))["lease_id"] != lease_id


async def test_who_waits_when_the_daemon_ends_is_answered(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await create_with(wire, "n1")
        await call(wire, "session/acquire", ttl_ms=TTL_MS)
        number = await other.request(
            "session/acquire", session_id=SESSION, ttl_ms=9000, wait_ms=60_000
        )
        await call(other, "session/get")
        await daemon.end()
        data = await refused_answer(other, number, "")
        assert (data["kind"], data["retryable"]) == ("draining", True)


# -- the session ---------------------------------------------------------------------------


async def test_a_leased_session_stays_open_until_the_lease_is_over(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1")
        await call(wire, "session/acquire", ttl_ms=3_600_000)
        house.seconds += 3599
        daemon.service.unload_idle()
        await call(wire, "session/close")
        assert daemon.service.find(SESSION) is not None
        await refused(wire, "append", entry=entry("n2"))
        house.seconds += 1
        await call(wire, "session/close")
        assert daemon.service.find(SESSION) is None
        await append(wire, "n2")


async def test_a_lease_is_of_a_head_and_not_of_the_file(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await create_with(wire, "n1")
        lease_id = await call(wire, "session/acquire", "lease_id", ttl_ms=TTL_MS)
        await call(other, "session/archive")
        data = await refused(wire, "append", "", entry=entry("n2"), lease_id=lease_id)
        assert data["kind"] == "session_archived"
        await call(other, "session/unarchive")
        await append(wire, "n2", lease_id=lease_id)
        number = await other.request(
            "session/acquire", session_id=SESSION, ttl_ms=9000, wait_ms=60_000
        )
        await call(other, "session/get")
        await call(wire, "session/delete")
        assert await refused_answer(other, number) == "lease_held"
        data = await refused(wire, "append", "", entry=entry("n3"), lease_id=lease_id)
        assert data["kind"] == "session_not_found"


async def test_access_read_and_status_may_not_acquire(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await create_with(wire, "n1")
        lease_id = await call(wire, "session/acquire", "lease_id", ttl_ms=TTL_MS)
        for access in ("read", "status"):
            await other.call("initialize", access=access)
            assert await refused(other, "session/acquire", ttl_ms=TTL_MS) == "permission_denied"
            assert await refused(other, "session/release", lease_id=lease_id) == "permission_denied"


async def test_bad_times_are_refused(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1")
        for ttl_ms in (0, 99, 3_600_001, -1):
            data = await refused(wire, "session/acquire", "", ttl_ms=ttl_ms)
            assert (data["kind"], data["path"]) == ("invalid_params", "ttl_ms")
        data = await refused(wire, "session/acquire", "", ttl_ms=TTL_MS, wait_ms=-1)
        assert data["path"] == "wait_ms"
