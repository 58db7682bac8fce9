"""Leases that renew themselves and presence, which last as long as a connection: a real daemon."""

from __future__ import annotations

import signal
from queue import SimpleQueue
from typing import Any

import anyio
import pytest
from anyio import to_thread

from sessiond_client import (
    Client,
    LeaseLost,
    Presence,
    Present,
    RpcError,
    Subscription,
    connect,
    connect_blocking,
)
from tests.kit.patience import PATIENCE_SECONDS
from tests.processes.harness.daemon import Daemon

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.both_loops]

PATIENT: dict[str, Any] = {"timeout": PATIENCE_SECONDS, "connect_timeout": 20.0}
MESSAGE = {"role": "user", "content": "hi"}


async def made(client: Client) -> str:
    return (await client.create("/p", persist="immediate")).session.id


async def kind_of(client: Client, session_id: str, **options: Any) -> str:
    with pytest.raises(RpcError) as refused:
        await client.append(session_id, message=MESSAGE, **options)
    return refused.value.kind


def counted(client: Any, monkeypatch: pytest.MonkeyPatch) -> SimpleQueue[str]:
    """Return a queue with a lease id for each renewal."""
    renewed: SimpleQueue[str] = SimpleQueue()
    renew = client.renew

    async def noted(session_id: str, lease_id: str, ttl_ms: int, **options: Any) -> Any:
        lease = await renew(session_id, lease_id, ttl_ms, **options)
        renewed.put(lease.lease_id)
        return lease

    def noted_by_a_thread(session_id: str, lease_id: str, ttl_ms: int, **options: Any) -> Any:
        lease = renew(session_id, lease_id, ttl_ms, **options)
        renewed.put(lease.lease_id)
        return lease

    is_async = isinstance(client, Client)
    monkeypatch.setattr(client, "renew", noted if is_async else noted_by_a_thread)
    return renewed


@pytest.mark.real_clock
async def test_a_lease_is_renewed_in_time_and_released_at_the_end(
    server: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        connect(server.socket_path, **PATIENT) as client,
        connect(server.socket_path) as other,
    ):
        session_id = await made(client)
        renewed = counted(client, monkeypatch)
        # Long enough for a machine that stands still for seconds.
        async with client.lease(session_id, ttl=6) as lease:
            assert await kind_of(other, session_id) == "lease_held"
            first, epoch = lease.id, lease.epoch
            for _ in range(2):
                again = await to_thread.run_sync(renewed.get, True, PATIENCE_SECONDS)
                assert (again, lease.id) == (first, first)
            await client.append(session_id, message=MESSAGE, lease_id=lease.id)
            assert not lease.lost.is_set()
        await other.append(session_id, message=MESSAGE)
        async with other.lease(session_id) as later:
            assert later.epoch > epoch


async def test_who_waits_for_a_lease_gets_it_when_it_is_released(server: Daemon) -> None:
    order: list[str] = []
    path = server.socket_path

    async with connect(path, **PATIENT) as first, connect(path, **PATIENT) as second:
        session_id = await made(first)

        async def wait() -> None:
            async with second.lease(session_id, ttl=20, wait_ms=50_000) as lease:
                order.append("second")
                await second.append(session_id, message=MESSAGE, lease_id=lease.id)

        async with (
            anyio.create_task_group() as tasks,
            first.lease(session_id, ttl=20) as lease,
        ):
            tasks.start_soon(wait)
            await first.append(session_id, message=MESSAGE, lease_id=lease.id)
            order.append("first")
    assert order == ["first", "second"]


async def test_what_goes_wrong_inside_comes_out_as_it_is_and_the_head_is_free(
    server: Daemon,
) -> None:
    async with connect(server.socket_path, **PATIENT) as client:
        session_id = await made(client)
        with pytest.raises(KeyError):
            async with client.lease(session_id):
                raise KeyError
        await client.append(session_id, message=MESSAGE)
        with anyio.CancelScope() as scope:
            async with client.lease(session_id):
                scope.cancel()
                await anyio.sleep_forever()
        await client.append(session_id, message=MESSAGE)


async def test_a_lease_that_somebody_ended_is_lost_at_its_next_use(server: Daemon) -> None:
    async with (
        connect(server.socket_path, **PATIENT) as client,
        connect(server.socket_path, **PATIENT) as other,
    ):
        session_id = await made(client)
        async with client.lease(session_id, ttl=6) as lease:
            await other.release(session_id, lease.id)
            with anyio.fail_after(PATIENCE_SECONDS):
                await lease.lost.wait()
            with pytest.raises(LeaseLost, match="lease_lost"):
                _ = lease.id
            with pytest.raises(LeaseLost):
                _ = lease.epoch


async def test_a_lease_ends_with_a_daemon_that_is_killed_and_is_not_taken_up_again(
    server: Daemon,
) -> None:
    async with connect(server.socket_path, **PATIENT) as client:
        session_id = await made(client)
        async with client.lease(session_id, ttl=2.0) as lease:
            epoch = lease.epoch
            await to_thread.run_sync(_kill, server)
            with anyio.fail_after(PATIENCE_SECONDS):
                await lease.lost.wait()
            with pytest.raises(LeaseLost):
                _ = lease.id
        # The client goes on, and so do the epochs.
        async with client.lease(session_id) as again:
            assert again.epoch > epoch
            await client.append(session_id, message=MESSAGE, lease_id=again.id)


@pytest.mark.real_clock
def test_threads_hold_leases_the_same_way(server: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    path = server.socket_path
    with connect_blocking(path, **PATIENT) as client, connect_blocking(path) as other:
        session_id = client.create("/p", persist="immediate").session.id
        renewed = counted(client, monkeypatch)
        with client.lease(session_id, ttl=6) as lease:
            assert renewed.get(timeout=PATIENCE_SECONDS) == lease.id
            client.append(session_id, message=MESSAGE, lease_id=lease.id)
            with pytest.raises(RpcError, match="lease_held"):
                other.append(session_id, message=MESSAGE)
            epoch = lease.epoch
        other.append(session_id, message=MESSAGE)
        with client.lease(session_id, ttl=2) as lease:
            assert lease.epoch > epoch
            _kill(server)
            assert lease.lost.wait(PATIENCE_SECONDS)
            with pytest.raises(LeaseLost):
                _ = lease.id
        client.append(session_id, message=MESSAGE)


async def somebody(events: Subscription) -> Present:
    """Return the first client that a presence notification names."""
    async for event in events:
        if isinstance(event, Presence) and event.clients:
            return event.clients[0]
    pytest.fail("the subscription ended")


async def test_presence_is_said_again_after_a_kill(server: Daemon) -> None:
    async with (
        connect(server.socket_path, client_id="agent", **PATIENT) as client,
        connect(server.socket_path, **PATIENT) as watcher,
    ):
        session_id = await made(client)
        await client.presence(session_id, state="thinking", data={"n": 1})
        await to_thread.run_sync(_kill, server)
        async with watcher.subscribe(session_id, signals=True) as events:
            # A connection is made again when somebody waits for something.
            await client.ping()
            with anyio.fail_after(PATIENCE_SECONDS):
                agent = await somebody(events)
        assert (agent.client_id, agent.state, agent.data) == ("agent", "thinking", {"n": 1})


def _kill(server: Daemon) -> None:
    server.end(signal.SIGKILL)
    server.start()
