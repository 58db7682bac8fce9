"""session/update: what it stores, what it shows, and that it still says so after a restart."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.kit.calls import call, create, refused, say, session_info
from tests.kit.house import House
from tests.kit.sessions import SESSION


async def test_what_was_set_and_cleared_is_the_same_after_a_restart(house: House) -> None:
    facts: dict[str, Any] = {
        "title": "t",
        "auto_title": "made",
        "tags": ["x"],
        "agent": "a",
        "model": "m",
        "provider": "p",
        "thinking_level": "low",
        "status": "s",
        "plan": "1",
        "dry_run": False,
        "system_prompt": "be",
        "compaction": {"reserve_tokens": 1},
        "metadata": [1.5],
    }
    header = {name: facts[name] for name in ("title", "tags", "agent", "model", "metadata")}
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(
            wire, **header, system_prompt="header", dry_run=True, compaction={"reserve_tokens": 0}
        )
        set_to = await call(wire, "session/update", "session", **facts)
        assert {name: set_to[name] for name in facts} == facts
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert {name: (await session_info(wire))[name] for name in facts} == facts
        cleared = await call(wire, "session/update", "session", **dict.fromkeys(facts))
        nothing: dict[str, Any] = dict.fromkeys(facts) | {"tags": []}
        assert {name: cleared[name] for name in facts} == nothing
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert {name: (await session_info(wire))[name] for name in facts} == nothing
    assert [line["type"] for line in house.stored()] == ["session_header", *["session_info"] * 2]


async def test_a_chosen_title_outlives_made_ones_and_restarts(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        await say(wire, "prompt")
        assert await call(wire, "session/update", "session.title", auto_title=True) == "prompt"
        assert await call(wire, "session/update", "session.title", title="chosen") == "chosen"
        made = {"title": "made", "auto_title": True}
        assert await call(wire, "session/update", "session.title", **made) == "chosen"
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await call(wire, "session/update", "session.title", auto_title="better") == "chosen"
        assert await call(wire, "session/update", "session.title", title=None) == "better"
        made = {"title": None, "auto_title": True}
        assert await call(wire, "session/update", "session.title", **made) == "prompt"


async def test_long_facts_are_not_in_lists(house: House) -> None:
    long = {
        "plan": "1",
        "system_prompt": "be",
        "compaction": {"reserve_tokens": 1},
        "metadata": {"m": 2},
    }
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, persist="immediate")
        await call(wire, "session/update", title="t", provider="p", **long)
        (info,) = (await wire.call("session/list"))["sessions"]
        assert (info["title"], info["provider"]) == ("t", "p")
        assert not long.keys() & info.keys()
        await wire.call("session/close", session_id=SESSION)
        (info,) = (await wire.call("session/list"))["sessions"]
        assert not long.keys() & info.keys()


@pytest.mark.parametrize(
    ("content", "title"),
    [
        ("one\ntwo", "one"),
        ("\n \n  spaced   out \r\nmore", "spaced out"),
        ([{"type": "image"}, {"type": "text", "text": "blocks"}], "blocks"),
        ("w" * 60, "w" * 60),
        ("w" * 61, "w" * 57 + "..."),
        ("a\x1b]0;b\x07", "a\ufffd]0;b\ufffd"),
    ],
)
async def test_a_title_is_made_of_the_first_line(house: House, content: Any, title: str) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        await say(wire, content)
        await say(wire, "another")
        assert await call(wire, "session/update", "session.title", auto_title=True) == title


@pytest.mark.parametrize("content", [None, "", " \n", [{"type": "image"}]])
async def test_no_title_is_made_of_nothing(house: House, content: Any) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        if content is not None:
            await say(wire, content)
        facts = {"auto_title": True, "status": "s"}
        assert await refused(wire, "session/update", "path", **facts) == "auto_title"
        assert (await session_info(wire))["status"] == ("active" if content is not None else None)


@pytest.mark.parametrize("persist", ["immediate", "never"])
async def test_a_title_is_made_of_a_prompt_that_waits_for_the_same_write(
    house: House, persist: str
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, persist=persist)
        requests: list[Any] = [
            {
                "id": 70,
                "method": "append",
                "params": {"message": {"role": "user", "content": "hm"}},
            },
            {"id": 71, "method": "session/update", "params": {"auto_title": True}},
        ]
        for request in requests:
            request["params"] |= {"session_id": SESSION}
        await wire.send_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in requests))
        assert (await wire.answer(70))["seq"] == 1
        assert (await wire.answer(71))["session"]["title"] == "hm"


async def test_a_title_is_made_of_a_long_prompt(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        await say(wire, "long\n" + "x" * 300_000)
        await wire.call("session/close", session_id=SESSION)
        assert await call(wire, "session/update", "session.title", auto_title=True) == "long"


async def test_a_refused_write_changes_no_fact(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        house.disk.fail("fdatasync")
        assert await refused(wire, "session/update", title="lost") == "storage_error"
        assert (await session_info(wire))["title"] is None
        assert await call(wire, "session/update", "session.seq", title="kept") == 1


async def test_a_read_only_session_takes_no_facts(house: House) -> None:
    house.put(b'{"type":"session_header","version":1,"id":"session-a","cwd":"/p"}\nbroken\n{}\n')
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await refused(wire, "session/update", title="t") == "session_corrupt"
