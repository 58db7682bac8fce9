"""code-server, which is VS Code for browsers, with the packed extension; and its window in a headless Chromium.

Law: a test does what a person does: clicks, keys, commands by their title. Waits end by what is
shown or by a limit.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.kit.patience import PATIENCE_SECONDS, soon
from tests.kit.processes import children_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

__all__ = ["CodeServer", "Window", "browsing", "serving"]

# Chromium's own traffic is off: a machine without a network would refuse it again and again.
FLAGS: Final = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
]
# True once the box at the top is hidden, or asks something else.
IS_TAKEN: Final = """(text) => {
    const box = document.querySelector(".quick-input-widget input[type='text']");
    return box === null || box.offsetParent === null || box.value !== text;
}"""
SETTINGS: Final = {
    "workbench.startupEditor": "none",
    "workbench.secondarySideBar.defaultVisibility": "hidden",
    "workbench.tips.enabled": False,
    "chat.disableAIFeatures": True,
    "telemetry.telemetryLevel": "off",
    "extensions.ignoreRecommendations": True,
    "git.enabled": False,
    "files.hotExit": "off",
}


class CodeServer:
    """A running code-server with the extension."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process = process
        self._log = log

    def said(self) -> str:
        """Return what code-server wrote."""
        return self._log.read_text("utf-8", "replace")

    def address(self) -> str:
        """Wait until code-server listens; return its address."""

        def found() -> re.Match[str] | None:
            assert self._process.poll() is None, self.said()
            return re.search(r"listening on (http://[\d.]+:\d+)/", self.said())

        return soon(found, self.said)[1]

    def extension_host(self) -> int:
        """Return the process in which the extensions of the open window run."""
        return self._until(1)[0]

    def end_extension_hosts(self) -> None:
        """End the processes of windows that are closed.

        A window says goodbye as it is closed. Where the browser has no time for that, its process
        waits for hours for the window to come back, with the connections of its extensions.
        """
        for pid in self._extension_hosts():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._until(0)

    def _until(self, count: int) -> list[int]:
        """Wait until there are so many extension hosts; return them."""
        soon(lambda: len(self._extension_hosts()) == count, self._extension_hosts)
        return self._extension_hosts()

    def _extension_hosts(self) -> list[int]:
        commands = descendants(self._process.pid)
        return [pid for pid, command in commands.items() if "--type=extensionHost" in command]


def descendants(pid: int) -> dict[int, str]:
    """Return the commands of the processes below a process."""
    found: dict[int, str] = {}
    for child, command in children_of(pid).items():
        found |= {child: command} | descendants(child)
    return found


@contextmanager
def serving(
    node: Path, program: Path, package: Path, folder: Path, environment: Mapping[str, str]
) -> Iterator[CodeServer]:
    """Run code-server with the packed extension installed; end code-server by its handle."""
    data = folder / "user-data"
    (data / "User").mkdir(parents=True)
    (data / "User" / "settings.json").write_text(json.dumps(SETTINGS), "utf-8")
    command = [str(node), str(program), f"--user-data-dir={data}"]
    command += [f"--extensions-dir={folder / 'extensions'}", "--disable-telemetry"]
    # Extensions come from a file: nothing is asked of a gallery.
    environment = {**environment, "EXTENSIONS_GALLERY": "{}"}
    installing = subprocess.run(
        [*command, "--install-extension", str(package)],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert "was successfully installed" in installing.stdout, installing.stdout + installing.stderr
    log = folder / "code-server.log"
    with log.open("wb") as said:
        process = subprocess.Popen(
            [
                *(*command, "--auth=none", "--bind-addr=127.0.0.1:0"),
                *("--disable-update-check", "--disable-workspace-trust"),
            ],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
        )
    try:
        yield CodeServer(process, log)
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)


@contextmanager
def browsing() -> Iterator[Browser]:
    """Run a headless Chromium."""
    # Imported here: the fast tests are collected where no driver is installed.
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        yield browser
        browser.close()


class Window:
    """A window of VS Code on a folder."""

    def __init__(self, page: Page) -> None:
        self.page = page

    @property
    def rows(self) -> Locator:
        """The lines of the tree of sessions."""
        return self.page.locator("[id='workbench.view.extension.sessiond'] .monaco-list-row")

    def show_sessions(self) -> None:
        """Show the extension's view."""
        self.page.locator(".activitybar .action-label[aria-label^='Sessions']").click()

    def row(self, text: str) -> Locator:
        """Return a line of the tree by a text in it."""
        return self.rows.filter(has_text=text).first

    def file(self, name: str) -> Locator:
        """Return the line of a file of the folder."""
        return self.page.locator(".explorer-folders-view .monaco-list-row", has_text=name)

    def unfold(self, text: str) -> None:
        """Unfold a line of the tree once the line has something below."""
        # A click on the twistie of a leaf selects the leaf and unfolds nothing.
        self.row(text).locator(".monaco-tl-twistie.collapsible.collapsed").click()
        self.expect(self.row(text).locator(".monaco-tl-twistie.collapsed")).to_have_count(0)

    def until_shown(self, text: str) -> None:
        """Wait until the editor shows a text in one of its lines."""
        # VS Code draws blanks as no-break spaces.
        pattern = re.compile(re.escape(text).replace(r"\ ", r"[ \u00a0]"))
        self.expect(self.page.locator(".view-line", has_text=pattern).first).to_be_visible()

    def lines(self) -> list[str]:
        """Return the lines that the editor shows."""
        found = self.page.locator(".editor-instance .view-line")
        placed: list[tuple[float, str]] = found.evaluate_all(
            "lines => lines.map((line) => [parseFloat(line.style.top), line.textContent])"
        )
        return [text.replace("\u00a0", " ") for _, text in sorted(placed) if text.strip()]

    def command(self, title: str) -> None:
        """Run a command by its title."""
        self.page.keyboard.press("F1")
        self.answer(f">{title}", choice=title)

    def answer(self, text: str, choice: str | None = None) -> None:
        """Type into the box at the top, and press the Enter key; wait for a choice before, if one is named.

        Return when the answer is taken: the box of the next question is then another one.
        """
        box = self.page.locator(".quick-input-widget input[type='text']:visible")
        self.expect(box).to_be_focused()
        box.fill(text)
        if choice is not None:
            first = self.page.locator(".quick-input-list .monaco-list-row").first
            self.expect(first).to_contain_text(choice)
        box.press("Enter")
        self.page.wait_for_function(IS_TAKEN, arg=text)

    def status(self) -> Locator:
        """Return the tokens in the status bar."""
        return self.page.locator(".statusbar [id='sessiond.sessiond.sessiond.tokens']")

    def expect(self, place: Locator) -> Any:
        """Return assertions that wait until they hold."""
        from playwright.sync_api import expect as expected

        expected.set_options(timeout=PATIENCE_SECONDS * 1000)
        return expected(place)
