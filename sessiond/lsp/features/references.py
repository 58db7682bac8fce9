"""References to an entry: its children, and every line that names its id.

Law: pure but for `answer`. The daemon tells the children, since a line may name its parent by
nothing but its place; the text tells all further lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from anyio import to_thread
from lsprotocol import types

from sessiond.lsp.editor import Span, meant
from sessiond.lsp.features.desk import Desk, View
from sessiond.lsp.features.words import NamedId, named_ids
from sessiond.lsp.shapes import location
from sessiond.lsp.text.text import Position


async def answer(desk: Desk, params: types.ReferenceParams) -> list[types.Location] | None:
    """Return the places that refer to the entry under the cursor, or to the entry of the line."""
    uri, place = params.text_document.uri, params.position
    view = await desk.view(uri)
    if view is None:
        return None
    at = Position(place.line, place.character)
    aim = await to_thread.run_sync(meant, view.text, view.places, at)
    if aim.entry_id is None:
        return None
    declared = params.context.include_declaration
    spans = await to_thread.run_sync(partial(references_to, view, aim.entry_id, declared=declared))
    return [location(uri, span) for span in spans]


def references_to(view: View, entry_id: str, *, declared: bool = False) -> list[Span]:
    """Return the spans that refer to an entry, in the order of their lines.

    `declared`: the entry's own id is among them. Blocks: looks at each line.
    """
    own_line = view.places.line_of(entry_id)
    children = {row.line for row in view.places.rows if row.node.below_id == entry_id}
    found: list[Span] = []
    for number, line in enumerate(view.text):
        is_own = number == own_line
        spans = list(_spans(view, number, entry_id, is_own=is_own)) if entry_id in line else []
        if is_own and declared:
            found.append(_own_span(view, number, entry_id))
        if not spans and number in children:
            spans = [Span(number, 0, view.width(number))]
        found += spans
    return found


def _spans(view: View, number: int, entry_id: str, *, is_own: bool) -> Iterator[Span]:
    for named in named_ids(view.text.line(number)):
        if named.entry_id == entry_id and not (named.is_own and (is_own or number == 0)):
            yield _span(view, number, named)


def _own_span(view: View, number: int, entry_id: str) -> Span:
    for named in named_ids(view.text.line(number)):
        if named.is_own and named.entry_id == entry_id:
            return _span(view, number, named)
    return Span(number, 0, view.width(number))


def _span(view: View, number: int, named: NamedId) -> Span:
    text = view.text
    return Span(number, text.column(number, named.start), text.column(number, named.end))
