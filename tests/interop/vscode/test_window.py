"""The VS Code extension as its package, in code-server and a headless Chromium, against a daemon that is killed.

One code-server serves all tests; each test has a window on a folder of its own.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from sessiond_client import BlockingClient
from tests.interop.test_stubs import kill_the_daemon, python_client, run
from tests.interop.vscode.workbench import CodeServer, Window, browsing, serving
from tests.kit.patience import soon
from tests.kit.processes import children
from tests.processes.harness.daemon import SESSIOND

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [
    *(pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(300)),
    pytest.mark.xdist_group("code-server"),
]

LARGE_BYTES: Final = 51 * 1024 * 1024


@pytest.fixture(scope="module")
def environment(
    tmp_path_factory: pytest.TempPathFactory, node: Path
) -> Iterator[Mapping[str, str]]:
    """Yield a user's environment with an empty home; stop its daemon at the end."""
    home = tmp_path_factory.mktemp("vscode")
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("SESSIOND_", "XDG_"))}
    search = [str(Path(SESSIOND).parent), str(node.parent), os.environ["PATH"]]
    environment = {
        **inherited,
        "PATH": os.pathsep.join(search),
        "HOME": str(home),
        "SESSIOND_HOME": str(home / "data"),
        # VS Code asks a login shell for the search path, which does not name a virtual environment.
        "SESSIOND_COMMAND": SESSIOND,
    }
    yield environment
    run([SESSIOND, "stop"], environment)


@pytest.fixture(scope="module")
def code(
    node: Path, vscode_server: Path, vscode_extension: Path, environment: Mapping[str, str]
) -> Iterator[CodeServer]:
    """Run code-server with the extension."""
    package = vscode_extension / "dist" / "sessiond.vsix"
    with serving(node, vscode_server, package, Path(environment["HOME"]), environment) as code:
        yield code


@pytest.fixture(scope="module")
def browser(program: Callable[[str], str]) -> Iterator[Browser]:
    """Run the browser."""
    program("chromium")
    with browsing() as browser:
        yield browser


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    return project


@pytest.fixture
def open_window(
    browser: Browser, code: CodeServer, project: Path, request: pytest.FixtureRequest
) -> Iterator[Callable[[], Window]]:
    """Return a function that opens a window on the project; keep a picture of it if the test fails."""
    failed = request.session.testsfailed
    page = browser.new_page(viewport={"width": 1200, "height": 800})
    page.set_default_timeout(60_000)

    def open_it() -> Window:
        page.goto(f"{code.address()}/?folder={project}")
        return Window(page)

    yield open_it
    if request.session.testsfailed > failed:
        page.screenshot(path=project.parent / "window.png")
    # Chromium may never end a page that is closed while something is being loaded.
    page.goto("about:blank")
    page.close()
    code.end_extension_hosts()


@pytest.fixture
def window(open_window: Callable[[], Window]) -> Window:
    """Open a window on the empty project."""
    return open_window()


def say(client: BlockingClient, session: str, *texts: str) -> list[str]:
    """Append messages; return their ids."""
    return [
        client.append(session, message={"role": "user", "content": text}).entries[0].id
        for text in texts
    ]


def texts(client: BlockingClient, session: str) -> list[str]:
    """Return the content of every stored message, in the order of `seq`."""
    rows = client.entries(session).entries
    return [row.entry["message"]["content"] for row in rows if row.entry["type"] == "message"]


def subcommands(code: CodeServer) -> list[str]:
    """Return the subcommands of sessiond that extensions run; the start of a daemon is one for a moment."""
    commands = [one.split("\0") for one in children(code.extension_host())]
    return [words[words.index(SESSIOND) + 1] for words in commands if SESSIOND in words]


def test_a_window_shows_sessions_that_follow_over_a_kill(
    window: Window, code: CodeServer, project: Path, environment: Mapping[str, str]
) -> None:
    session = "session-in-a-window"
    with python_client(environment) as client:
        client.create(str(project), session_id=session, title="Fix the clock", persist="immediate")
        first, _ = say(client, session, "Why is it late?", "The clock.")
        window.show_sessions()
        window.expect(window.row("Fix the clock")).to_contain_text("2 messages")
        window.unfold("Fix the clock")
        window.expect(window.row("Why is it late?")).to_be_visible()
        window.row("Fix the clock").click()
        window.until_shown("The clock.")
        assert [line for line in window.lines() if not line.startswith("──")] == [
            "Why is it late?",
            "The clock.",
        ]
        window.expect(window.status()).to_contain_text("7 / 200k tokens")
        # Another client appends, labels and branches, and a session is made beside.
        say(client, session, "appended by another client " * 40)
        window.until_shown("appended by another client")
        window.expect(window.row("appended by another")).to_be_visible()
        tokens = client.usage(session).tokens
        window.expect(window.status()).to_contain_text(f" {tokens} / 200k tokens")
        client.label(session, first, "question")
        window.expect(window.row("Why is it late?")).to_contain_text("[question]")
        client.branch(session, first, head="side")
        client.append(session, head="side", message={"role": "user", "content": "Time zone."})
        window.until_shown("[side]")
        window.unfold("Why is it late?")
        window.expect(window.row("Time zone.")).to_contain_text("branch of 1")
        client.update(session, title="The mended clock")
        window.expect(window.row("The mended clock")).to_be_visible()
        client.create(str(project), title="Came later", persist="immediate")
        window.expect(window.row("Came later")).to_be_visible()
    kill_the_daemon(environment)
    with python_client(environment) as client:
        say(client, session, "stored after the kill")
        window.until_shown("stored after the kill")
        window.expect(window.row("stored after the kill")).to_be_visible()
        # The daemon may be about to notice the end of an earlier window.
        soon(lambda: client.call("server/stats")["clients"] == 2)
    soon(lambda: subcommands(code) == [])


def test_commands_write_to_a_session_and_search_finds_it(
    window: Window, project: Path, environment: Mapping[str, str]
) -> None:
    window.show_sessions()
    began = time.monotonic()
    window.command("sessiond: New Session")
    window.answer("Made here")
    window.expect(window.page.locator(".tab", has_text="Made here")).to_be_visible()
    window.command("sessiond: Append Message")
    window.answer("hello from the window")
    window.until_shown("hello from the window")
    print(f"from the first command to the first shared append: {time.monotonic() - began:.1f} s")  # noqa: T201
    with python_client(environment) as client:
        (info,) = client.list(cwd=str(project)).sessions
        assert (info.title, texts(client, info.id)) == ("Made here", ["hello from the window"])
        root = client.entries(info.id).entries[0].entry["id"]
        # The cursor is at the end: the last entry is what commands are for.
        window.command("sessiond: Label Entry")
        window.answer("greeting")
        soon(lambda: [one.label for one in client.labels(info.id).labels] == ["greeting"])
        window.command("sessiond: Append Message")
        window.answer("to be branched")
        window.until_shown("to be branched")
        window.page.locator(".view-line", has_text="hello").first.click()
        window.command("sessiond: Branch Here")
        window.answer("side")
        soon(lambda: {h.name: h.leaf_id for h in client.heads(info.id)}.get("side") == root)
        window.command("sessiond: Append Message")
        window.answer("beside", choice=None)
        window.answer("side", choice="side")
        soon(lambda: texts(client, info.id)[2:] == ["beside"])
        window.page.locator(".view-line", has_text="hello").first.click()
        window.command("sessiond: Fork Session")
        window.answer("The fork")
        window.expect(window.page.locator(".tab", has_text="The fork")).to_be_visible()
        forks = soon(lambda: client.list(cwd=str(project), title="The fork").sessions)
        assert texts(client, forks[0].id) == ["hello from the window"]
        # A hit leads to its entry; what is stored while the box is open is found, too.
        window.command("sessiond: Search Sessions")
        window.answer("branched", choice="to be branched")
        window.expect(window.page.locator(".tab.active")).to_contain_text("Made here")


def test_the_tree_shows_the_sessions_of_the_workspace_or_of_all_projects(
    window: Window, project: Path, tmp_path: Path, environment: Mapping[str, str]
) -> None:
    with python_client(environment) as client:
        client.create(str(project), title="Of this project", persist="immediate")
        client.create(str(tmp_path / "other"), title="Of another project", persist="immediate")
    window.show_sessions()
    window.expect(window.row("Of this project")).to_be_visible()
    window.expect(window.row("Of another project")).to_have_count(0)
    window.command("sessiond: Show Sessions of All Projects")
    window.expect(window.row("Of another project")).to_be_visible()
    window.expect(window.row("Of this project")).to_be_visible()
    window.command("sessiond: Show Sessions of This Workspace")
    window.expect(window.row("Of another project")).to_have_count(0)
    window.expect(window.row("Of this project")).to_be_visible()


def test_a_selection_is_appended_to_the_session_that_is_picked(
    open_window: Callable[[], Window], project: Path, environment: Mapping[str, str]
) -> None:
    (project / "notes.txt").write_text("first\nremember this\nlast\n", "utf-8")
    window = open_window()
    with python_client(environment) as client:
        session = client.create(str(project), title="Takes notes", persist="immediate").session.id
        window.file("notes.txt").dblclick()
        window.until_shown("remember this")
        window.page.locator(".view-line", has_text="remember").click(click_count=3)
        window.command("sessiond: Append Selection")
        window.answer("Takes", choice="Takes notes")
        soon(lambda: texts(client, session))
        assert texts(client, session) == ["remember this\n"]


def moved_into(project: Path, environment: Mapping[str, str], session: str) -> Path:
    """Move the file of a session into the project, as another program leaves one there."""
    with python_client(environment) as client:
        stored = client.get(session).path
    assert stored is not None
    assert run([SESSIOND, "stop"], environment).returncode == 0
    return Path(stored).rename(project / "moved.jsonl")


def test_a_session_file_has_an_outline_of_the_language_server(
    open_window: Callable[[], Window],
    code: CodeServer,
    project: Path,
    environment: Mapping[str, str],
) -> None:
    with python_client(environment) as client:
        session = client.create(str(project), persist="immediate").session.id
        say(client, session, "the question of the outline")
    moved_into(project, environment, session)
    window = open_window()
    window.file("moved.jsonl").dblclick()
    window.until_shown("the question of the outline")
    window.page.keyboard.press("Control+Shift+O")
    symbols = window.page.locator(".quick-input-list .monaco-list-row")
    window.expect(symbols.filter(has_text="the question of the outline").first).to_be_visible()
    soon(lambda: subcommands(code) == ["lsp"])
    window.page.keyboard.press("Escape")
    window.command("sessiond: Open the Session of This File")
    window.until_shown("── user ── #1")
    assert "the question of the outline" in window.lines()


def test_a_session_file_that_is_too_large_for_extensions_opens_as_its_session(
    open_window: Callable[[], Window], project: Path, environment: Mapping[str, str]
) -> None:
    with python_client(environment) as client:
        session = client.create(str(project), persist="immediate").session.id
        for number in range(55):
            say(client, session, f"{number}. {'x' * 1_000_000}")
        say(client, session, "the end of it")
    assert moved_into(project, environment, session).stat().st_size > LARGE_BYTES
    window = open_window()
    window.file("moved.jsonl").dblclick()
    window.until_shown("the end of it")
    window.expect(window.page.locator(".tab", has_text="moved.jsonl")).to_have_count(0)
    # Earlier entries come a page at a time.
    window.command("sessiond: Show Earlier Entries")
    window.until_shown("── user ── #1")
    window.expect(window.page.locator(".codelens-decoration a", has_text="Newest")).to_be_visible()
    # Above, the file was opened before the extension was there; here the extension sees the file come.
    window.command("View: Close All Editors")
    window.expect(window.page.locator(".tab")).to_have_count(0)
    window.file("moved.jsonl").dblclick()
    window.until_shown("the end of it")
