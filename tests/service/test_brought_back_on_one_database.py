"""Lists of daemons whose database is brought back to an earlier state, or loses rows."""

from __future__ import annotations

from typing import Any

import pytest
from anyio import fail_after, to_thread

from sessiond.testing.wire import Wire
from tests.kit.calls import append, create
from tests.kit.sessions import SESSION
from tests.service.test_daemons_on_one_database import (
    PATIENCE_SECONDS,
    Site,
    Wrapped,
    clients_of,
    site,
)

pytestmark = pytest.mark.one_loop

__all__ = ["site"]

DELETED = "session-deleted-later"
YOUNG = "session-made-later"
ANYWHERE = pytest.mark.parametrize(
    "elsewhere", [False, True], ids=["same-server", "another-server"]
)


class Recording(Wrapped):
    """A connection that notes behind which number it was asked for changes."""

    def __init__(self, site: Site) -> None:
        super().__init__(site.connect())
        self.asked: list[int] = []

    def changes(self, after: int) -> Any:
        self.asked.append(after)
        return self.inner.changes(after)


async def listed(wire: Wire) -> list[str]:
    answer = await wire.call("session/list")
    return sorted(one["id"] for one in answer["sessions"])


async def found(wire: Wire, words: str) -> list[str]:
    hits = (await wire.call("session/search", query=words))["hits"]
    return [hit["session_id"] for hit in hits]


async def stored(wire: Wire, session_id: str, *, stays_open: bool = False) -> None:
    """Store a session, which is not open behind that."""
    await create(wire, session_id, persist="immediate")
    await append(wire, f"words-of-{session_id}", session_id=session_id)
    if not stays_open:
        await wire.call("session/close", session_id=session_id)


@ANYWHERE
async def test_lists_show_the_state_that_was_brought_back(site: Site, elsewhere: bool) -> None:
    async with clients_of(site, "one") as (one,):
        async with clients_of(site, "three") as (three,):
            for session_id in (SESSION, DELETED):
                await stored(one, session_id)
            await to_thread.run_sync(site.remember)
            await stored(one, YOUNG)
            await one.call("session/delete", session_id=DELETED)
            for wire in (one, three):
                assert await listed(wire) == sorted([SESSION, YOUNG])
                assert await found(wire, f"words-of-{YOUNG}") == [YOUNG]
            await to_thread.run_sync(site.bring_back, elsewhere)
            for wire in (one, three):
                assert await listed(wire) == sorted([SESSION, DELETED])
                assert await found(wire, f"words-of-{YOUNG}") == []
                assert await found(wire, f"words-of-{DELETED}") == [DELETED]
            # What comes behind is seen as ever.
            await stored(one, "session-new")
            for wire in (one, three):
                assert await listed(wire) == sorted([SESSION, DELETED, "session-new"])
        await to_thread.run_sync(site.bring_back, elsewhere)
        async with clients_of(site, "three") as (three,):
            for wire in (one, three):
                assert await listed(wire) == sorted([SESSION, DELETED])


@ANYWHERE
async def test_all_rows_are_read_once_behind_what_was_brought_back(
    site: Site, elsewhere: bool
) -> None:
    connection = Recording(site)
    async with (
        clients_of(site, "one") as (one,),
        site.daemon("three", connection) as third,
        third.connect() as three,
    ):
        with fail_after(PATIENCE_SECONDS):
            await stored(one, SESSION)
            await to_thread.run_sync(site.remember)
            await stored(one, YOUNG)
            assert await listed(three) == sorted([SESSION, YOUNG])
            connection.asked.clear()
            await to_thread.run_sync(site.bring_back, elsewhere)
            for _ in range(3):
                assert await listed(three) == [SESSION]
            assert connection.asked.count(0) == 1
            await stored(one, "session-new")
            assert await listed(three) == sorted([SESSION, "session-new"])
            assert connection.asked.count(0) == 1


async def test_an_open_session_that_is_gone_is_closed_by_a_list(site: Site) -> None:
    async with clients_of(site, "one", "three") as (one, three):
        await stored(one, SESSION)
        await to_thread.run_sync(site.remember)
        await stored(one, YOUNG, stays_open=True)
        await three.call("session/subscribe", session_id=YOUNG)
        assert await listed(three) == sorted([SESSION, YOUNG])
        await to_thread.run_sync(site.bring_back)
        for wire in (one, three):
            assert await listed(wire) == [SESSION]
        closed = await three.next_notification()
        assert closed["method"] == "session/closed"
        assert closed["params"]["session_id"] == YOUNG
        refusal = await three.refusal("session/get", session_id=YOUNG)
        assert refusal.data["kind"] == "session_not_found"


async def test_a_row_that_was_removed_leaves_every_list(site: Site) -> None:
    async with clients_of(site, "one", "three") as (one, three):
        for session_id in (SESSION, YOUNG):
            await stored(one, session_id)
        for wire in (one, three):
            assert await listed(wire) == sorted([SESSION, YOUNG])
        await to_thread.run_sync(site.remove_row)
        for wire in (one, three):
            assert await listed(wire) == [YOUNG]


async def test_a_row_that_was_removed_while_a_daemon_did_not_run_leaves_its_list(
    site: Site,
) -> None:
    async with clients_of(site, "one") as (one,):
        for session_id in (SESSION, YOUNG):
            await stored(one, session_id)
        assert await listed(one) == sorted([SESSION, YOUNG])
    await to_thread.run_sync(site.remove_row)
    async with clients_of(site, "one") as (one,):
        assert await listed(one) == [YOUNG]


async def test_a_row_with_another_id_is_no_session_of_the_old_one(site: Site) -> None:
    async with clients_of(site, "one", "three") as (one, three):
        for session_id in (SESSION, YOUNG):
            await stored(one, session_id)
        for wire in (one, three):
            assert await listed(wire) == sorted([SESSION, YOUNG])
        await to_thread.run_sync(site.spoil_id)
        for wire in (one, three):
            assert await listed(wire) == [YOUNG]
