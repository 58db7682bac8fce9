"""Random outages at three daemons of one database, while clients wait for one head at each of them.

Law: a head has one holder at a time. Each wait ends with a lease or an error in its time. A lease whose grant
was answered by an error, or whose connection has ended, keeps no client from the head once the database answers.
"""

from __future__ import annotations

import random
import time
from contextlib import AsyncExitStack
from datetime import datetime
from typing import Any

import pytest
from anyio import create_task_group, fail_after

from sessiond.testing.daemon import Daemon
from sessiond.testing.wire import Refusal, Wire
from tests.kit.calls import call, create
from tests.kit.patience import PATIENCE_SECONDS, drawn_pause
from tests.kit.sessions import SESSION
from tests.service.one_database.calls import TTL_MS
from tests.service.one_database.site import Site
from tests.service.test_lives_through_outages import three_daemons

pytestmark = [pytest.mark.slow, pytest.mark.drawn]

TURNS = 8
WAIT_MS = 4000


class Head:
    """The head as the clients that were granted it believe it to be held."""

    def __init__(self) -> None:
        self.holder: tuple[str, float] | None = None
        self.epochs: list[int] = []
        self.log: list[Any] = []

    def grant(self, name: str, lease: Any, began: float) -> None:
        """Take note of a lease; no other client may hold the head."""
        now, ends = time.time(), datetime.fromisoformat(lease["expires_at"]).timestamp()
        self.log.append((name, "granted", lease, began, now))
        if self.holder is not None:
            other, until = self.holder
            assert until <= now, (other, until, now, self.log[-8:])
        assert not self.epochs or lease["epoch"] > self.epochs[-1], self.log[-8:]
        self.epochs.append(lease["epoch"])
        self.holder = name, ends

    def release(self, name: str) -> None:
        self.log.append((name, "released", time.time()))
        if self.holder is not None and self.holder[0] == name:
            self.holder = None


async def released(wire: Wire, lease_id: str, dice: random.Random) -> None:
    """Release a lease, once the database answers."""
    while True:
        try:
            await wire.call("session/release", session_id=SESSION, lease_id=lease_id)
        except Refusal:
            await drawn_pause(dice, 0, 0.01)
        else:
            return


async def take_turns(
    daemons: list[Daemon], name: str, head: Head, dice: random.Random, kinds: list[str]
) -> None:
    """Wait for the head at any daemon again and again, and let go of it in several ways."""
    for turn in range(TURNS):
        daemon, who = dice.choice(daemons), f"{name} {turn}"
        how = dice.choice(["release", "release", "expire", "leave"])
        async with daemon.connect() as wire:
            began = time.time()
            wait_ms = dice.choice([0, 50, WAIT_MS, WAIT_MS])
            try:
                with fail_after(WAIT_MS / 1000 + 10):
                    ttl_ms = 100 if how == "expire" else TTL_MS
                    lease = await call(wire, "session/acquire", ttl_ms=ttl_ms, wait_ms=wait_ms)
            except Refusal as refusal:
                kinds.append(refusal.data["kind"])
                assert kinds[-1] in {"lease_held", "storage_error", "overloaded"}, kinds[-1]
                waited = time.time() - began
                if kinds[-1] == "lease_held" and wait_ms:
                    assert waited >= wait_ms / 1000 - 0.02, (waited, wait_ms, refusal.data)  # noqa: PT017
                continue
            kinds.append("granted")
            head.grant(who, lease, began)
            await drawn_pause(dice, 0, 0.01)
            if how == "expire":
                # Past the end of the lease.
                await drawn_pause(dice, 0.11, 0.2)
            head.release(who)
            if how == "release":
                await released(wire, lease["lease_id"], dice)


@pytest.mark.limits(CATALOG_FLUSH_SECONDS=0.01)
@pytest.mark.parametrize("seed", range(4))
async def test_waiting_clients_get_their_turns_through_outages(site: Site, seed: int) -> None:
    head, kinds = Head(), list[str]()
    async with three_daemons(site, seed) as (connections, daemons), AsyncExitStack() as ends:
        first = await ends.enter_async_context(daemons[0].connect())
        await create(first, persist="immediate")
        for connection in connections:
            connection.chance = 0.05
        async with create_task_group() as tasks:
            for at in range(6):
                own = random.Random(f"{seed} {at}")
                tasks.start_soon(take_turns, daemons, f"client {at}", head, own, kinds)
        for connection in connections:
            connection.chance = 0.0
        for daemon in daemons:
            wire = await ends.enter_async_context(daemon.connect())
            with fail_after(PATIENCE_SECONDS):
                lease = await call(wire, "session/acquire", ttl_ms=TTL_MS, wait_ms=WAIT_MS)
                await released(wire, lease["lease_id"], random.Random(seed))
    assert "granted" in kinds, kinds
