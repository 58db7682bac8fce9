"""Selection of rows when only a part of a drawn tree is shown.

Law: every hidden row hangs below a shown row, and the shown row says how many rows it hides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from msgspec import Struct

from sessiond.session.index import Session
from sessiond.session.tree import TreeRow
from sessiond.session.tree_layout import COLUMN_CHARS, RowPlace

_ANCESTORS_SHOWN: Final = 10


class ShownRow(Struct, frozen=True):
    """A shown row; `hidden` is the number of rows below it that are not shown."""

    place: RowPlace[TreeRow]
    hidden: int
    prefix: str


class TreePart:
    """Rows around one entry, or of a whole tree, down to a level of forks.

    Around an entry these are its nearest ancestors, the ancestors' other children without the rows
    below them, and all rows below the entry. `depth` counts levels of the drawing: from the entry,
    or from the root.
    """

    def __init__(self, session: Session, *, around: int = 0, depth: int | None = None) -> None:
        self._session = session
        self._around = around
        self._depth = depth
        self._path = frozenset(islice(session.up(around), _ANCESTORS_SHOWN + 1))
        self._top = min(self._path, default=0)
        # The `around` entry while the rows below it pass; else None.
        self._entry: RowPlace[TreeRow] | None = None

    @property
    def ancestors_hidden(self) -> int:
        """Number of ancestors above the first row that is shown."""
        return self._session.depths[self._top] - 1 if self._top else 0

    def rows(self, places: Iterable[RowPlace[TreeRow]]) -> Iterator[ShownRow]:
        """Yield the rows that are shown. Takes the places in pre-order."""
        first: RowPlace[TreeRow] | None = None
        shown: RowPlace[TreeRow] | None = None
        hidden = 0
        for place in self._whole(places):
            first = first or place
            if self._hides(place, first):
                hidden += 1
                continue
            if shown is not None:
                yield self._part(shown, hidden, first)
            shown, hidden = place, 0
        if first is not None and shown is not None:
            yield self._part(shown, hidden, first)

    def _whole(self, places: Iterable[RowPlace[TreeRow]]) -> Iterator[RowPlace[TreeRow]]:
        """Yield the subtree that contains the part."""
        top: RowPlace[TreeRow] | None = None
        for place in places:
            if top is not None and place.row.depth <= top.row.depth:
                return
            if top is None and self._top:
                if place.row.seq != self._top:
                    continue
                top = place
            yield place

    def _hides(self, place: RowPlace[TreeRow], first: RowPlace[TreeRow]) -> bool:
        seq = place.row.seq
        if not self._around:
            return self._is_deeper(place, first)
        if seq in self._path:
            self._entry = place if seq == self._around else None
            return False
        parent = self._session.parents[seq]
        if parent in self._path and parent != self._around:
            self._entry = None
            return False
        return self._entry is None or self._is_deeper(place, self._entry)

    def _is_deeper(self, place: RowPlace[TreeRow], top: RowPlace[TreeRow]) -> bool:
        return self._depth is not None and place.indent > top.indent + self._depth

    def _part(self, place: RowPlace[TreeRow], hidden: int, first: RowPlace[TreeRow]) -> ShownRow:
        cut = COLUMN_CHARS * first.indent if self._around else 0
        return ShownRow(place, hidden, place.prefix[cut:])
