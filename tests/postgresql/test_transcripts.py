"""Every transcript of the protocol happens as it is written with sessions on PostgreSQL."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sessiond.rpc.framing import Framing
from sessiond.service.database.store import DatabaseStore
from sessiond.testing.daemon import running_daemon
from sessiond.testing.transcripts import Placeholders, parse, play, render
from tests.protocol.conftest import placeholders
from tests.protocol.test_transcripts_on_a_database import TRANSCRIPTS, pathless

if TYPE_CHECKING:
    from sessiond.postgresql.database import PostgresqlDatabase

__all__ = ["placeholders"]

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
async def test_it_happens_as_written_but_for_paths(
    path: Path, home: Path, placeholders: Placeholders, database: PostgresqlDatabase
) -> None:
    text = path.read_text()
    async with running_daemon(home, keep=lambda files: DatabaseStore(database, files)) as daemon:
        happened = await play(parse(text), daemon, Framing.NDJSON, placeholders=placeholders)
    shown = pathless(render(happened).replace(database.name, "a database in memory"))
    assert shown == pathless(text)
