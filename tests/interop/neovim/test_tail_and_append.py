"""Tails, and appends from the editor."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from sessiond_client import EntryEvent
from tests.interop.neovim.acts import asked, say, shown, stored, until_shown_in_number
from tests.interop.neovim.editor import Editor, editing
from tests.interop.test_stubs import kill_the_daemon, python_client, said
from tests.kit.line_proxy import Cut, Pass, line_proxy, unchanged
from tests.processes.harness.daemon import SESSIOND

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(300)]


def test_a_tail_follows_and_scrolls_along(
    editor: Editor, session: str, environment: Mapping[str, str]
) -> None:
    editor.command(f"Sessiond tail {session}")
    editor.until_shown("The clock.")
    assert "── user ── #1" in editor.lines()[0]
    say(environment, "one\ntwo")
    editor.until_shown("two")
    editor.until(lambda: editor.cursor() == len(editor.lines()))
    editor.type("gg")
    editor.until(lambda: editor.cursor() == 1)
    say(environment, "three")
    editor.until_shown("three")
    assert editor.cursor() == 1
    assert editor.lua("return vim.bo.modifiable") is False


def test_a_tail_of_a_long_session_begins_with_the_newest_entries(
    editor: Editor, session: str, environment: Mapping[str, str]
) -> None:
    texts = [f"turn {number}." for number in range(300)]
    with python_client(environment) as client:
        messages = ({"role": "user", "content": text} for text in texts)
        entries = [{"type": "message", "message": message} for message in messages]
        client.append(session, entries=entries)
    editor.command(f"Sessiond tail {session}")
    until_shown_in_number(editor, 200)
    say(environment, "the next one")
    editor.until_shown("the next one")
    assert shown(editor) == [*texts[100:], "the next one"]


def test_a_tail_shows_the_entry_at_the_cursor(
    editor: Editor, session: str, environment: Mapping[str, str]
) -> None:
    """Require that a heading, a text and the blank line below show their own entry."""
    editor.command(f"Sessiond tail {session}")
    editor.until_shown("The clock.")
    say(environment, "one\ntwo")
    editor.until(lambda: editor.lines()[-1] == "" and "two" in editor.lines())
    lines = editor.lines()
    expected = ["Why is it late?"] * 3 + ["The clock."] * 3 + ["one\ntwo"] * 4
    assert [line for line in lines if not line] == [""] * 3
    found = []
    for number in range(1, len(lines) + 1):
        editor.type(f"{number}G<CR>")
        editor.until(lambda: editor.lua("return vim.bo.filetype") == "json", editor.messages)
        found.append(json.loads("\n".join(editor.lines()))["message"]["content"])
        editor.type("q")
        editor.until(lambda: editor.lua("return vim.bo.filetype") == "sessiond-tail")
    assert found == expected


def test_two_clients_see_the_entries_of_each_other(
    neovim: str, home: Path, editor: Editor, session: str, environment: Mapping[str, str]
) -> None:
    editor.command(f"Sessiond tail {session}")
    editor.until_shown("The clock.")
    with (
        editing(neovim, home, environment) as second,
        python_client(environment) as client,
        client.subscribe(session, signals=False) as events,
    ):
        second.command(f"Sessiond tail {session}")
        second.until_shown("The clock.")
        entries = (event for event in events if isinstance(event, EntryEvent))
        second.command("Sessiond append from the second")
        editor.until_shown("from the second")
        editor.command("Sessiond append from the first")
        second.until_shown("from the first")
        client.append(session, message={"role": "user", "content": "from Python"})
        for one in (editor, second):
            one.until_shown("from Python")
        told = [next(entries).entry["message"]["content"] for _ in range(3)]
        assert told == ["from the second", "from the first", "from Python"]


def test_a_killed_daemon_costs_no_entry_and_doubles_none(
    editor: Editor, session: str, environment: Mapping[str, str]
) -> None:
    editor.command(f"Sessiond tail {session}")
    editor.until_shown("The clock.")
    expected = ["Why is it late?", "The clock."]
    for life in range(3):
        say(environment, f"before {life}.")
        editor.lua(
            """
            local session, life = ...
            for turn = 1, 20 do
              require("sessiond").append(session, ("from the editor %d-%d."):format(life, turn))
            end
            """,
            session,
            life,
        )
        kill_the_daemon(environment)
        say(environment, f"after {life}.")
        expected += [f"before {life}.", f"after {life}."]
        expected += [f"from the editor {life}-{turn}." for turn in range(1, 21)]
        until_shown_in_number(editor, len(expected))
    assert sorted(shown(editor)) == sorted(expected)
    assert shown(editor) == stored(environment)
    assert editor.children() == []


def cut_once(needle: bytes) -> Pass:
    """Return a function that ends the connection in place of the first line with the needle."""
    cuts: list[bytes] = []

    def pass_on(line: bytes) -> list[bytes]:
        if needle in line and not cuts:
            cuts.append(line)
            raise Cut
        return [line]

    return pass_on


@pytest.mark.parametrize(
    ("requests", "answers", "is_duplicate"),
    [(b'"session/append"', b"no such text", False), (b"no such text", b'"entries":[', True)],
)
def test_a_lost_append_is_sent_again_and_stored_once(  # noqa: PLR0913 - fixtures
    requests: bytes,
    answers: bytes,
    is_duplicate: bool,
    neovim: str,
    home: Path,
    session: str,
    environment: Mapping[str, str],
) -> None:
    daemon = said([SESSIOND, "start", "--json"], environment)["socket"]
    place = home / "proxy"
    with (
        line_proxy(place, Path(daemon), requests=cut_once(requests), answers=cut_once(answers)),
        editing(neovim, home, {**environment, "SESSIOND_SOCKET": str(place)}) as editor,
    ):
        appended = asked(editor, "append", session, "once")
        assert (appended["seq"], appended["duplicate"]) == (3, is_duplicate)
    assert stored(environment)[2:] == ["once"]


def test_a_lost_change_without_ids_is_not_sent_again(
    neovim: str, home: Path, session: str, environment: Mapping[str, str]
) -> None:
    daemon = said([SESSIOND, "start", "--json"], environment)["socket"]
    place = home / "proxy"
    with (
        line_proxy(place, Path(daemon), requests=unchanged, answers=cut_once(b'"leaf_id"')),
        editing(neovim, home, {**environment, "SESSIOND_SOCKET": str(place)}) as editor,
    ):
        failure = asked(editor, "branch", session, None, {"head": "other"})
        assert (failure["kind"], failure["outcome_unknown"]) == ("connection_lost", True)
        heads = asked(editor, "heads", session)["heads"]
        assert [head["name"] for head in heads] == ["main", "other"]


def test_lines_of_a_buffer_are_appended(
    editor: Editor, session: str, environment: Mapping[str, str]
) -> None:
    editor.command(f"Sessiond use {session}")
    editor.until(lambda: editor.lua("return vim.g.sessiond_session"))
    editor.lua("vim.api.nvim_buf_set_lines(0, 0, -1, false, { 'a', 'b é', 'c' })")
    editor.command("2,3Sessiond append")
    editor.until(lambda: stored(environment)[2:] == ["b é\nc"])


def test_a_message_is_sent_when_its_buffer_is_written(
    editor: Editor, session: str, environment: Mapping[str, str], home: Path
) -> None:
    editor.command(f"Sessiond tail {session}")
    editor.until_shown("The clock.")
    editor.type("a")
    editor.until(lambda: "sessiond://append/" in editor.lua("return vim.fn.bufname()"))
    editor.type("iline one<CR>line two<Esc>")
    editor.until(lambda: editor.lines() == ["line one", "line two"])
    copy = home / "copy"
    editor.type(f":write {copy}<CR>")
    editor.until(copy.exists)
    assert copy.read_text("utf-8") == "line one\nline two\n"
    assert len(stored(environment)) == 2
    editor.type(":wq<CR>")
    editor.until_shown("line two", f"sessiond://tail/{session}")
    assert stored(environment)[2:] == ["line one\nline two"]
    editor.until(lambda: editor.lua("return vim.fn.bufnr('sessiond://append/')") == -1)


def test_a_message_that_the_daemon_refuses_stays_in_its_buffer(
    editor: Editor, session: str, environment: Mapping[str, str]
) -> None:
    with python_client(environment) as client, client.lease(session):
        editor.command(f"Sessiond use {session}")
        editor.until(lambda: editor.lua("return vim.g.sessiond_session"))
        editor.command("Sessiond append")
        editor.type("ikeep this<Esc>:w<CR>")
        editor.until(lambda: "lease" in editor.messages(), editor.messages)
        assert editor.lines() == ["keep this"]
        assert editor.lua("return vim.bo.modified") is True
    editor.type("<CR>")
    editor.until(lambda: stored(environment)[2:] == ["keep this"])
