"""A place that does not answer costs its own openings, and no other call."""

from __future__ import annotations

import errno
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from sessiond.journal.disk.files import Files, FileStat
from sessiond.limits import PLACE_OPENINGS_MAX
from sessiond.testing.wire import Refusal, Wire
from tests.kit.calls import call, create
from tests.kit.house import House
from tests.kit.limits import set_limits
from tests.kit.patience import eventually
from tests.kit.sessions import HI, SESSION

OPENINGS = 60


class HungFiles(Files):
    """A disk on which one folder does not answer until it is released."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.released = Event()
        self.waiting = 0

    def stat(self, path: Path) -> FileStat:
        if path.is_relative_to(self.folder):
            self.waiting += 1
            self.released.wait(60)
            raise OSError(errno.EIO, "input/output error")
        return super().stat(path)


async def refused(wire: Wire, request: Any) -> Refusal:
    """Return the refusal that a request is answered with."""
    with pytest.raises(Refusal) as told:
        await wire.answer(request)
    return told.value


async def test_a_place_that_hangs_stops_no_other_call(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, PLACE_PATIENCE_SECONDS=0.2)
    dead = tmp_path / "dead"
    dead.mkdir()
    files = HungFiles(dead)
    async with (
        House(home, files).daemon() as daemon,
        daemon.connect() as wire,
        daemon.connect() as other,
    ):
        await create(wire, SESSION, persist="immediate")
        await call(wire, "append", message=HI)
        await wire.call("session/close", session_id=SESSION)

        async def asked(name: object) -> Any:
            return await other.request("session/open", path=str(dead / f"{name}.jsonl"))

        try:
            hung = [await asked(at) for at in range(PLACE_OPENINGS_MAX)]
            await eventually(lambda: files.waiting == len(hung))
            # The next ones wait a while, and the later ones are refused at once.
            for request in [await asked(f"more {at}") for at in range(OPENINGS)]:
                refusal = await refused(other, request)
                assert refusal.data["kind"] == "overloaded"
                assert refusal.message == f"{dead} does not answer: 8 openings wait there"
            assert files.waiting == len(hung)
            await _everything_else(wire, tmp_path)
        finally:
            files.released.set()
        for request in hung:
            assert (await refused(other, request)).data["kind"] == "storage_error"
        assert (await refused(other, await asked("again"))).data["kind"] == "storage_error"


async def _everything_else(wire: Wire, folder: Path) -> None:
    """Make the calls that go on beside a hung place."""
    listed: dict[str, Any] = await wire.call("session/list")
    assert [one["id"] for one in listed["sessions"]] == [SESSION]
    assert (await wire.call("session/build_context", session_id=SESSION))["messages"] == [HI]
    await wire.call("session/create", session_id="another-one", cwd="/p", persist="immediate")
    await wire.call("state/set", namespace="n", key="k", value=1)
    export = folder / "copy.jsonl"
    await wire.call("session/export", session_id=SESSION, format="native", path=str(export))
    assert export.exists()
