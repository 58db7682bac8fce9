"""Queues of prompts of a session that several daemons serve, and that one of them purges."""

from __future__ import annotations

import threading
from contextlib import closing
from typing import Any

import pytest
from anyio import create_task_group, fail_after, to_thread

from sessiond.service.database.database import NO_TOKEN
from sessiond.service.queues import QUEUES
from sessiond.state.codec import STATE
from sessiond.testing.wire import Refusal
from tests.kit.calls import call, create, refused
from tests.kit.patience import PATIENCE_SECONDS, happened
from tests.kit.sessions import SESSION
from tests.service.one_database.connections import OUT_OF_REACH, Held, Wrapped
from tests.service.one_database.site import NEVER, Site, beside, clients_of
from tests.service.test_queues import IDS, LATER, STEER, queue

SECRET = "Only once."


async def is_stored(site: Site, text: str) -> bool:
    """Return whether the database has a text in prompts of any session."""

    def look() -> bool:
        with closing(site.connect()) as connection:
            found = connection.document(STATE, QUEUES, NO_TOKEN)
        return found is not None and text.encode() in found.data

    return await to_thread.run_sync(look)


class Failing(Wrapped):
    """A connection that fails to write documents while a test says so."""

    fails = False

    def put_document(self, *arguments: Any) -> Any:
        if self.fails:
            raise OUT_OF_REACH
        return self.inner.put_document(*arguments)


class Purging(Wrapped):
    """A connection that waits behind the removal of a session until a test lets it go."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.has_purged = threading.Event()
        self.may_go = threading.Event()

    def purge(self, session_id: str) -> Any:
        done = self.inner.purge(session_id)
        self.has_purged.set()
        assert self.may_go.wait(PATIENCE_SECONDS)
        return done


class Losing(Wrapped):
    """A connection that loses the answer to a write of a document, and to the look behind the write."""

    loses = False

    def put_document(self, *arguments: Any) -> Any:
        answer = self.inner.put_document(*arguments)
        if self.loses:
            raise OUT_OF_REACH
        return answer

    def fence_document(self, *arguments: Any) -> Any:
        if self.loses:
            raise OUT_OF_REACH
        return self.inner.fence_document(*arguments)


@pytest.mark.parametrize("sender", ["one", "two"])
@pytest.mark.parametrize("purger", ["one", "two"])
async def test_a_purge_erases_prompts_that_came_through_any_daemon(
    site: Site, sender: str, purger: str
) -> None:
    async with clients_of(site, "one", "two", poll_seconds=NEVER) as (one, two):
        wires = {"one": one, "two": two}
        await create(one, persist="immediate")
        for number in range(3):
            await queue(wires[sender], STEER, f"q{number}", SECRET)
        assert await is_stored(site, SECRET)
        await call(wires[purger], "session/delete")
        await call(wires[purger], "session/purge")
        assert not await is_stored(site, SECRET)


async def test_a_purge_leaves_prompts_of_other_sessions(site: Site) -> None:
    async with clients_of(site, "one", "two", poll_seconds=NEVER) as (one, two):
        await create(one, persist="immediate")
        await create(two, "session-b", persist="immediate")
        await queue(two, STEER, "q1", SECRET)
        other = {"session_id": "session-b", "kind": STEER, "queue": True, "queue_id": "q1"}
        await two.call("session/signal", **other)
        await call(one, "session/delete")
        await call(one, "session/purge")
        assert not await is_stored(site, SECRET)
        assert await call(one, "session/queue", IDS, session_id="session-b") == ["q1"]


async def test_a_purge_that_is_repeated_erases_prompts_of_another_daemon(site: Site) -> None:
    failing = Failing(site.connect())
    async with (
        site.daemon("one", failing) as first,
        site.daemon("two") as second,
        first.connect() as one,
        second.connect() as two,
    ):
        await create(one, persist="immediate")
        await queue(two, STEER, "q1", SECRET)
        await call(one, "session/delete")
        failing.fails = True
        assert await refused(one, "session/purge") == "storage_error"
        failing.fails = False
        assert await refused(one, "session/purge") == "session_not_found"
        assert not await is_stored(site, SECRET)


async def test_a_purge_leaves_prompts_of_a_session_that_takes_the_id_meanwhile(site: Site) -> None:
    purging = Purging(site.connect())
    async with (
        site.daemon("one", purging) as first,
        site.daemon("two") as second,
        first.connect() as one,
        second.connect() as two,
    ):
        with fail_after(PATIENCE_SECONDS):
            await create(one, persist="immediate")
            await queue(two, STEER, "q1", SECRET)
            await call(one, "session/delete")

            async def purge() -> None:
                await call(one, "session/purge")

            async with create_task_group() as tasks:
                tasks.start_soon(purge)
                await happened(purging.has_purged)
                await create(two, persist="immediate")
                await queue(two, LATER, "q2")
                purging.may_go.set()
            assert await call(two, "session/queue", IDS) == ["q2"]
            assert not await is_stored(site, SECRET)


async def test_no_prompt_is_taken_for_a_session_that_another_daemon_has_deleted(site: Site) -> None:
    async with clients_of(site, "one", "two", poll_seconds=NEVER) as (one, two):
        await create(one, persist="immediate")
        await call(two, "session/queue", IDS)
        await call(one, "session/delete")
        asked = {"kind": STEER, "data": SECRET, "queue": True}
        assert await refused(two, "session/signal", **asked) == "session_not_found"
        assert not await is_stored(site, SECRET)


async def test_a_removed_prompt_of_a_call_of_unknown_outcome_comes_back_with_no_retry(
    site: Site,
) -> None:
    losing = Losing(site.connect())
    async with beside(site, losing) as (one, three):
        await create(one, persist="immediate")
        losing.loses = True
        asked = {"kind": STEER, "data": "Do it.", "queue": True, "queue_id": "q1"}
        assert await refused(one, "session/signal", **asked) == "storage_error"
        losing.loses = False
        assert await call(three, "session/queue", IDS) == ["q1"]
        assert await call(three, "session/queue", IDS, done=["q1"]) == []
        for wire in (one, three):
            assert await queue(wire, STEER, "q1") == {"queue_id": "q1", "duplicate": True}
            assert await call(wire, "session/queue", IDS) == []


@pytest.mark.parametrize("call_of_the_write", ["document", "put_document"])
async def test_no_prompt_stays_of_a_session_that_is_purged_while_the_prompt_is_written(
    site: Site, call_of_the_write: str
) -> None:
    held = Held(site.connect())
    async with beside(site, held) as (one, three):
        await create(one, persist="immediate")
        await call(three, "session/queue", IDS)
        held.holds = call_of_the_write
        kinds = []

        async def send() -> None:
            asked = {"kind": STEER, "data": SECRET, "queue": True, "queue_id": "q1"}
            kinds.append(await refused(one, "session/signal", **asked))

        async with create_task_group() as tasks:
            tasks.start_soon(send)
            await happened(held.has_begun)
            await call(three, "session/delete")
            await call(three, "session/purge")
            held.may_go.set()
        assert kinds == ["session_not_found"]
        assert not await is_stored(site, SECRET)


@pytest.mark.parametrize("call_of_the_write", ["document", "put_document"])
@pytest.mark.parametrize("is_known", [True, False])
async def test_a_prompt_that_was_written_for_a_session_of_before_is_no_prompt_of_the_next(
    site: Site, call_of_the_write: str, is_known: bool
) -> None:
    held = Held(site.connect())
    async with (
        site.daemon("one", held, NEVER) as first,
        site.daemon("three", poll_seconds=NEVER) as third,
        first.connect() as one,
        first.connect() as beside_one,
        third.connect() as three,
    ):
        await create(one, persist="immediate")
        await call(three, "session/queue", IDS)
        held.holds = call_of_the_write
        kinds = []

        async def send() -> None:
            asked = {"kind": STEER, "data": SECRET, "queue": True, "queue_id": "q1"}
            kinds.append(await refused(one, "session/signal", **asked))

        with fail_after(PATIENCE_SECONDS):
            async with create_task_group() as tasks:
                tasks.start_soon(send)
                await happened(held.has_begun)
                await call(three, "session/delete")
                await call(three, "session/purge")
                made = (await create(three, persist="immediate"))["session"]
                if is_known:
                    # The daemon of the sender has taken the other session in by then.
                    found = await call(beside_one, "session/get", "session")
                    assert found["epoch"] == made["epoch"]
                held.may_go.set()
            assert kinds == ["session_not_found"]
            assert not await is_stored(site, SECRET)
            for wire in (one, three):
                assert await call(wire, "session/queue", IDS) == []


async def test_a_prompt_keeps_no_session_from_its_end(site: Site) -> None:
    async with clients_of(site, "one") as (one,):
        await create(one, persist="immediate")
        told = {"kind": STEER, "data": "Go on.", "queue": True}
        prompt = await one.request("session/signal", session_id=SESSION, **told)
        deletion = await one.request("session/delete", session_id=SESSION)
        await one.answer(deletion)
        kind = None
        try:
            await one.answer(prompt)
        except Refusal as refusal:
            kind = refusal.data["kind"]
        # The session may be gone before the prompt is known to be safe.
        assert kind in {None, "session_not_found"}
