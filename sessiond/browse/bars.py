"""Bars of a view: the title above, messages and keys below.

Law: a bar shows plain text. Of the keys as many are shown as fit, the first ones first; help and
quit always fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from rich.cells import cell_len
from rich.text import Text
from textual.app import RenderResult
from textual.widget import Widget

from sessiond.browse.words import fitted, spelled

Key = tuple[str, str]
"""A key and the word for what it does."""

_ALWAYS: Final[Sequence[Key]] = (("?", "help"), ("q", "quit"))
_GAP: Final = "  "
_SHOWN_SECONDS: Final = 15.0


class TitleBar(Widget):
    """One line: what is shown, and at the right edge how much of it."""

    DEFAULT_CSS = "TitleBar { height: 1; }"

    def __init__(self) -> None:
        super().__init__()
        self._left, self._right = "", ""

    def show(self, left: str, right: str = "") -> None:
        """Show two texts."""
        self._left, self._right = spelled(left), spelled(right)
        self.refresh()

    def render(self) -> RenderResult:
        """Return the line."""
        width = self.size.width
        right = fitted(self._right, width // 2)
        left = fitted(self._left, max(0, width - cell_len(right) - len(_GAP) - 2))
        room = width - cell_len(left) - cell_len(right) - 2
        return Text(f" {left}{' ' * max(0, room)}{right} ", style="bold reverse", no_wrap=True)


class MessageBar(Widget):
    """The latest message, in at most three lines; one that is no error ends after a while."""

    DEFAULT_CSS = "MessageBar { height: auto; max-height: 3; display: none; }"

    def __init__(self) -> None:
        super().__init__()
        self.text = ""
        self._turn = 0
        self._is_error = False

    def say(self, text: str, *, is_error: bool = False) -> None:
        """Show a message; an empty text ends the last one."""
        self.text, self._is_error = spelled(text), is_error
        self._turn += 1
        self.display = bool(text)
        self.refresh(layout=True)
        if self.is_attached and text and not is_error:
            self.set_timer(_SHOWN_SECONDS, partial(self._end, self._turn))

    def unsay(self, text: str) -> None:
        """End a message if no later one has replaced the message."""
        if text and self.text == spelled(text):
            self.say("")

    def _end(self, turn: int) -> None:
        """End a message that no later one has replaced."""
        if turn == self._turn:
            self.say("")

    def render(self) -> RenderResult:
        """Return the message."""
        return Text(f" {self.text}", style="bold red" if self._is_error else "bold")


class KeyBar(Widget):
    """One line of keys."""

    DEFAULT_CSS = "KeyBar { height: 1; }"

    def __init__(self, keys: Sequence[Key]) -> None:
        super().__init__()
        self._keys = keys

    def render(self) -> RenderResult:
        """Return the keys that fit."""
        room = self.size.width + cell_len(_GAP) - sum(map(_width, _ALWAYS))
        shown: list[Key] = []
        for key in self._keys:
            room -= _width(key)
            if room < 0:
                break
            shown.append(key)
        keys = [
            Text(name, style="bold").append(f" {word}", style="not bold")
            for name, word in (*shown, *_ALWAYS)
        ]
        return Text(_GAP, no_wrap=True).join(keys)


def _width(key: Key) -> int:
    return cell_len(f"{key[0]} {key[1]}{_GAP}")
