"""Subscriptions at two daemons of one database that have room for few sessions, while clients come and go.

Law: between its answer and its end a subscription gets each entry once and in order, and no unloading ends it.
"""

from __future__ import annotations

import random
from contextlib import AsyncExitStack
from typing import Any

import pytest
from anyio import create_task_group, fail_after

from sessiond.limits import Bounds
from sessiond.testing.daemon import Daemon
from sessiond.testing.wire import Refusal, Wire
from tests.kit.calls import create
from tests.kit.patience import PATIENCE_SECONDS, drawn_pause, paused
from tests.service.one_database.connections import Wrapped
from tests.service.one_database.site import Site

pytestmark = [pytest.mark.slow, pytest.mark.drawn]

SESSIONS = ("session-a", "session-b", "session-c")
ROOM = Bounds(open_sessions=2, idle_session_seconds=0)
STEPS = 40


class Slow(Wrapped):
    """A connection whose appends and looks take a random while, so that commands share batches."""

    def __init__(self, site: Site, dice: random.Random) -> None:
        super().__init__(site.connect())
        self._dice = dice

    def append(self, *args: Any, **options: Any) -> Any:
        paused(self._dice, 0, 0.004)
        return self.inner.append(*args, **options)

    def heads(self, numbers: Any) -> Any:
        paused(self._dice, 0, 0.004)
        return self.inner.heads(numbers)


class Watcher:
    """A client that subscribes to sessions, appends to them, closes them, and counts what it is told."""

    def __init__(self, wire: Wire, daemon: Daemon, seed: str) -> None:
        self.wire = wire
        self.told: dict[str, int] = {}
        """The last seq of each subscription."""
        self._daemon = daemon
        self._dice = random.Random(seed)

    async def live(self) -> None:
        for _ in range(STEPS):
            await self.step(self._dice.choice(SESSIONS))
            if self._dice.random() < 0.2:
                self._daemon.service.unload_idle()
            await drawn_pause(self._dice, 0, 0.003)

    async def step(self, session_id: str) -> None:
        method = self._dice.choice(
            ["append", "append", "subscribe", "session/close", "session/get"]
        )
        if method == "subscribe" and session_id in self.told:
            method = "append"
        members = {"message": {"role": "user"}} if method == "append" else {}
        answer = await self.ask(method, session_id, **members)
        if answer is None:
            return
        if method == "session/close":
            self.told.pop(session_id, None)
        elif method == "subscribe":
            self.told[session_id] = answer["seq"]

    async def ask(self, method: str, session_id: str, **members: Any) -> Any:
        """Return the answer; None if there is no room for the session now."""
        try:
            answer = await self.wire.call(method, session_id=session_id, **members)
        except Refusal as refusal:
            if refusal.data["kind"] != "overloaded":
                raise
            answer = None
        for notice in self.wire.notifications:
            self.hear(notice)
        self.wire.notifications.clear()
        return answer

    def hear(self, notice: dict[str, Any]) -> None:
        """Require that an event goes on where the one before ended."""
        if notice["method"] == "session/synced":
            return
        assert notice["method"] == "session/event", notice["method"]
        session_id, seq = notice["params"]["session_id"], notice["params"]["seq"]
        assert seq == self.told[session_id] + 1
        self.told[session_id] = seq

    async def hear_upto(self, session_id: str, seq: int) -> None:
        while self.told[session_id] < seq:
            self.hear(await self.wire.next_notification())


@pytest.mark.parametrize("seed", range(12))
async def test_a_subscription_gets_each_entry_whatever_is_unloaded(site: Site, seed: int) -> None:
    async with AsyncExitStack() as ends:
        watchers: list[Watcher] = []
        for name in ("one", "three"):
            connection = Slow(site, random.Random(f"{seed} {name}"))
            daemon = await ends.enter_async_context(site.daemon(name, connection))
            for number in range(3):
                wire = await ends.enter_async_context(daemon.connect())
                watchers.append(Watcher(wire, daemon, f"{seed} {name} {number}"))
            daemon.service.bounds = ROOM
        for session_id in SESSIONS:
            await create(watchers[0].wire, session_id, persist="immediate")
        with fail_after(PATIENCE_SECONDS):
            async with create_task_group() as tasks:
                for one in watchers:
                    tasks.start_soon(one.live)
            for session_id in SESSIONS:
                watching = [one for one in watchers if session_id in one.told]
                for one in watching:
                    # An append needs no room where the session is watched.
                    answer = await one.ask("append", session_id, message={"role": "user"})
                    for other in watching:
                        await other.hear_upto(session_id, answer["seq"])
