"""The views while other clients write, and while the daemon or the session goes away."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from anyio import to_thread

from sessiond_client import Client, connect_blocking
from tests.interop.browse.application import SESSION, Application, browsing, conversation
from tests.kit.line_proxy import line_proxy
from tests.kit.patience import PATIENCE_SECONDS, eventually, soon
from tests.processes.harness.daemon import SESSIOND, Daemon

pytestmark = [pytest.mark.slow, pytest.mark.interop]

# Markup, escape sequences, a change of the reading order, and half of a pair.
HOSTILE = "[bold red]not bold[/] \x1b[31mred\x1b]0;owned\x07 \u202eabc\u202c \x9b2J a\tb"
SPELLED = r"[bold red]not bold[/] \u001b[31mred\u001b]0;owned\u0007 \u202eabc\u202c \u009b2J a"


async def say(client: Client, *texts: str) -> list[str]:
    entries = [{"type": "message", "message": {"role": "user", "content": text}} for text in texts]
    done = await client.append(SESSION, entries=entries)
    return [one.id for one in done.entries]


@pytest.mark.conformance
async def test_an_append_a_label_and_a_move_of_another_client_are_shown(
    server: Daemon, client: Client
) -> None:
    ids = await conversation(client)
    async with browsing(server.socket_path) as screen:
        await screen.shows("▶ assistant: The cron job.", "2 lines")
        await say(client, "One more")
        await screen.shows("▶ user: One more", "3 lines")
        assert "One more" in screen.cursor_line
        await client.label(SESSION, ids[0], "start")
        await screen.shows("[start] user: Why is it late?")
        await client.label(SESSION, ids[0], None)
        await screen.shows_no("[start]")
        await client.branch(SESSION, ids[0])
        await screen.shows("▶ user: Why is it late?")
        await screen.shows_no("• assistant: The cron job.")
        await say(client, "Another way")
        await screen.shows("├─ ▶ user: Another way", "└─   assistant: The cron job.")
        await client.branch(SESSION, ids[1], head="reviewer")
        await screen.shows("◀ reviewer")
        await client.branch(SESSION, None, head="reviewer", drop=True)
        await screen.shows_no("◀ reviewer")
        await client.update(SESSION, title="Another title")
        await screen.shows("Tree of Another title")


async def test_the_cursor_stays_at_its_entry_while_another_client_appends(
    server: Daemon, client: Client
) -> None:
    await conversation(client)
    async with browsing(server.socket_path) as screen:
        await screen.shows("▶ assistant: The cron job.")
        await screen.press("up")
        await say(client, *(f"number {at}" for at in range(60)))
        await screen.shows("62 lines")
        assert "Why is it late?" in screen.cursor_line
        await screen.press("end")
        await screen.shows("▶ user: number 59")
        await say(client, "the newest")
        await screen.shows("▶ user: the newest")


@pytest.mark.conformance
async def test_hostile_text_is_shown_as_text(server: Daemon, client: Client) -> None:
    ids = await conversation(client, [HOSTILE], title="t\x1b[31m [red]title")
    async with browsing(server.socket_path, session_id=None, size=(160, 24)) as screen:
        await screen.shows(r"t\u001b[31m [red]title")
        await screen.press("enter")
        await screen.shows(f"▶ user: {SPELLED}")
        await client.label(SESSION, ids[0], "[blink]x[/]")
        await screen.shows("[[blink]x[/]]")
        await screen.press("enter")
        await screen.shows(f"{SPELLED}    b")
        await screen.press("tab")
        await screen.shows(r"[bold red]not bold[/] \u001b[31mred")
        await screen.press("escape", "slash", *"bold", "enter")
        await screen.shows("1 hit", "[bold red]not bold[/]")
        assert "\x1b" not in screen.text
        assert "\u202e" not in screen.text


@pytest.mark.conformance
async def test_a_killed_daemon_is_told_and_nothing_is_missed(
    server: Daemon, client: Client
) -> None:
    await conversation(client)
    async with browsing(server.socket_path) as screen:
        await screen.shows("▶ assistant: The cron job.")
        server.end(signal.SIGKILL)
        await screen.shows("the daemon ended")
        server.start()
        await say(client, "after the kill")
        await screen.shows("the daemon is back", "▶ user: after the kill", "3 lines")
        await say(client, "and on")
        await screen.shows("▶ user: and on", "4 lines")


class Starts:
    """The start of the server as a daemon of its own, as the command line starts one."""

    def __init__(self, server: Daemon) -> None:
        self.count = 0
        self._server = server
        self._place = [f"--socket={server.socket_path}", f"--home={server.home}"]

    def __call__(self) -> None:
        """Start a daemon."""
        self.count += 1
        self._run("start")

    def stop(self) -> None:
        """Stop the daemon."""
        self._run("stop")

    def _run(self, command: str) -> None:
        subprocess.run([SESSIOND, command, *self._place], check=True, capture_output=True)


@asynccontextmanager
async def browsing_and_starting(
    server: Daemon, client: Client, starts: type[Starts] = Starts
) -> AsyncGenerator[tuple[Application, Starts]]:
    """Run the application on a conversation; what daemon it starts is stopped in the end."""
    await conversation(client)
    start = starts(server)
    async with browsing(server.socket_path, start=start) as screen:
        await screen.shows("▶ assistant: The cron job.")
        yield screen, start
    await to_thread.run_sync(start.stop)


async def test_a_key_starts_a_daemon_that_ended(server: Daemon, client: Client) -> None:
    async with browsing_and_starting(server, client) as (screen, start):
        server.end(signal.SIGKILL)
        await screen.shows("the daemon ended")
        assert start.count == 0
        await screen.press("enter")
        await screen.shows("type:     message")
        assert start.count == 1
        await say(client, "after the start")
        await screen.press("escape")
        await screen.shows("▶ user: after the start")
        # The view in which the end was told does not tell an end that is over.
        await screen.shows_no("the daemon ended")


async def test_an_answer_starts_a_daemon_that_ended_below_the_dialog(
    server: Daemon, client: Client
) -> None:
    async with browsing_and_starting(server, client) as (screen, start):
        await screen.press("L")
        await screen.shows("Label entry")
        server.end(signal.SIGKILL)
        await screen.shows("the daemon ended")
        await screen.type("found")
        await screen.shows("[found]", "labelled")
        assert start.count == 1


class EndsBehindALabel(Starts):
    """The start of the server, whose end waits until the client of the application has set a label."""

    def __call__(self) -> None:
        """Start a daemon."""
        super().__call__()
        with connect_blocking(self._server.socket_path) as other:
            soon(lambda: other.entries(SESSION, types=["label"]).entries)


async def test_the_outcome_of_a_command_stays_when_the_daemon_is_noticed_behind_it(
    server: Daemon, client: Client
) -> None:
    async with browsing_and_starting(server, client, EndsBehindALabel) as (screen, _):
        server.end(signal.SIGKILL)
        await screen.shows("the daemon ended")
        await screen.press("L")
        await screen.type("found")
        await screen.shows("[found]", "labelled")
        await screen.until(lambda: screen.app.link.is_there)
        await screen.shows("[found]", "labelled")


async def test_the_view_below_a_dialog_is_read_before_it_is_drawn(
    server: Daemon, client: Client
) -> None:
    await conversation(client)
    async with browsing(server.socket_path) as screen:
        await screen.shows("▶ assistant: The cron job.")
        await screen.press("L")
        await screen.shows("Label entry")
        screen.app.screen.refresh()
        assert "Why is it late?" in screen.text


async def test_a_replaced_file_is_shown_anew(server: Daemon, client: Client) -> None:
    await conversation(client, ["Why is it late?"])
    await say(client, "The cron job.")
    (file,) = server.files(SESSION)
    async with browsing(server.socket_path) as screen:
        await screen.shows("▶ user: The cron job.", "2 lines")
        lines = file.read_text().splitlines(keepends=True)
        new = Path(f"{file}.new")
        new.write_text("".join(lines[:2]).replace("Why is it late?", "Who did it?"))
        new.rename(file)
        await screen.shows("▶ user: Who did it?", "1 line", "the session was opened anew")
        await screen.shows_no("The cron job.")
        await say(client, "on the new file")
        await screen.shows("▶ user: on the new file")


async def test_a_session_that_is_deleted_stays_in_sight_and_says_so(
    server: Daemon, client: Client
) -> None:
    await conversation(client)
    async with browsing(server.socket_path) as screen:
        await screen.shows("▶ assistant: The cron job.")
        await client.delete(SESSION)
        await screen.shows("2 lines · deleted", "the session was deleted, see `sessiond trash`")
        await screen.shows("▶ assistant: The cron job.")
        await screen.press("L")
        await screen.shows("Label entry")
        await screen.type("late")
        await screen.shows("the session was deleted, see `sessiond trash`")
        await screen.press("escape")
        await screen.shows("0 sessions")


@pytest.mark.parametrize(
    ("method", "keys"),
    [
        ("session/entry", ("enter",)),
        ("session/path", ("R",)),
        ("session/entries", ("home",)),
        ("session/search", ("slash", *"late", "enter")),
        ("session/list", ("M",)),
    ],
)
async def test_a_view_that_is_left_before_its_answer_harms_nothing(
    server: Daemon, client: Client, tmp_path: Path, method: str, keys: tuple[str, ...]
) -> None:
    await conversation(client, ["Why is it late?"])
    await say(client, *(f"number {at}" for at in range(300)))
    is_held, may_go = threading.Event(), threading.Event()

    def hold(line: bytes) -> list[bytes]:
        if holding and msgspec.json.decode(line)["method"] == method:
            is_held.set()
            may_go.wait(PATIENCE_SECONDS)
        return [line]

    holding: list[str] = []
    place = tmp_path / "slow.sock"
    with line_proxy(place, server.socket_path, requests=hold):
        async with browsing(place) as screen:
            await screen.shows("▶ user: number 299")
            holding.append(method)
            await screen.press(*keys)
            await screen.until(is_held.is_set)
            # The screen answers to keys while the daemon does not answer.
            await screen.press("escape")
            holding.clear()
            may_go.set()
            await say(client, "the newest")
            await screen.press("question_mark")
            await screen.shows("Tree and entry")
            await screen.press("escape")
            await screen.press("slash")
            await screen.shows("Search in")
            await screen.press(*"newest", "enter")
            await screen.shows("1 hit")


@pytest.mark.parametrize("by", ["escape", "the end"])
async def test_a_fork_that_is_left_before_its_tree_is_read_harms_nothing(
    server: Daemon, client: Client, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    from sessiond.browse.bars import KeyBar
    from sessiond.browse.following import Follower
    from sessiond.browse.tree import TreeView

    may_go, is_shown = anyio.Event(), anyio.Event()
    load_labels, reloaded = Follower._load_labels, TreeView.reloaded

    async def late(follower: Follower, *args: Any) -> None:
        await load_labels(follower, *args)
        if follower.session_id != SESSION:
            await may_go.wait()

    def show(tree: TreeView, *args: Any) -> None:
        try:
            reloaded(tree, *args)
        finally:
            if may_go.is_set():
                is_shown.set()

    async def end(bar: KeyBar) -> None:
        """Let the tree be read when its rows are gone, and its screen is not."""
        screen = bar.screen
        if isinstance(screen, TreeView) and screen.session_id != SESSION:
            await eventually(lambda: not screen.query("Rows"))
            may_go.set()
            await is_shown.wait()

    monkeypatch.setattr(Follower, "_load_labels", late)
    monkeypatch.setattr(TreeView, "reloaded", show)
    monkeypatch.setattr(KeyBar, "on_unmount", end, raising=False)
    await conversation(client)
    async with browsing(server.socket_path) as screen:
        await screen.shows("▶ assistant: The cron job.")
        await screen.press("F")
        await screen.shows("Title of the new session")
        await screen.type("Another way")
        await screen.shows("this is the fork", "opening")
        if by == "escape":
            await screen.press("escape")
            await screen.until(is_shown.is_set)
            await screen.shows("Tree of Fix the clock", "▶ assistant: The cron job.")
    assert is_shown.is_set()


async def test_an_event_is_shown_without_a_call(
    server: Daemon, client: Client, tmp_path: Path
) -> None:
    ids = await conversation(client)
    asked: list[str] = []

    def note(line: bytes) -> list[bytes]:
        asked.append(msgspec.json.decode(line)["method"])
        return [line]

    place = tmp_path / "noted.sock"
    with line_proxy(place, server.socket_path, requests=note):
        async with browsing(place) as screen:
            await screen.shows("▶ assistant: The cron job.", "live")
            await screen.until(lambda: "session/subscribe" in asked)
            asked.clear()
            for at in range(30):
                await say(client, f"number {at}")
            await client.label(SESSION, ids[0], "start")
            await client.branch(SESSION, ids[0])
            await screen.shows("▶ [start] user: Why is it late?", "34 lines")
            # The list below the tree may still have had a page on its way.
            assert [one for one in asked if one not in {"session/list", "$/cancelRequest"}] == []


async def test_a_command_that_waits_as_the_daemon_ends_is_answered_by_a_new_one(
    server: Daemon, client: Client
) -> None:
    """Stop the daemon for good before the key: the command waits, and starts one without another key."""
    async with browsing_and_starting(server, client) as (screen, start):
        os.kill(server.pid, signal.SIGSTOP)
        await screen.press("enter")
        await screen.until(lambda: screen.app.link.waiting == 1)
        server.end(signal.SIGKILL)
        await screen.shows("type:     message")
        assert start.count == 1
        await screen.until(lambda: screen.app.link.waiting == 0)
        # While a dialog waits for the user, the user waits for no daemon.
        await screen.press("L")
        await screen.shows("An empty label takes the label away")
        assert screen.app.link.waiting == 0
        await screen.press("escape")


async def test_a_fork_of_a_daemon_that_hangs_does_not_wait_for_good(
    server: Daemon, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    await conversation(client)
    async with browsing(server.socket_path) as screen:
        await screen.shows("▶ assistant: The cron job.")
        await screen.press("F")
        await screen.shows("Title of the new session")
        os.kill(server.pid, signal.SIGSTOP)
        try:
            monkeypatch.setattr("sessiond_client.exchange.SILENCE_SECONDS", 0.2)
            await screen.type("Another try")
            await screen.shows(
                "no answer to session/fork in time", "look at the session before you"
            )
        finally:
            os.kill(server.pid, signal.SIGCONT)
