"""Stages of a walk through Operator's usage: one session, its entries, its tree and its context."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from sessiond_client import Asked, Summarize
from tests.processes.harness.walk import Walk
from tests.processes.harness.walk_stages import restarted
from tests.processes.usages.operator import (
    ANSWERED,
    CWD,
    OPERATOR,
    READ,
    USAGE,
    block,
    said,
)

Json = Any
MANY = 200
SAMPLE = Path(__file__).parents[2] / "samples" / "operator" / "operator.jsonl"


def operators_folders_are_roots(walk: Walk) -> None:
    """Rows 9, 22, 28 to 31, 155, 157, 158: files are listed and read in place; a root can go again.

    The files that come into a root are listed with progress.
    """
    client = walk.client
    assert client.info()["data_folder"] == str(walk.daemon.profile)
    theirs = walk.folder / SAMPLE.name
    theirs.write_bytes(SAMPLE.read_bytes())
    (root,) = client.catalog_roots(action="add", path=str(walk.folder), kind="operator")
    assert (root.kind, root.sessions) == ("operator", 1)
    (listed,) = client.list(root=str(walk.folder)).sessions
    assert (listed.title, listed.cwd, listed.agent_program) == ("Release planning", CWD, "operator")
    assert client.open(path=str(theirs)).id == listed.id
    walk.follow(listed)
    many = walk.folder.with_name("many")
    many.mkdir()
    client.catalog_roots(action="add", path=str(many), kind="operator")
    header, *lines = SAMPLE.read_bytes().splitlines(keepends=True)
    for number in range(MANY):
        own = header.replace(b'"id":"', b'"id":"%03d-' % number, 1)
        (many / f"{number}.jsonl").write_bytes(b"".join([own, *lines]))
    told: list[str] = []
    page = client.list(
        root=str(many), cwd=CWD, on_progress=lambda _done, _total, unit: told.append(unit)
    )
    assert (len(page.sessions), set(told)) == (MANY, {"sessions"})
    assert page.unreadable == []
    client.catalog_roots(action="remove", path=str(many))
    assert client.list(root=str(many)).sessions == []


def a_session_begins_and_its_file_appears_with_the_first_answer(walk: Walk) -> None:
    """Rows 1, 2, 5, 6, 10, 11, 21, 50: lazily persisted, as Operator does."""
    made = walk.client.create(CWD, **walk.place)
    assert (made.created, made.session.persisted) == (True, False)
    walk.begin(made.session)
    walk.say("question", OPERATOR.user("Plan the release"))
    assert not walk.info.persisted
    walk.say("answer", OPERATOR.assistant("Plan A: ship on Friday."))
    assert walk.info.persisted
    pattern = r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d{6}_" + re.escape(walk.session_id) + r"\.jsonl"
    assert re.fullmatch(pattern, walk.file().name)
    if walk.root is not None:
        assert walk.file().parent == walk.root


def every_kind_of_message_is_appended(walk: Walk) -> None:
    """Rows 50, 51, 64, 65, 106: blocks of every kind, a batch of results, usage, an error."""
    picture = {"type": "image", "images": [{"mime_type": "image/png", "data": "iVBORw0KGgo="}]}
    sound = {"type": "audio", "audio": [{"mime_type": "audio/wav", "data": "UklGRg=="}]}
    thought = {"type": "thinking", "content": "two files", "signature": "sig=="}
    read = {**READ, "id": "t1", "args": {"path": "CHANGELOG.md"}}
    edit = {**READ, "name": "edit", "kind": "edit", "id": "t2", "args": {"path": "VERSION"}}
    texts = {"t1": "v1", "t2": "1.0"}
    walk.say("system", said("system", block("Be brief.")))
    walk.say("asked", said("user", block("What changed?"), picture, sound))
    walk.say("called", said("assistant", thought, block("Looking."), read, edit, **ANSWERED))
    ended = [block(told, "tool_result", id=one, is_error=False) for one, told in texts.items()]
    walk.say("results", said("tool", *ended))
    walk.say("told", OPERATOR.assistant("Two things changed."))
    assert walk.info.usage is not None
    assert walk.info.usage["input_tokens"] == 3 * USAGE["input_tokens"]
    shaped = walk.client.build_context(walk.session_id, shape="openai").messages
    results = [one for one in shaped if one["role"] == "tool"]
    assert [(one["tool_call_id"], one["content"]) for one in results] == [*texts.items()]
    last = walk.client.path(walk.session_id, from_end=True, limit=1).entries[0].entry
    assert last["message"]["contents"] == [block("Two things changed.")]


def settings_and_entries_of_extensions_are_appended(walk: Walk) -> None:
    """Rows 17, 36, 52 to 57, 63, 106, 177: settings hold at the leaf, custom data reach no model."""
    before = walk.texts()
    walk.add("level", {"type": "thinking_level_change", "thinking_level": "high"})
    walk.add("model", {"type": "model_change", "model_id": "m-1", "provider": "p"})
    walk.add("goal", {"type": "custom", "custom_type": "goal", "data": {"budget": 1.50}})
    walk.add("channel", {"type": "channel", "name": "telegram", "chat_id": "42"})
    walk.client.update(walk.session_id, title="Release planning")
    note: Json = {"type": "custom_message", "custom_type": "cron", "content": [block("Freeze.")]}
    walk.add("note", {**note, "display": False, "details": {"by": "cron"}})
    assert walk.texts() == [*before, "Freeze."]
    built = walk.client.build_context(walk.session_id)
    assert (built.thinking_level, built.model) == ("high", {"model_id": "m-1", "provider": "p"})
    assert (walk.info.title, walk.info.model) == ("Release planning", "m-1")
    for name, member, value in (
        ("goal", "data", {"budget": 1.5}),
        ("channel", "chat_id", "42"),
        ("note", "display", False),
        ("note", "details", {"by": "cron"}),
    ):
        stored = walk.client.entry(walk.session_id, walk.ids[name]).entry
        assert stored[member] == value


def entries_are_labelled(walk: Walk) -> None:
    """Rows 58, 59, 156: a label is set, replaced and cleared; no path is cut at the label's entry."""
    answer, before = walk.ids["answer"], walk.texts()
    for label in ("plan", "the plan"):
        walk.client.label(walk.session_id, answer, label)
    walk.client.label(walk.session_id, walk.ids["asked"], "question")
    walk.client.label(walk.session_id, walk.ids["asked"], None)
    (found,) = walk.client.labels(walk.session_id).labels
    assert (found.entry_id, found.label) == (answer, "the plan")
    assert found.timestamp is not None
    walk.say("below", OPERATOR.user("said below a label"))
    assert walk.texts() == [*before, "said below a label"]
    with walk.refused("entry_not_found"):
        walk.client.label(walk.session_id, "no-such-entry", "x")


def the_tree_is_walked(walk: Walk) -> None:
    """Rows 60, 74, 75, 80, 81, 83: an entry, its children, paths, the nested tree, moves in place.

    To a message of the user means before the message, with its text for the editor.
    """
    client, answer = walk.client, walk.ids["answer"]
    walk.ids["trunk"] = str(walk.info.leaf_id)
    assert [one.entry["id"] for one in client.path(walk.session_id, entry_id=answer).entries] == [
        walk.ids["question"],
        answer,
    ]
    moved = client.branch(walk.session_id, answer)
    assert walk.info.leaf_id == moved.leaf_id == answer
    walk.say("other", OPERATOR.user("Or on Monday?"))
    shown = client.entry(walk.session_id, answer)
    assert shown.label == "the plan"
    assert isinstance(shown.children, list)
    assert {walk.ids["system"], walk.ids["other"]} <= set(shown.children)
    (root,) = client.tree(walk.session_id, form="nested").roots
    assert root.id == walk.ids["question"]
    assert walk.ids["other"] in {one.id for one in root.children[0].children}
    with walk.refused("entry_not_found"):
        client.branch(walk.session_id, "no-such-entry")
    walk.agree()
    found = client.navigate(walk.session_id, walk.ids["other"])
    assert (found.leaf_id, found.editor_text) == (answer, "Or on Monday?")
    again = client.navigate(walk.session_id, answer)
    assert (again.moved, again.editor_text) == (False, None)


def a_branch_is_left_with_a_summary(walk: Walk) -> None:
    """Rows 77, 78: the plan names what is left and its files; the summary is the leaf."""
    client = walk.client
    client.branch(walk.session_id, walk.ids["trunk"])
    plan = client.plan_branch_summary(walk.session_id, walk.ids["answer"])
    assert plan.common_ancestor_id == walk.ids["answer"]
    assert walk.ids["called"] in plan.entries
    assert (plan.files.read, plan.files.modified) == (["CHANGELOG.md"], ["VERSION"])
    assert plan.prompt is not None
    assert "What changed?" in plan.prompt
    summary = {"summary": "Two files were looked at.", "details": plan.details}
    moved = client.branch(walk.session_id, walk.ids["answer"], **summary)
    stored = client.entry(walk.session_id, str(moved.leaf_id)).entry
    assert (stored["type"], stored["details"]) == ("branch_summary", plan.details)
    assert "Two files were looked at." in walk.texts()[-1]

    def model(asked: Asked) -> None:
        assert isinstance(asked.about, Summarize)
        assert (asked.about.purpose, asked.about.entry_ids) == ("branch", plan.entries)
        assert "Name the files." in asked.about.prompt
        asked.answer("A model looked at two files.")

    client.branch(walk.session_id, walk.ids["trunk"])
    with walk.offering(model, summarize=["branch"]):
        went = client.navigate(
            walk.session_id,
            walk.ids["answer"],
            summarize=True,
            instructions="Name the files.",
            timeout=60,
        )
    stored = client.entry(walk.session_id, str(went.leaf_id)).entry
    lists = "\n\n<read-files>\nCHANGELOG.md\n</read-files>\n\n<modified-files>\nVERSION\n</modified-files>"
    assert stored["summary"] == f"A model looked at two files.{lists}"
    assert stored["details"] == plan.details
    walk.agree()


def an_attempt_is_rewound_and_the_leaf_is_reset(walk: Walk) -> None:
    """Rows 76, 79, 89: entries leave the path, also after a restart; a second trunk begins."""
    before = walk.texts()
    walk.say("attempt", OPERATOR.user("Sort it."))
    failed = {"usage": USAGE, "stop_reason": "error", "error": "overloaded"}
    read = {**READ, "id": "t9", "args": {"path": "a.py"}}
    walk.say("failed", said("assistant", read, **failed))
    walk.say("in vain", said("tool", block("", "tool_result", id="t9", is_error=False)))
    found = walk.client.rewind(walk.session_id, walk.ids["attempt"])
    assert found.rewound == [walk.ids["failed"], walk.ids["in vain"]]
    assert walk.texts() == [*before, "Sort it."]
    walk.client.rewind(walk.session_id, walk.client.path(walk.session_id).entries[-2].entry["id"])
    restarted(walk)
    assert walk.texts() == before
    walk.agree()
    back = str(walk.info.leaf_id)
    walk.client.reset(walk.session_id)
    restarted(walk)
    assert (walk.info.leaf_id, walk.texts()) == (None, [])
    walk.say("trunk two", OPERATOR.user("From the start."))
    assert len(walk.client.tree(walk.session_id, form="nested").roots) == 2
    walk.client.branch(walk.session_id, back)


def the_context_is_compacted(walk: Walk) -> None:
    """Rows 108, 110, 112, 113, 115 to 118, 120, 121, 124, 139: by a plan, and again by a client."""
    client = walk.client
    walk.say("long", OPERATOR.user("Go through all files. " * 20))
    read = {**READ, "id": "t10", "args": {"path": "b.py"}}
    walk.say("reading", said("assistant", read, **ANSWERED))
    walk.say("was read", said("tool", block("import a", "tool_result", id="t10", is_error=False)))
    walk.say("done", OPERATOR.assistant("All files are fine."))
    tokens = client.usage(walk.session_id).tokens
    assert client.usage(walk.session_id, context_window=8192 + tokens - 1).should_compact
    plan = client.plan_compaction(walk.session_id, keep_recent_tokens=1).plan
    assert plan is not None
    assert plan.first_kept_entry_id == walk.ids["done"], "no context begins with a result"
    assert walk.ids["long"] in plan.turn_prefix, "the cut is inside of a turn"
    assert "b.py" in plan.files.read
    done = client.compact(walk.session_id, plan_id=plan.plan_id, summary="All was read.")
    assert (done.tokens_before, done.leaf_id) == (plan.tokens_before, done.entry.id)
    assert client.plan_compaction(walk.session_id).reason == "compacted"
    assert walk.texts()[0].count("All was read.") == 1
    assert walk.texts()[1:] == ["All files are fine."]
    walk.say("more", OPERATOR.user("And the tests?"))
    again = client.plan_compaction(walk.session_id, keep_recent_tokens=1).plan
    assert again is not None
    assert again.previous_summary is not None
    assert "All was read." in again.previous_summary
    assert "b.py" in again.files.read, "the files are carried on"
