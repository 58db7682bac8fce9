"""Data of earlier versions: opened with unchanged ids, seqs, heads, contexts and epochs."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sessiond.model.ids import derive_entry_id
from sessiond.testing.daemon import running_daemon
from tests.kit.calls import session_info

SAMPLE = Path(__file__).parent.parent / "samples" / "upgrade" / "spine"
EXPECTED: dict[str, Any] = json.loads((SAMPLE / "expected.json").read_bytes())
TREE, DRAFT = "spine-tree-0001", "spine-draft-0001"
OLD_HOME = "/var/tmp/sessiond-home"
# What newer versions may say otherwise: how a session is summed up, not what it is.
SUMMARY = {"message_count"}


@pytest.fixture
def upgraded(tmp_path: Path) -> Path:
    """Make a copy of the sample in a home, and a catalog that knows the copy's inode."""
    home = tmp_path / "upgraded"
    shutil.copytree(SAMPLE / "home", home)
    profile = home / "profiles" / "default"
    for folder in ("sessions", "pending", "trash"):
        (profile / folder).mkdir(exist_ok=True)
    with closing(sqlite3.connect(profile / "catalog.sqlite")) as catalog, catalog:
        catalog.execute("PRAGMA wal_autocheckpoint = 0")
        for session_id, old in catalog.execute("SELECT session_id, path FROM sessions").fetchall():
            path = Path(old.replace(OLD_HOME, str(home)))
            found = path.stat()
            catalog.execute(
                "UPDATE sessions SET path = ?, inode = ?, mtime_ns = ?,"
                " info = CAST(replace(info, ?, ?) AS BLOB) WHERE session_id = ?",
                (str(path), found.st_ino, found.st_mtime_ns, OLD_HOME, str(home), session_id),
            )
    return home


def test_the_sample_is_what_the_old_version_left() -> None:
    profile = SAMPLE / "home" / "profiles" / "default"
    with closing(sqlite3.connect(f"file:{profile / 'catalog.sqlite'}?immutable=1", uri=True)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (1,)
    assert list((profile / "pending").iterdir()) == [profile / "pending" / f"{DRAFT}.jsonl"]
    assert len(list((profile / "sessions").iterdir())) == 2
    assert list((SAMPLE / "home" / "locks").iterdir())
    text = b"".join(path.read_bytes() for path in (SAMPLE / "home").rglob("*.jsonl"))
    for kind in (b"leaf", b"label", b"compaction", b"branch_summary", b"session_info", b"session"):
        assert b'"type":"%s"' % kind in text
    assert b'"atom":[3,3]' in text
    assert b'"head":"reviewer"' in text


@pytest.mark.parametrize("session_id", EXPECTED)
async def test_a_session_is_what_it_was(upgraded: Path, session_id: str) -> None:
    was = EXPECTED[session_id]
    async with running_daemon(upgraded) as daemon, daemon.connect() as wire:
        info = await session_info(wire, session_id)
        told = {name: value for name, value in was["info"].items() if name not in SUMMARY}
        if told["status"] is None:
            # A status that nobody set is that of the last turn now.
            del told["status"]
        assert {name: info[name] for name in told} == told
        heads = (await wire.call("session/heads", session_id=session_id))["heads"]
        assert heads == was["heads"]
        entries = await wire.call("session/entries", session_id=session_id)
        assert entries["entries"] == was["entries"]
        context = await wire.call("build_context", session_id=session_id)
        assert {name: context[name] for name in was["context"]} == was["context"]
        labels = (await wire.call("session/labels", session_id=session_id))["labels"]
        assert was["labels"].items() <= {one["entry_id"]: one["label"] for one in labels}.items()
        assert (await wire.call("session/verify", session_id=session_id))["ok"]


@pytest.mark.parametrize("session_id", EXPECTED)
async def test_a_cursor_of_the_old_version_goes_on(upgraded: Path, session_id: str) -> None:
    was = EXPECTED[session_id]
    entry = was["entries"][-1]
    async with running_daemon(upgraded) as daemon, daemon.connect() as wire:
        after = {"seq": entry["seq"] - 1, "epoch": was["info"]["epoch"]}
        answer = await wire.call("subscribe", session_id=session_id, after=after)
        assert "replaced" not in answer
        event = (await wire.next_notification())["params"]
        assert (event["seq"], event["entry"]) == (entry["seq"], entry["entry"])
        assert event["epoch"] == was["info"]["epoch"]


async def test_lists_show_what_they_showed(upgraded: Path) -> None:
    async with running_daemon(upgraded) as daemon, daemon.connect() as wire:
        listed = await wire.call("session/list")
        assert {one["id"] for one in listed["sessions"]} == set(EXPECTED) - {DRAFT}
        assert listed["unreadable"] == []
        epochs = {one["id"]: one["epoch"] for one in listed["sessions"]}
        assert epochs == {name: EXPECTED[name]["info"]["epoch"] for name in epochs}
        with_drafts = await wire.call("session/list", drafts=True)
        assert {one["id"] for one in with_drafts["sessions"]} == set(EXPECTED)


async def test_it_goes_on_where_it_was_and_nothing_is_rewritten(upgraded: Path) -> None:
    (path,) = (upgraded / "profiles" / "default" / "sessions").glob(f"*{TREE}.jsonl")
    before = path.read_bytes()
    async with running_daemon(upgraded) as daemon, daemon.connect() as wire:
        # A retry of a call that the old version stored, spelled as it was then.
        entry_id = derive_entry_id(TREE, "once", 0).encode()
        (was,) = (line for line in before.split(b"\n") if b'"id":"%s"' % entry_id in line[:99])
        reply = json.loads(was)["message"]
        params = {"session_id": TREE, "message": reply, "idempotency_key": "once"}
        await wire.send(json.dumps({"id": 7, "method": "append", "params": params}).encode())
        assert (await wire.answer(7))["duplicate"]
        stored = await wire.call("append", session_id=TREE, message=reply, head="reviewer")
        assert stored["seq"] == EXPECTED[TREE]["info"]["seq"] + 1
    assert path.read_bytes().startswith(before)


async def test_a_draft_of_the_old_version_becomes_a_session(upgraded: Path) -> None:
    async with running_daemon(upgraded) as daemon, daemon.connect() as wire:
        reply = {"role": "assistant", "content": "Done."}
        stored = await wire.call("append", session_id=DRAFT, message=reply)
        assert stored["seq"] == 2
        info = await session_info(wire, DRAFT)
        assert (info["persisted"], info["epoch"]) == (True, EXPECTED[DRAFT]["info"]["epoch"])
    assert list((upgraded / "profiles" / "default" / "pending").iterdir()) == []


async def test_what_there_was_not_yet_works_on_it(upgraded: Path) -> None:
    async with running_daemon(upgraded) as daemon, daemon.connect() as wire:
        for method in ("session/archive", "session/unarchive", "session/delete", "session/purge"):
            assert await wire.call(method, session_id=TREE) == {}
