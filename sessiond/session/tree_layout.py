"""Where the rows of a tree stand when it is drawn, and the lines they hang by.

Law: only a fork indents. A conversation without branches is one column however
long it is, so the width of a drawing grows with its forks, not with its depth.
This is pi's layout: what is drawn here looks as it does there.

    user: Sort it.
    ├── assistant: Bubble sort.
    └── assistant: Merge sort.
            user: Thanks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct

from sessiond.session.tree import TreeRow

__all__ = ["COLUMN_CHARS", "Gutter", "Place", "lay_out"]

# Of a column of a drawing.
COLUMN_CHARS: Final = 4


class Gutter(Struct, frozen=True):
    """A column left of a row; `show`: the line of a fork above runs down through it."""

    position: int
    show: bool


class _Gutters(Struct, frozen=True):
    """The columns of a row, the innermost first: shared by all rows below a fork."""

    own: Gutter
    outer: _Gutters | None


class Place(Struct, frozen=True):
    """A row and where it stands. `connector`: it hangs by a line of its own, as a fork's child."""

    row: TreeRow
    indent: int
    connector: bool
    _gutters: _Gutters | None

    @property
    def gutters(self) -> list[Gutter]:
        """The columns, the outermost first."""
        found: list[Gutter] = []
        at = self._gutters
        while at is not None:
            found.append(at.own)
            at = at.outer
        found.reverse()
        return found

    @property
    def prefix(self) -> str:
        """What is drawn left of the row."""
        columns = ["    "] * self.indent
        for gutter in self.gutters:
            if gutter.show:
                columns[gutter.position] = "│   "
        if self.connector:
            columns[-1] = "└── " if self.row.last else "├── "
        return "".join(columns)

    @property
    def below(self) -> tuple[int, _Gutters | None]:
        """Indent and columns of its children."""
        row, indent = self.row, self.indent
        gutters = self._gutters
        if self.connector:
            gutters = _Gutters(Gutter(indent - 1, not row.last), gutters)
        return indent + (row.children > 1 or self.connector), gutters


def lay_out(rows: Iterable[TreeRow]) -> Iterator[Place]:
    """The place of every row; the rows come in pre-order."""
    # What the rows of each depth inherit, on the way down to the row at hand.
    inherited: list[tuple[int, _Gutters | None]] = []
    for row in rows:
        if row.depth == 0:
            indent = 1 if row.forked else 0
            gutters = _Gutters(Gutter(0, show=True), None) if row.forked and not row.last else None
        else:
            indent, gutters = inherited[row.depth - 1]
        place = Place(row, indent, row.forked, gutters)
        del inherited[row.depth :]
        inherited.append(place.below)
        yield place
