"""Prompts, completion, the log, and what is announced, over bare lines."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from sessiond_client import connect_blocking
from tests.interop.mcp.test_lines import SESSION, Lines, append, daemon, lines
from tests.kit.still_reading import still_reading
from tests.processes.harness.daemon import Daemon

__all__ = ["daemon"]

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(120)]

Json = dict[str, Any]
NEWEST = "2026-07-28"


def prompt(one: Lines, name: str, **given: str) -> str:
    """Return the text of a prompt, which is one message of the user."""
    (message,) = one.ask("prompts/get", name=name, arguments=given)["result"]["messages"]
    assert (message["role"], message["content"]["type"]) == ("user", "text")
    return str(message["content"]["text"])


def completed(one: Lines, value: str, argument: str = "session", **ref: str) -> list[str]:
    """Return the values that complete an argument, of the prompt `resume` if nothing else is said."""
    told = one.ask(
        "completion/complete",
        ref=ref or {"type": "ref/prompt", "name": "resume"},
        argument={"name": argument, "value": value},
    )["result"]["completion"]
    assert told["hasMore"] is (told["total"] > len(told["values"]))
    return list(told["values"])


def make(daemon: Daemon, *sessions: tuple[str, str | None]) -> None:
    with connect_blocking(daemon.socket_path) as client:
        for session_id, title in sessions:
            named: Any = {} if title is None else {"title": title}
            client.create(cwd="/p", session_id=session_id, persist="immediate", **named)


def test_resume_has_the_brief_and_the_newest_messages(daemon: Daemon) -> None:
    make(daemon, ("a-clock-session", "Fix the clock"))
    with connect_blocking(daemon.socket_path) as client:
        for number in range(60):
            said = {"role": "user", "content": f"message {number}."}
            client.append("a-clock-session", message=said)
    with lines(daemon) as one:
        named = one.ask("prompts/list")["result"]["prompts"]
        assert {(p["name"], tuple(a["name"] for a in p["arguments"])) for p in named} == {
            *(("resume", ("session",)), ("recall", ("question", "session"))),
        }
        text = prompt(one, "resume", session="Fix the clock")
        assert "Id: a-clock-session" in text
        assert text.endswith("message 59.")
        assert "message 9." not in text
        for ref in ("a-clock-session", "the clock"):
            assert prompt(one, "resume", session=ref) == text
        upto = re.search(r"read_session with session_id=a-clock-session, upto=(\S+)", text)
        assert upto is not None
        older = one.call("read_session", session_id="a-clock-session", upto=upto[1])
        assert older["content"][0]["text"].endswith("message 9.")


def test_recall_finds_what_holds_most_words_of_a_question(daemon: Daemon) -> None:
    append(daemon, "the cron job runs at midnight", "the cron job is late", "nothing of it")
    make(daemon, ("another-session", "Elsewhere"))
    with connect_blocking(daemon.socket_path) as client:
        client.append("another-session", message={"role": "user", "content": "midnight train"})
    with lines(daemon) as one:
        text = prompt(one, "recall", question="Why was the cron job late at midnight?")
        late, runs, train = (text.index(w) for w in ("is late", "runs at midnight", "train"))
        assert max(late, runs) < train
        assert "nothing of it" not in text
        assert "midnight train" not in prompt(one, "recall", question="midnight", session=SESSION)
        assert "No session says" in prompt(one, "recall", question="zeppelin")
        assert "midnight" in prompt(one, "recall", question='"runs at midnight"', session="")


def test_recall_says_that_sessions_are_still_read(daemon: Daemon, tmp_path: Any) -> None:
    append(daemon, "the cron job runs at midnight")
    place = tmp_path / "reading.sock"
    with still_reading(place, daemon.socket_path) as reading, lines(daemon, socket=place) as one:
        assert "More sessions are being read" in prompt(one, "recall", question="midnight")
        reading.is_over.set()
        assert "More sessions" not in prompt(one, "recall", question="midnight")


@pytest.mark.parametrize(
    ("name", "argument", "given"),
    [
        ("resume", "session", {}),
        ("resume", "sessions", {"session": SESSION, "sessions": "x"}),
        ("resume", "session", {"session": ""}),
        ("recall", "question", {"session": SESSION}),
        ("recall", "question", {"question": "?!"}),
    ],
)
def test_a_wrong_argument_of_a_prompt_is_told_as_one_of_a_tool(
    daemon: Daemon, name: str, argument: str, given: Json
) -> None:
    with lines(daemon) as one:
        error = one.ask("prompts/get", name=name, arguments=given)["error"]
        assert error["code"] == -32602
        shown = re.fullmatch(
            rf"{name}: the argument '{argument}' .*\. Example: {name} (.*)", error["message"]
        )
        assert shown, error["message"]
        assert argument in {*json.loads(shown[1]), "sessions"}
        lost = one.ask("prompts/get", name="resume", arguments={"session": "nowhere at all"})
        assert "list_sessions shows the ids" in lost["error"]["message"]
        unknown = one.ask("prompts/get", name="nowhere")["error"]
        assert "resume, recall" in unknown["message"]


def test_titles_and_ids_complete_a_session(daemon: Daemon) -> None:
    make(
        daemon,
        *(("clock-1-session", "Fix the clock"), ("clock-2-session", "Twice")),
        *(("clock-3-session", "Twice"), ("clock-4-session", None)),
    )
    with lines(daemon) as one:
        assert completed(one, "THE CL") == ["Fix the clock"]
        assert set(completed(one, "clock-")) == {
            f"clock-{number}-session" for number in range(1, 5)
        }
        # Two sessions of one title are told apart by their ids.
        assert set(completed(one, "twice")) == {"clock-2-session", "clock-3-session"}
        every = completed(one, "")
        assert set(every) == {
            *("Fix the clock", "clock-2-session", "clock-3-session", "clock-4-session", SESSION),
        }
        for value in every:
            prompt(one, "resume", session=value)
        template: Json = {"type": "ref/resource", "uri": "sessiond://session/{id}/context"}
        assert completed(one, "clock-1", "id", **template) == ["clock-1-session"]
        assert completed(one, "Fix", "id", **template) == []
        assert completed(one, "clock", "question", type="ref/prompt", name="recall") == []
        assert completed(one, "clock", type="ref/prompt", name="nowhere") == []


def test_more_than_a_hundred_completions_are_counted(daemon: Daemon) -> None:
    make(daemon, *((f"many-{number:03}-session", None) for number in range(120)))
    with lines(daemon) as one:
        assert len(completed(one, "many-")) == 100


def test_the_log_is_told_from_the_level_on_that_was_set(daemon: Daemon) -> None:
    with lines(daemon) as one:
        one.call("list_sessions")
        assert one.ask("logging/setLevel", level="debug")["result"] == {}
        one.call("search_sessions", query="secret")
        told = one.hears("notifications/message")["params"]
        assert (told["level"], told["data"]) == ("debug", "search_sessions: answered")
        assert told["logger"].startswith("sessiond.mcp")
        one.call("search_sessions")
        assert one.hears("notifications/message")["params"]["data"] == "search_sessions: refused"
        one.ask("logging/setLevel", level="error")
        one.told.clear()
        one.call("search_sessions", query="secret")
        one.ask("ping")
        assert [line for line in one.told if line["method"] == "notifications/message"] == []
        assert "error" in one.ask("logging/setLevel", level="loud")


def test_what_is_announced_is_served(daemon: Daemon) -> None:
    with lines(daemon) as one:
        told = one.hello["capabilities"]
        assert told.keys() == {"tools", "resources", "prompts", "completions", "logging"}
        assert not told["tools"].get("listChanged")
        assert not told["prompts"].get("listChanged")
        assert told["resources"] == {"subscribe": True, "listChanged": True}
        meta = {
            "io.modelcontextprotocol/protocolVersion": NEWEST,
            "io.modelcontextprotocol/clientInfo": {"name": "bare", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
    with lines(daemon, hello=False) as one:
        newest = one.ask("server/discover", _meta=meta)["result"]["capabilities"]
        assert newest.keys() == {"tools", "resources", "prompts", "completions"}
        assert not newest["tools"].get("listChanged")
        assert not newest["prompts"].get("listChanged")
        assert newest["resources"] == {"subscribe": True, "listChanged": True}
