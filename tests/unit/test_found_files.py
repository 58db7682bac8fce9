"""Folders that a command takes stand for the session files in them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from sessiond.cli.offline.found_files import Found, found_files
from tests.kit.opencode import BEGAN, FOOTER, TREE, database, with_session


def test_a_folder_stands_for_its_session_files(tmp_path: Path) -> None:
    names = ["b.jsonl", "2026/11/a.jsonl", "c.jsonl.zst", "2026/config.json"]
    # Indexes name sessions; they are none.
    names += ["session_index.jsonl", "construct/index.json", "construct/c.json"]
    for name in names:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}\n")
    found = found_files([str(tmp_path), str(tmp_path / "session_index.jsonl"), "-"])
    shown = ["2026/11/a.jsonl", "b.jsonl", "c.jsonl.zst", "construct/c.json"]
    assert [one.name for one in found if one.in_folder] == [str(tmp_path / one) for one in shown]
    # A file that is named by itself is taken.
    assert [one.name for one in found if not one.in_folder] == [
        str(tmp_path / "session_index.jsonl"),
        "-",
    ]


def test_a_store_stands_for_its_sessions(tmp_path: Path) -> None:
    child = with_session("ses_a", parent_id=FOOTER, time_created=BEGAN - 1)
    more = [with_session("ses_b", parent_id="ses_c"), with_session("ses_c", time_created=BEGAN + 1)]
    path = str(database(tmp_path / "opencode-dev.db", sql=[child, *more]))
    shutil.copytree(TREE / "storage", tmp_path / "storage")
    # No file in a tree is a session by itself.
    (tmp_path / "storage" / "session" / "a.jsonl").write_text("{}\n")
    (tmp_path / "opencode-bad.db").write_text("no database")
    database(tmp_path / "other.db")
    stored = [
        Found(path, in_folder=True, source_id=one) for one in (FOOTER, "ses_a", "ses_c", "ses_b")
    ]
    tree = [Found(str(tmp_path / "storage"), in_folder=True, source_id=FOOTER)]
    bad = Found(str(tmp_path / "opencode-bad.db"), in_folder=True)
    assert found_files([str(tmp_path)]) == [bad, *stored, *tree]
    assert found_files([path]) == stored
    assert found_files([str(tmp_path / "storage")]) == tree
    assert found_files([path], "ses_a") == [Found(path, source_id="ses_a")]
    # The daemon says what is wrong with a store without sessions, and a pipe is not waited for.
    empty = str(database(tmp_path / "empty.db", sql=[("DELETE FROM session", ())]))
    os.mkfifo(tmp_path / "pipe")
    assert found_files([empty, str(tmp_path / "pipe")]) == [
        Found(empty),
        Found(str(tmp_path / "pipe")),
    ]
