"""Progress of work in an editor: shown when long, cancelled by the user."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from sessiond.lsp.progress import Cancelled, Token, Works

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]


class Wire:
    """An editor that writes down what it is told."""

    def __init__(self, *, can_create: bool = True) -> None:
        self.can_create = can_create
        self.said: list[tuple[Any, ...]] = []

    async def create(self, token: Token) -> bool:
        self.said.append(("create",))
        return True

    def begin(self, token: Token, title: str) -> None:
        self.said.append(("begin", title))

    def report(self, token: Token, text: str, percentage: int | None) -> None:
        self.said.append(("report", text, percentage))

    def end(self, token: Token) -> None:
        self.said.append(("end",))


async def test_short_work_shows_nothing() -> None:
    wire = Wire()
    async with Works(wire).work("reading") as work:
        work.report(1, 2, "lines")
    assert wire.said == []


async def test_long_work_is_announced_begun_reported_and_ended() -> None:
    wire = Wire()
    async with Works(wire, shown_after=0).work("reading") as work:
        work.report(1, 1234, "lines")
        await anyio.wait_all_tasks_blocked()
        work.report(617, 1234, "lines")
        work.report(618, None, "lines")
    assert wire.said == [
        ("create",),
        ("begin", "reading"),
        ("report", "1 of 1,234 lines", 0),
        ("report", "617 of 1,234 lines", 50),
        ("end",),
    ]


@pytest.mark.parametrize(("token", "shown"), [(None, []), ("mine", [("begin", "x"), ("end",)])])
async def test_an_editor_without_tokens_is_shown_those_of_its_requests(
    token: Token | None, shown: list[Any]
) -> None:
    wire = Wire(can_create=False)
    async with Works(wire, shown_after=0).work("x", token):
        await anyio.wait_all_tasks_blocked()
    assert wire.said == shown


async def test_cancelled_work_ends_at_its_next_wait() -> None:
    works = Works(Wire())
    reached: list[str] = []

    async def work() -> None:
        async with works.work("x", "mine"):
            works.cancel("unknown")
            reached.append("cancelled")
            works.cancel("mine")
            await anyio.sleep_forever()
            reached.append("gone on")

    with pytest.raises(Cancelled):
        await work()
    assert reached == ["cancelled"]
    works.cancel("mine")


async def test_an_error_of_the_work_stays_the_error() -> None:
    wire = Wire()
    with pytest.raises(KeyError):
        async with Works(wire).work("x"):
            raise KeyError
    assert wire.said == []
