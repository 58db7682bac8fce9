"""Folding ranges: a turn, a compaction with what follows, and the lines that a compaction replaced.

Law: pure but for `answer`. Ranges are nested or apart, never crossed, since editors drop those.

    user        ┐ turn         ┐ compacted: whole turns before the
    assistant   ┘              │ first entry that the compaction keeps
    user        ┐ turn         ┘
    compaction  ┐ what follows the compaction
    assistant   ┘
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import suppress

from anyio import to_thread
from lsprotocol import types
from msgspec import Struct

from sessiond.limits import PAGE_ROWS_MAX
from sessiond.lsp.features.desk import Desk, View
from sessiond.lsp.outline import OPENERS
from sessiond.lsp.places import Places, Row
from sessiond_client import SessiondClientError


class Fold(Struct, frozen=True):
    """A range of lines, both included; `compacted` for lines that a compaction replaced."""

    first: int
    last: int
    compacted: bool = False


async def answer(desk: Desk, params: types.FoldingRangeParams) -> list[types.FoldingRange] | None:
    """Return the ranges that an editor can fold."""
    view = await desk.view(params.text_document.uri)
    if view is None:
        return None
    kept: list[tuple[int, int]] = []
    with suppress(SessiondClientError):
        kept = await _kept_lines(view)
    found = await to_thread.run_sync(folds, view.places, kept, _last_line(view))
    return [
        types.FoldingRange(
            start_line=fold.first,
            end_line=fold.last,
            kind=types.FoldingRangeKind.Region if fold.compacted else None,
        )
        for fold in found
    ]


def folds(places: Places, kept: Iterable[tuple[int, int]], last_line: int) -> list[Fold]:
    """Return all ranges in the order of their lines, the longer one first.

    `kept`: line of each compaction, and first line that the compaction keeps.
    """
    starts = [row.line for row in places.rows if _opens(row)]
    ends = [*(line - 1 for line in starts[1:]), last_line]
    turns = [turn for turn in zip(starts, ends, strict=False) if turn[1] > turn[0]]
    found = [*(Fold(*turn) for turn in turns), *_compacted(places, starts, kept, set(turns))]
    return sorted(found, key=lambda fold: (fold.first, -fold.last))


def _opens(row: Row) -> bool:
    return row.node.role == "user" or row.node.type in OPENERS


def _compacted(
    places: Places,
    starts: Sequence[int],
    kept: Iterable[tuple[int, int]],
    turns: Container[tuple[int, int]],
) -> Iterator[Fold]:
    """Yield the lines that each compaction replaced and no earlier one did, in whole turns.

    A single turn is a range already. Lines with an entry of another branch are none of these.
    """
    begin = places.rows[0].line if places.rows else 0
    for compaction, keeps in sorted(kept):
        # The turn that holds the first kept entry stays out.
        at = bisect_right(starts, min(keeps, compaction)) - 1
        end = starts[at] if at >= 0 else begin
        is_wanted = end - 1 > begin and (begin, end - 1) not in turns
        if is_wanted and _is_one_branch(places, begin, end, compaction):
            yield Fold(begin, end - 1, compacted=True)
        begin = max(begin, end)


def _is_one_branch(places: Places, begin: int, end: int, line: int) -> bool:
    """Return whether all entries from `begin` up to `end` stand above the entry of a line."""
    lines = [row.line for row in places.rows]
    wanted = set(lines[bisect_left(lines, begin) : bisect_left(lines, end)])
    above = places.line_of(places.nodes[line].below_id or "")
    # A parent stands before its children, except in a damaged file.
    while above is not None and begin <= above < line:
        wanted.discard(above)
        line = above
        above = places.line_of(places.nodes[line].below_id or "")
    return not wanted


async def _kept_lines(view: View) -> list[tuple[int, int]]:
    """Return the line of each compaction, and the first line that the compaction keeps.

    Raises SessiondClientError.
    """
    places = view.places
    found = {row.node.id: row.line for row in places.rows if row.node.type == "compaction"}
    if not found:
        return []
    kept: list[tuple[int, int]] = []
    page = await view.client.entries(view.session_id, types=["compaction"], limit=PAGE_ROWS_MAX)
    for stored in page.entries:
        line = found.get(stored.entry.get("id", ""))
        if line is not None:
            keeps = places.line_of(stored.entry.get("first_kept_entry_id") or "")
            kept.append((line, line if keeps is None else keeps))
    return kept


def _last_line(view: View) -> int:
    """Return the last line that is not empty."""
    last = len(view.text) - 1
    while last > 0 and not view.text.line(last):
        last -= 1
    return last
