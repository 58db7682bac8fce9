"""Stages of a walk through piglet's usage: contexts, compactions, copies, and older files."""

from __future__ import annotations

from typing import Any

from tests.kit.readers.piglet import PigletFile
from tests.processes.harness.walk import Walk
from tests.processes.harness.walk_stages import restarted
from tests.processes.usages.piglet import CWD, PIGLET
from tests.processes.usages.piglet_entries import SAMPLES

Json = Any


def calls_without_results_are_repaired(walk: Walk) -> None:
    """Row 73: a view of the context has an error for each such call; the file stays as it is."""
    client = walk.client
    files = {"c8": "a.go", "c9": "b.go"}
    calls = [
        {"id": one, "name": "read", "arguments": {"path": path}} for one, path in files.items()
    ]
    walk.say("orphan", PIGLET.assistant(*calls))
    walk.say("resumed", PIGLET.user("Go on."))
    before = walk.file().read_bytes()
    plain = client.build_context(walk.session_id).messages
    once = client.build_context(walk.session_id, repair=True).messages
    added = [one for one in once if one not in plain]
    assert [one["toolCallId"] for one in added] == ["c8", "c9"]
    assert all("[error:TOOL_INTERRUPTED]" in str(one["content"]) for one in added)
    assert once.index(added[0]) == plain.index(once[once.index(added[0]) - 1]) + 1
    assert client.build_context(walk.session_id, repair=True).messages == once
    assert walk.file().read_bytes() == before


def the_context_is_compacted_by_messages(walk: Walk) -> None:
    """Rows 109, 110, 111, 113, 120, 122, 124: messages replace the context on this branch alone."""
    client = walk.client
    tokens = client.usage(walk.session_id).tokens
    assert client.usage(walk.session_id, context_window=16384 + tokens - 1).should_compact
    plan = client.plan_compaction(walk.session_id, keep_recent_tokens=1).plan
    assert plan is not None
    at = str(walk.say("meanwhile", PIGLET.user("Meanwhile.")).leaf_id)
    short = [PIGLET.user("In short: auth."), PIGLET.assistant("Understood.")]
    with walk.refused("plan_stale"):
        client.compact(walk.session_id, messages=short, plan_id=plan.plan_id)
    with walk.refused("precondition_failed"):
        client.compact(walk.session_id, messages=short, expected={"leaf_id": walk.ids["question"]})
    done = client.compact(
        walk.session_id, messages=short, tokens_before=100_400, expected={"leaf_id": at}
    )
    assert done.tokens_before == 100_400
    assert done.tokens_after is not None
    assert done.tokens_after < done.tokens_before
    assert client.build_context(walk.session_id).messages == short
    assert client.plan_compaction(walk.session_id).reason == "compacted"
    walk.say("tail", PIGLET.user("And then?"))
    restarted(walk)
    assert walk.texts() == ["In short: auth.", "Understood.", "And then?"]
    row = next(one for one in client.tree(walk.session_id).nodes if one.id == done.entry.id)
    assert row.tokens_before == 100_400
    back = str(walk.info.leaf_id)
    client.branch(walk.session_id, at)
    assert len(walk.texts()) > len(short)
    client.branch(walk.session_id, back)


def a_plan_is_compacted(walk: Walk) -> None:
    """Rows 109, 115, 118: a summary by a plan; in piglet's file the messages it stands for."""
    client = walk.client
    walk.say("kept", PIGLET.user("Keep this."))
    plan = client.plan_compaction(walk.session_id, keep_recent_tokens=1).plan
    assert plan is not None
    client.compact(walk.session_id, plan_id=plan.plan_id, summary="All about auth.")
    assert "All about auth." in walk.texts()[0]
    assert walk.texts()[-1] == "Keep this."


def a_context_is_forked_and_the_work_is_handed_off(walk: Walk) -> None:
    """Rows 86, 92, 93, 105: a new session knows some messages, or nothing but a summary.

    Its entries have new ids, and it names its parent.
    """
    client, source = walk.client, walk.texts()
    fork = client.fork(walk.session_id, entries="context", keep_messages=2)
    walk.follow(fork)
    assert walk.texts(fork.id) == source[:2]
    assert fork.lineage is not None
    assert (fork.lineage["parent_id"], fork.lineage["fork_point"]) == (walk.session_id, 2)
    assert (fork.cwd, fork.title, fork.model) == (CWD, None, walk.info.model)
    ids = [{one.id for one in client.tree(each).nodes} for each in (walk.session_id, fork.id)]
    assert not ids[0] & ids[1]
    whole = client.fork(walk.session_id, entries="context", keep_messages=1000)
    walk.follow(whole)
    assert walk.texts(whole.id) == source
    forest = client.catalog_forest(session_id=fork.id).nodes
    depths = {one.session_id: one.depth for one in forest}
    assert depths[fork.id] == depths[walk.session_id] + 1
    if walk.root is not None:
        meta = PigletFile(walk.file(fork.id).read_bytes()).meta
        assert (meta["parentId"], meta["forkPoint"]) == (walk.session_id, 2)
    handed_off = client.fork(walk.session_id, entries="none", title="Handed off")
    client.append(handed_off.id, message=PIGLET.user("What was done so far: auth."))
    walk.follow(client.get(handed_off.id))
    assert walk.texts(handed_off.id) == ["What was done so far: auth."]
    assert (handed_off.lineage or {})["parent_id"] == walk.session_id


def sessions_are_found(walk: Walk) -> None:
    """Rows 28, 41: a search finds title, directory and content; the newest comes first."""
    client = walk.client
    (hit,) = [one for one in client.search("JWT tried") if one.session_id == walk.session_id][:1]
    assert hit.snippet
    assert walk.session_id in {one.id for one in client.list(query="Auth flow").sessions}
    by_time = client.list(sort="created_at").sessions
    times = [one.created_at or "" for one in by_time]
    assert times == sorted(times, reverse=True)


def older_files_are_read_and_brought_up_by_a_copy(walk: Walk) -> None:
    """Rows 15, 16: entries without ids have the names that piglet gives them; nothing is rewritten."""
    client = walk.client
    old = walk.folder.with_name("old.jsonl")
    old.write_bytes((SAMPLES / "piglet-legacy.jsonl").read_bytes())
    before = old.read_bytes()
    info = client.open(path=str(old))
    assert (info.read_only_reason, info.leaf_id, info.problems) == (None, "cafe0001", 1)
    assert client.build_context(info.id).messages == PigletFile(before).messages()
    client.append(info.id, message=PIGLET.user("x"))
    after = old.read_bytes()
    assert after.startswith(before)
    theirs = PigletFile(after)
    assert (theirs.messages()[-1]["content"], theirs.path()[-1].parent) == ("x", "cafe0001")
    made = client.import_(content=before.decode())
    walk.follow(made.session)
    names = [row.entry["id"] for row in client.path(made.session.id).entries]
    assert names == ["L0", "L1", "L2", "cafe0001"]
    assert made.report["dropped"] == 1
    client.append(made.session.id, message=PIGLET.user("goes on"))
    assert old.read_bytes() == after
