"""The assertions of the SDK's own tests of its sessions (tests/memory of 0.24), for this back end.

Restated: test_session.py and test_session_limit.py, but what they say of SQLite's connections, threads,
locks and corrupt rows. There is no context-aware session here (test_session_context_wrapper.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.kit.patience import PATIENCE_SECONDS

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(120)]

METHODS = pytest.mark.parametrize("method", ["run", "run_sync", "run_streamed"])
Make = Callable[..., Any]


async def run(method: str, agent: Any, said: Any, **options: Any) -> Any:
    from agents import Runner

    if method == "run_streamed":
        result = Runner.run_streamed(agent, said, **options)
        async for _ in result.stream_events():
            pass
        return result
    if method == "run_sync":
        return await asyncio.to_thread(_run_sync, agent, said, options)
    return await Runner.run(agent, said, **options)


def _run_sync(agent: Any, said: Any, options: dict[str, Any]) -> Any:
    from agents import Runner

    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        return Runner.run_sync(agent, said, **options)
    finally:
        loop.close()


def an_agent(script: Any) -> Any:
    from agents import Agent

    return Agent(name="test", model=script.model)


def texts(items: list[Any]) -> list[Any]:
    return [item.get("content") for item in items]


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


# -- runners ----------------------------------------------------------------------------------


@METHODS
async def test_the_second_turn_sees_the_first(method: str, new_session: Make, script: Any) -> None:
    session, agent = new_session(), an_agent(script)
    script.says("San Francisco").says("California")
    first = await run(method, agent, "What city is the Golden Gate Bridge in?", session=session)
    second = await run(method, agent, "What state is it in?", session=session)
    assert (first.final_output, second.final_output) == ("San Francisco", "California")
    last = script.inputs[-1]
    assert [item["role"] for item in last] == ["user", "assistant", "user"]
    assert last[0]["content"] == "What city is the Golden Gate Bridge in?"


@METHODS
async def test_without_a_session_the_second_turn_sees_itself_alone(
    method: str, new_session: Make, script: Any
) -> None:
    script.says("Hello").says("I don't know")
    agent = an_agent(script)
    await run(method, agent, "Hi there")
    await run(method, agent, "Do you remember what I said?")
    assert len(script.inputs[-1]) == 1 or isinstance(script.inputs[-1], str)


@METHODS
async def test_sessions_know_nothing_of_each_other(
    method: str, new_session: Make, script: Any
) -> None:
    agent = an_agent(script)
    script.says("I like cats.").says("I like dogs.").says("Yes, cats.")
    await run(method, agent, "I like cats.", session=new_session("one"))
    await run(method, agent, "I like dogs.", session=new_session("two"))
    await run(method, agent, "What do I like?", session=new_session("one"))
    last = script.inputs[-1]
    assert len(last) == 3
    assert "dogs" not in str(last)


@METHODS
async def test_a_list_as_input_is_appended(method: str, new_session: Make, script: Any) -> None:
    session = new_session()
    history = [user("Hello there."), {"role": "assistant", "content": "Hi, how can I help?"}]
    await session.add_items(history)
    script.says("I'm a model")
    await run(method, an_agent(script), [user("What is your name?")], session=session)
    assert script.inputs[-1] == [*history, user("What is your name?")]


@METHODS
async def test_a_callback_prepares_the_input(method: str, new_session: Make, script: Any) -> None:
    from agents import RunConfig

    session = new_session()
    history = [user("Hello there."), {"role": "assistant", "content": "Hi."}]
    await session.add_items(history)

    def users_only(history: list[Any], new: list[Any]) -> list[Any]:
        return [item for item in history if item["role"] == "user"] + new

    script.says("I'm a model")
    config = RunConfig(session_input_callback=users_only)
    new = [user("What is your name?")]
    await run(method, an_agent(script), new, session=session, run_config=config)
    assert script.inputs[-1] == [history[0], new[0]]


@METHODS
async def test_a_callback_that_repeats_history_adds_nothing_to_the_session(
    method: str, new_session: Make, script: Any
) -> None:
    from agents import RunConfig

    session, agent = new_session(), an_agent(script)

    def repeat(history: list[Any], new: list[Any]) -> list[Any]:
        return [*history, history[0], *new] if history else new

    config = RunConfig(session_input_callback=repeat)
    for turn in range(3):
        script.says(f"assistant {turn}")
        await run(method, agent, f"user {turn}", session=session, run_config=config)
    stored = await session.get_items()
    users = [item for item in stored if item.get("role") == "user"]
    assert texts(users) == ["user 0", "user 1", "user 2"]
    assert len(stored) == 6


async def test_a_failing_add_items_ends_the_stream(new_session: Make, script: Any) -> None:
    session = new_session()

    async def failing(_items: Any) -> None:
        raise RuntimeError("cannot add")

    session.add_items = failing
    script.says("not reached")
    with pytest.raises(RuntimeError, match="cannot add"):
        await asyncio.wait_for(
            run("run_streamed", an_agent(script), "Hello", session=session), PATIENCE_SECONDS
        )


# -- the protocol -----------------------------------------------------------------------------


async def test_items_are_added_read_and_cleared(new_session: Make) -> None:
    session = new_session()
    items = [user("Hello"), {"role": "assistant", "content": "Hi there!"}]
    await session.add_items(items)
    assert await session.get_items() == items
    await session.clear_session()
    assert await session.get_items() == []
    await session.add_items([])
    assert await session.get_items() == []


async def test_items_pop_from_the_end(new_session: Make) -> None:
    session = new_session()
    assert await session.pop_item() is None
    items = [user("Hello"), {"role": "assistant", "content": "Hi"}, user("How are you?")]
    await session.add_items(items)
    assert await session.pop_item() == items[2]
    assert await session.get_items() == items[:2]
    assert await session.pop_item() == items[1]
    assert await session.pop_item() == items[0]
    assert await session.pop_item() is None
    assert await session.get_items() == []


async def test_a_pop_is_of_its_session(new_session: Make) -> None:
    one, two = new_session("one"), new_session("two")
    await one.add_items([user("Hello one")])
    await two.add_items([user("Hello two"), user("How are you?")])
    assert await two.pop_item() == user("How are you?")
    assert texts(await one.get_items()) == ["Hello one"]
    assert texts(await two.get_items()) == ["Hello two"]


async def test_a_limit_gives_the_newest_in_their_order(new_session: Make) -> None:
    session = new_session()
    items = [user(f"Message {number}") for number in range(6)]
    await session.add_items(items)
    assert await session.get_items() == items
    assert await session.get_items(limit=None) == items
    assert await session.get_items(limit=3) == items[3:]
    assert await session.get_items(limit=2) == items[4:]
    assert await session.get_items(limit=100) == items
    assert await session.get_items(limit=0) == []


@pytest.mark.parametrize(
    "text",
    [
        "日本語 🎉",
        "O'Reilly",
        "DROP TABLE sessions;",
        '"quoted"',
        "Line1\nLine2",
        "-- comment",
        "\u2028",
    ],
)
async def test_any_text_comes_back(new_session: Make, text: str) -> None:
    session = new_session(f"session {text}")
    await session.add_items([user(text)])
    assert await session.get_items() == [user(text)]


async def test_items_of_many_tasks_are_all_there(new_session: Make) -> None:
    session = new_session()
    items = [user(f"Message {number}") for number in range(10)]
    await asyncio.gather(*(session.add_items([item]) for item in items))
    found = await session.get_items()
    assert sorted(texts(found)) == sorted(texts(items))


# -- settings ---------------------------------------------------------------------------------


async def test_settings_have_a_limit_that_a_call_or_a_run_overrides(
    new_session: Make, script: Any
) -> None:
    from agents import RunConfig
    from agents.memory import SessionSettings

    assert new_session().session_settings == SessionSettings(limit=None)
    session = new_session(session_settings=SessionSettings(limit=3))
    items = [user(f"Turn {number}") for number in range(10)]
    await session.add_items(items)
    assert await session.get_items() == items[-3:]
    assert await session.get_items(limit=5) == items[-5:]
    script.says("Got it")
    config = RunConfig(session_settings=SessionSettings(limit=2))
    await run("run", an_agent(script), "New question", session=session, run_config=config)
    assert script.inputs[-1] == [*items[-2:], user("New question")]


async def test_settings_may_be_a_dictionary_of_known_members(new_session: Make) -> None:
    from agents.memory import SessionSettings

    session = new_session(session_settings={"limit": 0})
    assert session.session_settings == SessionSettings(limit=0)
    assert session.session_settings.resolve({"limit": 4}).limit == 4
    with pytest.raises(TypeError, match="limitt"):
        new_session(session_settings={"limitt": 1})


@METHODS
async def test_a_limit_that_parts_a_call_from_its_output_passes_no_output(
    method: str, new_session: Make, script: Any
) -> None:
    from agents import RunConfig
    from agents.memory import SessionSettings

    session = new_session()
    spoken = {"type": "output_text", "text": "It is sunny.", "annotations": []}
    history = [
        user("What is the weather?"),
        {"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1", "output": "sunny"},
        {"type": "message", "role": "assistant", "content": [spoken]},
    ]
    await session.add_items(history)
    assert await session.get_items(limit=2) == history[-2:]
    script.says("Tomorrow is sunny too.")
    config = RunConfig(session_settings=SessionSettings(limit=2))
    await run(method, an_agent(script), "And tomorrow?", session=session, run_config=config)
    assert script.inputs[-1] == [history[-1], user("And tomorrow?")]


@METHODS
@pytest.mark.parametrize(("limit", "seen"), [(0, 1), (None, 5), (100, 5), (2, 3)])
async def test_a_run_sees_as_much_history_as_its_limit_says(
    method: str, new_session: Make, script: Any, limit: int | None, seen: int
) -> None:
    from agents import RunConfig
    from agents.memory import SessionSettings

    session, agent = new_session(), an_agent(script)
    for turn in (1, 2):
        script.says(f"Reply {turn}")
        await run(method, agent, f"Message {turn}", session=session)
    script.says("Reply 3")
    config = RunConfig(session_settings=SessionSettings(limit=limit))
    await run(method, agent, "Message 3", session=session, run_config=config)
    assert len(script.inputs[-1]) == seen
    assert script.inputs[-1][-1]["content"] == "Message 3"
