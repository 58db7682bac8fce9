"""Compactions of daemons that keep their sessions in one database: one run for each head."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio import create_task_group, fail_after

from sessiond import limits
from sessiond.errors import StorageError
from sessiond.testing.wire import Refusal, Wire
from tests.kit.calls import append, call, create_to_compact
from tests.kit.clock import let_pass
from tests.kit.limits import set_limits
from tests.kit.patience import PATIENCE_SECONDS, eventually, soon
from tests.kit.sessions import SESSION
from tests.service.compacting import OFFER, SAID
from tests.service.one_database.connections import Wrapped
from tests.service.one_database.site import Site, no_threads_for_readers

pytestmark = [pytest.mark.usefixtures("clock")]

SMALL: dict[str, Any] = {"auto": True, "context_window": 8, "reserve_tokens": 0}
LONG = "a-long-message-that-fills-the-window"


@pytest.fixture(autouse=True)
def look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    set_limits(monkeypatch, CLAIM_LOOK_SECONDS=0.01)


class Claiming(Wrapped):
    """A connection that counts claims."""

    claims = 0

    def claim(self, work: str, holder: str, seconds: float) -> bool:
        """Take or extend a claim."""
        self.claims += 1
        return self.inner.claim(work, holder, seconds)


@asynccontextmanager
async def writers_at(site: Site, **connections: Any) -> AsyncGenerator[list[Wire]]:
    """Yield a client of a daemon for each name; each client writes summaries, and watches."""
    async with AsyncExitStack() as ends:
        wires = []
        for name, connection in connections.items():
            daemon = await ends.enter_async_context(site.daemon(name, connection))
            wire = await ends.enter_async_context(daemon.connect())
            await wire.call("initialize", capabilities=OFFER)
            wires.append(wire)
        with fail_after(PATIENCE_SECONDS):
            yield wires


@pytest.mark.recommends
async def test_a_head_that_two_daemons_could_compact_is_compacted_once(site: Site) -> None:
    async with AsyncExitStack() as ends:
        daemons = [await ends.enter_async_context(site.daemon(name)) for name in ("one", "two")]
        one, two = [await ends.enter_async_context(each.connect()) for each in daemons]
        writers = [await ends.enter_async_context(each.connect()) for each in daemons]
        ends.enter_context(fail_after(PATIENCE_SECONDS))
        asked: list[tuple[Wire, Any]] = []
        is_asked = anyio.Event()

        async def listen(writer: Wire) -> None:
            asked.append((writer, await writer.next_request()))
            is_asked.set()

        for writer in writers:
            await writer.call("initialize", capabilities=OFFER)
        await create_to_compact(one, "u1", "u2", persist="immediate", **SMALL)
        for wire in (one, two):
            await wire.call("subscribe", session_id=SESSION)
        async with create_task_group() as tasks:
            for writer in writers:
                tasks.start_soon(listen, writer)
            await append(one, LONG)
            await is_asked.wait()
            # The other daemon has judged the head by then, and does not ask its client.
            await let_pass(4 * limits.COMPACTION_LOOK_SECONDS)
            ((writer, request),) = asked
            await writer.reply(request, {"summary": SAID})
            while (await two.next_notification())["params"].get("entry", {}).get(
                "type"
            ) != "compaction":
                pass
            await let_pass(4 * limits.COMPACTION_LOOK_SECONDS)
            assert len(asked) == 1
            tasks.cancel_scope.cancel()
        assert (await call(two, "session/entries", "entries[].entry.type")).count("compaction") == 1


async def test_a_caller_at_another_daemon_gets_the_entry_of_the_run(site: Site) -> None:
    connection = Claiming(site.connect())
    async with writers_at(site, one=None, two=connection) as (one, two):
        await create_to_compact(one, "u1", "u2", persist="immediate")
        first = await one.request("compact", session_id=SESSION)
        asked = await one.next_request()
        second = await two.request("compact", session_id=SESSION)
        # The caller waits: its daemon does not ask for a summary of its own.
        await eventually(lambda: connection.claims >= 3)
        assert two.requests == []
        await one.reply(asked, {"summary": SAID})
        mine, theirs = await one.answer(first), await two.answer(second)
        assert mine["entry"] == theirs["entry"]
        assert (mine["seq"], mine["leaf_id"]) == (theirs["seq"], theirs["leaf_id"])
        assert (await call(two, "session/entries", "entries[].entry.type")).count("compaction") == 1
        # A later call is another compaction, and finds nothing to do.
        refused = await two.refusal("compact", session_id=SESSION)
        assert refused.data["kind"] == "nothing_to_compact"


async def test_no_number_of_readers_ends_the_claim_on_a_run(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, CLAIM_SECONDS=0.03)
    connection = Claiming(site.connect())
    async with writers_at(site, one=connection) as (one,):
        await create_to_compact(one, "u1", "u2", persist="immediate")
        run = await one.request("compact", session_id=SESSION)
        asked = await one.next_request()
        async with no_threads_for_readers():
            taken = connection.claims
            await eventually(lambda: connection.claims >= taken + 3)
        await one.reply(asked, {"summary": SAID})
        assert (await one.answer(run))["entry"]["id"]


async def test_a_caller_whose_run_failed_elsewhere_gets_a_run_of_its_own(site: Site) -> None:
    async with writers_at(site, one=None, two=None) as (one, two):
        await create_to_compact(one, "u1", "u2", persist="immediate")
        first = await one.request("compact", session_id=SESSION)
        await one.next_request()
        second = await two.request("compact", session_id=SESSION)
        await one.send({"method": "$/cancelRequest", "params": {"id": first}})
        with pytest.raises(Refusal):
            await one.answer(first)
        await two.reply(await two.next_request(), {"summary": SAID})
        assert (await two.answer(second))["entry"]["id"]
        assert (await call(one, "session/entries", "entries[].entry.type")).count("compaction") == 1


class Claimless(Wrapped):
    """A connection over which no claim can be taken."""

    def claim(self, work: str, holder: str, seconds: float) -> bool:
        raise StorageError(
            "the database does not answer", errno="EIO", path="the database", retryable=True
        )


async def test_a_claim_that_cannot_be_taken_is_an_answer(site: Site) -> None:
    async with writers_at(site, one=Claimless(site.connect())) as (one,):
        await create_to_compact(one, "u1", "u2", persist="immediate")
        refused = await one.refusal("compact", session_id=SESSION)
        assert (refused.data["kind"], refused.data["retryable"]) == ("storage_error", True)
        assert one.requests == []


def test_a_claim_that_is_kept_ends_with_its_time_alone(site: Site) -> None:
    database, other = site.connect(), site.connect()
    assert database.claim("work", "one", 60.0)
    assert not other.claim("work", "two", 60.0)
    other.end_claim("work", "two")
    assert not other.claim("work", "two", 60.0)
    assert database.claim("work", "one", 0.05)
    soon(lambda: other.claim("work", "two", 60.0))
    assert not database.claim("work", "one", 60.0)
    other.end_claim("work", "two")
    assert database.claim("work", "one", 60.0)
    database.close()
    other.close()
