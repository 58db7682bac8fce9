"""Layout of a drawn tree: the place of each row and the lines that connect rows.

Law: only a fork indents. A conversation without branches is one column however long it is, so the
width of a drawing grows with its forks, not with its depth. The layout is pi's, so a tree looks
here as in pi.

    user: Sort it.
    ├── assistant: Bubble sort.
    └── assistant: Merge sort.
            user: Thanks.

The rows are entries of a session, or sessions of a forest. With `steps` every generation indents:

    user: Sort it.
    ├── assistant: Bubble sort.
    └── assistant: Merge sort.
        └── user: Thanks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Generic, Protocol, TypeVar

from msgspec import Struct

# Width of a column of a drawing.
COLUMN_CHARS: Final = 4


class DrawnRow(Protocol):
    """A row of a tree in pre-order: an entry or a session."""

    @property
    def depth(self) -> int:
        """Number of ancestors."""
        ...

    @property
    def children(self) -> int:
        """Number of rows directly below."""
        ...

    @property
    def forked(self) -> bool:
        """True if the row has siblings."""
        ...

    @property
    def last(self) -> bool:
        """True if no sibling follows."""
        ...


R = TypeVar("R", bound=DrawnRow)


class Gutter(Struct, frozen=True):
    """A column left of a row; `show`: the line of a fork above runs down through the column."""

    position: int
    show: bool


class _Gutters(Struct, frozen=True):
    """The columns of a row, the innermost first: shared by all rows below a fork."""

    own: Gutter
    outer: _Gutters | None


class RowPlace(Struct, Generic[R], frozen=True):
    """A row and its place.

    `connector`: the row has a connecting line of its own, as a fork's child.
    """

    row: R
    indent: int
    connector: bool
    _gutters: _Gutters | None

    @property
    def gutters(self) -> list[Gutter]:
        """Columns left of the row, the outermost first."""
        found: list[Gutter] = []
        at = self._gutters
        while at is not None:
            found.append(at.own)
            at = at.outer
        found.reverse()
        return found

    @property
    def prefix(self) -> str:
        """Text that is drawn left of the row."""
        columns = ["    "] * self.indent
        for gutter in self.gutters:
            if gutter.show:
                columns[gutter.position] = "│   "
        if self.connector:
            columns[-1] = "└── " if self.row.last else "├── "
        return "".join(columns)

    def below(self, *, steps: bool) -> tuple[int, _Gutters | None]:
        """Return the indent and the columns of the row's children."""
        row, indent = self.row, self.indent
        gutters = self._gutters
        if self.connector:
            gutters = _Gutters(Gutter(indent - 1, not row.last), gutters)
        return indent + (steps or row.children > 1 or self.connector), gutters


def lay_out(rows: Iterable[R], *, steps: bool = False) -> Iterator[RowPlace[R]]:
    """Yield the place of every row. Takes the rows in pre-order.

    With `steps` every generation indents and has connectors; else only the children of a fork.
    """
    # Indent and columns that each depth passes on, along the path down to the current row.
    inherited: list[tuple[int, _Gutters | None]] = []
    for row in rows:
        connector = row.depth > 0 if steps else row.forked
        if row.depth == 0:
            indent = 1 if connector else 0
            gutters = _Gutters(Gutter(0, show=True), None) if connector and not row.last else None
        else:
            indent, gutters = inherited[row.depth - 1]
        place = RowPlace(row, indent, connector, gutters)
        del inherited[row.depth :]
        inherited.append(place.below(steps=steps))
        yield place
