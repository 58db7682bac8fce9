"""The tree of a session, live: what any client appends is shown at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Final

from textual.binding import Binding, BindingType
from textual.widget import Widget

from sessiond.browse.actions import Acting, Target
from sessiond.browse.bars import Key
from sessiond.browse.entry import EntryView
from sessiond.browse.following import Follower
from sessiond.browse.picker import RebaseView
from sessiond.browse.rows import Line, Part, Rows
from sessiond.browse.session_lines import name_of
from sessiond.browse.tasks import begin
from sessiond.browse.view import View
from sessiond.browse.window import TreeRow, Window
from sessiond.browse.words import clock, line_of, short_id
from sessiond.visible import counted
from sessiond_client import Client
from sessiond_client.generated.results import SessionInfo

# A burst of appends draws the tree so many times a second.
_DRAWS_PER_SECOND: Final = 20
_WIDE: Final = 100
# Pages that are read in search of an entry that the tree is to begin with.
_SEEKS_MAX: Final = 10


class TreeView(Acting, View):
    """The newest entries of a session as a tree; earlier ones come as the cursor moves up."""

    KEYS: ClassVar[Sequence[Key]] = (
        *(("B", "branch"), ("F", "fork"), ("R", "rebase"), ("M", "merge"), ("L", "label")),
        *(("E", "export"), ("/", "search"), ("Enter", "read"), ("Esc", "back")),
    )
    BINDINGS: ClassVar[list[BindingType]] = [Binding("R,r", "rebase", "rebase", show=False)]

    def __init__(self, session_id: str, entry_id: str | None = None) -> None:
        """Show a session, with the cursor at an entry or at the leaf of main."""
        super().__init__()
        self.rows = Rows[TreeRow | None](self._line)
        """The rows; None stands for the entries before the window."""
        self.session_id = session_id
        self.state = "opening"
        self._wanted = entry_id
        self._seeks_left = _SEEKS_MAX
        self._follower = Follower(session_id, self)
        self._is_at_leaf = True
        self._is_drawing = False
        self._drawn_leaf: str | None = None

    def body(self) -> Iterator[Widget]:
        """Yield the tree."""
        yield self.rows

    def on_mount(self) -> None:
        """Open the session and follow it."""
        self._show_title()
        begin(self, self._follow)

    def on_unmount(self) -> None:
        """End the use of the session."""
        self.browser.start(self._follower.let_go)

    def target(self) -> Target | None:
        """Return the entry at the cursor."""
        row = self.rows.current
        if row is None:
            return Target(self.session_id, None)
        window = self._follower.window
        label = window.labels.get(row.node.id) if window else None
        return Target(self.session_id, row.node.id, label, row.node.preview)

    def session_of_view(self) -> tuple[str, str | None]:
        """Return the session and its project."""
        info = self._follower.info
        return self.session_id, info.cwd if info else None

    def action_rebase(self) -> None:
        """Choose the entries of a new session."""
        row, window = self.rows.current, self._follower.window
        if row is None or window is None:
            self.say("put the cursor on an entry first")
            return
        upto = None if row.node.id in window.path else row.node.id
        self.browser.open(RebaseView(self.session_id, upto))

    def on_rows_chosen(self) -> None:
        """Read the entry at the cursor."""
        row = self.rows.current
        if row is not None:
            self.browser.open(EntryView(self.session_id, row.node.id))
        else:
            self._load_earlier()

    def on_rows_moved(self) -> None:
        """Note whether the cursor follows the leaf; read earlier entries at the top."""
        row = self.rows.current
        # The leaf that is drawn: the window may know a newer one already.
        self._is_at_leaf = row is not None and row.node.id == self._drawn_leaf
        if row is None and self.rows.items and self._wanted is None:
            self._load_earlier()

    def reloaded(self, window: Window, info: SessionInfo) -> None:
        """Show the window of a session that was opened, or whose file was replaced."""
        del info
        if self.state != "opening":
            self.say("the session was opened anew; what is shown is what it holds now")
        self._is_at_leaf = self._wanted is None
        self.state = "live"
        self._draw(window)

    def changed(self, window: Window) -> None:
        """Show an event soon; a burst of events is drawn at once."""
        del window
        if not self._is_drawing:
            self._is_drawing = True
            self.set_timer(1 / _DRAWS_PER_SECOND, self._draw_soon)

    def gone(self, state: str, text: str) -> None:
        """Show that the session is followed no more, or not now."""
        self.state = state
        self._show_title()
        self.say(text, is_error=True)

    async def _follow(self) -> None:
        await self._follower.run(await self.browser.link.client())

    def _load_earlier(self) -> None:
        async def load(client: Client) -> None:
            window = await self._follower.load_earlier(client)
            if window is not None and self.is_attached:
                self._draw(window)

        if self._follower.may_load_earlier:
            self.act(load, "reading earlier entries …")

    def _draw_soon(self) -> None:
        self._is_drawing = False
        if self._follower.window is not None and self.is_attached:
            self._draw(self._follower.window)

    def _draw(self, window: Window) -> None:
        """Draw the tree; the cursor stays at its entry, or at the leaf if it stood there."""
        row, has_earlier = self._row_to_keep(), window.low > 1
        window.lay_out()
        self._drawn_leaf = window.leaf
        kept = self._wanted or (window.leaf if self._is_at_leaf else row and row.node.id)
        items: list[TreeRow | None] = [None, *window.rows] if has_earlier else [*window.rows]
        found = (at for at, item in enumerate(items) if item and item.node.id == kept)
        at = next(found, None)
        if at is not None:
            self._wanted = None
        elif self._wanted is not None or self._is_at_leaf:
            at = len(items) - 1
        self.rows.show(items, min(self.rows.cursor, len(items)) if at is None else at)
        self._show_title()
        if self._wanted is not None:
            self._seek()

    def _seek(self) -> None:
        """Read earlier entries until the wanted entry comes, as far as is reasonable."""
        if self._seeks_left > 0 and self._follower.may_load_earlier:
            self._seeks_left -= 1
            self._load_earlier()
        elif not self._follower.is_loading:
            self._wanted = None
            self.say("the entry lies further up: Home reads earlier lines")

    def _row_to_keep(self) -> TreeRow | None:
        """Return the row at the cursor; at the top, the first row below the mark of earlier entries."""
        rows = self.rows
        if rows.current is None and len(rows.items) > 1:
            return rows.items[1]
        return rows.current

    def _show_title(self) -> None:
        window, info = self._follower.window, self._follower.info
        name = short_id(self.session_id) if info is None else name_of(info)
        count = "" if window is None else counted(self._follower.seq, "line")
        self.title_is(f"Tree of {name}", " · ".join(filter(None, [count, self.state])))

    def _line(self, row: TreeRow | None) -> Line:
        window = self._follower.window
        assert window is not None, "rows come from a window"
        if row is None:
            more = window.low - 1
            lines, them = counted(more, "earlier line"), "it" if more == 1 else "them"
            return Line([Part(f" ↑ {lines}: move up here to read {them}", "cyan")])
        node = row.node
        is_leaf, on_path = node.id == window.leaf, node.id in window.path
        prefix = row.prefix
        if len(prefix) > self.size.width // 2:
            prefix = f"…{prefix[-self.size.width // 2 :]}"
        left = [
            Part(" " + prefix),
            Part("▶ " if is_leaf else "• " if on_path else "  ", "bold green"),
            Part(f"{node.kind}: ", _style_of(node.kind)),
            Part(node.preview),
        ]
        # What says where the row stands comes before the text that may be cut.
        if heads := window.heads_at(node.id):
            left.insert(2, Part(f"◀ {', '.join(line_of(head, 20) for head in heads)} ", "magenta"))
        if label := window.labels.get(node.id):
            left.insert(2, Part(f"[{line_of(label, 24)}] ", "bold yellow"))
        if self.size.width < _WIDE:
            return Line(left)
        return Line(left, [Part(f"{clock(node.timestamp)}  {short_id(node.id)} ", "cyan")])


def _style_of(kind: str) -> str:
    return {"user": "bold blue", "assistant": "bold green"}.get(kind, "yellow")
