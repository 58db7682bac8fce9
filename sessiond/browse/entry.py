"""One entry: its text as a person reads it, or its stored JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widget import Widget
from textual.widgets import Static

from sessiond.browse.actions import Acting, Target
from sessiond.browse.bars import Key
from sessiond.browse.view import View
from sessiond.browse.words import clock, kind_of, line_of, preview, raw_json, readable, short_id
from sessiond_client import Client
from sessiond_client.generated.results import StoredEntry


class EntryView(Acting, View):
    """The text of an entry, and what can be done at the entry."""

    KEYS: ClassVar[Sequence[Key]] = (
        *(("Tab", "JSON"), ("B", "branch"), ("F", "fork"), ("L", "label"), ("M", "merge")),
        *(("E", "export"), ("/", "search"), ("Esc", "back"), ("p", "parent"), ("T", "tree")),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "json", "JSON", show=False),
        Binding("p", "parent", "parent", show=False),
        Binding("T,t", "tree", "tree", show=False),
        Binding("j", "scroll(1)", "down", show=False),
        Binding("k", "scroll(-1)", "up", show=False),
    ]
    DEFAULT_CSS = "EntryView VerticalScroll { padding: 0 1; } EntryView Static { height: auto; }"

    def __init__(self, session_id: str, entry_id: str) -> None:
        super().__init__()
        self._text = Static(markup=False)
        self._page = VerticalScroll(self._text)
        self.is_json = False
        self._session_id = session_id
        self._entry_id = entry_id
        self._stored: StoredEntry | None = None

    def body(self) -> Iterator[Widget]:
        """Yield the text."""
        yield self._page

    def on_mount(self) -> None:
        """Read the entry."""
        self._page.focus()
        self.reload()

    def reload(self) -> None:
        """Read the entry, or read it again after a change of its label."""
        self.act(self._load)

    def target(self) -> Target:
        """Return the entry."""
        stored = self._stored
        label, words = (None, "") if stored is None else (stored.label, preview(stored.entry))
        return Target(self._session_id, self._entry_id, label, words)

    def session_of_view(self) -> tuple[str, str | None]:
        """Return the session; its project is not known here."""
        return self._session_id, None

    def action_json(self) -> None:
        """Show the stored JSON, or the text again."""
        self.is_json = not self.is_json
        self._show()
        self._page.scroll_home(animate=False)

    def action_parent(self) -> None:
        """Show the parent."""
        parent = self._stored.entry.get("parent_id") if self._stored is not None else None
        if parent is None:
            self.say("this entry has no parent")
            return
        self._entry_id = str(parent)
        self.reload()

    def action_tree(self) -> None:
        """Show the entry in the tree of its session."""
        self.browser.show_tree(self._session_id, self._entry_id)

    def action_scroll(self, lines: int) -> None:
        """Scroll by lines."""
        self._page.scroll_relative(y=lines, animate=False)

    async def _load(self, client: Client) -> None:
        entry_id = self._entry_id
        stored = await client.entry(self._session_id, entry_id)
        if entry_id == self._entry_id and self.is_attached:
            self._stored = stored
            self._show()

    def _show(self) -> None:
        stored = self._stored
        if stored is None:
            return
        entry = stored.entry
        kind = kind_of(entry)
        self.title_is(f"{kind} {short_id(self._entry_id)}", "JSON" if self.is_json else "text")
        children = stored.children if isinstance(stored.children, list) else []
        facts = [
            ("id", str(entry.get("id"))),
            ("type", str(entry.get("type"))),
            ("time", clock(entry.get("timestamp"))),
            ("line", str(stored.seq)),
            ("parent", str(entry.get("parent_id") or "none")),
            ("children", ", ".join(map(short_id, children)) or "none"),
            ("label", stored.label or "none"),
        ]
        text = Text()
        for name, value in facts:
            text.append(f"{name + ':':10}", style="cyan").append(f"{line_of(value, 200)}\n")
        text.append("\n")
        text.append(raw_json(bytes(stored.raw)) if self.is_json else readable(entry))
        self._text.update(text)
