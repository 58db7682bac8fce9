"""Queues of prompts: durable before anybody learns of them, and taken once by an append."""

from __future__ import annotations

import errno
from typing import Any

import pytest
from msgspec.structs import replace

from sessiond.limits import SIGNAL_BYTES_MAX
from sessiond.testing.daemon import Wire
from tests.kit.calls import append, call, create, create_with
from tests.kit.house import House
from tests.kit.limits import set_limits
from tests.kit.sessions import SESSION

pytestmark = pytest.mark.both_loops

STEER, LATER = "steer", "follow_up"

IDS = "waiting[].queue_id"
"""Ids of the prompts that wait, in the order in which to take them."""


async def queue(wire: Wire, kind: str, queue_id: str, data: Any = "Do it.", **more: Any) -> Any:
    asked = {"session_id": SESSION, "kind": kind, "data": data, "queue": True}
    return await wire.call("session/signal", **asked, queue_id=queue_id, **more)


@pytest.mark.parametrize("persist", ["immediate", "on_assistant", "never"])
async def test_prompts_to_steer_by_come_first_and_each_kind_in_its_order(
    house: House, persist: str
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await wire.call("initialize", client_id="editor")
        await create(wire, persist=persist)
        for kind, queue_id in ((LATER, "q1"), (STEER, "q2"), (LATER, "q3"), (STEER, "q4")):
            answer = await queue(wire, kind, queue_id, {"b": 1.50, "a": queue_id})
            assert answer == {"queue_id": queue_id, "duplicate": False}
        assert await call(wire, "session/queue", IDS) == ["q2", "q4", "q1", "q3"]
        (first, *_) = (await wire.call("session/queue", session_id=SESSION))["waiting"]
        assert first == {
            "kind": STEER,
            "data": {"b": 1.50, "a": "q2"},
            "timestamp": "2026-01-15T10:30:00.000Z",
            "origin": {"client_id": "editor"},
            "queue_id": "q2",
        }
        made = await wire.call("session/signal", session_id=SESSION, kind=STEER, queue=True)
        assert await call(wire, "session/queue", IDS) == [
            "q2",
            "q4",
            made["queue_id"],
            "q1",
            "q3",
        ]


@pytest.mark.parametrize("persist", ["immediate", "never"])
async def test_statistics_count_the_prompts_that_wait(house: House, persist: str) -> None:
    async def counts(wire: Wire) -> Any:
        return (await wire.call("session/stats", session_id=SESSION))["queue"]

    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, persist=persist)
        await create(wire, session_id="session-b", persist=persist)
        assert await counts(wire) == {"steer": 0, "follow_up": 0, "other": 0, "total": 0}
        for number, kind in enumerate((LATER, STEER, LATER, "review", LATER)):
            await queue(wire, kind, f"q{number}")
        await wire.call("session/signal", session_id="session-b", kind=STEER, queue=True)
        assert await counts(wire) == {"steer": 1, "follow_up": 3, "other": 1, "total": 5}
        taken = {"type": "message", "id": "q0", "message": {"role": "user", "content": "Do it."}}
        await wire.call("append", session_id=SESSION, entry=taken)
        assert await call(wire, "session/queue", IDS, done=["q3"]) == [
            "q1",
            "q2",
            "q4",
        ]
        assert await counts(wire) == {"steer": 1, "follow_up": 2, "other": 0, "total": 3}


@pytest.mark.parametrize("persist", ["immediate", "never"])
async def test_an_append_with_the_id_of_a_prompt_takes_it_once(house: House, persist: str) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, persist=persist)
        await queue(wire, STEER, "q1")
        await queue(wire, STEER, "q2")
        await append(wire, "q1")
        assert await call(wire, "session/queue", IDS) == ["q2"]
        # The entry stays taken where no head has it on its path.
        await call(wire, "session/reset")
        assert await call(wire, "session/queue", IDS) == ["q2"]
        # The sender's answer was lost, and the agent has the prompt already.
        assert await queue(wire, STEER, "q1") == {"queue_id": "q1", "duplicate": True}
        assert await queue(wire, STEER, "q2") == {"queue_id": "q2", "duplicate": True}
        assert await call(wire, "session/queue", IDS) == ["q2"]
        refused = await wire.refusal(
            "session/signal", session_id=SESSION, kind=STEER, data="else", queue=True, queue_id="q2"
        )
        # Nothing is stored under the id of a prompt that waits.
        conflict = {"kind": "idempotency_conflict", "retryable": False, "entry_id": "q2"}
        assert refused.data == conflict
        assert await call(wire, "session/queue", IDS, done=["q2", "q9"]) == []


@pytest.mark.parametrize("persist", ["immediate", "never"])
async def test_a_prompt_that_was_removed_comes_back_with_no_retry(
    house: House, persist: str
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, persist=persist)
        await queue(wire, STEER, "q1")
        await queue(wire, STEER, "q2")
        assert await call(wire, "session/queue", IDS, done=["q1", "q9"]) == ["q2"]
        # The sender's answer was lost.
        assert await queue(wire, STEER, "q1") == {"queue_id": "q1", "duplicate": True}
        assert await call(wire, "session/queue", IDS) == ["q2"]
        # A prompt that never waited was not removed.
        assert await queue(wire, STEER, "q9") == {"queue_id": "q9", "duplicate": False}
        await wire.call("session/update", session_id=SESSION, persist="immediate")
        assert (await queue(wire, STEER, "q1"))["duplicate"]
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert (await queue(wire, STEER, "q1"))["duplicate"]
        assert await call(wire, "session/queue", IDS) == ["q2", "q9"]


async def test_the_ids_of_removed_prompts_are_kept_for_an_hour_and_in_limited_number(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, QUEUE_DONE_MAX=2)
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, persist="immediate")
        for queue_id in ("q1", "q2", "q3"):
            await queue(wire, STEER, queue_id)
        await call(wire, "session/queue", IDS, done=["q1"])
        await call(wire, "session/queue", IDS, done=["q2", "q3"])
        again = [(await queue(wire, STEER, one))["duplicate"] for one in ("q1", "q2", "q3")]
        assert again == [False, True, True]
    house.environment = replace(house.environment, now=lambda: "2026-01-15T11:29:59.000Z")
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert (await queue(wire, STEER, "q3"))["duplicate"]
    house.environment = replace(house.environment, now=lambda: "2026-01-15T12:30:00.000Z")
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert not (await queue(wire, STEER, "q3"))["duplicate"]
        assert await call(wire, "session/queue", IDS) == ["q1", "q3"]


async def test_prompts_wait_over_a_restart_and_an_unloaded_session(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1", persist="immediate")
        await queue(wire, LATER, "q1")
        await queue(wire, STEER, "q2")
        await wire.call("session/close", session_id=SESSION)
        assert await call(wire, "session/queue", IDS) == ["q2", "q1"]
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await call(wire, "session/queue", IDS) == ["q2", "q1"]
        assert await call(wire, "session/queue", IDS, done=["q2"]) == ["q1"]
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await call(wire, "session/queue", IDS) == ["q1"]


async def test_prompts_in_memory_go_to_the_disk_with_their_session(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, persist="never")
        await queue(wire, LATER, "q1")
        await queue(wire, STEER, "q2")
        await queue(wire, STEER, "q3")
        # The first one is that of the session's file.
        house.disk.fail("rename", nth=2, errno=errno.ENOSPC)
        to_disk = {"session_id": SESSION, "persist": "immediate"}
        refused = await wire.refusal("session/update", **to_disk)
        assert (refused.data["kind"], refused.data["errno"]) == ("storage_error", "ENOSPC")
        assert await call(wire, "session/queue", IDS, done=["q3"]) == ["q2", "q1"]
        assert (await wire.call("session/update", **to_disk))["session"]["persisted"]
        # The sender's answer was lost.
        assert await queue(wire, LATER, "q1") == {"queue_id": "q1", "duplicate": True}
        assert await call(wire, "session/queue", IDS) == ["q2", "q1"]
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await call(wire, "session/queue", IDS) == ["q2", "q1"]


async def test_a_retry_stores_what_the_disk_refused_with_its_session(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, persist="never")
        await queue(wire, STEER, "q1")
        house.disk.fail("rename", nth=2, errno=errno.ENOSPC)
        await wire.refusal("session/update", session_id=SESSION, persist="immediate")
        assert await queue(wire, STEER, "q1") == {"queue_id": "q1", "duplicate": True}
        await queue(wire, STEER, "q2")
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await call(wire, "session/queue", IDS) == ["q1", "q2"]


async def test_subscribers_learn_of_a_prompt_once_and_only_when_it_is_durable(
    house: House,
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as agent:
        await create_with(wire, "n1", persist="immediate")
        await agent.call("subscribe", session_id=SESSION, signals=True)
        house.disk.fail("rename", errno=errno.ENOSPC)
        data = (
            await wire.refusal("session/signal", session_id=SESSION, kind=STEER, queue=True)
        ).data
        assert (data["kind"], data["errno"]) == ("storage_error", "ENOSPC")
        assert await call(wire, "session/queue", IDS) == []
        await queue(wire, STEER, "q1")
        await queue(wire, STEER, "q1")
        told = await agent.next_notification()
        assert told["method"] == "session/signal"
        assert told["params"]["queue_id"] == "q1"
        assert (told["params"]["kind"], told["params"]["data"]) == (STEER, "Do it.")
        await agent.call("server/ping")
        assert agent.notifications == []


async def test_another_session_of_the_same_id_has_a_queue_of_its_own(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1", persist="immediate")
        await queue(wire, STEER, "q1")
        await wire.call("session/delete", session_id=SESSION)
        await wire.call("session/restore", session_id=SESSION)
        assert await call(wire, "session/queue", IDS) == ["q1"]
        await wire.call("session/delete", session_id=SESSION)
    house.environment = replace(house.environment, now=lambda: "2026-01-15T10:30:01.000Z")
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, persist="immediate")
        assert await call(wire, "session/queue", IDS) == []


async def test_a_session_in_the_place_of_one_deleted_just_now_has_no_prompts(house: House) -> None:
    """The clock of the house stands: by the clock both sessions are created at the same time."""
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, persist="immediate")
        await queue(wire, STEER, "q1")
        await wire.call("session/delete", session_id=SESSION)
        await create(wire, persist="immediate")
        assert await call(wire, "session/queue", IDS) == []
        await queue(wire, STEER, "q2")
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await call(wire, "session/queue", IDS) == ["q2"]


async def test_a_purge_erases_what_waits_and_nothing_of_a_later_session(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1", persist="immediate")
        await create(wire, "session-b", persist="immediate")
        await queue(wire, STEER, "q1", "Only once.")
        other = {"session_id": "session-b", "kind": STEER, "queue": True, "queue_id": "q1"}
        await wire.call("session/signal", **other)
        await wire.call("session/delete", session_id=SESSION)
        await wire.call("session/purge", session_id=SESSION)
        assert not any(b"Only once." in house.disk.content(path) for path in house.disk.paths)
        assert await call(wire, "session/queue", IDS, session_id="session-b") == ["q1"]


async def test_a_queue_is_bounded_and_its_parameters_are_checked(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, QUEUED_PROMPTS_MAX=2)
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as reader:
        await create(wire)
        await queue(wire, STEER, "q1", "x" * (SIGNAL_BYTES_MAX - 2))
        await queue(wire, STEER, "q2")
        for params, kind in (
            ({"queue": True}, "overloaded"),
            ({"queue": True, "data": "x" * (SIGNAL_BYTES_MAX - 1)}, "too_large"),
            ({"queue_id": "q3"}, "invalid_params"),
            ({"queue": True, "queue_id": "../x"}, "invalid_params"),
        ):
            asked: dict[str, Any] = {"session_id": SESSION, "kind": STEER, **params}
            assert (await wire.refusal("session/signal", **asked)).data["kind"] == kind
        assert (await queue(wire, STEER, "q2"))["duplicate"]
        await reader.call("initialize", access="read")
        assert await call(reader, "session/queue", IDS) == ["q1", "q2"]
        refused = await reader.refusal("session/queue", session_id=SESSION, done=["q1"])
        assert refused.data["kind"] == "permission_denied"
        await append(wire, "q1")
        await queue(wire, STEER, "q3")
        assert await call(wire, "session/queue", IDS) == ["q2", "q3"]


async def test_clients_cannot_reach_the_daemons_namespace(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        await wire.call("state/subscribe")
        await queue(wire, STEER, "q1")
        assert (await wire.call("state/list"))["namespaces"] == []
        assert wire.notifications == []
        named = {"namespace": "sessiond.queues", "key": "k"}
        for method, params in (
            ("state/get", {}),
            ("state/set", {"value": 1}),
            ("state/delete", {}),
        ):
            refused = await wire.refusal(method, **named, **params)
            assert (refused.data["kind"], refused.data["path"]) == ("invalid_params", "namespace")
