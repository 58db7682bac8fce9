"""Entries of each kind, feature by feature: appended, read back, told to subscribers, shown to the model."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.calls import (
    append,
    append_all,
    append_message,
    call,
    create,
    create_with,
    session_info,
)
from tests.kit.house import House
from tests.kit.sessions import TIME, entry

pytestmark = pytest.mark.parametrize("anyio_backend", ["asyncio"], scope="session")

USAGE = {"input": 30, "output": 10, "cacheRead": 5, "cacheWrite": 2, "totalTokens": 47}
# One of everything that an agent's answer may hold.
ANSWER: dict[str, Any] = {
    "role": "assistant",
    "content": [
        {"type": "thinking", "thinking": "A clock.", "thinkingSignature": "s"},
        {"type": "text", "text": "Looking."},
        {"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="},
        {"type": "audio", "mimeType": "audio/wav", "data": "UklGRg=="},
        {"type": "toolCall", "id": "call-1", "name": "read", "arguments": {"path": "clock.py"}},
    ],
    "provider": "acme",
    "model": "m-1",
    "usage": USAGE,
    "stopReason": "error",
    "errorMessage": "overloaded",
}
RESULT = {
    "role": "toolResult",
    "toolCallId": "call-1",
    "toolName": "read",
    "content": [{"type": "text", "text": "import time"}],
    "isError": False,
}


async def test_messages_of_user_assistant_and_tool_are_kept_and_told(house: House) -> None:
    said = {"u1": {"role": "user", "content": "Why?"}, "a1": ANSWER, "t1": RESULT}
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as watcher:
        await create(wire)
        await call(watcher, "subscribe")
        for name, message in said.items():
            await append_message(wire, name, message)
        told = [(await watcher.next_notification())["params"] for _ in said]
        assert [one["seq"] for one in told] == [1, 2, 3]
        assert {one["entry"]["id"]: one["entry"]["message"] for one in told} == said
        page = await call(wire, "session/entries")
        assert [row["entry"] for row in page["entries"]] == [one["entry"] for one in told]


async def test_thoughts_calls_images_usage_and_errors_reach_the_context(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "u1")
        await append_message(wire, "a1", ANSWER)
        await append_message(wire, "t1", RESULT)
        assert (await call(wire, "build_context", "messages"))[1:] == [ANSWER, RESULT]
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert (await call(wire, "build_context", "messages"))[1:] == [ANSWER, RESULT]


async def test_a_fact_is_an_entry_and_the_last_one_counts(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "u1")
        for fields in ({"name": "First", "tags": ["x"]}, {"name": "Last"}):
            await append_all(wire, {"type": "session_info", **fields})
        info = await session_info(wire)
        assert (info["title"], info["tags"], info["leaf_id"]) == ("Last", ["x"], "u1")
        assert [line.get("name") for line in house.stored()[2:]] == ["First", "Last"]


async def test_data_of_an_extension_is_kept_and_never_in_the_context(house: House) -> None:
    data = {"todo": [1, {"done": False}]}
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "u1")
        await append_all(
            wire, {"type": "custom", "id": "x1", "custom_type": "ext.todo", "data": data}
        )
        kept = (await call(wire, "session/entry", entry_id="x1"))["entry"]
        assert (kept["custom_type"], kept["data"]) == ("ext.todo", data)
        assert await call(wire, "build_context", "sources") == ["u1"]


async def test_a_message_of_an_extension_is_in_the_context_hidden_or_not(house: House) -> None:
    fields = {"custom_type": "ext.note", "content": "Mind the tests.", "details": {"level": 2}}
    shown = {"type": "custom_message", "id": "n1", "display": True, **fields}
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, persist="immediate")
        await append_all(wire, shown, shown | {"id": "n2", "display": False})
        for name, display in (("n1", True), ("n2", False)):
            kept = (await call(wire, "session/entry", entry_id=name))["entry"]
            assert {field: kept[field] for field in fields} == fields
            assert kept["display"] is display
        built = await call(wire, "build_context", shape="openai")
        assert built["sources"] == ["n1", "n2"]
        assert {message["content"] for message in built["messages"]} == {"Mind the tests."}


async def test_a_label_is_set_replaced_looked_up_and_cleared(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as watcher:
        await create_with(wire, "u1", "u2")
        await call(watcher, "subscribe")
        for label in ("start", "the question", None):
            await call(wire, "session/label", entry_id="u1", label=label)
            (told,) = [(await watcher.next_notification())["params"]["entry"]]
            assert (told["type"], told["target_id"], told["label"]) == ("label", "u1", label)
            row = {"entry_id": "u1", "label": label, "timestamp": told["timestamp"]}
            assert (await call(wire, "session/labels"))["labels"] == [row][: label is not None]
            assert (await call(wire, "session/entry", entry_id="u1"))["label"] == label
            assert told["timestamp"] >= TIME


async def test_an_entry_tells_its_children_and_a_path_how_many_there_are(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "u1", "a1")
        await append(wire, "a2", parent_id="u1", role="assistant")
        await append(wire, "u3")
        found = await call(wire, "session/entry", entry_id="u1")
        assert (found["entry"]["message"]["content"], found["seq"]) == ("u1", 1)
        assert found["children"] == ["a1", "a2"]
        rows = (await call(wire, "session/path"))["entries"]
        assert [(row["entry"]["id"], row["children"]) for row in rows] == [
            ("u1", 2),
            ("a2", 1),
            ("u3", 0),
        ]


async def test_the_last_answer_and_what_came_after_an_entry_are_read_from_the_end(
    house: House,
) -> None:
    said = [
        entry(f"{role[0]}{n}", f"{role} {n}", role)
        for n in (1, 2)
        for role in ("user", "assistant")
    ]
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        await append_all(wire, *said, {"type": "custom", "custom_type": "x"})
        page = await call(wire, "session/path", from_end=True, limit=2)
        rows = [row["entry"] for row in page["entries"]]
        assert [row["message"]["content"] for row in rows if "message" in row] == ["assistant 2"]
        page = await call(wire, "session/entries", after_seq=2, types=["message"])
        assert [(row["seq"], row["entry"]["id"]) for row in page["entries"]] == [
            (3, "u2"),
            (4, "a2"),
        ]


async def test_usage_is_kept_for_each_answer_and_added_up_for_the_session(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "u1")
        await append_message(wire, "a1", ANSWER)
        # On another branch, and counted too.
        await append_message(wire, "a2", ANSWER, parent_id="u1")
        kept = (await call(wire, "session/entry", entry_id="a1"))["entry"]["message"]
        assert kept["usage"] == USAGE
        totals = (await call(wire, "session/usage"))["totals"]
        assert (
            (await session_info(wire))["usage"]
            == totals
            == {
                "input_tokens": 60,
                "output_tokens": 20,
                "cache_read_tokens": 10,
                "cache_write_tokens": 4,
                "total_tokens": 94,
                "cost": 0.0,
            }
        )


async def test_a_context_has_the_messages_the_level_and_the_model_of_its_path(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "u1", system_prompt="Be exact.")
        await append_all(
            wire,
            {"type": "thinking_level_change", "thinking_level": "low"},
            {"type": "model_change", "model_id": "m-1", "provider": "acme"},
        )
        await append(wire, "u2")
        found = await call(wire, "build_context", include=["system"])
        assert (found["sources"], found["thinking_level"]) == (["u1", "u2"], "low")
        assert (found["model"]["model_id"], found["model"]["provider"]) == ("m-1", "acme")
        assert found["system"] == "Be exact."
        found = await call(wire, "build_context", entry_id="u1")
        assert (found["sources"], found["thinking_level"], found["model"]) == (["u1"], "off", None)


async def test_a_call_without_a_result_gets_one_where_a_context_is_repaired(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        await append_message(wire, "a1", ANSWER)
        await append(wire, "u1")
        lines = house.stored()
        assert await call(wire, "build_context", "sources") == ["a1", "u1"]
        _answer, result, asked = await call(wire, "build_context", "messages", repair=True)
        assert (result["role"], result["toolCallId"]) == ("toolResult", "call-1")
        assert "[error:TOOL_INTERRUPTED]" in str(result)
        assert asked["content"] == "u1"
        assert house.stored() == lines


async def test_statistics_count_the_session_and_the_path_of_a_head(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "u1")
        await append_message(wire, "a1", ANSWER)
        await append_message(wire, "t1", RESULT)
        await append(wire, "u2", head="side", parent_id="u1")
        await call(wire, "compact", summary="So far.", first_kept_entry_id="a1", tokens_before=900)
        stats = await call(wire, "session/stats")
        roles = {"user": 2, "assistant": 1, "tool": 1, "other": 0, "total": 4}
        assert (stats["whole"]["messages"], stats["whole"]["tool_calls"]) == (roles, 1)
        assert stats["whole"]["usage"]["total_tokens"] == USAGE["totalTokens"]
        assert stats["whole"]["compactions"]["tokens_before"] == 900
        assert stats["context_tokens"] == (await call(wire, "session/usage"))["tokens"] > 0
        assert (stats["branches"], stats["path"]["messages"]["total"]) == (2, 3)
        side = (await call(wire, "session/stats", head="side"))["path"]
        assert (side["messages"]["total"], side["compactions"]["count"]) == (2, 0)
