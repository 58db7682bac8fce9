"""Two daemons that keep their sessions in one database, and know nothing of each other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from anyio import create_task_group, fail_after

from sessiond.errors import SessionArchived, SessionNotFound
from sessiond.limits import Bounds
from sessiond.service.database.database import Head
from sessiond.testing.wire import Wire
from tests.kit.calls import append, call, create, watch
from tests.kit.patience import PATIENCE_SECONDS, eventually, happened
from tests.kit.sessions import SESSION
from tests.service.one_database.calls import TTL_MS, told
from tests.service.one_database.connections import OUT_OF_REACH, Counted, Held, Wrapped
from tests.service.one_database.site import NEVER, Site, clients_of


async def test_what_one_daemon_stores_the_other_one_tells_and_reads(site: Site) -> None:
    async with clients_of(site, "one", "two") as (one, two):
        await create(one, persist="immediate")
        await watch(two)
        for name in ("e-1", "e-2"):
            await append(one, name)
        assert await told(two, 2) == [(1, "e-1"), (2, "e-2")]
        assert await call(two, "session/entries", "entries", limit=1000) == await call(
            one, "session/entries", "entries", limit=1000
        )
        listed = (await two.call("session/list"))["sessions"]
        assert [(one["id"], one["seq"]) for one in listed] == [(SESSION, 2)]
        hits = (await two.call("session/search", query="e-2"))["hits"]
        assert [hit["session_id"] for hit in hits] == [SESSION]


async def test_a_daemon_without_an_open_session_listens_to_no_rings(site: Site) -> None:
    async with clients_of(site, "one", "three") as (one, three):
        await create(one, persist="immediate")
        for number in (1, 2):
            await watch(three)
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


async def test_a_scope_shows_what_another_daemon_has_changed(site: Site) -> None:
    async with clients_of(site, "one", "three", poll_seconds=NEVER) as (one, three):
        made = (await one.call("scope/resolve", scope="global"))["session"]
        await three.call("session/update", session_id=made["id"], title="A title")
        again = await one.call("scope/resolve", scope="global")
        assert (again["session"]["title"], again["created"]) == ("A title", False)
        await three.call("session/delete", session_id=made["id"])
        anew = await one.call("scope/resolve", scope="global")
        assert (anew["session"]["title"], anew["created"]) == (None, True)


async def test_a_switch_leaves_a_session_that_another_daemon_has_deleted(
    site: Site, tmp_path: Path
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    async with clients_of(site, "one", "three", poll_seconds=NEVER) as (one, three):
        left = await one.call("scope/switch", scope="project", project=str(here))
        await three.call("session/delete", session_id=left["session"]["id"])
        now = await one.call("scope/switch", scope="project", project=str(there))
        assert now["session"]["cwd"] == str(there.resolve())


async def test_appends_at_both_daemons_have_one_order(site: Site) -> None:
    async with clients_of(site, "one", "two") as wires:
        await create(wires[0], persist="immediate")
        for wire in wires:
            await watch(wire)

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
            rows = await call(wire, "session/entries", "entries[].{seq,entry.id}", limit=1000)
            assert rows == stored


async def test_a_retry_at_the_other_daemon_is_stored_once(site: Site) -> None:
    async with clients_of(site, "one", "two") as (one, two):
        await create(one, persist="immediate")
        await call(two, "session/get")
        first = await append(one, "e-1", "said once")
        again = await append(two, "e-1", "said once")
        assert (again["duplicate"], again["entries"]) == (True, first["entries"])
        assert len(await call(two, "session/entries", "entries")) == 1


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
        assert await call(one, "session/entries", "entries[].entry.id") == ["e-1", "e-2", "e-3"]


async def test_a_ring_tells_other_daemons_at_once(site: Site) -> None:
    async with clients_of(site, "one", "three", poll_seconds=NEVER / 2) as (one, three):
        await create(one, persist="immediate")
        await watch(three)
        await site.is_heard_by(2)
        for number in range(1, 4):
            await append(one, f"e-{number}")
            assert await told(three, 1) == [(number, f"e-{number}")]
        await call(one, "session/archive")
        notice = await three.next_notification()
        assert (notice["method"], notice["params"]["archived"]) == ("session/changed", True)


async def test_a_read_sees_what_was_answered_before_at_the_other_daemon(site: Site) -> None:
    async with clients_of(site, "one", "two", poll_seconds=NEVER) as (one, two):
        await create(one, persist="immediate")
        for number in range(1, 4):
            await append(one, f"e-{number}")
            assert len(await call(two, "session/entries", "entries", limit=1000)) == number
            assert (await call(two, "session/get"))["session"]["seq"] == number
        await call(one, "session/archive")
        assert (await call(two, "session/get"))["session"]["archived"]
        await call(two, "session/unarchive")
        assert not (await call(one, "session/get"))["session"]["archived"]
        await call(one, "session/delete")
        assert (await two.refusal("session/get", session_id=SESSION)).code == SessionNotFound.code


async def test_a_read_that_waits_for_a_reopening_sees_what_was_answered_before(site: Site) -> None:
    connection = Held(site.connect())
    async with (
        site.daemon("one", connection, NEVER) as first,
        first.connect() as one,
        clients_of(site, "three", poll_seconds=NEVER) as (three,),
    ):
        await create(one, persist="immediate")
        await site.watches(one=one)
        await call(three, "session/delete")
        await create(three, persist="immediate")
        connection.holds = "pieces"
        read = await one.request("session/get", session_id=SESSION)
        await happened(connection.has_begun)
        # The row of the new session was read: its lines are those up to that row.
        await append(three, "e-1")
        later = await one.request("session/get", session_id=SESSION)
        connection.may_go.set()
        assert (await one.answer(later))["session"]["seq"] == 1
        await one.answer(read)


async def test_no_command_does_nothing_for_what_the_other_daemon_has_changed(site: Site) -> None:
    async with clients_of(site, "one", "two", poll_seconds=NEVER) as (one, two):
        await create(one, persist="immediate")
        for number in (1, 2):
            await append(one, f"e-{number}", role="assistant")
        await site.watches(one=one)
        assert len(await call(two, "session/entries", "entries")) == 2
        await site.watches(two=two)
        await call(one, "session/branch", entry_id="e-1")
        moved = await call(two, "session/navigate", entry_id="e-2")
        assert (moved["leaf_id"], moved["moved"]) == ("e-2", True)
        assert (await call(one, "session/get"))["session"]["leaf_id"] == "e-2"
        await call(one, "session/archive")
        await call(two, "session/unarchive")
        assert not (await call(one, "session/get"))["session"]["archived"]
        await append(one, "e-3")


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
        assert await call(one, "session/entries", "entries[].seq") == list(range(1, 7))


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
        told_at_one = await watch(one)
        await append(one, "e-1")
        assert await told(one, 1) == [(1, "e-1")]
        await append(one, "e-2")
        again = await watch(two, after={"seq": 1, "entry_id": "e-1"})
        assert again["epoch"] == told_at_one["epoch"]
        assert await told(two, 1) == [(2, "e-2")]


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
        await watch(three)
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
        await watch(wire)
        for hears in (True, False, True):
            connection.notifications = hears
            stats = await wire.call("server/stats")
            assert stats["database"]["notifications"] is hears
            # People are told behind the look of a poll.
            polls = connection.polls
            await eventually(lambda: connection.polls >= polls + 3)  # noqa: B023 - awaited in place
            assert len(reports) == (0 if hears and not reports else 1)


@pytest.mark.parametrize("method", ["session/subscribe", "session/acquire"])
@pytest.mark.parametrize("by", ["another session", "retention"])
async def test_a_session_stays_open_for_a_use_that_waits_for_its_look(
    site: Site, method: str, by: str
) -> None:
    connection = Held(site.connect())
    async with (
        site.daemon("one", connection, NEVER) as first,
        first.connect() as one,
        first.connect() as other,
    ):
        await create(one, persist="immediate")
        await site.watches(one=one)
        first.service.bounds = Bounds(open_sessions=1)
        connection.holds = "heads"
        members = {"ttl_ms": TTL_MS} if method == "session/acquire" else {}
        use = await one.request(method, session_id=SESSION, **members)
        await happened(connection.has_begun)
        if by == "retention":
            retained = await other.call("retention/run", max_age_hours=1e-9, dry_run=False)
            assert retained["sessions"] == []
        else:
            refusal = await other.refusal("session/create", cwd="/p", session_id="session-b")
            assert refusal.data["kind"] == "overloaded"
        connection.may_go.set()
        await one.answer(use)
        assert set(first.service.statistics().sessions) == {SESSION}
