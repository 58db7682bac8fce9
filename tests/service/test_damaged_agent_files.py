"""Damaged files of other agents, as clients see them: what is missing is said wherever it matters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sessiond.service.external.watcher import PollingWatcher
from sessiond.testing.wire import Wire
from tests.kit.agents import claude_line
from tests.kit.calls import call, session_info
from tests.kit.house import House
from tests.kit.roots import add_root

SESSION_ID = "5e55a1d0-0000-4000-8000-0000000000aa"
WANTED = ["one", "two", "three", "four"]


def spelled(*lines: dict[str, Any]) -> list[bytes]:
    return [json.dumps(line).encode() for line in lines]


def talk() -> list[bytes]:
    """Return four lines of a talk, each below the one before."""
    roles = ("user", "assistant", "user", "assistant")
    pairs = enumerate(zip(WANTED, roles, strict=True), 1)
    return spelled(*(claude_line(at, at - 1 or None, words, role) for at, (words, role) in pairs))


def write(home: Path, lines: list[bytes]) -> Path:
    """Write a file of Claude Code below a root, and return its path."""
    path = home / "claude" / "projects" / "-home-ann-shop" / f"{SESSION_ID}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


async def texts(wire: Wire, session_id: str = SESSION_ID) -> list[str]:
    """Return what each message of the context says."""
    found = await call(wire, "session/build_context", "messages", session_id=session_id)
    return [
        one["content"] if isinstance(one["content"], str) else one["content"][0]["text"]
        for one in found
    ]


async def test_a_damaged_line_is_said_by_each_answer_about_it(
    real_house: House, tmp_path: Path
) -> None:
    first, second, third, fourth = talk()
    cut = json.dumps(claude_line(9, 2, "cut off")).encode()[:-60]
    path = write(tmp_path, [first, second, cut + third, fourth])
    detail = f"line 3 of the file is damaged: whole records 1, other bytes {len(cut)}"
    problem = {"line": 3, "kind": "damaged_line", "detail": detail}
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, path.parent.parent)
        (shown,) = (await wire.call("session/list"))["sessions"]
        assert shown["problems"] == 1
        assert await texts(wire) == WANTED
        context = await wire.call("session/build_context", session_id=SESSION_ID)
        assert context["_meta"] == {"problems": [problem]}
        verified = await wire.call("session/verify", session_id=SESSION_ID)
        assert (verified["ok"], verified["problems"]) == (False, [problem])
        fork = await wire.call("session/fork", session_id=SESSION_ID)
        assert fork["notes"] == [f"line 3: {detail}"]
        assert await texts(wire, fork["session"]["id"]) == WANTED
        copied = await wire.call("session/import", path=str(path))
        assert copied["report"]["problems"] == [problem]
        assert await texts(wire, copied["session"]["id"]) == WANTED


async def test_a_missing_parent_is_said_by_each_answer_about_it(
    real_house: House, tmp_path: Path
) -> None:
    first, second, third, _ = talk()
    below = spelled(claude_line(4, 77, "four", "assistant"))
    path = write(tmp_path, [first, second, third, *below])
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, path.parent.parent)
        (shown,) = (await wire.call("session/list"))["sessions"]
        assert shown["problems"] == 1
        assert await texts(wire) == WANTED
        context = await wire.call("session/build_context", session_id=SESSION_ID)
        (problem,) = context["_meta"]["problems"]
        assert (problem["line"], problem["kind"]) == (4, "orphan")
        assert "u-3" in problem["detail"]
        at_first = await wire.call("session/build_context", session_id=SESSION_ID, entry_id="u-3")
        assert "_meta" not in at_first
        entry = await call(wire, "session/entry", "entry", session_id=SESSION_ID, entry_id="u-4")
        assert (entry["parent_id"], entry["resolved_parent_id"]) == ("u-77", "u-3")
        nodes = await call(wire, "session/path", "entries", session_id=SESSION_ID)
        assert [node["entry"]["id"] for node in nodes] == ["u-1", "u-2", "u-3", "u-4"]
        assert nodes[-1]["resolved_parent_id"] == "u-3"
        fork = await wire.call("session/fork", session_id=SESSION_ID)
        (note,) = fork["notes"]
        assert note == f"line 4: {problem['detail']}"
        copied = await wire.call("session/import", path=str(path))
        (told,) = copied["report"]["problems"]
        assert told == problem


async def test_a_parent_far_behind_its_child_is_its_parent(
    real_house: House, tmp_path: Path
) -> None:
    first, second, third, fourth = talk()
    # Lines that fill more than one read of the file.
    filling = spelled(*({"type": "mode", "mode": "x" * 1000} for _ in range(600)))
    path = write(tmp_path, [first, third, *filling, fourth, second])
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, path.parent.parent)
        await wire.call("session/list")
        assert await texts(wire) == WANTED
        assert "_meta" not in await wire.call("session/build_context", session_id=SESSION_ID)


async def test_what_a_client_was_served_stays_until_the_next_epoch(
    real_house: House, tmp_path: Path
) -> None:
    first, second, third, fourth = talk()
    path = write(tmp_path, [first, second])
    watcher = PollingWatcher(real_house.files, 0.01)
    async with real_house.daemon(watcher) as daemon, daemon.connect() as wire:
        await add_root(wire, path.parent.parent)
        await wire.call("session/list")
        told = await wire.call("subscribe", session_id=SESSION_ID)
        with path.open("ab") as file:
            file.write(fourth + b"\n")
        event = (await wire.next_notification())["params"]
        assert (event["seq"], event["entry"]["resolved_parent_id"]) == (3, "u-2")
        with path.open("ab") as file:
            file.write(third + b"\n")
        event = (await wire.next_notification())["params"]
        assert (event["seq"], event["entry"]["id"]) == (4, "u-3")
        assert (await session_info(wire, SESSION_ID))["epoch"] == told["epoch"]
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        # A new opening reads the file as a whole, so the order is another one.
        after = {"epoch": told["epoch"], "seq": 4}
        again = await wire.call("subscribe", session_id=SESSION_ID, after=after)
        assert again["epoch"] != told["epoch"]
        assert await texts(wire) == WANTED


async def test_a_damaged_file_keeps_its_epoch_and_seqs_over_restarts(
    real_house: House, tmp_path: Path
) -> None:
    first, second, third, fourth = talk()
    path = write(tmp_path, [first, second + bytes(9) + third])
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, path.parent.parent)
        await wire.call("session/list")
        told = await wire.call("subscribe", session_id=SESSION_ID)
        assert told["seq"] == 3
    with path.open("ab") as file:
        file.write(fourth + b"\n")
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await wire.call("session/list")
        after = {"epoch": told["epoch"], "seq": told["seq"]}
        again = await wire.call("subscribe", session_id=SESSION_ID, after=after)
        assert again["epoch"] == told["epoch"]
        event = (await wire.next_notification())["params"]
        assert (event["seq"], event["entry"]["id"]) == (4, "u-4")
        assert await texts(wire) == WANTED


async def test_a_sample_of_a_large_file_has_no_gaps(real_house: House, tmp_path: Path) -> None:
    lines = spelled(*(claude_line(at, at - 1 or None, "x" * 900) for at in range(1, 1200)))
    path = write(tmp_path, lines)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, path.parent.parent)
        (shown,) = (await wire.call("session/list"))["sessions"]
        assert (shown["partial"], shown.get("problems", 0)) == (True, 0)


async def test_half_a_character_keeps_nobody_from_a_copy(real_house: House, tmp_path: Path) -> None:
    asked = claude_line(2, 1, "HALF", "assistant")
    asked["message"]["content"] = [
        {"type": "tool_use", "id": "call", "name": "Read", "input": {"path HALF": "HALF"}}
    ]
    title = {"type": "ai-title", "aiTitle": "HALF", "sessionId": SESSION_ID}
    lines = spelled(claude_line(1, None, "one HALF"), asked, title, claude_line(3, 2, "two HALF"))
    path = write(tmp_path, [line.replace(b"HALF", rb"\ud83d") for line in lines])
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, path.parent.parent)
        await wire.call("session/list")
        shape = {"shape": "anthropic", "repair": True}
        source = await wire.call("session/build_context", session_id=SESSION_ID, **shape)
        fork = await wire.call("session/fork", session_id=SESSION_ID)
        forked = fork["session"]["id"]
        copy = await wire.call("session/build_context", session_id=forked, **shape)
        assert [one["role"] for one in copy["messages"]] == [
            one["role"] for one in source["messages"]
        ]
        for target in ("pi", "operator", "piglet", "sharur"):
            made = tmp_path / f"copy.{target}"
            await wire.call(
                "session/export",
                session_id=fork["session"]["id"],
                path=str(made),
                format=target,
            )
            assert rb"\ud83d" in made.read_bytes() or b"\xef\xbf\xbd" in made.read_bytes()
