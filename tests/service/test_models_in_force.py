"""The model, provider and thinking level in force: equal in get, in lists and in contexts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessiond.testing.daemon import Wire
from tests.kit.calls import append, append_message, call, create, refused, session_info
from tests.kit.house import House, put_sample
from tests.kit.readers.sharur import load
from tests.kit.sessions import SESSION, TIME

LOW = {"type": "thinking_level_change", "id": "t1", "thinking_level": "low"}
Force = tuple[str | None, str | None, str | None]


def answer(model: str, provider: str | None = None) -> dict[str, Any]:
    named = {"provider": provider} if provider else {}
    return {"role": "assistant", "content": "y", "model": model} | named


async def in_force(wire: Wire, session_id: str = SESSION, **at: Any) -> Force:
    """Return what a context says; at main, get and the list must say that too."""
    built = await wire.call("build_context", session_id=session_id, **at)
    model = built["model"] or {}
    found = (model.get("model_id"), model.get("provider"), built["thinking_level"])
    if not at:
        got = await session_info(wire, session_id)
        listed = (await wire.call("session/list"))["sessions"]
        (row,) = (one for one in listed if one["id"] == session_id)
        for info in (got, row):
            provider = info["provider"] if info["model"] else None
            assert (info["model"], provider, info["thinking_level"] or "off") == found
    return found


@pytest.mark.parametrize("program", ["pi", "operator", "sharur"])
async def test_one_call_configures_a_session_in_the_file_of_a_program(
    house: House, program: str
) -> None:
    """These programs write a model and a thinking level as entries; their session_info has no place for them."""
    path = put_sample(house, program)
    change = {"model": "m-1", "provider": "p-1", "thinking_level": "high"}
    async with house.daemon() as daemon, daemon.connect() as wire:
        own = await call(wire, "session/open", "session.id", path=str(path))
        told = await call(wire, "session/update", "session", session_id=own, title="T", **change)
        assert {name: told[name] for name in ("title", *change)} == {"title": "T"} | change
        assert await in_force(wire, own) == ("m-1", "p-1", "high")
        kinds = [json.loads(line)["type"] for line in house.disk.content(path).splitlines()[-3:]]
        assert kinds == ["session_info", "model_change", "thinking_level_change"]
        if program == "sharur":
            theirs = load(house.disk.content(path))
            assert (theirs.name, theirs.model, theirs.thinking) == ("T", "m-1", "high")
        # All of a call or nothing: no entry clears a model.
        before = house.disk.content(path)
        for wrong in (
            {"model": None},
            {"model": "m-2", "provider": None},
            {"thinking_level": None},
        ):
            assert await refused(wire, "session/update", session_id=own, title="U", **wrong)
        assert house.disk.content(path) == before
    async with house.daemon() as daemon, daemon.connect() as wire:
        await call(wire, "session/open", path=str(path))
        assert await in_force(wire, own) == ("m-1", "p-1", "high")


async def test_the_later_line_wins_wherever_it_is_asked(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, model="header", persist="immediate")
        assert await in_force(wire) == ("header", None, "off")
        await append(wire, "u1")
        assert await in_force(wire) == ("header", None, "off")
        change = {"type": "model_change", "id": "m1", "model_id": "changed", "provider": "p"}
        await call(wire, "append", entry=change)
        assert await in_force(wire) == ("changed", "p", "off")
        await append_message(wire, "a1", answer("answered"))
        assert await in_force(wire) == ("answered", None, "off")
        await call(wire, "session/update", model="updated", provider="q", thinking_level="high")
        assert await in_force(wire) == ("updated", "q", "high")
        await call(wire, "append", entry=LOW)
        assert await in_force(wire) == ("updated", "q", "low")
        await append_message(wire, "a2", answer("again", "r"))
        assert await in_force(wire) == ("again", "r", "low")
        await call(wire, "session/close")
        assert await in_force(wire) == ("again", "r", "low")
        # At an entry: what the session says later counts there, what other branches say does not.
        assert await in_force(wire, entry_id="u1") == ("updated", "q", "high")
        await call(wire, "session/branch", entry_id="m1")
        assert await in_force(wire) == ("updated", "q", "high")
    async with house.daemon() as daemon, daemon.connect() as wire:
        (row,) = (await wire.call("session/list"))["sessions"]
        assert (row["model"], row["provider"], row["thinking_level"]) == ("updated", "q", "high")
        assert await in_force(wire) == ("updated", "q", "high")


async def test_each_of_the_three_is_by_itself_and_null_clears(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, model="header", persist="immediate")
        await append_message(wire, "a1", answer("answered", "p"))
        await call(wire, "append", entry=LOW)
        await call(wire, "session/update", provider="q")
        assert await in_force(wire) == ("answered", "q", "low")
        await call(wire, "session/update", model=None, thinking_level=None)
        assert await in_force(wire) == (None, None, "off")
        got = await session_info(wire)
        assert (got["model"], got["provider"], got["thinking_level"]) == (None, "q", None)
        await append_message(wire, "a2", answer("again"))
        assert await in_force(wire) == ("again", None, "off")


async def test_what_is_said_on_another_head_is_for_that_head_and_facts_are_for_all(
    house: House,
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, model="header", persist="immediate")
        await append(wire, "u1")
        await append_message(wire, "s1", answer("aside"), head="side", parent_id=None)
        assert await in_force(wire) == ("header", None, "off")
        assert await in_force(wire, head="side") == ("aside", None, "off")
        entry = {"type": "session_info", "model": "told aside"}
        await call(wire, "append", entry=entry, head="side")
        assert await in_force(wire) == ("told aside", None, "off")
        assert await in_force(wire, head="side") == ("told aside", None, "off")


async def test_an_etag_is_another_when_the_model_is(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, model="header", persist="immediate")
        await append_message(wire, "a1", answer("answered"))
        ask = {"session_id": SESSION, "shape": "openai"}
        etag = (await wire.call("build_context", **ask))["etag"]
        await call(wire, "session/update", title="no setting")
        assert (await wire.call("build_context", **ask, if_none_match=etag))["not_modified"]
        await call(wire, "session/update", model="updated")
        built = await wire.call("build_context", **ask, if_none_match=etag)
        assert built["model"] == {"model_id": "updated"}
        again = await wire.call("build_context", **ask, if_none_match=built["etag"])
        assert again == {"etag": built["etag"], "not_modified": True}


@pytest.mark.parametrize("taken", ["path", "all", "context", "none"])
async def test_a_fork_goes_on_with_what_is_in_force(house: House, taken: str) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, model="header", persist="immediate")
        await append_message(wire, "a1", answer("answered", "p"))
        await call(wire, "append", entry=LOW)
        expected = ("answered", "p", "low")
        for number, facts in enumerate(({}, {"model": "updated"}, {"thinking_level": "high"})):
            if facts:
                await call(wire, "session/update", **facts)
                expected = ("updated", "p", "high" if number > 1 else "low")
            assert await in_force(wire) == expected
            fork_id = await call(wire, "session/fork", "session.id", entries=taken)
            assert await in_force(wire, fork_id) == expected


async def test_a_file_of_pi_counts_what_pi_counts(house: House) -> None:
    header = {"type": "session", "version": 3, "id": SESSION, "timestamp": TIME, "cwd": "/p"}
    header |= {"provider": "legacy", "modelId": "legacy", "thinkingLevel": "legacy"}
    entries: list[dict[str, Any]] = [
        {"type": "message", "message": {"role": "user", "content": "x", "timestamp": 1}},
        {"type": "model_change", "provider": "p", "modelId": "changed"},
        {"type": "thinking_level_change", "thinkingLevel": "high"},
        {"type": "session_info", "name": "title", "model": "no member of pi's"},
        {"type": "message", "message": answer("answered", "q") | {"timestamp": 2}},
    ]
    parent = None
    lines = [header]
    for number, entry in enumerate(entries, 1):
        place = {"id": f"{number:08x}", "parentId": parent, "timestamp": TIME}
        lines.append(entry | place)
        parent = place["id"]
    house.put(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await in_force(wire, entry_id="00000001") == (None, None, "off")
        assert await in_force(wire, entry_id="00000004") == ("changed", "p", "high")
        assert await in_force(wire) == ("answered", "q", "high")
