"""session/turns: views, pages, streaming; and what a client keeps of events is what it answers."""

from __future__ import annotations

import random
from typing import Any

import pytest

from sessiond.methods._shared.place import cursor_of
from sessiond.testing.daemon import Wire
from tests.kit.calls import append, append_all, call, create, refused, say, watch
from tests.kit.house import House
from tests.kit.limits import set_limits
from tests.kit.sessions import SESSION, stored_entry, stored_message
from tests.kit.turns import LiveTurns


def a_message(role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "message", "message": {"role": role, "content": content, **more}}


def answers(text: str, *calls: str, **more: Any) -> dict[str, Any]:
    made = [{"type": "toolCall", "id": one, "name": "ls", "arguments": {"n": 1.5}} for one in calls]
    return a_message("assistant", [{"type": "text", "text": text}, *made], **more)


async def test_what_a_client_keeps_of_events_is_what_turns_answer(house: House) -> None:
    """After every step of a long story, on two heads, also where the path changes."""
    story = Story(8)
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as agent:
        await create(wire, persist="immediate")
        live, side = LiveTurns(), LiveTurns("side")
        await watch(wire, signals=True)
        for step in range(60):
            await story.go_on(wire, agent, step)
            await call(wire, "session/flush")
            for told in wire.notifications:
                for one in (live, side):
                    if told["method"] == "session/event":
                        one.take(told["params"])
                    elif told["method"] == "session/presence":
                        one.take_presence(told["params"])
                    elif told["method"] == "session/signal":
                        one.take_signal(told["params"])
            wire.notifications.clear()
            assert await shown(wire) == live.chat(), step
            info = (await call(wire, "session/get"))["session"]
            assert info["turn_count"] == len(live.chat()), step
            if story.has_side:
                assert await shown(wire, head="side") == side.chat(), step
        assert len(live.chat()) + len(side.chat()) > 5


async def test_a_message_of_an_extension_that_is_not_to_be_shown_is_in_no_turn(
    house: House,
) -> None:
    note = {"type": "custom_message", "custom_type": "x"}
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, persist="immediate")
        hidden, seen = (
            {**note, "content": content, "display": content == "seen"}
            for content in ("hidden", "seen")
        )
        await append_all(wire, a_message("user", "hi"), hidden, seen)
        (turn,) = await shown(wire)
        assert [block["content"] for block in turn["response"]] == ["seen"]
        assert await call(wire, "build_context", "messages[].content") == ["hi", "hidden", "seen"]


class Story:
    """Random steps of a session on two heads, with an agent beside."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.ids: list[str] = []
        self.has_side = False

    async def go_on(self, wire: Wire, agent: Wire, step: int) -> None:
        """Append something, or move main; now and then the agent announces a state."""
        dice = self.dice
        made = self.said(step)
        if made and self.ids and not dice.randrange(4):
            where = {"head": "side", "parent_id": dice.choice(self.ids)}
            self.has_side = True
        else:
            where = {}
        if made:
            stored = await append_all(wire, *made, **where)
            self.ids += [one["id"] for one in stored["entries"]]
        elif self.ids:
            await call(wire, "session/label", entry_id=self.ids[-1], label=f"l{step}")
            await call(wire, "branch", entry_id=dice.choice([*self.ids, None]))
        if not dice.randrange(4):
            state = dice.choice(["thinking", "executing", "streaming", "idle", None])
            on = {} if state is None or dice.random() < 0.5 else {"head": "side"}
            await call(agent, "session/presence", state=state, **on)
        for _ in range(dice.randrange(3)):
            data = {"text": f"part {step}. "} | dice.choice([{}, {"type": "thinking"}])
            await call(agent, "session/signal", kind=dice.choice(["delta", "x"]), data=data)

    def said(self, step: int) -> list[dict[str, Any]]:
        """Return the entries of a step; none for a move."""
        why = {"stopReason": "error", "errorMessage": "no credit"}
        stored = [{"type": "plan", "n": 1.50, "meta": {"a": 1}}, {"type": "text"}]
        state = self.dice.choice(["done", "pending", "error", "waiting"])
        content = [{"type": "text", "text": f"of c{step}"}]
        about = {"toolCallId": f"c{step}", "toolName": "ls", "isError": True}
        failed = a_message("toolResult", content, **about)
        choices: list[list[dict[str, Any]]] = [
            [a_message("user", f"ask {step}")],
            [a_message("user", f"more {step}")],
            [answers(f"answer {step}")],
            [answers("", f"c{step}", f"d{step}"), failed],
            [answers("", **self.dice.choice([why, {"stopReason": "aborted"}]))],
            [{**a_message("user", "with blocks"), "blocks": stored, "turn_status": state}],
            [
                {"type": "custom", "custom_type": "x", "data": 1},
                {"type": "branch_summary", "summary": "left", "from_id": None},
            ],
            [],
        ]
        return self.dice.choice(choices)


async def shown(wire: Wire, **params: Any) -> list[dict[str, Any]]:
    """Return the turns without their seqs."""
    return [
        {name: value for name, value in turn.items() if name not in {"seq", "last_seq"}}
        for turn in await call(wire, "session/turns", "turns", **params)
    ]


async def test_pages_of_any_size_join_to_the_whole_from_both_ends(house: House) -> None:
    said = [one for n in range(7) for one in (a_message("user", f"q{n}"), answers(f"a{n}"))]
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        last = (await append_all(wire, answers("hello"), *said))["leaf_id"]
        whole = await call(wire, "session/turns", "turns")
        assert [turn["seq"] for turn in whole] == [1, *range(2, 16, 2)]
        for limit in (1, 2, 3, 7, 8, 9):
            for from_end in (False, True):
                pages = await paged(wire, limit=limit, from_end=from_end)
                assert max(map(len, pages)) == min(limit, 8)
                assert [turn for page in pages for turn in page] == whole
                await call(wire, "branch", entry_id=last)


async def paged(wire: Wire, *, from_end: bool, **params: Any) -> list[list[Any]]:
    """Return all pages in the order of the path, while the session goes on."""
    pages, cursor = [], None
    while True:
        page = await call(wire, "session/turns", from_end=from_end, cursor=cursor, **params)
        pages.append(page["turns"])
        cursor = page["next_cursor"]
        if cursor is None:
            return pages[::-1] if from_end else pages
        # The path stays that of the first page.
        await say(wire, "more")


async def test_a_page_ends_before_the_answer_is_too_large(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sessiond.methods.session.turns.RESULT_BYTES_MAX", 10_000)
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        for n in range(5):
            await append(wire, f"u{n}", "x" * 2500)
        for from_end in (False, True):
            pages = await paged(wire, from_end=from_end)
            assert [len(page) for page in pages] in ([2, 2, 1], [1, 2, 2])
            await call(wire, "session/rewind", to="u4")


async def test_streaming_begins_and_ends_with_presence_on_the_head(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        await append(wire, "u1")

        async def status() -> Any:
            return await call(wire, "session/turns", "turns[].status")

        assert await status() == ["pending"]
        async with daemon.connect() as agent:
            await call(agent, "session/presence", state="thinking", head="other")
            assert await status() == ["pending"]
            await call(agent, "session/presence", state="watching")
            assert await status() == ["pending"]
            await call(agent, "session/presence", state="streaming")
            assert await status() == ["streaming"]
            await append(wire, "u2")
            assert await status() == ["done", "streaming"]
            await append(wire, "a2", role="assistant")
            assert await status() == ["done", "done"]
            await append(wire, "u3")
            assert await status() == ["done", "done", "streaming"]
        await call(wire, "session/presence")
        assert await status() == ["done", "done", "pending"]


async def test_results_in_a_message_of_the_user_begin_no_turn(house: House) -> None:
    """As Anthropic's API spells them."""
    called: list[Any] = [
        {"type": "tool_use", "id": one, "name": "ls", "input": {}} for one in ("c1", "c2")
    ]
    told = {"type": "tool_result", "tool_use_id": "c2", "content": "of c2"}
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        await append_all(wire, a_message("user", "q"), a_message("assistant", called))
        await append_all(wire, a_message("user", [told, {"type": "text", "text": "Go on."}]))
        (turn,) = await call(wire, "session/turns", "turns")
    assert [block["content"] for block in turn["request"]] == ["q", "Go on."]
    shown = [(block["content"], block["meta"]["state"]) for block in turn["response"]]
    assert shown == [("", "running"), ("of c2", "done")]


async def test_the_view_of_an_agent_has_times_usage_and_status(house: House) -> None:
    """Stored times win; a turn that goes on has no end."""
    house.put(
        [
            stored_message("u1", None, started_at="2026-02-01T00:00:00Z"),
            stored_entry(
                "message",
                "a1",
                "u1",
                message={"role": "assistant", "content": "", "usage": {"input": 5, "output": 2}},
            ),
            stored_entry(
                "message",
                "a2",
                "a1",
                message={"role": "assistant", "content": "", "usage": {"input": 7, "output": 1}},
                ended_at="2026-02-01T00:00:09Z",
                turn_status="error",
            ),
            stored_message("u2", "a2"),
        ]
    )
    async with house.daemon() as daemon, daemon.connect() as wire:
        first, second = await call(wire, "session/turns", "turns", view="agent")
    assert first["usage"]["input_tokens"] == 12
    assert first["usage"]["output_tokens"] == 3
    assert (first["started_at"], first["ended_at"]) == (
        "2026-02-01T00:00:00Z",
        "2026-02-01T00:00:09Z",
    )
    assert (first["status"], second["status"]) == ("error", "pending")
    assert (second["ended_at"], second["usage"]) == (None, None)
    assert "response" not in first


@pytest.mark.parametrize("cursor", ["x", "1", "9:1", "2:9", "0:0", "3:3:3", "1" * 20 + ":1"])
async def test_a_cursor_of_elsewhere_is_named(house: House, cursor: str) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        await append(wire, "u1")
        await append(wire, "u2")
        assert await refused(wire, "session/turns", "path", cursor=cursor) == "cursor"


async def test_a_head_that_is_not_there_is_named(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        assert await call(wire, "session/turns", "turns") == []
        assert await refused(wire, "session/turns", head="x") == "head_not_found"


async def test_blocks_without_a_type_come_in_a_block(house: House) -> None:
    odd = [1, {"content": "x"}, {"type": "new", "x": 1}, {"type": 3}]
    house.put([stored_message("u1", None, blocks=odd), stored_message("u2", "u1", blocks={"a": 1})])
    async with house.daemon() as daemon, daemon.connect() as wire:
        first, second = await call(wire, "session/turns", "turns")
    wrapped = [{"type": "custom", "content": "", "meta": {"block": one}} for one in odd]
    assert first["request"] == [*wrapped[:2], odd[2], wrapped[3]]
    assert second["request"] == [{"type": "text", "content": "text of u2"}]


@pytest.mark.parametrize(
    ("method", "seqs", "more"),
    [("session/path", (2,), (0,)), ("session/turns", (2, 1), ()), ("session/turns", (1, 0), ())],
)
async def test_a_cursor_at_a_line_that_is_no_entry_of_the_tree_is_none(
    house: House, method: str, seqs: tuple[int, ...], more: tuple[int, ...]
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, persist="immediate")
        await append(wire, "e-1")
        await call(wire, "session/label", entry_id="e-1", label="l")
        actor = daemon.service.find(SESSION)
        assert actor is not None
        cursor = cursor_of(actor.opened.session, seqs, *more)
        assert await refused(wire, method, cursor=cursor) == "invalid_params"


async def test_the_response_of_a_streaming_turn_is_what_has_come_so_far(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as agent:
        await create(wire)
        await append(wire, "u1")

        async def delta(data: Any, kind: str = "delta") -> None:
            await call(agent, "session/signal", kind=kind, data=data)

        async def response() -> Any:
            return (await shown(wire))[-1]["response"]

        await delta({"text": "by nobody who is present"})
        await call(agent, "session/presence", state="thinking")
        assert await response() == []
        for text in ("Let me ", "see."):
            await delta({"text": text, "type": "thinking", "turn": 1})
        for data in ({"text": "It "}, {"text": ""}, {"text": "runs"}, "no object", {"text": 1}):
            await delta(data)
        await delta({"text": "of another kind"}, "steer")
        so_far = [
            {"type": "thinking", "content": "Let me see."},
            {"type": "text", "content": "It runs"},
        ]
        assert await response() == so_far
        assert (await shown(wire))[-1]["status"] == "streaming"
        # It is kept for whoever comes later, and is no part of the session.
        async with daemon.connect() as late:
            assert await shown(late) == await shown(wire)
        assert await call(wire, "session/get", "session.seq") == 1
        # The stored answer takes its place; the next part begins anew, behind what is stored.
        await append_all(agent, answers("It runs.", "c1"))
        stored = await response()
        assert [block["type"] for block in stored] == ["text", "tool"]
        await delta({"text": "More."})
        assert await response() == [*stored, {"type": "text", "content": "More."}]
        # A head that went elsewhere and came back has given the text up.
        leaf = await call(wire, "session/get", "session.leaf_id")
        await call(wire, "branch", entry_id=None)
        await call(wire, "branch", entry_id=leaf)
        assert await response() == stored


@pytest.mark.parametrize("end", ["idle", "another head", "nobody", "gone"])
async def test_what_has_come_so_far_ends_with_the_work_on_the_head(house: House, end: str) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        await append(wire, "u1")
        async with daemon.connect() as agent:
            await call(agent, "session/presence", state="streaming")
            await call(agent, "session/signal", kind="delta", data={"text": "half"})
            assert (await shown(wire))[0]["response"] == [{"type": "text", "content": "half"}]
            again: dict[str, Any] = {"state": "streaming"}
            if end == "idle":
                await call(agent, "session/presence", state="idle")
            elif end == "another head":
                await call(agent, "session/presence", state="streaming", head="other")
            elif end == "nobody":
                await call(agent, "session/presence", state=None)
            if end != "gone":
                await call(agent, "session/presence", **again)
                assert (await shown(wire))[0]["response"] == []
                assert (await shown(wire))[0]["status"] == "streaming"
        await call(wire, "session/presence")
        assert (await shown(wire))[0]["response"] == []


async def test_what_has_come_so_far_is_that_of_its_own_head(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as agent:
        await create(wire)
        await append(wire, "u1")
        await call(wire, "branch", entry_id="u1", head="side")
        await call(agent, "session/presence", state="streaming", head="side")
        await call(agent, "session/signal", kind="delta", data={"text": "aside"})
        (main,), (side,) = await shown(wire), await shown(wire, head="side")
        assert (main["status"], main["response"]) == ("pending", [])
        assert side["response"] == [{"type": "text", "content": "aside"}]


async def test_a_long_answer_on_its_way_says_what_was_left_out(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, STREAMED_BYTES_MAX=1_000)
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        await append(wire, "u1")
        await call(wire, "session/presence", state="streaming")
        for _ in range(600):
            await call(wire, "session/signal", kind="delta", data={"text": "é"})
        for _ in range(100):
            await call(wire, "session/signal", kind="delta", data={"text": "x", "type": "code"})
        (block,) = (await shown(wire))[0]["response"]
        kept = len(block["content"])
        assert 300 < kept < 500
        assert block["content"] == "é" * kept
        assert block["meta"] == {"left_out": 2 * (600 - kept) + 100}


async def test_a_file_that_was_replaced_has_no_answer_on_its_way(house: House) -> None:
    path = house.put([stored_message("u1", None)])
    async with house.daemon() as daemon, daemon.connect() as wire:
        await call(wire, "session/presence", state="streaming")
        await call(wire, "session/signal", kind="delta", data={"text": "of the old file"})
        assert (await shown(wire))[0]["response"] != []
        content = house.disk.content(path)
        house.disk.put(path, content.replace(b"text of u1", b"another text"))
        # A label moves no head: that of the new file is where the one of the old file was.
        await call(wire, "session/label", entry_id="u1", label="here")
        (turn,) = await shown(wire)
        assert (turn["request"][0]["content"], turn["response"]) == ("another text", [])
