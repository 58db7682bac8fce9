"""The picker of a rebase: the entries of a path, each to be chosen or left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final, NamedTuple

from textual.binding import Binding, BindingType
from textual.widget import Widget

from sessiond.browse.actions import UNTIL_SILENT
from sessiond.browse.bars import Key
from sessiond.browse.dialogs import Question
from sessiond.browse.rows import Line, Part, Rows
from sessiond.browse.view import View
from sessiond.browse.words import kind_of, preview, short_id
from sessiond.visible import counted
from sessiond_client import Client
from sessiond_client.generated.options import PathOptions
from sessiond_client.generated.results import PathPage

_PAGE: Final = 200


class Choice(NamedTuple):
    """An entry that can be chosen."""

    entry_id: str
    kind: str
    preview: str


class RebaseView(View):
    """A path, oldest entry first; the chosen entries become a new session."""

    KEYS: ClassVar[Sequence[Key]] = (
        *(("Space", "choose"), ("a", "all"), ("s", "squash"), ("Enter", "rebase"), ("Esc", "back")),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "choose", "choose", show=False),
        Binding("a", "all", "all", show=False),
        Binding("s", "squash", "squash", show=False),
    ]

    def __init__(self, session_id: str, upto: str | None) -> None:
        """Offer the path to the entry `upto`, or to the leaf of main."""
        super().__init__()
        self.rows = Rows[Choice](self._line)
        self.is_squash = False
        self.chosen: set[str] = set()
        self._session_id = session_id
        self._upto = upto
        self._cursor: str | None = None
        self._is_loading = False

    def body(self) -> Iterator[Widget]:
        """Yield the entries."""
        yield self.rows

    def on_mount(self) -> None:
        """Read the newest entries of the path."""
        self._show_title()
        self.act(self._load_first, "reading the path …")

    def session_of_view(self) -> tuple[str, str | None]:
        """Return the session."""
        return self._session_id, None

    def on_rows_moved(self) -> None:
        """Read earlier entries at the top."""
        if self.rows.cursor == 0 and self._cursor is not None and not self._is_loading:
            self._is_loading = True
            self.act(self._load_earlier, "reading earlier entries …")

    def on_rows_chosen(self) -> None:
        """Rebase."""
        if not self.chosen:
            self.say("choose entries first: Space chooses one, a all of them")
            return
        self.act(self._rebase)

    def action_choose(self) -> None:
        """Choose the entry at the cursor, or leave the entry out; go on to the next one."""
        current = self.rows.current
        if current is not None:
            self.chosen ^= {current.entry_id}
            self.rows.action_move(1)
            self._show_title()

    def action_all(self) -> None:
        """Choose every entry that is shown, or none if every one is chosen."""
        shown = {one.entry_id for one in self.rows.items}
        self.chosen = set() if shown <= self.chosen else shown
        self.rows.refresh()
        self._show_title()
        if self._cursor is not None and self.chosen:
            self.say("earlier entries are not chosen: Home reads and shows them")

    def action_squash(self) -> None:
        """Have the model see a summary in place of the entries, or the entries again."""
        self.is_squash = not self.is_squash
        self._show_title()

    async def _load_first(self, client: Client) -> None:
        page = await self._page(client, {})
        if not self.is_attached:
            return
        found = _choices(page)
        self._cursor = page.next_cursor
        self.rows.show(found, len(found) - 1)
        self._show_title()

    async def _load_earlier(self, client: Client) -> None:
        try:
            page = await self._page(client, {"cursor": self._cursor or ""})
        finally:
            self._is_loading = False
        if not self.is_attached:
            return
        earlier = _choices(page)
        self._cursor = page.next_cursor
        self.rows.show([*earlier, *self.rows.items], self.rows.cursor + len(earlier))
        self._show_title()

    async def _page(self, client: Client, options: PathOptions) -> PathPage:
        if self._upto is not None and "cursor" not in options:
            options["entry_id"] = self._upto
        options["from_end"] = True
        options["limit"] = _PAGE
        return await client.path(self._session_id, **options)

    async def _rebase(self, client: Client) -> None:
        ids = [one.entry_id for one in self.rows.items if one.entry_id in self.chosen]
        options: dict[str, Any] = {}
        if self.is_squash:
            hint = "Summary that the model sees. Leave it empty to have one written."
            question = f"Squash {counted(len(ids), 'entry')} into a new session"
            summary = await self.browser.ask(Question(question, hint))
            if summary is None:
                return
            options["squash"] = {"summary": summary} if summary.strip() else {}
        self.browser.say("making the session …")
        made = await client.rebase(self._session_id, entry_ids=ids, timeout=UNTIL_SILENT, **options)
        self.browser.leave(self)
        self.browser.show_tree(made.id)
        self.browser.say(f"this is the new session {short_id(made.id)}; Esc goes back")

    def _line(self, one: Choice) -> Line:
        is_chosen = one.entry_id in self.chosen
        return Line(
            [
                Part(" [x] " if is_chosen else " [ ] ", "bold green" if is_chosen else ""),
                Part(f"{one.kind}: ", "yellow"),
                Part(one.preview),
            ],
            [Part(f"{short_id(one.entry_id)} ", "cyan")],
        )

    def _show_title(self) -> None:
        how = "squashed" if self.is_squash else "as they are"
        earlier = "" if self._cursor is None else " · earlier ones at the top"
        count = f"{len(self.chosen)} of {len(self.rows.items)} chosen, {how}{earlier}"
        self.title_is(f"Rebase {short_id(self._session_id)}", count)


def _choices(page: PathPage) -> list[Choice]:
    return [
        Choice(str(row.entry["id"]), kind_of(row.entry), preview(row.entry)) for row in page.entries
    ]
