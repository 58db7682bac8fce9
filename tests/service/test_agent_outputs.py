"""Copies of other agents' sessions take outputs that lie in files, and no image that is too large."""

from __future__ import annotations

import base64
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sessiond.testing.wire import Wire
from tests.kit.agents import claude_line, codex_line, copied, write_lines
from tests.kit.calls import say
from tests.kit.house import House
from tests.kit.limits import set_limits
from tests.kit.provider_rules import anthropic_troubles, openai_troubles
from tests.kit.roots import add_root, ids

SESSION = "5e55a1d0-0000-4000-8000-0000000000aa"
SHOWN = (
    "<persisted-output>\nOutput too large (2MB). Full output saved to: {}\n\n"
    "Preview (first 2KB):\nthe begi\n</persisted-output>"
)
AWAY = "C:\\Users\\ann\\.claude\\projects\\-p\\other-session\\tool-results\\{}"
OUTPUT = "the beginning, ünd the end"
SHAPES = {"anthropic": anthropic_troubles, "openai": openai_troubles}


def result(number: int, above: int, name: str, content: Any = None, path: str | None = None) -> Any:
    """Return the result of a call, whose output is in a file of that name."""
    path = AWAY.format(f"{name}.txt") if path is None else path
    content = SHOWN.format(path) if content is None else content
    block = {"type": "tool_result", "tool_use_id": name, "content": content}
    line = claude_line(number, above, "", toolUseResult={"persistedOutputPath": path})
    line["message"]["content"] = [block]
    return line


def session_with(*results: Any) -> list[Any]:
    """Return a session in which one answer asks for these results."""
    names = [one["message"]["content"][0]["tool_use_id"] for one in results]
    asking = claude_line(2, 1, "", "assistant")
    asking["message"]["content"] = [
        {"type": "tool_use", "id": name, "name": "Bash", "input": {}} for name in names
    ]
    return [
        claude_line(1, None, "look"),
        asking,
        *results,
        claude_line(90, 2 + len(results), "seen", "assistant"),
    ]


def put(home: Path, lines: list[Any], **outputs: str | bytes) -> Path:
    """Put a session with its outputs below a folder; return its file."""
    path = write_lines(home / "claude" / "projects" / "-p" / f"{SESSION}.jsonl", lines)
    for name, content in outputs.items():
        file = path.with_suffix("") / "tool-results" / f"{name}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


async def results_of(wire: Wire, session_id: str) -> list[Any]:
    """Return the contents of the results that the model sees; each must be legal for the providers."""
    for shape, troubles in SHAPES.items():
        shown = await wire.call("session/build_context", session_id=session_id, shape=shape)
        assert troubles(shown["messages"]) == []
    built = await wire.call("session/build_context", session_id=session_id)
    found = [one for one in built["messages"] if one["role"] == "toolResult"]
    assert not any("outputFile" in one for one in found)
    return [one["content"] for one in found]


async def fork_of(wire: Wire, path: Path, **more: Any) -> tuple[list[Any], list[str]]:
    """Fork a session where it lies; return the results in the fork, and the notes."""
    await add_root(wire, path.parents[1])
    await ids(wire)
    answer = await wire.call("session/fork", session_id=path.stem, **more)
    await say(wire, "go on", session_id=answer["session"]["id"])
    return await results_of(wire, answer["session"]["id"]), answer.get("notes", [])


@pytest.mark.parametrize("entries", ["path", "all", "context"])
async def test_a_fork_has_the_output_that_its_source_has_in_a_file(
    real_house: House, tmp_path: Path, entries: str
) -> None:
    path = put(tmp_path.resolve(), session_with(result(3, 2, "t1")), t1=OUTPUT)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        found, notes = await fork_of(wire, path, entries=entries)
        assert (found, notes) == ([OUTPUT], [])
        # Where the session lies it stays as it is, and names the file.
        built = await wire.call("session/build_context", session_id=SESSION)
        (there,) = [one for one in built["messages"] if one["role"] == "toolResult"]
        assert (there["outputFile"], there["content"][:10]) == ("t1.txt", "<persisted")


async def test_an_import_and_an_export_have_the_output_too(
    real_house: House, tmp_path: Path
) -> None:
    path = put(tmp_path.resolve(), session_with(result(3, 2, "t1")), t1=OUTPUT)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        answer = await copied(wire, path)
        assert await results_of(wire, answer["session"]["id"]) == [OUTPUT]
        assert answer["report"]["problem_count"] == 0
        await add_root(wire, path.parents[1])
        await ids(wire)
        exported = await wire.call("session/export", session_id=SESSION, format="native")
        assert OUTPUT in exported["content"]


BESIDE: dict[str, tuple[Any, Any]] = {
    "words around": (f"before {SHOWN} behind", f"before {OUTPUT} behind"),
    "no mark": ("the begi…", f"the begi…\n{OUTPUT}"),
    "blocks": (
        [{"type": "text", "text": "first"}, {"type": "text", "text": SHOWN}],
        [{"type": "text", "text": "first"}, {"type": "text", "text": OUTPUT}],
    ),
    "blocks without a mark": (
        [{"type": "text", "text": "first"}, {"type": "text", "text": "second"}],
        [{"type": "text", "text": one} for one in ("first", "second", OUTPUT)],
    ),
}


@pytest.mark.parametrize(("content", "expected"), BESIDE.values(), ids=BESIDE)
async def test_what_a_result_says_beside_its_output_stays(
    real_house: House, tmp_path: Path, content: Any, expected: Any
) -> None:
    path = put(tmp_path.resolve(), session_with(result(3, 2, "t1", content)), t1=OUTPUT)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        assert await fork_of(wire, path) == ([expected], [])


async def test_the_output_of_a_result_beside_words_of_the_user_is_found(
    real_house: House, tmp_path: Path
) -> None:
    line = result(3, 2, "t1")
    line["message"]["content"].append({"type": "text", "text": "and now?"})
    path = put(tmp_path.resolve(), session_with(line), t1=OUTPUT)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        assert await fork_of(wire, path) == ([OUTPUT], [])


async def test_of_an_output_over_the_limit_a_fork_has_the_beginning_and_a_note(
    real_house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The cut is in the middle of a letter.
    set_limits(monkeypatch, AGENT_OUTPUT_BYTES_MAX=len(b"the beginning, ") + 1)
    path = put(tmp_path.resolve(), session_with(result(3, 2, "t1")), t1=OUTPUT)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        found, notes = await fork_of(wire, path)
        assert found == ["the beginning, \n[11 more bytes left out]"]
        assert notes == ["line 3: left out: 11 of 27 bytes of the output in t1.txt"]


async def test_a_fork_takes_outputs_up_to_a_limit_for_all(
    real_house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, AGENT_OUTPUT_BYTES_MAX=30, AGENT_OUTPUTS_BYTES_MAX=60)
    lines = session_with(*(result(at + 3, at + 2, f"t{at}") for at in range(3)))
    path = put(tmp_path.resolve(), lines, **{f"t{at}": f"{at}: {OUTPUT}" for at in range(3)})
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        found, notes = await fork_of(wire, path)
        assert found[:2] == [f"0: {OUTPUT}", f"1: {OUTPUT}"]
        assert found[2].startswith("<persisted-output>")
        assert notes == ["line 5: left out: 30 of 30 bytes of the output in t2.txt"]


def link(path: Path, above: int) -> None:
    """Make a link of a file, or of a folder so many levels above it."""
    linked = [path, *path.parents][above]
    other = path.parents[3] / "secrets"
    linked.rename(other)
    linked.symlink_to(other)


def become_pipe(path: Path) -> None:
    """Put a pipe in the place of a file."""
    path.unlink()
    os.mkfifo(path)


GONE: dict[str, Callable[[Path], None]] = {
    "missing": Path.unlink,
    "a link": partial(link, above=0),
    "a linked folder": partial(link, above=1),
    "the linked folder of the session": partial(link, above=2),
    "a pipe": become_pipe,
}


@pytest.mark.parametrize("change", GONE.values(), ids=GONE)
async def test_an_output_that_is_no_file_of_the_session_is_left_out_with_a_note(
    real_house: House, tmp_path: Path, change: Callable[[Path], None]
) -> None:
    path = put(tmp_path.resolve(), session_with(result(3, 2, "t1")), t1=OUTPUT)
    change(path.with_suffix("") / "tool-results" / "t1.txt")
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        found, notes = await fork_of(wire, path)
        assert found[0].startswith("<persisted-output>")
        assert notes == ["line 3: left out: the output in t1.txt, which is not there"]


@pytest.mark.parametrize("named", ["/etc/passwd", "..", "a/../../x.jsonl", "\0", ""])
async def test_no_path_leads_out_of_the_folder_of_outputs(
    real_house: House, tmp_path: Path, named: str
) -> None:
    path = put(tmp_path.resolve(), session_with(result(3, 2, "t1", path=named)), t1=OUTPUT)
    (path.with_suffix("") / "x.jsonl").write_text("secret", "utf-8")
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        found, notes = await fork_of(wire, path)
        assert found[0].startswith("<persisted-output>")
        assert len(notes) == 1


async def test_an_empty_output_takes_no_place(real_house: House, tmp_path: Path) -> None:
    path = put(tmp_path.resolve(), session_with(result(3, 2, "t1")), t1=b"\n")
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        found, notes = await fork_of(wire, path)
        assert (found[0][:10], notes) == ("<persisted", [])


async def test_an_output_that_is_no_text_is_legal_all_the_same(
    real_house: House, tmp_path: Path
) -> None:
    path = put(tmp_path.resolve(), session_with(result(3, 2, "t1")), t1=b"\xff\x00\xed\xa0\x80x")
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        found, _ = await fork_of(wire, path)
        assert found[0].endswith("x")


async def test_a_subagent_has_its_outputs_with_the_session_that_began_it(
    real_house: House, tmp_path: Path
) -> None:
    main = put(tmp_path.resolve(), [claude_line(1, None, "hi")], t1=OUTPUT)
    lines = [one | {"isSidechain": True} for one in session_with(result(3, 2, "t1"))]
    path = write_lines(main.with_suffix("") / "subagents" / "agent-a1.jsonl", lines)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        answer = await copied(wire, path)
        assert await results_of(wire, answer["session"]["id"]) == [OUTPUT]


async def test_an_image_that_is_too_large_becomes_a_text(
    real_house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, AGENT_IMAGE_CHARS_MAX=4_000)
    images: list[dict[str, Any]] = []
    for size in (300, 6_000):
        data = base64.b64encode(b"x" * size).decode()
        source = {"type": "base64", "media_type": "image/png", "data": data}
        images.append({"type": "image", "source": source})
    lines = session_with(result(3, 2, "t1", images, path=AWAY))
    del lines[2]["toolUseResult"]
    path = put(tmp_path.resolve(), lines)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        ((small, large),), notes = await fork_of(wire, path)
        assert small["type"] == "image"
        assert large == {"type": "text", "text": "[image left out: image/png, 6,000 bytes]"}
        assert notes == ["line 3: left out: an image that is too large (image/png, 6,000 bytes)"]


async def test_an_image_that_a_compaction_keeps_is_no_exception(
    real_house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, AGENT_IMAGE_CHARS_MAX=4_000)
    url = "data:image/png;base64," + base64.b64encode(b"x" * 6_000).decode()
    kept = {
        "type": "message",
        "role": "user",
        "content": [
            {"type": "input_text", "text": "see"},
            {"type": "input_image", "image_url": url},
        ],
    }
    meta: dict[str, Any] = {
        "id": "019f5000-0000-7000-8000-0000000000ff",
        "cwd": "/p",
        "timestamp": "x",
    }
    lines = [
        codex_line("session_meta", **meta),
        codex_line("compacted", message="", replacement_history=[kept]),
    ]
    path = write_lines(tmp_path / "rollout-2026-11-02T12-00-00-x.jsonl", lines)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        answer = await copied(wire, path)
        session_id = answer["session"]["id"]
        built = await wire.call("session/build_context", session_id=session_id)
        assert built["messages"][0]["content"][1]["type"] == "text"
        (problem,) = answer["report"]["problems"]
        assert problem["kind"] == "not_copied"


async def test_an_import_of_content_without_a_file_names_the_missing_output(
    real_house: House, tmp_path: Path
) -> None:
    path = put(tmp_path.resolve(), session_with(result(3, 2, "t1")), t1=OUTPUT)
    alone = tmp_path / "alone" / path.name
    alone.parent.mkdir()
    shutil.copyfile(path, alone)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        answer = await copied(wire, alone)
        assert [one["kind"] for one in answer["report"]["problems"]] == ["not_copied"]
