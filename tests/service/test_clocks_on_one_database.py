"""Daemons whose clocks are days apart: what ends by time ends by the database's clock."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from anyio import fail_after

from sessiond.limits import DATABASE_CLOCK_SECONDS
from sessiond.testing.wire import Wire
from tests.kit.calls import append, call, create, refused, say, watch
from tests.kit.clock import let_pass
from tests.kit.limits import set_limits
from tests.kit.patience import PATIENCE_SECONDS
from tests.kit.sessions import HI, SESSION
from tests.service.one_database.calls import TTL_MS
from tests.service.one_database.site import POLL_SECONDS, Site

pytestmark = [pytest.mark.usefixtures("clock")]

NOTES: dict[str, Any] = {"namespace": "notes", "key": "at"}


def clock(days: int) -> Callable[[], str]:
    """Return a clock that is so many days ahead."""

    def now() -> str:
        then = datetime.now(UTC) + timedelta(days=days)
        return then.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    return now


@asynccontextmanager
async def apart(site: Site) -> AsyncGenerator[tuple[Wire, Wire]]:
    """Yield clients of a daemon a day ahead and of one a day behind."""
    async with (
        site.daemon("ahead", now=clock(1)) as first,
        site.daemon("behind", now=clock(-1)) as second,
        first.connect() as ahead,
        second.connect() as behind,
    ):
        with fail_after(PATIENCE_SECONDS):
            yield ahead, behind


@pytest.mark.parametrize("turned", [False, True], ids=["by the one ahead", "by the one behind"])
async def test_a_lease_lasts_as_long_at_each_daemon(site: Site, turned: bool) -> None:
    async with apart(site) as both:
        one, other = reversed(both) if turned else both
        await create(one, persist="immediate")
        lease = await call(one, "session/acquire", ttl_ms=TTL_MS)
        ends = datetime.fromisoformat(lease["expires_at"])
        left = ends - datetime.fromtimestamp(time.time_ns() / 1e9, UTC)
        assert timedelta(0) < left < timedelta(milliseconds=2 * TTL_MS)
        assert await refused(other, "append", message=HI) == "lease_held"
        await say(one, "under the lease", lease_id=lease["lease_id"])
        await call(other, "session/renew", lease_id=lease["lease_id"], ttl_ms=TTL_MS)
        await other.call("session/release", session_id=SESSION, lease_id=lease["lease_id"])
        await call(other, "session/acquire", ttl_ms=200)
        await call(one, "session/acquire", ttl_ms=TTL_MS, wait_ms=TTL_MS)


@pytest.mark.parametrize("turned", [False, True], ids=["set ahead", "set behind"])
async def test_a_value_lasts_as_long_at_each_daemon(site: Site, turned: bool) -> None:
    async with apart(site) as both:
        one, other = reversed(both) if turned else both
        await one.call("state/set", **NOTES, value=1, ttl_ms=TTL_MS)
        for wire in (one, other):
            assert (await wire.call("state/get", **NOTES))["value"] == 1
        await one.call("state/set", **NOTES, value=2, ttl_ms=300)
        await let_pass(0.5)
        for wire in (one, other):
            assert (await wire.call("state/get", **NOTES))["value"] is None


async def test_retention_counts_by_the_database(site: Site) -> None:
    async with apart(site) as (ahead, behind):
        await create(behind, persist="immediate")
        await append(behind, "e-1", role="assistant")
        await behind.call("session/close", session_id=SESSION)
        for wire in (ahead, behind):
            answer = await wire.call("retention/run", max_age_hours=1, dry_run=False)
            assert answer["sessions"] == []
        assert len(await call(ahead, "session/entries", "entries")) == 1


async def test_a_draft_is_abandoned_by_the_database(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, CLEAN_UP_SECONDS=10 * POLL_SECONDS)
    async with site.daemon("behind", now=clock(-3)) as daemon, daemon.connect() as wire:
        await create(wire)
        await append(wire, "e-1")
    async with site.daemon("ahead", now=clock(3)) as daemon, daemon.connect() as wire:
        # Clean-ups of both daemons are one routine, so the start may be too early for the next one.
        await let_pass(30 * POLL_SECONDS)
        assert (await wire.call("session/trash"))["sessions"] == []
        assert await call(wire, "session/entries", "entries[].entry.id") == ["e-1"]


async def test_order_and_events_know_no_clock(site: Site) -> None:
    async with apart(site) as (ahead, behind):
        await create(ahead, persist="immediate")
        for wire in (ahead, behind):
            await watch(wire)
        for number, wire in enumerate((ahead, behind, ahead, behind)):
            await append(wire, f"e-{number}")
        for wire in (ahead, behind):
            rows = await call(wire, "session/entries", "entries", limit=1000)
            assert [(row["seq"], row["entry"]["id"]) for row in rows] == [
                (number + 1, f"e-{number}") for number in range(4)
            ]
            assert (await call(wire, "session/get"))["session"]["seq"] == 4


async def test_a_clock_of_the_database_that_was_set_is_seen_after_a_while(site: Site) -> None:
    async with apart(site) as both:
        await both[0].call("state/set", **NOTES, value=1, ttl_ms=3_600_000)
        site.passed_ns += 2 * 3_600 * 10**9
        await let_pass(DATABASE_CLOCK_SECONDS + 1)
        for wire in both:
            assert (await wire.call("state/get", **NOTES))["value"] is None
