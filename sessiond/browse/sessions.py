"""The first view: the sessions of the project, or of all projects, as a list or as a forest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final

import anyio
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.worker import Worker

from sessiond.browse.actions import Acting, Target
from sessiond.browse.advice import advice
from sessiond.browse.bars import Key
from sessiond.browse.picker import RebaseView
from sessiond.browse.rows import Line, Rows
from sessiond.browse.session_lines import forest_line, list_line
from sessiond.browse.tasks import begin
from sessiond.browse.view import View
from sessiond.by_now import by_now
from sessiond.visible import counted, files_read, unread
from sessiond_client import CatalogSubscription, Client, SessiondClientError
from sessiond_client.generated.options import ForestOptions
from sessiond_client.generated.results import ForestNode, LookProgress, SessionInfo, SessionPage

_PAGE: Final = 100
_PAGE_MAX: Final = 500
# Every append of any client is a hint: the list is read again at most so often.
_REST_SECONDS: Final = 0.5
_RETRY_SECONDS: Final = 2.0

Item = SessionInfo | ForestNode


class SessionsView(Acting, View):
    """The list and the forest of sessions."""

    KEYS: ClassVar[Sequence[Key]] = (
        *(("Enter", "open"), ("Tab", "forest"), ("a", "all"), ("F", "fork"), ("E", "export")),
        *(("/", "search"), ("M", "merge"), ("B", "branch"), ("R", "rebase")),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "forest", "forest", show=False),
        Binding("a", "all", "all projects", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.rows = Rows[Item](self._line)
        self.is_forest = False
        self.is_all = False
        self._next_cursor: str | None = None
        self._is_loading = False
        self._following: Worker[None] | None = None

    def body(self) -> Iterator[Widget]:
        """Yield the list."""
        yield self.rows

    def on_mount(self) -> None:
        """Show that the sessions are on their way."""
        self.title_is("Sessions", "loading")

    def on_screen_resume(self) -> None:
        """Follow the catalog while the list is in sight."""
        self._following = begin(self, self._follow, alone=True)

    def on_screen_suspend(self) -> None:
        """Follow the catalog no more: each append of any client is a hint."""
        if self._following is not None:
            self._following.cancel()

    def target(self) -> Target | None:
        """Return the session at the cursor."""
        item = self.rows.current
        return None if item is None else Target(_id_of(item), None)

    def action_branch(self) -> None:
        """Make a child of the session that goes on at its end, as sharur branches."""
        self.make_copy("branch")

    def action_rebase(self) -> None:
        """Choose entries of the session for a new one."""
        item = self.rows.current
        if item is not None:
            self.browser.open(RebaseView(_id_of(item), None))

    def action_forest(self) -> None:
        """Show the forest in place of the list, or the list again."""
        self.is_forest = not self.is_forest
        self.act(self._load, "reading the sessions …")

    def action_all(self) -> None:
        """Show the sessions of all projects, or those of the project again."""
        self.is_all = not self.is_all
        self.act(self._load, "reading the sessions …")

    def on_rows_chosen(self) -> None:
        """Open the session at the cursor."""
        item = self.rows.current
        if item is not None:
            self.browser.show_tree(_id_of(item))

    def on_rows_moved(self) -> None:
        """Read the next page if the cursor is near the end of the list."""
        near_end = self.rows.cursor >= len(self.rows.items) - _PAGE // 4
        if near_end and self._next_cursor is not None and not self._is_loading:
            self._is_loading = True
            self.act(self._load_more)

    def _line(self, item: Item) -> Line:
        if isinstance(item, ForestNode):
            return forest_line(item)
        return list_line(item, with_folder=self.is_all)

    def _scope(self) -> dict[str, Any]:
        return {} if self.is_all else {"cwd": self.browser.project}

    async def _follow(self) -> None:
        """Read the sessions again whenever the catalog changes."""
        client = await self.browser.link.client()
        while True:
            try:
                async with client.subscribe_catalog() as hints:
                    await self._load(client)
                    await self._load_at_hints(client, hints)
            except SessiondClientError as error:
                self.say(advice(error), is_error=True)
                await anyio.sleep(_RETRY_SECONDS)

    async def _load_at_hints(self, client: Client, hints: CatalogSubscription) -> None:
        changed = anyio.Event()

        async def read() -> None:
            nonlocal changed
            while True:
                await changed.wait()
                changed = anyio.Event()
                await self._load(client)
                await anyio.sleep(_REST_SECONDS)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            async for _ in hints:
                changed.set()

    async def _load(self, client: Client) -> None:
        """Read what is shown anew, as many sessions as are shown."""
        chosen = self.is_forest, self.is_all
        load = self._load_forest if self.is_forest else self._load_list
        while await load(client, chosen):
            pass

    def _is_chosen(self, chosen: tuple[bool, bool]) -> bool:
        """Return whether the view still shows what was chosen when the reading began."""
        return self.is_attached and chosen == (self.is_forest, self.is_all)

    async def _load_forest(self, client: Client, chosen: tuple[bool, bool]) -> bool:
        """Show the forest; return False, since it is whole."""
        scope: ForestOptions = {"layout": True, "scope": "all" if self.is_all else "project"}
        if not self.is_all:
            scope["cwd"] = self.browser.project
        forest = await client.catalog_forest(**scope)
        if self._is_chosen(chosen):
            self._show(forest.nodes, None)
        return False

    async def _load_list(self, client: Client, chosen: tuple[bool, bool]) -> bool:
        """Show the list as far as it is known; return whether more of it is looked at."""
        # A list that was shown whole has room for a new session.
        shown = len(self.rows.items) + (_PAGE if self._next_cursor is None else 0)
        limit = min(_PAGE_MAX, max(_PAGE, shown))
        page = await by_now(client, SessionPage, "session/list", limit=limit, **self._scope())
        if not self._is_chosen(chosen):
            return False
        self._show(page.sessions, page.next_cursor, page.looking, len(page.unreadable))
        return page.looking is not None

    async def _load_more(self, client: Client) -> None:
        cursor, is_all = self._next_cursor, self.is_all
        try:
            page = await client.list(limit=_PAGE, cursor=cursor or "", **self._scope())
        finally:
            self._is_loading = False
        if self.is_forest or not self.is_attached:
            return
        if cursor == self._next_cursor and is_all == self.is_all:
            shown = [*self.rows.items, *page.sessions]
            self._show(shown, page.next_cursor, unreadable=len(page.unreadable))

    def _show(
        self,
        items: Sequence[Item],
        cursor: str | None,
        looking: LookProgress | None = None,
        unreadable: int = 0,
    ) -> None:
        """Show sessions; the cursor stays at its session, and at the first one if it stood there."""
        self._next_cursor = cursor
        current = self.rows.current
        kept = None if current is None or self.rows.cursor == 0 else _id_of(current)
        at = next((at for at, item in enumerate(items) if _id_of(item) == kept), 0)
        self.rows.show(items, at)
        where = "all projects" if self.is_all else self.browser.project
        what = "Forest" if self.is_forest else "Sessions"
        has_more = cursor is not None or looking is not None
        said = counted(len(items), "session", has_more=has_more)
        if looking is not None and looking.total is not None:
            said += f", {files_read(looking.done, looking.total)}"
        self.title_is(f"{what} of {where}", said + unread(unreadable))
        if not (items or looking):
            more = "" if self.is_all else "; a shows those of all projects"
            self.say(f"no session here yet: `sessiond new` makes one{more}")


def _id_of(item: Item) -> str:
    return item.session_id if isinstance(item, ForestNode) else item.id
