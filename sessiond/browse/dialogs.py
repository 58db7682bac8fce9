"""Dialogs: a line of text to type, a session to choose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from sessiond.browse.advice import advice
from sessiond.browse.rows import Rows
from sessiond.browse.session_lines import list_line
from sessiond.browse.tasks import begin
from sessiond.browse.view import browser_of
from sessiond.browse.words import spelled
from sessiond_client import SessiondClientError
from sessiond_client.generated.options import ListOptions
from sessiond_client.generated.results import SessionInfo

_CSS = """
{name} {{ align: center middle; }}
{name} > Vertical {{
    width: 90%; max-width: 100; height: {height}; padding: 0 1;
    border: solid $primary; background: $background;
}}
{name} Static {{ height: auto; }}
{name} Input {{ background: $background; text-style: underline; }}
"""


class Question(ModalScreen[str | None]):
    """A question that is answered by a line of text; None if the user goes back."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "back", "back", show=False)]
    DEFAULT_CSS = _CSS.format(name="Question", height="auto")

    def __init__(self, question: str, hint: str, value: str = "") -> None:
        super().__init__()
        self._question = question
        self._hint = hint
        # A text that acts on the screen could not be edited as what it is.
        self._value = value if value == spelled(value) else ""

    def compose(self) -> ComposeResult:
        """Put the question above the line."""
        with Vertical():
            yield Static(Text(spelled(self._question), style="bold"))
            yield Static(Text(spelled(self._hint)))
            yield Input(self._value, compact=True)
            yield Static(Text("Enter does it, Esc goes back"))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Answer the question."""
        self.dismiss(event.value)

    def action_back(self) -> None:
        """Go back without an answer."""
        self.dismiss(None)


class SessionChoice(ModalScreen[SessionInfo | None]):
    """A list to choose a session from; None if the user goes back."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "back", show=False),
        Binding("a", "all", "all projects", show=False),
    ]
    DEFAULT_CSS = _CSS.format(name="SessionChoice", height="80%")
    SESSIONS_MAX: ClassVar[int] = 500

    def __init__(self, question: str, without: str) -> None:
        """`without` is the id of a session that cannot be chosen."""
        super().__init__()
        self.rows = Rows[SessionInfo](lambda one: list_line(one, with_folder=self._is_all))
        self._told = Static(Text("reading the sessions …"))
        self._question = question
        self._without = without
        self._is_all = False

    def compose(self) -> ComposeResult:
        """Put the question above the list."""
        with Vertical():
            yield Static(Text(spelled(self._question), style="bold"))
            yield self.rows
            yield self._told

    def on_mount(self) -> None:
        """Read the sessions."""
        begin(self, self._load)

    def on_rows_chosen(self) -> None:
        """Choose the session at the cursor."""
        self.dismiss(self.rows.current)

    def action_back(self) -> None:
        """Go back without a session."""
        self.dismiss(None)

    def action_all(self) -> None:
        """Offer the sessions of all projects, or those of the project again."""
        self._is_all = not self._is_all
        begin(self, self._load, alone=True)

    async def _load(self) -> None:
        browser = browser_of(self)
        scope: ListOptions = {"limit": self.SESSIONS_MAX}
        if not self._is_all:
            scope["cwd"] = browser.project
        try:
            client = await browser.link.client()
            page = await client.list(**scope)
        except SessiondClientError as error:
            self._tell(advice(error))
            return
        if not self.is_attached:
            return
        offered: Sequence[SessionInfo] = [one for one in page.sessions if one.id != self._without]
        self.rows.show(offered, 0)
        what = "no other session here; " if not offered else "Enter chooses, "
        self._tell(f"{what}a {'the project' if self._is_all else 'all projects'}, Esc goes back")

    def _tell(self, text: str) -> None:
        self._told.update(Text(text))
