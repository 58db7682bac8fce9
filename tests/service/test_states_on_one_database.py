"""State store, queues and secrets of daemons that keep their sessions in one database."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from anyio import create_task_group

from sessiond.errors import StorageError
from sessiond.service.database.database import SessionDatabase
from sessiond.service.database.documents import SharedDocuments
from sessiond.state.document import Change
from sessiond.testing.wire import Wire
from tests.kit.calls import append, create
from tests.kit.patience import PATIENCE_SECONDS, happened
from tests.kit.sessions import SESSION
from tests.kit.state import NS, put, value_of
from tests.service.one_database.connections import OUT_OF_REACH, Wrapped
from tests.service.one_database.site import NEVER, Site, clients_of
from tests.service.test_lists_on_one_database import Asked

Put = Callable[..., bool]


async def test_a_value_is_read_at_the_other_daemon_once_it_is_answered(site: Site) -> None:
    async with clients_of(site, "one", "two") as (one, two):
        for number in range(3):
            await put(one, "a", number)
            assert await value_of(two, "a") == number
            await put(two, "a", [number])
            assert await value_of(one, "a") == [number]
        await one.call("state/delete", namespace=NS, key="a")
        assert await value_of(two, "a") is None
        await put(one, "b", 1)
        listed = await two.call("state/list")
        assert listed == await one.call("state/list")


async def test_values_that_two_daemons_set_at_once_are_all_stored(site: Site) -> None:
    async with clients_of(site, "one", "two") as wires:
        revisions: list[int] = []

        async def many(wire: Wire, name: str) -> None:
            revisions.extend([await put(wire, f"{name}-{number}", number) for number in range(20)])

        async with create_task_group() as tasks:
            for wire, name in zip(wires, ("one", "two"), strict=True):
                tasks.start_soon(many, wire, name)
        for wire in wires:
            for name in ("one", "two"):
                assert [await value_of(wire, f"{name}-{each}") for each in range(20)] == [
                    *range(20)
                ]
        assert len(set(revisions)) == len(revisions)


async def test_of_two_changes_from_one_revision_one_is_refused(site: Site) -> None:
    async with clients_of(site, "one", "two") as (one, two):
        first = await put(one, "a", 1)
        second = await put(two, "a", 2, expected_revision=first)
        assert second > first
        refusal = await one.refusal(
            "state/set", namespace=NS, key="a", value=3, expected_revision=first
        )
        assert refusal.data["kind"] == "revision_mismatch"
        assert refusal.data["actual_revision"] == second


async def test_a_subscriber_is_told_of_changes_at_the_other_daemon(site: Site) -> None:
    async with clients_of(site, "one", "two") as (one, two):
        await two.call("state/subscribe", namespace=NS)
        revision = await put(one, "a", 1)
        notice = await two.next_notification()
        assert notice["method"] == "state/changed"
        assert notice["params"] == {
            "namespace": NS,
            "key": "a",
            "revision": revision,
            "change": "set",
        }
        await one.call("state/delete", namespace=NS, key="a")
        assert (await two.next_notification())["params"]["change"] == "deleted"


async def test_a_prompt_waits_at_every_daemon_and_is_taken_once(site: Site) -> None:
    async with clients_of(site, "one", "two") as (one, two):
        await create(one, persist="immediate")
        said = {"session_id": SESSION, "kind": "steer", "data": "go", "queue": True}
        assert not (await one.call("session/signal", **said, queue_id="q-1"))["duplicate"]
        assert (await two.call("session/signal", **said, queue_id="q-1"))["duplicate"]
        waiting = (await two.call("session/queue", session_id=SESSION))["waiting"]
        assert [prompt["queue_id"] for prompt in waiting] == ["q-1"]
        await append(two, "q-1")
        assert (await one.call("session/signal", **said, queue_id="q-1"))["duplicate"]
        assert (await one.call("session/queue", session_id=SESSION))["waiting"] == []


async def test_a_prompt_that_may_be_taken_is_not_queued_again(site: Site) -> None:
    connection = Away(site.connect(), "heads")
    async with (
        site.daemon("one", connection, NEVER) as first,
        clients_of(site, "two") as (two,),
        first.connect() as one,
    ):
        await create(one, persist="immediate")
        said = {"session_id": SESSION, "kind": "steer", "data": "go", "queue": True}
        await one.call("session/signal", **said, queue_id="q-1")
        connection.is_away = True
        await append(two, "q-1")
        # Prompts that were taken are removed now.
        await two.call("session/signal", **said, queue_id="q-2")
        refusal = await one.refusal("session/signal", **said, queue_id="q-1")
        assert (refusal.data["kind"], refusal.data["retryable"]) == ("storage_error", True)
        connection.is_away = False
        assert (await one.call("session/signal", **said, queue_id="q-1"))["duplicate"]


class LostAnswers(Wrapped):
    """A connection that loses the answer to a write, which the server may have carried out."""

    loses: str | None = None

    def put_document(self, *arguments: Any) -> bool:
        loses, self.loses = self.loses, None
        if loses != "before":
            stored: bool = self.inner.put_document(*arguments)
            if loses is None:
                return stored
        raise StorageError("the connection was cut", errno="EIO", path="x", retryable=True)


@pytest.mark.parametrize("loses", ["before", "after"])
async def test_a_write_whose_answer_was_lost_is_looked_up(site: Site, loses: str) -> None:
    connection = LostAnswers(site.connect())
    async with (
        site.daemon("one", connection) as first,
        clients_of(site, "two") as (two,),
        first.connect() as one,
    ):
        await put(one, "a", 1)
        connection.loses = loses
        if loses == "after":
            await put(one, "a", 2)
        else:
            refusal = await one.refusal("state/set", namespace=NS, key="a", value=2)
            assert refusal.data["kind"] == "storage_error"
        assert (
            await value_of(two, "a") == await value_of(one, "a") == (2 if loses == "after" else 1)
        )
        await put(two, "a", 3)
        await put(one, "b", 4)
        assert [await value_of(two, key) for key in "ab"] == [3, 4]


class LostBehindOthers(Wrapped):
    """A connection that carries a write out, and loses the answer once a test lets it go."""

    loses = False

    def __init__(self, inner: SessionDatabase) -> None:
        super().__init__(inner)
        self.has_stored = threading.Event()
        self.may_go = threading.Event()

    def put_document(self, *arguments: Any) -> bool:
        stored: bool = self.inner.put_document(*arguments)
        if self.loses:
            self.loses = False
            self.has_stored.set()
            assert self.may_go.wait(PATIENCE_SECONDS)
            raise OUT_OF_REACH
        return stored


async def test_a_write_whose_answer_was_lost_counts_though_others_have_written_behind_it(
    site: Site,
) -> None:
    connection = LostBehindOthers(site.connect())
    async with (
        site.daemon("one", connection) as first,
        clients_of(site, "two") as (two,),
        first.connect() as one,
    ):
        revision = await put(one, "a", 1)
        connection.loses = True
        answers: list[int] = []

        async def change() -> None:
            answers.append(await put(one, "a", 2, expected_revision=revision))

        async with create_task_group() as tasks:
            tasks.start_soon(change)
            await happened(connection.has_stored)
            await put(two, "b", 3)
            connection.may_go.set()
        stored = await two.call("state/get", namespace=NS, key="a")
        assert (stored["value"], stored["revision"]) == (2, answers[0])
        assert [await value_of(one, key) for key in "ab"] == [2, 3]


class Away(Wrapped):
    """A connection to a database that is away for one kind of call when a test says so."""

    is_away = False

    def __init__(self, inner: SessionDatabase, asked: str = "document") -> None:
        super().__init__(inner)
        self._asked = asked

    def __getattr__(self, name: str) -> Any:
        if self.is_away and name == self._asked:
            raise OUT_OF_REACH
        return super().__getattr__(name)


async def test_while_the_database_is_away_values_are_read_and_none_is_stored(site: Site) -> None:
    connection = Away(site.connect())
    async with site.daemon("one", connection) as first, first.connect() as one:
        await put(one, "a", 1)
        connection.is_away = True
        assert await value_of(one, "a") == 1
        refusal = await one.refusal("state/set", namespace=NS, key="a", value=2)
        assert (refusal.data["kind"], refusal.data["retryable"]) == ("storage_error", True)
        connection.is_away = False
        assert await value_of(one, "a") == 1
        await put(one, "a", 2)
        assert await value_of(one, "a") == 2


@pytest.mark.parametrize("method", ["state/list", "secret/list"])
@pytest.mark.parametrize("asked", ["document", "document_tokens"])
async def test_a_list_that_may_be_old_says_so(site: Site, method: str, asked: str) -> None:
    connection = Away(site.connect(), asked)
    async with (
        site.daemon("one", connection) as first,
        clients_of(site, "two") as (two,),
        first.connect() as one,
    ):
        before = await one.call(method)
        connection.is_away = True
        await put(two, "a", 1)
        await two.call("secret/set", namespace="keys", key="a", value="first")
        shown = await one.call(method)
        assert "stale_since" in shown.pop("_meta")
        assert shown == before
        connection.is_away = False
        assert await one.call(method) == await two.call(method)


async def test_a_secret_and_a_count_of_prompts_that_may_be_old_say_so(site: Site) -> None:
    connection = Away(site.connect())
    async with (
        site.daemon("one", connection) as first,
        clients_of(site, "two") as (two,),
        first.connect() as one,
    ):
        await create(one, persist="immediate")
        connection.is_away = True
        await two.call("secret/set", namespace="keys", key="a", value="first")
        said = {"session_id": SESSION, "kind": "steer", "data": "go", "queue": True}
        await two.call("session/signal", **said)
        for method, params in (
            ("secret/get", {"namespace": "keys", "key": "a"}),
            ("session/stats", {"session_id": SESSION}),
        ):
            answer = await one.call(method, **params)
            assert "stale_since" in answer["_meta"]


async def test_while_the_database_is_away_no_change_is_answered_that_seems_to_be_made(
    site: Site,
) -> None:
    connection = Away(site.connect())
    async with (
        site.daemon("one", connection) as first,
        clients_of(site, "two") as (two,),
        first.connect() as one,
    ):
        await create(one, persist="immediate")
        said = {"session_id": SESSION, "kind": "steer", "data": "go", "queue": True}
        connection.is_away = True
        # The first daemon has not seen these.
        await put(two, "a", 1)
        await two.call("session/signal", **said, queue_id="q-1")
        for method, params in (
            ("state/delete", {"namespace": NS, "key": "a"}),
            ("session/queue", {"session_id": SESSION, "done": ["q-1"]}),
        ):
            refusal = await one.refusal(method, **params)
            assert (refusal.data["kind"], refusal.data["retryable"]) == ("storage_error", True)


async def test_values_outlive_all_daemons(site: Site) -> None:
    async with clients_of(site, "one") as (one,):
        revision = await put(one, "a", 1)
    async with clients_of(site, "two") as (two,):
        assert await value_of(two, "a") == 1
        assert await put(two, "a", 2) > revision


async def test_daemons_with_one_key_share_secrets_and_others_are_told(site: Site) -> None:
    async with clients_of(site, "one") as (one,):
        await one.call("secret/set", namespace="keys", key="a", value="first")
        async with clients_of(site, "two") as (two,):
            refusal = await two.refusal("secret/get", namespace="keys", key="a")
            assert refusal.data["kind"] == "secret_key_unavailable"
            # The daemons have one key from now on, in files of one mode.
            shutil.copy(site.home / "one.key", site.home / "two.key")
            assert (await two.call("secret/get", namespace="keys", key="a"))["value"] == "first"
            await two.call("secret/set", namespace="keys", key="a", value="second")
            assert (await one.call("secret/get", namespace="keys", key="a"))["value"] == "second"
            rows = await one.call("secret/list", namespace="keys")
            assert rows == await two.call("secret/list", namespace="keys")


async def test_a_key_is_not_replaced_while_secrets_of_other_daemons_may_be_unseen(
    site: Site,
) -> None:
    connection = Away(site.connect(), "document_tokens")
    async with site.daemon("one", connection) as first, first.connect() as one:
        await one.call("secret/set", namespace="keys", key="a", value="first")
        async with clients_of(site, "two") as (two,):
            # The daemons have one key from now on, in files of one mode.
            shutil.copy(site.home / "one.key", site.home / "two.key")
            connection.is_away = True
            await two.call("secret/set", namespace="more", key="b", value="second")
            refusal = await one.refusal("secret/rotate")
            assert refusal.data["kind"] == "storage_error"
        connection.is_away = False
        assert (await one.call("secret/rotate"))["secrets"] == 2
        for namespace, key, value in (("keys", "a", "first"), ("more", "b", "second")):
            answer = await one.call("secret/get", namespace=namespace, key=key)
            assert answer["value"] == value


class Unreserved(Wrapped):
    """A connection that gives no revisions, and does not tell which documents have changed, while a test says so."""

    is_away = False

    def __getattr__(self, name: str) -> Any:
        if self.is_away and name in {"reserve", "document_tokens"}:
            raise OUT_OF_REACH
        return super().__getattr__(name)


async def test_a_change_that_a_failed_call_has_seen_is_told_later(site: Site) -> None:
    connection = Unreserved(site.connect())
    async with (
        clients_of(site, "one") as (one,),
        site.daemon("two", connection) as second,
        second.connect() as two,
    ):
        await two.call("state/subscribe", namespace=NS)
        connection.is_away = True
        revision = await put(one, "a", 1)
        # The call finds the other daemon's row, and gets no revision.
        refusal = await two.refusal("state/set", namespace=NS, key="b", value=2)
        assert refusal.data["kind"] == "storage_error"
        connection.is_away = False
        await put(one, "c", 3)
        first = (await two.next_notification())["params"]
        assert (first["key"], first["revision"], first["change"]) == ("a", revision, "set")
        assert (await two.next_notification())["params"]["key"] == "c"


async def test_a_value_that_ends_behind_the_look_of_a_read_ends_for_the_next_one(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    hour_ms, late_ms = 3_600_000, [0]
    look, ms_at = SharedDocuments.look, SharedDocuments.ms_at

    def slow_look(documents: SharedDocuments, *call: Any, **members: Any) -> Sequence[Change]:
        found = look(documents, *call, **members)
        late_ms[0] = 2 * hour_ms
        return found

    connection = Asked(site)
    async with site.daemon("one", connection) as first, first.connect() as one:
        await put(one, "a", 1, ttl_ms=hour_ms)
        monkeypatch.setattr(SharedDocuments, "look", slow_look)
        monkeypatch.setattr(
            SharedDocuments, "ms_at", lambda documents, now: ms_at(documents, now) + late_ms[0]
        )
        assert await value_of(one, "a") == 1
        assert await value_of(one, "a") is None
    # Each document that was written has revisions that no other daemon gets. A start reserves epochs of leases.
    assert connection.calls["put_document"] == connection.calls["reserve"] - 1 == 2
