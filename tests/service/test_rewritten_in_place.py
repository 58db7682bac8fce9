"""A file that a foreign writer rewrites in place, so that known lines have other bytes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from sessiond.testing.daemon import Refusal, Wire
from tests.kit.calls import call, create, part_of, say, watch
from tests.kit.house import House
from tests.kit.sessions import SESSION


def garbled(data: bytes) -> bytes:
    """Return the file with all lines at their places, but none of them an entry."""
    lines = data.split(b"\n")
    return b"\n".join(
        [lines[0], *(b"[" + line[1:-1] + b"]" if line else line for line in lines[1:])]
    )


def other_entries(data: bytes) -> bytes:
    """Return the file with all lines at their places, each an object that is no entry."""
    lines = data.split(b"\n")
    others = (
        json.dumps({"x": "y" * (len(line) - 9)}).encode() if line else b"" for line in lines[1:]
    )
    return b"\n".join([lines[0], *others])


def moved(data: bytes) -> bytes:
    """Return the file with a longer word in the first entry, so that all later lines move."""
    return data.replace(b'"000', b'"0 and more 000', 1)


def rotated(data: bytes) -> bytes:
    """Return the file with the first entry behind the next four; the last line keeps its place."""
    header, first, *others, last, end = data.split(b"\n")
    return b"\n".join([header, *others, first, last, end])


Rewrite = Callable[[bytes], bytes]


def numbered(number: int) -> dict[str, Any]:
    role = "user" if number % 2 == 0 else "assistant"
    content = f"{number}" * (200 - 30 * number)
    message = {"role": role, "content": content, "timestamp": 1}
    return {"type": "message", "id": f"entry-{number}", "message": message}


# Each method that reads stored lines, with what it is asked besides the session.
READERS: dict[str, dict[str, Any]] = {
    "append again": {"entry": numbered(4)},
    "build_context": {},
    "build_context with a shape": {"shape": "openai"},
    "session/entries": {},
    "session/entry": {"entry_id": "entry-4"},
    "session/export": {},
    "session/export to a file": {"path": "/copy.jsonl"},
    "session/fork": {"new_session_id": "session-c"},
    "session/navigate": {"entry_id": "entry-2"},
    "session/path": {},
    "session/plan_branch_summary": {"entry_id": "entry-1"},
    "session/plan_compaction": {"keep_recent_tokens": 10},
    "session/plan_merge": {"other_session_id": "session-b"},
    "session/rebase": {"entry_ids": ["entry-0", "entry-4"]},
    "session/stats": {},
    "session/tree": {},
    "session/turns": {},
    "session/usage": {},
}


# Those that take a line apart.
DECODERS = [one for one in READERS if one.startswith(("build", "session/fork", "session/plan"))]


async def make_files(wire: Wire) -> Path:
    """Make a session to rewrite, and a second one for methods on two.

    Return the first one's file.
    """
    await create(wire, "session-b", persist="immediate")
    await say(wire, "other", session_id="session-b")
    made = await create(wire, persist="immediate", if_exists="open")
    for number in range(6):
        await call(wire, "append", entry=numbered(number))
    return Path(made["session"]["path"])


@pytest.mark.parametrize("rewrite", [garbled, other_entries])
async def test_a_replay_ends_with_a_reason_and_no_bug(real_house: House, rewrite: Rewrite) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        path = await make_files(wire)
        with path.open("r+b") as file:
            file.write(rewrite(path.read_bytes()))
        await watch(wire, after={"seq": 0})
        told = await wire.next_notification()
        assert (told["method"], told["params"]["reason"]) == ("session/closed", "storage_error")
        # The next mutation looks at the file and finds another one: the session has a new epoch.
        epoch = await call(wire, "session/get", "session.epoch")
        with suppress(Refusal):
            await say(wire, "x")
        assert await call(wire, "session/get", "session.epoch") != epoch


@pytest.mark.parametrize("rewrite", [moved, rotated])
@pytest.mark.parametrize("reader", READERS)
async def test_a_reader_is_told_that_the_file_was_changed_and_then_given_what_is_there(
    real_house: House, tmp_path: Path, reader: str, rewrite: Rewrite
) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        path = await make_files(wire)
        epoch = await call(wire, "session/get", "session.epoch")
        path.write_bytes(rewrite(path.read_bytes()))
        with pytest.raises(Refusal) as refusal:
            await ask(wire, reader, tmp_path)
        data = refusal.value.data
        assert (data["kind"], data["errno"], data["retryable"]) == ("storage_error", "ESTALE", True)
        messages = await call(wire, "session/entries", "entries[].entry.message")
        stored = [json.loads(line) for line in path.read_bytes().splitlines()[1:]]
        assert messages == part_of(stored, "[].message")
        assert await call(wire, "session/get", "session.epoch") != epoch
        await ask(wire, reader, tmp_path)


@pytest.mark.parametrize("rewrite", [garbled, other_entries])
@pytest.mark.parametrize("reader", DECODERS)
async def test_a_line_that_is_no_entry_any_more_is_no_bug(
    real_house: House, tmp_path: Path, reader: str, rewrite: Rewrite
) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        path = await make_files(wire)
        epoch = await call(wire, "session/get", "session.epoch")
        path.write_bytes(rewrite(path.read_bytes()))
        with pytest.raises(Refusal) as refusal:
            await ask(wire, reader, tmp_path)
        assert refusal.value.data["kind"] == "storage_error"
        with suppress(Refusal):
            await call(wire, "session/entries")
        assert await call(wire, "session/get", "session.epoch") != epoch


async def ask(wire: Wire, reader: str, folder: Path) -> None:
    params = dict(READERS[reader])
    if "path" in params:
        params["path"] = f"{folder}{params['path']}"
    await wire.call(reader.split()[0], session_id=SESSION, **params)


async def test_a_save_that_keeps_every_line_at_its_place_is_noticed_with_the_next_append(
    real_house: House,
) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        path = await make_files(wire)
        epoch = await call(wire, "session/get", "session.epoch")
        path.write_bytes(path.read_bytes().replace(b'"000', b'"0!0'))
        await call(wire, "append", entry=numbered(6))
        assert await call(wire, "session/get", "session.epoch") != epoch
        contents = await call(wire, "session/entries", "entries[].entry.message.content")
        assert contents == [
            "0!" + "0" * 198,
            *(numbered(n)["message"]["content"] for n in range(1, 7)),
        ]


async def test_a_file_that_was_only_touched_is_the_same_log(real_house: House) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        path = await make_files(wire)
        epoch = await call(wire, "session/get", "session.epoch")
        os.utime(path)
        await call(wire, "append", entry=numbered(6))
        assert await call(wire, "session/get", "session.epoch") == epoch
