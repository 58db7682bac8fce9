"""Lack of threads or memory: requests are refused with a retry time, and no entry is lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any
from unittest.mock import Mock

import pytest
from anyio import to_thread

from sessiond.limits import WATCH_POLL_SECONDS
from sessiond.rpc import readers
from sessiond.rpc.framing import Framer, Framing
from sessiond.service.external.watcher import PollingWatcher
from sessiond.service.thread_pool import ThreadPool
from sessiond.session.draft import Draft
from sessiond.testing.wire import Refusal, Wire
from tests.kit.calls import append, call, create, events, let_go, refused, session_info, watch
from tests.kit.clock import let_pass
from tests.kit.house import House
from tests.kit.patience import eventually
from tests.kit.sessions import SESSION, entry
from tests.service.one_database.site import Site

pytestmark = pytest.mark.both_loops

NO_THREAD = "can't start new thread"


class NoThreads:
    """Worker threads that cannot be started, `left` times."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.before = 0
        """Number of threads that are had first."""
        self.left = 0
        self._real: Callable[..., Awaitable[Any]] = to_thread.run_sync
        patch.setattr(to_thread, "run_sync", self._run)
        start = ThreadPool.start

        def start_disk(threads: ThreadPool, *work: Any) -> None:
            self._require_thread()
            start(threads, *work)

        patch.setattr(ThreadPool, "start", start_disk)

    async def _run(self, *arguments: Any, **options: Any) -> Any:
        self._require_thread()
        return await self._real(*arguments, **options)

    def _require_thread(self) -> None:
        if self.left and self.before:
            self.before -= 1
        elif self.left:
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
        # A look in the background may want a thread, too.
        threads.left = 100
        refused = await wire.refusal("session/import", content="{}")
        threads.left = 0
        assert (refused.data["kind"], refused.data["retryable"]) == ("overloaded", True)


@pytest.mark.usefixtures("clock")
async def test_each_thread_may_be_missing_once_and_the_daemon_goes_on(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = NoThreads(monkeypatch)
    for number in count():
        watching = PollingWatcher(house.files)
        async with (
            house.daemon(watching) as daemon,
            daemon.connect() as wire,
            daemon.connect() as other,
        ):
            threads.before, threads.left = number, 1
            await live_on(wire, other, f"session-of-{number}")
            was_missing, threads.left = not threads.left, 0
        if not was_missing:
            break
    assert number > 20


async def test_a_daemon_that_gets_no_thread_hears_of_its_database_again(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = NoThreads(monkeypatch)
    async with site.daemon("one") as one, one.connect() as wire, one.connect() as other:
        await create(wire)
        await append(wire, "one", role="assistant")
        await watch(other)
        await call(wire, "catalog/subscribe")
        await call(wire, "state/subscribe")
        for number in range(8):
            threads.before, threads.left = number, 1
            await eventually(lambda: not threads.left)
        async with site.daemon("two") as two, two.connect() as there:
            await append(there, "two")
        assert await events(other, 1) == [("two", 2)]


async def live_on(wire: Wire, other: Wire, name: str) -> None:
    """Begin a session, watch it and all others, let time pass, and delete it."""
    await patiently(wire, "session/create", session_id=name, cwd="/p")
    await patiently(wire, "session/append", session_id=name, entry=entry(f"one-of-{name}"))
    await patiently(other, "session/subscribe", session_id=name)
    await patiently(other, "catalog/subscribe")
    await let_pass(3 * WATCH_POLL_SECONDS)
    await patiently(wire, "session/append", session_id=name, entry=entry(f"two-of-{name}"))
    await patiently(wire, "state/set", namespace="n", key="k", value=1)
    await patiently(wire, "state/list")
    await patiently(wire, "session/list")
    await patiently(wire, "session/close", session_id=name)
    await patiently(wire, "session/verify", session_id=name)
    await patiently(wire, "session/append", session_id=name, entry=entry(f"three-of-{name}"))
    await patiently(wire, "session/delete", session_id=name)


async def test_a_commit_that_the_memory_does_not_suffice_for_leaves_the_call_in_doubt(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        await append(wire, "one", role="assistant")
        with monkeypatch.context() as patch:
            patch.setattr(Draft, "commit", Mock(side_effect=MemoryError))
            said = {"message": entry("two")["message"], "idempotency_key": "k"}
            # The entry is stored: `overloaded` would say that nothing was done.
            assert await refused(wire, "append", **said) == "storage_error"
        again = await call(wire, "append", **said)
        assert (again["duplicate"], again["seq"]) == (True, 2)


async def patiently(wire: Wire, method: str, **params: Any) -> None:
    """Call a method, and once more where it gets no thread. What was in doubt may be done already."""
    if (refusal := await refusal_of(wire, method, params)) is None:
        return
    assert refusal.data["retryable"], refusal.data
    assert refusal.data["kind"] in {"overloaded", "storage_error"}
    again = await refusal_of(wire, method, params)
    assert again is None or again.data["kind"] == "session_exists", again


async def refusal_of(wire: Wire, method: str, params: dict[str, Any]) -> Refusal | None:
    """Return the refusal of a call; None if the call is not refused."""
    try:
        await wire.call(method, **params)
    except Refusal as refusal:
        return refusal
    return None


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
