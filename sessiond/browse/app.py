"""The application: its views, its one client, and the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, TypeVar

from textual.app import App
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen, Screen

from sessiond.browse.help import HelpView
from sessiond.browse.link import Link, Start
from sessiond.browse.search import SearchView
from sessiond.browse.sessions import SessionsView
from sessiond.browse.tasks import Work, begin
from sessiond.browse.tree import TreeView
from sessiond.browse.view import View
from sessiond_client import SessiondClientError

T = TypeVar("T")


def browse(socket: Path, start: Start | None, project: str, session_id: str | None) -> None:
    """Run the application until the user quits. Raise SessiondClientError without a daemon.

    `start` starts a daemon that ended; None if none may be started.
    """
    app = BrowseApp(socket, start, project, session_id)
    app.run()
    if app.failure is not None:
        raise app.failure
    if app.bug is not None:
        raise app.bug


class BrowseApp(App[None]):
    """The terminal application; its colours are those of the terminal."""

    TITLE = "sessiond browse"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+c", "quit", "quit", show=False)]

    def __init__(
        self, socket: Path, start: Start | None, project: str, session_id: str | None = None
    ) -> None:
        # Colours by name are the terminal's own: readable on light and on dark.
        super().__init__(ansi_color=True)
        self.theme = "ansi-dark"
        self.project = project
        self.failure: SessiondClientError | None = None
        self.bug: Exception | None = None
        self.link = Link(socket, start, lost=self._lost, found=self._found, differs=self.say)
        self._session_id = session_id
        self._losses: set[str] = set()
        """Messages about a daemon that is not there, until one is."""

    def on_mount(self) -> None:
        """Connect, and show the sessions or the session that was named."""
        begin(self, self._keep_connected)
        self.push_screen(SessionsView())
        if self._session_id is not None:
            self.show_tree(self._session_id)

    def say(self, text: str, *, is_error: bool = False) -> None:
        """Show a message in the view that is shown now, below a dialog if one is open."""
        for view in self._views()[-1:]:
            view.say(text, is_error=is_error)

    def start(self, work: Work) -> None:
        """Run work as a task of the application, which no end of a view ends."""
        begin(self, work)

    def open(self, view: Screen[None]) -> None:
        """Show a view above the present one."""
        self.push_screen(view)

    def leave(self, view: Screen[None]) -> None:
        """Show the view before a view, if the view is shown and not the first one."""
        # Below the first view lies the empty screen of Textual.
        if self.screen is view and len(self.screen_stack) > 2:
            self.pop_screen()

    async def ask(self, dialog: ModalScreen[T]) -> T:
        """Show a dialog and return its answer, which asks for a daemon as a key does."""
        # The user waits for no daemon while a dialog waits for the user.
        self.link.waiting -= 1
        try:
            answer = await self.push_screen_wait(dialog)
        finally:
            self.link.waiting += 1
        if answer is not None:
            # The daemon may have ended while the dialog was open.
            await self.link.client()
        return answer

    def show_help(self) -> None:
        """Show the keys."""
        self.push_screen(HelpView())

    def show_search(self, session: tuple[str, str | None] | None) -> None:
        """Show the search."""
        self.push_screen(SearchView(session))

    def show_tree(self, session_id: str, entry_id: str | None = None) -> None:
        """Show the tree of a session."""
        self.push_screen(TreeView(session_id, entry_id))

    def _handle_exception(self, error: Exception) -> None:
        self.bug = self.bug or error
        super()._handle_exception(error)

    def _fatal_error(self) -> None:
        # Textual would print the values of variables, and with them what messages say.
        self._close_messages_no_wait()

    async def _keep_connected(self) -> None:
        try:
            await self.link.run()
        except SessiondClientError as error:
            self.failure = error
            self.exit()

    def _lost(self, text: str) -> None:
        self._losses.add(text)
        self.say(text, is_error=True)

    def _found(self) -> None:
        # The client may have been faster, and a message may tell the outcome of a command already.
        for view in (views := self._views()):
            for text in self._losses:
                view.unsay(text)
        self._losses.clear()
        if views and not views[-1].message_bar.text:
            self.say("the daemon is back; nothing was missed")

    def _views(self) -> Sequence[View]:
        """Return the views, the one that is shown now last."""
        return [screen for screen in self.screen_stack if isinstance(screen, View)]
