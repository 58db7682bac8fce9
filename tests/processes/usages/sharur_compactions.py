"""Stages of a walk through sharur's service: compactions, by a plan and by a client's model."""

from __future__ import annotations

from typing import Any

from sessiond_client import Asked, BeforeCompact, Summarize
from tests.processes.harness.walk import Walk
from tests.processes.usages.sharur import RESULT, SHARUR

Json = Any


def the_context_is_compacted_by_a_plan(walk: Walk) -> None:
    """Rows 108, 110, 112, 113, 115 to 118, 120 to 122, 124 (Compact): a real message is kept."""
    client = walk.client
    walk.say("large", SHARUR.user("Read all of it. " * 3000))
    read = {"id": "c5", "name": "read", "args": {"path": "a.go"}}
    walk.say("reading", SHARUR.assistant("Reading.", read))
    walk.say("was read", RESULT | {"toolCallId": "c5", "content": "package a\n" * 400})
    walk.say("finished", SHARUR.assistant("All was read."))
    tokens = client.usage(walk.session_id).tokens
    assert client.usage(walk.session_id, context_window=tokens).should_compact
    plan = client.plan_compaction(walk.session_id, keep_recent_tokens=100).plan
    assert plan is not None
    assert plan.first_kept_entry_id == walk.ids["reading"], "a hundred tokens are kept, and no less"
    assert walk.ids["large"] in plan.turn_prefix, "the cut is inside of a turn"
    assert "client.go" in plan.files.modified
    back = str(walk.info.leaf_id)
    client.branch(walk.session_id, walk.ids["done"])
    with walk.refused("plan_stale"):
        client.compact(walk.session_id, plan_id=plan.plan_id, summary="too late")
    client.branch(walk.session_id, back)
    again = client.plan_compaction(walk.session_id, keep_recent_tokens=100).plan
    assert again is not None
    once: Json = {"plan_id": again.plan_id, "summary": "The bug is fixed.", "idempotency_key": "k"}
    done = client.compact(walk.session_id, **once)
    assert done.tokens_after is not None
    assert done.tokens_before is not None
    assert done.tokens_after < done.tokens_before
    assert client.plan_compaction(walk.session_id).reason == "compacted"
    assert client.compact(walk.session_id, **once).entry == done.entry
    assert "The bug is fixed." in walk.texts()[0]


def a_client_writes_the_summary(walk: Walk) -> None:
    """Rows 117 to 121, 138, 174 to 176 (Compact): asked of who offered it; files go along."""
    client = walk.client

    def model(asked: Asked) -> None:
        if isinstance(asked.about, BeforeCompact):
            return  # agreed
        assert isinstance(asked.about, Summarize)
        assert (asked.about.purpose, asked.about.session_id) == ("compaction", walk.session_id)
        assert "The bug is fixed." in asked.about.prompt
        assert "<!-- sharur-summary -->" in asked.about.prompt
        asked.answer("A model summed up.")

    for name in ("one", "two", "three"):
        walk.say(f"full {name}", SHARUR.user(f"word {name} ".ljust(15) * 4_000))
    with walk.offering(model, summarize=["compaction"], hooks=["before_compact"]):
        client.compact(walk.session_id)
    assert "A model summed up." in walk.texts()[0]
    assert "client.go" in walk.texts()[0]
    figures = client.session_stats(walk.session_id).path.compactions
    assert figures.count == 2
    assert figures.tokens_before > 0
    # sharur's entries say what is left, too.
    assert (figures.tokens_freed > 0) is (walk.root is not None)
    with walk.offering(lambda asked: asked.veto("later"), hooks=["before_compact"]):
        walk.say("kept", SHARUR.user("Keep this."))
        with walk.refused("vetoed"):
            client.compact(walk.session_id, summary="s", first_kept_entry_id=walk.ids["kept"])
