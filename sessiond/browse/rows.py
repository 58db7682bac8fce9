"""Rows: a list of any length with a cursor, of which only the visible lines are drawn.

Law: a list holds items; `draw` makes the parts of a line when the line is shown. Parts are plain
text with a style, never markup.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import ClassVar, Final, Generic, NamedTuple, TypeVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from sessiond.browse.words import fitted

T = TypeVar("T")

_GAP: Final = 2
# The left part of a line keeps so many columns before the right part is left out.
_LEFT_LEAST: Final = 40


class Part(NamedTuple):
    """Text with a style of rich; `style` is "" for plain text."""

    text: str
    style: str = ""


class Line(NamedTuple):
    """Parts of a line: `left` is cut to the space that is there, `right` stands at the right edge."""

    left: Sequence[Part]
    right: Sequence[Part] = ()


class Rows(ScrollView, Generic[T], can_focus=True):
    """A list with a cursor."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "up", show=False),
        Binding("down,j", "move(1)", "down", show=False),
        Binding("pageup", "page(-1)", "page up", show=False),
        Binding("pagedown", "page(1)", "page down", show=False),
        Binding("home,g", "go(0)", "first", show=False),
        Binding("end,G", "go(-1)", "last", show=False),
        Binding("enter", "choose", "open", show=False),
    ]
    DEFAULT_CSS = """
    Rows { height: 1fr; background: transparent; overflow-x: hidden; scrollbar-size-vertical: 1; }
    """

    class Moved(Message):
        """The cursor stands on another row."""

    class Chosen(Message):
        """The row at the cursor is to be opened."""

    def __init__(self, draw: Callable[[T], Line]) -> None:
        super().__init__()
        self.items: Sequence[T] = ()
        self.cursor = 0
        self._is_to_be_seen = False
        """True from a move of the cursor until a drawing shows the cursor."""
        self._draw = draw

    @property
    def current(self) -> T | None:
        """The item at the cursor; None in an empty list."""
        return self.items[self.cursor] if 0 <= self.cursor < len(self.items) else None

    def show(self, items: Sequence[T], cursor: int) -> None:
        """Show items, with the cursor on one of them."""
        self.items = items
        self._resize()
        self.put_cursor(cursor)

    def grow(self) -> None:
        """Show the items that were added to the end of the list."""
        self._resize()
        self.refresh()

    def put_cursor(self, index: int) -> None:
        """Put the cursor on a row and scroll there."""
        self.cursor = max(0, min(index, len(self.items) - 1))
        self._keep_in_sight()
        self.refresh()
        self.post_message(self.Moved())

    def action_move(self, by: int) -> None:
        """Move the cursor by rows."""
        self.put_cursor(self.cursor + by)

    def action_page(self, by: int) -> None:
        """Move the cursor by screens."""
        self.put_cursor(self.cursor + by * max(1, self._room.height - 1))

    def action_go(self, to: int) -> None:
        """Move the cursor to the first row, or with -1 to the last."""
        self.put_cursor(0 if to == 0 else len(self.items) - 1)

    def action_choose(self) -> None:
        """Report that the row at the cursor is to be opened."""
        if self.items:
            self.post_message(self.Chosen())

    def on_click(self, event: events.Click) -> None:
        """Put the cursor where the mouse clicked; a second click opens the row."""
        row = event.y + self.scroll_offset.y
        if row >= len(self.items):
            return
        if row == self.cursor:
            self.action_choose()
        else:
            self.put_cursor(row)

    def on_resize(self) -> None:
        """Keep the cursor in sight in another size."""
        self._resize()
        self._keep_in_sight()

    def render_line(self, y: int) -> Strip:
        """Return a visible line."""
        if self._is_to_be_seen:
            self._look_for_cursor()
        width, row = self._room.width, y + self.scroll_offset.y
        if not 0 <= row < len(self.items):
            return Strip.blank(width, Style.null())
        strip = _strip(self._draw(self.items[row]), width)
        return strip.apply_style(Style(reverse=True)) if row == self.cursor else strip

    @property
    def _room(self) -> Size:
        """Size without the scrollbar."""
        return self.scrollable_content_region.size

    def _resize(self) -> None:
        self.virtual_size = Size(0, len(self.items))

    def _look_for_cursor(self) -> None:
        """Scroll again if the cursor is out of sight: a new size counts from its layout on only."""
        top = self.scroll_offset.y
        if top <= self.cursor < top + max(1, self._room.height):
            self._is_to_be_seen = False
        else:
            self.call_later(self._keep_in_sight)

    def _keep_in_sight(self) -> None:
        self._is_to_be_seen = True
        height, top = max(1, self._room.height), self.scroll_offset.y
        if self.cursor < top:
            self.scroll_to(y=self.cursor, animate=False, immediate=True, force=True)
        elif self.cursor >= top + height:
            self.scroll_to(y=self.cursor - height + 1, animate=False, immediate=True, force=True)


def _strip(line: Line, width: int) -> Strip:
    right = sum(cell_len(part.text) for part in line.right) + _GAP
    if not line.right or width - right < _LEFT_LEAST:
        return Strip(_segments(line.left, width)).adjust_cell_length(width, Style.null())
    left = Strip(_segments(line.left, width - right)).adjust_cell_length(
        width - right + _GAP, Style.null()
    )
    return Strip([*left, *_segments(line.right, right)]).adjust_cell_length(width, Style.null())


def _segments(parts: Sequence[Part], width: int) -> list[Segment]:
    """Return the parts within a number of columns; the part that is cut ends in an ellipsis."""
    segments: list[Segment] = []
    for text, style in parts:
        shown = fitted(text, width)
        segments.append(Segment(shown, _style(style)))
        width -= cell_len(shown)
        if shown != text or width <= 0:
            break
    return segments


@lru_cache(maxsize=64)
def _style(words: str) -> Style:
    return Style.parse(words) if words else Style.null()
