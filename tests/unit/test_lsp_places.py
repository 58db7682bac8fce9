"""Lines of entries: by ids, or counted where a file has none."""

from __future__ import annotations

from pathlib import Path

import pytest

from sessiond.lsp.places import find_places, line_shift
from sessiond.lsp.text.lines import Index
from sessiond.lsp.text.text import Text
from tests.kit.lsp_views import UTF16, node

HEADER = '{"type":"session"}\n'
BARE = ['{"type":"message","n":1}\n', '{"type":"message","n":2}\n']


def lines_of(text: str, path: Path, shift: int | None = 0, count: int = 2) -> dict[str, int]:
    """Return the places of entries e1, e2 … in a text."""
    counted = Text(text, UTF16)
    nodes = [node(f"e{seq}", None, seq) for seq in range(1, count + 1)]
    found = find_places(nodes, Index(counted), counted, path, shift)
    assert found.nodes.keys() == {row.line for row in found.rows}
    return {row.node.id: row.line for row in found.rows}


def test_an_id_gives_the_line_wherever_the_line_was_moved(tmp_path: Path) -> None:
    text = f'{HEADER}unsaved\n{{"id":"e2"}}\n{{"id":"e1"}}\n'
    assert lines_of(text, tmp_path / "never") == {"e1": 3, "e2": 2}


def test_lines_without_ids_are_counted_while_the_text_is_the_beginning_of_the_file(
    tmp_path: Path,
) -> None:
    path = tmp_path / "bare.jsonl"
    path.write_text("".join([HEADER, *BARE]), "utf-8")
    assert lines_of("".join([HEADER, *BARE]), path) == {"e1": 1, "e2": 2}
    # Behind the file: the empty last line is not the line of the second entry.
    assert lines_of(HEADER + BARE[0], path) == {"e1": 1}
    assert lines_of("".join([HEADER, "unsaved\n", *BARE]), path) == {}
    assert lines_of("".join([HEADER, *BARE]), tmp_path / "gone.jsonl") == {}
    path.write_text("".join([HEADER, *BARE]).replace("1", "7"), "utf-8")
    assert lines_of("".join([HEADER, *BARE]), path) == {}
    assert lines_of("".join([HEADER, *BARE]), path, None) == {}


def test_a_pipe_is_not_read(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "pipe")
    assert lines_of("".join([HEADER, *BARE]), tmp_path / "pipe") == {}


@pytest.mark.parametrize(
    ("info", "shift"),
    [
        ({}, 0),
        ({"read_only_reason": "older_version", "lineage": {"parent_id": "p"}}, 0),
        ({"read_only_reason": "other_agent"}, -1),
        ({"read_only_reason": "other_agent", "lineage": {"parent_id": "p", "subagent": True}}, -1),
        ({"read_only_reason": "other_agent", "lineage": {"parent_id": "p"}}, None),
    ],
)
def test_files_of_other_agents_have_no_header_line(
    info: dict[str, object], shift: int | None
) -> None:
    assert line_shift(info) == shift
