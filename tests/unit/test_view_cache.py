"""The cache of views: a view equals that of the whole context after any earlier requests."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessiond.service.context import view_cache
from sessiond.service.context.context_cache import Context, build_context
from sessiond.service.context.view_cache import ViewCache, Viewed, shared
from sessiond.service.log.open_session import OpenSession
from sessiond.session.context.context import shared_prefix
from sessiond.session.providers.shapes import Shape, View
from tests.kit.in_memory import NATIVE_HEADER, TIME, opened
from tests.kit.limits import set_limits

VIEWS = [
    View(repair, shape)
    for repair in (False, True)
    for shape in ("stored", "openai", "anthropic")
    if repair or shape != "stored"
]
KINDS = ["user", "call", "calls", "result", "results", "text", "thought", "nothing", "image"]
KINDS += ["system", "unknown", "note", "compaction", "answered", "users_call"]


def entry(n: int, kind: str, parent: int, target: int) -> dict[str, Any]:
    """Line n, below line `parent`; calls and results have one of a few ids."""
    base: dict[str, Any] = {
        "id": f"n{n}",
        "parent_id": f"n{parent}" if parent else None,
        "timestamp": TIME,
    }
    if kind == "compaction":
        kept = f"n{target}" if target % 3 else None
        return base | {"type": kind, "summary": "s", "first_kept_entry_id": kept}
    if kind == "note":
        return base | {"type": "custom_message", "custom_type": "x", "content": f"note {n}"}
    call = f"c{target % 4}"
    text = {"type": "text", "text": f"text {n}"}
    image = {"type": "image", "mimeType": "image/png", "data": "AA=="}
    thought = {"type": "thinking", "thinking": f"{n}", "thinkingSignature": "sig"}
    asked = {"type": "toolCall", "id": call, "name": "ls", "arguments": {"n": n}}
    again = asked | {"id": "c9"}
    result = {"type": "tool_result", "tool_use_id": call, "content": f"out {n}"}
    messages: dict[str, dict[str, Any]] = {
        "user": {"role": "user", "content": f"user {n}"},
        "call": {"role": "assistant", "content": [thought, asked]},
        "calls": {"role": "assistant", "content": [text, asked, again]},
        "result": {"role": "toolResult", "toolCallId": call, "content": [text, image]},
        "results": {"role": "user", "content": [result, result | {"tool_use_id": "c9"}, text]},
        "text": {"role": "assistant", "content": [thought, text]},
        "thought": {"role": "assistant", "content": [thought]},
        "nothing": {"role": "assistant", "content": []},
        "image": {"role": "user", "content": [image]},
        "system": {"role": "system", "content": f"system {n}"},
        "unknown": {"role": "critic", "content": f"critic {n}"},
        "answered": {"role": "assistant", "content": [asked, result, text]},
        "users_call": {"role": "user", "content": [asked, text]},
    }
    return base | {"type": "message", "message": messages[kind]}


TREES = st.lists(
    st.tuples(st.sampled_from(KINDS), st.integers(0, 40), st.integers(0, 40)),
    min_size=1,
    max_size=24,
).map(
    lambda steps: [
        # Mostly a growing path, with some branches.
        entry(n, kind, (n - 1) if parent % 4 else parent % n, max(1, target % n))
        for n, (kind, parent, target) in enumerate(steps, 1)
    ]
)
VIEW = st.sampled_from(VIEWS)


def meaning(shown: Viewed) -> tuple[Any, ...]:
    return shown.count, shown.bodies(), shown.sources(), shown.system()


def anew(session: OpenSession, context: Context, view: View) -> Viewed:
    shown = ViewCache(session).now(context, view)
    assert shown is not None
    return shown


@given(entries=TREES, asks=st.lists(st.integers(0, 40), min_size=1, max_size=25), view=VIEW)
def test_a_view_that_is_kept_is_the_one_that_the_whole_context_gives(
    entries: list[dict[str, Any]], asks: list[int], view: View
) -> None:
    session = opened(entries, NATIVE_HEADER)
    views = ViewCache(session)
    held: list[tuple[Viewed, tuple[Any, ...]]] = []
    for ask in asks:
        context = build_context(session, ask % (len(entries) + 1))
        shown = views.now(context, view)
        assert shown is not None
        assert meaning(shown) == meaning(anew(session, context, view))
        assert len(shown.bodies()) == len(shown.sources()) == shown.count
        for start in range(shown.count + 1):
            assert shown.bodies(start) == shown.bodies()[start:]
            assert shown.sources(start) == shown.sources()[start:]
        held.append((shown, meaning(shown)))
    for one, meant in held:
        # A view that a caller still holds does not change when other views extend it.
        assert meaning(one) == meant
        for other, _ in held:
            assert shared(one, other) == shared_prefix(
                list(zip(one.bodies(), one.sources(), strict=True)),
                list(zip(other.bodies(), other.sources(), strict=True)),
            )


LATE = [
    # Results without a call, in messages of their own and beside a text; a result in the message of
    # its call.
    ["user", "user", "result", "user"],
    ["results", "user", "results", "user", "text"],
    ["user", "text", "user", "result", "user", "call", "result", "user"],
    ["answered", "text", "user", "answered", "answered", "user"],
    # A result that follows another message of the assistant, and a result that was there from the
    # start.
    ["user", "call", "user", "text", "user", "result", "text", "user"],
    ["user", "call", "user", "text", "result", "user", "text", "user", "text"],
    ["call", "nothing", "user", "call", "result", "result", "text"],
    ["call", "user", "thought", "user", "thought", "text", "results", "calls", "user", "results"],
]


@pytest.mark.parametrize("view", VIEWS, ids=str)
@pytest.mark.parametrize("kinds", LATE, ids=" ".join)
def test_a_result_that_comes_late_is_shown_with_its_call(kinds: list[str], view: View) -> None:
    session = opened([entry(n, kind, n - 1, 4) for n, kind in enumerate(kinds, 1)], NATIVE_HEADER)
    for first in range(len(kinds)):
        views = ViewCache(session)
        for leaf in range(first, len(kinds) + 1):
            context = build_context(session, leaf)
            shown = views.now(context, view)
            assert shown is not None
            assert meaning(shown) == meaning(anew(session, context, view))


@given(entries=TREES)
def test_openai_gets_results_right_behind_their_calls(entries: list[dict[str, Any]]) -> None:
    session = opened(entries, NATIVE_HEADER)
    shown = anew(session, build_context(session, len(entries)), View(repair=True, shape="openai"))
    waiting: list[str] = []
    for message in map(json.loads, shown.bodies()):
        if message["role"] == "tool":
            waiting.remove(message["tool_call_id"])
            continue
        if message["role"] == "assistant":
            calls = [call["id"] for call in message.get("tool_calls", [])]
            # An assistant with several messages in a row made its calls in one of them.
            assert message["content"] or calls
            waiting += calls
        else:
            assert waiting == []
            assert message["content"]
    assert waiting == []


@given(entries=TREES)
def test_anthropic_gets_turns_and_results_first_in_the_next_one(
    entries: list[dict[str, Any]],
) -> None:
    session = opened(entries, NATIVE_HEADER)
    view = View(repair=True, shape="anthropic")
    shown = anew(session, build_context(session, len(entries)), view)
    calls: list[str] = []
    for at, message in enumerate(map(json.loads, shown.bodies())):
        assert message["role"] == ("assistant" if at % 2 else "user")
        kinds = [block["type"] for block in message["content"]]
        results = [block["tool_use_id"] for block in message["content"] if "tool_use_id" in block]
        assert kinds[: len(results)] == ["tool_result"] * len(results)
        assert sorted(results) == sorted(calls)
        calls = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
        if message["role"] == "assistant":
            assert kinds[-1] != "thinking"
    # Every call has its results; the last message has no open call.
    assert calls == []


@pytest.mark.parametrize("shape", ["stored", "openai", "anthropic"])
def test_the_next_turn_reads_its_own_messages_only(
    shape: Shape, monkeypatch: pytest.MonkeyPatch
) -> None:
    cycle = ["user", "calls", "result", "text"]
    session = opened([entry(n, cycle[n % 4], n - 1, n) for n in range(1, 401)], NATIVE_HEADER)
    read: list[bytes] = []
    inner = session.dialect.read

    class Counting(type(session.dialect)):  # type: ignore[misc]
        def read(self, message: bytes) -> Any:
            read.append(message)
            return inner(message)

    session.dialect = Counting()
    set_limits(monkeypatch, INLINE_READ_BYTES=10**9)
    views, view = ViewCache(session), View(repair=True, shape=shape)
    views.now(build_context(session, 200), view)
    assert len(read) == 200
    for leaf in range(201, 401):
        read.clear()
        assert views.now(build_context(session, leaf), view) is not None
        assert len(read) <= 5
    read.clear()
    views.now(build_context(session, 400), view)
    assert read == []


def test_a_large_one_is_left_to_a_worker_thread_and_a_small_step_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session = opened(
        [entry(n, "user" if n % 2 else "text", n - 1, n) for n in range(1, 41)], NATIVE_HEADER
    )
    views, view = ViewCache(session), View(shape="openai")
    base = views.now(build_context(session, 38), view)
    assert base is not None
    set_limits(monkeypatch, INLINE_READ_BYTES=800)
    assert ViewCache(session).now(build_context(session, 40), view) is None
    assert views.now(build_context(session, 40), view) is not None
    set_limits(monkeypatch, INLINE_WALK_STEPS=1)
    assert views.now(build_context(session, 36), view) is None


@pytest.mark.parametrize("bound", ["VIEW_CACHE_BYTES_MAX", "VIEW_CACHE_COUNT_MAX"])
def test_what_is_kept_is_bounded_and_the_newest_stays(
    monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    session = opened([entry(n, "user", 0, 1) for n in range(1, 31)], NATIVE_HEADER)
    view = View(shape="openai")
    size = sum(map(len, anew(session, build_context(session, 10), view).bodies()))
    limit = {"VIEW_CACHE_BYTES_MAX": 3 * size, "VIEW_CACHE_COUNT_MAX": 3}[bound]
    monkeypatch.setattr(view_cache, bound, limit)
    views = ViewCache(session)
    for leaf in range(10, 20):
        views.now(build_context(session, leaf), view)
        views.get((10, view))
    kept = [leaf for leaf in range(31) if views.get((leaf, view)) is not None]
    assert kept == [10, 18, 19]
