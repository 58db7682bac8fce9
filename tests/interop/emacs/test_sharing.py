"""Emacs and another client on one session."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from sessiond_client import EntryEvent
from tests.interop.emacs.editor import PACKAGE, Editor, Json, entries, quoted
from tests.interop.test_stubs import (
    SESSION,
    TEXT,
    contents,
    kill_the_daemon,
    new_session,
    python_client,
    say,
)
from tests.kit.large_context import put_large_context, require_large_context

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(240)]


def test_it_creates_appends_watches_and_branches_beside_another_client(
    editor: Editor, environment: Mapping[str, str]
) -> None:
    created = editor.eval(
        f'(progn (sessiond-client-create (sessiond-client-shared) "/my/project" :session-id {quoted(SESSION)}'
        ' :title "From Emacs" :then (lambda (result) (push result driver-answers))) nil)'
    )
    assert created is None
    assert editor.until("(car driver-answers)")["created"] is True
    editor.eval(f"(progn (driver-subscribe {quoted(SESSION)} '(:seq 0)) nil)")
    editor.eval(
        f"(progn (sessiond-client-append (sessiond-client-shared) {quoted(SESSION)} {quoted(TEXT)}) nil)"
    )
    editor.events(1)
    with python_client(environment) as client:
        stream = client.subscribe(SESSION, after=0)
        first = next(iter(stream))
        client.append(SESSION, message={"role": "assistant", "content": "from Python"})
        assert entries(editor.events(2)) == [(1, TEXT), (2, "from Python")]
        root = client.entries(SESSION).entries[0].entry["id"]
        assert isinstance(first, EntryEvent)
        assert first.entry["message"] == {"role": "user", "content": TEXT}
        branched = editor.ask(
            "session/branch",
            f'(list :session_id {quoted(SESSION)} :entry_id {quoted(root)} :head "side")',
        )
        assert branched["result"]["leaf_id"] == root
        assert {head.name: head.leaf_id for head in client.heads(SESSION)}["side"] == root
        client.append(SESSION, head="side", message={"role": "user", "content": "beside"})
        stream.close()
    context = editor.ask(
        "session/build_context", f'(list :session_id {quoted(SESSION)} :head "side")'
    )
    assert [m["content"] for m in context["result"]["messages"]] == [TEXT, "beside"]


def test_the_example_of_the_page_works(editor: Editor, environment: Mapping[str, str]) -> None:
    page = (PACKAGE / "README.md").read_text("utf-8")
    (example,) = [
        block
        for block in re.findall(r"^```elisp\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
        if "sessiond-client-create" in block
    ]
    editor.eval(f"(progn {example.replace('my-session', SESSION)} nil)")
    editor.until('(driver-text "*Messages*")', lambda text: "entries: 0\n1 message" in text)
    assert contents(environment) == ["hi"]


def test_the_functions_for_other_packages_ask_what_they_are_called_after(
    editor: Editor, environment: Mapping[str, str]
) -> None:
    new_session(environment)
    say(environment, "one")
    with python_client(environment) as client:
        root = client.entries(SESSION).entries[0].entry["id"]

        def call(name: str, arguments: str = quoted(SESSION)) -> Json:
            editor.eval(
                f"""(progn (setq driver-answers nil)
                (sessiond-client-{name} (sessiond-client-shared) {arguments}
                  :then (lambda (result) (push result driver-answers))
                  :catch (lambda (error) (push error driver-answers))) nil)"""
            )
            answer: Json = editor.until("(car driver-answers)")
            return answer

        assert call("open")["session"]["id"] == SESSION
        assert [head["name"] for head in call("heads")["heads"]] == ["main"]
        call("label", f'{quoted(SESSION)} {quoted(root)} "here"')
        assert client.labels(SESSION).labels[0].label == "here"
        assert call("branch", f'{quoted(SESSION)} {quoted(root)} :head "side"')["leaf_id"] == root
        call("append", f'{quoted(SESSION)} "beside" :role "assistant" :head "side"')
        context = call("context", f'{quoted(SESSION)} :head "side"')
        assert [m["role"] for m in context["messages"]] == ["user", "assistant"]
        assert [s["id"] for s in call("list", ':cwd "/my/project"')["sessions"]] == [SESSION]
        assert [s["id"] for s in call("list", ':cwd "/nowhere"')["sessions"]] == []
    waited = editor.eval('(sessiond-client-wait (sessiond-client-shared) "server/ping" nil 5)')
    assert waited["ok"] is True
    error = """(condition-case failure
      (sessiond-client-wait (sessiond-client-shared) "no/such" nil 5)
      (sessiond-error (plist-get (caddr failure) :kind)))"""
    assert editor.eval(error) == "method_not_found"


def test_a_cursor_is_where_another_client_goes_on(
    editor: Editor, environment: Mapping[str, str]
) -> None:
    new_session(environment)
    say(environment, "one", "two")
    editor.eval(f"(progn (setq kept (driver-subscribe {quoted(SESSION)} '(:seq 0))) nil)")
    editor.events(2)
    editor.eval(
        "(progn (setq place (sessiond-client-cursor kept)) (sessiond-client-unsubscribe kept))"
    )
    say(environment, "three")
    editor.eval(
        f"""(progn (setq driver-events nil)
        (sessiond-client-subscribe (sessiond-client-new :client-id "other") {quoted(SESSION)}
          (lambda (method params) (push (list :method method :params params) driver-events))
          :after place) nil)"""
    )
    assert entries(editor.events(1)) == [(3, "three")]


def test_the_content_of_a_message_is_in_no_log(
    editor: Editor, environment: Mapping[str, str]
) -> None:
    """Let a callback fail with the content in its error; look into every buffer."""
    editor.tolerates_failures = True
    new_session(environment)
    editor.eval(
        f"""(progn (sessiond-client-subscribe (sessiond-client-shared) {quoted(SESSION)}
          (lambda (_method params) (error "It was %S" params)) :after '(:seq 0)) nil)"""
    )
    say(environment, "a secret")
    editor.until('(driver-text "*Messages*")', lambda text: "a callback failed: error" in text)
    kill_the_daemon(environment)
    editor.eval(f"(progn (driver-subscribe {quoted(SESSION)} '(:seq 0)) nil)")
    editor.events(1)
    found = editor.eval(
        """(seq-filter (lambda (buffer) (with-current-buffer buffer
            (string-match-p "a secret" (buffer-string)))) (buffer-list))"""
    )
    assert found is None
    assert "a secret" not in editor.said()


def test_a_refusal_is_a_plist_with_kind_and_message(editor: Editor) -> None:
    error = editor.ask("session/get", '(list :session_id "no-such-session")')["error"]
    assert (error["code"], error["kind"]) == (-32020, "session_not_found")
    assert "no session of this id" in error["message"]
    assert error["data"]["session_id"] == "no-such-session"


def test_a_daemon_that_cannot_be_started_is_an_error_not_a_hang(editor: Editor) -> None:
    editor.eval('(setq sessiond-program "/nowhere/sessiond")')
    error = editor.ask("session/list", "nil")["error"]
    assert error["kind"] == "cannot_start"


@pytest.mark.parametrize(
    ("control", "number"),
    [("\r\x1f", "9223372036854775807"), ("\0", "123456789012345678901234567890")],
    ids=["with the fast reader", "with the other reader"],
)
def test_values_come_back_as_they_were(
    editor: Editor, environment: Mapping[str, str], control: str, number: str
) -> None:
    new_session(environment)
    kept = (
        '{"role":"user","z":{},"a":[],"n":null,"f":false,"t":true,"x:y":1,"":[[{}]],"text":'
        + json.dumps(TEXT + control, ensure_ascii=False)
        + f',"big":{number},"small":0.1,"nested":{{"b":1,"a":{{"c":[null,{{}}]}}}}}}'
    )
    answer = editor.ask(
        "session/append",
        f"(list :session_id {quoted(SESSION)} :message (sessiond-client--decode {quoted(kept)}))",
    )
    entry_id = answer["result"]["leaf_id"]
    (path,) = Path(environment["SESSIOND_HOME"]).rglob(f"*{SESSION}.jsonl")
    stored = path.read_text("utf-8").split("\n")[-2]

    def spelled(text: str) -> Any:
        """Return JSON with the order of its members and the spelling of its numbers."""
        return json.loads(text, object_pairs_hook=tuple, parse_int=str, parse_float=str)

    assert spelled(kept) in [value for _, value in spelled(stored)]
    back = editor.eval(
        f"""(sessiond-client-encode (plist-get (plist-get (sessiond-client-wait
          (sessiond-client-shared) "session/entry"
          '(:session_id {quoted(SESSION)} :entry_id {quoted(entry_id)}) 5) :entry) :message))"""
    )
    assert spelled(back) == spelled(kept)


def test_a_number_is_a_value_and_what_json_has_no_word_for_is_an_error(editor: Editor) -> None:
    encoded = editor.eval('(sessiond-client-encode (sessiond-client--decode "[1.50,1e2,-0.0]"))')
    assert encoded == "[1.5,100.0,-0.0]"
    half = r'(sessiond-client--decode "\"\\ud83d\"")'
    assert editor.eval(f"(aref {half} 0)") == 0xD83D
    for value in ("1.0e+INF", "0.0e+NaN", half, "'symbol"):
        refused = f"(condition-case nil (sessiond-client-encode (list :a {value})) (error 1))"
        assert editor.eval(refused) == 1


def test_a_context_that_is_larger_than_an_answer_comes_whole(
    editor: Editor, environment: Mapping[str, str]
) -> None:
    with python_client(environment) as client:
        put_large_context(client, SESSION)
    editor.eval(
        f"""(progn (setq driver-answers nil)
        (sessiond-client-context (sessiond-client-shared) {quoted(SESSION)}
          :then (lambda (result)
            (let ((said (mapcar (lambda (one) (plist-get one :content))
                                (plist-get result :messages))))
              (push (list :first (vconcat (mapcar (lambda (one) (substring one 0 1)) said))
                          :size (vconcat (mapcar #'length said))
                          :sources (length (plist-get result :sources)))
                    driver-answers)))
          :catch (lambda (error) (push error driver-answers))) nil)"""
    )
    found: Json = editor.until("(car driver-answers)")
    require_large_context(found["first"], found["size"], found["sources"])
