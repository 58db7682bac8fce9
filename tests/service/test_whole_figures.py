"""Figures of large files of other programs: of a part at first, and of the whole file a moment later."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from sessiond.testing.wire import Wire
from tests.kit.agent_roots import CLAUDE, claude_line, claude_talk
from tests.kit.family import FAMILY, family_file, family_id, family_lines
from tests.kit.house import House
from tests.kit.limits import set_limits
from tests.kit.patience import eventually
from tests.kit.roots import add_root, put


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


async def become_whole(house: House, wire: Wire, total: int) -> None:
    """Wait until the only session of a list has so many messages, those of the whole file."""

    async def is_whole() -> bool:
        house.seconds += 1.0
        return await listed(wire) == [(total, False)]

    await eventually(is_whole)


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

    # The next daemon knows of the part by the catalog alone.
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await become_whole(real_house, wire, 2000)
        with path.open("ab") as file:
            file.write(claude_line("c1a0de00-0000-4000-8000-00000000cccc", None, "one more"))
        await become_whole(real_house, wire, 2001)
        epoch = (await wire.call("session/get", session_id=path.stem))["session"]["epoch"]
    never(monkeypatch)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        (row,) = (await wire.call("session/list"))["sessions"]
        assert (row["message_total"], row["epoch"], "partial" in row) == (2001, epoch, False)


@pytest.mark.parametrize("kind", FAMILY)
async def test_the_figures_of_a_part_of_a_file_of_pis_family_become_those_of_the_file(
    real_house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    root, lines = (tmp_path / kind).resolve(), family_lines(kind, 2003)
    path = put(root, "one", b"".join(lines[:2001]))
    with monkeypatch.context() as patch:
        never(patch)
        async with real_house.daemon() as daemon, daemon.connect() as wire:
            await add_root(wire, root, kind)
            ((count, is_part),) = await listed(wire)
            assert (50 < count < 400, is_part) == (True, True)
            (row,) = (await wire.call("session/list"))["sessions"]
            assert row["leaf_id"] == f"{1999:08x}-0000-4000-8000-000000000001"
    epochs = [row["epoch"]]

    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await become_whole(real_house, wire, 2000)
        epochs += [one["epoch"] for one in (await wire.call("session/list"))["sessions"]]
        with path.open("ab") as file:
            file.write(lines[2001])
        await become_whole(real_house, wire, 2001)
        epochs.append((await wire.call("session/get", session_id=family_id(1)))["session"]["epoch"])
    never(monkeypatch)
    # The whole file is known from the opening; what the program wrote since makes it a part again.
    with path.open("ab") as file:
        file.write(lines[2002])
    os.utime(path, (1.1e9, 1.1e9))
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        ((count, is_part),) = await listed(wire)
        assert (count < 400, is_part) == (True, True)
        epochs += [one["epoch"] for one in (await wire.call("session/list"))["sessions"]]
        opened = (await wire.call("session/open", session_id=family_id(1)))["session"]
        assert (opened["message_total"], "partial" in opened) == (2002, False)
        epochs.append(opened["epoch"])
    assert len(set(epochs)) == 1


@pytest.mark.parametrize("kind", FAMILY)
async def test_a_file_that_was_written_anew_gets_a_new_epoch_after_a_part_was_read(
    real_house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    never(monkeypatch)
    root = (tmp_path / kind).resolve()
    path = put(root, "one", family_file(kind, 1000))
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root, kind)
        opened = (await wire.call("session/open", session_id=family_id(1)))["session"]
    # The same file, which has grown, and has other words in the middle.
    lines = family_lines(kind, 1001)
    lines[500] = lines[500].replace(b"xxx", b"yyy")
    with path.open("r+b") as file:
        file.write(b"".join(lines))
    os.utime(path, (1.1e9, 1.1e9))
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        (row,) = (await wire.call("session/list"))["sessions"]
        assert (row["partial"], row["epoch"]) == (True, opened["epoch"])
        again = (await wire.call("session/open", session_id=family_id(1)))["session"]
        assert again["message_total"] == 1001
        assert again["epoch"] != opened["epoch"]


async def test_a_list_in_the_order_of_figures_waits_for_them(
    real_house: House, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    never(monkeypatch)
    # The figures of the parts have the other order: the lines at both ends decide.
    talk(root, 1, 1500)
    talk(root, 2, 2000)
    talk(root, 3, 3)
    others = put((tmp_path / "pi").resolve(), "one", family_file("pi", 1700)).parent
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, others, "pi")
        await add_root(wire, root)
        assert sum(is_part for _, is_part in await listed(wire)) == 3
        number = await wire.request(
            "session/list", sort="message_count", _meta={"progress_token": "figures"}
        )
        told = [(await wire.next_notification())["params"]["value"]]
        while told[-1]["kind"] != "end":
            told.append((await wire.next_notification())["params"]["value"])
        rows = (await wire.answer(number))["sessions"]
        assert [row["message_total"] for row in rows] == [2000, 1700, 1500, 3]
        assert not any("partial" in row for row in rows)
        assert [one["done"] for one in told if "done" in one][-1:] == [3]


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
