"""The assertions of the SDK's tests of branches and turns (test_advanced_sqlite_session.py), for heads.

Not restated: usage (`store_run_usage` is not there), tables and connections of SQLite, names that stay
reserved (the name of a dropped head is free), names of hosted tools beyond their type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.interop.agents_sdk.test_memory import user

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(120)]

Make = Callable[..., Any]


def reply(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def call(name: str) -> list[dict[str, Any]]:
    return [
        {"type": "function_call", "call_id": f"c-{name}", "name": name, "arguments": "{}"},
        {"type": "function_call_output", "call_id": f"c-{name}", "output": "done"},
    ]


TALK = [
    user("First?"),
    reply("One."),
    user("Second?"),
    reply("Two."),
    user("Third?"),
    reply("Three."),
]


async def test_a_branch_begins_before_its_turn_and_goes_its_own_way(new_session: Make) -> None:
    session = new_session()
    await session.add_items(TALK)
    name = await session.create_branch_from_turn(2)
    assert await session.get_items() == TALK[:2]
    await session.add_items([user("Rather?")])
    assert await session.get_items() == [*TALK[:2], user("Rather?")]
    await session.switch_to_branch("main")
    assert await session.get_items() == TALK
    branches = {one.pop("branch_id"): one for one in await session.list_branches()}
    assert {one: (each["message_count"], each["user_turns"]) for one, each in branches.items()} == {
        "main": (6, 3),
        name: (3, 2),
    }
    assert [one for one, each in branches.items() if each["is_current"]] == ["main"]


async def test_a_branch_has_a_name_of_its_own_that_a_head_may_have(new_session: Make) -> None:
    session = new_session()
    await session.add_items(TALK)
    assert await session.create_branch_from_turn(1, "rewrite") == "rewrite"
    for name in ("rewrite", "main", "", "   ", "a branch with blanks", "x" * 65):
        await session.switch_to_branch("main")
        with pytest.raises(ValueError, match=r"branch"):
            await session.create_branch_from_turn(1, name)
    made = {
        await session.create_branch_from_turn(1)
        for _ in range(3)
        if not await session.switch_to_branch("main")
    }
    assert len(made) == 3


async def test_what_is_not_there_is_an_error(new_session: Make) -> None:
    session = new_session()
    await session.add_items(TALK)
    for turn in (0, 4, -1):
        with pytest.raises(ValueError, match="does not exist"):
            await session.create_branch_from_turn(turn)
    with pytest.raises(ValueError, match="no turn"):
        await session.create_branch_from_content("Fourth")
    with pytest.raises(ValueError, match="does not exist"):
        await session.switch_to_branch("none")
    with pytest.raises(ValueError, match="does not exist"):
        await session.delete_branch("none")
    with pytest.raises(ValueError, match="main stays"):
        await session.delete_branch("main")


async def test_the_current_branch_is_deleted_by_force_only(new_session: Make) -> None:
    session = new_session()
    await session.add_items(TALK)
    name = await session.create_branch_from_turn(3)
    with pytest.raises(ValueError, match="force"):
        await session.delete_branch(name)
    await session.delete_branch(name, force=True)
    assert [one["branch_id"] for one in await session.list_branches()] == ["main"]
    assert await session.get_items() == TALK


async def test_a_pop_on_a_branch_leaves_the_other_branch_alone(new_session: Make) -> None:
    session = new_session()
    await session.add_items(TALK)
    await session.create_branch_from_turn(2)
    assert await session.pop_item() == reply("One.")
    assert await session.get_items() == TALK[:1]
    await session.switch_to_branch("main")
    assert await session.get_items() == TALK


async def test_turns_are_listed_and_found(new_session: Make) -> None:
    session = new_session()
    long = "Long " * 40
    parts = [
        {"type": "input_text", "text": "100% of it_all"},
        {"type": "input_image", "image_url": "https://a.example/b.png"},
    ]
    await session.add_items(
        [user(long), reply("Yes."), {"role": "user", "content": parts}, user("café \\n?")]
    )
    turns = await session.get_conversation_turns()
    assert [turn["turn"] for turn in turns] == [1, 2, 3]
    assert turns[0]["content"] == f"{long[:100]}..."
    assert [turn["full_content"] for turn in turns] == [long, parts, "café \\n?"]
    assert all(turn["can_branch"] and turn["timestamp"] for turn in turns)
    for term, found in [
        ("LONG", [1]),
        ("100%", [2]),
        ("it_all", [2]),
        ("itXall", []),
        ("café", [3]),
        ("\\n", [3]),
    ]:
        assert [turn["turn"] for turn in await session.find_turns_by_content(term)] == found, term
    await session.create_branch_from_content("100%")
    assert await session.get_items() == [user(long), reply("Yes.")]


async def test_items_and_tools_are_counted_by_turn(new_session: Make) -> None:
    session = new_session()
    await session.add_items([user("Look."), *call("look"), *call("look"), reply("Seen.")])
    await session.add_items(
        [user("Search."), {"type": "web_search_call", "id": "ws", "status": "completed"}]
    )
    by_turn = await session.get_conversation_by_turns()
    assert [item["type"] for item in by_turn[1]] == [
        *("user", "function_call", "function_call_output", "function_call", "function_call_output"),
        "assistant",
    ]
    assert await session.get_tool_usage() == [("look", 2, 1), ("web_search", 1, 2)]


async def test_an_empty_session_has_no_turns(new_session: Make) -> None:
    session = new_session()
    assert await session.get_conversation_turns() == []
    assert await session.get_tool_usage() == []
    assert await session.find_turns_by_content("a") == []
    (main,) = await session.list_branches()
    assert (main["message_count"], main["user_turns"]) == (0, 0)
