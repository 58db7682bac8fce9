"""View: a screen with its bars, and the way from a key to the daemon.

Law: a key never waits. What asks the daemon runs as a task of the application, and tells in the
message bar what became of it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import ClassVar, Protocol, TypeVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.dom import DOMNode
from textual.screen import ModalScreen, Screen
from textual.widget import Widget

from sessiond.browse.advice import advice
from sessiond.browse.bars import Key, KeyBar, MessageBar, TitleBar
from sessiond.browse.link import Link
from sessiond.browse.tasks import Work
from sessiond_client import Client, ClientClosed, SessiondClientError

T = TypeVar("T")


class Browser(Protocol):
    """The application as its views know it."""

    link: Link
    project: str
    """Folder whose sessions are listed first."""

    def say(self, text: str, *, is_error: bool = False) -> None:
        """Show a message in the view that is shown now."""
        ...

    def start(self, work: Work) -> None:
        """Run work as a task of the application, which no end of a view ends."""
        ...

    def open(self, view: Screen[None]) -> None:
        """Show a view above the present one."""
        ...

    def leave(self, view: Screen[None]) -> None:
        """Show the view before a view, if the view is shown and not the first one."""
        ...

    async def ask(self, dialog: ModalScreen[T]) -> T:
        """Show a dialog and return its answer."""
        ...

    def show_help(self) -> None:
        """Show the keys."""
        ...

    def show_search(self, session: tuple[str, str | None] | None) -> None:
        """Show the search."""
        ...

    def show_tree(self, session_id: str, entry_id: str | None = None) -> None:
        """Show the tree of a session."""
        ...


def browser_of(node: DOMNode) -> Browser:
    """Return the application that a screen belongs to."""
    return cast("Browser", node.app)  # pyright: ignore[reportUnknownMemberType] - App[Unknown]


class View(Screen[None]):
    """A screen of the application.

    Work may come to an end while Textual takes the screen apart, so a view holds its widgets, and asks
    Textual for none.
    """

    KEYS: ClassVar[Sequence[Key]] = ()
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "back", show=False),
        Binding("question_mark", "help", "help", show=False),
        Binding("slash", "search", "search", show=False),
        Binding("q", "app.quit", "quit", show=False),
    ]

    @property
    def browser(self) -> Browser:
        """The application."""
        return browser_of(self)

    def __init__(self) -> None:
        super().__init__()
        self.title_bar = TitleBar()
        self.message_bar = MessageBar()

    def compose(self) -> ComposeResult:
        """Put the bars around the body."""
        yield self.title_bar
        yield from self.body()
        yield self.message_bar
        yield KeyBar(self.KEYS)

    def body(self) -> Iterator[Widget]:
        """Yield what stands between the bars."""
        yield from ()

    def say(self, text: str, *, is_error: bool = False) -> None:
        """Show a message; an empty text ends the last one."""
        self.message_bar.say(text, is_error=is_error)

    def unsay(self, text: str) -> None:
        """End a message if no later one has replaced the message."""
        self.message_bar.unsay(text)

    def title_is(self, left: str, right: str = "") -> None:
        """Show the title."""
        self.title_bar.show(left, right)

    def act(self, work: Callable[[Client], Awaitable[None]], doing: str = "") -> None:
        """Run work that asks the daemon; show its error.

        The work goes on if the user leaves the view meanwhile: what was begun is not half done. So
        work that shows its outcome in the view looks first whether the view is attached.
        """
        self.browser.start(partial(self._act, work, doing))

    async def _act(self, work: Callable[[Client], Awaitable[None]], doing: str) -> None:
        if doing:
            self.say(doing)
        self.browser.link.waiting += 1
        try:
            await work(await self.browser.link.client())
        except ClientClosed:
            return
        except SessiondClientError as error:
            self.browser.say(advice(error), is_error=True)
        else:
            self.unsay(doing)
        finally:
            self.browser.link.waiting -= 1

    def session_of_view(self) -> tuple[str, str | None] | None:
        """Return the id and the project of the session that is shown; None if none is."""
        return None

    def action_back(self) -> None:
        """Go back to the view before."""
        self.browser.leave(self)

    def action_help(self) -> None:
        """Show the keys."""
        self.browser.show_help()

    def action_search(self) -> None:
        """Search this session, or all sessions."""
        self.browser.show_search(self.session_of_view())
