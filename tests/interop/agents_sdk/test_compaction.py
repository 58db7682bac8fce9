"""The SDK's own compaction on sessions of sessiond: one step, and nothing of another client lost.

Restated for this store: tests/memory/test_compaction_suffix.py and test_compaction_model_visibility.py
of the SDK 0.24, but items that expire (nothing is deleted here). What test_openai_responses_compaction_session.py
says is about the wrapper, which is the SDK's own here, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from anyio import wait_all_tasks_blocked

from sessiond_client import Client
from tests.interop.agents_sdk.test_branches import call, reply
from tests.interop.agents_sdk.test_memory import an_agent, run, user
from tests.kit.patience import PATIENCE_SECONDS

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(120)]

Make = Callable[..., Any]
SUMMARY = {"type": "compaction", "id": "cmp", "encrypted_content": "synthetic"}
SECRET = "said by a tool on this machine"
HISTORY = [user(str(number)) for number in range(4)]
STREAMED = pytest.mark.parametrize("method", ["run", "run_streamed"])


class Compactor:
    """OpenAI's `responses.compact` and the model of an agent, which say what a test prescribes."""

    def __init__(self, script: Any) -> None:
        self.script = script
        self.asked: list[Any] = []
        self.output: list[Any] = [SUMMARY]
        self.meanwhile: Callable[[], Any] | None = None
        self.responses = SimpleNamespace(compact=self._compact)

    async def _compact(self, **options: Any) -> Any:
        self.asked.append(options)
        if self.meanwhile is not None:
            await self.meanwhile()
        return SimpleNamespace(output=self.output)


@pytest.fixture
def openai(script: Any) -> Compactor:
    return Compactor(script)


@pytest.fixture
def compacting(openai: Any) -> Callable[..., Any]:
    """Return a function that makes a session with compaction around a store."""
    from agents.memory import OpenAIResponsesCompactionSession

    def make(store: Any, **options: Any) -> Any:
        given: dict[str, Any] = {"should_trigger_compaction": lambda _: True, **options}
        return OpenAIResponsesCompactionSession(store.session_id, store, client=openai, **given)

    return make


def limited(limit: int) -> Any:
    from agents import RunConfig

    return RunConfig(session_settings={"limit": limit})


def filtered(change: Callable[[list[Any]], list[Any]]) -> Any:
    """Return a configuration that changes what a model is given."""
    from agents import RunConfig
    from agents.run_config import ModelInputData

    def change_input(data: Any) -> Any:
        given = data.model_data
        return ModelInputData(input=change(list(given.input)), instructions=given.instructions)

    return RunConfig(call_model_input_filter=change_input)


def without_tools(items: list[Any]) -> list[Any]:
    return [item for item in items if "function_call" not in str(item.get("type"))]


async def kinds(client: Client, session: Any) -> list[str]:
    """Return the types of all entries of a session, in the order in which they were stored."""
    page = await client.entries(session.daemon_id)
    return [stored.entry["type"] for stored in page.entries]


async def compacted_by_another(client: Client, store: Any) -> list[Any]:
    """Fill a session, have another client compact the first half; return what a model sees."""
    await store.add_items(HISTORY)
    kept = (await client.path(store.daemon_id)).entries[2].entry["id"]
    await client.compact(store.daemon_id, summary="It was old.", first_kept_entry_id=kept)
    items: list[Any] = await store.get_items()
    return items


# -- one step ---------------------------------------------------------------------------------


@STREAMED
async def test_a_turn_is_compacted_by_one_entry(
    method: str, new_session: Make, compacting: Make, openai: Compactor, client: Client
) -> None:
    store = new_session()
    session = compacting(store)
    await run(method, an_agent(openai.script.says("Done.")), "Go.", session=session)
    assert len(openai.asked) == 1
    assert await store.get_items() == [SUMMARY]
    assert await kinds(client, store) == ["message", "message", "compaction"]


async def test_what_came_before_the_newest_items_stays(
    new_session: Make, compacting: Make, openai: Compactor
) -> None:
    store = new_session()
    await store.add_items(HISTORY)
    agent = an_agent(openai.script.says("Done."))
    await run("run", agent, "Go.", session=compacting(store), run_config=limited(1))
    assert [item["content"] for item in openai.asked[0]["input"][:2]] == ["3", "Go."]
    assert await store.get_items() == [*HISTORY[:-1], SUMMARY]


async def test_what_was_compacted_before_stays_compacted(
    new_session: Make, compacting: Make, openai: Compactor, client: Client
) -> None:
    store = new_session()
    before = await compacted_by_another(client, store)
    agent = an_agent(openai.script.says("Done."))
    await run("run", agent, "Go.", session=compacting(store), run_config=limited(1))
    assert await store.get_items() == [*before[:-1], SUMMARY]
    assert [await store.pop_item() for _ in range(2)] == [SUMMARY, HISTORY[2]]
    assert await store.get_items() == before[:1]


@pytest.mark.parametrize("popped", [1, 2])
async def test_a_pop_of_what_a_compaction_kept_leaves_its_summary(
    popped: int, new_session: Make, client: Client
) -> None:
    store = new_session()
    before = await compacted_by_another(client, store)
    assert [await store.pop_item() for _ in range(popped)] == before[::-1][:popped]
    assert await store.get_items() == before[:-popped]


@pytest.mark.parametrize(("limit", "is_complete"), [(1, False), (3, False), (4, True), (5, True)])
async def test_a_snapshot_knows_whether_it_is_all(
    limit: int, is_complete: bool, new_session: Make
) -> None:
    store = new_session()
    await store.add_items(HISTORY)
    snapshot = await store._get_compaction_snapshot(limit)
    assert (snapshot.items, snapshot.complete) == (HISTORY[-limit:], is_complete)
    assert not await snapshot.replace_suffix(len(snapshot.items), [SUMMARY])
    assert await snapshot.replace_suffix(len(snapshot.items) - 1, [SUMMARY])
    assert not await snapshot.replace_suffix(0, [SUMMARY])
    assert await store.get_items() == [*HISTORY[:-1], SUMMARY]


async def test_an_output_that_the_daemon_refuses_changes_nothing(
    new_session: Make, compacting: Make, openai: Compactor
) -> None:
    from sessiond_client import RpcError

    store = new_session()
    await store.add_items(HISTORY)
    openai.output = [user("x" * (33 << 20))]
    agent = an_agent(openai.script.says("Done."))
    with pytest.raises(RpcError):
        await run("run", agent, "Go.", session=compacting(store), run_config=limited(1))
    items = await store.get_items()
    assert items[:5] == [*HISTORY, user("Go.")]
    assert len(items) == 6


async def test_the_history_of_a_response_is_compacted_only_as_a_whole(
    new_session: Make, compacting: Make, openai: Compactor
) -> None:
    store = new_session()
    await store.add_items(HISTORY)
    session = compacting(store, compaction_mode="previous_response_id")
    agent = an_agent(openai.script.says("Done."))
    await run("run", agent, "Go.", session=session, run_config=limited(1))
    assert openai.asked == []
    assert len(await store.get_items()) == 6


# -- other writers ----------------------------------------------------------------------------


async def test_a_turn_is_not_compacted_if_another_client_appended_meanwhile(
    new_session: Make, compacting: Make, openai: Compactor
) -> None:
    store, other = new_session(), new_session()
    await store.add_items(HISTORY)
    openai.meanwhile = lambda: other.add_items([user("of another client")])
    agent = an_agent(openai.script.says("Done."))
    await run("run", agent, "Go.", session=compacting(store), run_config=limited(1))
    items = await store.get_items()
    assert items[:5] == [*HISTORY, user("Go.")]
    assert items[6:] == [user("of another client")]


async def test_what_comes_during_a_compaction_by_hand_stays_behind_its_output(
    new_session: Make, compacting: Make, openai: Compactor
) -> None:
    store, other = new_session(), new_session()
    await store.add_items(HISTORY)
    session = compacting(store)

    async def meanwhile() -> None:
        await other.add_items([user("of another client")])
        # Another task of this process reads what the compaction has not seen.
        await asyncio.create_task(session.get_items())

    openai.meanwhile = meanwhile
    await session.run_compaction({"force": True})
    assert openai.asked[0]["input"] == HISTORY
    assert await store.get_items() == [SUMMARY, user("of another client")]


async def test_a_compaction_by_hand_is_of_what_other_clients_added_since_the_last_look(
    new_session: Make, compacting: Make, openai: Compactor
) -> None:
    store, other = new_session(), new_session()
    session = compacting(store, should_trigger_compaction=lambda _: False)
    await session.add_items(HISTORY)
    await session.run_compaction()
    await other.add_items([user("of another client")])
    await session.run_compaction({"force": True})
    assert [given["input"] for given in openai.asked] == [[*HISTORY, user("of another client")]]
    assert await store.get_items() == [SUMMARY]


async def test_a_compaction_by_hand_takes_a_summary_and_what_was_kept(
    new_session: Make, compacting: Make, openai: Compactor, client: Client
) -> None:
    store, other = new_session(), new_session()
    before = await compacted_by_another(client, store)
    openai.meanwhile = lambda: other.add_items([user("of another client")])
    await compacting(store).run_compaction({"force": True})
    assert openai.asked[0]["input"] == before
    assert await store.get_items() == [SUMMARY, user("of another client")]


@pytest.mark.parametrize("options", [{}, {"max_scan_items": 1000}])
@pytest.mark.parametrize("limit", [None, 2])
async def test_an_encrypted_session_is_compacted_by_hand(
    limit: int | None, options: Any, new_session: Make, compacting: Make, openai: Compactor
) -> None:
    from agents.extensions.memory.encrypt_session import EncryptedSession
    from agents.memory import SessionSettings

    store, other = new_session(), new_session()
    inner = compacting(store, compaction_mode="input", max_rollback_items=100)
    key = "synthetic-key"
    session: Any = EncryptedSession(store.session_id, inner, encryption_key=key, **options)
    if limit is not None:
        session.session_settings = SessionSettings(limit=limit)
    await session.add_items(HISTORY)
    openai.meanwhile = lambda: other.add_items([user("of another client")])
    await session.run_compaction({"force": True})
    assert openai.asked[0]["input"] == (HISTORY[-limit:] if limit else HISTORY)
    assert await session.get_items(limit=500) == [SUMMARY]
    assert (await store.get_items())[1:] == [user("of another client")]


@pytest.mark.parametrize("change", ["clear_session", "replace_items"])
async def test_a_compaction_by_hand_fails_if_its_items_are_gone(
    change: str, new_session: Make, compacting: Make, openai: Compactor
) -> None:
    store, other = new_session(), new_session()
    await store.add_items(HISTORY)

    async def meanwhile() -> None:
        if change == "clear_session":
            await other.clear_session()
            await other.add_items([user("anew")])
        else:
            await other.replace_items([user("anew")])

    openai.meanwhile = meanwhile
    with pytest.raises(RuntimeError, match="read again"):
        await compacting(store).run_compaction({"force": True})
    assert await store.get_items() == [user("anew")]


async def test_a_cancelled_replacement_settles_before_the_next_append(
    new_session: Make, compacting: Make, openai: Compactor, client: Client, monkeypatch: Any
) -> None:
    store = new_session()
    await store.add_items(HISTORY)
    started, release = asyncio.Event(), asyncio.Event()
    append = client.append

    appends: list[Any] = []

    async def gated(*args: Any, **options: Any) -> Any:
        appends.append(args)
        if options.get("expected"):
            started.set()
            await release.wait()
        return await append(*args, **options)

    monkeypatch.setattr(client, "append", gated)
    session, agent = compacting(store), an_agent(openai.script.says("Done."))
    work = asyncio.create_task(
        run("run", agent, "Go.", session=session, run_config=limited(1)),
    )
    await asyncio.wait_for(started.wait(), PATIENCE_SECONDS)
    work.cancel()
    newer = asyncio.create_task(session.add_items([user("newer")]))
    before = len(appends)
    for _ in range(10):
        # Each answer lets all tasks run.
        await client.ping()
        await wait_all_tasks_blocked()
    assert len(appends) == before
    assert not newer.done()
    release.set()
    with pytest.raises(asyncio.CancelledError):
        await work
    await newer
    assert await store.get_items() == [*HISTORY[:-1], SUMMARY, user("newer")]


# -- what a model has not seen ----------------------------------------------------------------


@STREAMED
@pytest.mark.parametrize("hidden_by", ["model", "session", "redaction"])
async def test_the_output_of_a_tool_is_compacted_once_a_model_saw_it(
    method: str,
    hidden_by: str,
    new_session: Make,
    compacting: Make,
    openai: Compactor,
) -> None:
    from agents import Agent, ModelSettings, RunConfig, function_tool

    @function_tool
    def lookup() -> str:
        """Look it up."""
        return SECRET

    def redacted(items: list[Any]) -> list[Any]:
        return [{**item, "output": "-"} if "output" in item else item for item in items]

    agent = Agent(
        name="worker",
        model=openai.script.calls("lookup", "{}").says("Ok.").says("Done.").model,
        model_settings=ModelSettings(store=False),
        tools=[lookup],
        tool_use_behavior="stop_on_first_tool",
    )
    session = compacting(new_session())
    await run(method, agent, "First.", session=session)
    assert openai.asked == []
    config = {
        "model": filtered(without_tools),
        "redaction": filtered(redacted),
        "session": RunConfig(session_input_callback=lambda old, new: without_tools(old) + new),
    }[hidden_by]
    await run(method, agent, "Second.", session=session, run_config=config)
    assert SECRET not in str(openai.script.inputs[1])
    assert SECRET not in str(openai.asked)
    assert SECRET in str(await session.get_items())
    await run(method, agent, "Third.", session=session)
    assert SECRET in str(openai.script.inputs[2])
    assert SECRET in str(openai.asked[-1]["input"])
    assert await session.get_items() == [SUMMARY]


@pytest.mark.parametrize("mode", ["input", "previous_response_id"])
async def test_a_compaction_by_hand_replaces_what_was_hidden(
    mode: str, new_session: Make, compacting: Make, openai: Compactor
) -> None:
    from agents import RunConfig

    store = new_session()
    await store.add_items([user(SECRET)])
    openai.output = []
    session = compacting(store, compaction_mode=mode)
    config = RunConfig(session_input_callback=lambda _, new: new)
    # A part of the history is never compacted by the id of a response.
    partial = filtered(lambda items: [user("changed"), *items[1:]])
    config = config if mode == "previous_response_id" else partial
    await run(
        "run", an_agent(openai.script.says("Ok.")), "Visible.", session=session, run_config=config
    )
    assert SECRET in str(await session.get_items())
    await session.run_compaction({"force": True})
    assert (SECRET in str(openai.asked[-1].get("input"))) == (mode == "input")
    assert await session.get_items() == []


@STREAMED
async def test_a_handoff_shows_no_history_to_a_compaction(
    method: str, new_session: Make, compacting: Make, openai: Compactor
) -> None:
    from agents import Agent, handoff

    from tests.interop.agents_sdk.conftest import Scripted

    target = Agent(name="target", model=Scripted().says("Done.").model)
    omitting = handoff(target, input_filter=lambda data: replace(data, input_history=()))
    openai.script.calls("transfer_to_target", "{}")
    source = Agent(name="source", model=openai.script.model, handoffs=[omitting])
    session = compacting(new_session(), compaction_mode="input")
    await run(method, source, SECRET, session=session)
    assert SECRET not in str(openai.asked)
    assert SECRET in str(await session.get_items())


@pytest.mark.parametrize("is_encrypted", [False, True])
@STREAMED
async def test_a_limit_of_the_store_hides_history_from_a_compaction(
    method: str,
    is_encrypted: bool,
    new_session: Make,
    compacting: Make,
    openai: Compactor,
) -> None:
    from agents.extensions.memory.encrypt_session import EncryptedSession

    store = new_session(session_settings={"limit": 1})
    session = compacting(store, compaction_mode="input")
    if is_encrypted:
        session = EncryptedSession(store.session_id, session, encryption_key="synthetic-key")
    await session.add_items([reply(SECRET), user("visible")])
    agent = an_agent(openai.script.says("Ok.").says("Done."))
    await run(method, agent, "One.", session=session)
    assert SECRET not in str(openai.asked)
    assert SECRET in str(await session.get_items(limit=100))
    await run(method, agent, "All.", session=session, run_config=limited(100))
    assert SECRET in str(openai.asked[-1]["input"])
    assert await session.get_items(limit=100) == [SUMMARY]


async def test_a_compaction_reads_no_more_than_a_model_saw(
    new_session: Make, compacting: Make, openai: Compactor, client: Client, monkeypatch: Any
) -> None:
    store = new_session(session_settings={"limit": 1})
    await store.add_items([user(f"kept {number}") for number in range(450)])
    asked: list[int] = []
    path = client.path

    async def counted(*args: Any, **options: Any) -> Any:
        page = await path(*args, **options)
        asked.append(len(page.entries))
        return page

    monkeypatch.setattr(client, "path", counted)
    agent = an_agent(openai.script.says("Ok."))
    await run("run", agent, "Go.", session=compacting(store, compaction_mode="input"))
    assert max(asked) <= 6
    assert len(await store.get_items(limit=1000)) == 450


@STREAMED
@pytest.mark.parametrize("mode", ["input", "previous_response_id"])
async def test_an_item_that_was_said_twice_was_seen_twice(
    method: str, mode: str, new_session: Make, compacting: Make, openai: Compactor
) -> None:
    from agents import RunConfig

    store = new_session()
    await store.add_items([user("again")] * 2)
    session = compacting(store, compaction_mode=mode)
    agent = an_agent(openai.script.says("Ok.").says("Done."))
    config = RunConfig(session_input_callback=lambda old, new: old[1:] + new)
    await run(method, agent, "Go.", session=session, run_config=config)
    # By the id of a response nothing is compacted, since one occurrence was not seen.
    kept = {"input": [user("again"), SUMMARY], "previous_response_id": [user("again")] * 2}[mode]
    assert (await store.get_items())[:2] == kept
    await run(method, agent, "Once more.", session=session)
    assert len(openai.asked) == (2 if mode == "input" else 1)
    assert await store.get_items() == [SUMMARY]


# -- items that belong together ---------------------------------------------------------------


async def test_a_call_and_its_output_are_not_parted(
    new_session: Make, compacting: Make, openai: Compactor
) -> None:
    store = new_session()
    await store.add_items(call("lookup"))
    changed = filtered(lambda items: [{**items[0], "arguments": '{"other":1}'}, *items[1:]])
    agent = an_agent(openai.script.says("Done."))
    openai.output = []
    await run("run", agent, "Go.", session=compacting(store), run_config=changed)
    assert openai.asked[0]["input"][0] == user("Go.")
    assert await store.get_items() == call("lookup")


@pytest.mark.parametrize("follower", ["tool", "message"])
@pytest.mark.parametrize("is_filtered", [False, True])
async def test_a_thought_and_what_follows_are_not_parted(
    follower: str,
    is_filtered: bool,
    new_session: Make,
    compacting: Make,
    openai: Compactor,
) -> None:
    thought = {"type": "reasoning", "id": "rs_1", "summary": []}
    history = [thought, *(call("lookup") if follower == "tool" else [reply("Thought of.")])]
    store = new_session()
    await store.add_items(history)

    def without_thoughts(items: list[Any]) -> list[Any]:
        return [item for item in items if item.get("type") != "reasoning"]

    config = filtered(without_thoughts) if is_filtered else limited(len(history) - 1)
    agent = an_agent(openai.script.says("Done.").says("Again."))
    session = compacting(store, compaction_mode="input")
    await run("run", agent, "Go.", session=session, run_config=config)
    assert len(openai.asked[0]["input"]) == 2
    assert await store.get_items() == [*history, SUMMARY]
    session.should_trigger_compaction = lambda _: False
    await run("run", agent, "Replay.", session=session, run_config=limited(100))
    assert openai.script.inputs[1][: len(history)] == history
