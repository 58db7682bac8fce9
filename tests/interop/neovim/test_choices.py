"""Choices of a session: a command without a session waits for the choice before it.

Law: the commands of one call of `at_once` run before the editor reads an answer to any of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from tests.interop.neovim.acts import asked, stored
from tests.interop.neovim.editor import Editor, editing
from tests.interop.test_stubs import kill_the_daemon, python_client

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(300)]

SECOND: Final = "second-session"
OLD: Final = ["Why is it late?", "The clock."]


@pytest.fixture
def second(environment: Mapping[str, str], home: Path, session: str) -> str:
    """Return the id of an empty session beside the session of all tests, in another folder."""
    with python_client(environment) as client:
        client.create(str(home), session_id=SECOND, title="Second", persist="immediate")
    return SECOND


def at_once(editor: Editor, *commands: str) -> None:
    editor.lua("for _, command in ipairs(...) do vim.cmd('Sessiond ' .. command) end", commands)


def use(editor: Editor, session_id: str) -> None:
    editor.command(f"Sessiond use {session_id}")
    until_used(editor, session_id)


def until_used(editor: Editor, session_id: str) -> None:
    editor.until(lambda: editor.lua("return vim.g.sessiond_session") == session_id, editor.messages)


def until_stored(
    editor: Editor, environment: Mapping[str, str], session_id: str, *texts: str
) -> None:
    editor.until(
        lambda: stored(environment, session_id) == [*texts],
        lambda: f"{stored(environment, session_id)} {editor.messages()}",
    )


def test_a_message_waits_for_the_session_that_is_made(
    editor: Editor, session: str, environment: Mapping[str, str]
) -> None:
    use(editor, session)
    at_once(editor, "new race", "append first words", "append next words")
    editor.until_shown("next words")
    name = editor.lua("return vim.fn.bufname():match('^sessiond://tail/(.*)')")
    until_stored(editor, environment, name, "first words", "next words")
    assert stored(environment) == OLD


@pytest.mark.parametrize("choice", ["use", "tail", "tree"])
def test_a_message_waits_for_the_session_that_is_chosen(
    choice: str, editor: Editor, session: str, second: str, environment: Mapping[str, str]
) -> None:
    use(editor, session)
    at_once(editor, f"{choice} {second}", "append for the second")
    until_stored(editor, environment, second, "for the second")
    assert stored(environment) == OLD


def test_a_message_waits_for_a_choice_over_a_killed_daemon(
    editor: Editor, session: str, second: str, environment: Mapping[str, str]
) -> None:
    use(editor, session)
    kill_the_daemon(environment)
    editor.command(f"Sessiond use {second}")
    editor.command("Sessiond append for the second")
    until_stored(editor, environment, second, "for the second")
    assert stored(environment) == OLD


def test_a_view_and_a_message_without_names_mean_one_session(
    editor: Editor, session: str, environment: Mapping[str, str], home: Path
) -> None:
    """Require one look for the newest session: the second command begins in a folder without sessions."""
    editor.lua(
        """
        vim.cmd("Sessiond tail")
        vim.cmd("cd " .. ...)
        vim.cmd("Sessiond append to the tail")
        """,
        str(home),
    )
    until_stored(editor, environment, session, *OLD, "to the tail")


@pytest.mark.parametrize("choice", ["use", "tail", "tree"])
def test_nothing_is_appended_after_a_choice_that_failed(
    choice: str, editor: Editor, session: str, environment: Mapping[str, str]
) -> None:
    use(editor, session)
    editor.lua("vim.api.nvim_buf_set_lines(0, 0, -1, false, { 'a', 'b' })")
    at_once(editor, f"{choice} no-such-session", "append keep this")
    editor.until(lambda: "keep this" in editor.messages(), editor.messages)
    editor.lua(
        """
        vim.cmd("Sessiond use no-such-session")
        vim.cmd("1,2Sessiond append")
        vim.cmd("Sessiond append")
        vim.cmd("Sessiond tail")
        """
    )
    editor.until(lambda: ":Sessiond tail did nothing" in editor.messages(), editor.messages)
    assert "lines 1 to 2 not appended" in editor.messages()
    assert "no message begun" in editor.messages()
    assert editor.lines() == ["a", "b"]
    editor.command("Sessiond append after the failures")
    until_stored(editor, environment, session, *OLD, "after the failures")


def test_the_newest_choice_wins_whatever_is_answered_later(
    editor: Editor, session: str, second: str, environment: Mapping[str, str]
) -> None:
    """Choose by a name, then by the key of a list, which needs no answer."""
    editor.command("Sessiond list")
    editor.until_shown("Fix it")
    editor.lua(
        """
        vim.cmd("Sessiond use " .. ...)
        vim.cmd("normal u")
        vim.cmd("Sessiond append by the key")
        """,
        second,
    )
    asked(editor, "heads", session)
    until_used(editor, session)
    until_stored(editor, environment, session, *OLD, "by the key")
    assert stored(environment, second) == []
    at_once(editor, f"use {session}", f"use {second}", "append by the name")
    until_stored(editor, environment, second, "by the name")


def test_the_session_of_a_buffer_wins_unless_another_buffer_is_on_its_way(
    editor: Editor, session: str, second: str, environment: Mapping[str, str]
) -> None:
    editor.command(f"Sessiond tail {session}")
    editor.until_shown("The clock.")
    at_once(editor, f"use {second}", "append from the buffer")
    until_stored(editor, environment, session, *OLD, "from the buffer")
    at_once(editor, f"tail {second}", "append to the next buffer")
    editor.until_shown("to the next buffer", f"sessiond://tail/{second}")
    until_stored(editor, environment, second, "to the next buffer")


def test_an_editor_that_ends_waits_for_the_choice_and_the_message(
    neovim: str, home: Path, session: str, environment: Mapping[str, str]
) -> None:
    with editing(neovim, home, environment) as editor:
        use(editor, session)
        editor.type(":Sessiond new last<CR>:Sessiond append last words<CR>:qa!<CR>")
        editor.require_end()
    assert stored(environment) == OLD
    with python_client(environment) as client:
        (made,) = [one.id for one in client.list().sessions if one.title == "last"]
    assert stored(environment, made) == ["last words"]
