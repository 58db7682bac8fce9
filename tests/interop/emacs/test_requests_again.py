"""Requests that a daemon refused, left or did not take: which ones Emacs sends again."""

from __future__ import annotations

import re
from typing import Final

import pytest

from tests.interop.emacs.editor import Editor, quoted
from tests.interop.emacs.scripted_daemon import ScriptedDaemon
from tests.interop.test_stubs import SESSION

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(240)]

APPEND: Final = (
    f"""(progn (driver-ask "session/append" '(:session_id {quoted(SESSION)} """
    """:message (:role "user" :content "hi"))) nil)"""
)


@pytest.mark.parametrize("kind", ["overloaded", "draining"])
def test_an_append_that_was_refused_for_now_is_sent_again_with_its_id(
    editor: Editor, scripted: ScriptedDaemon, kind: str
) -> None:
    editor.eval(APPEND)
    scripted.greet()
    first = scripted.read("session/append")
    assert re.fullmatch("[0-9a-f]{32}", first["params"]["entry"]["id"])
    scripted.refuse(first["id"], kind, retry_after_ms=400)
    second = scripted.read("session/append")
    (pause,) = editor.eval("(driver-pauses 'sessiond-client--send-again)")
    assert pause >= 0.4
    assert second["params"] == first["params"]
    scripted.answer(second, {"seq": 1})
    assert editor.until("(car driver-answers)") == {"result": {"seq": 1}}


def test_requests_wait_for_the_next_connection_of_a_daemon_that_drains(
    editor: Editor, scripted: ScriptedDaemon
) -> None:
    editor.eval(APPEND)
    scripted.greet()
    first = scripted.read("session/append")
    scripted.say(method="server/draining", params={"retry_after_ms": 700})
    editor.until("(eq (sessiond-client--state (sessiond-client-shared)) 'draining)")
    editor.eval('(progn (driver-ask "server/ping" nil) nil)')
    scripted.hang_up()
    scripted.greet()
    (pause,) = editor.eval("(driver-pauses 'sessiond-client--try)")
    assert pause >= 0.7
    again = scripted.read("session/append")
    assert again["params"] == first["params"]
    scripted.answer(again, {"seq": 1})
    scripted.answer(scripted.read("server/ping"), {"ok": True})
    editor.until("(length driver-answers)", lambda count: count == 2)


def test_a_frame_that_was_not_taken_is_sent_over_another_connection(
    editor: Editor, scripted: ScriptedDaemon
) -> None:
    editor.eval(APPEND)
    scripted.greet()
    first = scripted.read("session/append")
    scripted.refuse(None, "overloaded")
    scripted.greet()
    assert scripted.read("session/append")["params"] == first["params"]


def test_a_subscription_goes_on_behind_its_last_event(
    editor: Editor, scripted: ScriptedDaemon
) -> None:
    """Close the session under the subscriber, drop the connection, then refuse for good."""
    editor.eval(f"(progn (driver-subscribe {quoted(SESSION)} nil) nil)")
    scripted.greet()
    request = scripted.read("session/subscribe")
    assert request["params"] == {"session_id": SESSION}
    scripted.answer(request, {"epoch": "x", "seq": 4, "leaf_id": "e4", "heads": []})
    scripted.say(method="session/closed", params={"session_id": SESSION, "reason": "repaired"})
    request = scripted.read("session/subscribe")
    assert request["params"]["after"] == {"seq": 4, "epoch": "x"}
    scripted.answer(request, {"epoch": "x", "seq": 4, "leaf_id": "e4", "heads": []})
    entry = {"type": "message", "id": "e5", "message": {"role": "user", "content": "five"}}
    event = {"session_id": SESSION, "epoch": "x", "seq": 5, "entry": entry}
    scripted.say(method="session/event", params=event)
    editor.events(1)
    scripted.say(method="session/synced", params={"session_id": SESSION, "seq": 7})
    scripted.say(method="session/unheard_of", params={"session_id": SESSION, "later": [None]})
    editor.until("(length driver-events)", lambda count: count == 3)
    scripted.hang_up()
    scripted.greet()
    request = scripted.read("session/subscribe")
    assert request["params"]["after"] == {"seq": 7, "epoch": "x"}
    scripted.answer(
        request, {"epoch": "y", "seq": 1, "leaf_id": "e1", "heads": [], "replaced": "epoch"}
    )
    last = editor.until("(car driver-events)", lambda event: event["method"] == "session/replaced")
    assert last["params"] == {"session_id": SESSION, "epoch": "y", "reason": "epoch"}
    scripted.hang_up()
    scripted.greet()
    request = scripted.read("session/subscribe")
    assert request["params"]["after"] == {"seq": 0, "epoch": "y"}
    data = {"kind": "session_not_found", "retryable": False}
    scripted.say(id=request["id"], error={"code": -32020, "message": "none", "data": data})
    last = editor.until("(car driver-events)", lambda event: event["method"] == "session/closed")
    assert last["params"] == {"session_id": SESSION, "reason": "session_not_found"}


@pytest.mark.parametrize(
    ("method", "is_unknown"), [("session/list", False), ("session/label", True)]
)
def test_only_a_change_without_an_answer_has_an_unknown_outcome(
    editor: Editor, scripted: ScriptedDaemon, method: str, *, is_unknown: bool
) -> None:
    editor.eval(f"(progn (driver-ask {quoted(method)} nil) nil)")
    scripted.greet()
    scripted.read(method)
    editor.eval(
        "(let* ((client (sessiond-client-shared)) (request (car (sessiond-client--in-order client))))"
        " (sessiond-client--give-up client request 10) nil)"
    )
    error = editor.until("(car driver-answers)")["error"]
    assert error["kind"] == "timeout"
    assert (error["data"] or {}) == ({"outcome_unknown": True} if is_unknown else {})
    assert ("look whether it was done" if is_unknown else "sessiond status") in error["message"]


@pytest.mark.parametrize("is_greeted", [True, False], ids=["no-answer", "no-greeting"])
def test_a_subscription_that_gets_no_first_answer_ends_in_time(
    editor: Editor, scripted: ScriptedDaemon, *, is_greeted: bool
) -> None:
    editor.eval("(progn (setq sessiond-timeout 1) nil)")
    editor.eval(f"(progn (driver-subscribe {quoted(SESSION)} nil) nil)")
    if is_greeted:
        scripted.greet()
        scripted.read("session/subscribe")
    error = editor.until("(car driver-answers)")
    assert error["kind"] == "timeout"
    assert "sessiond status" in error["message"]
    editor.until("(not (driver-timers))")
    if is_greeted:
        scripted.read("session/unsubscribe")


def test_emacs_does_not_wait_for_a_daemon_that_takes_a_part_of_a_request(
    editor: Editor, scripted: ScriptedDaemon
) -> None:
    editor.eval('(progn (driver-ask "server/ping" nil) nil)')
    scripted.greet()
    scripted.answer(scripted.read("server/ping"), {"ok": True})
    editor.until("(length driver-answers)", lambda count: count == 1)
    editor.eval("(progn (setq sessiond-timeout 1) nil)")
    editor.eval(
        """(progn (driver-ask "session/append" (list :session_id "any" """
        """:message (list :role "user" :content (make-string 3000000 ?x)))) nil)"""
    )
    assert editor.until("(car driver-answers)")["error"]["kind"] == "timeout"
