"""The rule by which threads read an index that the loop changes: a head moves last."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sessiond.dialects import recognise, sniff
from sessiond.model.row import Kind, Row
from sessiond.service.log.ending import EndingCache
from sessiond.service.log.line_indexer import LineIndexer
from sessiond.session.index import Head, Session
from tests.kit.lines import lines_in

SAMPLES = [
    path
    for path in sorted((Path(__file__).parent.parent / "samples").rglob("*.jsonl"))
    if sniff(lines_in(path)[0]) is not None
]
COLUMNS = (
    *("kinds", "parents", "depths", "compaction_refs", "model_refs", "thinking_refs"),
    *("setting_refs", "message_counts", "turn_counts", "names"),
)


LONG_LINES: Any = SimpleNamespace(line_bytes=lambda _seq: 10**9)


class Watching(dict[str, Head]):
    """The heads of a session, as a thread may meet them at any moment."""

    def __init__(self, session: Session) -> None:
        super().__init__(session.heads)
        self.session = session
        self.moves = 0

    def __setitem__(self, name: str, head: Head) -> None:
        super().__setitem__(name, head)
        self.moves += 1
        for column in COLUMNS:
            assert len(getattr(self.session, column)) > head.leaf, column
        assert not head.leaf or self.session.names[head.leaf] in self.session.ids
        # What a worker thread asks; the line is too long to be read here.
        EndingCache().known(self.session, LONG_LINES, LONG_LINES)
        self.session.path(head.leaf)


def watched(lines: list[bytes]) -> tuple[LineIndexer, Watching]:
    dialect, header = recognise(lines[0])
    session = Session(dialect.rules)
    session.heads = heads = Watching(session)
    return LineIndexer(session, dialect, {header.id}), heads


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_a_head_moves_once_every_column_has_its_leaf(path: Path) -> None:
    lines = lines_in(path)
    one_by_one, heads = watched(lines)
    for seq, line in enumerate(lines[1:], 1):
        one_by_one.take(seq, line)
    in_runs, in_run = watched(lines)
    in_runs.take_lines(1, lines[1:])
    assert (heads.moves > 0) is (in_run.moves > 0) is (one_by_one.session.message_total > 0)


def test_a_head_moves_once_the_columns_have_a_batch() -> None:
    lines = [
        b'{"type":"session_header","version":1,"id":"a","timestamp":"2026-01-15T10:30:00Z","cwd":""}'
    ]
    indexer, heads = watched(lines)
    rows = [Row(int(Kind.USER), f"e{at}", f"e{at - 1}" if at else None) for at in range(9)]
    indexer.session.fold_run(rows)
    assert (heads.moves, indexer.session.heads["main"].leaf) == (2, 9)
