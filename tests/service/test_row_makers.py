"""Row makers: a first list is the same with them, without them, and where they end or hang."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sessiond.build import BUILD
from sessiond.daemon.environment import ROW_MAKER
from sessiond.journal.disk.files import Files
from sessiond.service.files.scanning import row_makers
from sessiond.service.files.scanning.row_makers import RowMakers, Setup, receive, send
from tests.kit.fleet import Fleet
from tests.kit.house import House
from tests.kit.limits import set_limits
from tests.kit.roots import pi_file, put

MAKER = row_makers._RowMaker
SESSIONS = 40
TOGETHER: dict[str, int | float] = {
    "ROW_MAKERS_FILES_MIN": 1,
    "ROW_MAKER_FILES": 3,
    "ROW_MAKER_AHEAD_FILES": 5,
    "SCAN_BATCH_ROWS": 7,
    "SAME_TIME_SECONDS": 0.0,
}
"""Limits by which a few files are read as many are."""


@pytest.fixture
def roots(tmp_path: Path) -> dict[str, Path]:
    """Make roots with sessions of five kinds, and with files that only the daemon may decide about."""
    fleet = Fleet(tmp_path / "agents", mean_bytes=2_000)
    fleet.fill(SESSIONS)
    pi = fleet.roots["pi"]
    put(pi / "-same", "one", pi_file("same-id", "the first of one id"))
    put(pi / "-same", "two", pi_file("same-id", "the second of one id"))
    put(pi / "-same", "odd", pi_file("no session id!", "an id that no session can have"))
    put(pi / "-same", "bad", b"no line of a session\n")
    (pi / "-same" / "link.jsonl").symlink_to(pi / "-same" / "one.jsonl")
    (pi / "-same" / "out.jsonl").symlink_to(
        put(tmp_path / "else", "out", pi_file("out", "outside"))
    )
    return {kind: root.resolve() for kind, root in fleet.roots.items()}


class Beside(msgspec.Struct):
    """The row makers of scans: the ids of the rows that were taken of them, and whether a scan waits for them."""

    made: list[str] = []
    is_waited_for: bool = True


@pytest.fixture
def beside(monkeypatch: pytest.MonkeyPatch) -> Beside:
    """Let scans of a few files have row makers, and wait for each answer, as fast as the makers are."""
    set_limits(monkeypatch, **TOGETHER)
    has_answered, take, found = MAKER.has_answered, RowMakers.take, Beside()

    def answered(maker: Any, seconds: float = 0) -> bool:
        return has_answered(maker, 60 if found.is_waited_for and maker.asked else seconds)

    def taken(makers: RowMakers, path: str) -> Any:
        row = take(makers, path)
        found.made.extend([] if row is None else [row.session_id])
        return row

    monkeypatch.setattr(MAKER, "has_answered", answered)
    monkeypatch.setattr(RowMakers, "take", taken)
    return found


async def listed(
    home: Path, roots: dict[str, Path], commands: Sequence[Sequence[str]]
) -> tuple[list[Any], list[Any]]:
    """Return the rows of a first list, but for their epochs, and the files that are unreadable."""
    house = House(home, Files())
    house.environment = msgspec.structs.replace(house.environment, row_makers=commands)
    # One scan finds all of them.
    added = [{"path": str(root), "kind": kind} for kind, root in roots.items()]
    house.layout.roots.parent.mkdir(parents=True)
    house.layout.roots.write_bytes(msgspec.json.encode({"version": 1, "roots": added}))
    async with house.daemon() as daemon, daemon.connect() as wire:
        answer = await wire.call("session/list", limit=1000, subagents=True)
    rows = sorted(answer["sessions"], key=lambda row: str(row["id"]))
    return [row | {"epoch": ""} for row in rows], answer.get("unreadable", [])


async def alone(tmp_path: Path, roots: dict[str, Path]) -> tuple[list[Any], list[Any]]:
    """Return what a daemon without row makers lists."""
    found = await listed(tmp_path / "alone", roots, ())
    assert len(found[0]) > SESSIONS
    assert found[1]
    return found


async def test_a_first_list_is_the_same_with_row_makers(
    tmp_path: Path, roots: dict[str, Path], beside: Beside
) -> None:
    without = await alone(tmp_path, roots)
    assert not beside.made
    assert await listed(tmp_path / "home", roots, [ROW_MAKER] * 2) == without
    # They lack what the scan had read before they were asked.
    assert len(beside.made) > SESSIONS / 2
    assert "same-id" in beside.made


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGSTOP])
async def test_a_row_maker_that_ends_or_hangs_costs_no_row(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    roots: dict[str, Path],
    beside: Beside,
    end: signal.Signals,
) -> None:
    without = await alone(tmp_path, roots)
    set_limits(monkeypatch, ROW_MAKER_SECONDS=0.2)
    ask, processes = MAKER.ask, list[subprocess.Popen[bytes]]()

    def asked(maker: Any, files: Any) -> None:
        if len(beside.made) > 5:
            maker._process.send_signal(end)
            beside.is_waited_for = False
            processes.append(maker._process)
        ask(maker, files)

    monkeypatch.setattr(MAKER, "ask", asked)
    assert await listed(tmp_path / "home", roots, [ROW_MAKER]) == without
    assert {process.returncode for process in processes} == {-signal.SIGKILL}
    assert len(beside.made) < len(without[0]) / 2


async def test_a_scan_reads_alone_where_no_process_starts_or_none_pays(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    roots: dict[str, Path],
    beside: Beside,
) -> None:
    without = await alone(tmp_path, roots)
    for name, command in {"home": [str(tmp_path / "no program")], "short": ["true"]}.items():
        assert await listed(tmp_path / name, roots, [command]) == without
    set_limits(monkeypatch, ROW_MAKERS_FILES_MIN=len(without[0]) + len(without[1]) + 10)

    def started(*_: Any) -> None:
        pytest.fail("a process was started for a few files")

    monkeypatch.setattr(MAKER, "__init__", started)
    assert await listed(tmp_path / "other", roots, [ROW_MAKER]) == without
    assert not beside.made


@pytest.mark.parametrize("build", [BUILD, "another"])
def test_a_row_maker_ends_with_the_daemon_and_before_one_of_other_code(
    home: Path, build: str
) -> None:
    decode: Callable[[bytes], Any] = msgspec.msgpack.decode
    with subprocess.Popen(ROW_MAKER, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        send(process.stdin.fileno(), Setup(build, os.fsencode(home), "default", []))
        assert receive(process.stdout.fileno(), decode) == ([] if build == BUILD else None)
        process.stdin.close()
        assert process.wait(60) == 0
