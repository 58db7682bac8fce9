"""Context deltas: the part that a client holds and the part that it is sent make the whole context.

Law: a client that asks with `known` and a client that asks for the whole context see equal messages
and sources. No message is sent that both contexts begin with. A repaired context in a provider's
shape breaks none of the provider's rules. Sessions are drawn at random; equal seeds give equal
ones.
"""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from sessiond.testing.wire import Refusal, Wire
from tests.kit.calls import append
from tests.kit.house import House
from tests.kit.provider_rules import anthropic_troubles, openai_troubles
from tests.service.pi_sessions import Drawing

pytestmark = pytest.mark.slow
Json = Any
RULES = {"openai": openai_troubles, "anthropic": anthropic_troubles}
STEPS, LIVES = 40, 3
PI = b'{"type":"session","version":3,"id":"0197c1d2","timestamp":"2026-01-15T10:30:00Z","cwd":"/p"}\n'
CALL = {"type": "toolCall", "id": "c", "name": "ls", "arguments": {}}
VIEWS: list[dict[str, Json]] = [
    {"shape": shape, "repair": repair}
    for shape in ("stored", "openai", "anthropic")
    for repair in (False, True)
]
VIEWS += [{"shape": "openai", "include": ["system"]}, {"shape": "anthropic", "include": ["system"]}]


class Holder:
    """A client that keeps each context it was ever given, and where it was built."""

    def __init__(self, view: dict[str, Json]) -> None:
        self.view = view
        self.held: list[tuple[str | None, list[tuple[str | None, Json]]]] = []

    async def ask(self, wire: Wire, session_id: str, at: dict[str, Json], pick: int) -> None:
        asked = {"session_id": session_id, **at, **self.view}
        whole = await wire.call("build_context", **asked)
        known: Json = None
        held: list[tuple[str | None, Json]] = []
        if self.held:
            leaf_id, held = self.held[pick % len(self.held)]
            known = {"leaf_id": leaf_id, "count": len(held)}
        told = await wire.call("build_context", **asked, known=known)
        unchanged = told["unchanged"]
        pairs = self.pairs(whole)
        assert held[:unchanged] + self.pairs(told) == pairs
        if "repair" in self.view and self.view["repair"] and self.view["shape"] in RULES:
            assert RULES[self.view["shape"]](whole["messages"]) == []
        if not self.may_begin_anew(unchanged):
            equal = [mine == theirs for mine, theirs in zip(held, pairs, strict=False)]
            assert unchanged == [*equal, False].index(False)
        for name in ("leaf_id", "etag", "tokens", "model", "thinking_level"):
            assert told[name] == whole[name]
        again = await wire.call("build_context", **asked, if_none_match=whole["etag"])
        assert again == {"etag": whole["etag"], "not_modified": True}
        self.held.append((whole["leaf_id"], pairs))

    def pairs(self, context: Json) -> list[tuple[str | None, Json]]:
        return list(zip(context["sources"], context["messages"], strict=True))

    def may_begin_anew(self, unchanged: int) -> bool:
        """Return whether an answer may be the whole: a new system prompt, or nothing held."""
        return unchanged == 0 and ("include" in self.view or self.held[-1:] == [])


class Acts:
    """The random changes of one session."""

    def __init__(self, chance: random.Random, session_id: str, dialect: str) -> None:
        self.chance = chance
        self.session_id = session_id
        self.drawing = Drawing(chance.randrange(10**6), ["a", "é😀", "\u2028"])
        self.dialect = dialect

    async def one(self, wire: Wire) -> None:
        act = self.chance.choice(
            [self.say] * 8 + [self.branch, self.compact, self.rewind, self.set]
        )
        with suppress(Refusal, IndexError):
            # What does not fit where it is drawn is refused, and changes nothing.
            await act(wire)

    async def nodes(self, wire: Wire) -> list[str]:
        page = await wire.call("session/entries", session_id=self.session_id, limit=1000)
        return [one["entry"]["id"] for one in page["entries"] if "id" in one["entry"]]

    async def say(self, wire: Wire) -> None:
        message = self.drawing.message()
        for block in message["content"] if isinstance(message.get("content"), list) else []:
            if block["type"] == "toolCall":
                block["arguments"] = {"n": self.chance.randrange(3)}
                block["id"] = self.chance.choice(["c", "c|1", "d"])
        entry: Json = {"type": "message", "message": message}
        if self.chance.random() < 0.2:
            entry = {"type": "custom_message", "custom_type": "x", "content": "note"}
            entry["display"] = True
        if self.dialect == "pi" and self.chance.random() < 0.15:
            target = self.chance.choice(await self.nodes(wire))
            replacement = self.chance.choice([None, {"content": "edited"}])
            entry = {"type": "context_edit", "target_id": target, "replacement": replacement}
        await wire.call("append", session_id=self.session_id, entry=entry)

    async def branch(self, wire: Wire) -> None:
        target = self.chance.choice(await self.nodes(wire))
        await wire.call("session/branch", session_id=self.session_id, entry_id=target)

    async def rewind(self, wire: Wire) -> None:
        path = await wire.call("session/path", session_id=self.session_id)
        to = self.chance.choice(path["entries"])["entry"]["id"]
        await wire.call("session/rewind", session_id=self.session_id, to=to)

    async def compact(self, wire: Wire) -> None:
        path = await wire.call("session/path", session_id=self.session_id)
        kept = self.chance.choice([None, *(row["entry"]["id"] for row in path["entries"][-5:])])
        sent: Json = {"summary": "S", "first_kept_entry_id": kept}
        if self.chance.random() < 0.3:
            leaf_id = path["entries"][-1]["entry"]["id"]
            messages = [self.drawing.message() for _ in range(2)]
            sent = {"messages": messages, "expected": {"leaf_id": leaf_id}}
        await wire.call("compact", session_id=self.session_id, **sent)

    async def set(self, wire: Wire) -> None:
        prompt = self.chance.choice([None, "Be brief.", "Be long."])
        await wire.call("session/update", session_id=self.session_id, system_prompt=prompt)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("dialect", ["native", "pi"])
@pytest.mark.parametrize("seed", [1, 2])
async def test_what_is_held_and_what_is_sent_are_the_whole(
    house: House, dialect: str, seed: int
) -> None:
    chance = random.Random(seed)
    session_id = ""
    holders = [Holder(view) for view in VIEWS]
    for life in range(LIVES):
        async with house.daemon() as daemon, daemon.connect() as wire:
            if not life and dialect == "native":
                made = await wire.call("session/create", cwd="/p", persist="immediate")
                session_id = made["session"]["id"]
            elif not life:
                made = await wire.call("session/import", content=PI.decode())
                session_id = made["session"]["id"]
            acts = Acts(chance, session_id, dialect)
            for _ in range(STEPS):
                await acts.one(wire)
                at: dict[str, Json] = {}
                if chance.random() < 0.3 and (nodes := await acts.nodes(wire)):
                    entry = await wire.call(
                        "session/entry", session_id=session_id, entry_id=chance.choice(nodes)
                    )
                    is_node = entry["entry"]["type"] not in {"label", "session_info", "leaf"}
                    at = {"entry_id": entry["entry"]["id"]} if is_node else {}
                for holder in chance.sample(holders, 3):
                    await holder.ask(wire, session_id, at, chance.randrange(100))


@pytest.mark.limits(INLINE_WALK_STEPS=2)
async def test_what_is_held_of_a_long_branch_is_compared_with_another_long_branch(
    house: House,
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        made = await wire.call("session/create", cwd="/p", persist="immediate")
        at = {"session_id": made["session"]["id"]}
        await append(wire, "both", **at)
        for side in ("left", "right"):
            await wire.call("session/branch", **at, entry_id="both")
            for number in range(4):
                await append(wire, f"{side}-{number}", **at)
        held = await wire.call("build_context", **at, entry_id="left-3")
        asked = {**at, "entry_id": "right-3"}
        known = {"leaf_id": "left-3", "count": len(held["messages"])}
        told = await wire.call("build_context", **asked, known=known)
    async with house.daemon() as daemon, daemon.connect() as wire:
        await wire.call("build_context", **asked)
        assert await wire.call("build_context", **asked, known=known) == told
    assert told["unchanged"] == 1
    assert told["sources"] == [f"right-{number}" for number in range(4)]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("name", ["large-session.jsonl", "before-compaction.jsonl"])
async def test_a_real_session_is_one_that_every_api_takes(
    house: House, shared: Path, name: str
) -> None:
    content = (shared / "fixtures" / name).read_text("utf-8")
    async with house.daemon() as daemon, daemon.connect() as wire:
        taken = await wire.call("session/import", content=content)
        at = {"session_id": taken["session"]["id"], "repair": True}
        for shape, troubles in RULES.items():
            built = await wire.call("build_context", **at, shape=shape)
            assert len(built["messages"]) > 400
            assert troubles(built["messages"]) == []
