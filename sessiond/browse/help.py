"""The page of help."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Final

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widget import Widget
from textual.widgets import Static

from sessiond.browse.bars import Key
from sessiond.browse.view import View

_SECTIONS: Final[Sequence[tuple[str, Sequence[Key]]]] = (
    (
        "Everywhere",
        (
            ("Up Down j k", "move"),
            ("PgUp PgDn", "move a screen; Home and End: to the first and the last row"),
            ("Enter", "open what the cursor is on"),
            ("Esc", "go back"),
            ("/", "search: the shown session, or all sessions"),
            ("?", "this page"),
            ("q, Ctrl-Q", "quit"),
        ),
    ),
    (
        "Sessions",
        (
            ("Tab", "the forest, which session came from which; again: the list"),
            ("a", "sessions of all projects; again: those of this folder"),
            ("B", "branch: a new session that goes on at the end of the session"),
            ("R", "rebase: choose entries of the session for a new session"),
        ),
    ),
    (
        "Tree and entry",
        (
            ("B", "branch: put a head at the entry; main is where it goes on"),
            ("F", "fork: a new session of the path to the entry"),
            ("R", "rebase: choose entries of the path for a new session"),
            ("L", "label the entry; an empty label takes it away"),
            ("M", "merge another session into this one"),
            ("E", "export to a new file: .jsonl, .md, .html or .json"),
            ("Tab", "in an entry: its stored JSON; again: its text"),
            ("p  T", "in an entry: its parent; the tree at the entry"),
        ),
    ),
    (
        "Picker of a rebase",
        (
            ("Space", "choose the entry, or leave it out"),
            ("a", "choose all, or none"),
            ("s", "squash: the model sees a summary in place of them"),
            ("Enter", "make the session"),
        ),
    ),
    (
        "Marks in a tree",
        (
            ("▶ •", "the leaf of main, where the session goes on; the path to it"),
            ("[label]", "the label of an entry"),
            ("◀ name", "another head stands here"),
        ),
    ),
)


class HelpView(View):
    """Every key."""

    KEYS: ClassVar[Sequence[Key]] = (("Esc", "back"),)
    BINDINGS: ClassVar[list[BindingType]] = [Binding("question_mark", "back", "back", show=False)]
    DEFAULT_CSS = "HelpView VerticalScroll { padding: 0 1; } HelpView Static { height: auto; }"

    def body(self) -> Iterator[Widget]:
        """Yield the page."""
        text = Text()
        for title, keys in _SECTIONS:
            text.append(f"{title}\n", style="bold")
            for key, word in keys:
                text.append(f"  {key:14}", style="cyan").append(f"{word}\n")
            text.append("\n")
        text.append("Every change is stored at once and shown to every other client.\n")
        with VerticalScroll():
            yield Static(text)

    def on_mount(self) -> None:
        """Show the title."""
        self.title_is("Help")
        self.query_one(VerticalScroll).focus()
