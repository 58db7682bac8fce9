"""Random changes of roots, files and lists at once; what is listed then is what the roots hold."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from sessiond.testing.daemon import Refusal
from sessiond.testing.wire import Wire
from tests.kit.house import House
from tests.kit.roots import ids, pi_file, put

pytestmark = pytest.mark.slow

DAEMONS, BURSTS, BURST = 5, 8, 6


class Folders:
    """Two folders of sessions, and random requests about them."""

    def __init__(self, home: Path, chance: random.Random) -> None:
        self.chance = chance
        self.files: dict[str, list[str]] = {"one": [], "two": []}
        self.home = home.resolve()
        for name in self.files:
            self.arrive(name)

    def arrive(self, name: str) -> None:
        """Put one more file into a folder."""
        files = self.files[name]
        session_id = f"session-{name}-{len(files)}"
        put(self.home / name, session_id, pi_file(session_id, "a", "b"), old=False)
        files.append(session_id)

    async def burst(self, wires: list[Wire]) -> None:
        """Send requests on all connections without waiting; files arrive in between."""
        waiting: list[tuple[Wire, int]] = []
        for _ in range(self.chance.randrange(2, BURST)):
            name = self.chance.choice(list(self.files))
            wire = self.chance.choice(wires)
            act = self.chance.choice(["list", "list", "add", "remove", "arrive"])
            if act == "arrive":
                self.arrive(name)
            elif act == "list":
                waiting.append((wire, await wire.request("session/list")))
            else:
                more = {"kind": "pi"} if act == "add" else {}
                path = str(self.home / name)
                request = await wire.request("catalog/roots", action=act, path=path, **more)
                waiting.append((wire, request))
        for wire, request in waiting:
            try:
                await wire.answer(request)
            except Refusal as refusal:
                if "is no root" not in refusal.message:
                    raise

    async def expected(self, wire: Wire) -> list[str]:
        """Return the sessions of the folders that are roots."""
        roots = [one for one in (await wire.call("catalog/roots"))["roots"] if one["added"]]
        return sorted(one for root in roots for one in self.files[Path(root["path"]).name])


@pytest.mark.parametrize("seed", range(4))
async def test_lists_show_what_the_roots_hold_whenever_the_roots_change(
    real_house: House, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    folders = Folders(tmp_path / "roots", chance)
    for _ in range(DAEMONS):
        async with (
            real_house.daemon(scanned=False) as daemon,
            daemon.connect() as one,
            daemon.connect() as other,
        ):
            for _ in range(BURSTS):
                await folders.burst([one, other])
                assert await ids(one) == await folders.expected(one)
