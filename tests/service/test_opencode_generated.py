"""Generated sessions of opencode that a daemon follows: the context is that of the second reader."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from sessiond.service.external.watcher import PollingWatcher
from sessiond.service.sources.agents.opencode.paths import Paths
from sessiond.testing.wire import Wire
from tests.kit.agent_files.dice import Sizes
from tests.kit.agent_files.opencode import OpencodeScript, connected, make_database, play
from tests.kit.agent_files.opencode_moves import opencode_script
from tests.kit.agent_files.opencode_rows import opencode_rows_script
from tests.kit.agent_files.second_opencode import read_opencode
from tests.kit.agreement import contexts, spoken_by
from tests.kit.calls import session_info
from tests.kit.house import House
from tests.kit.roots import add_root, ids
from tests.kit.stored_agreement import said_by

SIZES = Sizes(turns=10)
SECONDS = 20
MADE: dict[str, Callable[[int], OpencodeScript]] = {
    "version 1": lambda now: opencode_script(1, SIZES, start_ms=now),
    "version 2": lambda now: opencode_rows_script(1, SIZES, start_ms=now),
}


async def wait_for_second(wire: Wire, path: Path, session_id: str) -> None:
    """Wait until the daemon's context of a session is that of the second reader."""
    second = read_opencode(path, session_id)
    _, theirs = contexts([], second, "opencode")
    wanted = second.title, said_by(said for _, said in theirs)
    found: object = None
    with anyio.move_on_after(SECONDS):
        while found != wanted:
            with anyio.move_on_after(0.05):
                await wire.next_notification()
            built = await wire.call("session/build_context", session_id=session_id)
            spoken = map(spoken_by, built["messages"])
            title = (await session_info(wire, session_id)).get("title")
            found = title, said_by(one for one in spoken if not one.is_silent)
    assert found == wanted


@pytest.mark.parametrize("version", MADE)
async def test_a_daemon_follows_the_moves_of_the_program(
    real_house: House, tmp_path: Path, version: str
) -> None:
    root = tmp_path.resolve() / "opencode"
    script = MADE[version](int(time.time() * 1000))
    path = make_database(root / "opencode.db", is_newer=script.is_newer)
    moves = script.steps()
    watcher = PollingWatcher(Paths(real_house.files), 0.01)
    with closing(connected(path)) as connection:
        for _ in range(2):
            play(connection, next(moves)[1])
        main = script.main.id
        async with real_house.daemon(watcher) as daemon, daemon.connect() as wire:
            await add_root(wire, root)
            await ids(wire)
            await wire.call("subscribe", session_id=main)
            for _, transactions in moves:
                for one in transactions:
                    play(connection, [one])
                    await anyio.lowlevel.checkpoint()
                await wait_for_second(wire, path, main)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await ids(wire)
        for talk in script.talks:
            await wait_for_second(wire, path, talk.id)
