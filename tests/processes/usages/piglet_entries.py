"""Stages of a walk through piglet's usage: one session, its entries and its tree."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.kit.link import Refused
from tests.kit.readers.piglet import PigletFile
from tests.processes.harness.walk import Walk
from tests.processes.harness.walk_stages import restarted
from tests.processes.usages.piglet import CWD, PIGLET, STAMP

Json = Any
SAMPLES = Path(__file__).parents[2] / "samples" / "piglet"
HOLDER = """
import fcntl, sys
held = open(sys.argv[1], "a+")
fcntl.flock(held, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.readline()
"""
LONG = "Explain the whole flow, from the first request to the last cookie & every redirect between."


def piglets_folders_are_roots(walk: Walk) -> None:
    """Rows 9, 22, 28, 30, 157, 158: sessions of any directory are listed, and read in place."""
    client = walk.client
    missing = walk.folder.with_name("missing")
    with walk.refused("invalid_params"):
        client.catalog_roots(action="add", path=str(missing))
    for name in ("piglet.jsonl", "piglet-fork.jsonl"):
        (walk.folder / name).write_bytes((SAMPLES / name).read_bytes())
    (root,) = client.catalog_roots(action="add", path=str(walk.folder), kind="piglet")
    assert (root.kind, root.sessions) == ("piglet", 2)
    theirs = {one.title: one for one in client.list(root=str(walk.folder)).sessions}
    shown = theirs["Auth refactor"]
    assert (shown.cwd, shown.model, shown.agent_program) == (CWD, "claude-opus-4-6", "piglet")
    assert (shown.first_message or "").startswith("explain the auth flow")
    for session in theirs.values():
        walk.follow(session)


def a_session_begins_with_its_file(walk: Walk) -> None:
    """Rows 1, 2, 5, 6, 11, 19, 21: the file is there at once, and private."""
    made = walk.client.create(CWD, persist="immediate", **walk.place)
    assert (made.created, made.session.persisted) == (True, True)
    walk.begin(made.session)
    assert walk.file().stat().st_mode & 0o777 == 0o600
    if walk.root is not None:
        assert walk.file() == walk.root / f"{walk.session_id}.jsonl"
        assert PigletFile(walk.file().read_bytes()).meta["cwd"] == CWD


def every_kind_of_message_is_appended(walk: Walk) -> None:
    """Rows 50, 51, 64, 65, 106: texts, an image, thinking, calls and results, usage, an error."""
    picture = {"data": "iVBORw0KGgo=", "mimeType": "image/png"}
    shown = {"role": "user", "content": "and this", "blocks": [picture], "timestamp": STAMP}
    walk.say("question", PIGLET.user(LONG))
    read = {"id": "c1", "name": "read", "arguments": {"path": "auth.go"}}
    walk.say("called", PIGLET.assistant({"thinking": "read it"}, "Reading.", read))
    ended: Json = {"toolCallId": "c1", "toolName": "read", "isError": False, "timestamp": STAMP}
    ended |= {"content": [{"text": "package auth\n"}]}
    walk.say("result", {"role": "toolResult", **ended})
    walk.say("answer", PIGLET.assistant("The flow starts in auth.go."))
    walk.say("shown", shown)
    walk.say("failed", PIGLET.assistant("I", stopped="error"))
    walk.say("told", PIGLET.assistant("It is a cookie."))
    assert walk.info.usage is not None
    assert (walk.info.usage["input_tokens"], walk.info.usage["cost"]) == (3600, 1.0)
    last = walk.client.entries(walk.session_id, types=["message"]).entries[-1].entry
    assert last["message"]["content"] == [{"text": "It is a cookie."}]
    before = walk.client.append(walk.session_id, message=PIGLET.user("after an offset"))
    (later,) = walk.client.entries(walk.session_id, after_seq=before.seq - 1).entries
    assert later.entry["id"] == before.leaf_id


def titles_and_models_are_written_last_wins(walk: Walk) -> None:
    """Rows 3, 36, 37, 38: title and model change no leaf; a generated title replaces no chosen one."""
    client, leaf = walk.client, walk.info.leaf_id
    assert client.update(walk.session_id, title="Auth", model="m-1").model == "m-1"
    client.update(walk.session_id, title="Auth flow")
    shown = client.update(walk.session_id, auto_title="Generated")
    assert (shown.title, shown.leaf_id) == ("Auth flow", leaf)
    restarted(walk)
    assert (walk.info.title, walk.info.model) == ("Auth flow", "m-1")
    if walk.root is not None:
        meta = PigletFile(walk.file().read_bytes()).meta
        assert (meta["title"], meta["model"]) == ("Auth flow", "m-1")
    (listed,) = client.list(title="Auth flow").sessions
    assert listed.id == walk.session_id


def entries_of_extensions_are_appended(walk: Walk) -> None:
    """Rows 17, 55, 56: data of an extension reaches no model; its messages come in both roles."""
    before = walk.texts()
    walk.add("facts", {"type": "custom", "custom_type": "ext:memory:facts", "data": {"a": [1.50]}})
    note = {"type": "custom_message", "custom_type": "custom_message", "display": True}
    walk.add("note", {**note, "content": "A note.", "role": "user"})
    walk.add("thought", {**note, "content": "A thought.", "role": "assistant"})
    assert walk.texts() == [*before, "A note.", "A thought."]
    stored = walk.client.entry(walk.session_id, walk.ids["facts"]).entry
    assert (stored["custom_type"], stored["data"]) == ("ext:memory:facts", {"a": [1.5]})
    path = walk.client.path(walk.session_id, from_end=True, limit=3).entries
    assert walk.ids["facts"] in {row.entry["id"] for row in path}


def entries_are_labelled(walk: Walk) -> None:
    """Rows 58, 59, 156: labels of several targets; the last one counts; no path is cut at one."""
    client, before = walk.client, walk.texts()
    client.label(walk.session_id, walk.ids["answer"], "explained")
    client.label(walk.session_id, walk.ids["answer"], "well explained")
    client.label(walk.session_id, walk.ids["shown"], "picture")
    client.label(walk.session_id, walk.ids["shown"], None)
    (label,) = client.labels(walk.session_id).labels
    assert (label.entry_id, label.label) == (walk.ids["answer"], "well explained")
    with walk.refused("entry_not_found"):
        client.label(walk.session_id, "ffffffff", "x")
    walk.say("below", PIGLET.user("below the labels"))
    assert walk.texts() == [*before, "below the labels"]


def a_branch_is_left_and_the_tree_is_shown(walk: Walk) -> None:
    """Rows 60, 61, 74, 75, 77, 78, 81, 82, 85, 111: the old branch stays; a plan has its summary.

    The infos of the active path and the whole tree come in piglet's order.
    """
    client = walk.client
    walk.ids["trunk"] = walk.ids["below"]
    moved = client.branch(walk.session_id, walk.ids["answer"])
    assert walk.info.leaf_id == moved.leaf_id
    walk.say("side", PIGLET.user("Try JWT."))
    edit = {"id": "c2", "name": "edit", "arguments": {"path": "jwt.go"}}
    walk.say("tried", PIGLET.assistant(edit, "Tried."))
    plan = client.plan_branch_summary(walk.session_id, walk.ids["trunk"])
    assert [one for one in plan.entries if one in walk.ids.values()] == [
        walk.ids["side"],
        walk.ids["tried"],
    ]
    assert plan.prompt is not None
    assert "Try JWT." in plan.prompt
    left = client.branch(walk.session_id, walk.ids["trunk"], summary="JWT was tried.")
    stored = client.entry(walk.session_id, str(left.leaf_id)).entry
    assert (stored["type"], stored["from_id"]) == ("branch_summary", walk.ids["tried"])
    assert stored["summary"] == "JWT was tried."
    with walk.refused("entry_not_found"):
        client.branch(walk.session_id, "ffffffff")
    nodes = client.tree(walk.session_id).nodes
    assert [one.id for one in nodes if one.id in walk.ids.values()][:2] == [
        walk.ids["question"],
        walk.ids["called"],
    ]
    row = next(one for one in nodes if one.id == walk.ids["question"])
    assert (row.depth, row.on_active_path, row.preview) == (0, True, row.preview)
    assert LONG.startswith((row.preview or "").rstrip(".…"))
    labelled = next(one for one in nodes if one.id == walk.ids["answer"])
    assert (labelled.label, labelled.children) == ("well explained", 2)
    infos = client.path(walk.session_id).entries
    children = {one.entry["id"]: one.children for one in infos}
    assert children[walk.ids["answer"]] == 2
    assert "well explained" in (client.tree(walk.session_id, form="text").text or "")
    if walk.root is not None:
        theirs = PigletFile(walk.file().read_bytes())
        assert [(one.id, one.depth) for one in nodes] == theirs.tree()
        assert [one.entry["id"] for one in infos] == [item.id for item in theirs.path()]


def the_leaf_is_reset_and_the_text_comes_back(walk: Walk) -> None:
    """Rows 76, 79, 80: an empty trunk, also after a restart; the whole text for the editor."""
    client, back = walk.client, str(walk.info.leaf_id)
    found = client.navigate(walk.session_id, walk.ids["question"])
    assert found.editor_text == LONG
    client.reset(walk.session_id)
    restarted(walk)
    assert walk.texts() == []
    walk.say("second", PIGLET.user("a second trunk"))
    assert walk.texts() == ["a second trunk"]
    client.branch(walk.session_id, back)
    empty = client.create(CWD, persist="immediate", **walk.place).session
    client.reset(empty.id)
    walk.follow(empty)


def piglet_works_beside(walk: Walk) -> None:
    """Rows 14, 158: a line of piglet's own is an event like any other, and the next append's parent.

    While piglet holds its lock nothing is written. Afterwards the append is stored once.
    """
    path = walk.file()
    theirs = PigletFile(path.read_bytes())
    with path.open("ab") as file:
        file.write(
            b'{"type":"user","id":"feed0001","parentId":"%s","ts":"2026-04-24T10:00:30Z",'
            b'"data":{"content":"piglet says"}}\n' % theirs.leaf.encode()
        )
    stored = walk.say("ours", PIGLET.user("we say"))
    assert stored.entries[0].parent_id == "feed0001"
    assert walk.texts()[-2:] == ["piglet says", "we say"]
    walk.agree()
    before = path.read_bytes()
    command = [sys.executable, "-c", HOLDER, str(path.with_name(f"{path.name}.lock"))]
    params: Json = {"session_id": walk.session_id, "idempotency_key": "locked"}
    params |= {"message": PIGLET.user("written behind the lock")}
    with (
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as holder,
        walk.daemon.connect() as link,
    ):
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(Refused) as refusal:
            link.ask("session/append", **params)
        assert (refusal.value.kind, refusal.value.data["errno"]) == ("storage_error", "EBUSY")
        assert path.read_bytes() == before
        holder.communicate("\n")
    walk.client.call("session/append", **params)
    assert walk.client.call("session/append", **params)["duplicate"]
    assert walk.texts()[-1] == "written behind the lock"
