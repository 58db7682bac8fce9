"""What pi recorded of itself, asked of the daemon as any client asks.

Law: every case of every function goes through public methods; a function that nobody here asks
fails. More recordings of the same kind are run without a change.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from sessiond.testing.daemon import Wire

Json = Any
TIME = "2026-01-15T10:30:00.000Z"
PI_HEADER = {"type": "session", "version": 3, "id": "0197c1d2", "timestamp": TIME, "cwd": "/p"}
LAST = object()
FILES = {"read": "readFiles", "modified": "modifiedFiles"}


class Imported:
    """A session of pi made of these entries."""

    def __init__(self, wire: Wire, session: Json, entries: list[Json]) -> None:
        self.wire = wire
        self.id: str = session["id"]
        self.leaf_id = session["leaf_id"]
        self.entries = {entry["id"]: entry for entry in entries}

    async def call(self, method: str, **params: Json) -> Json:
        return await self.wire.call(method, session_id=self.id, **params)

    async def messages(self, ids: list[str]) -> list[Json]:
        """What entries alone give a context, as it is built at each."""
        found: list[Json] = []
        for entry_id in ids:
            context = await self.call("build_context", entry_id=entry_id)
            pairs = zip(context["messages"], context["sources"], strict=True)
            found += [message for message, source in pairs if source == entry_id]
        return found


async def imported(wire: Wire, entries: list[Json]) -> Imported:
    content = "".join(json.dumps(line) + "\n" for line in (PI_HEADER, *entries))
    answer = await wire.call("session/import", content=content)
    return Imported(wire, answer["session"], entries)


def chain(messages: list[Json]) -> list[Json]:
    """Entries that say these, one after the other."""
    return [
        {
            "type": "message",
            "id": f"e{n}",
            "parentId": f"e{n - 1}" if n else None,
            "timestamp": TIME,
            "message": message,
        }
        for n, message in enumerate(messages)
    ]


def user(text: str) -> Json:
    return {"role": "user", "content": text, "timestamp": 1}


def kept_tokens(settings: Json) -> Json:
    return {"keep_recent_tokens": settings["keepRecentTokens"]}


async def context(wire: Wire, given: Json) -> Json:
    session = await imported(wire, given["entries"])
    leaf_id = given.get("leafId", LAST)
    at: Json = {}
    if leaf_id is None:
        await session.call("session/reset")
    elif leaf_id in session.entries:
        # pi asks at its last entry when it is given none, or one that is not there.
        at = {"entry_id": leaf_id}
    built = await session.call("build_context", **at)
    model = built["model"]
    return {
        "messages": built["messages"],
        "thinkingLevel": built["thinking_level"],
        "model": model and {"provider": model["provider"], "modelId": model["model_id"]},
    }


async def tokens(wire: Wire, given: Json) -> Json:
    session = await imported(wire, chain([given["message"]]))
    return (await session.call("session/usage"))["tokens"]


async def should_compact(wire: Wire, given: Json) -> Json:
    settings = given["settings"]
    usage = {"totalTokens": given["contextTokens"], "input": 0, "output": 0}
    answer: Json = {"role": "assistant", "content": [], "usage": usage, "stopReason": "stop"}
    answer |= {"timestamp": 1, "provider": "p", "model": "m", "api": "a"}
    await wire.call("session/create", cwd="/p", session_id="shouldcompact")
    session = Imported(wire, {"id": "shouldcompact", "leaf_id": None}, [])
    await session.call("append", message=user("go"))
    await session.call("append", message=answer)
    own = {"enabled": settings["enabled"], "reserve_tokens": settings["reserveTokens"]}
    await session.call("session/update", compaction=own | kept_tokens(settings))
    found = await session.call("session/usage", context_window=given["contextWindow"])
    await wire.call("session/delete", session_id=session.id)
    assert found["tokens"] == given["contextTokens"]
    return found["should_compact"]


async def find_cut_point(wire: Wire, given: Json) -> Json:
    """Where the plan cuts; None where it cuts away nothing, or begins behind a compaction."""
    entries = given["entries"][given["start"] : given["end"]]
    session = await imported(wire, entries)
    asked = {"keep_recent_tokens": given["keepRecentTokens"]}
    answer = await session.call("session/plan_compaction", **asked)
    if answer["plan"] is None or any(entry["type"] == "compaction" for entry in entries):
        return None
    plan, ids = answer["plan"], list(session.entries)
    prefix = plan["turn_prefix"]
    return {
        "firstKeptEntryIndex": ids.index(plan["first_kept_entry_id"]) + given["start"],
        "turnStartIndex": ids.index(prefix[0]) + given["start"] if prefix else -1,
        "isSplitTurn": bool(prefix),
    }


async def prepare_compaction(wire: Wire, given: Json) -> Json:
    session = await imported(wire, given["path"])
    asked = kept_tokens(given["settings"])
    plan = (await session.call("session/plan_compaction", **asked))["plan"]
    if plan is None:
        return None
    return {
        "firstKeptEntryId": plan["first_kept_entry_id"],
        "messagesToSummarize": await session.messages(plan["summarize"]),
        "turnPrefixMessages": await session.messages(plan["turn_prefix"]),
        "isSplitTurn": bool(plan["turn_prefix"]),
        "tokensBefore": plan["tokens_before"],
        "previousSummary": plan["previous_summary"],
        "fileLists": {theirs: plan["files"][ours] for ours, theirs in FILES.items()},
    }


async def prepare_branch(wire: Wire, given: Json) -> Json:
    session = await imported(wire, given["entries"])
    asked: Json = {"entry_id": None, "budget_tokens": given["tokenBudget"]}
    plan = await session.call("session/plan_branch_summary", **asked)
    return {
        "messages": await session.messages(plan["entries"]),
        "totalTokens": plan["tokens"],
        "fileLists": {theirs: plan["files"][ours] for ours, theirs in FILES.items()},
    }


async def serialize(wire: Wire, given: Json) -> Json:
    """What the prompt of a plan says of the messages, which all go into the summary."""
    session = await imported(wire, chain([*given["messages"], user("go on")]))
    plan = (await session.call("session/plan_compaction", keep_recent_tokens=1))["plan"]
    said = plan["prompt"].split("<conversation>\n", 1)[1]
    return said.split("\n</conversation>", 1)[0]


async def convert_to_llm(wire: Wire, given: Json) -> Json:
    """The texts in both shapes, each message an own one only where the API has turns of one."""
    session = await imported(wire, chain(given["messages"]))
    openai = await session.call("build_context", shape="openai")
    (turn,) = (await session.call("build_context", shape="anthropic"))["messages"]
    assert {message["role"] for message in openai["messages"]} == {"user"} == {turn["role"]}
    texts = [message["content"] for message in openai["messages"]]
    assert [block["text"] for block in turn["content"]] == texts
    return texts


def cuts_nothing_away(given: Json, expected: Json) -> bool:
    """Whether the recorded cut is one that no plan can have."""
    entries = given["entries"][given["start"] : given["end"]]
    away = given["entries"][given["start"] : expected["firstKeptEntryIndex"]]
    types = {entry["type"] for entry in away}
    said = types & {"message", "custom_message", "branch_summary"}
    return not said or any(entry["type"] == "compaction" for entry in entries)


def texts_of(expected: Json) -> Json:
    said = [message["content"] for message in expected]
    return [one if isinstance(one, str) else one[0]["text"] for one in said]


ASKED: dict[str, Callable[[Wire, Json], Awaitable[Json]]] = {
    "context": context,
    "tokens": tokens,
    "shouldCompact": should_compact,
    "findCutPoint": find_cut_point,
    "prepareCompaction": prepare_compaction,
    "prepareBranch": prepare_branch,
    "serialize": serialize,
    "convertToLlm": convert_to_llm,
}


def recorded(shared: Path) -> list[Json]:
    found: list[Json] = json.loads((shared / "vectors" / "pi-vectors.json").read_bytes())
    assert found
    return found


def test_every_recorded_function_is_asked(shared: Path) -> None:
    assert {vector["function"] for vector in recorded(shared)} == ASKED.keys()


@pytest.mark.parametrize("function", ASKED)
async def test_every_recorded_answer_is_the_one_that_a_client_gets(
    house: Any, shared: Path, function: str
) -> None:
    vectors = [vector for vector in recorded(shared) if vector["function"] == function]
    assert vectors
    async with house.daemon() as daemon, daemon.connect() as wire:
        for vector in vectors:
            found = await ASKED[function](wire, vector["input"])
            expected = vector["expected"]
            if function == "convertToLlm":
                expected = texts_of(expected)
            if function == "findCutPoint" and found is None:
                assert cuts_nothing_away(vector["input"], expected), vector["name"]
                continue
            assert json.dumps(found) == json.dumps(expected), vector["name"]
