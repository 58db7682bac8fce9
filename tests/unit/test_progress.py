"""`$/progress`: the reports of long work, their times, and those that a full connection misses."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio import to_thread
from anyio.abc import TaskGroup
from msgspec import Raw

from sessiond.errors import InvalidParams, SessiondError
from sessiond.rpc.progress import NO_PROGRESS, Progress
from sessiond.service.actor.background import run_in_background
from sessiond.testing.daemon import standing_environment
from tests.kit.limits import set_limits
from tests.kit.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.both_loops


class Asker:
    """A ticket, its client and its connection in one; keeps what it is told, in order."""

    def __init__(self, tasks: TaskGroup, token: str | int | None = "t") -> None:
        self.client = self.listener = self
        self.origin_id = Raw(b"1")
        self.result_meta: bytes | None = None
        self.progress = NO_PROGRESS if token is None else Progress(token)
        self.said: list[Any] = []
        self.full = False
        self.refused = 0
        self.cancel: Callable[[], None] = lambda: None
        self.tasks = 0
        self._tasks = tasks
        self._news = anyio.Event()

    # -- the ticket

    def answer(self, result: Any) -> None:
        self._keep(("answer", result))

    def fail(self, error: SessiondError) -> None:
        self._keep(("error", error.kind))

    def flush(self) -> None:
        pass

    def defer(self, on_cancel: Callable[[], None]) -> None:
        self.cancel = on_cancel

    # -- the listener

    def encode(self, body: bytes) -> bytes:
        return body

    def start(self, function: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.tasks += 1
        self._tasks.start_soon(function)

    def offer(self, frame: bytes) -> bool:
        if self.full:
            self.refused += 1
            self._tell()
            return False
        self.put(frame)
        return True

    def put(self, frame: bytes) -> None:
        message = json.loads(frame)
        assert message["method"] == "$/progress"
        assert message["params"]["token"] == self.progress.token
        value = message["params"]["value"]
        self._keep((value["kind"], value["done"], value["total"], value["unit"]))

    # -- the test

    def _keep(self, thing: Any) -> None:
        self.said.append(thing)
        self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news = anyio.Event()

    async def until(self, there: Callable[[], bool]) -> None:
        with anyio.fail_after(PATIENCE_SECONDS):
            while not there():
                await self._news.wait()

    @property
    def kinds(self) -> list[str]:
        return [thing[0] for thing in self.said]


@asynccontextmanager
async def asked(token: str | int | None = "t") -> AsyncIterator[Asker]:
    async with anyio.create_task_group() as tasks:
        yield Asker(tasks, token)


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let progress be reported at every turn of the loop."""
    set_limits(monkeypatch, PROGRESS_SECONDS=0)


async def test_a_beginning_the_news_and_an_end_before_the_answer() -> None:
    async with asked() as asker:

        async def job() -> str:
            for done in (1, 2, 3):
                await to_thread.run_sync(asker.progress.report, done, 3, "lines")
                if done < 3:
                    await asker.until(lambda now=done: ("report", now, 3, "lines") in asker.said)  # type: ignore[misc]
            return "done"

        run_in_background(asker, job, standing_environment())
    assert asker.said == [
        ("begin", 0, 3, "lines"),
        ("report", 1, 3, "lines"),
        ("report", 2, 3, "lines"),
        ("end", 3, 3, "lines"),
        ("answer", "done"),
    ]


async def test_a_pause_that_is_over_as_the_work_ends_brings_no_report_behind_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, over = anyio.Event(), anyio.Event()

    async def pause(_seconds: float) -> None:
        if begun.is_set():
            await anyio.lowlevel.checkpoint()
        # The end cancels the task of the reports, which a pause that is over does not notice.
        with anyio.CancelScope(shield=True):
            begun.set()
            await over.wait()

    monkeypatch.setattr(anyio, "sleep", pause)
    async with asked() as asker:

        async def job() -> str:
            asker.progress.report(1, 3, "lines")
            await begun.wait()
            return "done"

        run_in_background(asker, job, standing_environment())
        await asker.until(lambda: "answer" in asker.kinds)
        over.set()
    assert asker.kinds == ["begin", "end", "answer"]


async def test_nothing_is_told_twice_and_a_total_may_be_unknown() -> None:
    async with asked(token=7) as asker:

        async def job() -> str:
            asker.progress.report(5, None, "files")
            await asker.until(lambda: "report" in asker.kinds)
            for _ in range(20):
                await anyio.lowlevel.checkpoint()
            return "done"

        run_in_background(asker, job, standing_environment())
    assert asker.said[1:3] == [("report", 5, None, "files"), ("end", 5, None, "files")]


async def test_work_that_is_over_before_anybody_looked_has_a_beginning_and_an_end() -> None:
    async with asked() as asker:

        async def job() -> str:
            asker.progress.report(3, 3, "lines")
            return "done"

        run_in_background(asker, job, standing_environment())
    assert asker.kinds == ["begin", "end", "answer"]


async def test_work_that_reports_nothing_is_not_spoken_of() -> None:
    async with asked() as asker:

        async def job() -> str:
            for _ in range(20):
                await anyio.lowlevel.checkpoint()
            return "done"

        run_in_background(asker, job, standing_environment())
    assert asker.said == [("answer", "done")]


async def test_without_a_token_there_is_no_task_and_no_word() -> None:
    async with asked(token=None) as asker:

        async def job() -> str:
            asker.progress.report(1, 2, "lines")
            return "done"

        run_in_background(asker, job, standing_environment())
    assert asker.tasks == 1
    assert asker.said == [("answer", "done")]
    assert NO_PROGRESS.latest is None


async def test_a_refusal_and_a_cancelled_request_have_their_end_first() -> None:
    async with asked() as asker:

        async def job() -> str:
            asker.progress.report(1, 2, "lines")
            raise InvalidParams("no", path="")

        run_in_background(asker, job, standing_environment())
    assert asker.said == [
        ("begin", 0, 2, "lines"),
        ("end", 1, 2, "lines"),
        ("error", "invalid_params"),
    ]
    async with asked() as asker:

        async def endless() -> str:
            asker.progress.report(1, 2, "lines")
            await anyio.sleep_forever()
            return "never"

        run_in_background(asker, endless, standing_environment())
        await asker.until(lambda: "report" in asker.kinds)
        asker.cancel()
    assert asker.kinds == ["begin", "report", "end", "error"]


async def test_what_finds_no_room_is_dropped_and_the_next_one_says_more() -> None:
    async with asked() as asker:

        async def job() -> str:
            asker.progress.report(1, 9, "lines")
            await asker.until(lambda: "report" in asker.kinds)
            asker.full = True
            asker.progress.report(2, 9, "lines")
            seen = asker.refused
            await asker.until(lambda: asker.refused > seen)
            asker.progress.report(3, 9, "lines")
            asker.full = False
            await asker.until(lambda: asker.kinds.count("report") == 2)
            asker.full = True
            return "done"

        run_in_background(asker, job, standing_environment())
    assert asker.said[1:] == [
        ("report", 1, 9, "lines"),
        ("report", 3, 9, "lines"),
        ("end", 3, 9, "lines"),
        ("answer", "done"),
    ]


async def test_a_connection_that_takes_nothing_gets_its_answer_alone() -> None:
    async with asked() as asker:
        asker.full = True

        async def job() -> str:
            asker.progress.report(1, 9, "lines")
            await asker.until(lambda: asker.refused > 0)
            return "done"

        run_in_background(asker, job, standing_environment())
    assert asker.said == [("answer", "done")]
