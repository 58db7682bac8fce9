"""Plans while other clients write: a plan that still fits is accepted, any other is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sessiond.service.context.token_counts import TokenCounts
from sessiond.testing.daemon import Refusal, Wire
from tests.kit.calls import append, call, create, create_to_compact, say
from tests.kit.house import House
from tests.kit.patience import eventually
from tests.kit.sessions import SESSION

pytestmark = [pytest.mark.recommends]

PLAN = "session/plan_compaction"
MARKED = "It was fixed. \u2028 é😀"


async def call_file(wire: Wire, entry_id: str, tool: str, path: str) -> Any:
    block = {"type": "toolCall", "id": f"c-{entry_id}", "name": tool, "arguments": {"path": path}}
    message = {"role": "assistant", "content": [block]}
    entry = {"type": "message", "id": entry_id, "message": message}
    return await wire.call("append", session_id=SESSION, entry=entry)


async def compact(wire: Wire, plan_id: str, **more: Any) -> Any:
    said = {"summary": MARKED} if "messages" not in more else {}
    return await wire.call("compact", session_id=SESSION, plan_id=plan_id, **said, **more)


async def test_a_plan_outlives_appends_and_a_branch_elsewhere(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await create_to_compact(wire)
        await append(wire, "u1")
        await call_file(wire, "a1", "edit", "a.py")
        await append(wire, "u2")
        made = await call(wire, PLAN, "plan")
        assert made["first_kept_entry_id"] == "u2"
        for n in range(10):
            await append(other, f"more{n}", role="assistant" if n % 2 else "user")
        await append(other, "aside", head="side", parent_id="u1")
        done = await compact(wire, made["plan_id"])
        entry = await call(wire, "session/entry", "entry", entry_id=done["entry"]["id"])
        assert (entry["parent_id"], entry["summary"]) == ("more9", MARKED)
        assert entry["tokens_before"] == made["tokens_before"] == done["tokens_before"]
        assert entry["details"] == {"read_files": [], "modified_files": ["a.py"]}
        context = await wire.call("build_context", session_id=SESSION)
        assert context["sources"] == [
            done["entry"]["id"],
            "u2",
            *(f"more{n}" for n in range(10)),
        ]
        assert context["tokens"] == done["tokens_after"]


@pytest.mark.parametrize("move", ["rewind", "reset", "branch", "compaction", "unknown"])
async def test_a_plan_that_does_not_fit_any_more_is_told_with_both_leaves(
    house: House, move: str
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_to_compact(wire)
        for name in ("u1", "u2", "u3"):
            await append(wire, name)
        made = await call(wire, PLAN, "plan")
        plan_id = made["plan_id"]
        leaf_id: str | None = "u2"
        match move:
            case "rewind":
                await wire.call("session/rewind", session_id=SESSION, to="u2")
            case "reset":
                await wire.call("session/reset", session_id=SESSION)
                leaf_id = None
            case "branch":
                await wire.call("branch", session_id=SESSION, entry_id="u1")
                leaf_id = (await append(wire, "elsewhere"))["leaf_id"]
            case "compaction":
                leaf_id = (await compact(wire, plan_id))["leaf_id"]
            case _:
                # The same session id in another life: the plan's entries are not there.
                await wire.call("session/delete", session_id=SESSION)
                await create_to_compact(wire)
                leaf_id = (await append(wire, "new"))["leaf_id"]
        before = house.stored()
        with pytest.raises(Refusal) as refused:
            await compact(wire, plan_id)
        assert refused.value.data["kind"] == "plan_stale"
        assert refused.value.data["plan_leaf_id"] == "u3"
        assert refused.value.data["leaf_id"] == leaf_id
        assert house.stored() == before


async def test_messages_need_a_head_that_did_not_move_at_all(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_to_compact(wire)
        await append(wire, "u1")
        await append(wire, "u2")
        made = await call(wire, PLAN, "plan")
        messages = [{"role": "user", "content": "instead"}]
        # Entries that are no nodes move no head.
        await wire.call("session/label", session_id=SESSION, entry_id="u1", label="x")
        await compact(wire, made["plan_id"], messages=messages)
        context = await wire.call("build_context", session_id=SESSION)
        assert context["messages"] == messages
        await append(wire, "u3")
        made = await call(wire, PLAN, "plan")
        await append(wire, "u4")
        with pytest.raises(Refusal) as refused:
            await compact(wire, made["plan_id"], messages=messages)
        assert refused.value.data["kind"] == "plan_stale"
        assert refused.value.data["leaf_id"] == "u4"


@pytest.mark.parametrize("remembered", [True, False])
async def test_a_restart_makes_no_plan_void(house: House, *, remembered: bool) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_to_compact(wire)
        await call_file(wire, "a0", "read", "old.py")
        await append(wire, "u0")
        first = await compact(wire, await call(wire, PLAN, "plan.plan_id"))
        await call_file(wire, "a1", "write", "new.py")
        await append(wire, "u1")
        made = await call(wire, PLAN, "plan")
        assert made["previous_summary"] == MARKED
        assert made["files"] == {"read": ["old.py"], "modified": ["new.py"]}
        assert made["summarize"] == ["u0", "a1"]
        if remembered:
            await check(wire, made, first["entry"]["id"])
    if not remembered:
        async with house.daemon() as daemon, daemon.connect() as wire:
            await check(wire, made, first["entry"]["id"])


async def check(wire: Wire, made: dict[str, Any], earlier: str) -> None:
    done = await compact(wire, made["plan_id"], idempotency_key="once")
    entry = await call(wire, "session/entry", "entry", entry_id=done["entry"]["id"])
    assert entry["details"] == {"read_files": ["old.py"], "modified_files": ["new.py"]}
    assert entry["first_kept_entry_id"] == "u1"
    assert earlier != entry["id"]
    again = await compact(wire, made["plan_id"], idempotency_key="once")
    assert again["entry"] == done["entry"]
    context = await wire.call("build_context", session_id=SESSION)
    assert context["sources"] == [entry["id"], "u1"]


async def test_pipelined_with_appends_a_compaction_keeps_its_place(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_to_compact(wire)
        await append(wire, "u1")
        await append(wire, "u2")
        made = await call(wire, PLAN, "plan")
        requests = [
            await wire.request(
                "append", session_id=SESSION, message={"role": "user", "content": "3"}
            ),
            await wire.request("compact", session_id=SESSION, plan_id=made["plan_id"], summary="s"),
            await wire.request(
                "append", session_id=SESSION, message={"role": "user", "content": "4"}
            ),
        ]
        seqs = [(await wire.answer(number))["seq"] for number in requests]
        assert seqs == sorted(seqs)
        kinds = [line["type"] for line in house.stored()[1:]]
        assert kinds == ["message", "message", "message", "compaction", "message"]


async def test_the_plan_of_another_session_or_head_is_told_so(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_to_compact(wire)
        await create_to_compact(wire, session_id="session-b")
        for name in ("u1", "u2"):
            await append(wire, name)
        await append(wire, "s3", head="side", parent_id="u2")
        made = await call(wire, PLAN, "plan", head="side")
        with pytest.raises(Refusal, match="for another session"):
            await wire.call("compact", session_id="session-b", plan_id=made["plan_id"], summary="s")
        with pytest.raises(Refusal, match="for the head side"):
            await compact(wire, made["plan_id"], head="main")
        done = await compact(wire, made["plan_id"])
        entry_id = done["entry"]["id"]
        assert await call(wire, "session/entry", "entry.head", entry_id=entry_id) == "side"
        heads = (await wire.call("session/heads", session_id=SESSION))["heads"]
        assert {head["name"]: head["leaf_id"] for head in heads}["main"] == "u2"


async def test_a_summary_of_nothing_new_is_refused(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_to_compact(wire)
        await append(wire, "u1")
        await append(wire, "u2")
        await compact(wire, await call(wire, PLAN, "plan.plan_id"))
        with pytest.raises(Refusal) as refused:
            await wire.call("compact", session_id=SESSION, summary="again")
        assert refused.value.data["kind"] == "entry_invalid"
        assert refused.value.data["path"] == "head"


# -- the whole way -------------------------------------------------------------------------------


async def test_a_real_session_is_planned_compacted_and_the_same_after_a_restart(
    shared: Path, real_house: House
) -> None:
    source = shared / "fixtures" / "large-session.jsonl"
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        taken = await wire.call("session/import", path=str(source))
        session_id = taken["session"]["id"]
        before = await wire.call("build_context", session_id=session_id)
        usage = await wire.call("session/usage", session_id=session_id)
        assert usage["tokens"] == before["tokens"] > 0
        answer = await wire.call("session/plan_compaction", session_id=session_id)
        made = answer["plan"]
        assert made["tokens_before"] == before["tokens"]
        place = before["sources"].index(made["first_kept_entry_id"])
        assert [*made["summarize"], *made["turn_prefix"]] == before["sources"][:place]
        assert before["messages"][place]["role"] != "toolResult"
        assert made["files"]["modified"]
        assert not set(made["files"]["read"]) & set(made["files"]["modified"])
        done = await wire.call(
            "compact", session_id=session_id, plan_id=made["plan_id"], summary=MARKED
        )
        assert done["tokens_after"] < done["tokens_before"]
        after = await wire.call("build_context", session_id=session_id)
        assert after["sources"][1:] == before["sources"][place:]
        assert after["messages"][0]["summary"] == MARKED
        assert after["tokens"] == done["tokens_after"]
        entry = await wire.call(
            "session/entry", session_id=session_id, entry_id=done["entry"]["id"]
        )
        assert entry["entry"]["details"] == {
            "readFiles": made["files"]["read"],
            "modifiedFiles": made["files"]["modified"],
        }
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        again = await wire.call("build_context", session_id=session_id)
        for context in (again, after):
            context.pop("etag")
        assert json.dumps(again) == json.dumps(after)
        nothing = await wire.call("session/plan_compaction", session_id=session_id)
        assert nothing == {"plan": None, "reason": "compacted"}


# -- when it is time ---------------------------------------------------------------------------


async def compactions(wire: Wire) -> dict[str, Any]:
    """Return the next recommendation of a compaction."""
    while True:
        message = await wire.next_notification()
        found: dict[str, Any] = message["params"]
        if message["method"] == "session/compaction" and found["state"] == "recommended":
            return found


def recommended(tokens: int, head: str = "main") -> dict[str, Any]:
    return {
        "session_id": SESSION,
        "head": head,
        "state": "recommended",
        "tokens_before": tokens,
    }


@pytest.mark.parametrize("persist", ["immediate", "never"])
async def test_whoever_watches_is_told_when_a_context_becomes_too_large(
    house: House, persist: str
) -> None:
    settings = {"context_window": 10, "reserve_tokens": 2, "keep_recent_tokens": 1}
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as watcher:
        await create(wire, compaction=settings, persist=persist)
        await watcher.call("subscribe", session_id=SESSION)
        for _ in range(9):
            await say(wire, "ab")
        assert await compactions(watcher) == recommended(9)
        # What is too large already is not told again; another head is, and the same one when
        # it was compacted meanwhile.
        await append(wire, "more")
        await append(wire, "aside", head="side", parent_id="more")
        assert await compactions(watcher) == recommended(12, "side")
        done = await compact(wire, await call(wire, PLAN, "plan.plan_id"))
        assert done["tokens_after"] < 8
        answer = await say(wire, "")
        await wire.call("session/usage", session_id=SESSION)
        usage = {"totalTokens": 77}
        said = {"role": "assistant", "content": [], "usage": usage}
        assert answer["leaf_id"]
        # A second head shows that the head was looked at while its context was small.
        await wire.call("branch", session_id=SESSION, entry_id="more", head="late")
        assert (await compactions(watcher))["head"] == "late"
        await wire.call("append", session_id=SESSION, message=said)
        assert await compactions(watcher) == recommended(77)


async def test_nobody_is_told_of_what_is_switched_off(house: House) -> None:
    settings = {"context_window": 1, "reserve_tokens": 0, "enabled": False}
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as watcher:
        await create(wire, compaction=settings)
        await create(wire, session_id="session-b", compaction=settings | {"enabled": True})
        for session_id in (SESSION, "session-b"):
            await watcher.call("subscribe", session_id=session_id)
            await append(wire, "a-longer-name", session_id=session_id)
        assert (await compactions(watcher))["session_id"] == "session-b"


async def test_an_append_to_a_session_that_nobody_watches_reads_no_payload(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"context_window": 1, "reserve_tokens": 0}
    asked: list[TokenCounts] = []
    original = TokenCounts.ask

    async def counted(self: TokenCounts, leaf: int) -> int:
        asked.append(self)
        return await original(self, leaf)

    monkeypatch.setattr(TokenCounts, "ask", counted)
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as watcher:
        for session_id in (SESSION, "session-b"):
            await create(wire, session_id=session_id, compaction=settings)
        await watcher.call("subscribe", session_id="session-b")
        for session_id in (SESSION, "session-b"):
            await append(wire, "a-longer-name", session_id=session_id)
        await compactions(watcher)
        watched = daemon.service.find("session-b")
        assert watched is not None
        # On a slow machine the one that is watched is looked at more than once.
        assert all(one is watched.estimates for one in asked)
        assert asked


async def test_no_message_is_read_while_its_size_tells_enough(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"context_window": 100_000, "reserve_tokens": 0}
    read: list[int] = []
    glanced: list[int] = []
    still_over: list[int] = []
    ask, growth, may_be_less = TokenCounts.ask, TokenCounts.growth, TokenCounts.may_be_less

    async def asked(self: TokenCounts, leaf: int) -> int:
        read.append(leaf)
        return await ask(self, leaf)

    async def grown(self: TokenCounts, since: int, leaf: int) -> int | None:
        glanced.append(leaf)
        return await growth(self, since, leaf)

    monkeypatch.setattr(TokenCounts, "ask", asked)

    async def fallen(self: TokenCounts, since: int, leaf: int) -> bool:
        still_over.append(leaf)
        return await may_be_less(self, since, leaf)

    monkeypatch.setattr(TokenCounts, "growth", grown)
    monkeypatch.setattr(TokenCounts, "may_be_less", fallen)
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as watcher:
        await create(wire, compaction=settings)
        await watcher.call("subscribe", session_id=SESSION)

        async def said(text: str, seq: int, *done: list[int]) -> None:
            message = {"role": "user", "content": text}
            await wire.call("append", session_id=SESSION, message=message)
            # Nobody is told of a look that finds nothing new.
            await eventually(lambda: any(seq in seqs for seqs in done))

        # A slow machine looks at the session while it is empty, a fast one with its first message.
        await said("small", 1, read, glanced)
        assert len(read) == 1
        read[:], glanced[:] = [1], []
        for seq in range(2, 6):
            await said("small", seq, glanced)
        assert (read, glanced) == ([1], [2, 3, 4, 5])
        # What is too large by its size is read, and is less than that: escapes are longer than
        # what they stand for.
        await said("\n" * 300_000, 6, read)
        await said("x" * 300_000, 7, read)
        assert (await compactions(watcher))["tokens_before"] > 100_000
        # From now on it is too large, whatever is added.
        await said("x" * 300_000, 8, still_over)
        await said("small", 9, still_over)
        assert (read, glanced) == ([1, 6, 7], [2, 3, 4, 5, 6, 7])


# -- going elsewhere ----------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", ["native", "pi"])
async def test_navigation_is_where_it_was_after_a_restart(
    house: House, dialect: str, tmp_path: Path
) -> None:
    time = "2026-01-15T10:30:00.000Z"
    text = "all of what was said, " * 100
    async with house.daemon() as daemon, daemon.connect() as wire:
        if dialect == "native":
            await create_to_compact(wire)
        else:
            header = {
                "type": "session",
                "version": 3,
                "id": SESSION,
                "timestamp": time,
                "cwd": "/p",
            }
            house.put((json.dumps(header) + "\n").encode())
        for name, role in (("u1", "user"), ("a1", "assistant"), ("u2", "user")):
            said = text if role == "user" else [{"type": "text", "text": name}]
            message: dict[str, Any] = {"role": role, "content": said, "timestamp": 1}
            if role == "assistant":
                usage = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0}
                message |= {"api": "a", "provider": "p", "model": "m", "stopReason": "stop"}
                message["usage"] = usage | {"cost": dict.fromkeys([*usage, "total"], 0)}
            entry = {"type": "message", "id": name, "message": message}
            await wire.call("append", session_id=SESSION, entry=entry)
        moved = await wire.call("session/navigate", session_id=SESSION, entry_id="u2")
        # Also at the leaf: what a user said last is said anew from before it.
        assert (moved["moved"], moved["editor_text"]) == (True, text)
        moved = await wire.call("session/navigate", session_id=SESSION, entry_id="u1")
        assert (moved["moved"], moved["editor_text"]) == (True, text)
        assert (await wire.call("build_context", session_id=SESSION))["sources"] == []
        moved = await wire.call("session/navigate", session_id=SESSION, entry_id="u2")
        assert (moved["moved"], moved["editor_text"]) == (True, text)
    async with house.daemon() as daemon, daemon.connect() as wire:
        context = await wire.call("build_context", session_id=SESSION)
        assert context["sources"] == ["u1", "a1"]
        assert context["leaf_id"] == moved["leaf_id"]


async def test_a_leased_head_is_moved_by_its_holder_alone(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await create_to_compact(wire)
        await append(wire, "u1")
        await append(wire, "a1", role="assistant")
        await append(wire, "u2")
        held = await wire.call("session/acquire", session_id=SESSION, ttl_ms=60_000)
        with pytest.raises(Refusal) as refused:
            await other.call("session/navigate", session_id=SESSION, entry_id="u1")
        assert refused.value.data["kind"] == "lease_held"
        moved = await wire.call(
            "session/navigate",
            session_id=SESSION,
            entry_id="a1",
            summary="left",
            lease_id=held["lease_id"],
        )
        summary = await call(wire, "session/entry", "entry", entry_id=moved["leaf_id"])
        assert (summary["parent_id"], summary["from_id"]) == ("a1", "u2")


async def test_the_answer_of_a_tool_in_the_users_words_is_no_text_of_the_user(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_to_compact(wire)
        await append(wire, "u1")
        result = [{"type": "tool_result", "tool_use_id": "c", "content": "x"}]
        entry = {"type": "message", "id": "r1", "message": {"role": "user", "content": result}}
        await wire.call("append", session_id=SESSION, entry=entry)
        await append(wire, "a1", role="assistant")
        moved = await wire.call("session/navigate", session_id=SESSION, entry_id="r1")
        assert (moved["leaf_id"], moved["editor_text"]) == ("r1", None)
