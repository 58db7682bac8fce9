"""Stages of a walk through sharur's service: copies, trees, and the ends of sessions."""

from __future__ import annotations

from typing import Any

from sessiond_client import Asked, BeforeFork, Summarize
from tests.processes.harness.walk import Walk
from tests.processes.harness.walk_stages import restarted
from tests.processes.usages.sharur import CWD, SHARUR
from tests.processes.usages.sharur_turns import SAMPLES

Json = Any


def a_branch_is_a_child_and_a_fork_is_none(walk: Walk) -> None:
    """Rows 93, 95, 96, 100 (BranchSession, ForkSession): the child up to an index names its parent.

    A fork has the full history, and neither its header nor the tree names where it came from.
    """
    client = walk.client
    texts = [row.entry["message"]["content"] for row in on_path(walk, walk.session_id)]
    for index in (0, 2):
        child = client.fork(walk.session_id, at_message=index)
        walk.follow(child)
        said = [row.entry["message"]["content"] for row in on_path(walk, child.id)]
        assert said == texts[: index + 1]
        assert child.lineage is not None
        assert child.lineage["parent_id"] == walk.session_id
        assert child.lineage["at_message"] == index
    end = client.fork(walk.session_id)
    assert end.message_count == walk.info.message_count
    with walk.refused("invalid_params"):
        client.fork(walk.session_id, at_message=10_000)
    fork = client.fork(walk.session_id, entries="all", link="none")
    walk.follow(fork)
    assert (fork.lineage or {}).get("parent_id") is None
    assert walk.texts(fork.id) == walk.texts()
    assert walk.session_id not in walk.file(fork.id).read_text()
    nodes = client.catalog_forest().nodes
    assert next(one.parent_id for one in nodes if one.session_id == fork.id) is None


def on_path(walk: Walk, session_id: str) -> list[Json]:
    """Return the messages on the path of a session."""
    entries = walk.client.path(session_id, limit=1000).entries
    return [row for row in entries if row.entry["type"] == "message"]


def messages_are_rebased(walk: Walk) -> None:
    """Rows 97, 98, 100, 134, 175 (RebaseSession): in the given order, dry first, and squashed."""
    client = walk.client
    source = [row.entry["message"]["content"] for row in on_path(walk, walk.session_id)]
    before = {one.id for one in client.list().sessions}
    dry = client.rebase(walk.session_id, indices=[2, 0], dry_run=True)
    assert dry.path is None
    assert {one.id for one in client.list().sessions} == before
    made = client.rebase(walk.session_id, indices=[2, 0], link="none")
    walk.follow(made)
    assert walk.texts(made.id) == [source[2], source[0]]
    assert (made.lineage or {})["rebased_from"] == walk.session_id
    with walk.refused("invalid_params"):
        client.rebase(walk.session_id, indices=[])

    def model(asked: Asked) -> None:
        assert isinstance(asked.about, Summarize)
        assert asked.about.purpose == "squash"
        assert asked.about.entry_ids == [walk.ids["prompt"], walk.ids["done"]]
        asked.answer("Squashed by a model.")

    chosen = [walk.ids["prompt"], walk.ids["done"]]
    with walk.offering(model, summarize=["squash"]):
        squashed = client.rebase(walk.session_id, entry_ids=chosen, squash={})
    if walk.root is not None:
        walk.follow(squashed)
    else:  # sharur's file cannot say that nothing is kept, and the export says so
        notes = client.export(squashed.id, format="sharur").notes
        assert any("keeps no message" in one for one in notes)
    assert "Squashed by a model." in walk.texts(squashed.id)[-1]
    assert source[0] not in walk.texts(squashed.id)


def sessions_are_merged(walk: Walk) -> None:
    """Rows 27, 99, 100, 175 (MergeSession): into a new session and into this, by a model's turn."""
    client = walk.client
    other = client.create(CWD, **walk.place).session
    client.append(other.id, message=SHARUR.user("Another attempt."))
    client.append(other.id, message=SHARUR.assistant("It failed."))
    walk.follow(client.get(other.id))
    found = client.resolve(other.id[:30])
    assert found.id == other.id
    plan = client.plan_merge(walk.session_id, found.id)
    assert [one.session_id for one in plan.sources] == [walk.session_id, other.id]

    def model(asked: Asked) -> None:
        if isinstance(asked.about, BeforeFork):
            return  # agreed
        assert isinstance(asked.about, Summarize)
        assert asked.about.purpose == "merge"
        assert "Another attempt." in asked.about.prompt
        asked.answer("Both, merged by a model.")

    with walk.offering(model, summarize=["merge"], hooks=["before_fork"]):
        made = client.merge(walk.session_id, other.id, into="new").session
        client.merge(walk.session_id, other.id)
    assert made is not None
    walk.follow(made)
    assert (made.lineage or {})["parent_id"] == walk.session_id
    assert (made.lineage or {})["merge_source"] == other.id
    for session_id in (made.id, walk.session_id):
        assert walk.texts(session_id)[-1] == "Both, merged by a model."
    assert len(walk.texts(made.id)) == 2
    with walk.refused("invalid_params"):
        client.merge(walk.session_id, walk.session_id, "x")


def the_tree_of_sessions_is_drawn(walk: Walk) -> None:
    """Rows 80, 84 to 87, 171 (GetSessionTree): connectors and gutters, by session and project."""
    client = walk.client
    rows = client.catalog_forest(session_id=walk.session_id, layout=True).nodes
    assert rows[0].session_id == walk.session_id
    children = [one for one in rows if one.parent_id == walk.session_id]
    assert len(children) >= 4
    assert [one.connector for one in children] == [True] * len(children)
    assert [one.last for one in children] == [False] * (len(children) - 1) + [True]
    project = client.catalog_forest(cwd=CWD).nodes
    assert {one.session_id for one in rows} <= {one.session_id for one in project}
    drawn = client.catalog_forest(session_id=walk.session_id, form="text", layout=True).text
    assert drawn is not None
    assert ("├─" in drawn, "└─" in drawn) == (True, True)
    back = str(walk.info.leaf_id)
    found = client.navigate(walk.session_id, walk.ids["live"])
    assert found.editor_text == "here"
    walk.say("instead", SHARUR.user("here, in other words"))
    nodes = client.tree(walk.session_id, layout=True).nodes
    assert sum(one.connector is True for one in nodes) >= 2
    assert "└─" in (client.tree(walk.session_id, form="text").text or "")
    client.branch(walk.session_id, back)


def sessions_are_found_and_continued(walk: Walk) -> None:
    """Rows 25 to 29 (ListSessions, --continue): by an entry, a name, part of an id; two are ambiguous."""
    client = walk.client
    walk.say("last", SHARUR.assistant("The last word."))
    assert client.continue_recent(cwd=CWD).session.id == walk.session_id
    held = client.open(entry_id=walk.ids["last"])
    assert held.id == walk.session_id
    client.update(walk.session_id, title="Only this one is called so")
    assert client.resolve("Only this one is called so").id == walk.session_id
    for number in (1, 2):
        made = client.create(CWD, session_id=f"twin-of-two-{number}", persist="immediate")
        assert made.created
    with walk.refused("ambiguous_ref") as why:
        client.resolve("twin-of-two")
    assert len(why["matches"]) == 2
    listed = client.list(cwd=CWD).sessions
    assert walk.session_id in {one.id for one in listed}
    assert [one.updated_at or "" for one in listed] == sorted(
        (one.updated_at or "" for one in listed), reverse=True
    )


def a_session_is_exported_and_imported(walk: Walk) -> None:
    """Rows 101, 103: a file of its own; the import has a new id, this project, and every message."""
    client = walk.client
    place = walk.folder.with_name("exported.jsonl")
    done = client.export(walk.session_id, format="sharur", path=str(place))
    assert done.path == str(place)
    made = client.import_(path=str(place), cwd="/home/ana/here")
    client.update(made.session.id, title=f"Imported: {walk.info.title}")
    walk.follow(made.session)
    assert (made.session.id != walk.session_id, made.session.cwd) == (True, "/home/ana/here")
    assert made.report["problems"] == []
    ids = [
        [row.entry["id"] for row in on_path(walk, one)]
        for one in (walk.session_id, made.session.id)
    ]
    assert ids[0] == ids[1]
    for name in ("sharur-export", "sharur-legacy-kind"):
        text = (SAMPLES / f"{name}.jsonl").read_text()
        old = client.import_(content=text).session
        assert old.message_count == 2


def a_session_is_deleted_and_restored(walk: Walk) -> None:
    """Rows 33, 154 (DeleteSession): one that is not loaded too, and it comes back as it was."""
    client, texts, place = walk.client, walk.texts(), walk.file()
    restarted(walk)
    client.delete(walk.session_id)
    assert not place.exists()
    assert walk.session_id in {one.session_id for one in client.trash().sessions}
    with walk.refused("session_not_found"):
        client.append(walk.session_id, message=SHARUR.user("x"))
    assert client.restore(walk.session_id).path == str(place)
    assert walk.texts() == texts
