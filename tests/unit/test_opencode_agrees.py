"""Sessiond's reading of opencode held against the second reader, on generated databases."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.kit.agent_files.dice import Sizes
from tests.kit.agent_files.second_opencode import ASKED, read_opencode
from tests.kit.limits import set_limits
from tests.kit.opencode import FOOTER, RENAME, database
from tests.kit.stored_agreement import STORE_KITS, STORE_MOVES, hold_store

# 11: a fork of a session without messages. 66: two changes of a session in one millisecond.
SEEDS = (11, 66)
MORE_SEEDS = (0, 1, 2)
SIZES = Sizes(turns=45)
RANDOM_SEEDS = 4


def test_each_move_is_made_by_some_seed() -> None:
    for name, make in STORE_KITS.items():
        made = {move for seed in SEEDS for move, _ in make(seed, SIZES).steps()}
        assert made - {"head"} == STORE_MOVES[name].keys(), name


@pytest.mark.parametrize(
    "seed", [*SEEDS, *(pytest.param(seed, marks=pytest.mark.search) for seed in MORE_SEEDS)]
)
@pytest.mark.parametrize("kit", STORE_KITS)
def test_both_readers_find_the_same_behind_each_move(kit: str, seed: int, tmp_path: Path) -> None:
    hold_store(tmp_path, kit, seed, SIZES)


@pytest.mark.parametrize("kit", STORE_KITS)
def test_both_readers_find_the_same_however_few_messages_a_read_has(
    kit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, OPENCODE_BATCH_BYTES=1500)
    hold_store(tmp_path, kit, SEEDS[0], SIZES)


@pytest.mark.search
@pytest.mark.parametrize("kit", STORE_KITS)
def test_both_readers_find_the_same_for_any_seed(kit: str, tmp_path: Path) -> None:
    for _ in range(RANDOM_SEEDS):
        seed = random.SystemRandom().randrange(10**12)
        try:
            hold_store(tmp_path, kit, seed, Sizes(turns=120))
        except Exception as error:
            raise AssertionError(f"the readers differ for the seed {seed}") from error


# -- the second reader, as the page on the samples expects -------------------------------------------


def test_the_second_reader_finds_what_the_samples_say(tmp_path: Path) -> None:
    older = read_opencode(database(tmp_path / "1.db"), FOOTER)
    assert [(one.role, " ".join(one.texts)) for one in older.context] == [
        ("user", ASKED),
        ("assistant", "Summary: a footer was added."),
        ("user", "make it grey"),
        ("assistant", "Grey now."),
        ("user", "deploy"),
    ]
    assert list(older.usage.values()) == [1480, 122, 10, 1100, 960]
    assert older.title == "Add a footer"
    newer = read_opencode(database(tmp_path / "2.db", "v2"), RENAME)
    assert [(one.role, " ".join(one.texts)) for one in newer.context] == [
        ("summary", "The page was renamed to b.\n\nUser: rename the page"),
        ("user", "undo that"),
        ("assistant", "Undone."),
    ]
    assert list(newer.usage.values()) == [330, 58, 0, 600, 400]
    assert (newer.title, newer.cwd) == ("Rename page", "/home/ann/site")
