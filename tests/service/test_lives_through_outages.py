"""Random outages at three daemons of one database, while clients change whole sessions.

Law: each call of a daemon may fail, before its work or behind that. What was answered holds at every daemon
from then on, each answer is one that the requests before can have led to, and behind the outages all daemons
say the same.
"""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from typing import Any, Final

import pytest
from anyio import create_task_group, fail_after

from sessiond.testing.daemon import Daemon
from sessiond.testing.wire import Refusal, Wire
from tests.kit.patience import PATIENCE_SECONDS, drawn_pause, eventually
from tests.service.one_database.site import Site
from tests.service.test_outages_on_one_database import Unreliable

pytestmark = [pytest.mark.slow, pytest.mark.drawn]

NAMES: Final = ("one", "three", "seventh")
RELIABLE: Final = frozenset({"name", "company", "close", "wait", "stop_listening", "notifications"})
PASSING: Final = {"storage_error", "overloaded"}
LIVES = 5
STEPS = 25


class Everywhere(Unreliable):
    """A connection of which every call fails now and then."""

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.inner, name)
        if name in RELIABLE or not callable(method):
            return method
        return partial(self._try, method)


class Hints:
    """The last hint about each session that a connection was told."""

    def __init__(self) -> None:
        self.last: dict[str, str] = {}

    def shows(self, life: Life) -> bool:
        """Return whether the last hint agrees with what became of a session."""
        word = self.last.get(life.name)
        return word != "deleted" if life.state == "there" else word in {None, "deleted"}

    async def listen(self, wire: Wire) -> None:
        while True:
            try:
                notice = await wire.next_notification()
            except TimeoutError:
                # Nothing has changed for a while; who waits for a hint says what the hint is.
                continue
            told = notice["params"]
            assert told["change"] != "many"
            self.last[told["session_id"]] = told["change"]


class Life:
    """One session after another of one id, changed by one client, which asks any daemon."""

    def __init__(self, site: Site, name: str, wires: list[Wire], seed: str) -> None:
        self.name = name
        self.state = "nowhere"
        self.entries: list[str] = []
        self.archived = False
        self._site = site
        self._wires = wires
        self._dice = random.Random(seed)
        self._made = 0
        self.log: list[Any] = []

    async def ask(self, method: str, *repeated: str, **params: Any) -> Any:
        """Return an answer, or a kind in `repeated`, which a request may have that was made before."""
        is_repeated = False
        while True:
            at = self._dice.randrange(len(self._wires))
            try:
                answer = await self._wires[at].call(method, session_id=self.name, **params)
            except Refusal as refusal:
                kind = refusal.data["kind"]
                self.log.append((at, method, kind, refusal.message))
                if kind in PASSING:
                    is_repeated = True
                    await drawn_pause(self._dice, 0, 0.004)
                    continue
                assert is_repeated, self.log[-6:]
                assert kind in repeated, self.log[-6:]
                return kind
            self.log.append((at, method, "ok"))
            return answer

    async def kind(self, method: str) -> str:
        """Return the kind of a refusal; empty for an answer."""
        while True:
            at = self._dice.randrange(len(self._wires))
            try:
                answer = await self._wires[at].call(method, session_id=self.name)
                # An answer with this sign may be old.
                kind = "storage_error" if "_meta" in answer else ""
            except Refusal as refusal:
                kind = str(refusal.data["kind"])
            self.log.append((at, method, kind))
            if kind not in PASSING:
                return kind
            await drawn_pause(self._dice, 0, 0.004)

    async def live(self) -> None:
        for _ in range(STEPS):
            steps = {
                "nowhere": [self.create],
                "there": [self.append, self.delete, self.delete, self.archive, self.repair],
                "in trash": [self.restore, self.restore, self.restore, self.purge],
            }
            await self._dice.choice(steps[self.state])()
            await self.check()

    async def create(self) -> None:
        await self.ask("session/create", "session_exists", cwd="/p", persist="immediate")
        self.state, self.entries, self.archived = "there", [], False

    async def append(self) -> None:
        if self.archived:
            await self.archive()
        self._made += 1
        entry_id = f"{self.name}-{self._made}"
        message = {"role": "user", "content": "hi"}
        await self.ask("append", entry={"type": "message", "id": entry_id, "message": message})
        self.entries.append(entry_id)

    async def archive(self) -> None:
        method = "session/unarchive" if self.archived else "session/archive"
        await self.ask(method)
        self.archived = not self.archived

    async def delete(self) -> None:
        await self.ask("session/delete")
        self.state = "in trash"

    async def restore(self) -> None:
        await self.ask("session/restore", "session_exists")
        self.state = "there"

    async def purge(self) -> None:
        await self.ask("session/purge", "session_not_found")
        self.state = "nowhere"
        place = self._site._place
        with place.guard:
            left = [
                head
                for head in place.heads.values()
                if head.session_id == self.name and place.lines[head.number]
            ]
        assert left == []

    async def repair(self) -> None:
        await self.ask("session/repair", dry_run=False)

    async def check_list(self) -> None:
        """Check that a daemon lists the session as it was answered, or says that the list may be old."""
        answer: dict[str, Any] = {"_meta": "not answered"}
        with suppress(Refusal):
            answer = await self._dice.choice(self._wires).call("session/list", limit=1000)
        if "_meta" not in answer:
            is_listed = self.name in {row["id"] for row in answer["sessions"]}
            assert is_listed == (self.state == "there" and not self.archived), self.log[-12:]

    async def check(self) -> None:
        """Check that a daemon says what was answered."""
        await self.check_list()
        expected = "" if self.state == "there" else "session_not_found"
        found = await self.kind("session/get")
        assert found == expected, self.log[-12:]
        if self.state == "there":
            page = await self.ask("session/entries", limit=1000)
            if "_meta" not in page:
                shown = [row["entry"]["id"] for row in page["entries"]]
                assert shown == self.entries, self.log[-12:]


@asynccontextmanager
async def three_daemons(
    site: Site, seed: int
) -> AsyncGenerator[tuple[list[Everywhere], list[Daemon]]]:
    """Yield three daemons and their connections."""
    async with AsyncExitStack() as ends:
        threads = ends.enter_context(ThreadPoolExecutor(16))
        connections = [Everywhere(site.connect(), threads, f"{seed} {at}") for at in range(3)]
        daemons = [
            await ends.enter_async_context(site.daemon(name, connection, 0.02))
            for name, connection in zip(NAMES, connections, strict=True)
        ]
        with fail_after(2 * PATIENCE_SECONDS):
            yield connections, daemons


async def bother(wires: list[Wire], names: list[str], dice: random.Random) -> None:
    """List sessions at any daemon, open them, watch them, and let go of them."""
    methods = ("session/get", "subscribe", "unsubscribe", "session/verify", "session/close")
    while True:
        wire = dice.choice(wires)
        with suppress(Refusal):
            # A list makes a scan, during which other lists are asked for.
            await wire.call("session/list")
            await wire.call(dice.choice(methods), session_id=dice.choice(names))
        wire.notifications.clear()
        await drawn_pause(dice, 0, 0.01)


async def said(wire: Wire, lives: list[Life]) -> list[Any]:
    """Return what a daemon says of all sessions, once the database answers."""
    there = [life for life in lives if life.state == "there"]
    listed = (await wire.call("session/list", limit=1000))["sessions"]
    assert {row["id"] for row in listed} == {life.name for life in there if not life.archived}
    trashed = (await wire.call("session/trash", limit=100))["sessions"]
    in_trash = {life.name for life in lives if life.state == "in trash"}
    assert in_trash <= {row["session_id"] for row in trashed}
    methods = ("session/get", "session/entries", "session/build_context")
    return [await wire.call(each, session_id=life.name) for life in there for each in methods]


@pytest.mark.limits(CATALOG_FLUSH_SECONDS=0.01)
@pytest.mark.parametrize("seed", range(6))
async def test_what_was_answered_of_whole_sessions_holds_through_outages(
    site: Site, seed: int
) -> None:
    dice, hints = random.Random(seed), [Hints() for _ in NAMES]
    async with three_daemons(site, seed) as (connections, daemons), AsyncExitStack() as ends:

        async def clients() -> list[Wire]:
            return [await ends.enter_async_context(one.connect()) for one in daemons]

        lives = [
            Life(site, f"session-{at}", await clients(), f"{seed} {at}") for at in range(LIVES)
        ]
        watching, bothering, asking = await clients(), await clients(), await clients()
        async with create_task_group() as watchers:
            for wire, heard in zip(watching, hints, strict=True):
                await wire.call("catalog/subscribe")
                watchers.start_soon(heard.listen, wire)
            watchers.start_soon(bother, bothering, [one.name for one in lives], dice)
            for connection in connections:
                connection.chance = 0.05
            async with create_task_group() as tasks:
                for life in lives:
                    tasks.start_soon(life.live)
            for connection in connections:
                connection.chance = 0.0
            first, *others = [await said(wire, lives) for wire in asking]
            assert all(other == first for other in others)
            # Hints come a look and a flush later.
            await eventually(
                lambda: all(heard.shows(life) for heard in hints for life in lives),
                lambda: [
                    (life.name, life.state, heard.last, life.log[-12:])
                    for heard in hints
                    for life in lives
                    if not heard.shows(life)
                ],
            )
            watchers.cancel_scope.cancel()
