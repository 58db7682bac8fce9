"""The shape and drawing of a tree, against a short recursive model."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessiond.catalog.forest import plant
from sessiond.dialects.native.dialect import NATIVE
from sessiond.model.row import Kind, Row
from sessiond.session.index import Session
from sessiond.session.tree import ChildIndex, TreeRow, preorder
from sessiond.session.tree_layout import RowPlace, lay_out
from tests.kit.catalogs import relative

# A node is its name and its children, in the order in which they are drawn.
Shape = tuple[str, list[Any]]


def session_of(parents: dict[str, str | None]) -> Session:
    session = Session(NATIVE.rules)
    for name, parent in parents.items():
        session.fold(Row(Kind.CUSTOM, name, parent))
    return session


def places_of(session: Session, leaf: str | None = None) -> list[RowPlace[TreeRow]]:
    index = ChildIndex()
    index.extend(session, session.seq)
    rows = preorder(
        session, index, seq=session.seq, leaf=session.ids[leaf] if leaf else 0, when=lambda _: ""
    )
    return list(lay_out(rows))


def spelled(name: str, place: RowPlace[Any]) -> str:
    """Return the place of a row in the spelling of the vectors."""
    connector = ("└" if place.row.last else "├") if place.connector else "-"
    gutters = [(gutter.position, gutter.show) for gutter in place.gutters]
    return f"{name} {place.indent}{connector}{gutters}"


@pytest.mark.parametrize(
    ("parents", "expected"),
    [
        (
            {"A": None, "B": "A", "C": "B", "D": "C", "E": "B"},
            ["A 0-[]", "B 0-[]", "C 1├[]", "D 2-[(0, True)]", "E 1└[]"],
        ),
        (
            {"A": None, "B": "A", "C1": "B", "D1": "C1", "E1": "D1", "C2": "B", "D2": "C2"},
            [
                "A 0-[]",
                "B 0-[]",
                "C1 1├[]",
                "D1 2-[(0, True)]",
                "E1 2-[(0, True)]",
                "C2 1└[]",
                "D2 2-[(0, False)]",
            ],
        ),
        (
            {"R1": None, "a": "R1", "b": "a", "R2": None, "c": "R2"},
            [
                "R1 1├[(0, True)]",
                "a 2-[(0, True), (0, True)]",
                "b 2-[(0, True), (0, True)]",
                "R2 1└[]",
                "c 2-[(0, False)]",
            ],
        ),
        (
            {"A": None, "B1": "A", "C1": "B1", "C2": "B1", "D": "C2", "B2": "A"},
            [
                "A 0-[]",
                "B1 1├[]",
                "C1 2├[(0, True)]",
                "C2 2└[(0, True)]",
                "D 3-[(0, True), (1, False)]",
                "B2 1└[]",
            ],
        ),
    ],
    ids=["a fork", "two long branches", "two roots", "a fork in a fork"],
)
def test_the_layout_is_pis(parents: dict[str, str | None], expected: list[str]) -> None:
    session = session_of(parents)
    places = [(session.names[one.row.seq], one) for one in places_of(session)]
    assert [spelled(name, place) for name, place in places] == expected
    forest = [
        (one.row.session.session_id, one)
        for one in lay_out(plant([relative(name, parent) for name, parent in parents.items()]))
    ]
    assert [spelled(name, place) for name, place in forest] == expected


def test_what_is_drawn_hangs_together() -> None:
    parents = {"A": None, "B": "A", "C": "B", "D": "C", "E": "C", "F": "B", "G": "F", "H": None}
    session = session_of(parents)
    drawing = [place.prefix + session.names[place.row.seq] for place in places_of(session)]
    assert drawing == [
        "├── A",
        "│       B",
        "│       ├── C",
        "│       │   ├── D",
        "│       │   └── E",
        "│       └── F",
        "│               G",
        "└── H",
    ]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (
            False,
            ["├── A", "│       B", "│       ├── C", "│       │       D", "│       └── E", "└── F"],
        ),
        (True, ["A", "└── B", "    ├── C", "    │   └── D", "    └── E", "F"]),
    ],
)
def test_a_forest_is_drawn_by_forks_or_by_generations(*, steps: bool, expected: list[str]) -> None:
    parents = {"A": None, "B": "A", "C": "B", "D": "C", "E": "B", "F": None}
    places = lay_out(
        plant([relative(name, parent) for name, parent in parents.items()]), steps=steps
    )
    assert [place.prefix + place.row.session.session_id for place in places] == expected


def test_a_conversation_without_forks_is_one_column_however_long() -> None:
    session = Session(NATIVE.rules)
    for number in range(20_000):
        session.fold(Row(Kind.CUSTOM, f"n{number}", f"n{number - 1}" if number else None))
    places = places_of(session)
    assert {place.prefix for place in places} == {""}
    assert [place.row.depth for place in places] == list(range(20_000))


def test_an_empty_session_has_no_rows() -> None:
    assert places_of(session_of({})) == []


# -- the model: FlattenTree as it is described, by recursion ------------------------


def by_recursion(session: Session, leaf: int) -> list[tuple[Any, ...]]:
    active = set(session.path(leaf))
    nodes = [seq for seq in range(1, session.seq + 1) if session.is_node(seq)]

    def children(parent: int) -> list[int]:
        found = [seq for seq in nodes if session.parents[seq] == parent]
        return sorted(found, key=lambda seq: (seq not in active, seq))

    rows: list[tuple[Any, ...]] = []

    def walk(
        seq: int, depth: int, indent: int, gutters: list[Any], hangs: tuple[bool, bool]
    ) -> None:
        branched, last = hangs
        below = children(seq)
        rows.append((seq, depth, len(below), seq in active, indent, branched, last, gutters))
        deeper = indent
        if len(below) > 1 or (branched and indent > 0):
            deeper += 1
        columns = list(gutters)
        if branched and indent >= 1:
            columns.append((indent - 1, not last))
        for child in below:
            walk(child, depth + 1, deeper, columns, (len(below) > 1, child == below[-1]))

    roots = children(0)
    several = len(roots) > 1
    for root in roots:
        last = root == roots[-1]
        gutters = [(0, True)] if several and not last else []
        walk(root, 0, 1 if several else 0, gutters, (several, last))
    return rows


@st.composite
def sessions(draw: st.DrawFn) -> Session:
    """Draw a tree with records in it; a parent is any earlier node, or none."""
    session = Session(NATIVE.rules)
    for number in range(draw(st.integers(0, 40))):
        nodes = [seq for seq in range(1, session.seq + 1) if session.is_node(seq)]
        parent = draw(st.sampled_from([0, *nodes, *nodes[-1:] * 3]))
        kind = draw(st.sampled_from([Kind.CUSTOM, Kind.CUSTOM, Kind.CUSTOM, Kind.LABEL]))
        session.fold(Row(kind, f"n{number}", session.id_of(parent)))
    return session


@given(session=sessions(), data=st.data())
def test_rows_and_places_are_those_of_the_model(session: Session, data: st.DataObject) -> None:
    nodes = [seq for seq in range(1, session.seq + 1) if session.is_node(seq)]
    leaf = data.draw(st.sampled_from([0, *nodes]))
    places = places_of(session, session.id_of(leaf))
    found = [
        (
            place.row.seq,
            place.row.depth,
            place.row.children,
            place.row.on_active_path,
            place.indent,
            place.connector,
            place.row.last,
            [(gutter.position, gutter.show) for gutter in place.gutters],
        )
        for place in places
    ]
    assert found == by_recursion(session, leaf)
    # What is drawn is as wide as the indentation says, and begins where its parent does.
    assert [len(place.prefix) for place in places] == [4 * place.indent for place in places]
