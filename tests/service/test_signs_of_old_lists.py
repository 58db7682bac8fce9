"""The sign of lists that may be old: an answer from before a failed look says nothing of what came behind."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from anyio import create_task_group, to_thread

from sessiond.errors import StorageError
from sessiond.service.database.database import ChangedHeads
from sessiond.service.database.scanning.census import Census
from tests.kit.patience import HANG_SECONDS, happened
from tests.service.one_database.connections import OUT_OF_REACH, Wrapped
from tests.service.one_database.site import Site

pytestmark = pytest.mark.one_loop


class Answers(Wrapped):
    """A connection whose second look is not answered, while the first one is under way."""

    def __init__(self, site: Site) -> None:
        super().__init__(site.connect())
        self.fails = False
        self.is_asked, self.may_answer = threading.Event(), threading.Event()

    def changes(self, after: int) -> ChangedHeads:
        if self.fails:
            raise OUT_OF_REACH
        found: ChangedHeads = self.inner.changes(after)
        self.is_asked.set()
        assert self.may_answer.wait(HANG_SECONDS)
        return found


async def test_an_answer_from_before_a_failed_look_takes_no_sign(site: Site) -> None:
    answers = Answers(site)
    census = Census(answers, lambda: "now")
    seen: list[Any] = []
    async with create_task_group() as tasks:
        tasks.start_soon(to_thread.run_sync, lambda: seen.append(census.later()))
        await happened(answers.is_asked)
        answers.fails = True
        with pytest.raises(StorageError):
            await to_thread.run_sync(census.later)
        answers.may_answer.set()
    census.take(*seen)
    assert census.stale_since == "now"
    answers.fails = False
    census.take(await to_thread.run_sync(census.later))
    assert census.stale_since is None
