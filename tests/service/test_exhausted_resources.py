"""Lack of threads or memory: requests are refused with a retry time, and no entry is lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from anyio import to_thread

from sessiond.rpc import readers
from sessiond.rpc.framing import Framer, Framing
from sessiond.service.actor.disk_threads import DiskThreads
from tests.kit.calls import append, create, let_go, session_info
from tests.kit.house import House
from tests.kit.sessions import SESSION

pytestmark = pytest.mark.both_loops

NO_THREAD = "can't start new thread"


class NoThreads:
    """Worker threads that cannot be started, `left` times."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.left = 0
        self._real: Callable[..., Awaitable[Any]] = to_thread.run_sync
        patch.setattr(to_thread, "run_sync", self._run)
        start = DiskThreads.start

        def start_disk(threads: DiskThreads, *work: Any) -> None:
            self._require_thread()
            start(threads, *work)

        patch.setattr(DiskThreads, "start", start_disk)

    async def _run(self, *arguments: Any, **options: Any) -> Any:
        self._require_thread()
        return await self._real(*arguments, **options)

    def _require_thread(self) -> None:
        if self.left:
            self.left -= 1
            raise RuntimeError(NO_THREAD)


async def test_a_session_that_gets_no_thread_is_opened_later(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = NoThreads(monkeypatch)
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        await append(wire, "one", role="assistant")
        await let_go(daemon, wire)
        threads.left = 1
        refused = await wire.refusal("session/get", session_id=SESSION)
        assert refused.data["kind"] == "overloaded"
        assert refused.data["retry_after_ms"] > 0
        assert (await append(wire, "two", role="assistant"))["seq"] == 2


async def test_an_append_that_gets_no_thread_is_refused_and_the_session_stays(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = NoThreads(monkeypatch)
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await create(wire)
        await append(wire, "one", role="assistant")
        await other.call("subscribe", session_id=SESSION)
        actor = daemon.service.registry.find(SESSION)
        threads.left = 1
        entry = {"type": "message", "id": "two", "message": {"role": "user"}}
        refused = await wire.refusal("append", session_id=SESSION, entry=entry)
        assert (refused.data["kind"], refused.data["retryable"]) == ("overloaded", True)
        assert (await session_info(wire))["seq"] == 1
        assert not (await wire.call("append", session_id=SESSION, entry=entry))["duplicate"]
        assert (await other.next_notification())["params"]["seq"] == 2
        assert daemon.service.registry.find(SESSION) is actor


async def test_a_file_is_let_go_of_without_a_thread_too(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = NoThreads(monkeypatch)
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        await append(wire, "one", role="assistant")
        threads.left = 100
        await let_go(daemon, wire)
        threads.left = 0
        assert house.disk.open_descriptors == 0
        assert (await append(wire, "two", role="assistant"))["seq"] == 2


async def test_a_job_without_a_thread_is_told_to_come_again(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = NoThreads(monkeypatch)
    async with house.daemon() as daemon, daemon.connect() as wire:
        threads.left = 1
        refused = await wire.refusal("session/import", content="{}")
        assert (refused.data["kind"], refused.data["retryable"]) == ("overloaded", True)


class Short(bytearray):
    """A buffer without memory for more than a few bytes."""

    def __iadd__(self, more: Any) -> Any:  # type: ignore[misc]
        if len(self) + len(more) > 100:
            raise MemoryError
        return super().__iadd__(more)


@pytest.mark.parametrize("framing", Framing)
def test_a_frame_without_room_is_refused_and_the_next_one_is_heard(
    framing: Framing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "bytearray", Short, raising=False)
    framer = Framer()
    frame = framing.encode
    small, large = b'{"small":1}', b'{"large":"%s"}' % (b"x" * 500)
    sent = frame(small) + frame(large) + frame(small)
    items = [item for at in range(0, len(sent), 50) for item in framer.feed(sent[at : at + 50])]
    assert [getattr(item, "kind", item) for item in items] == [small, "overloaded", small]
    assert framer.closing is None
