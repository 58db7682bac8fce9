"""A fleet is what it says: drawn from its seed, of five agents, with sizes as published."""

from __future__ import annotations

import statistics
from collections import Counter
from pathlib import Path

from tests.kit.fleet import Fleet

MEAN = 16_000


def test_equal_seeds_give_equal_files(tmp_path: Path) -> None:
    made = []
    for number, seed in enumerate((7, 7, 8)):
        fleet = Fleet(tmp_path / str(number), seed)
        fleet.fill(10)
        made.append({path.name: path.read_bytes() for path in fleet.files if path.suffix != ".db"})
    assert made[0] == made[1] != made[2]


def test_a_fleet_is_a_mix_of_five_agents_and_their_subagents_with_skewed_sizes(
    tmp_path: Path,
) -> None:
    fleet = Fleet(tmp_path, mean_bytes=MEAN)
    fleet.fill(200)
    kinds = Counter(one.kind for one in fleet.sessions.values())
    mix = {"claude-code": 100, "codex": 40, "gemini-cli": 20, "opencode": 20, "pi": 20}
    assert kinds == mix
    assert sum(one.parent is not None for one in fleet.sessions.values()) == 40
    sizes = [path.stat().st_size for path in fleet.files if path.suffix == ".jsonl"]
    assert 0.7 * MEAN < statistics.mean(sizes) < 1.5 * MEAN
    assert statistics.median(sizes) < 0.7 * statistics.mean(sizes)


def test_a_word_is_where_it_was_put_and_nowhere_else(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    fleet.fill(20)
    one = next(one for one in fleet.sessions.values() if one.kind == "pi")
    word = fleet.words[0]
    for change, words, count in (
        (fleet.append, [word, word], one.words[word] + 2),
        (fleet.rewrite, [], 0),
        (fleet.rewrite, [word], 1),
    ):
        change(one, words)
        assert fleet.holders(word).get(one.id, 0) == count
        said = one.path.read_text("utf-8")
        assert sum(fleet.has(line, word) for line in said.splitlines()) == count
    fleet.remove(one)
    assert not one.path.exists()
    assert one.id not in fleet.holders(word)
