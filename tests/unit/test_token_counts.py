"""The token count at an entry: every way to compute it gives the figure of the rule."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessiond.model.row import Kind
from sessiond.model.settings import CompactionSettings
from sessiond.service.context.context_cache import build_context
from sessiond.service.context.growth import growth, may_be_less
from sessiond.service.context.token_counts import TokenCounts
from sessiond.service.log.open_session import OpenSession
from sessiond.service.policies import Policies
from sessiond.session.context.tokens import BYTES, CHARACTERS, Estimator, spent
from sessiond.session.context.tokens import Counted as Plugged
from tests.kit.documents import native
from tests.kit.in_memory import TIME, Counted, opened
from tests.kit.limits import set_limits
from tests.kit.sessions import stored_message

KINDS = [
    "user",
    "answer",
    "failed",
    "tool",
    "system",
    "note",
    "summary",
    "compaction",
    "cold",
    "edit",
    "drop",
    "model",
]


def entry(n: int, kind: str, parent: int, target: int) -> dict[str, Any]:
    """Line n, below line `parent`; `target` is any earlier line."""
    base: dict[str, Any] = {
        "id": f"{n:08x}",
        "parentId": f"{parent:08x}" if parent else None,
        "timestamp": TIME,
    }
    text = "x" * (n * 7)
    usage = {"input": 1000 * n, "output": n, "cacheRead": 0, "cacheWrite": 0}
    blocks = [{"type": "text", "text": text}]
    answer = {"role": "assistant", "content": blocks, "usage": usage, "stopReason": "stop"}
    messages = {
        "user": {"role": "user", "content": text},
        "answer": answer,
        "failed": answer | {"stopReason": "error"},
        "tool": {"role": "toolResult", "toolCallId": "c", "content": blocks},
        "system": {"role": "system", "content": text},
    }
    if kind in messages:
        return base | {"type": "message", "message": messages[kind]}
    kept = {"firstKeptEntryId": f"{target:08x}", "tokensBefore": 1}
    others: dict[str, dict[str, Any]] = {
        "note": {"type": "custom_message", "customType": "x", "content": text, "display": True},
        "summary": {"type": "branch_summary", "fromId": f"{target:08x}", "summary": text},
        "compaction": {"type": "compaction", "summary": text, **kept},
        "cold": {
            "type": "compaction",
            "summary": text,
            "systemMessage": {"role": "system", "content": "s" * 33},
            **kept,
        },
        "edit": {
            "type": "context_edit",
            "targetId": f"{target:08x}",
            "replacement": {"content": "e"},
        },
        "drop": {"type": "context_edit", "targetId": f"{target:08x}", "replacement": None},
        "model": {"type": "model_change", "provider": "p", "modelId": "m"},
    }
    return base | others[kind]


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


def by_the_rule(session: OpenSession, leaf: int) -> int:
    """Return the usage of the last good answer after a compaction or edit, plus what follows it."""
    kinds = session.session.kinds
    path = session.session.path(leaf)
    begins = [seq for seq in path if kinds[seq] in {Kind.COMPACTION, Kind.CONTEXT_EDIT}]
    context = build_context(session, leaf)
    tokens = 0
    for body, source in zip(context.messages(), context.sources, strict=True):
        reading = session.dialect.read(body)
        assert reading is not None
        seq = session.session.ids[source]
        cost = spent(reading) if not begins or seq > begins[-1] else 0
        tokens = cost or tokens + CHARACTERS.message(reading)
    return tokens


@given(entries=TREES, asks=st.lists(st.integers(0, 40), min_size=1, max_size=25))
def test_the_tokens_at_an_entry_are_those_of_the_rule(
    entries: list[dict[str, Any]], asks: list[int]
) -> None:
    session = opened(entries)
    estimates = TokenCounts(session, Policies())
    nodes = [0, *filter(session.session.is_node, range(1, len(entries) + 1))]
    for ask in asks:
        leaf = nodes[ask % len(nodes)]
        assert estimates.now(leaf) == by_the_rule(session, leaf)


@pytest.mark.parametrize("estimator", [CHARACTERS, BYTES])
@given(entries=TREES)
def test_what_was_added_comes_to_no_more_than_a_glance_says(
    estimator: Estimator, entries: list[dict[str, Any]]
) -> None:
    session = opened(entries)
    nodes = [0, *filter(session.session.is_node, range(1, len(entries) + 1))]
    for since, leaf in product(nodes, nodes):
        more = growth(session, estimator, since, leaf)
        if more is None:
            continue
        path = session.session.path(leaf)
        assert since in {0, *path}, "only what lies below it was added to it"
        added = [seq for seq in path if seq > since]
        tokens = 0
        for seq in added:
            reading = session.dialect.reading(session.journal.read_many([seq])[0])
            if reading is not None:
                assert not spent(reading)
                tokens += estimator.message(reading)
        assert tokens <= more


@given(entries=TREES)
def test_a_context_that_came_to_less_may_be_less_at_a_glance(
    entries: list[dict[str, Any]],
) -> None:
    for n, line in enumerate(entries):
        if usage := line.get("message", {}).get("usage"):
            # Each answer has cost less than the one before.
            line["message"]["usage"] = usage | {"input": 1000 - n}
    session = opened(entries)
    estimates = TokenCounts(session, Policies())
    nodes = [0, *filter(session.session.is_node, range(1, len(entries) + 1))]
    for since, leaf in product(nodes, nodes):
        if estimates.find(leaf) < estimates.find(since):
            assert may_be_less(session, since, leaf)


def test_only_answers_are_read_to_see_whether_a_context_may_be_less() -> None:
    kinds = ["user", "user", "tool", "user", "model", "answer", "user", "user"]
    session = opened([entry(n, kind, n - 1, 1) for n, kind in enumerate(kinds, 1)])
    journal = session.journal
    assert isinstance(journal, Counted)
    assert not may_be_less(session, 1, 5)
    assert journal.read_lines == 0
    assert may_be_less(session, 1, 8)
    assert journal.read_lines == 1
    assert not may_be_less(session, 6, 8)
    assert may_be_less(session, 8, 6)


def test_a_glance_sees_what_no_size_tells() -> None:
    image = [{"type": "image", "data": "", "mimeType": "image/png"}]
    entries = [entry(n, "user", n - 1, 1) for n in range(1, 8)]
    entries[5]["message"]["content"] = image
    entries.append(entry(8, "answer", 4, 1))
    entries.append(entry(9, "edit", 4, 2))
    entries.append(entry(10, "user", 3, 1))
    session = opened(entries)
    assert growth(session, CHARACTERS, 4, 5) is not None
    assert growth(session, CHARACTERS, 5, 5) == 0
    for leaf in (6, 7, 8, 9, 10):
        assert growth(session, CHARACTERS, 4, leaf) is None
    assert growth(session, Plugged("words", len), 4, 5) is None


def test_the_next_turn_reads_its_own_entries_only() -> None:
    session = opened([entry(n, "user", n - 1, 1) for n in range(1, 41)])
    journal = session.journal
    assert isinstance(journal, Counted)
    estimates = TokenCounts(session, Policies())
    assert estimates.now(30) is not None
    assert journal.read_lines == 30
    estimates.now(32)
    estimates.now(32)
    estimates.now(31)
    assert journal.read_lines == 32


def test_an_answer_that_says_its_cost_ends_the_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    set_limits(monkeypatch, INLINE_READ_BYTES=300)
    entries = [entry(n, "answer" if n % 2 else "user", n - 1, 1) for n in range(1, 41)]
    session = opened(entries)
    journal = session.journal
    assert isinstance(journal, Counted)
    estimates = TokenCounts(session, Policies())
    assert estimates.now(40) is None
    assert estimates.find(40) == 39_039 + 70
    assert journal.read_lines <= 3
    # The figure is kept now, so no read is needed.
    assert estimates.now(40) == 39_039 + 70


def test_what_is_kept_is_not_read_twice() -> None:
    entries = [entry(n, "user", n - 1, 1) for n in range(1, 40)]
    session = opened([*entries, entry(40, "compaction", 39, 30), entry(41, "compaction", 40, 35)])
    journal = session.journal
    assert isinstance(journal, Counted)
    estimates = TokenCounts(session, Policies())
    estimates.now(40)
    assert journal.read_lines == 11
    estimates.now(41)
    assert journal.read_lines == 12


def test_a_context_far_down_is_left_to_a_worker_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    session = opened([entry(n, "user", n - 1, 1) for n in range(1, 41)])
    estimates = TokenCounts(session, Policies())
    set_limits(monkeypatch, INLINE_WALK_STEPS=20)
    assert estimates.now(40) is None
    assert estimates.now(20) is not None
    assert estimates.now(40) is not None
    kept = opened(
        [entry(n, "user", n - 1, 1) for n in range(1, 40)] + [entry(40, "compaction", 39, 2)]
    )
    assert TokenCounts(kept, Policies()).now(40) is None


# -- settings ----------------------------------------------------------------------------------


class Installed:
    """Tokenizers as if they were installed."""

    def __init__(self) -> None:
        self.loaded: list[str] = []

    def names(self) -> list[str]:
        return ["words", "broken", "absent"]

    def load(self, name: str) -> Any:
        self.loaded.append(name)
        if name == "absent":
            raise ImportError(name)
        return {"words": lambda text: len(text.split()), "broken": lambda _text: [][0]}[name]


@pytest.mark.parametrize(
    ("compaction", "tokens"),
    [
        (None, 6),
        ({"preset": "sharur"}, 26),
        ({"preset": "sharur", "enabled": 5, "later": 1}, 26),
        ({"tokenizer": "words"}, 5),
        ({"tokenizer": "words", "preset": "sharur"}, 5),
        ({"tokenizer": 5}, 6),
        ("garbage", 6),
    ],
)
def test_a_sessions_own_settings_say_who_counts(compaction: Any, tokens: int) -> None:
    session = native(
        stored_message("a", None, content="one two  three four é"), compaction=compaction
    )
    estimates = TokenCounts(session, Policies(None, Installed()))
    assert estimates.find(1) == tokens
    # A tokenizer may take its time, so it is not asked on the loop.
    asked = TokenCounts(session, Policies(None, Installed())).now(1)
    assert asked == (None if tokens == 5 else tokens)


@pytest.mark.parametrize("tokenizer", ["broken", "absent", "nobody"])
def test_a_tokenizer_that_fails_is_reported_once_and_stood_in_for(tokenizer: str) -> None:
    said: list[str] = []
    policies = Policies(CompactionSettings(tokenizer=tokenizer), Installed(), said.append)
    assert (
        TokenCounts(
            native(stored_message("a", None, content="one two  three four é"), compaction=None),
            policies,
        ).find(1)
        == 6
    )
    assert (
        TokenCounts(
            native(stored_message("a", None, content="one two  three four é"), compaction=None),
            policies,
        ).find(1)
        == 6
    )
    assert len(said) == 1
    assert tokenizer in said[0]
    assert "one" not in said[0]


def test_a_change_of_who_counts_counts_anew() -> None:
    session = native(stored_message("a", None, content="one two  three four é"), compaction=None)
    policies = Policies(None, Installed())
    estimates = TokenCounts(session, policies)
    assert estimates.find(1) == 6
    policies.usual = CompactionSettings(tokenizer="words")
    assert estimates.find(1) == 5
    policies.usual = CompactionSettings(preset="sharur")
    assert estimates.find(1) == 26
