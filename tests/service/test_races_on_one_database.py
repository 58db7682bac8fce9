"""Appends to one session at two daemons at once."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest
from anyio import create_task_group
from msgspec.json import encode

from sessiond.service.database.database import Head, SessionDatabase, chained
from sessiond.testing.wire import Refusal
from tests.kit.calls import append, call, create, refused
from tests.kit.limits import set_limits
from tests.kit.patience import PATIENCE_SECONDS, happened
from tests.kit.sessions import HI, SESSION
from tests.service.one_database.calls import SAID, TTL_MS
from tests.service.one_database.connections import OUT_OF_REACH, Held, Wrapped
from tests.service.one_database.site import Site, clients_of


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
        connection.holds = "append"
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
    """A connection before whose appends another writer is ten times faster, unless the row is held."""

    def __init__(self, inner: SessionDatabase, other: SessionDatabase) -> None:
        super().__init__(inner)
        self._other = other
        self.wins = 0

    def append(self, at: Head, lines: Sequence[bytes], digest: bytes, *, sync: bool) -> Any:
        if self.wins < 10:
            self.wins += 1
            there = self._other.heads([at.number])[0]
            entry = {"type": "custom", "id": f"rival-{self.wins}", "custom_type": "x", "data": 1}
            line = encode(entry)
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
        assert await call(one, "session/entries", "entries[].entry.id") == [
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
            await call(two, "session/acquire", ttl_ms=TTL_MS, head="side")
            await one.request(
                "session/acquire", session_id=SESSION, head="side", ttl_ms=TTL_MS, wait_ms=TTL_MS
            )
            await call(one, "session/get")
        connection.holds = "append"
        async with create_task_group() as tasks:

            async def late() -> None:
                assert await refused(one, "append", message=HI) == kinds[change]

            tasks.start_soon(late)
            await happened(connection.has_begun)
            await two.call(change, session_id=SESSION, **members)
            connection.may_go.set()


async def test_a_draft_that_comes_to_its_place_stays_archived(site: Site) -> None:
    connection = Held(site.connect())
    async with (
        site.daemon("one", connection) as first,
        clients_of(site, "three") as (three,),
        first.connect() as one,
    ):
        await create(one, persist="on_assistant")
        connection.holds = "move"
        promotion = await one.request("session/update", session_id=SESSION, persist="immediate")
        await happened(connection.has_begun)
        await call(three, "session/archive")
        connection.may_go.set()
        assert (await one.answer(promotion))["session"]["archived"]
        assert (await call(three, "session/get"))["session"]["archived"]
        assert await refused(one, "append", message=HI) == "session_archived"


class UnreadCreation(Wrapped):
    """A connection that creates a session, waits until a test says so, and cannot read the lines then."""

    def __init__(self, site: Site, *, is_answered: bool) -> None:
        super().__init__(site.connect())
        self._is_answered = is_answered
        self.has_created, self.may_go = threading.Event(), threading.Event()

    def create(self, *args: Any, **options: Any) -> Any:
        head = self.inner.create(*args, **options)
        self.has_created.set()
        assert self.may_go.wait(PATIENCE_SECONDS)
        if not self._is_answered:
            raise OUT_OF_REACH
        return head

    def pieces(self, *_: Any, **__: Any) -> Any:
        raise OUT_OF_REACH


@pytest.mark.parametrize("is_answered", [True, False], ids=["answered", "found"])
@pytest.mark.parametrize("is_used", [True, False], ids=["used", "answered elsewhere"])
async def test_a_creation_deletes_nothing_that_another_daemon_has_answered(
    site: Site, is_answered: bool, is_used: bool
) -> None:
    connection = UnreadCreation(site, is_answered=is_answered)
    async with (
        site.daemon("one", connection) as first,
        clients_of(site, "three") as (three,),
        first.connect() as one,
    ):
        creation = await one.request("session/create", session_id=SESSION, cwd="/p")
        await happened(connection.has_created)
        await three.call("session/create", session_id=SESSION, cwd="/p", if_exists="open")
        if is_used:
            await append(three, "e-1")
        connection.may_go.set()
        if is_answered or not is_used:
            assert (await one.answer(creation))["created"]
        else:
            # What another daemon has stored behind the header cannot be read.
            with pytest.raises(Refusal, match="storage_error"):
                await one.answer(creation)
        assert await call(three, "session/entries", "entries[].entry.id") == ["e-1"] * is_used


async def test_a_scope_whose_creation_another_daemon_takes_back_is_created(site: Site) -> None:
    class TakenBack(Wrapped):
        """A connection that twice finds a session which another daemon removes then."""

        finds = 0

        def find(self, session_id: str) -> Head | None:
            found: Head | None = self.inner.find(session_id)
            self.finds += 1
            # A creation looks for the id first, and an opening behind that.
            if self.finds in {1, 3}:
                lines = [b'{"type":"session"}']
                found = self.inner.create(session_id, "epoch-x", [lines], "placed")
                assert found is not None
                self.inner.delete(found, unless_appended=True)
            return found

    async with site.daemon("one", TakenBack(site.connect())) as daemon, daemon.connect() as one:
        answer = await one.call("scope/resolve", scope="global")
        assert answer["created"]
