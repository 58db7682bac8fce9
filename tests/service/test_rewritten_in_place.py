"""A file that another program writes anew in place: its old lines are read back as something else."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from sessiond.testing.daemon import Refusal, Wire

SESSION = "session-a"


def garbled(data: bytes) -> bytes:
    """The same lines at the same places, and none of them is an entry."""
    lines = data.split(b"\n")
    return b"\n".join(
        [lines[0], *(b"[" + line[1:-1] + b"]" if line else line for line in lines[1:])]
    )


def other_entries(data: bytes) -> bytes:
    """The same lines at the same places, each an object that is no entry."""
    lines = data.split(b"\n")
    others = (
        json.dumps({"x": "y" * (len(line) - 9)}).encode() if line else b"" for line in lines[1:]
    )
    return b"\n".join([lines[0], *others])


async def make(wire: Wire) -> Path:
    made = await wire.call(
        "session/create", cwd="/p", session_id=SESSION, persist="immediate", if_exists="open"
    )
    for number in range(6):
        role = "user" if number % 2 == 0 else "assistant"
        content = f"{number}" * (200 - 30 * number)
        await wire.call("append", session_id=SESSION, message={"role": role, "content": content})
    return Path(made["session"]["path"])


@pytest.mark.parametrize("rewrite", [garbled, other_entries])
async def test_a_replay_ends_with_a_reason_and_no_bug(real_house: Any, rewrite: Any) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        path = await make(wire)
        with path.open("r+b") as file:
            file.write(rewrite(path.read_bytes()))
        await wire.call("subscribe", session_id=SESSION, after={"seq": 0})
        told = await wire.next_notification()
        assert (told["method"], told["params"]["reason"]) == ("session/closed", "storage_error")
        # The next mutation looks at the file and finds another one: the session has a new epoch.
        epoch = await epoch_of(wire)
        with suppress(Refusal):
            await wire.call("append", session_id=SESSION, message={"role": "user", "content": "x"})
        assert await epoch_of(wire) != epoch


async def epoch_of(wire: Wire) -> str:
    return str((await wire.call("session/get", session_id=SESSION))["session"]["epoch"])
