"""The indexing of lines: the dialect, damage, and the beginning of half an append."""

from __future__ import annotations

from pathlib import Path

import pytest

from sessiond.errors import SessionCorrupt
from sessiond.journal.splitter import long_line
from sessiond.service.log.indexer import Indexer
from tests.kit.lines import atom_line, indexer_of

NATIVE = b'{"type":"session_header","version":1,"id":"session-a","timestamp":"2026-01-15T10:30:00.000Z","cwd":"/p"}'
PI = b'{"type":"session","version":3,"id":"session-a","timestamp":"2026-01-15T10:30:00.000Z","cwd":"/p"}'


@pytest.mark.parametrize(("header", "name"), [(NATIVE, "native"), (PI, "pi")])
def test_the_first_line_decides_the_dialect(header: bytes, name: str) -> None:
    indexer = indexer_of([header])
    assert (indexer.dialect.name, indexer.header.id, indexer.session.seq) == (
        name,
        "session-a",
        0,
    )


def test_without_a_line_there_is_no_session() -> None:
    with pytest.raises(SessionCorrupt) as refused:
        _ = Indexer(Path("/x/file.jsonl")).header
    assert refused.value.data()["line"] == 1
    assert "file.jsonl, line 1: the file is empty" in refused.value.message


def test_a_header_that_is_too_long_is_said_to_be_so() -> None:
    with pytest.raises(SessionCorrupt, match=r"line 1: the header is 99 bytes long"):
        indexer_of([long_line(NATIVE, b"}", 99)])


def test_a_bad_line_keeps_its_ordinal_and_the_first_one_makes_a_file_of_ours_read_only() -> None:
    indexer = indexer_of([NATIVE, atom_line("n1"), b"garbage", atom_line("n3"), b"more garbage"])
    session = indexer.session
    assert (session.seq, session.ids) == (4, {"n1": 1, "n3": 3})
    assert [problem.line for problem in session.problems] == [3, 5]
    assert session.read_only_line == 3


def test_a_bad_line_in_a_file_of_another_program_is_reported_only() -> None:
    session = indexer_of([PI, b"garbage"]).session
    assert (session.problem_count, session.read_only_line) == (1, None)


@pytest.mark.parametrize("blank", [b"", b"  ", b"\t"])
def test_a_blank_line_keeps_its_ordinal_and_is_no_problem(blank: bytes) -> None:
    session = indexer_of([NATIVE, atom_line("n1"), blank, atom_line("n3")]).session
    assert (session.seq, session.problem_count, session.read_only_line) == (3, 0, None)


ATOMS: list[tuple[list[tuple[int, int] | None], int | None]] = [
    ([None, (1, 2), (2, 2)], None),
    ([None, (1, 3)], 2),
    ([None, (1, 3), (2, 3)], 2),
    ([(1, 2), (2, 2), (1, 2)], 3),
    # An incomplete append with foreign lines behind it stays.
    ([(1, 3), (2, 3), None], None),
    ([(1, 3), (1, 2), (2, 2)], None),
    ([(1, 3), (1, 2)], 2),
    # The first entry of the append is missing, so the append cannot be cut.
    ([None, (2, 3)], None),
    ([(1, 1)], None),
]


@pytest.mark.parametrize(("atoms", "first"), ATOMS)
def test_an_append_whose_last_line_is_missing_at_the_end_is_found(
    atoms: list[tuple[int, int] | None], first: int | None
) -> None:
    lines = [atom_line(f"n{seq}", atom) for seq, atom in enumerate(atoms)]
    assert indexer_of([NATIVE, *lines]).incomplete_atom == first


@pytest.mark.parametrize("between", [b"garbage", b""])
def test_a_line_that_is_no_entry_ends_an_append(between: bytes) -> None:
    assert indexer_of([NATIVE, atom_line("n1", (1, 2)), between]).incomplete_atom is None


def test_whether_a_last_line_is_whole_is_the_dialects_to_say() -> None:
    indexer = indexer_of([NATIVE])
    assert indexer.parses(atom_line("n1"))
    assert not indexer.parses(atom_line("n1")[:-1])
