"""Messages of consecutive lines as columns, for an index that grows by columns.

Law: the columns say of each line what its `Row` says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from sessiond.model.ids import MAIN
from sessiond.model.row import ModelName, Row
from sessiond.model.usage import Usage


class MessageLines(Struct):
    """Messages of consecutive lines, one item per line in each column."""

    ids: list[str]
    parent_ids: Sequence[str | None]
    kinds: bytes
    times: Sequence[str | float | None]
    heads: Sequence[str] | None = None
    """None if all lines are on the head main."""
    models: Sequence[ModelName | None] | None = None
    """The models that assistants name; None if no message is of an assistant."""
    usages: Sequence[Usage | None] | None = None
    """The usages that assistants report; None if no message is of an assistant."""

    def row(self, at: int) -> Row:
        """Return the row of one line."""
        return Row(
            self.kinds[at],
            self.ids[at],
            self.parent_ids[at],
            self.head(at),
            self.models[at] if self.models else None,
            timestamp=self.times[at],
            usage=self.usages[at] if self.usages else None,
        )

    def head(self, at: int) -> str:
        """Return the head of one line."""
        return MAIN if self.heads is None else self.heads[at]

    def chains(self) -> Iterator[tuple[int, int]]:
        """Yield first item and end of each chain: lines of one head, each below the one before."""
        ids, parents, heads = self.ids, self.parent_ids, self.heads
        first, end = 0, len(ids)
        if parents[1:] != ids[:-1] or (heads is not None and heads.count(heads[0]) < end):
            for at in range(1, end):
                if parents[at] != ids[at - 1] or self.head(at) != self.head(at - 1):
                    yield first, at
                    first = at
        yield first, end
