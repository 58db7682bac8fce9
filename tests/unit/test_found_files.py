"""Folders that a command takes stand for the session files in them."""

from __future__ import annotations

from pathlib import Path

from sessiond.cli.offline.found_files import found_files


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
