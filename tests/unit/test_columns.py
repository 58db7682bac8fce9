"""The index as columns: what is restored is what replay makes, for every kind of line."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from sessiond.dialects import recognise
from sessiond.dialects.base import BadHeader
from sessiond.dialects.native.dialect import NATIVE as NATIVE_DIALECT
from sessiond.model.row import Kind, Row
from sessiond.service.log.line_indexer import LineIndexer
from sessiond.session.columns import Columns, columns_of, restore, tree_before
from sessiond.session.index import Session
from tests.kit.lines import lines_in, state_of
from tests.service.damage import NATIVE, OPERATOR, PI

SAMPLES = sorted((Path(__file__).parent.parent / "samples").rglob("*.jsonl"))

OPERATORS = {f"of Operator: {name}": damage for name, damage in OPERATOR.items()}
DAMAGED = {
    name: damage.content
    for name, damage in {**NATIVE, **PI, **OPERATORS}.items()
    if damage.opens != "refused"
}


def indexed(lines: list[bytes]) -> LineIndexer:
    """Return the index of a file's lines."""
    dialect, header = recognise(lines[0])
    indexer = LineIndexer(Session(dialect.rules), dialect, {header.id})
    for seq, line in enumerate(lines[1:], 1):
        indexer.take(seq, line)
    return indexer


def restored(session: Session) -> Session:
    """Return the session that comes out of the stored columns."""
    stored = msgspec.msgpack.encode(columns_of(session))
    again = Session(session.rules)
    restore(again, msgspec.msgpack.decode(stored, type=Columns))
    return again


def check(lines: list[bytes]) -> None:
    """Check that a session comes back as it was, and goes on from half its lines alike."""
    dialect, header = recognise(lines[0])
    whole = indexed(lines).session
    assert state_of(restored(whole), "_timestamp") == state_of(whole, "_timestamp")
    half = len(lines) // 2 + 1
    part = indexed(lines[:half])
    if not part.is_at_rest:
        return
    again = LineIndexer(restored(part.session), dialect, {header.id})
    for seq, line in enumerate(lines[half:], half):
        again.take(seq, line)
    assert state_of(again.session, "_timestamp") == state_of(whole, "_timestamp")


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_a_sample_comes_back_as_it_was_and_goes_on_alike(path: Path) -> None:
    check(lines_in(path))


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_comes_back_as_it_was_and_goes_on_alike(name: str) -> None:
    check(DAMAGED[name].split(b"\n")[:-1])


@pytest.mark.parametrize("name", DAMAGED)
def test_the_tree_before_a_line_is_what_the_lines_before_made(name: str) -> None:
    lines = DAMAGED[name].split(b"\n")[:-1]
    whole = indexed(lines).session
    for seq in range(1, len(lines)):
        part = indexed(lines[:seq]).session
        tree = tree_before(whole, seq, part.heads)
        for column in ("names", "kinds", "ids", "heads", *columns_of(part).arrays):
            assert getattr(tree, column) == getattr(part, column), column


def test_every_file_of_the_fixtures_comes_back_as_it_was(shared: Path) -> None:
    checked = 0
    for path in sorted(shared.rglob("*.jsonl")):
        lines = lines_in(path)
        try:
            recognise(lines[0] if lines else b"")
        except BadHeader:
            continue
        check(lines)
        checked += 1
    assert checked


@pytest.mark.parametrize("skipped", [(), (0,), (1, 2), (0, 1, 2, 3)])
def test_no_line_without_an_entry_is_found_again(skipped: tuple[int, ...]) -> None:
    session = Session(NATIVE_DIALECT.rules)
    for at in range(4):
        if at in skipped:
            session.skip()
        session.fold(Row(Kind.USER, f"n{at}", None))
    assert "" not in session.ids
    assert state_of(restored(session), "_timestamp") == state_of(session, "_timestamp")


@pytest.mark.parametrize("part", ["names", "parents", "message_counts"])
def test_columns_of_different_lengths_are_refused(part: str) -> None:
    columns = columns_of(indexed(lines_in(SAMPLES[0])).session)
    if part == "names":
        columns.names = columns.names[:-1]
    else:
        columns.arrays[part] = columns.arrays[part][:-4]
    with pytest.raises(ValueError, match="lengths"):
        restore(Session(NATIVE_DIALECT.rules), columns)
