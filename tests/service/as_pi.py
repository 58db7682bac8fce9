"""pi's own functions, answered by the daemon over the wire.

Law: every function uses public methods alone and shapes its result as pi does. So the results can
be compared with a recording of pi's, or with pi itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

from sessiond.testing.wire import Wire
from tests.kit.calls import create
from tests.kit.sessions import TIME
from tests.service.pi_sessions import as_json

__all__ = ["ASKED", "Json", "cuts_nothing_away", "texts_of"]

Json = Any
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
        """Return the messages that each entry alone gives the context built at that entry."""
        found: list[Json] = []
        for entry_id in ids:
            context = await self.call("build_context", entry_id=entry_id)
            pairs = zip(context["messages"], context["sources"], strict=True)
            said = [message for message, source in pairs if source == entry_id]
            if not said:
                # An empty branch summary is in no context.
                entry = self.entries[entry_id]
                assert (entry["type"], entry["summary"]) == ("branch_summary", ""), entry_id
                ms = int(datetime.fromisoformat(entry["timestamp"]).timestamp() * 1000)
                summary = {"role": "branchSummary", "summary": "", "fromId": entry["fromId"]}
                said = [summary | {"timestamp": ms}]
            found += said
        return found


async def imported(wire: Wire, entries: list[Json]) -> Imported:
    content = "".join(as_json(line) + "\n" for line in (PI_HEADER, *entries))
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


async def context_tokens(wire: Wire, given: Json) -> Json:
    session = await imported(wire, given["entries"])
    built = await session.call("build_context")
    usage = await session.call("session/usage")
    assert usage["tokens"] == built["tokens"]
    return usage["tokens"]


async def should_compact(wire: Wire, given: Json) -> Json:
    settings = given["settings"]
    usage = {"totalTokens": given["contextTokens"], "input": 0, "output": 0}
    answer: Json = {"role": "assistant", "content": [], "usage": usage, "stopReason": "stop"}
    answer |= {"timestamp": 1, "provider": "p", "model": "m", "api": "a"}
    await create(wire, "shouldcompact")
    session = Imported(wire, {"id": "shouldcompact", "leaf_id": None}, [])
    await session.call("append", message=user("go"))
    await session.call("append", message=answer)
    own = {"enabled": settings["enabled"], "reserve_tokens": settings["reserveTokens"]}
    await session.call(
        "session/update", compaction=own | {"keep_recent_tokens": settings["keepRecentTokens"]}
    )
    found = await session.call("session/usage", context_window=given["contextWindow"])
    await wire.call("session/delete", session_id=session.id)
    assert found["tokens"] == given["contextTokens"]
    return found["should_compact"]


async def find_cut_point(wire: Wire, given: Json) -> Json:
    """Return the cut of the plan; None if it cuts nothing away or begins behind a compaction."""
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
    asked = {"keep_recent_tokens": given["settings"]["keepRecentTokens"]}
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


async def leave_branch(wire: Wire, given: Json) -> Json:
    """Return the entries between a leaf and the target of a move."""
    session = await imported(wire, given["entries"])
    await session.call("session/branch", entry_id=given["leafId"], head="main")
    target, budget = given["targetId"], 0
    asked: Json = {"entry_id": target, "budget_tokens": budget}
    plan = await session.call("session/plan_branch_summary", **asked)
    return {
        "commonAncestorId": plan["common_ancestor_id"],
        "messages": await session.messages(plan["entries"]),
        "totalTokens": plan["tokens"],
        "fileLists": {theirs: plan["files"][ours] for ours, theirs in FILES.items()},
    }


async def serialize(wire: Wire, given: Json) -> Json:
    """Return the messages in the prompt of a plan that summarises all of them."""
    session = await imported(wire, chain([*given["messages"], user("go on")]))
    plan = (await session.call("session/plan_compaction", keep_recent_tokens=1))["plan"]
    said = plan["prompt"].split("<conversation>\n", 1)[1]
    said = said.split("\n</conversation>", 1)[0]
    return "" if said == "(nothing before this turn)" else said


async def convert_to_llm(wire: Wire, given: Json) -> Json:
    """Return the texts of the messages, which must be equal in both providers' shapes."""
    session = await imported(wire, chain(given["messages"]))
    openai = await session.call("build_context", shape="openai")
    (turn,) = (await session.call("build_context", shape="anthropic"))["messages"]
    assert {message["role"] for message in openai["messages"]} == {"user"} == {turn["role"]}
    texts = [message["content"] for message in openai["messages"]]
    assert [block["text"] for block in turn["content"]] == texts
    return texts


def cuts_nothing_away(given: Json, expected: Json) -> bool:
    """Return whether no plan can have the recorded cut."""
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
    "contextTokens": context_tokens,
    "shouldCompact": should_compact,
    "findCutPoint": find_cut_point,
    "prepareCompaction": prepare_compaction,
    "prepareBranch": prepare_branch,
    "leaveBranch": leave_branch,
    "serialize": serialize,
    "convertToLlm": convert_to_llm,
}
