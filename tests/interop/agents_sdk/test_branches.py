"""The assertions of the SDK's tests of branches and turns (test_advanced_sqlite_session.py), for heads.

Not restated: tables and connections of SQLite, and names that stay reserved (the name of a dropped
head is free).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from sessiond_client import Client
from tests.interop.agents_sdk.test_memory import an_agent, run, user

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


async def test_of_two_that_make_a_branch_of_one_name_one_does(new_session: Make) -> None:
    one, two = new_session(), new_session()
    await one.add_items(TALK)
    for number in range(10):
        made = await asyncio.gather(
            one.create_branch_from_turn(3, f"b{number}"),
            two.create_branch_from_turn(2, f"b{number}"),
            return_exceptions=True,
        )
        assert sorted(map(type, made), key=str) == [ValueError, str]
        winner = one if made[0] == f"b{number}" else two
        assert len(await winner.get_items()) == (4 if winner is one else 2)
        for session in (one, two):
            await session.switch_to_branch("main")


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
    assert await session.get_tool_usage() == [("look", 2, 1), ("web_search_call", 1, 2)]


TOOLS = [
    ({"type": "mcp_call", "server_label": "files", "name": "read"}, "files.read"),
    ({"type": "mcp_approval_request", "server_label": "files", "name": "drop"}, "files.drop"),
    ({"type": "mcp_call", "server_label": "files"}, "files"),
    ({"type": "computer_call"}, "computer_call"),
    ({"type": "shell_call"}, "shell_call"),
    ({"type": "function_call", "name": "add"}, "add"),
    ({"type": "custom_tool_call", "name": "own"}, "own"),
    ({"type": "function_call", "name": "find", "namespace": "crm"}, "crm.find"),
    ({"type": "function_call", "name": "pay", "namespace": "pay"}, "pay"),
    ({"type": "tool_search_call", "id": "ts"}, "tool_search"),
]


async def test_tools_have_the_names_of_their_servers_and_namespaces(new_session: Make) -> None:
    session = new_session()
    items = [{**item, "arguments": "{}"} for item, _ in TOOLS]
    await session.add_items([user("Use them."), *items, {"type": "tool_search_output", "id": "ts"}])
    (turn,) = (await session.get_conversation_by_turns()).values()
    wanted = [name for _, name in TOOLS]
    assert [item["tool_name"] for item in turn[1:]] == [*wanted, "tool_search"]
    assert await session.get_tool_usage() == [(name, 1, 1) for name in sorted(wanted)]


async def test_a_search_for_tools_counts_by_its_calls_and_without_one_by_its_output(
    new_session: Make,
) -> None:
    session = new_session()
    call, output = {"type": "tool_search_call"}, {"type": "tool_search_output", "tools": []}
    await session.add_items([user("Look it up."), output, user("Again."), call, call, output])
    assert await session.get_tool_usage() == [("tool_search", 1, 1), ("tool_search", 2, 2)]


# -- usage ------------------------------------------------------------------------------------


def a_result(requests: int, given: int, got: int, **details: Any) -> Any:
    """Return the result of a run that cost tokens."""
    from agents.usage import Usage

    usage = Usage(
        requests=requests, input_tokens=given, output_tokens=got, total_tokens=given + got
    )
    for name, value in details.items():
        object.__setattr__(usage, name, value)
    return SimpleNamespace(context_wrapper=SimpleNamespace(usage=usage))


async def test_the_usage_of_a_turn_is_kept_beside_the_turn(
    new_session: Make, client: Client
) -> None:
    from openai.types.responses.response_usage import OutputTokensDetails

    session = new_session()
    await session.store_run_usage(a_result(9, 9, 9))
    assert await session.get_session_usage() is None
    await session.add_items(TALK[:2])
    await session.store_run_usage(a_result(9, 900, 90))
    await session.store_run_usage(
        a_result(
            1,
            50,
            30,
            input_tokens_details=None,
            output_tokens_details=OutputTokensDetails(reasoning_tokens=5),
        )
    )
    await session.add_items(TALK[2:4])
    for data in (None, {"turn_id": 1}, {"requests": "many"}):
        entry = {"type": "custom", "custom_type": "openai.usage", "data": data}
        await client.append(session.daemon_id, entries=[entry])
    await session.store_run_usage(a_result(2, 75, 45))
    await session.add_items(TALK[4:])
    assert await session.get_items() == TALK
    sums = {"requests": 3, "input_tokens": 125, "output_tokens": 75, "total_tokens": 200}
    assert await session.get_session_usage() == {**sums, "total_turns": 2}
    first = await session.get_turn_usage(1)
    assert first["total_tokens"] == 80
    assert first["input_tokens_details"] is None
    assert first["output_tokens_details"] == {"reasoning_tokens": 5}
    assert (await session.get_turn_usage(2))["input_tokens_details"]["cached_tokens"] == 0
    assert await session.get_turn_usage(3) == {}
    both = await session.get_turn_usage()
    assert [turn["user_turn_number"] for turn in both] == [1, 2]
    while await session.pop_item() != TALK[2]:
        pass
    assert (await session.get_session_usage())["total_turns"] == 1


async def test_each_branch_has_its_usage_and_a_shared_turn_counts_once(new_session: Make) -> None:
    session = new_session()
    for turn, result in ((TALK[:2], a_result(1, 50, 30)), (TALK[2:4], a_result(1, 10, 5))):
        await session.add_items(turn)
        await session.store_run_usage(result)
    await session.create_branch_from_turn(2, "other")
    await session.add_items([user("Rather?")])
    await session.store_run_usage(a_result(2, 100, 60))
    of_main, of_other, of_all = [
        await session.get_session_usage(name) for name in ("main", "other", None)
    ]
    assert (of_main["requests"], of_main["total_turns"]) == (2, 2)
    assert (of_other["requests"], of_other["total_turns"]) == (3, 2)
    assert (of_all["requests"], of_all["total_tokens"], of_all["total_turns"]) == (4, 255, 3)
    assert [turn["requests"] for turn in await session.get_turn_usage(branch_id="other")] == [1, 2]
    assert await session.get_items(branch_id="main") == TALK[:4]
    assert await session.get_items(limit=1, branch_id="main") == [TALK[3]]


async def test_a_run_stores_its_usage(new_session: Make, script: Any) -> None:
    session, agent = new_session(), an_agent(script)
    for turn in range(2):
        script.says(f"Reply {turn}")
        await session.store_run_usage(await run("run", agent, f"Say {turn}", session=session))
    assert (await session.get_session_usage())["total_turns"] == 2
    assert len(await session.get_conversation_by_turns()) == 2


async def test_usage_that_cannot_be_stored_ends_no_program(
    new_session: Make, caplog: pytest.LogCaptureFixture
) -> None:
    session = new_session()
    await session.add_items([user("A turn.")])
    session.head = "gone"
    await session.store_run_usage(a_result(1, 2, 3))
    assert "the usage of a run was not stored" in caplog.text


async def test_an_empty_session_has_no_turns(new_session: Make) -> None:
    session = new_session()
    assert await session.get_conversation_turns() == []
    assert await session.get_tool_usage() == []
    assert await session.find_turns_by_content("a") == []
    (main,) = await session.list_branches()
    assert (main["message_count"], main["user_turns"]) == (0, 0)
