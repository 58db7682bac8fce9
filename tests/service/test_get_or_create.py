"""session/open with `create`: one session of this id, whichever client comes first."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from sessiond.testing.daemon import Daemon
from tests.kit.calls import call, refused, session_info
from tests.kit.house import House
from tests.kit.sessions import SESSION

pytestmark = pytest.mark.both_loops

ASKED: dict[str, Any] = {"session_id": SESSION, "create": True}


async def test_it_is_made_once_and_opened_from_then_on(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        made = await wire.call("session/open", **ASKED, cwd="/here")
        assert (made["created"], made["session"]["cwd"]) == (True, "/here")
        again = await wire.call("session/open", **ASKED, cwd="/elsewhere")
        assert (again["created"], again["session"]["cwd"]) == (False, "/here")
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert not (await wire.call("session/open", **ASKED))["created"]
    assert len(house.session_files()) == 1


async def test_without_a_cwd_it_belongs_to_no_project(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert (await wire.call("session/open", **ASKED))["session"]["cwd"] == "/"


async def test_clients_at_once_make_one_session(house: House) -> None:
    answers: list[Any] = []

    async def come(daemon: Daemon, number: int) -> None:
        async with daemon.connect() as wire:
            answer = await wire.call("session/open", **ASKED, cwd=f"/{number}")
            await call(wire, "append", message={"role": "user"})
            answers.append(answer)

    async with house.daemon() as daemon:
        async with anyio.create_task_group() as tasks:
            for number in range(8):
                tasks.start_soon(come, daemon, number)
        async with daemon.connect() as wire:
            session = await session_info(wire)
    assert [answer["created"] for answer in answers].count(True) == 1
    assert len({answer["session"]["cwd"] for answer in answers}) == 1
    assert session["seq"] == 8
    assert len(house.session_files()) == 1


async def test_a_file_that_is_no_session_is_not_replaced(house: House) -> None:
    path = house.put(b"something else\n")
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await refused(wire, "session/open", **ASKED) == "session_corrupt"
    assert house.disk.content(path) == b"something else\n"


async def test_what_fails_on_the_disk_leaves_nothing_and_can_be_asked_again(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        house.disk.fail("rename")
        assert await refused(wire, "session/open", **ASKED) == "storage_error"
        assert house.session_files() == []
        assert (await wire.call("session/open", **ASKED))["created"]
