"""Two daemons that keep their sessions in one database, and know nothing of each other."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any, Literal

import pytest
from anyio import create_task_group, fail_after, sleep, to_thread
from msgspec import structs
from msgspec.json import encode

from sessiond.errors import SessionArchived, SessionNotFound, StorageError
from sessiond.service.database.database import Head, SessionDatabase, Unsent, chained
from sessiond.service.database.store import DatabaseStore
from sessiond.service.environment import Environment
from sessiond.testing.daemon import Daemon, running_daemon, standing_environment
from sessiond.testing.database import MemoryDatabase, MemorySent
from sessiond.testing.wire import Wire
from tests.kit.calls import append, call, create
from tests.kit.limits import set_limits
from tests.kit.patience import happened
from tests.kit.sessions import SESSION
from tests.service.subscribing import subscribe

pytestmark = pytest.mark.one_loop

POLL_SECONDS = 0.01
SPOILT_ID = r"\xff00fe"
"""Id of bytes that are no text, as SQL spells the bytes."""
PATIENCE_SECONDS = 60.0


def environment_of(name: str) -> Environment:
    """Return an environment whose ids no other daemon has."""
    numbers = count(1)

    def new_id() -> str:
        return f"{name}-made-{next(numbers)}"

    return structs.replace(
        standing_environment(),
        new_entry_id=new_id,
        new_session_id=new_id,
        new_epoch=new_id,
        new_lease_id=new_id,
        # The clocks of two machines differ.
        now=lambda: f"2026-01-15T10:30:0{len(name)}.000Z",
        # Leases end by the database's clock, which runs.
        monotonic=time.monotonic,
    )


class Wrapped:
    """A connection of which a test changes some methods."""

    def __init__(self, inner: SessionDatabase) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def send(self, *args: Any, **options: Any) -> MemorySent:
        """Begin an append, by the `append` that a test may have changed."""
        return MemorySent(lambda: self.append(*args, **options))


class Mute(Wrapped):
    """A connection that tells no other daemon of changes."""

    def __init__(self, inner: SessionDatabase) -> None:
        super().__init__(inner)
        self.has_looked = threading.Event()
        """Set behind the look with which the watch of open sessions begins."""

    def ring(self, numbers: Any) -> None:
        """Do nothing."""

    def beat(self, daemon: str, open_numbers: Collection[int]) -> None:
        """Note that the daemon goes on."""
        self.inner.beat(daemon, open_numbers)
        if open_numbers:
            self.has_looked.set()


class Site:
    """A database in memory, and daemons on machines of their own."""

    def __init__(self, home: Path) -> None:
        self.passed_ns = 0
        """Time that a test lets pass, beside its own."""
        self._place = MemoryDatabase(lambda: time.time_ns() + self.passed_ns)
        self.home = home
        self._mute: dict[str, Mute] = {}

    def connect(self) -> SessionDatabase:
        """Return a connection of one more daemon."""
        return self._place.connection()

    @property
    def listeners(self) -> int:
        """Number of daemons that hear rings."""
        return len(self._place.bells)

    async def is_heard_by(self, count: int) -> None:
        """Wait until just so many daemons hear rings, which they do while something is watched there."""
        while self.listeners != count:  # noqa: ASYNC110 - nobody tells
            await sleep(POLL_SECONDS)

    def age(self) -> None:
        """Let two days pass behind the last write to each session."""
        self.passed_ns += 2 * 24 * 3600 * 10**9

    def forget_open_notes(self) -> None:
        """Forget which sessions the daemons have open."""
        self._place.open_notes.clear()

    def spoil_line(self, number: int) -> None:
        """Change the last line of a session to one that does not parse, as a person could."""
        self._place.lines[number][-1] = b'{"type":"message","id":'

    def change_row(self, **values: Any) -> None:
        """Change columns of the row of the first session, as a person could."""
        self._place.heads[1] = structs.replace(self._place.heads[1], **values)

    def spoil_id(self) -> None:
        """Put bytes that are no text into the id of the first session, as a person could."""
        with self._place.guard:
            self._place.put(structs.replace(self._place.heads[1], session_id=SPOILT_ID))

    def spoil_presence(self) -> None:
        """Change what the database has of who is present, as a person could."""
        self._place.company.spoil()

    def remove_row(self) -> None:
        """Remove the row of the first session, as a person could."""
        del self._place.heads[1], self._place.changes[1]

    def line(self, seq: int) -> bytes:
        """Return a line of the first session."""
        return self._place.lines[1][seq]

    def put_line(self, seq: int, line: bytes) -> None:
        """Put another line in the place of one of the first session, as a person could."""
        self._place.lines[1][seq] = line

    def remove_line(self, seq: int) -> None:
        """Remove a line of the first session, as a person could."""
        del self._place.lines[1][seq]

    def remember(self) -> None:
        """Keep the state of the database."""
        place = self._place
        with place.guard:
            lines = {number: list(lines) for number, lines in place.lines.items()}
            self._kept = lines, dict(place.heads), dict(place.changes)

    def bring_back(self, elsewhere: bool = False) -> None:
        """Bring the database back to the state that was kept, or move that state to another server."""
        place = self._place
        lines, heads, changes = self._kept
        with place.guard:
            for there, kept in (
                (place.lines, {number: list(some) for number, some in lines.items()}),
                (place.heads, heads),
                (place.changes, changes),
            ):
                there.clear()
                there.update(kept)  # type: ignore[arg-type]
            if elsewhere:
                # The other server has done little so far.
                place.last_change = 1

    def drop_last_line(self) -> None:
        """Remove a line of the first session, as a person could."""
        self._place.lines[1].pop()

    def change_last_line(self) -> None:
        """Change a line of the first session, as a person could."""
        self._place.lines[1][-1] += b" "

    def empty_company(self) -> None:
        """Empty the tables of signals and presence, as a crash of the server does."""
        self._place.company.crash()

    def lose_signals(self) -> None:
        """Remove all signals, as their time does."""
        self._place.company.remove_signals()

    @asynccontextmanager
    async def daemon(
        self,
        name: str,
        connection: SessionDatabase | Wrapped | None = None,
        poll_seconds: float = POLL_SECONDS,
        silent_seconds: float = 1e6,
        **environment: Any,
    ) -> AsyncGenerator[Daemon]:
        """Run a daemon; a second one of the same name is the first one's successor.

        `environment` has what the daemon's environment has in place of the usual.
        """
        database: Any = connection or self.connect()
        if poll_seconds == NEVER:
            database = self._mute[name] = Mute(database)
        async with running_daemon(
            self.home / name,
            environment=structs.replace(environment_of(name), **environment),
            keep=lambda files: DatabaseStore(database, files, poll_seconds, silent_seconds),
        ) as daemon:
            yield daemon

    async def watches(self, **wires: Wire) -> None:
        """Wait until daemons that never poll have looked at the session, and look no more on their own.

        The wires are clients of the daemons, by name. The watch of a session begins with one look, which may
        make the session look once more: a test that counts looks, or what one look finds, begins behind both.
        """
        for name, wire in wires.items():
            await happened(self._mute[name].has_looked)
            # The answer is behind all looks that were due.
            await call(wire, "session/get")


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path.resolve())


@asynccontextmanager
async def clients_of(
    site: Site, *names: str, poll_seconds: float = POLL_SECONDS
) -> AsyncGenerator[list[Wire]]:
    """Yield a client of a daemon for each name."""
    async with AsyncExitStack() as ends:
        wires = []
        for name in names:
            daemon = await ends.enter_async_context(site.daemon(name, poll_seconds=poll_seconds))
            wires.append(await ends.enter_async_context(daemon.connect()))
        with fail_after(PATIENCE_SECONDS):
            yield wires


async def entries(wire: Wire) -> list[Any]:
    page = await call(wire, "session/entries", limit=1000)
    rows: list[Any] = page["entries"]
    return rows


async def told(wire: Wire, count: int) -> list[tuple[int, str]]:
    """Return so many events, each as its seq and the id of its entry."""
    found: list[tuple[int, str]] = []
    while len(found) < count:
        notice = await wire.next_notification()
        assert notice["method"] in {"session/event", "session/synced"}, notice
        if notice["method"] == "session/event":
            event = notice["params"]
            assert "external" not in event.get("origin", {})
            found.append((event["seq"], event["entry"]["id"]))
    return found


async def test_what_one_daemon_stores_the_other_one_tells_and_reads(site: Site) -> None:
    async with clients_of(site, "one", "two") as (one, two):
        await create(one, persist="immediate")
        await subscribe(two)
        for name in ("e-1", "e-2"):
            await append(one, name)
        assert await told(two, 2) == [(1, "e-1"), (2, "e-2")]
        assert await entries(two) == await entries(one)
        listed = (await two.call("session/list"))["sessions"]
        assert [(one["id"], one["seq"]) for one in listed] == [(SESSION, 2)]
        hits = (await two.call("session/search", query="e-2"))["hits"]
        assert [hit["session_id"] for hit in hits] == [SESSION]


async def test_a_daemon_without_an_open_session_listens_to_no_rings(site: Site) -> None:
    async with clients_of(site, "one", "three") as (one, three):
        await create(one, persist="immediate")
        for number in (1, 2):
            await subscribe(three)
            await site.is_heard_by(2)
            await append(one, f"e-{number}")
            assert await told(three, 1) == [(number, f"e-{number}")]
            await call(three, "session/close")
            await site.is_heard_by(1)


async def test_a_scope_has_one_session_for_both_daemons(site: Site) -> None:
    async with clients_of(site, "one", "two") as wires:
        found: list[Any] = []

        async def resolve(wire: Wire) -> None:
            found.append(await wire.call("scope/resolve", scope="global"))

        async with create_task_group() as tasks:
            for wire in wires:
                tasks.start_soon(resolve, wire)
        first, second = (each["session"] for each in found)
        assert (first["id"], first["epoch"]) == (second["id"], second["epoch"])
        assert sorted(each["created"] for each in found) == [False, True]


async def test_appends_at_both_daemons_have_one_order(site: Site) -> None:
    async with clients_of(site, "one", "two") as wires:
        await create(wires[0], persist="immediate")
        for wire in wires:
            await subscribe(wire)

        async def write(name: str, wire: Wire) -> None:
            for number in range(30):
                await append(wire, f"{name}-{number}")

        async with create_task_group() as tasks:
            for name, wire in zip(("one", "two"), wires, strict=True):
                tasks.start_soon(write, name, wire)
        stored = await told(wires[0], 60)
        assert await told(wires[1], 60) == stored
        assert [seq for seq, _ in stored] == list(range(1, 61))
        for name in ("one", "two"):
            mine = [entry_id for _, entry_id in stored if entry_id.startswith(name)]
            assert mine == [f"{name}-{number}" for number in range(30)]
        for wire in wires:
            rows = [(row["seq"], row["entry"]["id"]) for row in await entries(wire)]
            assert rows == stored


async def test_a_retry_at_the_other_daemon_is_stored_once(site: Site) -> None:
    async with clients_of(site, "one", "two") as (one, two):
        await create(one, persist="immediate")
        await call(two, "session/get")
        first = await append(one, "e-1", "said once")
        again = await append(two, "e-1", "said once")
        assert (again["duplicate"], again["entries"]) == (True, first["entries"])
        assert len(await entries(two)) == 1


async def test_what_is_expected_holds_against_the_other_daemon(site: Site) -> None:
    async with clients_of(site, "one", "two") as (one, two):
        await create(one, persist="immediate")
        await call(two, "session/get")
        await append(one, "e-1")
        refusal = await two.refusal(
            "append",
            session_id=SESSION,
            message={"role": "user", "content": "late"},
            expected={"leaf_id": None},
        )
        assert refusal.data["kind"] == "precondition_failed"


async def test_an_archive_and_a_delete_hold_at_the_other_daemon(site: Site) -> None:
    async with clients_of(site, "one", "two") as (one, two):
        await create(one, persist="immediate")
        await append(two, "e-1")
        await call(one, "session/archive")
        said = {"session_id": SESSION, "message": {"role": "user", "content": "late"}}
        assert (await two.refusal("append", **said)).code == SessionArchived.code
        await call(two, "session/unarchive")
        await append(one, "e-2")
        await call(one, "session/delete")
        assert (await two.refusal("append", **said)).code == SessionNotFound.code
        await call(two, "session/restore")
        await append(one, "e-3")
        assert [row["entry"]["id"] for row in await entries(one)] == ["e-1", "e-2", "e-3"]


async def test_a_ring_tells_other_daemons_at_once(site: Site) -> None:
    async with clients_of(site, "one", "three", poll_seconds=NEVER / 2) as (one, three):
        await create(one, persist="immediate")
        await subscribe(three)
        await site.is_heard_by(2)
        for number in range(1, 4):
            await append(one, f"e-{number}")
            assert await told(three, 1) == [(number, f"e-{number}")]
        await call(one, "session/archive")
        notice = await three.next_notification()
        assert (notice["method"], notice["params"]["archived"]) == ("session/changed", True)


NEVER = 1e6
"""No poll comes in a test, and no ring is heard: what a daemon sees of another one, it looks for."""


async def test_a_read_sees_what_was_answered_before_at_the_other_daemon(site: Site) -> None:
    async with clients_of(site, "one", "two", poll_seconds=NEVER) as (one, two):
        await create(one, persist="immediate")
        for number in range(1, 4):
            await append(one, f"e-{number}")
            assert len(await entries(two)) == number
            assert (await call(two, "session/get"))["session"]["seq"] == number
        await call(one, "session/archive")
        assert (await call(two, "session/get"))["session"]["archived"]
        await call(two, "session/unarchive")
        assert not (await call(one, "session/get"))["session"]["archived"]
        await call(one, "session/delete")
        assert (await two.refusal("session/get", session_id=SESSION)).code == SessionNotFound.code


async def test_no_command_is_refused_for_what_the_other_daemon_has_changed(site: Site) -> None:
    async with clients_of(site, "one", "two", poll_seconds=NEVER) as (one, two):
        await create(one, persist="immediate")
        await call(two, "session/get")
        await append(one, "e-1")
        await call(two, "session/label", entry_id="e-1", label="begin")
        await append(one, "e-2")
        await call(two, "session/branch", entry_id="e-2")
        await append(one, "e-3")
        said = {"role": "user", "content": "hi"}
        await call(two, "append", message=said, expected={"leaf_id": "e-3"})
        assert [row["seq"] for row in await entries(one)] == list(range(1, 7))


class Counted(Wrapped):
    """A connection that counts its queries for positions, which take a while."""

    queries = 0

    def heads(self, numbers: Any) -> Any:
        self.queries += 1
        time.sleep(0.02)
        return self.inner.heads(numbers)


async def test_reads_of_many_sessions_share_a_query(site: Site) -> None:
    connection = Counted(site.connect())
    names = [f"session-{number}" for number in range(10)]
    async with site.daemon("one", connection, NEVER) as daemon, daemon.connect() as wire:
        for name in names:
            await wire.call("session/create", session_id=name, cwd="/project")
            await wire.call("session/get", session_id=name)
        connection.queries = 0

        async def read(name: str) -> None:
            async with daemon.connect() as reader:
                for _ in range(5):
                    await reader.call("session/get", session_id=name)

        async with create_task_group() as tasks:
            for name in names:
                tasks.start_soon(read, name)
        assert 5 <= connection.queries <= 25


async def test_a_subscriber_goes_on_at_another_daemon(site: Site) -> None:
    async with clients_of(site, "one", "two") as (one, two):
        await create(one, persist="immediate")
        told_at_one = await subscribe(one)
        await append(one, "e-1")
        assert await told(one, 1) == [(1, "e-1")]
        await append(one, "e-2")
        again = await subscribe(two, after={"seq": 1, "entry_id": "e-1"})
        assert again["epoch"] == told_at_one["epoch"]
        assert await told(two, 1) == [(2, "e-2")]


class Cut(Wrapped):
    """A connection that is cut at the next append, before or behind the change."""

    cut: Literal["never", "before", "behind"] = "never"
    answers_again = True

    def append(self, *args: Any, **options: Any) -> Any:
        cut, self.cut = self.cut, "never"
        if cut == "before":
            raise OUT_OF_REACH
        stored = self.inner.append(*args, **options)
        if cut == "behind":
            raise OUT_OF_REACH
        return stored

    def fence(self, number: int) -> Any:
        if not self.answers_again:
            raise OUT_OF_REACH
        return self.inner.fence(number)


OUT_OF_REACH = StorageError("the connection ended", errno="EIO", path="", retryable=True)
SAID = {"type": "message", "id": "e-1", "message": {"role": "user", "content": "hi"}}


async def test_an_append_whose_answer_was_lost_is_stored_once(site: Site) -> None:
    connection = Cut(site.connect())
    async with site.daemon("one", connection) as daemon, daemon.connect() as wire:
        await create(wire, persist="immediate")
        connection.cut, connection.answers_again = "behind", False
        refusal = await wire.refusal("append", session_id=SESSION, entry=SAID)
        assert (refusal.data["kind"], refusal.data["retryable"]) == ("storage_error", True)
        again = await wire.call("append", session_id=SESSION, entry=SAID)
        assert again["entries"][0]["seq"] == 1
        assert (await append(wire, "e-2"))["entries"][0]["seq"] == 2
        assert len(await entries(wire)) == 2


async def test_a_lost_answer_is_looked_up_as_soon_as_the_database_answers(site: Site) -> None:
    connection = Cut(site.connect())
    async with site.daemon("one", connection) as daemon, daemon.connect() as wire:
        await create(wire, persist="immediate")
        connection.cut = "behind"
        stored = await wire.call("append", session_id=SESSION, entry=SAID)
        assert (stored["entries"][0]["seq"], stored["durability"]) == (1, "disk")
        connection.cut = "before"
        await wire.refusal("append", session_id=SESSION, entry=SAID | {"id": "e-2"})
        assert [row["entry"]["id"] for row in await entries(wire)] == ["e-1"]


class Refusing(Wrapped):
    """A connection whose appends are refused, and which counts what settles an append."""

    refuses = False
    fences = 0

    def append(self, *args: Any, **options: Any) -> Any:
        if self.refuses:
            raise Unsent("fsync is off", errno="ENOTSUP", path="", retryable=False)
        return self.inner.append(*args, **options)

    def fence(self, number: int) -> Any:
        self.fences += 1
        return self.inner.fence(number)


async def test_a_refusal_that_changes_nothing_needs_no_settling(site: Site) -> None:
    connection = Refusing(site.connect())
    async with site.daemon("one", connection) as daemon, daemon.connect() as wire:
        await create(wire, persist="immediate")
        connection.refuses = True
        refusal = await wire.refusal("append", session_id=SESSION, entry=SAID)
        assert (refusal.data["kind"], refusal.data["retryable"]) == ("storage_error", False)
        connection.refuses = False
        assert (await append(wire, "e-2"))["entries"][0]["seq"] == 1
        assert connection.fences == 0


class Slow(Wrapped):
    """A connection whose next append reaches the database only once a test says so."""

    held: Callable[[], Any] | None = None
    is_held = False

    def append(self, *args: Any, **options: Any) -> Any:
        if self.is_held:
            self.is_held = False
            self.held = lambda: self.inner.append(*args, **options)
            raise OUT_OF_REACH
        return self.inner.append(*args, **options)


async def test_an_append_that_was_refused_is_not_stored_later(site: Site) -> None:
    connection = Slow(site.connect())
    async with site.daemon("one", connection) as daemon, daemon.connect() as wire:
        await create(wire, persist="immediate")
        connection.is_held = True
        await wire.refusal("append", session_id=SESSION, entry=SAID)
        assert connection.held is not None
        assert await to_thread.run_sync(connection.held) is None
        await append(wire, "e-2")
        assert [row["entry"]["id"] for row in await entries(wire)] == ["e-2"]


TTL_MS = 60_000


async def say(wire: Wire, text: str, **members: Any) -> Any:
    message = {"role": "user", "content": text}
    return await wire.call("append", session_id=SESSION, message=message, **members)


async def acquire(wire: Wire, ttl_ms: int = TTL_MS, **members: Any) -> Any:
    return await wire.call("session/acquire", session_id=SESSION, ttl_ms=ttl_ms, **members)


async def refused(wire: Wire, method: str, **members: Any) -> str:
    if method == "append":
        members["message"] = {"role": "user", "content": "late"}
    refusal = await wire.refusal(method, session_id=SESSION, **members)
    kind: str = refusal.data["kind"]
    return kind


async def test_a_lease_counts_at_every_daemon(site: Site) -> None:
    async with clients_of(site, "one", "two", poll_seconds=NEVER) as (one, two):
        await create(one, persist="immediate")
        await call(two, "session/get")
        lease = (await acquire(one))["lease_id"]
        refusal = await two.refusal(
            "append", session_id=SESSION, message={"role": "user", "content": "late"}
        )
        assert (refusal.data["kind"], refusal.data["holder"]) == (
            "lease_held",
            {"client_id": None, "name": None},
        )
        assert await refused(two, "session/acquire", ttl_ms=TTL_MS) == "lease_held"
        assert await refused(two, "session/update", model="another") == "lease_held"
        await say(one, "under the lease", lease_id=lease)
        # A helper of the holder may work at any daemon.
        await say(two, "under the lease too", lease_id=lease)
        longer = await renew(two, lease)
        assert longer["lease_id"] == lease
        await two.call("session/release", session_id=SESSION, lease_id=lease)
        assert await refused(one, "append", lease_id=lease) == "lease_lost"
        await say(one, "free again")
        await say(two, "here too")


async def renew(wire: Wire, lease_id: str) -> Any:
    return await wire.call("session/renew", session_id=SESSION, lease_id=lease_id, ttl_ms=TTL_MS)


async def test_the_next_holder_may_be_at_another_daemon(site: Site) -> None:
    async with clients_of(site, "one", "two", "three") as (one, two, three):
        await create(one, persist="immediate")
        epochs = []
        lease = await acquire(one)
        for wire in (two, three, one, two):
            epochs.append(lease["epoch"])
            waiting = await wire.request(
                "session/acquire", session_id=SESSION, ttl_ms=TTL_MS, wait_ms=TTL_MS
            )
            await two.call("session/release", session_id=SESSION, lease_id=lease["lease_id"])
            lease = await wire.answer(waiting)
        assert epochs == sorted(set(epochs))
        assert lease["epoch"] > epochs[-1]


async def test_a_wait_for_a_lease_asks_the_database_now_and_then(site: Site) -> None:
    connection = Counted(site.connect())
    async with (
        clients_of(site, "one", poll_seconds=NEVER) as (one,),
        site.daemon("three", connection, NEVER) as third,
        third.connect() as three,
    ):
        await create(one, persist="immediate")
        await call(three, "session/get")
        await acquire(one)
        connection.queries = 0
        assert await refused(three, "session/acquire", ttl_ms=TTL_MS, wait_ms=500) == "lease_held"
        assert connection.queries <= 4


async def test_the_poll_goes_on_without_rings(site: Site) -> None:
    class Deaf(Wrapped):
        def wait(self, seconds: float) -> Any:
            raise OUT_OF_REACH

    async with (
        clients_of(site, "one") as (one,),
        site.daemon("three", Deaf(site.connect())) as third,
        third.connect() as three,
    ):
        await create(one, persist="immediate")
        await subscribe(three)
        await append(one, "e-1")
        with fail_after(PATIENCE_SECONDS):
            assert await told(three, 1) == [(1, "e-1")]


async def test_a_daemon_that_hears_no_rings_says_so_once(site: Site) -> None:
    class Deaf(Wrapped):
        notifications = True
        polls = 0

        def heads(self, numbers: Sequence[int]) -> list[Head]:
            self.polls += 1
            return self.inner.heads(numbers)

    connection, reports = Deaf(site.connect()), list[str]()

    def report(trouble: str) -> None:
        # A machine may also have no watch of folders left.
        if "notifications" in trouble:
            reports.append(trouble)

    async with (
        site.daemon("one", connection, report_trouble=report) as daemon,
        daemon.connect() as wire,
    ):
        await create(wire, persist="immediate")
        await subscribe(wire)
        for hears in (True, False, True):
            connection.notifications = hears
            stats = await wire.call("server/stats")
            assert stats["database"]["notifications"] is hears
            # People are told behind the look of a poll.
            polls = connection.polls
            while connection.polls < polls + 3:  # noqa: ASYNC110 - nobody tells
                await sleep(POLL_SECONDS)
            assert len(reports) == (0 if hears and not reports else 1)


async def test_a_lease_ends_with_its_time_at_every_daemon(site: Site) -> None:
    async with clients_of(site, "one", "two") as (one, two):
        await create(one, persist="immediate")
        await acquire(one, ttl_ms=300)
        lease = await acquire(two, wait_ms=TTL_MS)
        assert await refused(one, "append") == "lease_held"
        await say(two, "mine now", lease_id=lease["lease_id"])


async def test_a_lease_ends_with_its_connection_at_every_daemon(site: Site) -> None:
    async with site.daemon("one") as first, clients_of(site, "two") as (two,):
        async with first.connect() as one:
            await create(one, persist="immediate")
            await acquire(one)
            assert await refused(two, "append") == "lease_held"
        await acquire(two, wait_ms=TTL_MS)


async def test_a_lease_ends_with_its_daemon(site: Site) -> None:
    async with (
        clients_of(site, "two") as (two,),
        site.daemon("one") as daemon,
        daemon.connect() as one,
    ):
        await create(one, persist="immediate")
        await acquire(one)
        assert await refused(two, "append") == "lease_held"
        await daemon.end()
        await acquire(two, wait_ms=TTL_MS)


class Severed(Wrapped):
    """A connection that a test takes away and brings back."""

    is_there = True

    def __getattr__(self, name: str) -> Any:
        if not self.is_there and name not in {"name", "close"}:
            raise OUT_OF_REACH
        return super().__getattr__(name)


async def test_the_lease_of_a_silent_daemon_ends_and_stays_ended(site: Site) -> None:
    connection = Severed(site.connect())
    async with (
        site.daemon("one", connection) as first,
        site.daemon("two", silent_seconds=0.3) as second,
        first.connect() as one,
        second.connect() as two,
    ):
        await create(one, persist="immediate")
        lease = (await acquire(one, ttl_ms=60 * TTL_MS))["lease_id"]
        # Its beats tell that the daemon is there.
        await sleep(1)
        assert await refused(two, "append") == "lease_held"
        connection.is_there = False
        await acquire(two, wait_ms=TTL_MS)
        connection.is_there = True
        assert await refused(one, "append", lease_id=lease) == "lease_held"


class Beating(Wrapped):
    """A connection whose first note of an open session waits until a test lets it go."""

    def __init__(self, inner: SessionDatabase) -> None:
        super().__init__(inner)
        self.beats = 0
        self.has_begun = threading.Event()
        self.may_go = threading.Event()

    def beat(self, daemon: str, open_numbers: Collection[int]) -> None:
        """Note that the daemon goes on."""
        if open_numbers:
            self.has_begun.set()
            assert self.may_go.wait(PATIENCE_SECONDS)
        self.beats += 1
        self.inner.beat(daemon, open_numbers)


@asynccontextmanager
async def no_threads_for_readers() -> AsyncGenerator[None]:
    """Take all threads that reads may take; fail a test that waits for one."""
    threads = to_thread.current_default_thread_limiter()
    before, threads.total_tokens = threads.total_tokens, 1
    try:
        async with threads:
            with fail_after(PATIENCE_SECONDS):
                yield
    finally:
        threads.total_tokens = before


async def test_no_number_of_readers_keeps_a_daemon_from_beating(site: Site) -> None:
    connection = Beating(site.connect())
    async with site.daemon("one", connection) as first, first.connect() as one:
        await create(one, persist="immediate")
        await happened(connection.has_begun)
        # From here on the daemon beats at each poll.
        await acquire(one, ttl_ms=60 * TTL_MS)
        async with no_threads_for_readers():
            connection.may_go.set()
            while connection.beats < 3:  # noqa: ASYNC110 - no event tells of a beat
                await sleep(POLL_SECONDS)


class Held(Wrapped):
    """A connection whose next append waits until a test lets it go."""

    def __init__(self, inner: SessionDatabase) -> None:
        super().__init__(inner)
        self.holds = False
        self.has_begun = threading.Event()
        self.may_go = threading.Event()

    def append(self, *args: Any, **options: Any) -> Any:
        if self.holds:
            self.holds = False
            self.has_begun.set()
            assert self.may_go.wait(PATIENCE_SECONDS)
        return self.inner.append(*args, **options)


@pytest.mark.parametrize("is_given_up", [False, True], ids=["in turn", "behind a lost race"])
async def test_an_entry_that_two_daemons_get_at_once_is_stored_once(
    site: Site, is_given_up: bool
) -> None:
    connection = Held(site.connect())
    async with (
        site.daemon("one", connection) as first,
        clients_of(site, "three") as (three,),
        first.connect() as one,
    ):
        await create(one, persist="immediate")
        for number in range(5 if is_given_up else 0):
            await append(three, f"before-{number}")
        connection.holds = True
        answers: list[Any] = []
        async with create_task_group() as tasks:

            async def slow() -> None:
                answers.append(await one.call("append", session_id=SESSION, entry=SAID))

            tasks.start_soon(slow)
            await happened(connection.has_begun)
            answers.append(await three.call("append", session_id=SESSION, entry=SAID))
            connection.may_go.set()
        assert answers[0]["entries"] == answers[1]["entries"]
        assert sorted(answer["duplicate"] for answer in answers) == [False, True]
        # The retry waited for its turn, and did not need it: the turn is over.
        await append(three, "after")


class Rival(Wrapped):
    """A connection before whose appends another writer is always faster, unless the row is held."""

    def __init__(self, inner: SessionDatabase, other: SessionDatabase) -> None:
        super().__init__(inner)
        self._other = other
        self.wins = 0

    def append(self, at: Head, lines: Sequence[bytes], digest: bytes, *, sync: bool) -> Any:
        there = self._other.heads([at.number])[0]
        self.wins += 1
        line = encode({"type": "custom", "id": f"rival-{self.wins}", "custom_type": "x", "data": 1})
        self._other.append(there, [line], chained(there.digest, [line]), sync=True)
        return self.inner.append(at, lines, digest, sync=sync)


async def test_an_append_that_has_lost_a_race_waits_in_turn_for_the_row(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A busy machine may need longer for five appends than a session is taken to be contended.
    set_limits(monkeypatch, CONTENDED_SECONDS=PATIENCE_SECONDS)
    connection = Rival(site.connect(), site.connect())
    async with site.daemon("one", connection) as first, first.connect() as one:
        await create(one, persist="immediate")
        for number in range(5):
            await append(one, f"one-{number}")
        # Of five appends in a row the first one loses a race; the other ones come in turn.
        assert connection.wins == 1
        assert [row["entry"]["id"] for row in await entries(one)] == [
            "rival-1",
            *[f"one-{number}" for number in range(5)],
        ]


@pytest.mark.parametrize("is_watched", [False, True], ids=["alone", "beside a waiting client"])
@pytest.mark.parametrize("change", ["session/acquire", "session/archive", "session/delete"])
async def test_an_append_that_was_under_way_sees_what_changed_before_it(
    site: Site, change: str, is_watched: bool
) -> None:
    connection = Held(site.connect())
    members = {"ttl_ms": TTL_MS} if change == "session/acquire" else {}
    kinds = {
        "session/acquire": "lease_held",
        "session/archive": "session_archived",
        "session/delete": "session_not_found",
    }
    async with (
        site.daemon("one", connection) as first,
        clients_of(site, "two") as (two,),
        first.connect() as one,
    ):
        await create(one, persist="immediate")
        await append(one, "e-1")
        if is_watched:
            # The task of the session then stores every batch itself.
            await acquire(two, head="side")
            await one.request(
                "session/acquire", session_id=SESSION, head="side", ttl_ms=TTL_MS, wait_ms=TTL_MS
            )
            await call(one, "session/get")
        connection.holds = True
        async with create_task_group() as tasks:

            async def late() -> None:
                assert await refused(one, "append") == kinds[change]

            tasks.start_soon(late)
            await happened(connection.has_begun)
            await two.call(change, session_id=SESSION, **members)
            connection.may_go.set()


@pytest.mark.parametrize("is_rewritten", [False, True], ids=["ahead", "beside"])
async def test_a_session_that_was_brought_back_has_another_epoch(
    site: Site, is_rewritten: bool
) -> None:
    async with clients_of(site, "one", "three", poll_seconds=NEVER) as (one, three):
        await create(one, persist="immediate")
        await append(one, "e-1")
        told_first = await subscribe(one)
        site.remember()
        await append(one, "e-lost")
        assert await told(one, 1) == [(2, "e-lost")]
        # As after a failover to a standby without the last lines, or the restore of a dump.
        site.bring_back()
        if is_rewritten:
            await append(three, "e-2")
        info = (await call(one, "session/get"))["session"]
        assert info["epoch"] != told_first["epoch"]
        assert (await call(three, "session/get"))["session"]["epoch"] == info["epoch"]
        notice = await one.next_notification()
        assert (notice["method"], notice["params"]["epoch"]) == ("session/replaced", info["epoch"])
        await append(three, "e-3")
        last = ["e-1", "e-2", "e-3"] if is_rewritten else ["e-1", "e-3"]
        assert [row["entry"]["id"] for row in await entries(one)] == last
        assert [name for _, name in await told(one, len(last))] == last


async def test_a_session_that_is_open_at_another_daemon_is_not_unused(site: Site) -> None:
    now_ns = time.time_ns() + 10**12
    database = site.connect()
    async with site.daemon("one") as daemon, daemon.connect() as wire:
        await create(wire, persist="immediate")
        await append(wire, "e-1")
        head = await to_thread.run_sync(database.find, SESSION)
        assert head is not None
        await to_thread.run_sync(database.beat, "two", [head.number])
        # Another daemon has the session open, or the session was written to since.
        for before_ns, asker in ((now_ns, "three"), (0, "two")):
            deleted = await to_thread.run_sync(
                database.delete_unused, head.number, before_ns, asker
            )
            assert deleted == []
    await to_thread.run_sync(database.beat, "two", [])
    deleted = await to_thread.run_sync(database.delete_unused, head.number, now_ns, "one")
    assert deleted == [head.number]
    await to_thread.run_sync(database.close)


async def test_retention_spares_what_is_open_at_another_daemon(site: Site) -> None:
    async def went(wire: Wire) -> list[Any]:
        answer = await wire.call("retention/run", max_age_hours=1e-9, dry_run=False)
        return [row["id"] for row in answer["sessions"]]

    async with clients_of(site, "two") as (two,):
        async with clients_of(site, "one") as (one,):
            await create(one, persist="immediate")
            await append(one, "e-1", role="assistant")
            await subscribe(one)
            # The first note comes with the first poll.
            await sleep(10 * POLL_SECONDS)
            assert await went(two) == []
            await append(one, "e-2")
        assert await went(two) == [SESSION]
        assert await went(two) == []


async def test_a_session_that_was_brought_back_and_is_as_long_again_gets_an_epoch(
    site: Site,
) -> None:
    async with clients_of(site, "one", "two") as (one, two):
        await create(one, persist="immediate")
        await append(one, "e-1")
        site.remember()
        await append(one, "e-lost")
        epoch = (await subscribe(one))["epoch"]

        def bring_back_and_store() -> None:
            # A daemon that does not have the session open stores another line before any look.
            site.bring_back()
            other = site.connect()
            line = encode({"type": "custom", "id": "e-other", "custom_type": "x", "data": 1})
            is_stored = False
            while not is_stored:
                # Between the two calls a daemon may look, and give the session its epoch.
                (there,) = other.heads([1])
                digest = chained(there.digest, [line])
                is_stored = other.append(there, [line], digest, sync=True) is not None

        await to_thread.run_sync(bring_back_and_store)
        notice = await one.next_notification()
        assert notice["method"] == "session/replaced"
        assert notice["params"]["epoch"] != epoch
        assert [row["entry"]["id"] for row in await entries(one)] == ["e-1", "e-other"]
        assert [row["entry"]["id"] for row in await entries(two)] == ["e-1", "e-other"]


async def test_a_list_shows_a_session_that_was_brought_back_and_is_as_long_again(
    site: Site,
) -> None:
    async with clients_of(site, "two") as (two,):
        async with clients_of(site, "one") as (one,):
            await create(one, persist="immediate")
            site.remember()
            await append(one, "e-lost", content="lost words")
        (row,) = (await two.call("session/list"))["sessions"]
        assert row["leaf_id"] == "e-lost"
        site.bring_back()
        async with clients_of(site, "three") as (three,):
            await append(three, "e-other", content="other words")
        (row,) = (await two.call("session/list"))["sessions"]
        assert row["leaf_id"] == "e-other"


async def test_lines_that_only_a_client_knows_end_the_epoch(site: Site) -> None:
    async with clients_of(site, "one") as (one,):
        await create(one, persist="immediate")
        await append(one, "e-1")
        site.remember()
        await append(one, "e-lost")
        epoch = (await call(one, "session/get"))["session"]["epoch"]
    site.bring_back()
    # No daemon has a copy of the lines that are lost.
    async with clients_of(site, "two", "three") as (two, three):
        await subscribe(three)
        for cursor in ({"epoch": "another"}, {"entry_id": "e-lost"}):
            await subscribe(two, after={"seq": 2, **cursor})
            assert (await call(two, "session/get"))["session"]["epoch"] == epoch
        told_first = await subscribe(two, after={"seq": 2, "epoch": epoch})
        assert (told_first["replaced"], told_first["seq"]) == ("ahead", 1)
        assert told_first["epoch"] != epoch
        notice = await three.next_notification()
        assert (notice["method"], notice["params"]["epoch"]) == (
            "session/replaced",
            told_first["epoch"],
        )
        await append(three, "e-2")
        again = await subscribe(two, after={"seq": 2, "epoch": epoch})
        assert (again["replaced"], again["epoch"]) == ("epoch", told_first["epoch"])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda site: site.drop_last_line(), "lost"),
        (lambda site: site.change_last_line(), "changed"),
    ],
    ids=["a line is gone", "a line is changed"],
)
async def test_lines_that_were_changed_by_hand_are_no_old_history(
    site: Site, change: Callable[[Site], Any], reason: str
) -> None:
    async with site.daemon("one") as daemon, daemon.connect() as wire:
        await create(wire, persist="immediate")
        epoch = (await append(wire, "e-1")) and (await call(wire, "session/get"))["session"][
            "epoch"
        ]
    change(site)
    async with site.daemon("two") as daemon, daemon.connect() as wire:
        if reason == "lost":
            refusal = await wire.refusal("session/get", session_id=SESSION)
            assert refusal.data["kind"] == "session_corrupt"
        else:
            info = (await call(wire, "session/get"))["session"]
            assert info["epoch"] != epoch
            await append(wire, "e-2")
