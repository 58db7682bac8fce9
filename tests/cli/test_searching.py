"""Search reads what entries say, in every dialect and spelling of JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from sessiond.cli.searching import Hit, search_files
from sessiond.journal.files import Files
from sessiond.journal.layout import Layout

NATIVE = {"type": "session_header", "version": 1, "timestamp": "2026-01-01T00:00:00Z", "cwd": "/p"}
PI = {"type": "session", "version": 3, "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/old"}


def message(entry_id: str, text: str, **more: object) -> dict[str, object]:
    content = [{"type": "text", "text": text}]
    body = {"role": "user", "content": content, "timestamp": 1767258001000}
    stamp = "2026-01-01T00:00:01.000Z"
    return {"type": "message", "id": entry_id, "timestamp": stamp, "message": body, **more}


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = Layout(tmp_path)
    layout.make_folders(Files())
    return layout


def write(folder: Path, session_id: str, *lines: Mapping[str, object], day: int = 1) -> None:
    path = folder / f"2026-01-{day:02}T00-00-00-000000_{session_id}.jsonl"
    first, *rest = lines
    text = "".join(json.dumps(line) + "\n" for line in ({**first, "id": session_id}, *rest))
    path.write_text(text, "utf-8")


def hits(layout: Layout, query: str, cwd: str | None = None) -> list[Hit]:
    return [
        hit for step in search_files(layout, query, cwd) if isinstance(step, list) for hit in step
    ]


def test_both_dialects_and_the_archive_are_searched_the_latest_first(layout: Layout) -> None:
    write(
        layout.sessions,
        "session-native",
        NATIVE,
        message("e1", "It is LATE.", parent_id=None),
        day=1,
    )
    write(layout.archive, "session-pi", PI, message("a1b2c3d4", "late again", parentId=None), day=2)
    assert [(hit.session_id, hit.entry_id, hit.seq) for hit in hits(layout, "late")] == [
        ("session-pi", "a1b2c3d4", 1),
        ("session-native", "e1", 1),
    ]
    assert [hit.session_id for hit in hits(layout, "late", "/p")] == ["session-native"]
    assert hits(layout, "later") == []


@pytest.mark.parametrize(
    "query", ['"quoted"', "back\\slash", "a/b", "ÄPFEL", "日本", "two\nlines", "dots..."]
)
def test_what_json_spells_in_its_own_way_is_found(layout: Layout, query: str) -> None:
    said = 'say "quoted" back\\slash a/b äpfel 日本 two\nlines dots...'
    write(layout.sessions, "session-a", NATIVE, message("e1", said, parent_id=None))
    (hit,) = hits(layout, query)
    assert "\n" not in hit.snippet


def test_names_and_numbers_of_the_envelope_are_not_what_was_said(layout: Layout) -> None:
    write(layout.sessions, "session-a", NATIVE, message("e1", "hello", parent_id=None))
    for query in ("message", "parent_id", "e1", "user", "2026"):
        assert hits(layout, query) == []


def test_summaries_and_labels_are_found(layout: Layout) -> None:
    stamp = {"timestamp": "2026-01-01T00:00:02Z"}
    summed = {"type": "compaction", "id": "e2", "parent_id": "e1", "summary": "the gist", **stamp}
    label = {
        "type": "label",
        "id": "e3",
        "parent_id": "e2",
        "target_id": "e1",
        "label": "gist",
        **stamp,
    }
    write(
        layout.sessions, "session-a", NATIVE, message("e1", "hello", parent_id=None), summed, label
    )
    assert [hit.entry_id for hit in hits(layout, "gist")] == ["e2", "e3"]


def test_files_that_are_no_sessions_and_bad_lines_are_passed_over(layout: Layout) -> None:
    write(layout.sessions, "session-a", NATIVE, message("e1", "find me", parent_id=None))
    (path,) = layout.sessions.iterdir()
    path.write_bytes(path.read_bytes() + b"find me, I am no entry\n")
    (layout.sessions / "stray.jsonl").write_bytes(b"find me\n")
    (layout.sessions / "empty.jsonl").touch()
    assert [hit.entry_id for hit in hits(layout, "find me")] == ["e1"]


def test_a_snippet_is_around_the_place_and_cannot_act_on_a_terminal(layout: Layout) -> None:
    said = "x" * 5000 + " \x1b[2J needle " + "y" * 5000
    write(layout.sessions, "session-a", NATIVE, message("e1", said, parent_id=None))
    (hit,) = hits(layout, "NEEDLE")
    assert "needle" in hit.snippet
    assert "\x1b" not in hit.snippet
    assert len(hit.snippet) <= 101
