"""A bounded part of every attack, with fixed seeds; `make fuzz` tries new seeds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.campaign import ROUNDS, Round, deltas, files, frames, lies, profiles, walks
from tests.fuzz.properties import drawn, properties


@pytest.fixture
def folder(socket_path: Path) -> Path:
    """Return a folder whose name is short enough for sockets in it."""
    return socket_path.parent


@pytest.mark.slow
@pytest.mark.parametrize(
    ("attack", "size"),
    [(frames, 4), (walks, 60), (files, 1), (deltas, 1), (profiles, 1), (lies, 1)],
)
def test_a_short_attack_finds_nothing(folder: Path, attack: Round, size: int) -> None:
    assert list(attack(folder, 1, size)) == []


@pytest.mark.search
@pytest.mark.parametrize(
    ("attack", "size"), [(attack, size) for attack, size in ROUNDS if attack is not properties]
)
@pytest.mark.parametrize("seed", [10_000, 20_000])
def test_a_longer_attack_finds_nothing(folder: Path, attack: Round, size: int, seed: int) -> None:
    assert list(attack(folder, seed, size)) == []


@pytest.mark.search
def test_a_property_that_few_examples_break_is_found_by_some_seed(tmp_path: Path) -> None:
    text = "from hypothesis import given, strategies\n"
    text += "@given(strategies.integers(0, 300))\n"
    text += "def test_it(number):\n    assert number != 234\n"
    (tmp_path / "test_rare.py").write_text(text)
    luck = "from hypothesis import settings\nsettings.register_profile('luck', database=None)\n"
    (tmp_path / "conftest.py").write_text(luck)
    found = (fault for seed in range(20) for fault in drawn(tmp_path, tmp_path, seed))
    assert "test_it" in next(found)
