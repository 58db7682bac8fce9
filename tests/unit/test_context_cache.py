"""The cache of contexts: a context equals that of the file after any earlier requests."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessiond.service.context import context_cache
from sessiond.service.context.context_cache import Context, ContextCache, build_context
from tests.kit.in_memory import TIME, Counted, opened
from tests.kit.limits import set_limits

KINDS = ["user", "assistant", "tool", "custom", "model", "thinking", "compaction", "edit", "drop"]


def entry(n: int, kind: str, parent: int, target: int) -> dict[str, Any]:
    """Line n, below line `parent`; `target` is any earlier line."""
    base: dict[str, Any] = {
        "id": f"{n:08x}",
        "parentId": f"{parent:08x}" if parent else None,
        "timestamp": TIME,
    }
    match kind:
        case "user":
            body: dict[str, Any] = {"role": "user", "content": f"{n}", "timestamp": 1}
        case "assistant":
            text = [{"type": "text", "text": f"{n}"}]
            model = {"model": f"m{target}", "provider": "p"} if n % 2 else {}
            body = {"role": "assistant", "content": text, "timestamp": 1, **model}
        case "tool":
            content = [{"type": "text", "text": "out"}]
            body = {"role": "toolResult", "toolCallId": "c", "toolName": "t", "content": content}
        case "custom":
            return base | {"type": "custom", "customType": "x", "data": {}}
        case "model":
            return base | {"type": "model_change", "provider": "p", "modelId": f"m{target}"}
        case "thinking":
            return base | {"type": "thinking_level_change", "thinkingLevel": f"level{target}"}
        case "compaction":
            kept = {"firstKeptEntryId": f"{target:08x}"}
            return base | {"type": "compaction", "summary": "s", "tokensBefore": 1, **kept}
        case _:
            new = {"content": f"edited {target}"} if kind == "edit" else None
            return base | {"type": "context_edit", "targetId": f"{target:08x}", "replacement": new}
    return base | {"type": "message", "message": body}


TREES = st.lists(
    st.tuples(st.sampled_from(KINDS), st.integers(0, 40), st.integers(0, 40)),
    min_size=1,
    max_size=20,
).map(
    lambda steps: [
        # Mostly a growing path, with some branches.
        entry(n, kind, (n - 1) if parent % 3 else parent % n, max(1, target % n))
        for n, (kind, parent, target) in enumerate(steps, 1)
    ]
)


@given(entries=TREES, asks=st.lists(st.integers(0, 40), min_size=1, max_size=25))
def test_a_context_from_the_cache_is_the_one_that_the_file_gives(
    entries: list[dict[str, Any]], asks: list[int]
) -> None:
    session = opened(entries)
    cache = ContextCache()
    nodes = [0, *filter(session.session.is_node, range(1, len(entries) + 1))]
    held: list[tuple[Context, list[bytes]]] = []
    for ask in asks:
        leaf = nodes[ask % len(nodes)]
        context = cache.build_now(session, leaf)
        assert context is not None
        fresh = build_context(session, leaf)
        # A context that other contexts extend has sequence numbers of those, too.
        assert list(context.messages()) == list(fresh.messages())
        assert context.sources[: context.count] == fresh.sources[: fresh.count]
        assert context.plan.compaction == fresh.plan.compaction
        assert cache.get(leaf) is context
        held.append((context, list(context.messages())))
    for context, messages in held:
        # A context that a caller still holds does not change when it is extended.
        assert list(context.messages()) == messages


def test_the_next_turn_reads_its_own_entries_only() -> None:
    session = opened([entry(n, "user", n - 1, 1) for n in range(1, 41)])
    journal = session.journal
    assert isinstance(journal, Counted)
    cache = ContextCache()
    cache.build_now(session, 30)
    before = journal.read_lines
    cache.build_now(session, 32)
    assert journal.read_lines - before == 2
    cache.build_now(session, 32)
    assert journal.read_lines - before == 2


def test_what_is_not_small_or_far_away_is_left_to_a_worker_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session = opened([entry(n, "user", n - 1, 1) for n in range(1, 41)])
    cache = ContextCache()
    set_limits(monkeypatch, INLINE_READ_BYTES=500)
    assert cache.build_now(session, 40) is None
    cache.keep(build_context(session, 39))
    assert cache.build_now(session, 40) is not None
    set_limits(monkeypatch, INLINE_READ_BYTES=10**9, INLINE_WALK_STEPS=20)
    assert ContextCache().build_now(session, 40) is None
    assert ContextCache().build_now(session, 20) is not None


@pytest.mark.parametrize("bound", ["CONTEXT_CACHE_BYTES_MAX", "CONTEXT_CACHE_COUNT_MAX"])
def test_the_cache_is_bounded_in_bytes_and_in_contexts_and_keeps_the_newest(
    monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    session = opened([entry(n, "user", 0, 1) for n in range(1, 41)])
    size = build_context(session, 1).size
    limit = {"CONTEXT_CACHE_BYTES_MAX": 3 * size + 3, "CONTEXT_CACHE_COUNT_MAX": 3}[bound]
    monkeypatch.setattr(context_cache, bound, limit)
    cache = ContextCache()
    for leaf in range(1, 9):
        cache.build_now(session, leaf)
        cache.get(1)
    kept = [leaf for leaf in range(1, 41) if cache.get(leaf) is not None]
    assert kept == [1, 7, 8]
    monkeypatch.setattr(context_cache, bound, 0)
    cache = ContextCache()
    cache.build_now(session, 19)
    cache.build_now(session, 20)
    assert [leaf for leaf in range(1, 41) if cache.get(leaf) is not None] == [20]
