"""Threads that live on from batch to batch: how many, how they end, and what is told of their work."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from unittest.mock import Mock

import anyio
import anyio.lowlevel
import pytest
import sniffio

from sessiond.limits import PLACE_THREADS_MAX
from sessiond.service.thread_pool import Outcome, ThreadPool
from tests.kit.patience import PATIENCE_SECONDS

pytestmark = [pytest.mark.both_loops, pytest.mark.platform]


class Log:
    """Collects outcomes in the order in which they are told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Outcome]] = []
        self._more = anyio.Event()

    def note(self, name: str, outcome: Outcome) -> None:
        self.told.append((name, outcome))
        self._more.set()

    async def wait(self, count: int) -> None:
        with anyio.fail_after(PATIENCE_SECONDS):
            while len(self.told) < count:
                self._more = anyio.Event()
                await self._more.wait()


FAIL = Mock(side_effect=OSError("the disk is gone"))
NO_THREAD = Mock(side_effect=RuntimeError("can't start new thread"))


@asynccontextmanager
async def threads_of(count: int) -> AsyncGenerator[tuple[ThreadPool, Log]]:
    threads = ThreadPool(count)
    try:
        yield threads, Log()
    finally:
        threads.end()


def disk_threads() -> set[threading.Thread]:
    """Return the disk threads of this process; those of earlier tests may still be ending."""
    return {one for one in threading.enumerate() if one.name == "disk"}


async def test_work_is_done_one_after_another_by_one_thread_that_lives_on() -> None:
    before = disk_threads()
    async with threads_of(4) as (threads, log):
        names: list[int] = []
        for number in range(3):
            threads.start(
                lambda: names.append(threading.get_ident()), partial(log.note, str(number))
            )
            await log.wait(number + 1)
        assert [name for name, _ in log.told] == ["0", "1", "2"]
        assert len(set(names)) == 1
        assert len(disk_threads() - before) == 1


async def test_the_outcome_is_told_on_the_loop_and_a_failure_is_one() -> None:
    async with threads_of(1) as (threads, log):
        loop, found = threading.get_ident(), []

        def done(outcome: Outcome) -> None:
            found.append((threading.get_ident(), sniffio.current_async_library()))
            log.note("done", outcome)

        threads.start(lambda: 7, done)
        threads.start(FAIL, done)
        await log.wait(2)
        assert found == [(loop, sniffio.current_async_library())] * 2
        (_, first), (_, second) = log.told
        assert (first.result, first.failure) == (7, None)
        assert isinstance(second.failure, OSError)


async def test_there_are_no_more_threads_than_allowed_and_the_rest_waits() -> None:
    before = disk_threads()
    gate = threading.Event()
    async with threads_of(2) as (threads, log):
        for number in range(5):
            threads.start(partial(gate.wait, PATIENCE_SECONDS), partial(log.note, str(number)))
        assert len(disk_threads() - before) == 2
        assert log.told == []
        gate.set()
        await log.wait(5)
        assert {outcome.result for _, outcome in log.told} == {True}


async def test_a_place_takes_a_few_threads_and_its_other_work_waits_for_these() -> None:
    gate = threading.Event()
    async with threads_of(PLACE_THREADS_MAX + 2) as (threads, log):
        for number in range(PLACE_THREADS_MAX + 3):
            wait = partial(gate.wait, PATIENCE_SECONDS)
            threads.start(wait, partial(log.note, f"a{number}"), place="/mnt/a")
        threads.start(lambda: None, partial(log.note, "b"), place="/mnt/b")
        threads.start(lambda: None, partial(log.note, "own"))
        await log.wait(2)
        assert {name for name, _ in log.told} == {"b", "own"}
        gate.set()
        await log.wait(PLACE_THREADS_MAX + 5)
        threads.start(lambda: None, partial(log.note, "again"), place="/mnt/a")
        await log.wait(PLACE_THREADS_MAX + 6)


async def test_work_is_abandoned_only_where_the_caller_says_so() -> None:
    gate = threading.Event()
    async with threads_of(1) as (threads, _log):
        with anyio.move_on_after(0.01) as scope:
            await threads.finish(partial(gate.wait, PATIENCE_SECONDS), abandon=True)
        assert scope.cancelled_caught
        gate.set()
        assert await threads.finish(lambda: 7) == 7


async def test_the_threads_end_with_the_loop() -> None:
    before = disk_threads()
    async with threads_of(3) as (threads, log):
        threads.start(lambda: None, partial(log.note, "one"))
        await log.wait(1)
        running = disk_threads() - before
        assert len(running) == 1
    for one in running:
        await anyio.to_thread.run_sync(one.join, PATIENCE_SECONDS)
    assert not disk_threads() & running


async def test_without_a_thread_work_is_refused_unless_another_one_can_do_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate = threading.Event()
    async with threads_of(3) as (threads, log):
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", NO_THREAD)
            with pytest.raises(RuntimeError, match="new thread"):
                threads.start(lambda: None, partial(log.note, "refused"))
        threads.start(partial(gate.wait, PATIENCE_SECONDS), partial(log.note, "first"))
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", NO_THREAD)
            threads.start(lambda: None, partial(log.note, "second"))
        gate.set()
        await log.wait(2)
        assert [name for name, _ in log.told] == ["first", "second"]


async def test_a_caller_waits_for_the_end_of_its_work_even_if_cancelled() -> None:
    gate = threading.Event()
    ended: list[bool] = []
    async with threads_of(1) as (threads, _log):
        assert await threads.finish(lambda: 7) == 7
        with pytest.raises(OSError, match="the disk is gone"):
            await threads.finish(FAIL)
        async with anyio.create_task_group() as tasks:

            async def wait() -> None:
                ended.append(await threads.finish(partial(gate.wait, PATIENCE_SECONDS)))

            tasks.start_soon(wait)
            await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
            gate.set()
        assert ended == [True]


async def test_work_behind_the_end_is_done_and_leaves_no_thread() -> None:
    before = disk_threads()
    async with threads_of(2) as (threads, log):
        pass
    running = list[threading.Thread]()
    threads.start(lambda: running.append(threading.current_thread()), partial(log.note, "late"))
    await log.wait(1)
    for one in running:
        await anyio.to_thread.run_sync(one.join, PATIENCE_SECONDS)
    assert not disk_threads() - before


async def test_what_comes_first_comes_only_if_a_thread_does_the_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop, steps = threading.get_ident(), list[tuple[str, bool]]()

    def step(name: str) -> None:
        steps.append((name, threading.get_ident() == loop))

    async with threads_of(1) as (threads, log):
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", NO_THREAD)
            with pytest.raises(RuntimeError, match="new thread"):
                threads.start(lambda: step("work"), partial(log.note, ""), lambda: step("first"))
        assert steps == []
        await threads.finish(lambda: step("work"), lambda: step("first"))
        assert steps == [("first", True), ("work", False)]
