"""Sessiond's readings held against the second readers, on generated files of other agents.

`tests.kit.agreement` says where the two may differ.
"""

from __future__ import annotations

import random
import re
from array import array
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from sessiond.dialects.agents import AGENTS
from sessiond.journal.disk.files import Files
from sessiond.journal.splitter import Splitter
from sessiond.service.sources.agents.neighbours import spans_before
from sessiond.service.sources.agents.sources import open_fork, open_source
from tests.kit.agent_files import claude_moves, codex_moves, gemini_moves
from tests.kit.agent_files.claude_moves import claude_script
from tests.kit.agent_files.codex import CodexScript
from tests.kit.agent_files.codex_moves import codex_child, codex_script
from tests.kit.agent_files.dice import Sizes
from tests.kit.agent_files.gemini_moves import gemini_script, gemini_subagent
from tests.kit.agent_files.roots import rollout_path
from tests.kit.agent_files.said import whole_lines
from tests.kit.agent_files.second_codex import read_codex
from tests.kit.agent_files.writing import torn, write_fast
from tests.kit.agreement import KITS, Kit, Pair, contexts, hold_all, lines_of
from tests.kit.readings import ALIKE, UNKNOWN, ReadSession, check_reading
from tests.kit.wounds import is_between_messages

SEEDS = range(3)
SIZES = Sizes(turns=45)
SMALL = Sizes(turns=16)
MOVES = {
    "claude": claude_moves.MOVES,
    "codex": codex_moves.MOVES,
    "codex-paginated": codex_moves.MOVES,
    "codex-copy": codex_moves.MOVES,
    "gemini": gemini_moves.MOVES,
    "gemini-again": gemini_moves.MOVES,
}
LEFT_OUT = {"gemini": {"again"}, "gemini-again": {"rewind"}}
RANDOM_SEEDS = 4
EACH_KIT = pytest.mark.parametrize("kit", KITS.values(), ids=KITS)


def test_each_move_is_made_by_some_seed() -> None:
    for name, kit in KITS.items():
        made = {move for seed in SEEDS for move, _ in kit.make(seed, SIZES).steps()}
        assert made - {"head"} == MOVES[name].keys() - LEFT_OUT.get(name, set()), name


@pytest.mark.parametrize("seed", SEEDS)
@EACH_KIT
def test_both_readers_find_the_same_behind_each_move(kit: Kit, seed: int) -> None:
    hold_all(kit, seed, SIZES)


@pytest.mark.search
@EACH_KIT
def test_both_readers_find_the_same_for_any_seed(kit: Kit) -> None:
    for _ in range(RANDOM_SEEDS):
        seed = random.SystemRandom().randrange(10**12)
        try:
            hold_all(kit, seed, Sizes(turns=120))
        except Exception as error:
            raise AssertionError(f"the readers differ for the seed {seed}") from error


def test_the_files_of_subagents_are_read_alike() -> None:
    script = claude_script(1, SIZES)
    list(script)
    assert script.subagents
    for one in script.subagents:
        pair = Pair(KITS["claude"]).take(one.lines)
        pair.hold()
        assert pair.found.origin.is_subagent
    parent = gemini_script(1, SMALL)
    list(parent)
    below = Pair(KITS["gemini"]).take(gemini_subagent(1, parent, SMALL))
    below.hold()
    assert below.found.origin.is_subagent


# -- forks over files -----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_forks_and_segments_are_read_alike_over_files(tmp_path: Path, seed: int) -> None:
    home, contents, files = tmp_path.resolve(), dict[str, bytes](), Files()
    # The lines of each rollout behind its first one, those of other files included.
    behind: dict[str, list[bytes]] = {}

    def hold(script: CodexScript) -> None:
        moves = [lines for _, lines in script.steps()]
        own = [line for lines in moves for line in lines]
        path, base = rollout_path(home, script), script.thread.base
        write_fast(path, own)
        contents[script.thread.rollout_id] = path.read_bytes()
        before: list[bytes] = []
        if base is not None:
            cut = whole_lines(contents[base.rollout_id][base.offset :])[0]
            before = behind[base.rollout_id][: -len(cut)]
        behind[script.thread.rollout_id] = [*before, *own[1:]]
        found = ReadSession(AGENTS["codex"].reading())
        # A rollout may begin in other files.
        spans = spans_before(path, own[0], files)
        assert spans is not None
        in_place: list[bytes] = []
        with closing(open_fork(files, open_source(files, path), spans)) as source:
            while lines := source.more():
                in_place += lines
        assert in_place == [own[0], *before, *own[1:]]
        found.take_all([own[0], *before])
        so_far: list[bytes] = []
        for lines in moves:
            so_far += lines
            found.take_all(lines if len(so_far) > len(lines) else lines[1:])
            second = read_codex(so_far, contents.get)
            mine, theirs = contexts(found.messages(), second, "codex")
            assert [said for _, said in mine] == [said for _, said in theirs]
        assert found.problems() == []
        assert found.origin.session_id == script.thread.thread_id

    parent = codex_script(seed, Sizes(turns=24), paginated=True)
    hold(parent)
    start_ms = parent.dice.now_ms
    fork = codex_child(seed, parent.cuts[0], SMALL, segment=False, start_ms=start_ms)
    hold(fork)
    start_ms = fork.dice.now_ms
    hold(codex_child(f"{seed} s", fork.cuts[1], SMALL, segment=True, start_ms=start_ms))


# -- lines that are torn, doubled, or of no known form ----------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
@EACH_KIT
def test_lines_that_come_torn_are_the_whole_lines_at_any_time(kit: Kit, seed: int) -> None:
    lines = lines_of(kit, seed, SMALL)
    splitter, pair, came = Splitter(array("q", [0])), Pair(kit), b""
    for piece in torn(lines, seed, 700):
        came += piece
        pair.take(line.removesuffix(b"\n") for line in splitter.feed(piece))
        assert pair.lines == whole_lines(came)[0]
    assert pair.lines == lines
    pair.hold()


@pytest.mark.parametrize("seed", SEEDS)
@EACH_KIT
def test_a_file_that_ends_anywhere_is_read_alike(kit: Kit, seed: int) -> None:
    data = b"".join(line + b"\n" for line in lines_of(kit, seed, SMALL))
    chance = random.Random(seed)
    first = data.index(b"\n") + 1
    for _ in range(12):
        whole, rest = whole_lines(data[: chance.randrange(first, len(data))])
        pair = Pair(kit).take(whole)
        pair.hold_within()
        # A reader that takes the half line for a line finds no more than a bad line.
        if rest and not is_between_messages(rest):
            pair.take([rest]).hold_within()


@pytest.mark.parametrize("seed", SEEDS)
@EACH_KIT
def test_doubled_lines_are_read_alike(kit: Kit, seed: int) -> None:
    chance = random.Random(seed)
    head, *lines = lines_of(kit, seed, SMALL)
    is_prompt = re.compile(b'"user_message"|"UserMessage"')
    doubled = [
        line
        for line in lines
        # Two of Codex's events of a prompt are two turns in sessiond.
        for _ in range(1 if is_prompt.search(line) else chance.choice([1, 1, 2]))
    ]
    Pair(kit).take([head, *doubled]).hold_within()


@pytest.mark.parametrize("seed", SEEDS)
@EACH_KIT
def test_lines_of_no_known_form_change_nothing(kit: Kit, seed: int) -> None:
    chance = random.Random(seed)
    lines = lines_of(kit, seed, SMALL)
    # A blank line is none for the second reader, and nothing for sessiond.
    strange = [line for line in (*UNKNOWN, *ALIKE) if line.strip()]
    for _ in range(20):
        lines.insert(chance.randrange(1, len(lines) + 1), chance.choice(strange))
    Pair(kit).take(lines).hold()


@pytest.mark.parametrize("seed", SEEDS)
@EACH_KIT
def test_damaged_lines_break_no_law_of_a_reading(kit: Kit, seed: int) -> None:
    chance = random.Random(seed)
    lines = lines_of(kit, seed, SMALL)
    for _ in range(10):
        at = chance.randrange(len(lines))
        line = bytearray(lines[at])
        line[chance.randrange(len(line))] = chance.randrange(256)
        lines[at] = bytes(line)
    found = ReadSession(AGENTS[kit.agent].reading()).take_all(lines)
    assert len(found.lines) == len(lines)
    found.messages()


@pytest.mark.parametrize("seed", SEEDS)
@EACH_KIT
def test_a_reading_keeps_the_law_of_its_port(kit: Kit, seed: int) -> None:
    # A missing parent is a problem of the file.
    whole = (
        replace(kit, make=partial(claude_script, moves=claude_moves.without("gap")))
        if kit is KITS["claude"]
        else kit
    )
    made = check_reading(AGENTS[kit.agent].reading, lines_of(whole, seed, SMALL))
    assert made.entries.count(None) == 0
