"""The functions of the plugin for other plugins, and its JSON."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.interop.neovim.acts import SESSION, asked, say, stored
from tests.interop.neovim.editor import Editor, editing
from tests.interop.test_stubs import python_client, run
from tests.kit.large_context import put_large_context, require_large_context
from tests.processes.harness.daemon import SESSIOND

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(300)]


def test_the_first_append_of_a_new_user_is_shared(
    neovim: str, home: Path, environment: Mapping[str, str]
) -> None:
    """Begin without a daemon and with a package in a fresh folder, and load no module before its use."""
    began = time.monotonic()
    with editing(neovim, home, environment) as editor:
        loaded = "return vim.tbl_filter(function(n) return n:match('^sessiond') end, vim.tbl_keys(package.loaded))"
        assert editor.lua(loaded) == []
        assert editor.lua("return require('sessiond').statusline()") == ""
        editor.command("Sessiond new Fix the clock")
        name = editor.until(
            lambda: editor.lua("return vim.fn.bufname():match('^sessiond://tail/(.*)')")
        )
        editor.command("Sessiond append Why is it late?")
        editor.until_shown("Why is it late?")
        print(f"from the start to the first shared append: {time.monotonic() - began:.1f} s")  # noqa: T201
        assert stored(environment, name) == ["Why is it late?"]
        with python_client(environment) as client:
            info = client.get(name)
        assert (info.title, info.cwd) == ("Fix the clock", str(home / "project"))


def test_without_sessiond_the_user_is_told(
    neovim: str, home: Path, environment: Mapping[str, str]
) -> None:
    bare = {**environment, "PATH": "/usr/bin:/bin"}
    with editing(neovim, home, bare) as editor:
        failure = asked(editor, "heads", SESSION)
        assert (failure["kind"], failure["retryable"]) == ("cannot_start", False)
        editor.command("Sessiond tail")
        editor.until(lambda: "sessiond sockname" in editor.messages())


@pytest.mark.parametrize("where", ["command", "long path"])
def test_the_environment_names_the_program_and_the_socket(
    where: str, neovim: str, home: Path, environment: Mapping[str, str]
) -> None:
    named = {**environment, "SESSIOND_COMMAND": f"'{SESSIOND}'", "PATH": "/usr/bin:/bin"}
    if where == "long path":
        folder = home / ("long" * 40)
        folder.mkdir(mode=0o700)
        named = {**environment, "SESSIOND_SOCKET": str(folder / "socket")}
    with editing(neovim, home, named) as editor:
        assert asked(editor, "heads", SESSION)["kind"] == "session_not_found"
    assert run([SESSIOND, "stop"], named).returncode == 0


def test_errors_are_tables(editor: Editor, session: str) -> None:
    failure = asked(editor, "branch", session, "no-such-entry", {})
    assert (failure["code"], failure["kind"]) == (-32030, "entry_not_found")
    assert failure["retryable"] is False
    assert "entry" in failure["message"]
    failure = asked(editor, "append", session, "x" * (33 * 1024 * 1024))
    assert failure["kind"] == "too_large"


def test_the_functions_do_what_they_say(editor: Editor, session: str) -> None:
    first = asked(editor, "append", session, "Hm.")
    assert (first["seq"], first["duplicate"]) == (3, False)
    assert asked(editor, "branch", session, None, {"head": "other"})["leaf_id"] is None
    heads = asked(editor, "heads", session)["heads"]
    assert {head["name"] for head in heads} == {"main", "other"}
    context = asked(editor, "context", session, {})
    assert [message["content"] for message in context["messages"]] == [
        "Why is it late?",
        "The clock.",
        "Hm.",
    ]
    assert asked(editor, "open", session)["session"]["title"] == "Fix it"
    assert [one["id"] for one in asked(editor, "list", {})["sessions"]] == [session]
    made = asked(editor, "create", {"persist": "never"})
    assert made["created"]


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("vim.empty_dict()", "{}"),
        ("{}", "[]"),
        ("{ b = vim.NIL, a = { true, 'x' } }", '{"a":[true,"x"],"b":null}'),
        ("9007199254740991", "9007199254740991"),
        ("-1234567890123456", "-1234567890123456"),
        ("0.1", "0.1"),
        ("1 / 3", "0.3333333333333333"),
        ("1e300", "1e+300"),
        (r"'\0\n\27\127/\\\"é日😀'", r'"\u0000\n\u001b\u007f/\\\"é日😀"'),
        (r"'a\255b\237\160\189c\226\130'", '"a\ufffdb\ufffd\ufffd\ufffdc\ufffd\ufffd"'),
        ("require('sessiond.json').raw('1.50')", "1.50"),
    ],
)
def test_values_are_written_as_json(code: str, text: str, editor: Editor) -> None:
    assert editor.lua(f"return require('sessiond.json').encode({code})") == text


@pytest.mark.parametrize("code", ["0 / 0", "1 / 0", "{ 1, nil, 3, nil }", "{ 1, a = 2 }", "print"])
def test_what_json_has_no_value_for_is_refused(code: str, editor: Editor) -> None:
    assert editor.lua(f"return pcall(require('sessiond.json').encode, {code})") is False


@pytest.mark.parametrize(
    ("text", "again"),
    [
        ('{"a":{},"b":[],"c":null,"d":[null]}', '{"a":{},"b":[],"c":null,"d":[null]}'),
        ('["\\ud83d","\\ud83d\\ude00","\\\\ud83d"]', '["\ufffd","😀","\\\\ud83d"]'),
        ("false", "false"),
    ],
)
def test_values_are_read_from_json(text: str, again: str, editor: Editor) -> None:
    code = "local json = require('sessiond.json') return json.encode(json.decode(...))"
    assert editor.lua(code, text) == again


def test_large_messages_come_whole_in_both_directions(
    editor: Editor, session: str, environment: Mapping[str, str]
) -> None:
    text = "日本é😀 " * 400_000
    editor.lua(
        """
        require("sessiond").subscribe({ session_id = ... }, {
          on_event = function(event) _G.got = event.params.entry.message.content end,
          on_answer = function() _G.is_there = true end,
        })
        """,
        session,
    )
    editor.until(lambda: editor.lua("return _G.is_there"))
    say(environment, text)
    editor.until(lambda: editor.lua("return _G.got ~= nil"))
    assert editor.lua("return vim.fn.sha256(_G.got) == vim.fn.sha256(...)", text)
    assert asked(editor, "append", session, text + "!")["seq"] == 4
    assert stored(environment)[2:] == [text, text + "!"]


@pytest.mark.parametrize(
    ("method", "is_unknown"), [("session/list", False), ("session/label", True)]
)
def test_only_a_change_without_an_answer_has_an_unknown_outcome(
    editor: Editor, environment: Mapping[str, str], method: str, *, is_unknown: bool
) -> None:
    editor.lua("C = require('sessiond.client').new({}); C:call('server/ping')")
    editor.until(lambda: editor.lua("return C.wire.state == 'connected' and not C.wire:is_busy()"))
    with python_client(environment) as client:
        pid = client.info()["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        code = "C:call(..., {}, function(failure) Failure = failure end, { timeout_ms = 1 })"
        editor.lua(code, method)
        failure = editor.until(lambda: editor.lua("return Failure"))
    finally:
        os.kill(pid, signal.SIGCONT)
    assert (failure["kind"], failure["outcome_unknown"]) == ("timeout", is_unknown)
    editor.lua("require('sessiond.view').complain(...)", failure)
    advice = "look before you try again" if is_unknown else "see `sessiond status`"
    editor.until(lambda: advice in editor.messages())


def test_a_context_that_is_larger_than_an_answer_comes_whole(
    editor: Editor, environment: Mapping[str, str]
) -> None:
    with python_client(environment) as client:
        put_large_context(client, "of-many-pages")
    editor.lua(
        """
        require("sessiond").context("of-many-pages", {}, function(failure, result)
          _G.outcome = failure and { failure.message } or {
            vim.tbl_map(function(one) return one.content:sub(1, 1) end, result.messages),
            vim.tbl_map(function(one) return #one.content end, result.messages),
            #result.sources,
            result.next_cursor == nil,
          }
        end)
        """
    )
    *found, is_whole = editor.until(lambda: editor.lua("return _G.outcome"))
    require_large_context(*found)
    assert is_whole
