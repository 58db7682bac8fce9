"""Stages of a walk through Operator's usage: handlers, copies, further sessions, and their ends."""

from __future__ import annotations

from itertools import islice
from typing import Any

from sessiond_client import Asked, BeforeBranch, BeforeCompact, Notice, Presence, Signal, Summarize
from tests.processes.harness.walk import Walk
from tests.processes.usages.operator import CWD, OPERATOR
from tests.processes.usages.operator_entries import SAMPLE

Json = Any


def a_handler_vetoes_a_branch_and_supplies_a_summary(walk: Walk) -> None:
    """Rows 137, 140 to 143: handlers veto branches, forks and switches; a failing one blocks nothing."""
    client, answer, leaf = walk.client, walk.ids["answer"], walk.info.leaf_id

    def forbid(asked: Asked) -> None:
        asked.veto("the tests are running")

    def supply(asked: Asked) -> None:
        assert isinstance(asked.about, BeforeBranch)
        asked.answer("Summed up by a handler.")

    def fail(_asked: Asked) -> None:
        raise LookupError

    with walk.offering(forbid, hooks=["before_branch", "before_fork", "before_switch"]):
        for refused in (
            lambda: client.branch(walk.session_id, answer),
            lambda: client.fork(walk.session_id),
            lambda: client.create(CWD, switch_from=walk.session_id),
        ):
            with walk.refused("vetoed") as why:
                refused()
            assert (why["by"], why["reason"]) == ("helper", "the tests are running")
    assert walk.info.leaf_id == leaf
    with walk.offering(supply, hooks=["before_branch"]):
        client.branch(walk.session_id, answer)
    assert "Summed up by a handler." in walk.texts()[-1]
    with walk.offering(fail, hooks=["before_branch"]):
        client.branch(walk.session_id, str(leaf))
    assert walk.info.leaf_id == leaf


def a_handler_is_asked_before_a_compaction(walk: Walk) -> None:
    """Rows 111, 118, 120, 121, 138, 139: a veto, a handler's summary, and that of a client's model.

    A branch from before the compaction has its whole context.
    """
    client = walk.client

    def forbid(asked: Asked) -> None:
        assert isinstance(asked.about, BeforeCompact)
        asked.veto("not now")

    def supply(asked: Asked) -> None:
        asked.answer("Summed up by a handler.")

    def model(asked: Asked) -> None:
        assert isinstance(asked.about, Summarize)
        assert "Summed up by a handler." in asked.about.prompt
        assert "Mind the tests." in asked.about.prompt
        asked.answer("Summed up by a model.")

    walk.say("c1", OPERATOR.user("Read on. " * 9000))
    walk.say("c2", OPERATOR.user("What is in it?" * 7000))
    with walk.offering(forbid, hooks=["before_compact"]), walk.refused("vetoed"):
        client.compact(walk.session_id)
    with (
        client.subscribe(walk.session_id, signals=True) as events,
        walk.offering(supply, hooks=["before_compact"]),
    ):
        done = client.compact(walk.session_id)
        told = [one.params for one in islice(events, 3) if isinstance(one, Notice)]
    assert [one["state"] for one in told] == ["started", "completed"]
    assert told[1]["tokens_after"] == done.tokens_after
    assert done.tokens_before is not None
    assert done.tokens_after is not None
    assert done.tokens_before > done.tokens_after
    walk.say("c3", OPERATOR.user("Read on. " * 9000))
    walk.say("c4", OPERATOR.user("What is in it?" * 7000))
    with walk.offering(model, summarize=["compaction"]):
        client.compact(walk.session_id, instructions="Mind the tests.")
    assert "Summed up by a model." in walk.texts()[0]
    walk.agree()
    back = str(walk.info.leaf_id)
    client.branch(walk.session_id, walk.ids["told"])
    assert walk.texts()[:2] == ["Plan the release", "Plan A: ship on Friday."]
    client.branch(walk.session_id, back)
    assert "Summed up by a model." in walk.texts()[0]


def sessions_are_forked(walk: Walk) -> None:
    """Rows 90, 91, 93: a path with its labels, and the whole session in another folder."""
    client, told = walk.client, walk.ids["below"]
    path = client.fork(walk.session_id, at=told)
    walk.follow(path)
    assert (path.leaf_id is not None, path.cwd) == (True, CWD)
    assert path.lineage is not None
    assert (path.lineage["parent_id"], path.lineage["at_entry"]) == (walk.session_id, told)
    assert path.lineage["parent_path"] == str(walk.file())
    assert walk.texts(path.id)[-1] == "said below a label"
    assert [one.label for one in client.labels(path.id).labels] == ["the plan"]
    whole = client.fork(walk.session_id, entries="all", cwd="/home/ana/other")
    walk.follow(whole)
    assert (whole.cwd, whole.message_total) == ("/home/ana/other", walk.info.message_total)
    assert walk.texts(whole.id) == walk.texts()
    trees = [client.tree(one).nodes for one in (walk.session_id, whole.id)]
    assert [one.id for one in trees[0]] == [one.id for one in trees[1]]


def a_session_in_memory_is_promoted(walk: Walk) -> None:
    """Row 12: nothing is stored until the promotion, and then everything at once."""
    client = walk.client
    made = client.create(CWD, persist="never").session
    question, answer = OPERATOR.user("Only a thought."), OPERATOR.assistant("A good one.")
    entries = [{"type": "message", "message": one} for one in (question, answer)]
    client.append(made.id, entries=entries)
    assert (made.path, walk.daemon.files(made.id)) == (None, [])
    fork = client.fork(made.id)
    walk.follow(fork)
    assert walk.texts(fork.id) == ["Only a thought.", "A good one."]
    assert (fork.lineage or {}).get("parent_path") is None
    kept = client.update(made.id, persist="immediate", title="A thought")
    walk.follow(kept)
    assert kept.path is not None
    assert (kept.title, kept.persisted) == ("A thought", True)
    assert walk.texts(made.id) == ["Only a thought.", "A good one."]


def the_latest_conversation_is_continued(walk: Walk) -> None:
    """Row 25: the latest session with an answer, of this project; none there begins a new one."""
    client = walk.client
    walk.say("latest", OPERATOR.assistant("The latest word."))
    client.create(CWD, title="empty")
    assert client.continue_recent(cwd=CWD).session.id == walk.session_id
    assert client.continue_recent(cwd="/home/ana/nowhere").created


def a_session_is_exported_and_imported(walk: Walk) -> None:
    """Rows 101, 103: the same conversation under a new id, in another project."""
    client = walk.client
    exported = walk.folder.parent / "copy.jsonl"
    client.export(walk.session_id, format="operator", path=str(exported))
    made = client.import_(path=str(exported), cwd="/home/ana/other").session
    walk.follow(made)
    assert (made.id != walk.session_id, made.cwd) == (True, "/home/ana/other")
    assert made.dialect == "operator"
    assert walk.texts(made.id) == walk.texts()
    assert made.title == walk.info.title


def a_turn_is_aborted_and_all_is_saved(walk: Walk) -> None:
    """Rows 18, 49, 127, 128, 130: reasons to come and leave, phases, and an abort by a signal.

    Behind that everything is on the disk, and the daemon says so.
    """
    client = walk.client
    with (
        walk.another("front end") as front,
        front.subscribe(walk.session_id, signals=True) as events,
    ):
        client.presence(walk.session_id, state="thinking", check=True, reason="resume")
        (present,) = [one for one in islice(events, 1) if isinstance(one, Presence)]
        assert [(one.state, one.reason) for one in present.clients] == [("thinking", "resume")]
        front.signal(walk.session_id, "abort")
        (abort,) = [one for one in islice(events, 1) if isinstance(one, Signal)]
        assert abort.kind == "abort"
        assert isinstance(abort.origin, dict)
        assert abort.origin["client_id"] == "front end"
        client.presence(walk.session_id, state="aborting", check=True)
        with walk.refused("invalid_params") as why:
            client.presence(walk.session_id, state="thinking", check=True)
        assert (why["state"], why["allowed"]) == ("aborting", ["idle"])
        client.presence(walk.session_id, state="idle", check=True)
        client.presence(walk.session_id, state=None, reason="quit")
        last = [one for one in islice(events, 3) if isinstance(one, Presence)][-1]
        assert last.left is not None
        assert (last.clients, last.left.reason) == ([], "quit")
    saved = client.flush(walk.session_id, durability="disk")
    assert (saved.seq, saved.durability) == (walk.info.seq, "disk")


def damage_is_tolerated_and_reported(walk: Walk) -> None:
    """Rows 15, 16: half a line is reported; an older generation is read, and never rewritten."""
    client = walk.client
    torn = walk.folder.parent / "torn.jsonl"
    torn.write_bytes(SAMPLE.read_bytes() + b'{"id":"aa0000ff","timest')
    before = torn.read_bytes()
    info = client.open(path=str(torn))
    assert (info.problems, info.leaf_id) == (1, "aa000013")
    assert [one.kind for one in client.verify(info.id).problems] == ["torn_tail"]
    documented = SAMPLE.with_name("operator-doc-spelling.jsonl")
    assert client.open(path=str(documented)).dialect == "operator"
    old = walk.folder.parent / "old.jsonl"
    old.write_text(
        '{"type":"metadata","id":"abcdefgh","created_at":"2026-01-15T10:30:00",'
        '"updated_at":"2026-01-15T10:30:00","metadata":{}}\n{"role":"user","content":"hi"}\n'
    )
    found = client.open(path=str(old))
    assert (found.read_only_reason, walk.texts(found.id)) == ("older_version", ["hi"])
    with walk.refused("session_read_only"):
        client.append(found.id, message=OPERATOR.user("more"))
    assert torn.read_bytes() == before


def sessions_are_archived_and_deleted(walk: Walk) -> None:
    """Rows 33, 34: an archived session leaves the lists and can be read; one deleted comes back."""
    client = walk.client
    made = client.create(CWD, persist="immediate", title="Done with").session
    client.append(made.id, message=OPERATOR.assistant("Done."))
    client.archive(made.id)
    assert made.id not in {one.id for one in client.list().sessions}
    assert walk.texts(made.id) == ["Done."]
    client.unarchive(made.id)
    before = walk.texts()
    walk.leave(walk.session_id)
    place = walk.file()
    client.delete(walk.session_id)
    assert not place.exists()
    with walk.refused("session_not_found"):
        client.get(walk.session_id)
    assert client.restore(walk.session_id).path == str(place)
    assert walk.texts() == before
