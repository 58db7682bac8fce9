"""Changes of rows whose answers are lost, or that meet a change by another daemon.

`test_faults_on_one_database` says what every request does then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from anyio import to_thread

from sessiond.errors import StorageError
from sessiond.journal.splitter import whole_lines
from sessiond.service.database.database import Head, SessionDatabase
from sessiond.testing.wire import Refusal
from tests.kit.calls import append, call, create, refused, say, session_info, watch
from tests.kit.patience import eventually, happened
from tests.kit.sessions import HI, SESSION
from tests.service.one_database.connections import OUT_OF_REACH, Held, Severed, Wrapped
from tests.service.one_database.site import NEVER, Site, beside, clients_of

HOUR_MS = 3_600_000
TTL_MS = 60_000


class LosesAnswers(Wrapped):
    """A connection that ends during chosen calls, which take effect: then, or only once a test says so."""

    def __init__(self, site: Site) -> None:
        super().__init__(site.connect())
        self.loses: set[str] = set()
        """Methods whose next call loses its answer."""
        self.is_late = False
        """True if a call that loses its answer takes effect once a test says so."""
        self.late: list[Callable[[], Any]] = []
        self.calls: Counter[str] = Counter()
        """Calls that were answered."""

    def __getattr__(self, name: str) -> Any:
        method = super().__getattr__(name)
        if not callable(method):
            return method

        def call(*args: Any, **options: Any) -> Any:
            if name not in self.loses:
                answer = method(*args, **options)
                self.calls[name] += 1
                return answer
            self.loses.discard(name)
            if self.is_late:
                self.late.append(lambda: method(*args, **options))
            else:
                method(*args, **options)
            raise OUT_OF_REACH

        return call


async def test_a_lease_whose_grant_was_lost_ends_without_another_request(site: Site) -> None:
    connection = LosesAnswers(site)
    async with beside(site, connection) as (one, three):
        await create(one, persist="immediate")
        connection.loses = {"lease"}
        assert await refused(one, "session/acquire", ttl_ms=HOUR_MS) == "storage_error"
        await call(three, "session/acquire", ttl_ms=TTL_MS, wait_ms=TTL_MS)


async def test_a_grant_that_was_refused_takes_no_effect_later(site: Site) -> None:
    connection = LosesAnswers(site)
    async with beside(site, connection) as (one, three):
        await create(one, persist="immediate")
        connection.loses, connection.is_late = {"lease"}, True
        assert await refused(one, "session/acquire", ttl_ms=HOUR_MS) == "storage_error"
        await eventually(lambda: connection.calls["lease"] == 1)
        (grant,) = connection.late
        assert await to_thread.run_sync(grant) is None
        await call(three, "session/acquire", ttl_ms=TTL_MS)


async def test_leases_end_with_the_epoch_of_a_session_that_was_brought_back(site: Site) -> None:
    async with clients_of(site, "one", "three") as (one, three):
        await create(one, persist="immediate")
        lease = await call(one, "session/acquire", "lease_id", ttl_ms=HOUR_MS)
        site.remember()
        await say(one, "lost", lease_id=lease)
        site.bring_back()
        assert await refused(one, "append", message=HI, lease_id=lease) == "lease_lost"
        await call(three, "session/acquire", ttl_ms=TTL_MS, wait_ms=TTL_MS)


@pytest.mark.parametrize(
    ("method", "more", "kind"),
    [
        ("session/archive", {}, "session_archived"),
        ("session/acquire", {"ttl_ms": TTL_MS}, "lease_held"),
    ],
)
async def test_no_append_passes_what_another_daemon_changed_during_an_outage(
    site: Site, method: str, more: dict[str, Any], kind: str
) -> None:
    connection = Severed(site.connect())
    async with beside(site, connection) as (one, three):
        await create(one, persist="immediate")
        # Whether an append was stored that met a database which is away is not known.
        connection.is_there = False
        assert await refused(one, "append", message=HI) == "storage_error"
        connection.is_there = True
        await call(three, method, **more)
        assert await refused(one, "append", message=HI) == kind
        assert await call(three, "session/entries", "entries") == []


async def test_a_draft_that_came_to_its_place_during_an_outage_takes_its_first_answer(
    site: Site,
) -> None:
    connection = Severed(site.connect())
    async with beside(site, connection) as (one, three):
        await create(one)
        # Whether an append was stored that met a database which is away is not known.
        connection.is_there = False
        assert await refused(one, "append", message=HI) == "storage_error"
        connection.is_there = True
        await call(three, "session/update", persist="immediate")
        assert (await append(one, "e-1", role="assistant"))["seq"] == 1


@pytest.mark.parametrize("persist", ["immediate", "on_assistant"])
async def test_an_archive_behind_an_append_whose_answer_was_lost_is_seen(
    site: Site, persist: str
) -> None:
    class Late(Wrapped):
        """A connection that ends behind an append; another daemon archives the session meanwhile."""

        def append(self, at: Head, *args: Any, **options: Any) -> Any:
            stored = self.inner.append(at, *args, **options)
            if stored is None:
                return None
            assert self.inner.move(stored, "archived")
            raise OUT_OF_REACH

    connection = Late(site.connect())
    async with site.daemon("one", connection, NEVER) as daemon, daemon.connect() as one:
        await create(one, persist=persist)
        assert (await append(one, "e-1", role="assistant"))["seq"] == 1
        assert await refused(one, "append", message=HI) == "session_archived"
        assert await call(one, "session/get", "session.archived")


def repaired(database: SessionDatabase, head: Head) -> Any:
    """Put another session in the place of one, as a repair does."""
    lines = whole_lines(b"".join(database.pieces(head.number, 0, head.seq)))
    return database.replace(head, "epoch-of-a-repair", [lines])


def renewed(database: SessionDatabase, head: Head) -> Any:
    """Give a session another epoch, as a daemon does that finds the session brought back."""
    return database.renew(head, "epoch-of-another-daemon", head.digest)


class Meets(Wrapped):
    """A connection of which a call meets a change by another daemon, right before the call."""

    def __init__(
        self,
        site: Site,
        name: str,
        change: Callable[[SessionDatabase, Head], Any],
        *,
        is_met: bool = False,
    ) -> None:
        super().__init__(site.connect())
        self._name, self._change = name, change
        self.is_met = is_met

    def __getattr__(self, name: str) -> Any:
        method = super().__getattr__(name)
        if name != self._name:
            return method

        def call(*args: Any, **options: Any) -> Any:
            if not self.is_met:
                self.is_met = True
                head = self.inner.find(SESSION)
                assert head is not None
                assert self._change(self.inner, head)
            return method(*args, **options)

        return call


@pytest.mark.parametrize("change", [repaired, renewed])
async def test_an_archive_that_meets_another_epoch_archives_the_session_under_it(
    site: Site, change: Callable[[SessionDatabase, Head], Any]
) -> None:
    connection = Meets(site, "move", change)
    async with beside(site, connection) as (one, three):
        epoch = (await create(one, persist="immediate"))["session"]["epoch"]
        await watch(one)
        await call(one, "session/archive")
        assert connection.is_met
        notice = await one.next_notification()
        assert notice["method"] == "session/replaced"
        for wire in (one, three):
            info = await session_info(wire)
            assert info["archived"]
            assert info["epoch"] == notice["params"]["epoch"] != epoch


async def test_an_archive_that_meets_a_delete_finds_no_session(site: Site) -> None:
    connection = Meets(site, "move", lambda database, head: database.delete(head))
    async with site.daemon("one", connection, NEVER) as daemon, daemon.connect() as one:
        await create(one, persist="immediate")
        assert await refused(one, "session/archive") == "session_not_found"


@pytest.mark.parametrize(
    ("method", "more", "answer"),
    [("session/release", {}, ""), ("session/renew", {"ttl_ms": HOUR_MS}, "lease_lost")],
    ids=["release", "renew"],
)
async def test_a_lease_has_ended_for_a_request_that_meets_another_epoch(
    site: Site, method: str, more: dict[str, Any], answer: str
) -> None:
    connection = Meets(site, "heads", renewed, is_met=True)
    async with site.daemon("one", connection, NEVER) as daemon, daemon.connect() as one:
        await create(one, persist="immediate")
        lease = await call(one, "session/acquire", "lease_id", ttl_ms=TTL_MS)
        await site.watches(one=one)
        connection.is_met = False
        if answer:
            assert await refused(one, method, lease_id=lease, **more) == answer
        else:
            assert await call(one, method, lease_id=lease, **more) == {}
        assert connection.is_met


async def test_an_id_that_another_client_takes_during_a_creation_is_refused(site: Site) -> None:
    class Late(Wrapped):
        """A connection that ends during a creation, which another client's creation has overtaken."""

        def create(self, session_id: str, *_: Any) -> Any:
            header = b'{"type":"session","version":3,"id":"%b"}' % session_id.encode()
            assert self.inner.create(session_id, "epoch-of-another", [[header]], "placed")
            raise OUT_OF_REACH

    connection = Late(site.connect())
    async with site.daemon("one", connection, NEVER) as daemon, daemon.connect() as one:
        assert await refused(one, "session/create", cwd="/p") == "storage_error"


async def test_a_copy_that_cannot_be_opened_is_refused_for_the_cause(site: Site) -> None:
    class Fails(Wrapped):
        """A connection that ends behind the creation of a copy."""

        fails = False

        def create(self, session_id: str, *args: Any, **options: Any) -> Any:
            self.fails = session_id != SESSION
            return self.inner.create(session_id, *args, **options)

        def pieces(self, *args: Any, **options: Any) -> Any:
            if self.fails:
                raise OUT_OF_REACH
            return self.inner.pieces(*args, **options)

        def delete(self, *_: Any, **_options: Any) -> Any:
            raise StorageError("still away", errno="EIO", path="", retryable=True)

    connection = Fails(site.connect())
    async with site.daemon("one", connection, NEVER) as daemon, daemon.connect() as one:
        await create(one, persist="immediate")
        await say(one, "hi")
        refusal = await one.refusal("session/fork", session_id=SESSION)
        assert refusal.message == OUT_OF_REACH.message


async def test_a_copy_that_cannot_be_opened_keeps_what_another_daemon_appended(site: Site) -> None:
    class Fails(Held):
        """A connection that ends behind the creation of a copy, and waits with the removal of the copy."""

        is_over = True

        def create(self, *args: Any, **options: Any) -> Any:
            created = self.inner.create(*args, **options)
            self.is_over = False
            return created

        def pieces(self, *args: Any, **options: Any) -> Any:
            if not self.is_over:
                self.is_over, self.holds = True, "delete"
                raise OUT_OF_REACH
            return self.inner.pieces(*args, **options)

    async with clients_of(site, "three") as (three,):
        await create(three, persist="immediate")
        await append(three, "e-1")
        connection = Fails(site.connect())
        async with site.daemon("one", connection, NEVER) as daemon, daemon.connect() as one:
            asked = await one.request(
                "session/fork", session_id=SESSION, new_session_id="session-copy"
            )
            await happened(connection.has_begun)
            await append(three, "e-2", session_id="session-copy")
            connection.may_go.set()
            with pytest.raises(Refusal):
                await one.answer(asked)
            entries = await call(three, "session/entries", session_id="session-copy")
            assert [one["entry"]["id"] for one in entries["entries"]][-1] == "e-2"
            assert await call(three, "session/trash", "sessions") == []


async def test_an_archive_that_is_carried_out_late_undoes_no_answer(site: Site) -> None:
    connection = LosesAnswers(site)
    async with beside(site, connection, poll_seconds=NEVER) as (one, three):
        await create(one, persist="immediate")
        connection.loses, connection.is_late = {"move"}, True
        assert await refused(one, "session/archive") == "storage_error"
        await call(one, "session/archive")
        await call(three, "session/unarchive")
        (late,) = connection.late
        await to_thread.run_sync(late)
        assert not await call(three, "session/get", "session.archived")


async def test_a_delete_that_is_carried_out_late_undoes_no_restore(site: Site) -> None:
    connection = LosesAnswers(site)
    async with beside(site, connection, poll_seconds=NEVER) as (one, three):
        await create(one, persist="immediate")
        connection.loses, connection.is_late = {"delete"}, True
        assert await refused(one, "session/delete") == "storage_error"
        await call(one, "session/delete")
        await call(three, "session/restore")
        (late,) = connection.late
        await to_thread.run_sync(late)
        for wire in (one, three):
            assert await call(wire, "session/get", "session.id") == SESSION


async def test_a_restore_that_is_carried_out_late_undoes_no_delete(site: Site) -> None:
    connection = LosesAnswers(site)
    async with beside(site, connection, poll_seconds=NEVER) as (one, three):
        await create(one, persist="immediate")
        await call(one, "session/delete")
        connection.loses, connection.is_late = {"restore"}, True
        assert await refused(one, "session/restore") == "storage_error"
        await call(one, "session/restore")
        await call(three, "session/delete")
        (late,) = connection.late
        await to_thread.run_sync(late)
        for wire in (one, three):
            assert await refused(wire, "session/get") == "session_not_found"


class LosesAppends(Severed):
    """A connection that is away behind the next append, which is stored."""

    loses = False

    def append(self, *args: Any, **options: Any) -> Any:
        stored = self.inner.append(*args, **options)
        if self.loses:
            self.loses = self.is_there = False
            raise OUT_OF_REACH
        return stored


async def test_a_merge_of_unknown_outcome_is_repeated_under_its_key(site: Site) -> None:
    connection = LosesAppends(site.connect())
    async with beside(site, connection) as (one, three):
        await create(one, persist="immediate")
        await create(one, "session-b", persist="immediate")
        await append(one, "m1")
        merge = {"other_session_id": "session-b", "text": "both", "idempotency_key": "k"}
        # The other session is open by now.
        await call(one, "session/merge", dry_run=True, **merge)
        connection.loses = True
        assert await refused(one, "session/merge", **merge) == "storage_error"
        connection.is_there = True
        first = await call(three, "session/merge", **merge)
        assert await call(one, "session/merge", **merge) == first
        assert len(await call(three, "session/entries", "entries")) == 4
