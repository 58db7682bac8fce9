"""Rollouts of Codex become native sessions with the context that the agent would go on with."""

from __future__ import annotations

import random
import shutil
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import zstandard

from sessiond.service.sources.agents import compressed
from sessiond.testing.daemon import Refusal
from tests.kit.agents import (
    CODEX,
    SAMPLES,
    codex_line,
    codex_said,
    codex_tokens,
    context_of,
    copied,
    read_lines,
    write_lines,
)
from tests.kit.house import House

THREAD = "019f5000-0000-7000-8000-00000000"
(COMPACTED,) = CODEX.glob("*0001.jsonl")
(ROLLED_BACK,) = CODEX.glob("*0002.jsonl")


async def test_a_compaction_replaces_the_history(real_house: House) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        answer = await copied(wire, COMPACTED)
        session = answer["session"]
        assert answer["report"]["format"] == "codex"
        # The newest name in the index of names counts.
        assert (session["title"], session["cwd"]) == ("Calc operators", "/home/ann/calc")
        assert (session["model"], session["provider"]) == ("gpt-5.5", "openai")
        usage = session["usage"]
        assert (usage["input_tokens"], usage["cache_read_tokens"]) == (700, 600)
        assert (usage["output_tokens"], usage["total_tokens"]) == (90, 1390)
        environment = "<environment_context>\n  <cwd>/home/ann/calc</cwd>\n</environment_context>"
        assert await context_of(wire, session["id"]) == [
            f"user: {environment}",
            "user: add mul to calc",
            "user: now add div",
            "assistant: Added div.",
        ]
        assert session["first_message"] == "add mul to calc"
        # The summary is encrypted, which the report says; the history before it stays readable.
        (problem,) = answer["report"]["problems"]
        assert (problem["line"], problem["kind"]) == (14, "not_copied")
        assert await context_of(wire, session["id"], entry_id="line-11") == [
            # The user did not say this, so it is no prompt of the copy either.
            f"custom: {environment}",
            "user: add mul to calc",
            'assistant: thinking Look first + exec_command call_1 {"cmd": "cat calc.py"}',
            "result of exec_command call_1: def add(a,b): return a+b",
            "assistant: Added mul.",
        ]


async def test_a_turn_that_was_rolled_back_is_a_branch(real_house: House) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        session = (await copied(wire, ROLLED_BACK))["session"]
        begun = ["user: name a colour", "assistant: Red."]
        assert session["usage"] is None
        assert await context_of(wire, session["id"]) == [
            *begun,
            "user: name a city",
            "assistant: Oslo.",
        ]
        assert await context_of(wire, session["id"], entry_id="line-12") == [
            *begun,
            "user: name a fruit",
            "assistant: Pear.",
        ]


FORKED = ["user: name a colour", "assistant: Red.", "user: name a city", "assistant: Oslo."]


async def test_a_fork_begins_with_the_lines_of_its_base(real_house: House, tmp_path: Path) -> None:
    home = tmp_path / "codex"
    shutil.copytree(SAMPLES / "codex", home)
    folder = home / "sessions" / "2026" / "11" / "02"
    (fork,), (base,) = folder.glob("*000b.jsonl"), folder.glob("*000a.jsonl")
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        answer = await copied(wire, fork)
        assert answer["session"]["lineage"]["header_id"] == f"{THREAD}000b"
        assert answer["report"]["problems"] == []
        assert await context_of(wire, answer["session"]["id"]) == FORKED
        whole = (await copied(wire, base))["session"]
        assert await context_of(wire, whole["id"]) == [
            "user: name a colour",
            "assistant: Red.",
            "user: name a fruit",
            "assistant: Pear.",
        ]
        # The model of the fork's own turn differs: its entry gets an id of its own.
        lines = read_lines(fork)
        lines[1]["payload"]["model"] = "other-model"
        session = (await copied(wire, write_lines(fork, lines)))["session"]
        assert await context_of(wire, session["id"]) == FORKED
        assert session["model"] == "other-model"
        lines.append(codex_line("compacted", message="sum"))
        session = (await copied(wire, write_lines(fork, lines)))["session"]
        prompts = [FORKED[0], FORKED[2], "user: sum"]
        assert await context_of(wire, session["id"]) == prompts
        lines.pop()
        write_lines(fork, lines)
        # An archived base counts too; without a base the report says what is missing.
        archived = home / "archived_sessions"
        archived.mkdir()
        base = base.rename(archived / base.name)
        answer = await copied(wire, fork)
        assert await context_of(wire, answer["session"]["id"]) == FORKED
        base.unlink()
        answer = await copied(wire, fork)
        (problem,) = answer["report"]["problems"]
        assert (problem["line"], problem["kind"]) == (1, "orphan")
        assert await context_of(wire, answer["session"]["id"]) == FORKED[2:]


async def test_what_a_base_has_beside_the_conversation_is_no_problem_of_its_fork(
    real_house: House, tmp_path: Path
) -> None:
    home = tmp_path / "codex"
    shutil.copytree(SAMPLES / "codex", home)
    (fork,), (base,) = home.rglob("*000b.jsonl"), home.rglob("*000a.jsonl")
    first, *rest = read_lines(base)
    more = [codex_line("world_state"), codex_line("event_msg", type="turn_aborted")]
    write_lines(
        base,
        [
            first,
            *more,
            codex_tokens(30, sent=20, got=10),
            *rest[:5],
            codex_tokens(36, sent=5, got=1),
        ],
    )
    lines = read_lines(fork)
    lines[0]["payload"]["history_base"]["end_byte_offset"] = base.stat().st_size
    # A count is about the answer before it; the base's first count comes before any.
    lines.insert(1, codex_tokens(40, sent=8, got=2))
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        answer = await copied(wire, write_lines(fork, lines))
        assert answer["report"]["problems"] == []
        assert await context_of(wire, answer["session"]["id"]) == FORKED
        assert answer["session"]["usage"]["total_tokens"] == 30 + 6 + 10


async def test_an_offset_inside_a_line_counts_up_to_the_line_before(
    real_house: House, tmp_path: Path
) -> None:
    home = tmp_path / "codex"
    shutil.copytree(SAMPLES / "codex", home)
    (fork,) = home.rglob("*000b.jsonl")
    lines = read_lines(fork)
    lines[0]["payload"]["history_base"]["end_byte_offset"] += 12
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        session = (await copied(wire, write_lines(fork, lines)))["session"]
        assert await context_of(wire, session["id"]) == FORKED


async def test_a_fork_that_repeats_its_parents_lines_keeps_its_own_id(
    real_house: House, tmp_path: Path
) -> None:
    parents = read_lines(ROLLED_BACK)
    own = codex_line("session_meta", id=f"{THREAD}0009", forked_from_id=f"{THREAD}0002", cwd="/new")
    name = f"rollout-2026-11-02T10-50-00-{THREAD}0009.jsonl"
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        session = (await copied(wire, write_lines(tmp_path / name, [own, *parents])))["session"]
        assert session["lineage"]["header_id"] == f"{THREAD}0009"
        assert len(await context_of(wire, session["id"])) == 4


async def test_a_compressed_rollout_is_unpacked(real_house: House, tmp_path: Path) -> None:
    home = tmp_path / "codex"
    shutil.copytree(SAMPLES / "codex", home)
    (fork,), (base,) = home.rglob("*000b.jsonl"), home.rglob("*000a.jsonl")
    for path in (fork, base):
        path.with_name(f"{path.name}.zst").write_bytes(zstandard.compress(path.read_bytes()))
        path.unlink()
    packed = fork.with_name(f"{fork.name}.zst")
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        answer = await copied(wire, packed)
        assert answer["report"]["problems"] == []
        assert await context_of(wire, answer["session"]["id"]) == FORKED
        # A file that is cut ends with its last whole line; one that is damaged is refused.
        chance = random.Random(1)
        long = [codex_said(chance.randbytes(2000).hex()) for _ in range(200)]
        whole = write_lines(tmp_path / "plain.jsonl", [*read_lines(ROLLED_BACK), *long])
        data = zstandard.compress(whole.read_bytes())
        packed.write_bytes(data[:-20])
        answer = await copied(wire, packed)
        assert [one["kind"] for one in answer["report"]["problems"]] == ["torn_tail"]
        assert 100 < answer["session"]["message_count"] < 200
        for damaged in (data[:4] + b"\xff" * 40, data[:20]):
            packed.write_bytes(damaged)
            with pytest.raises(Refusal, match="it cannot be unpacked"):
                await copied(wire, packed)


async def test_what_is_unpacked_has_a_limit(
    real_house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compressed, "IMPORT_BYTES_MAX", 2**20)
    path = tmp_path / "rollout-large.jsonl.zst"
    path.write_bytes(zstandard.compress(b"\n" * (2**20 + 1)))
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        with pytest.raises(Refusal, match="once it is unpacked"):
            await copied(wire, path)


async def test_a_segment_has_the_id_of_its_thread(real_house: House, tmp_path: Path) -> None:
    path = tmp_path / f"rollout-2026-11-02T10-20-00-{THREAD}0002_{THREAD}00ff.jsonl"
    shutil.copyfile(ROLLED_BACK, path)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        session = (await copied(wire, path))["session"]
        assert session["lineage"]["header_id"] == f"{THREAD}0002"


async def test_the_oldest_rollouts_have_bare_items(real_house: House, tmp_path: Path) -> None:
    head = {"id": f"{THREAD}0003", "timestamp": "2026-01-15T10:00:00.000Z", "instructions": None}
    said = [codex_said("hi")["payload"], codex_said("hello", "assistant")["payload"]]
    path = write_lines(tmp_path / "rollout-old.jsonl", [head, *said])
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        answer = await copied(wire, path)
        session = answer["session"]
        assert answer["report"]["problems"] == []
        assert session["created_at"] == "2026-01-15T10:00:00.000Z"
        assert session["lineage"]["header_id"] == f"{THREAD}0003"
        assert await context_of(wire, session["id"]) == ["user: hi", "assistant: hello"]


async def test_a_count_that_comes_twice_counts_once(real_house: House, tmp_path: Path) -> None:
    lines = [
        codex_line("session_meta", id=f"{THREAD}0004", cwd="/p"),
        codex_said("hi"),
        codex_said("hello", "assistant"),
        codex_tokens(30, sent=20, got=10),
        codex_tokens(30, sent=20, got=10),
        codex_tokens(35, sent=4, got=1),
    ]
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        session = (await copied(wire, write_lines(tmp_path / "r.jsonl", lines)))["session"]
        assert (session["usage"]["input_tokens"], session["usage"]["output_tokens"]) == (24, 11)


CALLS: list[tuple[dict[str, Any], str]] = [
    ({"type": "function_call", "arguments": '{"a": 1}'}, '{"a": 1}'),
    ({"type": "function_call", "arguments": "no object"}, '{"input": "no object"}'),
    ({"type": "custom_tool_call", "input": "*** Begin"}, '{"input": "*** Begin"}'),
    ({"type": "local_shell_call", "action": {"command": ["ls"]}}, '{"command": ["ls"]}'),
]
OUTPUTS: list[tuple[Any, str]] = [
    ("done", ": done"),
    ({"content": "bad", "success": False}, " failed: bad"),
    ([{"type": "output_text", "text": "part"}], ": part"),
]


async def test_calls_and_outputs_of_each_form(real_house: House, tmp_path: Path) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        for (call, arguments), (output, words) in product(CALLS, OUTPUTS):
            lines = [
                codex_line("session_meta", id=f"{THREAD}0005", cwd="/p"),
                codex_said("hi"),
                codex_line("response_item", name="tool", call_id="c1", **call),
                codex_line(
                    "response_item", type="function_call_output", call_id="c1", output=output
                ),
            ]
            session = (await copied(wire, write_lines(tmp_path / "r.jsonl", lines)))["session"]
            assert await context_of(wire, session["id"]) == [
                "user: hi",
                f"assistant: tool c1 {arguments}",
                f"result of tool c1{words}",
            ]


async def test_an_old_compaction_leaves_the_prompts_and_the_summary(
    real_house: House, tmp_path: Path
) -> None:
    lines = [
        codex_line("session_meta", id=f"{THREAD}0006", cwd="/p"),
        codex_said("one"),
        codex_said("first", "assistant"),
        codex_said("two"),
        codex_line("compacted", message="the summary"),
        codex_said("three"),
    ]
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        session = (await copied(wire, write_lines(tmp_path / "r.jsonl", lines)))["session"]
        assert await context_of(wire, session["id"]) == [
            "user: one",
            "user: two",
            "user: the summary",
            "user: three",
        ]


async def test_unknown_types_are_named(real_house: House, tmp_path: Path) -> None:
    lines = [
        codex_line("session_meta", id=f"{THREAD}0007", cwd="/p"),
        codex_said("hi"),
        codex_said("rules", "developer"),
        codex_line("world_state", any=1),
        codex_line("event_msg", type="turn_aborted"),
        codex_line("response_item", type="ghost_snapshot"),
        codex_line("event_msg", type="agent_message"),
        codex_line("usage"),
    ]
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        report = (await copied(wire, write_lines(tmp_path / "r.jsonl", lines)))["report"]
        assert [(one["line"], one["detail"]) for one in report["problems"]] == [
            (3, "left out: items of type message (developer), 1 in all"),
            (4, "left out: lines of type world_state, 1 in all"),
            (5, "left out: events of type turn_aborted, 1 in all"),
            (6, "left out: items of type ghost_snapshot, 1 in all"),
            (8, "left out: lines of type usage, 1 in all"),
        ]
        assert report["dropped"] == 5
