"""Contexts as clients get them: the answer depends on the session alone, not on earlier calls."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.calls import append_message, call, create
from tests.kit.house import House
from tests.kit.sessions import SESSION, TIME

IMAGE = {"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="}
CALL = {"type": "toolCall", "id": "c", "name": "ls", "arguments": {}}
MESSAGES: dict[str, dict[str, Any]] = {
    "user": {"role": "user", "content": "said"},
    "call": {"role": "assistant", "content": [CALL]},
    "text": {"role": "assistant", "content": "answered"},
    "result": {"role": "toolResult", "toolCallId": "c", "content": "r"},
    "picture": {
        "role": "toolResult",
        "toolCallId": "c",
        "content": [{"type": "text", "text": "r"}, IMAGE],
    },
    "results": {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "c", "content": "r"},
            {"type": "text", "text": "said too"},
        ],
    },
    "answered": {
        "role": "assistant",
        "content": [CALL, {"type": "toolResult", "toolCallId": "c", "content": "r"}],
    },
}
VIEWS = [
    {"shape": shape, "repair": repair}
    for shape in ("stored", "openai", "anthropic")
    for repair in (False, True)
]


# -- the same answer whatever was asked before ------------------------------------------------

GROWN = [
    "user user result user",
    "user user picture user",
    "results user",
    "user text result result user",
    "call user result user text result user",
    "call result result user text",
    "result call text user",
    "answered text user",
    "user picture text user picture user",
]


@pytest.mark.parametrize("kinds", GROWN)
async def test_a_view_of_a_session_that_grew_is_the_one_after_it_was_opened_again(
    house: House, kinds: str
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, persist="immediate")
        grown: list[Any] = []
        for n, kind in enumerate(kinds.split()):
            await append_message(wire, f"e{n}", MESSAGES[kind])
            grown = [await call(wire, "build_context", **view) for view in VIEWS]
        await wire.call("session/close", session_id=SESSION)
        assert [await call(wire, "build_context", **view) for view in VIEWS] == grown


@pytest.mark.parametrize(
    ("kinds", "openai", "anthropic"),
    [
        # Without a call: where the result stands; in the turn that the API has for results.
        ("user user result", "e0 e1 e2", "e2"),
        ("user text result text", "e0 e1 e2 e3", "e0 e1 e2 e3"),
        ("call user result", "e0 e2 e1", "e0 e0 e2"),
        ("result call", "e0 e1", "e0 e1"),
        # Of two results of one call the first is its answer.
        ("call user result result", "e0 e2 e1 e3", "e0 e0 e2"),
        ("call result text result", "e0 e1 e2 e3", "e0 e0 e1 e2 e3"),
        # A result in the message of its own call stands behind the call.
        ("answered text", "e0 e0 e1", "e0 e0 e0 e1"),
    ],
)
async def test_a_result_stands_behind_its_call_and_without_one_where_it_is(
    house: House, kinds: str, openai: str, anthropic: str
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, persist="immediate")
        for n, kind in enumerate(kinds.split()):
            await append_message(wire, f"e{n}", MESSAGES[kind])
        for shape, sources in (("openai", openai), ("anthropic", anthropic)):
            assert await call(wire, "build_context", "sources", shape=shape) == sources.split()


# -- what a caller holds and what it is sent -----------------------------------------------------


@pytest.mark.parametrize("view", VIEWS, ids=str)
async def test_a_prompt_that_is_sent_again_on_another_branch_is_another_source(
    house: House, view: dict[str, Any]
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, persist="immediate")
        await append_message(wire, "root", MESSAGES["user"])
        await append_message(wire, "first", MESSAGES["user"])
        await append_message(wire, "answer", MESSAGES["text"])
        held = await call(wire, "build_context", **view)
        await wire.call("session/branch", session_id=SESSION, entry_id="root")
        await append_message(wire, "again", MESSAGES["user"])
        known = {"leaf_id": "answer", "count": len(held["messages"])}
        told = await call(wire, "build_context", known=known, **view)
        whole = await call(wire, "build_context", **view)
        assert told["sources"] == whole["sources"][told["unchanged"] :]
        assert held["messages"][: told["unchanged"]] + told["messages"] == whole["messages"]
        assert held["sources"][: told["unchanged"]] + told["sources"] == whole["sources"]
        # In Anthropic's shape both prompts are one message, which names the first of its entries.
        assert told["sources"] == ([] if view["shape"] == "anthropic" else ["again"])


@pytest.mark.parametrize("shape", ["stored", "openai", "anthropic"])
async def test_a_result_that_repair_makes_is_held_as_long_as_its_call(
    house: House, shape: str
) -> None:
    view = {"shape": shape, "repair": True}
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, persist="immediate")
        for entry_id, kind in (("ask", "user"), ("call", "call"), ("left", "user")):
            await append_message(wire, entry_id, MESSAGES[kind])
        held = await call(wire, "build_context", **view)
        known = {"leaf_id": "left", "count": len(held["messages"])}
        await wire.call("session/branch", session_id=SESSION, entry_id="ask")
        await append_message(wire, "call-again", MESSAGES["call"])
        await append_message(wire, "right", MESSAGES["text"])
        told = await call(wire, "build_context", known=known, **view)
        # The call and its made result have the bytes of those that are held, and another source.
        assert (told["unchanged"], told["sources"]) == (1, ["call-again", "call-again", "right"])
        await wire.call("session/branch", session_id=SESSION, entry_id="call")
        await append_message(wire, "text", MESSAGES["text"])
        told = await call(wire, "build_context", known=known, **view)
        # The call is the one that is held, and so is its made result; in Anthropic's shape that
        # stands in one message with what is said behind it.
        assert told["sources"] == (["call", "text"] if shape == "anthropic" else ["text"])


async def test_a_leaf_whose_id_two_entries_have_is_no_place_to_compare_with(house: House) -> None:
    def said(entry_id: str, parent_id: str | None, text: str) -> dict[str, Any]:
        entry = {"type": "message", "id": entry_id, "parent_id": parent_id, "timestamp": TIME}
        return entry | {"message": {"role": "user", "content": text}}

    # The second entry of the same id stands elsewhere, on a path of the same length.
    house.put([said("a", None, "one"), said("x", "a", "held"), said("b", None, "two")])
    async with house.daemon() as daemon, daemon.connect() as wire:
        held = await call(wire, "build_context", entry_id="x")
    house.put(
        [
            *(said("a", None, "one"), said("x", "a", "held"), said("b", None, "two")),
            *(said("x", "b", "another"), said("c", "x", "three")),
        ]
    )
    async with house.daemon() as daemon, daemon.connect() as wire:
        for shape in ("stored", "openai"):
            known = {"leaf_id": "x", "count": len(held["messages"])}
            told = await call(wire, "build_context", known=known, shape=shape)
            assert (told["unchanged"], len(told["messages"])) == (0, 3)
