"""Sessions of opencode become native sessions with the context that the agent would go on with."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sessiond.testing.daemon import Refusal
from tests.kit.agents import context_of, copied
from tests.kit.house import House
from tests.kit.opencode import (
    BEGAN,
    FOOTER,
    TREE,
    database,
    text,
    with_message,
    with_session,
)

BEGUN = [
    "user: add a footer",
    'assistant: thinking look + read call_1 {"filePath": "/home/ann/site/index.html"} + Footer added.',
    "result of read call_1: <html>",
]
NOW = [
    "user: What did we do so far?",
    "assistant: Summary: a footer was added.",
    "user: make it grey",
    "assistant: Grey now.",
    "user: deploy",
]
SUMMARY = "msg_a4000000000fAAAAAAAAAAAAAA"


def child(session_id: str, parent_id: str) -> list[Any]:
    """Return the statements that add a subagent's session with one message."""
    return [
        with_session(session_id, parent_id=parent_id, time_created=BEGAN + 7),
        *with_message(session_id, f"msg_{session_id}", 8, {"role": "user"}, text(session_id)),
    ]


async def test_a_session_of_version_1_is_imported(real_house: House, tmp_path: Path) -> None:
    path = database(tmp_path / "opencode.db")
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        answer = await copied(wire, path)
        session = answer["session"]
        assert answer["report"] == {
            "format": "opencode",
            "migrated_from": None,
            "entries": 10,
            "problems": [],
            "problem_count": 0,
            "dropped": 0,
        }
        assert (session["title"], session["cwd"]) == ("Add a footer", "/home/ann/site")
        assert (session["agent"], session["model"]) == ("opencode", "claude-sonnet-5")
        assert session["leaf_id"] == "msg_a40000000011AAAAAAAAAAAAAA"
        assert session["lineage"] == {"header_id": FOOTER}
        assert session["created_at"] == "2026-11-05T12:00:00.000Z"
        usage = session["usage"]
        assert (usage["input_tokens"], usage["output_tokens"]) == (1480, 132)
        assert (usage["cache_read_tokens"], usage["cache_write_tokens"]) == (1100, 960)
        assert usage["cost"] == pytest.approx(0.017)
        assert await context_of(wire, session["id"]) == NOW
        before = await context_of(wire, session["id"], entry_id=SUMMARY)
        assert before == [*BEGUN, "user: make it grey", "assistant: Grey now.", *NOW[:2]]
    assert [one.name for one in tmp_path.iterdir() if "opencode" in one.name] == ["opencode.db"]


async def test_a_session_of_version_2_is_imported(real_house: House, tmp_path: Path) -> None:
    path = database(tmp_path / "opencode.db", "v2")
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        answer = await copied(wire, path, format="opencode")
        session = answer["session"]
        assert await context_of(wire, session["id"]) == [
            "summary: The page was renamed to b.\n\nUser: rename the page",
            "user: undo that",
            "assistant: Undone.",
        ]
        usage = session["usage"]
        assert (usage["input_tokens"], usage["output_tokens"]) == (330, 58)
        assert (usage["cache_read_tokens"], usage["cache_write_tokens"]) == (600, 400)
        assert usage["cost"] == pytest.approx(0.02)
        problems = [(one["line"], one["detail"]) for one in answer["report"]["problems"]]
        assert problems == [
            (4, "left out: rows of type idle, 1 in all"),
            (9, "left out: rows of type compaction.failed, 1 in all"),
        ]


@pytest.mark.parametrize("folder", ["", "storage"])
async def test_a_tree_is_imported(real_house: House, tmp_path: Path, folder: str) -> None:
    shutil.copytree(TREE, tmp_path / "data")
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        session = (await copied(wire, tmp_path / "data" / folder))["session"]
        assert (session["title"], session["cwd"]) == ("Add a footer", "/home/ann/site")
        assert await context_of(wire, session["id"]) == BEGUN
        again = await copied(wire, tmp_path / "data", source_id=FOOTER, if_exists="skip")
        assert (again["imported"], again["twins"]) == (False, [session["id"]])


async def test_a_session_is_imported_while_a_writer_holds_the_log(
    real_house: House, tmp_path: Path
) -> None:
    path = database(tmp_path / "opencode.db")
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        for sql in with_message(FOOTER, "msg_z", 10**6, {"role": "user"}, text("and test")):
            writer.execute(*sql)
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("DELETE FROM message")
        async with real_house.daemon() as daemon, daemon.connect() as wire:
            session = (await copied(wire, path))["session"]
            assert await context_of(wire, session["id"]) == [*NOW, "user: and test"]
        writer.execute("COMMIT")


async def test_a_compaction_keeps_messages_in_their_order(
    real_house: House, tmp_path: Path
) -> None:
    between = with_message(FOOTER, "msg_b", 70_000, {"role": "user"}, text("darker"))
    path = database(tmp_path / "opencode.db", sql=between)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        session = (await copied(wire, path))["session"]
        shown = [*NOW[:4], "user: darker", NOW[4]]
        assert await context_of(wire, session["id"]) == shown


async def test_a_dry_run_says_what_an_import_would_be(real_house: House, tmp_path: Path) -> None:
    path = database(tmp_path / "opencode.db")
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        answer = await copied(wire, path, dry_run=True)
        assert (answer["imported"], answer["session"]["path"]) == (False, None)
        assert answer["session"]["title"] == "Add a footer"
        assert (await wire.call("session/list"))["sessions"] == []


async def test_a_subagents_copy_names_the_newest_copy_of_its_parent(
    real_house: House, tmp_path: Path
) -> None:
    sql = [*child("ses_a", FOOTER), *child("ses_b", "ses_gone")]
    path = database(tmp_path / "opencode.db", sql=sql)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        orphan = (await copied(wire, path, source_id="ses_a"))["session"]
        # Without a copy of the parent its id at the source is all there is.
        lineage = {"parent_id": FOOTER, "subagent": True, "header_id": "ses_a"}
        assert orphan["lineage"] == lineage
        for _ in range(2):
            parent = (await copied(wire, path, source_id=FOOTER))["session"]["id"]
            found = (await copied(wire, path, source_id="ses_a"))["session"]
            assert found["lineage"] == lineage | {"parent_id": parent}
        lost = (await copied(wire, path, source_id="ses_b"))["session"]
        assert lost["lineage"]["parent_id"] == "ses_gone"
        assert await context_of(wire, lost["id"]) == ["user: ses_b"]


async def test_a_store_of_several_sessions_needs_an_id(real_house: House, tmp_path: Path) -> None:
    path = database(tmp_path / "opencode.db", sql=child("ses_a", FOOTER))
    native = tmp_path / "a.jsonl"
    native.write_text("{}\n")
    async with real_house.daemon() as daemon, daemon.connect() as wire:

        async def refused(**params: Any) -> dict[str, Any]:
            with pytest.raises(Refusal) as caught:
                await wire.call("session/import", **params)
            data: dict[str, Any] = caught.value.data
            assert data["kind"] == "invalid_params"
            return data

        for more in ({}, {"source_id": "ses_9"}):
            data = await refused(path=str(path), **more)
            assert (data["path"], data["available"]) == ("source_id", [FOOTER, "ses_a"])
        assert (await refused(path=str(native), source_id="ses_a"))["path"] == "source_id"
        assert (await refused(content="{}", source_id="ses_a"))["path"] == "source_id"
        wrong = await refused(path=str(path), source_id="ses_a", format="codex")
        assert wrong["path"] == "format"


async def test_what_cannot_be_read_is_refused(real_house: House, tmp_path: Path) -> None:
    empty = tmp_path / "empty.db"
    with closing(sqlite3.connect(empty)) as connection:
        connection.execute("CREATE TABLE session(id TEXT)")
    title = "New session - 2026-01-01T00:00:00.000Z"
    untold = [("DELETE FROM message", ()), ("UPDATE session SET title = ?", (title,))]
    silent = database(tmp_path / "silent.db", sql=untold)
    (tmp_path / "folder").mkdir()
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        for path, kind in (
            (empty, "session_corrupt"),
            (silent, "session_corrupt"),
            (tmp_path / "folder", "storage_error"),
            (tmp_path / "none.db", "storage_error"),
        ):
            with pytest.raises(Refusal) as caught:
                await copied(wire, path)
            assert caught.value.data["kind"] == kind
        assert (await wire.call("session/list"))["sessions"] == []


async def test_lines_that_are_no_objects_are_reported(real_house: House, tmp_path: Path) -> None:
    bad = with_message(FOOTER, "msg_y", 10**6, "{no")
    path = database(tmp_path / "opencode.db", sql=bad)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        answer = await copied(wire, path)
        assert answer["report"]["dropped"] == 1
        (problem,) = answer["report"]["problems"]
        assert (problem["kind"], problem["line"]) == ("bad_line", 10)
        assert await context_of(wire, answer["session"]["id"]) == NOW
