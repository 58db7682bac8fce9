"""Random outages at two daemons of one database, while clients switch between projects.

Law: a switch that was answered has led to the one session of its scope, which is there with all entries that
were answered; a switch that was refused has released nothing, and the same call made again ends the switch.
"""

from __future__ import annotations

import random
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from anyio import create_task_group

from sessiond.testing.wire import Refusal, Wire
from tests.kit.patience import drawn_pause
from tests.service.one_database.site import Site
from tests.service.test_lives_through_outages import PASSING, three_daemons

pytestmark = [pytest.mark.slow, pytest.mark.drawn]

STEPS = 15


class Traveller:
    """A client of one daemon that switches between projects and says something in each."""

    def __init__(self, wire: Wire, name: str, folders: list[str], said: dict[str, str]) -> None:
        self.log: list[Any] = []
        self._wire = wire
        self._name = name
        self._folders = folders
        self._said = said
        """Session of each entry that was answered."""
        self._dice = random.Random(name)

    async def ask(self, method: str, **params: Any) -> Any:
        while True:
            try:
                answer = await self._wire.call(method, **params)
            except Refusal as refusal:
                self.log.append((method, params, refusal.data["kind"], refusal.message))
                if refusal.data["kind"] not in PASSING:
                    raise
                await drawn_pause(self._dice, 0, 0.004)
                continue
            self.log.append((method, params, answer))
            return answer

    async def travel(self, ids: dict[str, str]) -> None:
        for step in range(STEPS):
            folder = self._dice.choice(self._folders)
            answer = await self.ask("scope/switch", project=folder, agent="coder")
            session_id = answer["session"]["id"]
            assert answer["session"]["cwd"] == folder, self.log[-4:]
            assert ids.setdefault(folder, session_id) == session_id, self.log[-4:]
            assert session_id not in answer["released"], self.log[-4:]
            entry_id = f"{self._name}-{step}"
            entry = {
                "type": "message",
                "id": entry_id,
                "message": {"role": "user", "content": "hi"},
            }
            await self.ask("append", session_id=session_id, entry=entry)
            self._said[entry_id] = session_id


@pytest.mark.limits(CATALOG_FLUSH_SECONDS=0.01)
@pytest.mark.parametrize("seed", range(4))
async def test_switches_lead_to_one_session_of_each_project_through_outages(
    site: Site, tmp_path: Path, seed: int
) -> None:
    folders = [str((tmp_path / name).resolve()) for name in ("p-one", "p-two", "p-three")]
    for folder in folders:
        Path(folder).mkdir()
    said, ids = dict[str, str](), dict[str, str]()
    async with three_daemons(site, seed) as (connections, daemons), AsyncExitStack() as ends:
        clients = [
            await ends.enter_async_context(daemon.connect()) for daemon in daemons for _ in range(2)
        ]
        for connection in connections:
            connection.chance = 0.08
        async with create_task_group() as tasks:
            for at, wire in enumerate(clients):
                traveller = Traveller(wire, f"{seed}-{at}", folders, said)
                tasks.start_soon(traveller.travel, ids)
        for connection in connections:
            connection.chance = 0.0
        for wire in clients[::2]:
            found: dict[str, str] = {}
            for session_id in ids.values():
                page = await wire.call("session/entries", session_id=session_id, limit=1000)
                rows = [row["entry"]["id"] for row in page["entries"]]
                assert len(set(rows)) == len(rows)
                found |= dict.fromkeys(rows, session_id)
            assert found == said
