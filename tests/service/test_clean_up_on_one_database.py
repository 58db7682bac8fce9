"""Clean-ups of sessions that daemons share: each is done once, and spares what any daemon has open."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from anyio import create_task_group, fail_after, to_thread

from sessiond.config.configuration import Sources
from sessiond.daemon.reload import Tuning
from sessiond.daemon.retention_timer import keep_retaining
from sessiond.dialects.native.dialect import NATIVE
from sessiond.errors import SessionNotFound
from sessiond.journal.disk.files import Files
from sessiond.journal.profile.layout import Layout
from sessiond.model.entries import Header
from sessiond.service.database.store import DatabaseStore
from sessiond.service.files.store import FileStore
from sessiond.testing.daemon import Daemon
from sessiond.testing.wire import Wire
from tests.kit.calls import append, call, create, watch
from tests.kit.clock import let_pass
from tests.kit.limits import set_limits
from tests.kit.patience import PATIENCE_SECONDS, eventually
from tests.kit.sessions import SESSION
from tests.service.one_database.connections import OUT_OF_REACH, Wrapped
from tests.service.one_database.site import NEVER, Site, clients_of, environment_of
from tests.service.test_lists_on_one_database import Asked

pytestmark = [pytest.mark.usefixtures("clock")]

DAY_NS = 24 * 3600 * 10**9
CLEAN_UP_SECONDS = 0.05


async def test_an_answer_brings_a_draft_to_its_place_in_the_step_that_stores_it(
    site: Site,
) -> None:
    class Killed(Wrapped):
        """A connection of a daemon that ends behind the append of an answer."""

        def move(self, *_: Any) -> Any:
            raise OUT_OF_REACH

    async with (
        site.daemon("one", Killed(site.connect())) as daemon,
        clients_of(site, "three") as (three,),
        daemon.connect() as one,
    ):
        await create(one)
        await append(one, "e-1")
        assert (await three.call("session/list"))["sessions"] == []
        await call(three, "session/get")
        await append(one, "e-2", role="assistant")
        (shown,) = (await three.call("session/list"))["sessions"]
        assert (shown["id"], shown["persisted"]) == (SESSION, True)
        for wire in (one, three):
            assert (await call(wire, "session/get"))["session"]["persisted"]
        await append(three, "e-3")
        assert len(await call(one, "session/entries", "entries")) == 3


async def test_a_draft_that_leaves_its_folder_with_a_change_takes_the_change_along(
    site: Site,
) -> None:
    connection = Asked(site)
    async with site.daemon("one", connection) as daemon, daemon.connect() as one:
        await create(one)
        info = await call(one, "session/update", title="A title", persist="immediate")
        assert (info["session"]["persisted"], info["session"]["title"]) == (True, "A title")
        assert connection.calls["move"] == 0
        await create(one, "session-b")
        await one.call("session/update", session_id="session-b", persist="immediate")
        assert connection.calls["move"] == 1
        listed = (await one.call("session/list"))["sessions"]
        assert {row["id"] for row in listed} == {SESSION, "session-b"}


async def test_running_daemons_take_abandoned_drafts_and_no_open_one(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, DRAFT_SECONDS=1.0, CLEAN_UP_SECONDS=CLEAN_UP_SECONDS)
    async with clients_of(site, "three", "four") as (three, four):
        async with site.daemon("one") as daemon, daemon.connect() as one:
            await create(one, "a-draft-of-old")
        # One is open at the daemon that cleans up, whichever that is.
        for wire, name in ((three, "session-three"), (four, "session-four")):
            await create(wire, name)
            await append(wire, f"{name}-1", session_id=name)
        trash = partial(call, three, "session/trash", "sessions[].session_id")
        assert await eventually(trash) == ["a-draft-of-old"]
        await let_pass(20 * CLEAN_UP_SECONDS)
        assert await trash() == ["a-draft-of-old"]
        shown = (await four.call("session/list", drafts=True))["sessions"]
        assert {row["id"] for row in shown} == {"session-three", "session-four"}


async def test_the_clean_up_of_drafts_is_done_once_over_all_daemons(site: Site) -> None:
    connections = [Asked(site) for _ in range(3)]
    async with site.daemon("one", connections[0]):
        with fail_after(PATIENCE_SECONDS):
            await eventually(lambda: connections[0].calls["delete_unused"])
        async with site.daemon("three", connections[1]), site.daemon("four", connections[2]):
            with fail_after(PATIENCE_SECONDS):
                await eventually(lambda: all(one.calls["claim"] for one in connections))
    assert [connection.calls["delete_unused"] for connection in connections] == [1, 0, 0]


class Failing(Asked):
    """A connection that does not tell the time while a test says so."""

    fails = False

    def now_ns(self) -> int:
        if self.fails:
            raise OUT_OF_REACH
        now_ns: int = self.inner.now_ns()
        return now_ns


async def tuned(preset: str) -> Tuning:
    """Return the configuration of a daemon with this preset of retention."""
    sources = Sources({**os.environ, "SESSIOND_RETENTION_PRESET": preset})
    return await to_thread.run_sync(Tuning, sources, 4096)


@asynccontextmanager
async def two_daemons(
    site: Site, *connections: Asked
) -> AsyncGenerator[tuple[Daemon, Daemon, Wire]]:
    """Yield two daemons, which have cleaned up drafts, and a client with an old session."""
    async with (
        site.daemon("one", connections[0]) as first,
        site.daemon("three", connections[1]) as second,
        first.connect() as wire,
    ):
        with fail_after(PATIENCE_SECONDS):
            await eventually(lambda: all(one.calls["claim"] for one in connections))
            await create(wire, SESSION, persist="immediate")
            await wire.call("session/close", session_id=SESSION)
            site.age()
            yield first, second, wire


async def until_trashed(wire: Wire, *names: str) -> None:
    """Wait until these sessions are in the trash."""

    async def are_trashed() -> bool:
        return set(await call(wire, "session/trash", "sessions[].session_id")) == set(names)

    await eventually(are_trashed)


async def test_retention_runs_once_an_hour_over_all_daemons(site: Site) -> None:
    connections, tuning = [Asked(site), Asked(site)], await tuned("nova")
    async with two_daemons(site, *connections) as (first, second, wire):
        async with create_task_group() as tasks:
            tasks.start_soon(keep_retaining, first.service, tuning)
            await until_trashed(wire, SESSION)
            # The hour has its retention.
            connections[1].calls.clear()
            tasks.start_soon(keep_retaining, second.service, tuning)
            await eventually(lambda: connections[1].calls["claim"])
            await let_pass(60)
            assert connections[1].calls == {"claim": 1}
            tasks.cancel_scope.cancel()
        await create(wire, "session-b", persist="immediate")
        await wire.call("session/close", session_id="session-b")
        site.age()
        async with create_task_group() as tasks:
            tasks.start_soon(keep_retaining, second.service, tuning)
            await until_trashed(wire, SESSION, "session-b")
            tasks.cancel_scope.cancel()


async def test_a_failed_retention_keeps_no_other_daemon_from_the_work(site: Site) -> None:
    failing, tuning = Failing(site), await tuned("nova")
    async with two_daemons(site, failing, Asked(site)) as (first, second, wire):
        failing.fails = True
        async with create_task_group() as tasks:
            tasks.start_soon(keep_retaining, first.service, tuning)
            await eventually(lambda: failing.calls["end_claim"])
            tasks.start_soon(keep_retaining, second.service, tuning)
            await until_trashed(wire, SESSION)
            tasks.cancel_scope.cancel()


async def test_the_trash_comes_by_pages_and_takes_no_cursor_but_its_own(site: Site) -> None:
    names = [f"session-{number}" for number in range(3)]
    async with clients_of(site, "one") as (one,):
        for name in names:
            await create(one, name, persist="immediate")
            await one.call("session/delete", session_id=name)
        found: list[str] = []
        cursor: str | None = None
        while cursor is not None or not found:
            page = await one.call("session/trash", limit=1, cursor=cursor)
            found += [each["session_id"] for each in page["sessions"]]
            cursor = page["next_cursor"]
        assert found == names[::-1]
        for wrong in ("", "abc", "-1", "1.5", "\u0661", "9" * 25, f"{names[0]}.jsonl"):
            refusal = await one.refusal("session/trash", cursor=wrong)
            assert (refusal.data["kind"], refusal.data["path"]) == ("invalid_params", "cursor")


def store_on(connection: Any, home: Path) -> DatabaseStore:
    """Return the store of a daemon that does nothing by itself."""
    layout = Layout(home, "default")
    layout.make_folders(Files())
    return DatabaseStore(connection, FileStore(layout, Files(), environment_of(home.name)))


def store_drafts(site: Site, *names: str) -> None:
    """Store drafts as a daemon does that has ended since."""
    connection = site.connect()
    for name in names:
        header = Header(1, name, "2026-01-15T10:30:00.000Z", cwd="/p")
        line = NATIVE.encode_header(header)
        assert connection.create(name, f"epoch-of-{name}", [[line]], "draft") is not None


def test_a_session_is_spared_from_the_moment_at_which_it_is_opened(site: Site) -> None:
    connection = Asked(site)
    cleaning = store_on(site.connect(), site.home / "one")
    opening = store_on(connection, site.home / "three")
    store_drafts(site, "session-a", "session-b", "session-c")
    site.age()
    try:
        before_ns = int(cleaning.now() * 1e9)
        opened = [opening.open(name) for name in ("session-a", "session-b")]
        cleaned = [cleaning.discard_unused(f"session-{name}", None, before_ns) for name in "abc"]
        assert cleaned == [False, False, True]
        # A session that was written to within the minute is spared without a note.
        store_drafts(site, "session-d")
        notes = connection.calls["beat"]
        opened.append(opening.open("session-d"))
        assert connection.calls["beat"] == notes
        for one in opened:
            one.journal.close()
    finally:
        for store in (cleaning, opening):
            store.close()


def test_a_session_that_is_cleaned_up_right_before_its_opening_is_not_found(site: Site) -> None:
    class Late(Wrapped):
        """A connection whose notes come right behind a clean-up."""

        def beat(self, daemon: str, open_numbers: Collection[int]) -> None:
            assert cleaning.discard_unused("session-a", None, int(cleaning.now() * 1e9))
            self.inner.beat(daemon, open_numbers)

    cleaning = store_on(site.connect(), site.home / "one")
    opening = store_on(Late(site.connect()), site.home / "three")
    store_drafts(site, "session-a")
    site.age()
    try:
        with pytest.raises(SessionNotFound):
            opening.open("session-a")
    finally:
        for store in (cleaning, opening):
            store.close()


async def test_a_dry_run_of_retention_names_no_session_that_is_open_at_another_daemon(
    site: Site,
) -> None:
    async with clients_of(site, "one", "three") as (one, three):
        for name in (SESSION, "session-b"):
            await create(one, name, persist="immediate")
            await one.call("session/close", session_id=name)
        await to_thread.run_sync(site.age)
        await watch(three)
        for dry_run in (True, False):
            answer = await one.call("retention/run", max_age_hours=1, dry_run=dry_run)
            assert [row["id"] for row in answer["sessions"]] == ["session-b"]
            assert answer["failed"] == []


async def test_a_session_that_is_open_at_another_daemon_is_not_unused(site: Site) -> None:
    now_ns = time.time_ns() + 10**12
    database = site.connect()
    async with site.daemon("one") as daemon, daemon.connect() as wire:
        await create(wire, persist="immediate")
        await append(wire, "e-1")
        head = await to_thread.run_sync(database.find, SESSION)
        assert head is not None
        await to_thread.run_sync(database.beat, "two", [head.number])
        assert await to_thread.run_sync(database.open_elsewhere, "three") == [SESSION]
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
        await let_pass(0.001)
        answer = await wire.call("retention/run", max_age_hours=1e-9, dry_run=False)
        return [row["id"] for row in answer["sessions"]]

    async with clients_of(site, "two") as (two,):
        async with clients_of(site, "one", poll_seconds=NEVER) as (one,):
            await create(one, persist="immediate")
            await append(one, "e-1", role="assistant")
            await watch(one)
            # The first note comes with the first look.
            await site.watches(one=one)
            assert await went(two) == []
            await append(one, "e-2")
        assert await went(two) == [SESSION]
        assert await went(two) == []


class Unforgetting(Wrapped):
    """A connection by which no daemon is forgotten."""

    def forget_daemons(self, daemons: Any) -> None:
        raise OUT_OF_REACH


async def test_the_row_of_an_ended_daemon_goes_though_nobody_could_forget_it(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, OPEN_NOTE_SECONDS=0.02)
    database = await to_thread.run_sync(site.connect)
    async with site.daemon("two", Unforgetting(site.connect())) as daemon, daemon.connect() as two:
        await create(two, persist="immediate")
        await eventually(lambda: to_thread.run_sync(database.beats))
    (ended,) = await to_thread.run_sync(database.beats)
    await to_thread.run_sync(site.silence_daemons)
    async with clients_of(site, "one") as (one,):
        # Each note of what is open comes with a clean-up.
        await call(one, "session/get")
        await eventually(lambda: to_thread.run_sync(lambda: ended not in database.beats()))
    await to_thread.run_sync(database.close)


class Untimed(Wrapped):
    """A connection that tells nothing of sessions, but the time, when a test says so."""

    fails = False

    def __getattr__(self, name: str) -> Any:
        if self.fails and name in {"find", "changes", "heads"}:
            raise OUT_OF_REACH
        return super().__getattr__(name)


async def test_a_dry_run_of_retention_names_no_session_whose_time_it_could_not_read(
    site: Site,
) -> None:
    connection = Untimed(site.connect())
    async with (
        site.daemon("one", connection) as daemon,
        clients_of(site, "two") as (two,),
        daemon.connect() as one,
    ):
        await create(one, persist="immediate")
        await append(one, "e-1", role="assistant")
        await call(one, "session/close")
        site.age()
        # The list of the first daemon has the old time.
        assert len((await one.call("retention/run", max_age_hours=1))["sessions"]) == 1
        await append(two, "e-2")
        await call(two, "session/close")
        site.forget_open_notes()
        for dry_run in (True, False):
            connection.fails = True
            answer = await one.call("retention/run", max_age_hours=1, dry_run=dry_run)
            connection.fails = False
            assert answer["sessions"] == []
            (failed,) = answer["failed"]
            assert (failed["session_id"], failed["kind"]) == (SESSION, "storage_error")
        assert len(await call(two, "session/entries", "entries")) == 2


async def test_retention_spares_what_is_archived_since_it_was_listed(site: Site) -> None:
    class Late(Wrapped):
        """A connection whose deletion comes when another daemon has archived the session."""

        def delete_unused(self, number: int | None, before_ns: int, daemon: str) -> list[int]:
            if number is not None:
                archived.append(database.move(database.find(SESSION), "archived"))
            return self.inner.delete_unused(number, before_ns, daemon)

    archived: list[Any] = []
    database: Any = await to_thread.run_sync(site.connect)
    async with site.daemon("one", Late(site.connect())) as daemon, daemon.connect() as one:
        await create(one, persist="immediate")
        await append(one, "e-1", role="assistant")
        await call(one, "session/close")
        await let_pass(0.001)
        answer = await one.call("retention/run", max_age_hours=1e-9, dry_run=False)
        assert (answer["sessions"], answer["failed"]) == ([], [])
        assert len(archived) == 1
        assert (await one.call("session/trash"))["sessions"] == []
        assert len(await call(one, "session/entries", "entries")) == 1
    await to_thread.run_sync(database.close)
