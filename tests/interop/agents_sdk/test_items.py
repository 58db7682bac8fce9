"""Any item comes back equal; other clients see the conversation, and theirs becomes items."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sessiond_client import Client
from tests.interop.agents_sdk.test_memory import an_agent, run, user
from tests.processes.harness.daemon import Daemon

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(240)]

Make = Callable[..., Any]
REPOSITORY = Path(__file__).resolve().parents[3]
ITEMS: list[Any] = [
    user("Look at this."),
    {
        "role": "user",
        "content": [
            {
                "type": "input_image",
                "image_url": "data:image/png;base64,iVBORw0KGgo=",
                "detail": "low",
            }
        ],
    },
    {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [],
        "encrypted_content": "gAAAA",
        "content": None,
    },
    {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "call_1",
        "name": "look",
        "arguments": '{ "n" : 1.50 }',
        "status": "completed",
    },
    {
        "type": "function_call_output",
        "call_id": "call_1",
        "output": [{"type": "input_text", "text": "seen"}],
        "id": None,
    },
    {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "A dot.", "annotations": [], "logprobs": []}],
    },
    {"role": "assistant", "content": [{"type": "text", "text": "of another spelling"}]},
    {"role": "user", "content": "with more", "provider_data": {"x": [1]}},
    {"role": "developer", "content": "Be brief."},
    {"role": "tool", "content": "a role of another API"},
    {"type": "function_call", "name": "without an id", "arguments": "{}"},
    {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAA"},
    {"type": "an_unknown_type", "nested": {"a": [None, True, 1.5, "é"]}},
    {"openai_item": True, "role": "user", "content": "the mark itself"},
    {},
]
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=3)
    ),
    max_leaves=8,
)
WORDS = st.sampled_from(
    [
        "role",
        "content",
        "type",
        "call_id",
        "name",
        "arguments",
        "output",
        "tool_calls",
        "openai_item",
        "item",
        "id",
    ]
)
VALUES = JSON | st.sampled_from(
    ["user", "assistant", "tool", "message", "function_call", "function_call_output", "openai_item"]
)


async def test_every_item_comes_back_equal(new_session: Make) -> None:
    session = new_session()
    await session.add_items(ITEMS)
    assert await session.get_items() == ITEMS
    popped = [await session.pop_item() for _ in ITEMS]
    assert popped == ITEMS[::-1]


@given(item=st.dictionaries(WORDS, VALUES, max_size=6))
@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_object_is_read_as_it_was_stored(item: dict[str, Any]) -> None:
    from sessiond_client.openai_agents.items import entry_of, items_of, message_items, message_of

    assert items_of(json.loads(json.dumps(entry_of(item)))) == [item]
    assert message_items(json.loads(json.dumps(message_of(item)))) == [item]


@pytest.mark.parametrize(
    ("item", "told"),
    [
        ({"n": float("nan")}, "no JSON"),
        ({"n": object()}, "no JSON"),
        ({"text": "\ud83d"}, "half a character"),
        ({1: "x"}, "name of a member"),
    ],
)
async def test_what_is_no_json_is_refused_and_nothing_is_stored(
    new_session: Make, item: Any, told: str
) -> None:
    session = new_session()
    with pytest.raises(ValueError, match=told):
        await session.add_items([user("before"), item])
    assert await session.get_items() == []


async def test_other_clients_see_the_conversation(new_session: Make, client: Client) -> None:
    session = new_session("seen by all")
    await session.add_items(ITEMS[:6])
    context = await client.build_context(session.daemon_id, shape="openai", repair=True)
    roles = [message["role"] for message in context.messages]
    assert roles == ["user", "user", "assistant", "tool", "assistant"]
    (asked,) = context.messages[2]["tool_calls"]
    assert asked["function"] == {"name": "look", "arguments": '{ "n" : 1.50 }'}
    assert "seen" in str(context.messages[3]["content"])
    info = await client.get(session.daemon_id)
    assert (info.title, info.first_message) == ("seen by all", "Look at this.")


async def test_the_session_of_another_agent_goes_on(
    new_session: Make, client: Client, script: Any
) -> None:
    session = new_session("begun-by-another-agent")
    await session.get_items()
    calls: list[Any] = [{"type": "toolCall", "id": "c1", "name": "ls", "arguments": {"path": "."}}]
    messages: list[dict[str, Any]] = [
        user("Which files?"),
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm."},
                {"type": "text", "text": "I look."},
                *calls,
            ],
            "stopReason": "toolUse",
        },
        {
            "role": "toolResult",
            "toolCallId": "c1",
            "toolName": "ls",
            "content": [{"type": "text", "text": "a.py"}],
            "isError": False,
        },
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "Only a.py."}],
            "stopReason": "stop",
        },
    ]
    for message in messages:
        await client.append(session.daemon_id, message=message)
    items = await session.get_items()
    assert items == [
        user("Which files?"),
        {"role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
        {"type": "function_call", "call_id": "c1", "name": "ls", "arguments": '{"path": "."}'},
        {"type": "function_call_output", "call_id": "c1", "output": "a.py"},
        {"role": "assistant", "content": [{"type": "output_text", "text": "Only a.py."}]},
    ]
    script.says("Drawn.")
    await run("run", an_agent(script), "Draw it.", session=session)
    assert script.inputs[-1] == [*items, user("Draw it.")]
    # The call stands in one entry with the words before: they stay when the call is popped.
    for wanted in (None, None, items[4], items[3], items[2]):
        popped = await session.pop_item()
        assert wanted is None or popped == wanted
    assert await session.get_items() == items[:2]


async def test_a_compaction_of_another_agent_is_its_summary_and_what_was_kept(
    new_session: Make, client: Client
) -> None:
    session = new_session("compacted-by-another")
    await session.add_items([user("Old."), user("Kept."), user("Last.")])
    entries = (await client.path(session.daemon_id)).entries
    await client.compact(
        session.daemon_id, summary="It was old.", first_kept_entry_id=entries[1].entry["id"]
    )
    await session.add_items([user("New.")])
    items = await session.get_items()
    assert "It was old." in items[0]["content"]
    assert items[1:] == [user("Kept."), user("Last."), user("New.")]
    assert await session.get_items(limit=1) == [user("New.")]
    assert await session.get_items(limit=3) == items[1:]


async def test_items_are_replaced_in_one_step(new_session: Make, client: Client) -> None:
    session = new_session()
    await session.replace_items([user("of nothing")])
    assert await session.get_items() == [user("of nothing")]
    await session.add_items(ITEMS[:3])
    new = [ITEMS[11], user("short"), ITEMS[3], ITEMS[4]]
    await session.replace_items(new)
    assert await session.get_items() == new
    await session.add_items([user("next")])
    assert [await session.pop_item() for _ in range(3)] == [user("next"), ITEMS[4], ITEMS[3]]
    assert await session.get_items() == new[:2]
    await session.replace_items([])
    assert await session.get_items() == []


async def test_a_run_calls_tools_and_goes_on_over_a_killed_daemon(
    new_session: Make, listening: Daemon, script: Any
) -> None:
    from agents import Agent, function_tool

    @function_tool
    def restart() -> str:
        """Kill the daemon, and start it again."""
        listening.end(signal.SIGKILL)
        listening.start()
        return "killed"

    session = new_session()
    agent = Agent(name="killer", model=script.model, tools=[restart])
    for turn in range(3):
        script.calls("restart", "{}").says(f"Done {turn}.")
        result = await run("run", agent, f"Kill {turn}.", session=session)
        assert result.final_output == f"Done {turn}."
    items = await session.get_items()
    kinds = ["user", "function_call", "function_call_output", "assistant"]
    assert [item.get("role") or item["type"] for item in items] == kinds * 3
    assert [item["output"] for item in items if "output" in item] == ["killed"] * 3


async def test_two_runners_share_a_session(new_session: Make) -> None:
    from tests.interop.agents_sdk.conftest import Scripted

    async def talk(name: str) -> None:
        script = Scripted()
        session, agent = new_session("shared by two"), an_agent(script)
        for turn in range(5):
            script.says(f"{name} reply {turn}")
            await run("run", agent, f"{name} {turn}", session=session)

    await asyncio.gather(talk("one"), talk("two"))
    items = await new_session("shared by two").get_items()
    said = [item["content"] for item in items if item["role"] == "user"]
    assert len(items) == 20
    for name in ("one", "two"):
        assert [text for text in said if text.startswith(name)] == [
            f"{name} {turn}" for turn in range(5)
        ]


async def test_two_that_pop_at_once_get_different_items(new_session: Make) -> None:
    one, two = new_session("popped by two"), new_session("popped by two")
    items = [user(f"Message {number}") for number in range(20)]
    await one.add_items(items)
    popped = await asyncio.gather(*(session.pop_item() for session in (one, two) * 10))
    assert sorted(map(str, popped)) == sorted(map(str, items))
    assert await one.get_items() == []


async def test_the_example_of_the_page_runs(
    listening: Daemon, script: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import agents

    page = (REPOSITORY / "docs" / "agent-sdks.md").read_text("utf-8")
    example = page.partition("```python\n")[2].partition("```")[0]
    monkeypatch.setenv("SESSIOND_SOCKET", str(listening.socket_path))
    monkeypatch.setattr(agents, "Agent", partial(agents.Agent, model=script.model))
    script.says("Hi.")
    names: dict[str, Any] = {}
    body = "".join(f"    {line}\n" for line in example.splitlines())
    exec(f"async def main():\n{body}    await session.close()\n    return result", names)
    assert (await names["main"]()).final_output == "Hi."
