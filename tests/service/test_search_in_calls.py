"""Searching calls of tools and their outputs: filters, order, snippets, and hits that are checked at their source."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from sessiond.catalog.fulltext import Hit, TextIndex
from sessiond.catalog.rows import Known
from sessiond.errors import StorageError
from sessiond.limits import SEARCH_TOOL_CHARS_MAX
from sessiond.service.files.line_texts import LineTexts
from sessiond.testing.wire import Wire
from tests.kit.agent_roots import CLAUDE, add_all
from tests.kit.agents import claude_line, write_lines
from tests.kit.calls import create
from tests.kit.house import House, count_reads
from tests.kit.roots import add_root
from tests.kit.sessions import SESSION

USER, BASH, READ = "user", "Bash", "Read"


def message(role: str, content: Any, at: int = 0, **more: Any) -> dict[str, Any]:
    time = f"2026-01-{at + 1:02}T10:00:00.000Z"
    return {
        "type": "message",
        "timestamp": time,
        "message": {"role": role, "content": content, **more},
    }


def called(name: str, call_id: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_call", "id": call_id, "name": name, "arguments": arguments}


async def stored(wire: Wire, *entries: dict[str, Any], session_id: str = SESSION) -> None:
    await create(wire, session_id, persist="immediate")
    await wire.call("append", session_id=session_id, entries=[*entries])


async def hits(wire: Wire, query: str = "needle", **more: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await wire.call("session/search", query=query, **more))["hits"]
    return found


async def seqs(wire: Wire, query: str = "needle", **more: Any) -> list[int]:
    return [hit["seq"] for hit in await hits(wire, query, **more)]


TALK = [
    message("user", "where is the needle?", 0),
    message("assistant", [called(BASH, "c1", command="rg needle", paths=["/src"])], 1),
    message("tool", "src/hay.py:7: a needle", 2, tool_call_id="c1"),
    message("assistant", [called(READ, "c2", file_path="/src/needle.py")], 3),
    message("tool", "needle = 1", 4, tool_call_id="c2"),
    message("assistant", "there is a needle", 5),
]


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({}, [1, 2, 3, 4, 5, 6]),
        ({"role": "user"}, [1]),
        ({"role": "assistant"}, [2, 4, 6]),
        ({"role": "tool"}, [3, 5]),
        ({"role": "title"}, []),
        ({"tool": "Bash"}, [2, 3]),
        ({"tool": "read"}, [4, 5]),
        ({"tool": "Rea"}, []),
        ({"tool": "Read", "role": "tool"}, [5]),
        ({"since": "2026-01-05T10:00:00Z"}, [5, 6]),
        ({"since": "2026-01-05T12:00:00+02:00"}, [5, 6]),
        ({"since": "2026-01-05T10:00:00.001Z"}, [6]),
        ({"session_id": SESSION, "tool": "Bash"}, [2, 3]),
        ({"cwd": "/elsewhere"}, []),
    ],
)
async def test_filters_choose_the_parts_of_entries(
    house: House, filters: dict[str, Any], found: list[int]
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await stored(wire, *TALK)
        assert sorted(await seqs(wire, **filters)) == found


async def test_a_time_that_is_none_is_refused(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        for wrong in ({"since": "yesterday"}, {"role": "nobody"}):
            refused = await wire.refusal("session/search", query="needle", **wrong)
            assert (refused.data["kind"], refused.data["path"]) == ("invalid_params", *wrong)


async def test_an_output_has_the_tool_of_a_call_that_was_indexed_earlier(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await stored(wire, *TALK[:2])
        assert await seqs(wire, tool=BASH) == [2]
        await wire.call("append", session_id=SESSION, entries=TALK[2:3])
        assert await seqs(wire, tool=BASH) == [2, 3]
        call, output = await hits(wire, tool=BASH)
        assert (call["tool"], output["tool"]) == (BASH, BASH)
        (said,) = await hits(wire, role=USER)
        assert said.keys() == {"session_id", "entry_id", "seq", "snippet"}


async def test_titles_and_messages_come_before_calls_and_these_before_outputs(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await stored(
            wire,
            message("tool", "needle", 9, tool_call_id="c1"),
            message("assistant", [called(BASH, "c1", command="needle")], 8),
            message("user", "a needle and many more words of no weight at all", 1),
            {"type": "session_info", "name": "needle", "timestamp": "2026-01-01T00:00:00.000Z"},
        )
        assert await seqs(wire) == [4, 3, 2, 1]
        assert await seqs(wire, limit=3) == [4, 3, 2]


async def test_of_hits_that_are_equal_the_newer_one_comes_first(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await stored(wire, *(message("user", "a needle", at) for at in (3, 9, 1, 5)))
        assert await seqs(wire) == [2, 4, 1, 3]


async def test_an_entry_is_one_hit_however_many_of_its_parts_have_the_words(house: House) -> None:
    calls = [called(BASH, f"c{at}", command=f"needle {at}") for at in range(9)]
    said = {"type": "text", "text": "The needle is looked for with nine calls."}
    async with house.daemon() as daemon, daemon.connect() as wire:
        await stored(
            wire,
            *(message("assistant", [said, *calls]) for _ in range(3)),
            message("user", "needle"),
        )
        assert sorted(await seqs(wire)) == [1, 2, 3, 4]
        assert len(await seqs(wire, tool=BASH)) == 3
        assert len(await seqs(wire, tool=BASH, limit=2)) == 2
        (best, *_) = await hits(wire, role="assistant")
        assert best["snippet"] == said["text"]


async def test_a_snippet_of_an_output_is_the_line_of_the_match(house: House) -> None:
    output = "\n".join([*(f"line {at} of hay" for at in range(99)), "  7: a needle", "the end"])
    async with house.daemon() as daemon, daemon.connect() as wire:
        await stored(
            wire, message("tool", output, tool_call_id="c1"), message("user", "a\nneedle\nb")
        )
        said, shown = await hits(wire)
        assert (said["snippet"], shown["snippet"]) == ("a needle b", "7: a needle")


async def test_of_a_long_output_both_ends_are_searched(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        hay = "hay " * (SEARCH_TOOL_CHARS_MAX // 8 - 4)
        output = f"{hay}needle {'middle ' * 5000}beyond{hay}\nE: it broke"
        await stored(wire, message("tool", output, tool_call_id="c1"))
        for found in ("needle", "broke", "needle broke", '"it broke"'):
            assert await seqs(wire, found) == [1], found
        assert [hit["snippet"] for hit in await hits(wire, "broke")] == ["E: it broke"]
        assert await seqs(wire, "beyond") == []


async def test_no_phrase_is_found_across_what_is_left_out(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        ends = SEARCH_TOOL_CHARS_MAX // 2
        output = "one".rjust(ends - 3) + " between" * 99 + "two".ljust(ends)
        await stored(wire, message("tool", output, tool_call_id="c1"))
        assert await seqs(wire, "one two") == [1]
        assert await seqs(wire, '"one two"') == []


async def test_the_end_of_a_very_long_output_of_another_agent_is_searched(
    real_house: House, tmp_path: Path
) -> None:
    output = f"begun {'x' * 4_000_000} {'hay ' * 30_000} at the end é \\ broke"
    called = {"type": "tool_result", "tool_use_id": "c1", "content": output}
    root = tmp_path.resolve() / "projects"
    path = write_lines(root / f"-p/{CLAUDE.format(1)}.jsonl", [claude_line(1, None, [called])])
    os.utime(path, (10**9, 10**9))
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root)
        assert await seqs(wire, "begun broke") == [1]
        (hit,) = await hits(wire, "broke")
        assert hit["snippet"].endswith("hay at the end é \\ broke")


# -- checks at the source -------------------------------------------------------------------------


@pytest.fixture
def between(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], object]]:
    """Return a list: what is in it happens once the index has given its hits."""
    happens = list[Callable[[], object]]()
    find = TextIndex.find

    def found(index: TextIndex, *asked: Any) -> list[Hit]:
        try:
            return find(index, *asked)
        finally:
            for happen in happens:
                happen()

    monkeypatch.setattr(TextIndex, "find", found)
    return happens


def claude(home: Path, count: int = 4) -> Path:
    """Return a session of Claude Code; each of its lines but the first has the word."""
    lines = [claude_line(1, None, "begin")]
    lines += [claude_line(at, at - 1, f"needle number {at}") for at in range(2, count + 2)]
    path = write_lines(home / "claude" / "projects" / "-p" / f"{CLAUDE.format(1)}.jsonl", lines)
    os.utime(path, (1_000_000, 1_000_000))
    return path


async def test_a_hit_whose_words_are_gone_from_its_line_is_not_shown(
    real_house: House, tmp_path: Path, between: list[Callable[[], object]]
) -> None:
    path = claude(tmp_path.resolve())

    def rewrite() -> None:
        # In place, with the size and the time of before.
        path.write_bytes(path.read_bytes().replace(b"needle number 3", b"thread number 3"))
        os.utime(path, (1_000_000, 1_000_000))

    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, path.parents[1])
        assert sorted(await seqs(wire)) == [2, 3, 4, 5]
        between.append(rewrite)
        found = await hits(wire)
        assert sorted(hit["seq"] for hit in found) == [2, 4, 5]
        assert not any("checked" in hit for hit in found)


@pytest.mark.parametrize("is_native", [True, False])
async def test_a_hit_whose_source_is_gone_is_marked_as_not_checked(
    real_house: House, tmp_path: Path, between: list[Callable[[], object]], is_native: bool
) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        if is_native:
            await stored(wire, *TALK)
            (path,) = real_house.layout.sessions.rglob("*.jsonl")
        else:
            path = claude(tmp_path.resolve())
            await add_root(wire, path.parents[1])
        whole = await hits(wire)
        assert not any("checked" in hit for hit in whole)
        between.append(lambda: path.rename(path.with_suffix(".away")))
        assert await hits(wire) == [hit | {"checked": False} for hit in whole]


async def test_a_check_reads_a_hit_at_most_twice_and_no_other_line(
    house: House, between: list[Callable[[], object]]
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await stored(wire, *(message("user", f"needle {at}" * 50) for at in range(40)))
        assert len(await seqs(wire)) == 40
        sizes = count_reads(house)
        between.append(sizes.clear)
        assert len(await seqs(wire, limit=7)) == 7
        assert 0 < len(sizes) <= 14
        assert max(sizes) < 2_000


async def test_the_words_of_every_agent_are_checked(real_house: House, tmp_path: Path) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_all(wire, tmp_path.resolve())
        found = [hit for word in ("a", "the", "ping") for hit in await hits(wire, word)]
        assert len({hit["session_id"] for hit in found}) > 10
        assert not [hit for hit in found if "checked" in hit]


@pytest.mark.parametrize(
    ("query", "tool", "role"),
    [
        ("main.rs", "Bash", "tool"),
        ('"List files"', "Bash", "assistant"),
        ('"no such file"', "Read", "tool"),
        ('"cat calc.py"', "exec_command", "assistant"),
        ('"def add"', "exec_command", "tool"),
        ("a.txt", "list_directory", "tool"),
        ('"mv a b"', "bash", "assistant"),
        ("html", "read", "tool"),
    ],
)
async def test_the_calls_of_every_agent_are_found_by_their_tools(
    real_house: House, tmp_path: Path, query: str, tool: str, role: str
) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_all(wire, tmp_path.resolve())
        (hit,) = await hits(wire, query, tool=tool, role=role)
        assert hit["tool"] == tool


async def test_a_root_that_cannot_be_looked_at_is_looked_at_once(
    real_house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []
    check = LineTexts.check

    def checked(texts: LineTexts, known: Known, found: Sequence[Hit]) -> list[bool | None]:
        looked.append(known.session_id)
        if known.session_id != SESSION:
            raise StorageError("it does not answer", errno="ETIMEDOUT", path=known.path)
        return check(texts, known, found)

    monkeypatch.setattr(LineTexts, "check", checked)
    root = claude(tmp_path.resolve()).parents[1]
    for at in (2, 3):
        write_lines(root / "-q" / f"{CLAUDE.format(at)}.jsonl", [claude_line(1, None, "needle")])
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root)
        await stored(wire, *TALK)
        found = await hits(wire)
        assert len(looked) == 2
        assert {hit["session_id"] for hit in found} == {SESSION, *map(CLAUDE.format, (1, 2, 3))}
        for hit in found:
            assert hit.get("checked", True) is (hit["session_id"] == SESSION)
