"""Every transcript happens as it is written with a store that keeps sessions in a database."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Final

import pytest

from sessiond.rpc.framing import Framing
from sessiond.service.database.store import DatabaseStore
from sessiond.testing.daemon import running_daemon
from sessiond.testing.database import MemoryDatabase
from sessiond.testing.transcripts import Placeholders, parse, play, render

TRANSCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))
# What a session in a database does not have: a path in the profile.
PATH: Final = re.compile(
    r'"(path|origin)":(null|"\$HOME/profiles/default/[^"]*"|"a database in memory")'
)
# A refusal is judged twice, behind a look at the database, so that some counted ids are given to nothing.
COUNTED: Final = re.compile(r'(?<=")e\d+(?=\\?")')
# What an etag proves are the ids of entries.
PROOF: Final = re.compile(r'("etag":"epoch-[0-9]+\.[0-9]+)\.[0-9a-f]{12}')
PARENT: Final = re.compile(r',"parent_path":"\$HOME/profiles/default/[^"]*"')


def pathless(text: str) -> str:
    """Return a transcript without the paths of session files, its counted ids counted anew."""
    body = "".join(line.body for line in parse(text))
    names: dict[str, str] = {}
    body = COUNTED.sub(lambda found: names.setdefault(found[0], f"e{len(names) + 1}"), body)
    return PATH.sub(r'"\1":null', PARENT.sub("", PROOF.sub(r"\1", body)))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
async def test_it_happens_as_written_but_for_paths(
    path: Path, home: Path, placeholders: Placeholders
) -> None:
    text = path.read_text()
    place = MemoryDatabase(time.time_ns)
    async with running_daemon(
        home, keep=lambda files: DatabaseStore(place.connection(), files)
    ) as daemon:
        happened = await play(parse(text), daemon, Framing.NDJSON, placeholders=placeholders)
    assert pathless(render(happened)) == pathless(text)
