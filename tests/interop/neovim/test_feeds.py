"""Feeds: subscriptions with places of their own, across restarts and pauses."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests.interop.neovim.acts import asked, say, shown, stored
from tests.interop.neovim.editor import Editor, editing
from tests.interop.test_stubs import kill_the_daemon, python_client, run, said
from tests.kit.line_proxy import line_proxy, unchanged
from tests.processes.harness.daemon import SESSIOND

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(300)]

# What a feed notes of notifications that the daemon may send between any two events, or not at all.
HINTS: Final = {"compaction"}


def begin_feed(editor: Editor, name: str, params: Mapping[str, Any]) -> None:
    """Follow a session; note in `_G[name]` each event as its `seq`, or as the name of the notification."""
    editor.lua(
        """
        local name, params = ...
        local noted = {}
        _G[name] = noted
        _G[name .. "_feed"] = require("sessiond").subscribe(params, {
          on_event = function(event)
            local what = event.method:match("[^/]*$")
            table.insert(noted, what == "event" and tostring(event.params.seq) or what)
          end,
          on_answer = function(failure) table.insert(noted, failure and failure.kind or "answer") end,
          on_end = function(failure) table.insert(noted, "end " .. failure.kind) end,
        })
        """,
        name,
        params,
    )


def noted(editor: Editor, name: str) -> list[str]:
    """Return what a feed was told, without hints."""
    found: list[str] = editor.lua("return _G[...]", name)
    return [one for one in found if one not in HINTS]


def numbers(first: int, last: int) -> list[str]:
    return [str(number) for number in range(first, last + 1)]


def test_feeds_of_one_session_have_places_of_their_own(
    editor: Editor, session: str, environment: Mapping[str, str]
) -> None:
    def until_noted(name: str, *expected: str) -> None:
        # When a replay ends depends on who starts the next daemon.
        editor.until(
            lambda: [one for one in noted(editor, name) if one != "synced"] == [*expected],
            lambda: f"{name}: {noted(editor, name)}",
        )

    begin_feed(editor, "live", {"session_id": session})
    until_noted("live", "answer")
    say(environment, "three")
    until_noted("live", "answer", "3")
    begin_feed(editor, "all", {"session_id": session, "after": {"seq": 0}})
    until_noted("all", "answer", *numbers(1, 3))
    begin_feed(editor, "labels", {"session_id": session, "after": {"seq": 0}, "types": ["label"]})
    editor.until(lambda: noted(editor, "labels") == ["answer", "synced"])
    assert noted(editor, "live") == ["answer", "3"]
    assert noted(editor, "all") == ["answer", *numbers(1, 3), "synced"]
    kill_the_daemon(environment)
    say(environment, "four")
    until_noted("live", "answer", "3", "4")
    until_noted("all", "answer", *numbers(1, 4))
    assert run([SESSIOND, "stop"], environment).returncode == 0
    say(environment, "five")
    until_noted("live", "answer", *numbers(3, 5))
    until_noted("all", "answer", *numbers(1, 5))
    until_noted("labels", "answer")
    begin_feed(editor, "ahead", {"session_id": session, "after": {"seq": 9, "epoch": "none"}})
    until_noted("ahead", "answer", "replaced", *numbers(1, 5))
    begin_feed(editor, "other", {"session_id": session, "after": {"seq": 4, "entry_id": "none"}})
    until_noted("other", "answer", "replaced", *numbers(1, 5))
    until_noted("live", "answer", *numbers(3, 5))


Behind = Callable[[str], AbstractContextManager[tuple[Editor, list[str]]]]


@pytest.fixture
def behind(
    neovim: str, home: Path, environment: Mapping[str, str], session: str, socket_path: Path
) -> Behind:
    """Return a function that runs an editor on a socket in front of the daemon, which keeps back a method's requests.

    A request passes if the second value of the block has a word left for it.
    """
    assert session
    daemon = Path(said([SESSIOND, "start", "--json"], environment)["socket"])

    @contextmanager
    def run_behind(method: str) -> Iterator[tuple[Editor, list[str]]]:
        passing: list[str] = []

        def request(line: bytes) -> list[bytes]:
            is_kept = json.loads(line)["method"] == method and not (passing and passing.pop())
            return [] if is_kept else unchanged(line)

        named = {**environment, "SESSIOND_SOCKET": str(socket_path)}
        with line_proxy(socket_path, daemon, requests=request), editing(neovim, home, named) as one:
            yield one, passing

    return run_behind


@pytest.mark.parametrize("method", ["initialize", "session/subscribe"])
def test_a_feed_that_gets_no_first_answer_ends_in_time(
    method: str, session: str, behind: Behind
) -> None:
    with behind(method) as (editor, _):
        editor.lua("require('sessiond.timers').ANSWER_MS = 200")
        begin_feed(editor, "live", {"session_id": session})
        editor.until(lambda: noted(editor, "live") == ["timeout"])
        editor.until_no_timer()


def test_a_feed_whose_first_answer_came_goes_on_beside_one_that_gets_none(
    session: str, behind: Behind, environment: Mapping[str, str]
) -> None:
    with behind("session/subscribe") as (editor, passing):
        passing.append("the first")
        begin_feed(editor, "live", {"session_id": session})
        editor.until(lambda: noted(editor, "live") == ["answer"])
        editor.until_no_timer()
        editor.lua("require('sessiond.timers').ANSWER_MS = 200")
        begin_feed(editor, "late", {"session_id": session})
        editor.until(lambda: noted(editor, "late") == ["timeout"])
        say(environment, "three")
        editor.until(lambda: noted(editor, "live") == ["answer", "3"])


def test_a_feed_of_a_deleted_session_ends(
    editor: Editor, session: str, environment: Mapping[str, str]
) -> None:
    begin_feed(editor, "live", {"session_id": session})
    editor.until(lambda: noted(editor, "live") == ["answer"])
    with python_client(environment) as client:
        client.delete(session)
    expected = ["answer", "closed", "end session_not_found"]
    editor.until(lambda: noted(editor, "live") == expected, lambda: str(noted(editor, "live")))
    begin_feed(editor, "late", {"session_id": session})
    editor.until(lambda: noted(editor, "late") == ["session_not_found"])


def until_answered_later(editor: Editor, session_id: str) -> None:
    """Wait until the editor has the answers to what a view asks for after a pause."""
    editor.until_no_timer()
    assert asked(editor, "heads", session_id)["kind"] == "session_not_found"


@pytest.mark.parametrize("view", ["tail", "tree"])
def test_a_view_of_a_restored_session_begins_again_at_the_command(
    view: str, editor: Editor, session: str, environment: Mapping[str, str]
) -> None:
    editor.command(f"Sessiond {view} {session}")
    editor.until_shown("The clock.")
    with python_client(environment) as client:
        client.delete(session)
        editor.until(
            lambda: "the session was deleted" in "\n".join([*editor.lines(), editor.messages()]),
            lambda: f"{editor.lines()} {editor.messages()}",
        )
        until_answered_later(editor, session)
        assert "no session" not in editor.messages()
        assert "The clock." in "\n".join(editor.lines())
        client.restore(session)
    editor.command(f"Sessiond {view} {session}")
    editor.until(lambda: "deleted" not in "\n".join(editor.lines()))
    say(environment, "Here again.")
    editor.until_shown("Here again.")
    for text in ("Why is it late?", "The clock.", "Here again."):
        assert sum(text in line for line in editor.lines()) == 1


@pytest.mark.parametrize("view", ["tail", "tree"])
def test_a_view_that_found_no_session_begins_again_at_the_command(
    view: str, editor: Editor, session: str, environment: Mapping[str, str]
) -> None:
    editor.command(f"Sessiond use {session}")
    editor.until(lambda: editor.lua("return vim.g.sessiond_session"))
    with python_client(environment) as client:
        client.delete(session)
        editor.command(f"Sessiond {view}")
        editor.until(lambda: "no session" in editor.messages())
        client.restore(session)
    editor.command(f"Sessiond {view}")
    editor.until_shown("The clock.")
    say(environment, "Here again.")
    editor.until_shown("Here again.")


def test_an_editor_that_was_busy_is_told_everything_later(
    editor: Editor, session: str, environment: Mapping[str, str]
) -> None:
    begin_feed(editor, "live", {"session_id": session})
    editor.until(lambda: noted(editor, "live") == ["answer"])
    busy = editor.busy_until_told()
    say(environment, *["x" * 200_000] * 40)
    busy()
    expected = ["answer", *numbers(3, 42)]
    told = editor.until(
        lambda: found if "synced" in (found := noted(editor, "live")) else [],
        lambda: str(noted(editor, "live")),
    )
    assert [one for one in told if one not in {"lagged", "synced"}] == expected
    assert "lagged" in told


def test_a_replaced_file_replaces_what_a_tail_shows(
    editor: Editor, session: str, environment: Mapping[str, str]
) -> None:
    editor.command(f"Sessiond tail {session}")
    editor.until_shown("The clock.")
    with python_client(environment) as client:
        path = client.get(session).path
        assert path is not None
    kill_the_daemon(environment)
    lines = Path(path).read_bytes().splitlines(keepends=True)
    Path(path).write_bytes(b"".join(lines[:2]))
    say(environment, "Another end.")
    editor.until(
        lambda: shown(editor) == ["Why is it late?", "Another end."], lambda: str(shown(editor))
    )


def test_an_editor_that_ends_waits_for_its_appends(
    neovim: str, home: Path, session: str, environment: Mapping[str, str]
) -> None:
    with editing(neovim, home, environment) as editor:
        editor.type(":Sessiond append last words<CR>:qa!<CR>")
        editor.require_end()
    assert stored(environment)[2:] == ["last words"]
