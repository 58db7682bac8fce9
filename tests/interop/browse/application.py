"""The application in a test: keys are pressed, and the text of the screen is read.

Law: the application is the real one and its daemon a process of its own; only the terminal is
Textual's own stand-in, the pilot. A test waits for what the screen shows, or for what is stored.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sessiond_client import Client
from tests.kit.patience import eventually

if TYPE_CHECKING:  # without the extra the tests are collected, and skipped
    from textual.pilot import Pilot

    from sessiond.browse.app import BrowseApp
    from sessiond.browse.link import Start

__all__ = ["SESSION", "Application", "browsing", "conversation"]

SESSION: Final = "session-to-browse"


class Application:
    """The running application, as a person at the keyboard has it."""

    def __init__(self, app: BrowseApp, pilot: Pilot[None]) -> None:
        self.app = app
        self._pilot = pilot

    @property
    def lines(self) -> list[str]:
        """The lines of the screen, without the blanks at their ends."""
        from textual._context import visible_screen_stack

        # Textual keeps what is drawn here. A dialog drawn without the views below would stay so.
        visible_screen_stack.set(self.app._background_screens)
        strips = self.app.screen._compositor.render_strips()
        return [strip.text.rstrip() for strip in strips]

    @property
    def text(self) -> str:
        """The text of the screen."""
        return "\n".join(self.lines)

    @property
    def words(self) -> str:
        """The words of the screen, with one space between them."""
        return " ".join(self.text.replace("│", " ").split())

    async def press(self, *keys: str) -> None:
        """Press keys."""
        await self._pilot.press(*keys)

    async def type(self, text: str) -> None:
        """Paste a text into a dialog, in place of what stands there, and press Enter."""
        from textual.events import Paste
        from textual.widgets import Input

        line = self.app.screen.query_one(Input)
        await self.press("end", "ctrl+u")
        line.post_message(Paste(text))
        await self.until(lambda: line.value == text)
        await self.press("enter")

    async def until(self, is_it: Callable[[], Any]) -> Any:
        """Wait for a condition, which may be a coroutine; return its value."""
        return await eventually(is_it, lambda: f"the screen shows:\n{self.text}")

    async def shows(self, *texts: str) -> None:
        """Wait until the screen shows every text, in one line or wrapped."""
        await self.until(lambda: all(text in self.text or text in self.words for text in texts))

    async def shows_no(self, text: str) -> None:
        """Wait until the screen shows a text no more."""
        await self.until(lambda: text not in self.text)

    async def goes_to(self, text: str) -> None:
        """Move the cursor up until its line has a text."""
        for _ in range(100):
            if text in self.cursor_line:
                return
            await self.press("up")
        raise AssertionError(f"no line has {text!r}:\n{self.text}")

    @property
    def cursor_line(self) -> str:
        """The line at the cursor of the list."""
        from sessiond.browse.rows import Rows

        rows = self.app.screen.query_one(Rows)
        strip = rows.render_line(rows.cursor - rows.scroll_offset.y)
        return strip.text.rstrip()


@asynccontextmanager
async def browsing(
    socket: Path,
    project: Path | str = "/my/project",
    session_id: str | None = SESSION,
    *,
    size: tuple[int, int] = (80, 24),
    start: Start | None = None,
) -> AsyncGenerator[Application]:
    """Run the application on a daemon."""
    from sessiond.browse.app import BrowseApp

    app = BrowseApp(socket, start, str(project), session_id)
    async with app.run_test(size=size) as pilot:
        yield Application(app, pilot)
    assert app.failure is None


async def conversation(
    client: Client, texts: Sequence[str] = ("Why is it late?", "The cron job."), **facts: Any
) -> list[str]:
    """Make a session of messages, the user's first; return the ids of the entries."""
    options: dict[str, Any] = {"session_id": SESSION, "title": "Fix the clock", **facts}
    cwd = options.pop("cwd", "/my/project")
    await client.create(cwd, persist="immediate", **options)
    roles = ("user", "assistant")
    entries = [
        {"type": "message", "message": {"role": roles[at % 2], "content": text}}
        for at, text in enumerate(texts)
    ]
    if not entries:
        return []
    done = await client.append(options["session_id"], entries=entries)
    return [one.id for one in done.entries]
