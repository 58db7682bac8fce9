"""Reading: payloads pass undecoded, a context comes as the rest of a known one, pages join."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sessiond.dialects import payload
from sessiond.service.context.context_cache import build_context
from sessiond.testing.daemon import Daemon, Refusal, Wire
from tests.kit.calls import append, create, say
from tests.kit.house import House
from tests.kit.sessions import SESSION

# -- payloads -------------------------------------------------------------------------------


async def test_nothing_that_only_passes_a_payload_on_reads_it(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[bytes] = []
    original = payload.read_payload

    def counted(message: Any) -> Any:
        read.append(bytes(message))
        return original(message)

    monkeypatch.setattr(payload, "read_payload", counted)
    async with house.daemon() as daemon, daemon.connect() as wire:
        # Without compaction: the look at a watched context comes by the clock and reads, too.
        await create(wire, compaction={"enabled": False})
        for n in range(4):
            await append(wire, f"u{n}")
            await append(wire, f"a{n}", role="assistant")
        # The hook is the door that reading goes through.
        payload.reading_of(b'{"message":{"role":"user","content":"x"}}')
        assert len(read) == 1
        read.clear()
        await wire.call("session/close", session_id=SESSION)
        for method, params in (
            ("session/entries", {}),
            ("session/entries", {"before_seq": 5, "types": ["message"]}),
            ("session/path", {}),
            ("session/entry", {"entry_id": "u1"}),
            ("session/tree", {}),
            ("subscribe", {"after": {"seq": 0}}),
            ("session/flush", {}),
        ):
            await wire.call(method, session_id=SESSION, **params)
        await say(wire, "x")
        assert read == []
        # To say its tokens takes a look at each message, once; the messages pass as bytes.
        held = {"known": {"leaf_id": "a1", "count": 4}}
        for more in ({}, held, {"entry_id": "u2"}):
            await wire.call("build_context", session_id=SESSION, **more)
            assert len(read) == 9


async def test_a_payload_comes_back_byte_for_byte_from_every_read(house: House) -> None:
    message = (
        b'{"role" : "assistant", "n":1.50,"big":12345678901234567890123,"_":null, "content":""}'
    )
    body = b'{"id":7,"method":"append","params":{"session_id":"session-a","message":' + message
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        await wire.send(body + b"}}")
        await wire.answer(7)
        for method in ("build_context", "session/entries", "session/path"):
            number = await wire.request(method, session_id=SESSION)
            assert message in await wire.receive(), number


# -- contexts -------------------------------------------------------------------------------


async def test_a_context_comes_with_its_sources_and_settings(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        empty = await wire.call("build_context", session_id=SESSION)
        assert (empty["messages"], empty["leaf_id"], empty["thinking_level"]) == ([], None, "off")
        await append(wire, "u1")
        settings_entries = [
            {"type": "model_change", "id": "m1", "provider": "p", "model_id": "one"},
            {"type": "thinking_level_change", "id": "t1", "thinking_level": "high"},
        ]
        await wire.call("append", session_id=SESSION, entries=settings_entries)
        context = await wire.call("build_context", session_id=SESSION)
        assert context["sources"] == ["u1"]
        assert context["messages"] == [{"role": "user", "content": "u1"}]
        assert (context["model"], context["thinking_level"]) == (
            {"provider": "p", "model_id": "one"},
            "high",
        )
        etag = context["etag"]
        assert await wire.call("build_context", session_id=SESSION, if_none_match=etag) == {
            "not_modified": True,
            "etag": etag,
        }
        earlier = await wire.call("build_context", session_id=SESSION, entry_id="u1")
        assert (earlier["model"], earlier["leaf_id"]) == (None, "u1")
        await append(wire, "u2")
        changed = await wire.call("build_context", session_id=SESSION, if_none_match=etag)
        assert changed["sources"] == ["u1", "u2"]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["user", "assistant", "custom", "pointer", "replace", "model", "label"]),
        st.integers(0, 30),
        st.integers(0, 30),
        st.integers(0, 30),
    ),
    min_size=1,
    max_size=14,
)
_rounds = iter(range(10**9))


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(steps=STEPS)
async def test_what_is_held_and_the_rest_make_the_whole_context_whatever_the_tree(
    house: House, steps: list[tuple[str, int, int, int]]
) -> None:
    session_id = f"session-{next(_rounds)}"
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, session_id, persist="never")
        tree = _Tree(daemon, wire, session_id)
        for step in steps:
            await tree.grow(step)
            await tree.compare(known=step[2], leaf=step[3])
            await tree.compare(known=step[3], leaf=-1)


class _Tree:
    """A session that grows, and every context that a client may hold of it."""

    def __init__(self, daemon: Daemon, wire: Wire, session_id: str) -> None:
        self.actor = daemon.service.actor(session_id)
        self.wire = wire
        self.session_id = session_id
        self.leaves: list[str | None] = [None]
        self.held: dict[str | None, list[Any]] = {None: []}
        """The messages of each leaf's context, each with the entry that it comes from."""

    async def grow(self, step: tuple[str, int, int, int]) -> None:
        what, at, kept, _ = step
        parent = self.leaves[at % len(self.leaves)]
        entry = self._entry(what, parent, kept)
        more: dict[str, Any] = {"expected": {"leaf_id": parent}} if what == "replace" else {}
        if what == "replace":
            await self.wire.call("branch", session_id=self.session_id, entry_id=parent)
        answer = await self.wire.call(
            "append", session_id=self.session_id, entry=entry, parent_id=parent, **more
        )
        if what != "label":
            leaf = answer["leaf_id"]
            self.leaves.append(leaf)
            self.held[leaf] = self._whole(leaf)

    def _entry(self, what: str, parent: str | None, kept: int) -> dict[str, Any]:
        match what:
            case "user" | "assistant":
                return {"type": "message", "message": {"role": what, "content": kept, "model": "m"}}
            case "custom":
                return {"type": "custom", "custom_type": "x"}
            case "pointer":
                session = self.actor.opened.session
                path = session.path(session.ids[parent]) if parent else []
                first = session.names[path[kept % len(path)]] if path else None
                return {"type": "compaction", "summary": "s", "first_kept_entry_id": first}
            case "replace":
                messages = [{"role": "user", "content": n} for n in range(kept % 4)]
                return {"type": "compaction", "messages": messages}
            case "model":
                return {"type": "model_change", "model_id": f"m{kept}"}
            case _ if parent is not None:
                return {"type": "label", "target_id": parent, "label": "x"}
            case _:
                return {"type": "session_info", "name": "x"}

    def _whole(self, leaf: str | None) -> list[Any]:
        """Return the context built from nothing."""
        opened = self.actor.opened
        context = build_context(opened, opened.session.ids[leaf] if leaf else 0)
        messages = [json.loads(body) for body in context.messages()]
        return list(zip(messages, context.sources[: context.count], strict=True))

    async def compare(self, known: int, leaf: int) -> None:
        held_at = self.leaves[known % len(self.leaves)]
        asked_at = self.leaves[leaf % len(self.leaves)]
        if asked_at is None:
            return
        held = self.held[held_at]
        for count in (len(held), len(held) + 1):
            answer = await self.wire.call(
                "build_context",
                session_id=self.session_id,
                entry_id=asked_at,
                known={"leaf_id": held_at, "count": count},
            )
            unchanged = answer["unchanged"]
            whole = self.held[asked_at]
            rest = zip(answer["messages"], answer["sources"], strict=True)
            assert held[:unchanged] + list(rest) == whole
            if count != len(held):
                assert unchanged == 0
            elif held_at is not None:
                same = [one == other for one, other in zip(held, whole, strict=False)]
                assert unchanged == [*same, False].index(False)


async def test_a_turn_costs_its_own_size_not_the_contexts(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        for n in range(20):
            await append(wire, f"n{n}")
        first = await wire.call("build_context", session_id=SESSION)
        await append(wire, "next", role="assistant")
        reads = house.disk.counts["pread"]
        delta = await wire.call(
            "build_context", session_id=SESSION, known={"leaf_id": first["leaf_id"], "count": 20}
        )
        assert (delta["unchanged"], delta["sources"]) == (20, ["next"])
        # The new entry alone, once for its message and once for its tokens; it names no model.
        assert house.disk.counts["pread"] - reads == 2


# -- pages ------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["session/tree", "session/path"])
@pytest.mark.parametrize("limit", [1, 3, 100])
async def test_pages_joined_are_the_whole_although_the_session_grows(
    house: House, method: str, limit: int
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        for n in range(7):
            await append(wire, f"n{n}")
        await append(wire, "side", head="other", parent_id="n2")
        name = {"session/tree": "nodes", "session/path": "entries"}[method]
        whole = (await wire.call(method, session_id=SESSION))[name]
        found: list[Any] = []
        cursor: str | None = None
        while True:
            more = {"cursor": cursor} if cursor else {}
            page = await wire.call(method, session_id=SESSION, limit=limit, **more)
            found += page[name]
            await append(wire, f"later{len(found)}")
            cursor = page["next_cursor"]
            if cursor is None:
                break
        for row in found:
            row.pop("children")
        for row in whole:
            row.pop("children")
        assert found == whole


@pytest.mark.parametrize(
    ("method", "cursor"),
    [
        *(
            ("session/tree", c)
            for c in ("x", "1:2", "1:9:0", "9:1:0", "-1:0:0", "1:1:" + "9" * 5000)
        ),
        *(("session/path", c) for c in ("x", "1:2:3", "9:1", "-1:0", "1:-1", "1:" + "9" * 5000)),
    ],
)
async def test_a_cursor_that_was_never_given_is_refused(
    house: House, method: str, cursor: str
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        await append(wire, "n1")
        with pytest.raises(Refusal) as refused:
            await wire.call(method, session_id=SESSION, cursor=cursor)
        assert (refused.value.code, refused.value.data["path"]) == (-32602, "cursor")


async def test_a_tree_shows_the_active_branch_first_with_previews(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        for entry_id, parent in (("a", None), ("b", "a"), ("c", "b"), ("d", "a")):
            await append(wire, entry_id, parent_id=parent)
        await wire.call("branch", session_id=SESSION, entry_id="b")
        await wire.call("session/label", session_id=SESSION, entry_id="d", label="tip")
        nodes = (await wire.call("session/tree", session_id=SESSION))["nodes"]
        shown = [(n["id"], n["depth"], n["children"], n["on_active_path"]) for n in nodes]
        assert shown == [
            ("a", 0, 2, True),
            ("b", 1, 1, True),
            ("c", 2, 0, False),
            ("d", 1, 0, False),
        ]
        assert [(n["label"], n["preview"]) for n in nodes][-1] == ("tip", "d")


async def test_a_chain_of_many_entries_is_walked_without_a_stack(house: House) -> None:
    count = 20_000
    lines = [
        {
            "type": "message",
            "id": f"n{n}",
            "parent_id": f"n{n - 1}" if n else None,
            "timestamp": "2026-01-15T10:30:00.000Z",
            "message": {"role": "user", "content": "x"},
        }
        for n in range(count)
    ]
    house.put(lines)
    async with house.daemon() as daemon, daemon.connect() as wire:
        context = await wire.call("build_context", session_id=SESSION)
        assert len(context["sources"]) == count
        page = await wire.call("session/tree", session_id=SESSION, limit=1)
        assert page["nodes"][0]["id"] == "n0"
        path = await wire.call("session/path", session_id=SESSION, from_end=True, limit=1)
        assert path["entries"][0]["entry"]["id"] == f"n{count - 1}"


# -- views --------------------------------------------------------------------------------------

VIEWS = [
    {"repair": True},
    {"shape": "openai"},
    {"shape": "anthropic"},
    {"shape": "anthropic", "repair": True},
]


def said(step: str, entry_id: str) -> dict[str, Any]:
    if step == "call":
        block = {"type": "toolCall", "id": entry_id, "name": "ls", "arguments": {}}
        return {"role": "assistant", "content": [block]}
    if step == "result":
        return {"role": "toolResult", "toolCallId": entry_id, "content": "x"}
    return {"role": step, "content": entry_id}


@pytest.mark.parametrize("view", VIEWS, ids=str)
async def test_in_every_view_the_rest_of_what_is_held_makes_the_whole(
    house: House, view: dict[str, Any]
) -> None:
    steps = ["user", "call", "result", "call", "user", "user", "assistant", "result", "call"]
    ids = {"result": ["n1", "n9"]}
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        held: list[tuple[str, list[Any]]] = []
        etag = ""
        for n, step in enumerate(steps):
            message = said(step, ids[step].pop(0) if step in ids else f"n{n}")
            entry = {"type": "message", "id": f"n{n}", "message": message}
            await wire.call("append", session_id=SESSION, entry=entry)
            whole = await wire.call("build_context", session_id=SESSION, **view)
            assert len(whole["messages"]) == len(whole["sources"])
            for leaf_id, messages in held:
                known: dict[str, Any] = {"leaf_id": leaf_id, "count": len(messages)}
                rest = await wire.call("build_context", session_id=SESSION, known=known, **view)
                kept = messages[: rest["unchanged"]]
                assert kept + rest["messages"] == whole["messages"]
                assert whole["sources"][rest["unchanged"] :] == rest["sources"]
                # Who holds another number of messages holds something else.
                known["count"] += 1
                rest = await wire.call("build_context", session_id=SESSION, known=known, **view)
                assert (rest["unchanged"], rest["messages"]) == (0, whole["messages"])
            etag = whole["etag"]
            again = await wire.call("build_context", session_id=SESSION, if_none_match=etag, **view)
            assert again == {"etag": etag, "not_modified": True}
            held.append((f"n{n}", whole["messages"]))
        stored = await wire.call("build_context", session_id=SESSION, if_none_match=etag)
        # Another view is another context, and what is stored stays as it is.
        assert [message["content"] for message in stored["messages"]][:1] == ["n0"]
        assert len(stored["messages"]) == len(steps)


async def test_another_system_prompt_is_another_context(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        await append(wire, "u1")
        none = await wire.call("build_context", session_id=SESSION, include=["system"])
        assert none["system"] is None
        assert "system" not in await wire.call("build_context", session_id=SESSION)
        await wire.call("session/update", session_id=SESSION, system_prompt="Be exact.")
        params = {"session_id": SESSION, "include": ["system"], "if_none_match": none["etag"]}
        told = await wire.call("build_context", **params)
        assert told["system"] == "Be exact."
        again = await wire.call("build_context", **params | {"if_none_match": told["etag"]})
        assert again["not_modified"] is True


async def test_a_system_prompt_that_changed_is_sent_again(house: House) -> None:
    view = {"session_id": SESSION, "shape": "openai", "include": ["system"]}
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        await wire.call("session/update", session_id=SESSION, system_prompt="Be exact.")
        await append(wire, "u1")
        held = await wire.call("build_context", **view)
        assert [message["role"] for message in held["messages"]] == ["system", "user"]
        assert held["sources"] == [None, "u1"]
        await append(wire, "u2")
        known = {"leaf_id": "u1", "count": 2}
        rest = await wire.call("build_context", known=known, **view)
        assert (rest["unchanged"], rest["sources"]) == (2, ["u2"])
        await wire.call("session/update", session_id=SESSION, system_prompt="Be kind.")
        whole = await wire.call("build_context", known=known, **view)
        assert (whole["unchanged"], whole["sources"]) == (0, [None, "u1", "u2"])
        assert whole["messages"][0] == {"role": "system", "content": "Be kind."}
        # From the next entry on it is known which one the caller has.
        await append(wire, "u3")
        rest = await wire.call("build_context", known={"leaf_id": "u3", "count": 4}, **view)
        assert (rest["unchanged"], rest["sources"], rest["messages"]) == (4, [], [])
        shape = view | {"shape": "anthropic"}
        assert (await wire.call("build_context", **shape))["system"] == "Be kind."
        await say(wire, "Hurry.", role="system")
        assert (await wire.call("build_context", **shape))["system"] == "Be kind.\n\nHurry."


@pytest.mark.parametrize("view", [{}, *VIEWS], ids=str)
async def test_a_turn_costs_the_same_bytes_however_long_the_session(
    house: House, view: dict[str, Any]
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        sizes: list[int] = []
        known: dict[str, Any] = {"leaf_id": None, "count": 0}
        for turn in range(40):
            entries = [
                {"type": "message", "id": f"{step}{turn:04}", "message": said(step, f"c{turn:04}")}
                for step in ("user", "call", "result", "assistant")
            ]
            await wire.call("append", session_id=SESSION, entries=entries)
            answer = await wire.call("build_context", session_id=SESSION, known=known, **view)
            assert len(answer["messages"]) <= len(entries)
            count = answer["unchanged"] + len(answer["messages"])
            known = {"leaf_id": answer["leaf_id"], "count": count}
            sizes.append(len(json.dumps(answer["messages"] + answer["sources"])))
        assert len(set(sizes)) == 1
        whole = await wire.call("build_context", session_id=SESSION, **view)
        assert len(whole["messages"]) == known["count"]
