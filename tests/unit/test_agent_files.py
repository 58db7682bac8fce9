"""Files of other agents, generated: the generator and the second reader agree, and lines have their shape."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final, Protocol

import pytest
import zstandard

from tests.kit import agent_files
from tests.kit.agent_files import claude_moves, codex_moves, gemini_moves
from tests.kit.agent_files.claude import ClaudeScript
from tests.kit.agent_files.claude_moves import claude_script
from tests.kit.agent_files.codex import CodexScript
from tests.kit.agent_files.codex_moves import codex_child, codex_copy, codex_script
from tests.kit.agent_files.dice import Sizes, spelled
from tests.kit.agent_files.gemini_moves import gemini_script, gemini_subagent
from tests.kit.agent_files.roots import (
    Made,
    Plan,
    make_claude_root,
    make_codex_root,
    make_gemini_root,
    make_opencode_root,
)
from tests.kit.agent_files.said import Json, Reading, Role, parsed, whole_lines
from tests.kit.agent_files.second_claude import read_claude
from tests.kit.agent_files.second_codex import USAGE_NAMES, read_codex
from tests.kit.agent_files.second_gemini import read_gemini
from tests.kit.agent_files.second_opencode import read_opencode
from tests.kit.agent_files.shapes import claude_faults, codex_faults, gemini_faults
from tests.kit.agent_files.writing import torn, write_fast, write_torn
from tests.kit.agents import SAMPLES
from tests.kit.journals import text

ROOT: Final = Path(__file__).resolve().parents[2]
SEEDS: Final = range(3)
LONG: Final = Sizes(turns=90)


class Script(Protocol):
    features: Counter[str]

    def __iter__(self) -> Iterator[bytes]: ...

    def steps(self) -> Iterator[tuple[str, list[bytes]]]: ...

    @property
    def order(self) -> list[tuple[Role, tuple[str, ...]]]: ...


MAKERS: Final[dict[str, Callable[[int], Script]]] = {
    "claude": lambda seed: claude_script(seed, LONG),
    "codex-legacy": lambda seed: codex_script(seed, LONG),
    "codex-paginated": lambda seed: codex_script(seed, LONG, paginated=True),
    "gemini": lambda seed: gemini_script(seed, LONG),
}
READERS: Final[dict[str, Callable[[list[bytes]], Reading]]] = {
    "claude": read_claude,
    "codex-legacy": read_codex,
    "codex-paginated": read_codex,
    "gemini": read_gemini,
}


def objects(lines: Iterable[bytes]) -> list[Json]:
    found = [one for one in parsed(list(lines)) if one is not None]
    assert found
    return found


def played(
    script: Script, read: Callable[[list[bytes]], Reading], step: int = 1
) -> tuple[list[bytes], Reading]:
    """Return all lines and their reading; hold reader and script against each other after moves."""
    lines: list[bytes] = []
    for number, (move, new) in enumerate(script.steps()):
        lines += new
        if number % step == 0:
            assert read(lines).order == script.order, (number, move)
    reading = read(lines)
    assert reading.order == script.order
    assert reading.bad == 0
    return lines, reading


# The generator and the second reader, which know nothing of each other.


@pytest.mark.parametrize("agent", MAKERS)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.search)])
def test_the_reader_finds_the_context_that_the_script_meant_after_moves(
    agent: str, seed: int, step: int
) -> None:
    played(MAKERS[agent](seed), READERS[agent], step)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_reader_finds_the_prompts_and_tokens_of_codex(seed: int) -> None:
    for paginated in (False, True):
        script = codex_script(seed, LONG, paginated=paginated)
        _, reading = played(script, read_codex, step=50)
        assert list(reading.prompts) == script.prompts
        assert {USAGE_NAMES[name]: count for name, count in reading.usage.items()} == script.used


@pytest.mark.parametrize("seed", SEEDS)
def test_the_reader_finds_the_tokens_of_gemini(seed: int) -> None:
    script = gemini_script(seed, LONG)
    _, reading = played(script, read_gemini, step=50)
    assert reading.usage["total"] == sum(script.used.values())
    assert reading.more_usage["live"]["total"] <= reading.usage["total"]


@pytest.mark.parametrize("seed", SEEDS)
def test_each_reply_of_claude_is_counted_once(seed: int) -> None:
    lines, reading = played(claude_script(seed, LONG), read_claude, step=50)
    outputs: dict[str, int] = {}
    for one in objects(lines):
        if one.get("type") == "assistant" and not one["isSidechain"]:
            message = one["message"]
            counted = message["usage"]["output_tokens"]
            outputs[message["id"]] = max(outputs.get(message["id"], 0), counted)
    assert reading.usage["output"] == sum(outputs.values())
    assert reading.more_usage["aside"]["output"] > 0


@pytest.mark.parametrize("seed", SEEDS)
def test_forks_and_segments_of_codex_read_over_files(seed: int) -> None:
    files: dict[str, bytes] = {}

    def kept(script: CodexScript, read: Callable[[list[bytes]], Reading]) -> Reading:
        lines, reading = played(script, read)
        used = {USAGE_NAMES[name]: count for name, count in reading.usage.items() if count}
        assert used == script.used
        assert [one for one in reading.prompts if one.startswith("line-")] == script.prompts
        files[script.thread.rollout_id] = text(lines)
        return reading

    def over_files(lines: list[bytes]) -> Reading:
        return read_codex(lines, files.get)

    parent = codex_script(seed, Sizes(turns=30), paginated=True)
    kept(parent, read_codex)
    cut = parent.cuts[0]
    base = files[cut.rollout_id]
    assert base[: cut.offset].endswith(b"\n")
    assert objects(whole_lines(base[cut.offset :])[0])[0]["ordinal"] == cut.ordinal
    fork = codex_child(seed, cut, Sizes(turns=20), segment=False, start_ms=parent.dice.now_ms)
    reading = kept(fork, over_files)
    assert not reading.missing
    segment = codex_child(
        f"{seed} s", fork.cuts[1], Sizes(turns=20), segment=True, start_ms=fork.dice.now_ms
    )
    reading = kept(segment, over_files)
    assert not reading.missing
    assert segment.thread.thread_id == fork.thread.thread_id
    # Bytes that end within a line are not believed: the ordinals tell the place, too.
    own = whole_lines(files[fork.thread.rollout_id])[0]
    head = json.loads(own[0])
    assert head["ordinal"] == cut.ordinal
    head["payload"]["history_base"]["end_byte_offset"] //= 2
    assert not base[: cut.offset // 2].endswith(b"\n")
    whole = over_files(own)
    assert over_files([spelled(head), *own[1:]]).tree == whole.tree
    del files[cut.rollout_id]
    assert over_files(own).missing == {cut.rollout_id}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_legacy_fork_repeats_its_parent_and_counts_only_its_own_tokens(seed: int) -> None:
    parent = codex_script(seed, Sizes(turns=20))
    lines, _ = played(parent, read_codex, step=50)
    child = codex_copy(seed, parent, lines, Sizes(turns=12))
    own, reading = played(child, read_codex)
    assert [json.loads(line)["payload"] for line in own[1 : len(lines) + 1]] == [
        json.loads(line)["payload"] for line in lines
    ]
    assert {USAGE_NAMES[name]: count for name, count in reading.usage.items()} == child.used
    assert reading.prompts[len(parent.prompts) :] == tuple(child.prompts)


def test_the_file_of_a_subagent_is_its_own_talk() -> None:
    script = claude_script(1, LONG)
    list(script)
    assert script.subagents
    for one in script.subagents:
        reading = read_claude(one.lines, one.meta)
        assert reading.order == list(one.order)
        assert reading.title == one.meta["description"]
        assert all(line["isSidechain"] for line in objects(one.lines))


# Features.

CLAUDE_FEATURES: Final = (
    *("chunks", "chunks_with_final_usage", "thinking", "parallel_calls", "joined_results"),
    *("result_between_lines", "failed_call", "image_in_prompt", "image_in_result"),
    *("rewind_without_pin", "rewind_with_pin", "rewind_to_nothing", "rewind_past_compaction"),
    *("compaction_next_below_tail", "compaction_next_below_summary", "compaction_segment_only"),
    *(
        "compaction_keeps_none",
        "compaction_at_once_again",
        "compaction_tail_written_later",
        "compaction_again_with_copies",
    ),
    *("summary_below_attachment", "sidechain", "team", "bookkeeping", "unknown", "title"),
    *("summary", "tag", "links", "meta", "queued_command", "api_error", "missing_parent"),
    *("lone_surrogate", "subagent", "last_prompt", "last_prompt_at_attachment"),
)
CODEX_FEATURES: Final = (
    *("injected", "reasoning", "function_call", "custom_tool_call", "local_shell_call"),
    *("web_search_call", "parallel_calls", "image", "model_change", "token_count_repeated"),
    *("total_dropped", "rollback", "rollback_of_several", "rollback_of_compaction"),
    *(
        "compacted",
        "compacted_with_reply",
        "compacted_old",
        "context_compaction",
        "bookkeeping",
        "unknown",
        "aborted",
    ),
)
GEMINI_FEATURES: Final = (
    *("written_again", "calls_by_writing_again", "call_without_result", "parallel_calls"),
    *("image", "rewind", "rewind_to_unknown", "replaced_list", "compression", "masked"),
    *("compression_keeps_messages", "failed_turn_taken_back", "info", "warning", "error"),
    *("unseen_user", "older_written_again", "title", "patches", "unknown"),
)


@pytest.mark.parametrize(
    ("agent", "wanted"),
    [
        ("claude", CLAUDE_FEATURES),
        ("codex-legacy", CODEX_FEATURES),
        ("codex-paginated", CODEX_FEATURES),
        ("gemini", GEMINI_FEATURES),
    ],
)
def test_generated_files_have_each_feature(agent: str, wanted: tuple[str, ...]) -> None:
    found: Counter[str] = Counter()
    for seed in range(4):
        script = MAKERS[agent](seed)
        for _ in script:
            pass
        found += script.features
    assert [name for name in wanted if not found[name]] == []
    assert [name for name in found if name not in wanted and not name.startswith("kind ")] == []


def test_features_of_claude_are_in_the_lines() -> None:
    script = claude_script(0, Sizes(turns=140))
    lines = objects(script)
    count = script.features
    kinds = Counter(str(one.get("type")) for one in lines)
    boundaries = [one for one in lines if one.get("subtype") == "compact_boundary"]
    compactions = sum(number for name, number in count.items() if name.startswith("compaction_"))
    # Moves with two compactions are counted once.
    doubles = count["compaction_again_with_copies"] + count["compaction_at_once_again"]
    assert len(boundaries) == compactions + doubles
    later_tails = 0
    listed = [one for one in boundaries if "preservedMessages" in one["compactMetadata"]]
    for boundary in listed:
        kept = boundary["compactMetadata"]["preservedMessages"]
        last = [one for one in lines if one.get("uuid") == kept["uuids"][-1]]
        later_tails += last[0]["parentUuid"] == kept["anchorUuid"]
    assert later_tails == count["compaction_tail_written_later"]
    segments = [one for one in boundaries if "preservedSegment" in one["compactMetadata"]]
    only_segments = [one for one in segments if one not in listed]
    assert len(only_segments) == count["compaction_segment_only"]
    uuids = Counter(str(one["uuid"]) for one in lines if "uuid" in one)
    twice = {uuid for uuid, number in uuids.items() if number == 2}
    assert len(twice) >= 2 * count["compaction_again_with_copies"]
    copies = [one for one in lines if one.get("uuid") in twice]
    assert len({spelled(one) for one in copies}) == len(twice)
    assert (
        sum("isSidechain" in one and one["isSidechain"] for one in lines) == 4 * count["sidechain"]
    )
    pins = [one for one in lines if one.get("type") == "last-prompt" and one.get("explicit")]
    assert len(pins) == count["rewind_with_pin"] + count["rewind_to_nothing"]
    assert kinds["file-history-snapshot"] == count["bookkeeping"]
    assert sum(name.startswith("kind ") for name in count) >= 20
    there = set(uuids)
    gone = {
        one["parentUuid"]
        for one in lines
        if one.get("parentUuid") is not None and one["parentUuid"] not in there
    }
    assert len(gone) == count["missing_parent"]
    early = [
        one["message"]
        for one in lines
        if one.get("type") == "assistant" and one["message"]["stop_reason"] is None
    ]
    assert len({one["id"] for one in early}) == count["chunks"]
    assert {one["usage"]["output_tokens"] for one in early} == {1}


def test_features_of_codex_are_in_the_lines() -> None:
    for paginated in (False, True):
        script = codex_script(2, LONG, paginated=paginated)
        lines = objects(script)
        count = script.features
        events = Counter(str(one["payload"]["type"]) for one in lines if one["type"] == "event_msg")
        rollbacks = count["rollback"] + count["rollback_of_compaction"]
        assert events["thread_rolled_back"] == rollbacks
        whole = [
            one
            for one in lines
            if one["type"] == "compacted" and "replacement_history" in one["payload"]
        ]
        assert len(whole) == count["compacted"]
        assert max(len(one["payload"]["replacement_history"]) for one in whole) >= 5
        totals = [
            one["payload"]["info"]["total_token_usage"]
            for one in lines
            if one["payload"].get("type") == "token_count" and one["payload"]["info"]
        ]
        pairs = list(pairwise(totals))
        assert sum(before == after for before, after in pairs) == count["token_count_repeated"]
        dropped = [1 for before, after in pairs if after["total_tokens"] < before["total_tokens"]]
        assert len(dropped) == count["total_dropped"]
        assert len({one["payload"].get("model") for one in lines} - {None}) > 1
        if paginated:
            assert [one["ordinal"] for one in lines] == list(range(len(lines)))


def test_features_of_gemini_are_in_the_lines() -> None:
    script = gemini_script(2, LONG)
    lines = objects(script)
    count = script.features
    ids = Counter(str(one["id"]) for one in lines if "id" in one)
    assert sum(number - 1 for number in ids.values()) == count["written_again"]
    rewinds = sum("$rewindTo" in one for one in lines)
    assert rewinds == count["rewind"] + count["rewind_to_unknown"]
    assert sum("messages" in one.get("$set", {}) for one in lines) == count["replaced_list"]


def test_sizes_are_tunable() -> None:
    for make in (claude_script, codex_script, gemini_script):
        few = text(make(1, Sizes(turns=10)))
        many = text(make(1, Sizes(turns=100)))
        wide = text(make(1, Sizes(turns=10, text_bytes=20_000, result_bytes=200_000)))
        assert len(few) * 5 < len(many)
        assert len(few) + 200_000 < len(wide)


def test_a_talk_can_leave_moves_out() -> None:
    script = claude_script(3, LONG, moves=claude_moves.without("gap", "surrogate"))
    lines, reading = played(script, read_claude, step=50)
    assert not reading.missing
    assert b"\\ud83d" not in text(lines)
    with pytest.raises(AssertionError):
        claude_moves.without("no such move")


@pytest.mark.parametrize("moves", [claude_moves.MOVES, codex_moves.MOVES, gemini_moves.MOVES])
def test_as_many_turns_as_there_are_moves_make_each_move(moves: dict[str, object]) -> None:
    turns = Sizes(turns=len(moves) + 1)
    script: Script
    if "compact_twice" in moves:
        script = claude_script(5, turns)
    elif "rollback" in moves:
        script = codex_script(5, turns)
    else:
        script = gemini_script(5, turns)
    assert {move for move, _ in script.steps()} - {"head"} == set(moves)


# Bytes.


@pytest.mark.parametrize("agent", MAKERS)
def test_equal_seeds_give_equal_bytes_and_other_seeds_other_bytes(agent: str) -> None:
    once = text(MAKERS[agent](7))
    assert once == text(MAKERS[agent](7))
    assert once != text(MAKERS[agent](8))


def test_equal_seeds_give_equal_bytes_in_another_process() -> None:
    program = (
        "import hashlib\n"
        "from tests.kit.agent_files.claude_moves import claude_script\n"
        "from tests.kit.agent_files.codex_moves import codex_script\n"
        "from tests.kit.agent_files.gemini_moves import gemini_script\n"
        "for make in (claude_script, codex_script, gemini_script):\n"
        "    print(hashlib.sha256(b'\\n'.join(make(11))).hexdigest())\n"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(said) == 1
    assert len(said.pop().split()) == 3


def faults_of(agent: str, lines: list[bytes]) -> list[str]:
    """Return the faults of all lines of a file; each line must be one JSON object in UTF-8."""
    found: list[str] = []
    for number, line in enumerate(lines):
        assert b"\n" not in line
        line.decode("utf-8", "strict")
        (one,) = objects([line])
        if agent == "claude":
            found += claude_faults(one)
        elif agent == "gemini":
            found += gemini_faults(one, first=number == 0)
        else:
            found += codex_faults(one, paginated=agent.endswith("paginated"))
    return found


@pytest.mark.parametrize("agent", MAKERS)
@pytest.mark.parametrize("seed", SEEDS)
def test_every_line_has_the_shape_of_its_format(agent: str, seed: int) -> None:
    script = MAKERS[agent](seed)
    assert faults_of(agent, list(script)) == []
    if isinstance(script, ClaudeScript):
        for one in script.subagents:
            assert faults_of(agent, list(one.lines)) == []


def test_the_shapes_are_those_of_the_samples() -> None:
    for path in sorted(SAMPLES.rglob("*.jsonl")):
        lines, _ = whole_lines(path.read_bytes())
        if path.name.startswith(("claude", "agent")):
            assert faults_of("claude", lines) == []
        elif path.name.startswith("rollout"):
            paginated = b'"ordinal":' in lines[0]
            assert faults_of("codex-paginated" if paginated else "codex", lines) == []
        elif path.name.startswith("session-"):
            assert faults_of("gemini", lines) == []


def test_a_line_of_another_shape_is_found() -> None:
    lines = list(claude_script(1, Sizes(turns=8)))
    first = json.loads(lines[0])
    for planted in (
        {**first, "parentUuid": 5},
        {**first, "message": {"role": "assistant", "content": "x"}},
        {**first, "message": {"role": "user", "content": [{"type": "tool_use"}]}},
        {name: value for name, value in first.items() if name != "cwd"},
        {**first, "type": "system", "subtype": "compact_boundary", "parentUuid": "x"},
    ):
        assert claude_faults(planted), planted
    turn = {"timestamp": "x", "type": "turn_context", "payload": {"turn_id": "t", "cwd": "/"}}
    assert codex_faults(turn, paginated=False) == ["turn_context: model"]
    assert codex_faults({**turn, "type": "x"}, paginated=True) == ["x: ordinal"]
    assert gemini_faults({"id": "x", "type": "user", "timestamp": "x"}, first=False) == [
        "user: content"
    ]
    assert gemini_faults({"$rewindTo": 1}, first=False) == ["rewind: $rewindTo"]


# Files.


def test_torn_pieces_are_the_lines_again_and_end_anywhere() -> None:
    lines = list(codex_script(4, Sizes(turns=30)))
    for most in (1, 7, 500, 100_000):
        pieces = list(torn(lines, 1, most))
        assert b"".join(pieces) == text(lines)
        assert all(0 < len(piece) <= most for piece in pieces)
        assert pieces == list(torn(lines, 1, most))
    pieces = list(torn(lines, 2, 300))
    assert pieces != list(torn(lines, 3, 300))
    ends = Counter("newline" if piece.endswith(b"\n") else "inside" for piece in pieces)
    assert min(ends["newline"], ends["inside"]) > len(pieces) // 20
    before_newline = [after for after in pieces[1:] if after.startswith(b"\n")]
    assert len(before_newline) > len(pieces) // 40


def test_a_reader_can_look_while_a_line_is_torn(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "a.jsonl"
    lines = list(gemini_script(4, Sizes(turns=30)))
    tails: list[bytes] = []

    def look() -> None:
        whole, tail = whole_lines(path.read_bytes())
        assert whole == lines[: len(whole)]
        assert tail
        assert lines[len(whole)].startswith(tail)
        tails.append(tail)

    assert write_torn(path, lines, most_bytes=400, pause=look) == len(tails) > 20
    assert path.read_bytes() == text(lines)
    more = [b'{"type":"x"}']
    assert write_fast(path, more, tail=b'{"type"') == len(text(more)) + 7
    assert path.read_bytes() == text([*lines, *more]) + b'{"type"'


def read_made(made: Made) -> bytes:
    data = made.path.read_bytes()
    if made.path.suffix == ".zst":
        return zstandard.ZstdDecompressor().decompressobj().decompress(data)
    return data


def assert_equal(made: list[Made], again: list[Made], home: Path, other: Path) -> None:
    """Hold two equal roots against each other; the times of files come from the lines."""
    times = [one.path.stat().st_mtime_ns for one in made]
    assert times == [one.path.stat().st_mtime_ns for one in again]
    assert len(set(times)) > len(made) // 2
    files, others = (
        {
            str(path.relative_to(root)): path.read_bytes()
            for path in sorted(root.rglob("*"))
            if path.is_file()
        }
        for root in (home, other)
    )
    assert files == others


def test_a_claude_root_is_laid_out_as_the_program_does(tmp_path: Path) -> None:
    plan = Plan(files=8, big_files=1, big_bytes=3_000_000)
    made = make_claude_root(tmp_path / "a", plan)
    assert_equal(made, make_claude_root(tmp_path / "b", plan), tmp_path / "a", tmp_path / "b")
    kinds = Counter(one.kind for one in made)
    assert kinds["main"] == 8
    assert kinds["subagent"] > 0
    for one in made:
        folder = one.path.parent
        lines, tail = whole_lines(read_made(one))
        assert tail == b""
        assert faults_of("claude", lines) == []
        if one.kind == "subagent":
            assert folder.name == "subagents"
            assert folder.parent.name == one.session_id
            assert one.path.with_suffix(".meta.json").is_file()
        else:
            assert folder == tmp_path / "a" / "projects" / "-home-ann-ping"
            assert one.path.name == f"{one.session_id}.jsonl"
        if one.kind == "big":
            assert 3_000_000 <= one.path.stat().st_size < 12_000_000
            assert one.path.stat().st_blocks * 512 >= 3_000_000


def test_a_codex_root_is_laid_out_as_the_program_does(tmp_path: Path) -> None:
    plan = Plan(files=20, big_files=1, big_bytes=3_000_000)
    home = tmp_path / "a"
    made = make_codex_root(home, plan)
    assert_equal(made, make_codex_root(tmp_path / "b", plan), home, tmp_path / "b")
    assert len(made) == 21
    assert {one.kind for one in made} == {"main", "fork", "segment", "copy", "big"}
    rollouts = {one.path.name.split(".")[0][-36:]: read_made(one) for one in made}
    for one in made:
        lines, tail = whole_lines(read_made(one))
        assert tail == b""
        index = (home / "session_index.jsonl").read_bytes().splitlines()
        reading = read_codex(lines, rollouts.get, index)
        assert not reading.missing
        head = json.loads(lines[0])["payload"]
        assert head["id"] == one.session_id
        if one.kind in ("fork", "segment"):
            base = head["history_base"]
            prefix = rollouts[base["thread_id"]][: base["end_byte_offset"]]
            assert prefix.endswith(b"\n")
            assert (
                json.loads(prefix.splitlines()[-1])["ordinal"] + 1 == base["end_ordinal_exclusive"]
            )
            assert (head.get("forked_from_id") is None) == (one.kind == "segment")
        if one.twin is not None:
            assert one.path.suffix == ".jsonl"
            assert one.path.name == one.twin.name.removesuffix(".zst")
    folders = Counter(one.path.relative_to(home).parts[0] for one in made)
    assert folders["archived_sessions"] > 0
    assert all(len(one.path.relative_to(home).parts) in (2, 5) for one in made)
    assert any(one.path.suffix == ".zst" for one in made)
    twins = [one.twin for one in made if one.twin is not None]
    assert {twin.suffix for twin in twins} == {".jsonl", ".zst"}


def test_a_gemini_root_is_laid_out_as_the_program_does(tmp_path: Path) -> None:
    plan = Plan(files=8, big_files=1, big_bytes=3_000_000)
    made = make_gemini_root(tmp_path / "a", plan)
    assert_equal(made, make_gemini_root(tmp_path / "b", plan), tmp_path / "a", tmp_path / "b")
    projects = json.loads((tmp_path / "a" / "projects.json").read_bytes())["projects"]
    assert {one.kind for one in made} == {"main", "subagent", "big"}
    for one in made:
        lines, _ = whole_lines(read_made(one))
        assert faults_of("gemini", lines) == []
        head = json.loads(lines[0])
        assert head["sessionId"] == one.session_id
        if one.kind == "subagent":
            assert one.path.name == f"{one.session_id}.jsonl"
            assert head["kind"] == "subagent"
            continue
        assert one.path.name.endswith(f"-{one.session_id[:8]}.jsonl")
        root = (one.path.parent.parent / ".project_root").read_text()
        assert projects[root] == one.path.parent.parent.name


@pytest.mark.parametrize("is_newer", [False, True])
def test_an_opencode_root_has_all_sessions_in_one_database(
    tmp_path: Path, *, is_newer: bool
) -> None:
    plan = Plan(files=4, sizes=Sizes(turns=40), big_files=1, big_bytes=3_000_000)
    made = make_opencode_root(tmp_path / "a", plan, is_newer=is_newer)
    again = make_opencode_root(tmp_path / "b", plan, is_newer=is_newer)
    path = tmp_path / "a" / "opencode.db"
    assert [one.session_id for one in made] == [one.session_id for one in again]
    assert {one.kind for one in made} == {"main", "subagent", "big"} | (
        set() if is_newer else {"fork"}
    )
    assert path.stat().st_size > 3_000_000
    for one, other in zip(made, again, strict=True):
        assert one.path == path / one.session_id
        reading = read_opencode(path, one.session_id)
        assert reading == read_opencode(other.path.parent, one.session_id)
        assert reading.prompts


def test_a_subagents_chat_reads_as_any_chat() -> None:
    parent = gemini_script(1, Sizes(turns=3))
    played(gemini_subagent(1, parent, Sizes(turns=6)), read_gemini)


def test_the_package_lists_its_modules() -> None:
    listed = {
        name.strip()
        for line in str(agent_files.__doc__).splitlines()
        if line.startswith("* ")
        for name in line[2:].partition(":")[0].split(",")
    }
    folder = Path(agent_files.__file__).parent
    assert listed == {path.stem for path in folder.glob("*.py")} - {"__init__"}
