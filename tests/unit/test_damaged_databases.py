"""Databases of the profile with damaged bytes: each is made anew, and no use of one fails for good."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from sessiond.catalog.catalog import Catalog
from sessiond.catalog.fulltext import Indexed, Text, TextIndex
from sessiond.catalog.rows import Mark

ROWS = 60


def use_catalog(path: Path) -> None:
    catalog = Catalog(path, lambda _: None)
    for number in range(ROWS):
        catalog.place(f"session-{number:06}", f"/p/{number}.jsonl", Mark(f"e{number}", 0, ""))
    catalog.file.look()
    assert len(list(catalog.all())) >= 1
    assert catalog.known(f"session-{ROWS - 1:06}") is not None
    catalog.close()


def use_index(path: Path) -> None:
    texts = TextIndex(path, lambda _: None)
    texts.indexed()
    texts.find("lagoon", ["session-000001"], 5)
    for number in range(ROWS):
        found = [Text(1, "id", f"word {number} lagoon")]
        texts.put(f"session-{number:06}", Indexed("e", 1, 10), found, anew=True)
    last = f"session-{ROWS - 1:06}"
    assert [one.session_id for one in texts.find("lagoon", [last], 5)] == [last]
    texts.close()


@pytest.mark.parametrize("use", [use_catalog, use_index])
def test_a_damaged_database_of_the_profile_stops_no_use(
    tmp_path: Path, use: Callable[[Path], None]
) -> None:
    path = tmp_path / "database.sqlite"
    use(path)
    content = path.read_bytes()
    for seed in range(40):
        dice, changed = random.Random(seed), bytearray(content)
        for _ in range(1 + seed * 7):
            changed[dice.randrange(16, len(changed))] = dice.randrange(256)
        path.write_bytes(changed)
        use(path)
