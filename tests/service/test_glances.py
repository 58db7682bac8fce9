"""Lists that need not be whole: what the look at many files has found so far, and how far the look is."""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from sessiond.service.files.rows import Rows
from sessiond.testing.daemon import Refusal
from sessiond.testing.wire import Wire
from tests.kit.agent_roots import CLAUDE, claude_talk
from tests.kit.calls import create
from tests.kit.house import House
from tests.kit.limits import set_limits
from tests.kit.patience import PATIENCE_SECONDS, eventually
from tests.kit.roots import add_root, pi_file
from tests.kit.sessions import native_file

# Behind the times in the lines of the talks.
WRITTEN = "2026-11-20T0{}:00:00.000Z"
SECONDS = 1_795_132_800


async def glance(wire: Wire, **asked: Any) -> tuple[list[str], dict[str, Any] | None]:
    """Return the ids of a list that need not be whole, and how far the look is."""
    found = await wire.call("session/list", whole=False, **asked)
    return [row["id"] for row in found["sessions"]], found["looking"]


class HeldReading:
    """A reading of files that waits at the file `at` until it is released."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: Path) -> None:
        self.met, self.released = threading.Event(), threading.Event()
        for name in ("read", "read_new"):
            monkeypatch.setattr(Rows, name, self._held(getattr(Rows, name), at))

    def _held(self, read: Callable[..., Any], at: Path) -> Callable[..., Any]:
        def held(rows: Rows, path: Path, *more: Any) -> Any:
            if path == at:
                self.met.set()
                assert self.released.wait(PATIENCE_SECONDS)
            return read(rows, path, *more)

        return held


def written_hourly(folder: Path, names: Sequence[str], contents: Sequence[bytes]) -> list[Path]:
    """Return files of a folder, each written an hour behind the one before."""
    folder.mkdir(parents=True, exist_ok=True)
    made = [folder / f"{name}.jsonl" for name in names]
    for hour, (path, content) in enumerate(zip(made, contents, strict=True)):
        path.write_bytes(content)
        os.utime(path, (SECONDS + 3600 * hour,) * 2)
    return made


@pytest.fixture
async def files(tmp_path: Path) -> list[Path]:
    """Files of Claude Code; no name follows the order in which they were written."""
    folder = tmp_path.resolve() / "claude" / "projects" / "-p"
    names = [CLAUDE.format(number) for number in (2, 4, 1, 3)]
    return written_hourly(folder, names, [claude_talk(1)] * 4)


@pytest.fixture
async def wire(real_house: House, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Wire]:
    set_limits(monkeypatch, SCAN_BATCH_ROWS=1, GLANCE_SECONDS=0.01)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        yield wire


async def test_what_was_written_last_is_listed_while_older_files_are_read(
    wire: Wire, files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    reading = HeldReading(monkeypatch, files[1])
    await add_root(wire, files[0].parent.parent)
    try:
        await eventually(lambda: reading.met.is_set())
        ids, looking = await glance(wire)
        assert sorted(ids) == sorted([files[3].stem, files[2].stem])
        assert looking == {"done": 2, "total": 4, "until": WRITTEN.format(2)}
        assert (await glance(wire, limit=1))[1] == looking
    finally:
        reading.released.set()

    async def is_over() -> bool:
        return (await glance(wire))[1] is None

    await eventually(is_over)
    assert len((await glance(wire))[0]) == 4
    found = await wire.call("session/list")
    assert (len(found["sessions"]), found["looking"]) == (4, None)


@pytest.mark.parametrize("kind", ["pi", "native"])
async def test_new_files_of_every_program_come_newest_first(
    real_house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    set_limits(monkeypatch, SCAN_BATCH_ROWS=1, GLANCE_SECONDS=0.01)
    ids = [f"session-{number}" for number in (2, 4, 1, 3)]
    if kind == "pi":
        root = tmp_path.resolve() / "pi"
        files = written_hourly(root, ids, [pi_file(one, "hi") for one in ids])
    else:
        root = real_house.layout.sessions
        names = [f"2026-01-01T00-00-00-000000_{one}" for one in ids]
        files = written_hourly(root, names, [native_file([], one) for one in ids])
    async with real_house.daemon(scanned=False) as daemon, daemon.connect() as wire:
        reading = HeldReading(monkeypatch, files[1])
        if kind == "pi":
            await wire.call("catalog/roots", action="add", path=str(root), kind=kind)
        try:
            await glance(wire)
            await eventually(lambda: reading.met.is_set())
            found, looking = await glance(wire)
            assert sorted(found) == sorted([ids[3], ids[2]])
            assert looking == {"done": 2, "total": 4, "until": WRITTEN.format(2)}
        finally:
            reading.released.set()
        found = await wire.call("session/list")
        assert len(found["sessions"]) == 4


async def test_one_look_serves_all_glances_and_a_whole_list_waits_for_it(
    wire: Wire, files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    await add_root(wire, files[0].parent.parent)
    await wire.call("session/list")
    new = files[0].with_name(f"{CLAUDE.format(9)}.jsonl")
    reading = HeldReading(monkeypatch, new)
    new.write_bytes(claude_talk(1))
    try:
        assert (await glance(wire))[1] is not None
        await eventually(lambda: reading.met.is_set())
        assert len((await glance(wire))[0]) == 4
        number = await wire.request("session/list")
        assert len((await glance(wire))[0]) == 4
    finally:
        reading.released.set()
    assert len((await wire.answer(number))["sessions"]) == 5


async def test_a_glance_is_whole_where_no_look_is_due(wire: Wire) -> None:
    await create(wire, "session-a", persist="immediate")
    await wire.call("session/list")
    assert await glance(wire) == (["session-a"], None)


async def test_a_glance_raises_what_the_look_raised(real_house: House, wire: Wire) -> None:
    await wire.call("session/list")
    sessions = real_house.layout.sessions
    sessions.rename(sessions.with_name("elsewhere"))
    sessions.write_bytes(b"no folder")
    with pytest.raises(Refusal) as refusal:
        await glance(wire)
    with pytest.raises(Refusal) as whole:
        await wire.call("session/list")
    assert str(refusal.value) == str(whole.value)
    sessions.unlink()
    sessions.with_name("elsewhere").rename(sessions)
    assert await glance(wire) == ([], None)
