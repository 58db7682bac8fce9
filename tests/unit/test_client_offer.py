"""Requests of the daemon to the client, as plain function calls: each is answered once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sessiond_client import (
    Asked,
    BeforeBranch,
    BeforeCompact,
    BeforeFork,
    BeforeSwitch,
    ProtocolViolation,
    RpcError,
    Summarize,
    Timeout,
)
from sessiond_client.conversation import Setup
from sessiond_client.generated.facts import SUMMARY_BYTES_MAX
from sessiond_client.offering import Offering
from tests.kit.far_end import Daemon

HOOKS = ("before_compact", "before_fork", "before_branch", "before_switch")
PLAN = {"plan_id": "p", "leaf_id": "e2", "first_kept_entry_id": "e2", "new_member": 1}
ABOUT: dict[str, dict[str, Any]] = {
    "summarize": {"session_id": "s", "head": "main", "plan": PLAN, "prompt": "Say it."},
    "before_compact": {"session_id": "s", "head": "main", "plan": None, "automatic": True},
    "before_fork": {"session_id": "s", "entry_id": "e1"},
    "before_branch": {"session_id": "s", "head": "main", "leaf_id": "e2", "entry_id": None},
    "before_switch": {"from_session_ids": ["s"], "to_session_id": None, "reason": "new"},
}


def agree(daemon: Daemon, **capabilities: Any) -> None:
    daemon.answer(0, {"capabilities": {"summarize": True, "hooks": HOOKS, **capabilities}})


def offered(
    hello: dict[str, object] | None = None,
    *,
    summarize: bool = True,
    hooks: tuple[str, ...] = HOOKS,
) -> tuple[Offering, Daemon]:
    """Return an offer that the daemon has accepted, and the daemon."""
    setup = Setup(hello=hello, random=lambda: 1.0)
    offering = Offering(setup, summarize=summarize, hooks=hooks, deadline=30.0)
    daemon = Daemon(offering)
    daemon.connect()
    agree(daemon)
    return offering, daemon


def ask(daemon: Daemon, number: int = 1, name: str = "summarize") -> None:
    daemon.say(jsonrpc="2.0", id=number, method=f"client/{name}", params=ABOUT[name])


def next_asked(offering: Offering) -> Asked:
    asked = offering.take()
    assert asked is not None
    return asked


def test_it_is_offered_in_the_greeting_of_every_connection() -> None:
    offering, daemon = offered({"client_id": "agent"}, hooks=("before_fork",))
    assert offering.is_started
    for _ in range(2):
        daemon.lose()
        (hello,) = daemon.connect()
        assert hello["method"] == "initialize"
        capabilities = {"summarize": True, "hooks": ["before_fork"]}
        assert hello["params"] == {"client_id": "agent", "capabilities": capabilities}
        agree(daemon)
    assert offering.take() is None


@pytest.mark.parametrize(
    ("name", "about"),
    [
        ("before_compact", BeforeCompact("s", "main", automatic=True)),
        ("before_fork", BeforeFork("s", "e1")),
        ("before_branch", BeforeBranch("s", "main", "e2")),
        ("before_switch", BeforeSwitch(["s"], "new")),
    ],
)
def test_a_hook_passes_on_vetoes_or_supplies_a_summary(name: str, about: object) -> None:
    offering, daemon = offered()
    said: list[tuple[Callable[[Asked], None], dict[str, str]]] = [
        (Asked.pass_on, {}),
        (lambda asked: asked.veto("Not now."), {"veto": "Not now."}),
        (Asked.veto, {"veto": ""}),
        (lambda asked: asked.answer("So far."), {"summary": "So far."}),
        (
            lambda asked: asked.answer("So far.", label="tried"),
            {"summary": "So far.", "label": "tried"},
        ),
    ]
    for number, (say, result) in enumerate(said, 1):
        ask(daemon, number, name)
        asked = next_asked(offering)
        assert asked.about == about
        say(asked)
        assert daemon.requests() == [{"jsonrpc": "2.0", "id": number, "result": result}]


def test_a_summary_is_answered_or_left_to_others() -> None:
    offering, daemon = offered()
    ask(daemon)
    asked = next_asked(offering)
    assert isinstance(asked.about, Summarize)
    assert asked.about.plan is not None
    assert (asked.about.prompt, asked.about.plan.first_kept_entry_id) == ("Say it.", "e2")
    # A daemon of before there were purposes asks for compactions only.
    assert asked.about.purpose == "compaction"
    with pytest.raises(TypeError, match="pass_on"):
        asked.veto("no")
    for none in (" \n", "x" * (SUMMARY_BYTES_MAX + 1), "half \ud83d"):
        with pytest.raises(ValueError, match=r"summary|surrogates"):
            asked.answer(none)
    assert daemon.requests() == []
    asked.answer("It was \u2028 fixed.")
    assert daemon.requests()[0]["result"] == {"summary": "It was \u2028 fixed."}
    with pytest.raises(RuntimeError, match="already"):
        asked.pass_on()
    ask(daemon, 2)
    next_asked(offering).pass_on()
    (declined,) = daemon.requests()
    assert declined["id"] == 2
    assert "result" not in declined
    assert declined["error"]["code"]


def test_what_is_raised_answers_at_once_with_an_error_that_quotes_nothing() -> None:
    offering, daemon = offered()
    for number, name in enumerate(ABOUT, 1):
        ask(daemon, number, name)
        with pytest.raises(KeyError), next_asked(offering):
            raise KeyError("a word of the conversation")
        (failed,) = daemon.requests()
        assert failed["id"] == number
        assert "conversation" not in failed["error"]["message"]


def test_who_leaves_without_an_answer_passes_it_on() -> None:
    offering, daemon = offered()
    for number, name in enumerate(ABOUT, 1):
        ask(daemon, number, name)
        with next_asked(offering) as asked:
            pass
        (said,) = daemon.requests()
        assert ("error" in said) == (name == "summarize")
        assert not asked.is_withdrawn
    ask(daemon, 5)
    with next_asked(offering) as asked:
        asked.answer("said")
    assert [body["id"] for body in daemon.requests()] == [5]


def test_what_is_withdrawn_is_told_and_its_answer_dropped() -> None:
    offering, daemon = offered()
    told: list[str] = []
    for number in (1, 2, 3):
        ask(daemon, number)
    first, second = next_asked(offering), next_asked(offering)
    first.on_withdrawn(lambda: told.append("first"))
    for number in (1, 2, 3, 4):
        daemon.say(jsonrpc="2.0", method="$/cancelRequest", params={"id": number})
    assert told == ["first"]
    assert first.is_withdrawn
    second.on_withdrawn(lambda: told.append("second"))
    assert told == ["first", "second"]
    first.answer("late")
    second.pass_on()
    with pytest.raises(KeyError), second:
        raise KeyError
    # The third request was not taken yet, and its answer is not needed.
    assert offering.take() is None
    assert daemon.requests() == []


def test_an_answer_goes_to_the_connection_that_asked_or_nowhere() -> None:
    offering, daemon = offered()
    ask(daemon, 1)
    ask(daemon, 2)
    before = next_asked(offering)
    daemon.lose()
    assert before.is_withdrawn
    assert offering.take() is None
    daemon.connect()
    agree(daemon)
    # Another daemon counts from 1 again.
    ask(daemon, 1)
    after = next_asked(offering)
    before.answer("of the first")
    assert daemon.requests() == []
    after.answer("of the second")
    assert daemon.requests()[0]["result"] == {"summary": "of the second"}


def test_what_it_cannot_read_or_never_offered_is_answered_with_an_error() -> None:
    offering, daemon = offered()
    daemon.say(jsonrpc="2.0", id=1, method="client/summarize", params={"session_id": 7})
    daemon.say(jsonrpc="2.0", id=2, method="client/of_2031", params={})
    assert [body["error"]["code"] for body in daemon.requests()] == [-32000, -32601]
    assert offering.take() is None
    assert offering.broken is None
    ask(daemon, 3)
    next_asked(offering).answer("said")
    assert daemon.requests()[0]["id"] == 3


@pytest.mark.parametrize(
    ("lacks", "name"),
    [({"summarize": False}, "summarize"), ({"hooks": ["before_fork"]}, "before_compact")],
)
def test_a_daemon_that_never_asks_is_told_apart(lacks: dict[str, Any], name: str) -> None:
    offering = Offering(
        Setup(hello=None, random=lambda: 1.0),
        summarize=True,
        hooks=("before_compact",),
        deadline=30.0,
    )
    daemon = Daemon(offering)
    daemon.connect()
    agree(daemon, **lacks)
    with pytest.raises(ProtocolViolation, match=name):
        offering.take()
    assert offering.is_over


def test_who_may_not_write_hears_so_and_nobody_in_time_too() -> None:
    offering = Offering(
        Setup(hello={"access": "read"}, random=lambda: 1.0),
        summarize=True,
        hooks=(),
        deadline=30.0,
    )
    daemon = Daemon(offering)
    daemon.connect()
    offering.tick(29.0)
    assert not offering.is_over
    daemon.refuse(0, {"code": -32007, "kind": "permission_denied", "retryable": False})
    with pytest.raises(RpcError, match="permission_denied"):
        offering.take()
    late = Offering(Setup(hello=None, random=lambda: 1.0), summarize=True, hooks=(), deadline=30.0)
    late.tick(30.0)
    with pytest.raises(Timeout):
        late.take()


def test_a_full_daemon_is_offered_it_again_later() -> None:
    offering, daemon = offered()
    daemon.lose()
    daemon.connect()
    daemon.refuse(0, {"code": -32001, "kind": "overloaded", "retryable": True})
    assert isinstance(offering.broken, RpcError)
    assert not offering.is_over


def test_closing_withdraws_what_has_no_answer() -> None:
    offering, daemon = offered()
    ask(daemon)
    asked = next_asked(offering)
    offering.close()
    assert asked.is_withdrawn
    asked.answer("late")
    assert daemon.requests() == []


def test_purposes_are_offered_by_their_names_and_a_merge_is_read() -> None:
    purposes = ("merge", "squash")
    offering = Offering(
        Setup(hello=None, random=lambda: 1.0), summarize=purposes, hooks=(), deadline=30.0
    )
    daemon = Daemon(offering)
    (hello,) = daemon.connect()
    assert hello["params"]["capabilities"] == {"summarize": [*purposes], "hooks": []}
    agree(daemon, summarize_purposes=["compaction", *purposes])
    source = {"session_id": "s", "leaf_id": "e2", "entry_ids": ["e1", "e2"]}
    about = {"session_id": "s", "head": "main", "purpose": "merge", "plan": None, "prompt": "p"}
    daemon.say(
        jsonrpc="2.0", id=1, method="client/summarize", params={**about, "sources": [source]}
    )
    asked = next_asked(offering).about
    assert isinstance(asked, Summarize)
    assert (asked.purpose, asked.plan, asked.entry_ids) == ("merge", None, [])
    assert [one.entry_ids for one in asked.sources] == [["e1", "e2"]]


def test_a_daemon_that_does_not_know_a_purpose_ends_the_offer() -> None:
    setup = Setup(hello=None, random=lambda: 1.0)
    offering = Offering(setup, summarize=("merge", "squash"), hooks=(), deadline=30.0)
    daemon = Daemon(offering)
    daemon.connect()
    agree(daemon, summarize_purposes=["compaction", "merge"])
    with pytest.raises(ProtocolViolation, match="asks no client for a squash"):
        offering.take()
