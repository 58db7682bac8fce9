"""A daemon that is killed or stopped, answers that are lost, and readers that are behind."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.interop.emacs.editor import TAIL, TREE, Editor, entries, quoted
from tests.interop.emacs.proxy import through_a_proxy
from tests.interop.test_stubs import (
    SESSION,
    contents,
    kill_the_daemon,
    new_session,
    python_client,
    run,
    said,
    say,
)
from tests.processes.harness.daemon import SESSIOND

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(240)]


def test_a_killed_daemon_comes_back_and_nothing_is_missed_or_comes_twice(
    editor: Editor, environment: Mapping[str, str]
) -> None:
    new_session(environment)
    say(environment, "one")
    editor.command("sessiond-tail")
    editor.eval(f"(progn (driver-subscribe {quoted(SESSION)} '(:seq 0)) nil)")
    editor.text(TAIL, "one")
    for round_ in range(3):
        kill_the_daemon(environment)
        editor.eval(
            f"(progn (sessiond-client-append (sessiond-client-shared) {quoted(SESSION)} "
            f'"editor {round_}") nil)'
        )
        say(environment, f"meanwhile {round_}", f"after {round_}")
    events = editor.events(10)
    assert [event["params"]["seq"] for event in events if "entry" in event["params"]] == list(
        range(1, 11)
    )
    assert [text for _, text in entries(events)] == contents(environment)
    text = editor.text(TAIL, *contents(environment))
    assert re.findall(r"^(\d+)  user", text, re.MULTILINE) == [str(n) for n in range(1, 11)]


def test_a_stopped_daemon_is_left_and_found_again(
    editor: Editor, environment: Mapping[str, str]
) -> None:
    new_session(environment)
    editor.eval(f"(progn (driver-subscribe {quoted(SESSION)} nil) nil)")
    editor.until("(eq (sessiond-client--state (sessiond-client-shared)) 'ready)")
    before = said([SESSIOND, "status", "--json"], environment)["pid"]
    assert run([SESSIOND, "stop"], environment).returncode == 0
    say(environment, "behind the stop")
    assert entries(editor.events(1)) == [(1, "behind the stop")]
    assert said([SESSIOND, "status", "--json"], environment)["pid"] != before


def test_an_append_whose_answer_was_lost_is_stored_once(
    editor: Editor, place: Path, environment: Mapping[str, str]
) -> None:
    new_session(environment)
    with through_a_proxy(editor, place, environment) as proxy:
        editor.ask("server/ping", "nil")
        proxy.swallow = b'"duplicate":false'
        answer = editor.ask(
            "session/append",
            f'(list :session_id {quoted(SESSION)} :message (list :role "user" :content "once"))',
        )
        assert proxy.cuts == 1
        assert answer["result"]["duplicate"] is True
    assert contents(environment) == ["once"]


def test_a_branch_whose_answer_was_lost_is_not_sent_again(
    editor: Editor, place: Path, environment: Mapping[str, str]
) -> None:
    new_session(environment)
    say(environment, "one")
    with through_a_proxy(editor, place, environment) as proxy:
        editor.ask("server/ping", "nil")
        proxy.swallow = b'"head":"side"'
        error = editor.ask(
            "session/branch",
            f'(list :session_id {quoted(SESSION)} :entry_id :null :head "side")',
        )["error"]
        assert proxy.cuts == 1
    assert (error["kind"], error["data"]) == ("connection_lost", {"outcome_unknown": True})
    with python_client(environment) as client:
        assert client.get(SESSION).seq == 2


def test_no_child_process_and_no_byte_while_idle(
    editor: Editor, place: Path, environment: Mapping[str, str]
) -> None:
    new_session(environment)
    say(environment, "one")
    with through_a_proxy(editor, place, environment) as proxy:
        for command in ("sessiond-tail", "sessiond-tree"):
            editor.command(command)
        editor.eval("(progn (sessiond-list t) nil)")
        editor.text(TAIL, "one")
        editor.text(TREE, "one")
        editor.text("*sessiond*", "one")
        # What is asked comes of a timer, of the daemon's word, or of a person.
        no_request = "(= 0 (hash-table-count (sessiond-client--requests (sessiond-client-shared))))"
        editor.until(f"(and {no_request} (not (driver-timers)))")
        assert proxy.bytes_sent > 0
        assert editor.eval("(driver-children)") == ["sessiond"]
        children = Path(f"/proc/{editor.process.pid}/task/{editor.process.pid}/children")
        assert children.read_text() == ""


def test_a_reader_that_was_stopped_gets_each_entry_once(
    editor: Editor, environment: Mapping[str, str]
) -> None:
    """Stop Emacs until the daemon drops events for it; the daemon replays them."""
    new_session(environment)
    editor.eval(f"(progn (driver-subscribe {quoted(SESSION)} '(:seq 0)) nil)")
    editor.until("driver-events")
    os.kill(editor.process.pid, signal.SIGSTOP)
    try:
        with python_client(environment) as client:
            for number in range(24):
                text = f"{number} {'x' * 1_000_000}"
                client.append(SESSION, message={"role": "user", "content": text})
    finally:
        os.kill(editor.process.pid, signal.SIGCONT)
    seqs = editor.until(
        "(mapcar (lambda (e) (list (plist-get e :method) (plist-get (plist-get e :params) :seq)))"
        " (reverse driver-events))",
        lambda seqs: ["session/synced", 24] in seqs,
    )
    assert [seq for method, seq in seqs if method == "session/event"] == list(range(1, 25))
    assert "session/lagged" in [method for method, _ in seqs]


def test_a_late_subscriber_gets_all_and_the_first_one_nothing_twice(
    editor: Editor, environment: Mapping[str, str]
) -> None:
    new_session(environment)
    say(environment, "one", "two")
    editor.eval(f"(progn (driver-subscribe {quoted(SESSION)} '(:seq 0)) nil)")
    editor.events(2)
    editor.eval(
        f"""(progn (defvar late nil)
        (sessiond-client-subscribe (sessiond-client-shared) {quoted(SESSION)}
          (lambda (method params) (push (list method (plist-get params :seq)) late))
          :after '(:seq 0)) nil)"""
    )
    say(environment, "three")
    late = editor.until("(reverse late)", lambda late: ["session/event", 3] in (late or []))
    assert [seq for method, seq in late if method == "session/event"] == [1, 2, 3]
    assert [seq for seq, _ in entries(editor.events(3))] == [1, 2, 3]
    assert editor.eval("(hash-table-count (sessiond-client--feeds (sessiond-client-shared)))") == 1
