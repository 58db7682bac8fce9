"""The Neovim plugin of clients/neovim in real editors, against a daemon that is killed.

`Editor` is a headless Neovim with the plugin as a package. A test carries out Lua in the editor and
types keys, over the socket of the editor.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from sessiond_client import EntryEvent
from tests.interop.neovim.editor import PLUGIN, Editor, editing
from tests.interop.test_conformance import BELOW_A_CLIENT, CASES, KIT, skipped, with_daemon
from tests.interop.test_stubs import kill_the_daemon, python_client, run, said
from tests.kit.line_proxy import Cut, Pass, line_proxy, unchanged
from tests.processes.harness.daemon import SESSIOND

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(300)]

SESSION: Final = "session-of-neovim"
HERE: Final = Path(__file__).with_name("neovim")
# What a feed notes of notifications that the daemon may send between any two events, or not at all.
HINTS: Final = {"compaction"}
# They compare the order of members or the spelling of numbers, which no table of Lua keeps.
EXACT: Final = {
    *("context-views", "file-of-operator", "import-of-another-program"),
    *("key-order-and-unknown-members", "queue", "repair", "state-files", "state-store"),
    *("subscribe-filters", "turns"),
}
RESPELLED: Final = {
    *("append-entry-types", "big-integers-and-decimals", "compaction", "import-and-export"),
    *("payload-after-restart", "pipelined-signals-keep-their-order", "retry-same-ids"),
    *("retry-same-key", "signals", "subscribe-from-now", "update"),
}


@pytest.fixture(scope="session")
def neovim(program: Callable[[str], str]) -> str:
    """Return the editor; skip the test without it."""
    return program("nvim")


@pytest.fixture
def environment(home: Path) -> Iterator[Mapping[str, str]]:
    """Yield a user's environment with an empty home; stop its daemon at the end."""
    environment = {
        **os.environ,
        "PATH": f"{Path(SESSIOND).parent}{os.pathsep}{os.environ['PATH']}",
        "SESSIOND_HOME": str(home / "data"),
    }
    yield environment
    run([SESSIOND, "stop"], environment)


@pytest.fixture
def editor(neovim: str, home: Path, environment: Mapping[str, str]) -> Iterator[Editor]:
    """Run an editor with the plugin."""
    with editing(neovim, home, environment) as editor:
        yield editor


@pytest.fixture
def session(environment: Mapping[str, str], home: Path) -> str:
    """Return the id of a session with two messages, in the folder of the editor."""
    with python_client(environment) as client:
        client.create(
            str(home / "project"), session_id=SESSION, title="Fix it", persist="immediate"
        )
        client.append(SESSION, message={"role": "user", "content": "Why is it late?"})
        client.append(SESSION, message={"role": "assistant", "content": "The clock."})
    return SESSION


def say(environment: Mapping[str, str], *texts: str) -> None:
    with python_client(environment) as client:
        for text in texts:
            client.append(SESSION, message={"role": "user", "content": text})


def stored(environment: Mapping[str, str], session_id: str = SESSION) -> list[str]:
    """Return the content of every stored message, in the order of `seq`."""
    with python_client(environment) as client:
        rows = client.entries(session_id).entries
    return [row.entry["message"]["content"] for row in rows if row.entry["type"] == "message"]


def asked(editor: Editor, function: str, *arguments: Any) -> Any:
    """Call a function of the plugin; return its error and its result, each as JSON says."""
    editor.lua(
        """
        local name, arguments = ...
        _G.outcome = nil
        table.insert(arguments, function(failure, result)
          _G.outcome = require("sessiond.json").encode({ failure or vim.NIL, result or vim.NIL })
        end)
        require("sessiond")[name](unpack(arguments))
        """,
        function,
        list(arguments),
    )
    failure, result = json.loads(editor.until(lambda: editor.lua("return _G.outcome")))
    return failure if failure is not None else result


# -- the conformance kit ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("payloads", "left_out", "unsupported"),
    [("text", set[str](), set[str]()), ("tables", EXACT, RESPELLED)],
)
def test_the_client_passes_the_kit(
    payloads: str,
    left_out: set[str],
    unsupported: set[str],
    neovim: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NEOVIM", neovim)
    monkeypatch.setenv("CONFORMANCE_PAYLOADS", payloads)
    asked = sorted(set(CASES) - left_out)
    code, outcomes = with_daemon(
        "--client", shlex.join(["sh", str(HERE / "conformance.sh")]), *asked
    )
    assert skipped(outcomes) == BELOW_A_CLIENT | unsupported
    assert (code, sorted(outcomes)) == (0, asked)


def test_the_cases_left_out_are_about_bytes() -> None:
    for case in EXACT:
        assert re.search(r"\$exact|\d\.\d+", (KIT / "cases" / f"{case}.json").read_text("utf-8")), (
            case
        )


# -- the first minutes --------------------------------------------------------------------------


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


# -- JSON ---------------------------------------------------------------------------------------


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


# -- feeds --------------------------------------------------------------------------------------


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


# -- tail, append -------------------------------------------------------------------------------


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


def until_shown_in_number(editor: Editor, number: int) -> None:
    """Wait until a tail shows so many texts, or more."""
    editor.until(
        lambda: len(shown(editor)) >= number,
        lambda: f"{shown(editor)} {editor.messages()}",
    )


def shown(editor: Editor) -> list[str]:
    """Return the texts of a tail, without headings."""
    return [line for line in editor.lines() if line and not line.startswith("── ")]


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


# -- tree, list, status line --------------------------------------------------------------------


def drawn(editor: Editor) -> list[str]:
    return editor.lines(f"sessiond://tree/{SESSION}")


def test_a_tree_is_drawn_and_follows(
    editor: Editor, session: str, environment: Mapping[str, str]
) -> None:
    editor.command(f"Sessiond tree {session}")
    editor.until(
        lambda: drawn(editor) == ["• user: Why is it late?", "▶ assistant: The clock."],
        lambda: f"{drawn(editor)} {editor.messages()}",
    )
    say(environment, "And now?")
    editor.until(lambda: drawn(editor)[-1] == "▶ user: And now?", lambda: str(drawn(editor)))
    kill_the_daemon(environment)
    say(environment, "Still there?")
    editor.until(lambda: drawn(editor)[-1] == "▶ user: Still there?", lambda: str(drawn(editor)))


def test_the_keys_of_a_tree_move_branch_label_and_show(
    editor: Editor, session: str, environment: Mapping[str, str]
) -> None:
    editor.command(f"Sessiond tree {session}")
    editor.until(lambda: len(drawn(editor)) == 2)
    editor.type("ggm")
    editor.until(lambda: drawn(editor)[0].startswith("▶"), lambda: str(drawn(editor)))
    editor.type("G")
    editor.until(lambda: editor.cursor() == 2)
    say(environment, "Another way.")
    editor.until(lambda: len(drawn(editor)) == 3)
    assert "The clock." in drawn(editor)[2]
    assert editor.cursor() == 3
    editor.type("bbranchy<CR>")
    editor.until(lambda: any("◀ branchy" in line for line in drawn(editor)), editor.messages)
    assert editor.lua("return vim.fn.getline('.')").endswith("The clock. ◀ branchy")
    editor.type("lhere it is<CR>")
    editor.until(lambda: any("[here it is]" in line for line in drawn(editor)), editor.messages)
    assert "The clock." in editor.lua("return vim.fn.getline('.')")
    editor.type("<CR>")
    editor.until(lambda: editor.lua("return vim.bo.filetype") == "json")
    assert json.loads("\n".join(editor.lines()))["message"]["content"] == "The clock."
    editor.type("q")
    editor.until(lambda: editor.lua("return vim.bo.filetype") == "sessiond-tree")
    with python_client(environment) as client:
        heads = {head.name: head.leaf_id for head in client.heads(session)}
        (label,) = client.labels(session).labels
    assert label.entry_id == heads["branchy"]


def test_a_list_follows_and_opens(
    editor: Editor, session: str, environment: Mapping[str, str], home: Path
) -> None:
    editor.command("Sessiond list")
    editor.until_shown("Fix it")
    kill_the_daemon(environment)
    with python_client(environment) as client:
        client.create(str(home / "project"), title="Another one", persist="immediate")
    editor.until_shown("Another one")
    editor.type("/Fix it<CR><CR>")
    editor.until_shown("The clock.", f"sessiond://tail/{session}")


def test_the_status_line_names_session_tokens_and_connection(
    editor: Editor, session: str, environment: Mapping[str, str]
) -> None:
    def status() -> str:
        text: str = editor.lua("return require('sessiond').statusline()")
        return text

    editor.command(f"Sessiond tail {session}")
    first = editor.until(
        lambda: (
            found
            if re.fullmatch(r"sessiond · Fix it · \d+ tokens · connected", found := status())
            else ""
        ),
        status,
    )
    say(environment, "a longer text " * 50)
    editor.until(lambda: "connected" in status() and "tokens" in status() and status() != first)


def test_commands_and_sessions_are_completed(editor: Editor, session: str) -> None:
    def completed(line: str) -> Any:
        return editor.lua("return vim.fn.getcompletion(..., 'cmdline')", line)

    assert completed("Sessiond ") == ["append", "list", "new", "tail", "tree", "use"]
    assert completed("Sessiond ta") == ["tail"]
    assert completed("Sessiond tree ses") == [session]
    editor.type(":Sessiond tail ses<Tab>")
    editor.until(lambda: editor.lua("return vim.fn.getcmdline()") == f"Sessiond tail {session}")
    editor.type("<CR>")
    editor.until_shown("The clock.")


@pytest.mark.parametrize("view", ["list", "tail", "tree", "append"])
def test_every_key_is_told_by_the_help(view: str, editor: Editor, session: str) -> None:
    editor.command(f"Sessiond use {session}")
    editor.until(lambda: editor.lua("return vim.g.sessiond_session"))
    editor.command(f"Sessiond {view}")
    editor.until(lambda: f"sessiond://{view}" in editor.lua("return vim.fn.bufname()"))
    keys = editor.lua(
        "return vim.tbl_map(function(m) return m.lhs end, vim.api.nvim_buf_get_keymap(0, 'n'))"
    )
    editor.type("g?")
    editor.until_shown("show these keys")
    told = [line.split()[0] for line in editor.lines()]
    assert sorted(told) == sorted(keys)
    page = (PLUGIN / "doc" / "sessiond.txt").read_text("utf-8")
    for key in keys:
        assert re.search(rf"^    {re.escape(key)} +\S", page, re.MULTILINE), key


def test_the_help_has_its_tags(editor: Editor) -> None:
    editor.command("helptags ALL")
    for tag in (":Sessiond", "sessiond-lua", "sessiond-keys"):
        editor.command(f"help {tag}")
        assert any(f"*{tag}*" in line for line in editor.lines())


# -- what the plugin costs ----------------------------------------------------------------------


def test_one_connection_no_process_and_no_poll(
    neovim: str, home: Path, session: str, environment: Mapping[str, str]
) -> None:
    """Require that an editor with every view open sends no line while no client writes."""
    daemon = said([SESSIOND, "start", "--json"], environment)["socket"]
    lines: list[bytes] = []

    def counted(line: bytes) -> list[bytes]:
        lines.append(line)
        return [line]

    place = home / "proxy"
    with (
        line_proxy(place, Path(daemon), requests=counted, answers=counted),
        editing(neovim, home, {**environment, "SESSIOND_SOCKET": str(place)}) as editor,
    ):
        for view in ("list", "tail", "tree"):
            editor.command(f"Sessiond {view}" + (f" {session}" if view != "list" else ""))
        editor.lua("vim.o.statusline = [[%{v:lua.require'sessiond'.statusline()}]]")
        editor.until_shown("The clock.", "sessiond://tail/")
        editor.until_shown("The clock.", "sessiond://tree/")
        editor.until(
            lambda: "tokens" in editor.lua("return require('sessiond').statusline()"),
            editor.messages,
        )
        say(environment, "Quiet now.")
        editor.until_shown("Quiet now.", "sessiond://tree/")
        quiet(lines)
        assert sum(b'"method":"initialize"' in line for line in lines) == 1
        assert editor.children() == []


def quiet(lines: list[bytes]) -> None:
    """Wait until two seconds pass without a line."""
    end = time.monotonic() + 60
    while True:
        before = len(lines)
        time.sleep(2)
        if len(lines) == before:
            return
        assert time.monotonic() < end, lines[-5:]
