"""Random outages at three daemons of one database, while clients set values that end by time.

Law: a value that was answered is at every daemon until its time is over by the database's clock, and at no
daemon behind that. A call is repeated until its answer comes; each call may fail before its work, behind that,
or be carried out later. No two changes have one revision.
"""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from functools import partial
from typing import Any

import pytest
from anyio import create_task_group, fail_after

from sessiond.testing.wire import Refusal, Wire
from tests.kit.limits import set_limits
from tests.kit.patience import PATIENCE_SECONDS, drawn_pause, eventually, paused
from tests.service.one_database.connections import OUT_OF_REACH
from tests.service.one_database.site import Site
from tests.service.test_lives_through_outages import NAMES, PASSING, Everywhere

pytestmark = [pytest.mark.slow, pytest.mark.drawn]

HOUR_MS = 3_600_000
STEPS = 40
NAMESPACE = "notes"


class Late(Everywhere):
    """A connection whose writes of documents may be carried out behind their failure."""

    def put_document(self, *args: Any) -> bool:
        """Write a document, fail, or fail and write later."""
        write: Callable[..., bool] = self.inner.put_document
        if self._dice.random() < self.chance:
            self._threads.submit(self._write_later, partial(write, *args))
            raise OUT_OF_REACH
        stored: bool = self._try(write, *args)
        return stored

    def _write_later(self, write: Callable[[], bool]) -> None:
        paused(self._dice, 0, 0.01)
        write()


@asynccontextmanager
async def late_daemons(
    site: Site, seed: int, **environment: Any
) -> AsyncGenerator[tuple[list[Late], list[Callable[[], Any]]]]:
    """Yield the connections of three daemons, and what connects a client to each daemon."""
    async with AsyncExitStack() as ends:
        threads = ends.enter_context(ThreadPoolExecutor(16))
        connections = [Late(site.connect(), threads, f"{seed} {at}") for at in range(3)]
        daemons = [
            await ends.enter_async_context(site.daemon(name, connection, 0.02, **environment))
            for name, connection in zip(NAMES, connections, strict=True)
        ]

        def client(at: int) -> Any:
            return ends.enter_async_context(daemons[at].connect())

        with fail_after(2 * PATIENCE_SECONDS):
            yield connections, [partial(client, at) for at in range(3)]


class Value:
    """A key that one client sets, deletes and reads at any daemon."""

    def __init__(self, site: Site, key: str, wires: list[Wire], seed: str) -> None:
        self.key = key
        self.site = site
        self.value: Any = None
        self.revision = 0
        self.ends_ms: int | None = None
        self.revisions: list[int] = []
        self.log: list[Any] = []
        self._wires = wires
        self._dice = random.Random(seed)
        self._made = 0

    def now_ms(self) -> int:
        return self.site._place.now_ns() // 1_000_000

    def is_gone(self) -> bool:
        return self.value is None or (self.ends_ms is not None and self.ends_ms <= self.now_ms())

    async def ask(self, method: str, **params: Any) -> tuple[Any, bool]:
        """Return an answer that is not old, or the kind of a refusal, and whether the call was repeated."""
        is_repeated = False
        while True:
            at = self._dice.randrange(len(self._wires))
            try:
                answer = await self._wires[at].call(method, namespace=NAMESPACE, **params)
            except Refusal as refusal:
                kind = refusal.data["kind"]
                self.log.append((at, method, params, kind, refusal.message))
                if kind in PASSING:
                    is_repeated = True
                    await drawn_pause(self._dice, 0, 0.004)
                    continue
                return refusal, is_repeated
            self.log.append((at, method, params, answer))
            if "_meta" not in answer:
                return answer, is_repeated
            await drawn_pause(self._dice, 0, 0.004)

    async def live(self) -> None:
        for _ in range(STEPS):
            steps = [self.set, self.set, self.set, self.exchange, self.delete, self.look]
            await self._dice.choice(steps)()
            await self.look()
            if self._dice.random() < 0.15:
                self.site.passed_ns += self._dice.randrange(2 * HOUR_MS) * 1_000_000

    async def set(self, **expected: Any) -> None:
        self._made += 1
        ttl_ms = self._dice.choice([None, HOUR_MS, 3 * HOUR_MS])
        was_gone, before = self.is_gone(), self.now_ms()
        answer, is_repeated = await self.ask(
            "state/set", key=self.key, value=self._made, ttl_ms=ttl_ms, **expected
        )
        after = self.now_ms()
        if isinstance(answer, Refusal):
            await self._refused(answer, is_repeated, expected["expected_revision"], ttl_ms)
            return
        if not is_repeated and was_gone:
            assert answer["created"], self.log[-6:]
        if not is_repeated and not was_gone and not self.is_gone():
            assert not answer["created"], self.log[-6:]
        self._take(answer, self._made)
        if ttl_ms is None:
            assert self.ends_ms is None
        else:
            assert self.ends_ms is not None
            assert before - 1 + ttl_ms <= self.ends_ms <= after + 1 + ttl_ms, self.log[-6:]

    def _take(self, answer: Any, value: Any) -> None:
        self.value, self.revision = value, answer["revision"]
        ends = answer["expires_at"]
        self.ends_ms = None
        if ends is not None:
            self.ends_ms = round(datetime.fromisoformat(ends).timestamp() * 1000)
        self.revisions.append(self.revision)

    async def _refused(
        self, refusal: Refusal, is_repeated: bool, expected: int, ttl_ms: int | None
    ) -> None:
        """Take note of an exchange that found another revision."""
        assert refusal.data["kind"] == "revision_mismatch", self.log[-6:]
        actual = refusal.data["actual_revision"]
        assert actual != expected
        if not is_repeated:
            wanted = 0 if self.is_gone() else self.revision
            assert actual in {wanted, self.revision}, (self.revision, self.log[-6:])
            assert expected != self.revision or self.is_gone(), self.log[-6:]
            return
        # The first try may have been carried out, and its value's time may be over.
        row, _ = await self.ask("state/get", key=self.key)
        if row["value"] == self._made:
            self._take(row, self._made)
        elif row["revision"] == 0 and not self.is_gone():
            assert ttl_ms is not None, self.log[-8:]
            self.value = None

    async def exchange(self) -> None:
        choices = [0, self.revision] if self.revision else [0]
        await self.set(expected_revision=self._dice.choice(choices))

    async def delete(self) -> None:
        was_gone = self.is_gone()
        answer, is_repeated = await self.ask("state/delete", key=self.key)
        if was_gone:
            assert not answer["deleted"], self.log[-6:]
        elif not is_repeated and not self.is_gone():
            assert answer["deleted"], self.log[-6:]
        self.value = None

    async def look(self) -> None:
        """Check that a daemon says what was answered, and what the clock says."""
        method = self._dice.choice(["state/get", "state/all", "state/list"])
        was_gone = self.is_gone()
        if method == "state/get":
            row, _ = await self.ask(method, key=self.key)
        else:
            answer, _ = await self.ask(method)
            rows = {
                row["key"]: row for row in answer["values" if method == "state/all" else "keys"]
            }
            row = rows.get(self.key, {"revision": 0, "value": None})
        if was_gone:
            assert row["revision"] == 0, (self.ends_ms, self.now_ms(), self.log[-6:])
            self.value = None
        elif row["revision"] == 0:
            assert self.is_gone(), (self.ends_ms, self.now_ms(), self.log[-6:])
            self.value = None
        else:
            assert row["revision"] == self.revision, self.log[-6:]
            assert row.get("value", self.value) == self.value, self.log[-6:]


async def listen(wire: Wire, last: dict[str, tuple[int, str]], seen: set[int]) -> None:
    """Keep the last hint about each key."""
    while True:
        told = (await wire.next_notification())["params"]
        assert told["change"] != "many"
        last[told["key"]] = told["revision"], told["change"]
        if told["change"] == "set":
            seen.add(told["revision"])


@pytest.mark.parametrize("seed", range(6))
async def test_values_end_by_the_clock_of_the_database_through_outages(
    site: Site, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Time passes at once.
    set_limits(monkeypatch, DATABASE_CLOCK_SECONDS=-1.0)
    async with late_daemons(site, seed) as (connections, clients):
        values = [
            Value(site, f"key-{at}", [await client() for client in clients], f"{seed} {at}")
            for at in range(5)
        ]
        hints: list[dict[str, tuple[int, str]]] = [{}, {}, {}]
        seen: set[int] = set()
        async with create_task_group() as watchers:
            for client, last in zip(clients, hints, strict=True):
                watching = await client()
                await watching.call("state/subscribe", namespace=NAMESPACE)
                watchers.start_soon(listen, watching, last, seen)
            for connection in connections:
                connection.chance = 0.08
            async with create_task_group() as tasks:
                for value in values:
                    tasks.start_soon(value.live)
            for connection in connections:
                connection.chance = 0.0
            for value in values:
                await value.look()
            askers = [await client() for client in clients]
            said = [await asker.call("state/all", namespace=NAMESPACE) for asker in askers]
            assert said[0] == said[1] == said[2]
            keys = {row["key"]: row["revision"] for row in said[0]["values"]}

            def is_told() -> bool:
                return all(
                    (last[value.key] == (keys[value.key], "set"))
                    if value.key in keys
                    else last.get(value.key, (0, ""))[1] != "set"
                    for last in hints
                    for value in values
                )

            await eventually(is_told, lambda: (hints, keys))
            watchers.cancel_scope.cancel()
    revisions = [each for value in values for each in value.revisions]
    assert len(set(revisions)) == len(revisions), "two values have one revision"
    for value in values:
        assert value.revisions == sorted(value.revisions)
