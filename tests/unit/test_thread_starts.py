"""Threads that lack the memory to begin: their starter is told, and waits for nothing."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from functools import partial

import anyio
import pytest
from anyio import to_thread

from sessiond.daemon import startup
from sessiond.daemon.startup import begin_or_refuse
from sessiond.errors import Overloaded, exhausted
from tests.kit.patience import PATIENCE_SECONDS, eventually

pytestmark = pytest.mark.platform


class Stillborn(threading.Thread):
    """A thread that ends before it begins, as one that finds no memory for its first call."""

    def _bootstrap(self) -> None:
        raise MemoryError


@pytest.fixture
def bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all threads be started as in a daemon's process; what a dying thread prints is not shown."""
    monkeypatch.setattr(threading.Thread, "start", begin_or_refuse)
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)


@pytest.mark.usefixtures("bounded")
def test_a_thread_that_ends_before_it_begins_is_refused() -> None:
    thread = Stillborn(daemon=True)
    with pytest.raises(RuntimeError, match="can't start new thread") as refused:
        thread.start()
    assert isinstance(exhausted(refused.value, 1), Overloaded)
    assert thread not in threading.enumerate()


class Late(threading.Thread):
    """A thread that begins once its starter has looked whether it has begun."""

    def __init__(self, target: Callable[[], object]) -> None:
        super().__init__(target=target, daemon=True)
        self.looked = looked = threading.Event()

        class Watched(threading.Event):
            def wait(self, timeout: float | None = None) -> bool:
                looked.set()
                return super().wait(timeout)

        self._started = Watched()

    def _bootstrap(self) -> None:
        assert self.looked.wait(PATIENCE_SECONDS)
        super()._bootstrap()  # type: ignore[misc]


@pytest.mark.usefixtures("bounded")
def test_a_thread_that_begins_late_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(startup, "_THREAD_LOOK_SECONDS", 0.0)
    ran = threading.Event()
    Late(ran.set).start()
    assert ran.wait(PATIENCE_SECONDS)


@pytest.mark.usefixtures("bounded")
def test_work_that_gets_no_thread_to_begin_is_refused_and_the_next_is_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def work() -> int:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "_bootstrap", Stillborn._bootstrap)
            with pytest.raises(RuntimeError, match="can't start new thread"):
                await to_thread.run_sync(int)
        return await to_thread.run_sync(lambda: 7)

    assert anyio.run(work) == 7


@pytest.mark.usefixtures("bounded")
def test_a_thread_begins_once() -> None:
    thread = threading.Thread(target=int, daemon=True)
    thread.start()
    thread.join(PATIENCE_SECONDS)
    with pytest.raises(RuntimeError, match="once"):
        thread.start()


@pytest.mark.usefixtures("bounded")
def test_the_end_of_the_process_waits_for_no_thread() -> None:
    released = threading.Event()
    threads: list[threading.Thread] = []

    def hang() -> None:
        threads.append(threading.current_thread())
        released.wait(PATIENCE_SECONDS)

    async def abandon() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(to_thread.run_sync, hang, abandon_on_cancel=True))
            await eventually(lambda: threads)
            tasks.cancel_scope.cancel()

    try:
        anyio.run(abandon)
        assert [one.daemon for one in threads if one.is_alive()] == [True]
    finally:
        released.set()
