"""Random outages at three daemons of one database, while retention runs at each of them.

Law: no run takes a session that is young, archived or open at any daemon. What is old and unused goes once, and
behind the outages all of that goes.
"""

from __future__ import annotations

import random
from collections import Counter
from contextlib import AsyncExitStack, suppress
from typing import Any

import pytest
from anyio import create_task_group
from msgspec import structs

from sessiond.service.database.database import Head
from sessiond.testing.wire import Refusal, Wire
from tests.kit.patience import drawn_pause, eventually
from tests.service.one_database.site import Site
from tests.service.test_lives_through_outages import PASSING, three_daemons

pytestmark = [pytest.mark.slow, pytest.mark.drawn]

TWO_DAYS_NS = 2 * 24 * 3600 * 10**9
STEPS = 12


class Aging:
    """One session after another that one client makes, keeps in some way, and lets grow old."""

    def __init__(self, site: Site, name: str, wires: list[Wire], seed: str) -> None:
        self.id = ""
        self._kept = ""
        self.times = 0
        """Number of times that the session was kept or let go of."""
        self.log: list[Any] = []
        self._place = site._place
        self._name = name
        self._wires = wires
        self._dice = random.Random(seed)
        self._made = 0

    @property
    def kept(self) -> str:
        """Reason for which the session stays out of the trash; empty while there is none."""
        return self._kept

    @kept.setter
    def kept(self, reason: str) -> None:
        self._kept = reason
        self.times += 1

    async def ask(self, method: str, at: int | None = None, **params: Any) -> str:
        """Return the kind of a refusal; empty for an answer. A call is repeated while the database is away."""
        while True:
            wire = self._wires[self._dice.randrange(3) if at is None else at]
            try:
                await wire.call(method, session_id=self.id, **params)
                kind = ""
            except Refusal as refusal:
                kind = refusal.data["kind"]
            self.log.append((method, at, kind))
            if kind not in PASSING:
                return kind
            await drawn_pause(self._dice, 0, 0.004)

    def row(self) -> Head | None:
        with self._place.guard:
            found = [one for one in self._place.heads.values() if one.session_id == self.id]
        return found[-1] if found else None

    def is_there(self) -> bool:
        row = self.row()
        return row is not None and not row.is_deleted

    def age(self) -> None:
        with self._place.guard:
            for head in list(self._place.heads.values()):
                if head.session_id == self.id:
                    old, version = head.written_ns - TWO_DAYS_NS, head.version + 1
                    self._place.put(structs.replace(head, written_ns=old, version=version))

    async def live(self) -> None:
        for _ in range(STEPS):
            if not self.id or not self.is_there():
                await self.make()
            await self._dice.choice([self.open, self.archive, self.refresh])()
            self.age()
            await drawn_pause(self._dice, 0, 0.01)

    async def make(self) -> None:
        self._made += 1
        self.id, self.kept = f"{self._name}-{self._made}", "young"
        at = self._dice.randrange(3)
        await self.ask("session/create", at, cwd="/p", persist="immediate")
        await self.say()
        await self.let_go()

    async def say(self) -> str:
        self._made += 1
        message = {"role": "assistant", "content": "hi"}
        entry = {"type": "message", "id": f"{self._name}-e-{self._made}", "message": message}
        return await self.ask("append", entry=entry)

    async def let_go(self) -> None:
        """Let go of the session at every daemon."""
        for at in range(3):
            await self.ask("session/close", at)

    async def stay(self, kept: str) -> None:
        """Check for a while that the session stays."""
        self.kept = kept
        await drawn_pause(self._dice, 0, 0.02)
        assert self.is_there(), (kept, self.log[-8:])
        self.kept = ""

    async def open(self) -> None:
        at = self._dice.randrange(3)
        if await self.ask("session/subscribe", at) == "":
            if not self.is_there():
                # The session was deleted while it was opened.
                return
            await self.stay("open")
        await self.let_go()

    async def archive(self) -> None:
        if await self.ask("session/archive") == "":
            await self.stay("archived")
            self.kept = "archived"
            self.age()
            await self.ask("session/unarchive")
            # The file was written by the move.
            self.kept = "young"
        await self.let_go()
        self.kept = ""

    async def refresh(self) -> None:
        if await self.say() == "":
            await self.stay("young")
        await self.let_go()


async def retain(wires: list[Wire], sessions: list[Aging], went: Counter[str], dice: Any) -> None:
    """Run retention at any daemon again and again."""
    while True:
        await run_once(dice.choice(wires), sessions, went, dry_run=dice.random() < 0.5)
        await drawn_pause(dice, 0, 0.01)


async def run_once(wire: Wire, sessions: list[Aging], went: Counter[str], *, dry_run: bool) -> int:
    # A session that is kept at another time has another number of times.
    before = {(one.id, one.times) for one in sessions if one.kept}
    answer: dict[str, Any] = {"sessions": []}
    with suppress(Refusal):
        answer = await wire.call("retention/run", max_age_hours=24, dry_run=dry_run)
    named = {row["id"] for row in answer["sessions"]}
    kept = {one.id for one in sessions if one.kept and (one.id, one.times) in before}
    assert not named & kept, (dry_run, named & kept, answer)
    if not dry_run:
        went.update(named)
    return len(named)


@pytest.mark.limits(CATALOG_FLUSH_SECONDS=0.01)
@pytest.mark.parametrize("seed", range(4))
async def test_retention_takes_what_is_old_and_unused_through_outages(
    site: Site, seed: int
) -> None:
    dice, went = random.Random(seed), Counter[str]()
    async with three_daemons(site, seed) as (connections, daemons), AsyncExitStack() as ends:

        async def clients() -> list[Wire]:
            return [await ends.enter_async_context(one.connect()) for one in daemons]

        sessions = [
            Aging(site, f"session-{at}", await clients(), f"{seed} {at}") for at in range(5)
        ]
        retaining = [await clients() for _ in range(2)]
        for connection in connections:
            connection.chance = 0.05
        async with create_task_group() as runs:
            for wires in retaining:
                runs.start_soon(retain, wires, sessions, went, dice)
            async with create_task_group() as tasks:
                for one in sessions:
                    tasks.start_soon(one.live)
            runs.cancel_scope.cancel()
        for connection in connections:
            connection.chance = 0.0
        site.passed_ns += 2 * TWO_DAYS_NS
        fresh = await clients()

        async def all_went() -> bool:
            if any(one.is_there() for one in sessions):
                # An opening or a last note that failed counts for a minute.
                site.forget_open_notes()
                await run_once(fresh[0], sessions, went, dry_run=False)
            return not any(one.is_there() for one in sessions)

        await eventually(all_went, lambda: [one.log[-6:] for one in sessions])
    assert set(went.values()) <= {1}, went
