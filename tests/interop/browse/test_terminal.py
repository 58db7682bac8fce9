"""The real command in a real terminal, narrow and wide, while four processes append."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from sessiond_client import connect_blocking
from tests.interop.browse.application import SESSION
from tests.interop.browse.terminal import terminal
from tests.processes.harness.daemon import SESSIOND, Daemon

pytestmark = [pytest.mark.slow, pytest.mark.interop]

PAGE: Final = Path(__file__).resolve().parents[3] / "docs" / "browse.md"
WRITERS: Final = 4
MESSAGES: Final = 25
LEAF: Final = " ▶ assistant: writer-"
WRITER: Final = """
import sys
from sessiond_client import connect_blocking
place, session, name, count = sys.argv[1:]
with connect_blocking(place, client_id=name) as client:
    for at in range(int(count)):
        text = f"{name} says number {at}, and goes on with as many words as a line of a terminal has"
        client.append(session, message={"role": "assistant", "content": text})
"""


@pytest.fixture
def tmux(program: Callable[[str], str]) -> str:
    """Return the terminal; skip the test without it."""
    return program("tmux")


@pytest.fixture
def session(server: Daemon, project: Path) -> str:
    """Return a session of the project with two messages."""
    with connect_blocking(server.socket_path) as client:
        client.create(str(project), session_id=SESSION, title="Fix it", persist="immediate")
        client.append(SESSION, message={"role": "user", "content": "Why is it late?"})
        client.append(SESSION, message={"role": "assistant", "content": "\x1b[41mThe clock."})
    return SESSION


@contextmanager
def writing(server: Daemon) -> Iterator[None]:
    """Let four processes append; wait for their ends."""
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(server.socket_path), SESSION, name, str(MESSAGES)]
        )
        for name in (f"writer-{at}" for at in range(WRITERS))
    ]
    try:
        yield
        assert [writer.wait(120) for writer in writers] == [0] * WRITERS
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()


def options(server: Daemon) -> tuple[str, ...]:
    return ("--no-start", "--socket", str(server.socket_path))


@pytest.mark.parametrize("width", [80, 200])
def test_the_screen_is_readable_and_live_while_four_processes_append(
    tmux: str, server: Daemon, session: str, project: Path, width: int
) -> None:
    with terminal(tmux, project, server.environment, (width, 24), *options(server)) as shown:
        shown.until_shown("Sessions of", "Fix it", "1 session", "q quit")
        shown.press("Enter")
        shown.until_shown("Tree of Fix it", "user: Why is it late?")
        last = f"{2 + WRITERS * MESSAGES} lines · live"
        screens = [shown.screen()]
        with writing(server):
            # A drawing of more rows comes in two steps: the rows, then their place at the end.
            while last not in screens[-1] or LEAF not in screens[-1]:
                screens.append(shown.screen())
        screen = screens[-1]
        # How many captures fall between the first and the last message is up to the machine.
        assert screens[0].count("writer-") == 0 < screen.count("writer-")
        # Every screen on the way is whole: bars at their places, and rows between them.
        for one in screens:
            lines = one.rstrip("\n").split("\n")
            assert lines[0].startswith(" Tree of Fix it ")
            assert lines[-1].startswith("B branch  F fork")
            assert all(line == "" or ": " in line for line in lines[1:-1]), one
            assert max(map(len, lines)) <= width
        lines = screen.rstrip("\n").split("\n")
        assert lines[0].startswith(" Tree of Fix it ")
        assert lines[0].endswith(last)
        assert lines[-1].startswith("B branch  F fork  R rebase  M merge  L label  E export")
        assert lines[-1].endswith("? help  q quit")
        rows = lines[1:-1]
        assert len(rows) == 22
        # Every row but the leaf's stands on the path, and a text that is too long is cut with a mark.
        assert [row.startswith(LEAF) for row in rows].count(True) == 1
        assert all(row.startswith((" ▶ assistant: ", " • assistant: ")) for row in rows)
        if width == 80:
            assert all(re.search(r"as many words as a lin.*…", row) for row in rows)
        else:
            whole = re.compile(r"a terminal has +\d{4}-\d\d-\d\d \d\d:\d\d  [0-9a-f]{8}\b")
            assert all(whole.search(row) for row in rows)
        shown.press("Home")
        shown.until_shown("user: Why is it late?", r"assistant: \u001b[41mThe clock.")
        shown.press("q")
        assert shown.until_ended()[0] == 0


def test_the_colours_are_those_of_the_terminal_and_none_with_no_color(
    tmux: str, server: Daemon, session: str, project: Path
) -> None:
    """No colour is a mix of red, green and blue: names of colours are readable on light and dark."""
    seen = []
    for more in ({}, {"NO_COLOR": "1"}):
        environment = {**server.environment, **more}
        with terminal(tmux, project, environment, (80, 24), *options(server), session) as shown:
            shown.until_shown("The clock.", "q quit")
            seen.append(shown.screen("-e"))
    codes = [set(re.findall(r"\x1b\[([0-9;]*)m", screen)) for screen in seen]
    coloured = [{code for one in found for code in one.split(";")} for found in codes]
    # 30 to 37: one of the eight colours of the terminal. 38 and 48: a colour of the program's own.
    assert coloured[0] & {str(code) for code in range(30, 38)}
    for found in coloured:
        assert not found & {"38", "48"}
    assert not coloured[1] & {str(code) for code in (*range(30, 38), *range(40, 48))}
    assert "7" in coloured[1]


def test_three_connections_and_no_child_process(
    tmux: str, server: Daemon, session: str, project: Path
) -> None:
    with terminal(tmux, project, server.environment, (80, 24), *options(server), session) as shown:
        shown.until_shown("The clock.", "live")
        pid = shown.pid()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        assert children == []
        with connect_blocking(server.socket_path) as client:
            # Calls, the tree's events, and the silent one; and this client's own.
            shown.until(lambda: client.stats()["clients"] == 4)


@pytest.mark.conformance
def test_a_session_is_named_on_the_command_line_and_a_wrong_one_is_an_error(
    tmux: str, server: Daemon, session: str, project: Path
) -> None:
    with terminal(tmux, project, server.environment, (80, 24), *options(server), "Fix it") as shown:
        shown.until_shown("Tree of Fix it", "The clock.")
    with terminal(tmux, project, server.environment, (80, 24), *options(server), "nope") as shown:
        status, said = shown.until_ended()
        assert status == 4
        assert 'sessiond: no session has "nope" as id' in said


def run(environment: Mapping[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [SESSIOND, "browse", *words],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_without_a_terminal_or_textual_the_command_says_what_to_do(
    server: Daemon, tmp_path: Path
) -> None:
    done = run(server.environment)
    assert done.returncode == 2
    assert done.stderr.startswith("sessiond: browse needs a terminal: use `sessiond list`")
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as util\n"
        "find = util.find_spec\n"
        "util.find_spec = lambda name, *more: None if name == 'textual' else find(name, *more)\n"
    )
    done = run({**server.environment, "PYTHONPATH": str(tmp_path)})
    assert done.returncode == 1
    assert re.fullmatch(
        "sessiond: the package textual is not installed: in the checkout of sessiond run: "
        r"/.*/python -m pip install '\.\[browse,.*\]'\n",
        done.stderr,
    )


def test_without_a_daemon_no_start_is_an_error(tmux: str, home: Path, project: Path) -> None:
    nowhere = ("--no-start", "--socket", str(home / "nowhere.sock"))
    with terminal(tmux, project, dict(os.environ), (80, 24), *nowhere) as shown:
        status, said = shown.until_ended()
        assert status == 3
        assert "no daemon listens on" in said
        assert "start it with `sessiond start --socket" in said


def test_the_screen_of_the_page_is_the_screen(tmux: str, server: Daemon, project: Path) -> None:
    with connect_blocking(server.socket_path) as client:
        client.create(str(project), session_id=SESSION, title="Fix the clock", persist="immediate")

        def say(role: str, text: str, head: str = "main") -> str:
            message = {"role": role, "content": text}
            return client.append(SESSION, message=message, head=head).entries[0].id

        say("user", "Why is it late?")
        fork = say("assistant", "It is the time zone, or the cron job.")
        client.label(SESSION, fork, "question")
        say("user", "Look at the cron job.")
        say("toolResult", "0 3 * * * backup")
        say("assistant", "The cron job runs at three, in UTC.")
        client.branch(SESSION, fork, head="reviewer")
        say("user", "Look at the time zone.", "reviewer")
        say("assistant", "The zone is right.", "reviewer")
    (shown_there,) = re.findall(
        r"^```screen\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL
    )
    with terminal(tmux, project, server.environment, (80, 13), *options(server), SESSION) as shown:
        screen = shown.until_shown("live", "The zone is right.", "q quit")
    if os.environ.get("UPDATE") == "1":
        PAGE.write_text(PAGE.read_text().replace(shown_there, screen.rstrip("\n") + "\n"))
    assert screen.rstrip("\n") == shown_there.rstrip("\n"), "run the test with UPDATE=1"
