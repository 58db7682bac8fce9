"""Random outages at three daemons of one database, while clients lease and archive a session.

Law: each call of a daemon may fail, before its work or behind that, and an append takes effect before its
outcome is waited for. No append passes a lease or an archive, and each entry is stored once, where its answer
says.
"""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from anyio import create_task_group, fail_after

from sessiond.service.database.database import Head, HeldRow, SentAppend, SessionDatabase
from sessiond.testing.wire import Refusal, Wire
from tests.kit.calls import call, create, say
from tests.kit.patience import PATIENCE_SECONDS, drawn_pause
from tests.kit.sessions import SESSION
from tests.service.one_database.connections import OUT_OF_REACH, Wrapped
from tests.service.one_database.site import Site

pytestmark = [pytest.mark.slow, pytest.mark.drawn]

FAILING = frozenset({"fence", "heads", "pieces", "lease", "move"})
UNDER_LEASE = "under the lease"
CLOSED = {"lease_held", "lease_lost", "session_archived"}
PASSING = CLOSED | {"storage_error", "overloaded"}
APPENDS = 25


class Watched(Site):
    """A site that notes each append which lands past a lease or an archive."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.trespasses: list[str] = []
        self._append = self._place.append
        self._place.append = self._watched  # type: ignore[method-assign]

    def _watched(self, at: Head, lines: Sequence[bytes], digest: bytes) -> Head | None:
        row = self._place.heads[at.number]
        leases = msgspec.json.decode(row.leases) if row.leases else []
        is_leased = any(one["ends_ns"] > self._place.now_ns() for one in leases)
        stored = self._append(at, lines, digest)
        if stored is not None and row.place == "archived":
            self.trespasses.append("archive")
        if stored is not None and is_leased and UNDER_LEASE.encode() not in b"".join(lines):
            self.trespasses.append("lease")
        return stored


class Unreliable(Wrapped):
    """A connection whose calls fail now and then, and whose appends take effect early."""

    chance = 0.0
    """Part of the calls that fail."""

    def __init__(self, inner: SessionDatabase, threads: ThreadPoolExecutor, seed: str) -> None:
        super().__init__(inner)
        self._threads = threads
        self._dice = random.Random(seed)

    def __getattr__(self, name: str) -> Any:
        method = super().__getattr__(name)
        return partial(self._try, method) if name in FAILING else method

    def append(self, *args: Any, **options: Any) -> Any:
        """Append, or fail."""
        return self._try(self.inner.append, *args, **options)

    def send(self, *args: Any, **options: Any) -> Any:
        """Begin an append, which may be as good as done when its outcome is waited for."""
        if self._dice.random() < 0.2:
            return None
        return self.begun(partial(self.inner.append, *args, **options))

    def hold(self, at: Head) -> Any:
        """Hold a row, or fail before that."""
        self.may_fail()
        held = self.inner.hold(at)
        return None if held is None else Held(held, self)

    def begun(self, append: Callable[[], Head | None]) -> SentAppend:
        """Return an append that a thread has begun."""
        return Begun(self._threads.submit(append), self.may_fail)

    def may_fail(self) -> None:
        """Fail now and then."""
        if self._dice.random() < self.chance:
            raise OUT_OF_REACH

    def _try(self, method: Callable[..., Any], *args: Any, **options: Any) -> Any:
        self.may_fail()
        outcome = method(*args, **options)
        self.may_fail()
        return outcome


class Begun:
    """An append on its way, whose outcome may be lost."""

    def __init__(self, outcome: Future[Head | None], may_fail: Callable[[], None]) -> None:
        self._outcome = outcome
        self._may_fail = may_fail

    def stored(self) -> Head | None:
        """Wait for the outcome, or lose it."""
        outcome = self._outcome.result()
        self._may_fail()
        return outcome


class Held:
    """A held row at an unreliable connection."""

    def __init__(self, inner: HeldRow, connection: Unreliable) -> None:
        self.head = inner.head
        self.lines = inner.lines
        self.release = inner.release
        self._inner = inner
        self._connection = connection

    def send(self, *args: Any, **options: Any) -> SentAppend:
        """Begin an append that releases the row."""
        return self._connection.begun(self._inner.send(*args, **options).stored)


@pytest.fixture
def site(tmp_path: Path) -> Watched:
    return Watched(tmp_path.resolve())


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(16) as made:
        yield made


@asynccontextmanager
async def daemons(
    site: Watched, threads: ThreadPoolExecutor, seed: int
) -> AsyncGenerator[tuple[list[Unreliable], list[list[Wire]]]]:
    """Yield the connections of three daemons, and five clients of each daemon."""
    async with AsyncExitStack() as ends:
        connections = [Unreliable(site.connect(), threads, f"{seed} {at}") for at in range(3)]
        clients: list[list[Wire]] = []
        # The clocks of these names differ.
        for name, connection in zip(("one", "three", "seventh"), connections, strict=True):
            daemon = await ends.enter_async_context(site.daemon(name, connection, 0.02))
            clients.append([await ends.enter_async_context(daemon.connect()) for _ in range(5)])
        with fail_after(PATIENCE_SECONDS):
            yield connections, clients


async def once_taken(call: Callable[[], Any], dice: random.Random) -> Any:
    """Return the answer of a call, which is made again while it is refused."""
    while True:
        try:
            return await call()
        except Refusal as refusal:
            if refusal.data["kind"] not in PASSING:
                raise
            await drawn_pause(dice, 0, 0.01)


async def write(wire: Wire, name: str, acknowledged: dict[str, int]) -> None:
    """Append entries, each of them until its answer comes."""
    dice = random.Random(name)
    for number in range(APPENDS):
        entry_id = f"{name}-{number}"
        # An answer of the assistant brings a draft to its place.
        message = {"role": "assistant" if number > 4 else "user", "content": "hi"}
        entry = {"type": "message", "id": entry_id, "message": message}
        answer = await once_taken(
            partial(wire.call, "append", session_id=SESSION, entry=entry), dice
        )
        acknowledged[entry_id] = answer["entries"][0]["seq"]


async def archive(wires: list[Wire], dice: random.Random) -> None:
    """Archive the session, and bring it back, at any daemon."""
    for _ in range(15):
        await drawn_pause(dice, 0, 0.05)
        for method in ("session/archive", "session/unarchive"):
            await once_taken(partial(dice.choice(wires).call, method, session_id=SESSION), dice)
            await drawn_pause(dice, 0, 0.01)


async def hold(wires: list[Wire], dice: random.Random) -> None:
    """Lease the session at any daemon, and append under the lease."""
    for _ in range(12):
        await drawn_pause(dice, 0, 0.05)
        wire = dice.choice(wires)
        try:
            lease = await call(wire, "session/acquire", "lease_id", ttl_ms=1000)
            for _ in range(3):
                await say(wire, UNDER_LEASE, lease_id=lease)
            await wire.call("session/release", session_id=SESSION, lease_id=lease)
        except Refusal as refusal:
            if refusal.data["kind"] not in PASSING:
                raise


@pytest.mark.parametrize("seed", range(6))
async def test_outages_let_no_append_past_a_lease_or_an_archive(
    site: Watched, threads: ThreadPoolExecutor, seed: int
) -> None:
    dice, acknowledged = random.Random(seed), dict[str, int]()
    async with daemons(site, threads, seed) as (connections, clients):
        await create(clients[0][0], persist=dice.choice(["immediate", "on_assistant"]))
        for connection in connections:
            connection.chance = 0.1
        async with create_task_group() as tasks:
            for at, wires in enumerate(clients):
                for each in range(3):
                    tasks.start_soon(write, wires[each], f"w{at}{each}", acknowledged)
            tasks.start_soon(archive, [wires[3] for wires in clients], dice)
            tasks.start_soon(hold, [wires[4] for wires in clients], dice)
        for connection in connections:
            connection.chance = 0.0
        shown = [
            await call(wires[0], "session/entries", "entries[].{entry.id,seq}", limit=1000)
            for wires in clients
        ]
    assert site.trespasses == []
    assert shown[0] == shown[1] == shown[2]
    assert len(dict(shown[0])) == len(shown[0]), "an entry is stored twice"
    assert {name: seq for name, seq in shown[0] if name.startswith("w")} == acknowledged
