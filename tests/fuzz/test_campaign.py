"""A bounded part of every attack, with seeds that are the same in each run; `make fuzz` tries new ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.campaign import ROUNDS, Round, deltas, files, frames, lies, profiles, walks


@pytest.fixture
def folder(socket_path: Path) -> Path:
    """A folder whose name is short enough for sockets in it."""
    return socket_path.parent


@pytest.mark.parametrize(
    ("attack", "size"),
    [(frames, 4), (walks, 60), (files, 1), (deltas, 1), (profiles, 1), (lies, 1)],
)
def test_a_short_attack_finds_nothing(folder: Path, attack: Round, size: int) -> None:
    assert list(attack(folder, 1, size)) == []


@pytest.mark.slow
@pytest.mark.parametrize(("attack", "size"), ROUNDS)
@pytest.mark.parametrize("seed", [10_000, 20_000])
def test_a_longer_attack_finds_nothing(folder: Path, attack: Round, size: int, seed: int) -> None:
    assert list(attack(folder, seed, size)) == []
