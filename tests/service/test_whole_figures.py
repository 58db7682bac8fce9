"""Figures of large files of other agents: of a part at first, and of the whole file a moment later."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from sessiond.testing.wire import Wire
from tests.kit.agent_roots import CLAUDE, claude_line, claude_talk
from tests.kit.house import House
from tests.kit.limits import set_limits
from tests.kit.patience import eventually
from tests.kit.roots import add_root


def talk(root: Path, number: int, turns: int) -> Path:
    """Write a session of Claude Code whose lists read only a part at first."""
    path = root / "-p" / f"{CLAUDE.format(number)}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(claude_talk(turns))
    # A file is read again that was written within the last moment before a look, by the next daemon too.
    os.utime(path, (1e9, 1e9))
    return path


async def listed(wire: Wire, **asked: Any) -> list[tuple[int, bool]]:
    """Return of each session of a list the number of messages, and whether it is that of a part."""
    rows = (await wire.call("session/list", **asked))["sessions"]
    return [(row["message_total"], row.get("partial", False)) for row in rows]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path.resolve() / "claude" / "projects"


def never(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no file be quiet for long enough."""
    set_limits(monkeypatch, FIGURES_QUIET_SECONDS=1e9)


async def test_the_figures_of_a_part_become_those_of_the_file(
    real_house: House, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = talk(root, 1, 2000)
    with monkeypatch.context() as patch:
        never(patch)
        async with real_house.daemon() as daemon, daemon.connect() as wire:
            await add_root(wire, root)
            ((count, is_part),) = await listed(wire)
            assert (count < 200, is_part) == (True, True)

    async def is_whole() -> bool:
        real_house.seconds += 1.0
        return await listed(wire) == [(total, False)]

    # The next daemon knows of the part by the catalog alone.
    total = 2000
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await eventually(is_whole)
        with path.open("ab") as file:
            file.write(claude_line("c1a0de00-0000-4000-8000-00000000cccc", None, "one more"))
        total = 2001
        await eventually(is_whole)
        epoch = (await wire.call("session/get", session_id=path.stem))["session"]["epoch"]
    never(monkeypatch)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        (row,) = (await wire.call("session/list"))["sessions"]
        assert (row["message_total"], row["epoch"], "partial" in row) == (2001, epoch, False)


async def test_a_list_in_the_order_of_figures_waits_for_them(
    real_house: House, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    never(monkeypatch)
    # The figures of the parts have the other order: the lines at both ends decide.
    talk(root, 1, 1500)
    talk(root, 2, 2000)
    talk(root, 3, 3)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root)
        assert sum(is_part for _, is_part in await listed(wire)) == 2
        number = await wire.request(
            "session/list", sort="message_count", _meta={"progress_token": "figures"}
        )
        told = [(await wire.next_notification())["params"]["value"]]
        while told[-1]["kind"] != "end":
            told.append((await wire.next_notification())["params"]["value"])
        rows = (await wire.answer(number))["sessions"]
        assert [row["message_total"] for row in rows] == [2000, 1500, 3]
        assert not any("partial" in row for row in rows)
        assert [one["done"] for one in told if "done" in one][-1:] == [2]


async def test_a_file_that_is_too_large_to_be_read_for_its_figures_stays_a_part(
    real_house: House, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, FIGURES_BYTES_MAX=1_000_000)
    talk(root, 1, 2000)
    talk(root, 2, 500)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root)
        (first, is_part), (second, is_second_part) = await listed(wire, sort="message_count")
        assert (first, is_part) == (500, False)
        assert (second < 200, is_second_part) == (True, True)
