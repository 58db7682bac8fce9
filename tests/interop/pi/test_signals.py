"""Clients that steer pi, end its turn and set labels."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.interop.pi.conftest import Pi, Watcher

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(180)]

CALL = 'First [call bash {"command": "cat go"}]'


def _answers(entries: list[dict[str, object]]) -> list[str]:
    """Return the last words of each finished answer of the model."""
    found = [json.dumps(entry) for entry in entries]
    return [one.split("You said: ")[1].split('"')[0] for one in found if "You said: " in one]


def _works(pi: Pi, watcher: Watcher, folder: Path) -> None:
    """Have pi wait in a tool call."""
    os.mkfifo(folder / "go")
    pi.ask("prompt", message=CALL)
    watcher.present(lambda found: [one.state for one in found] == ["executing"])


def test_pi_is_present_with_its_model_and_folder(pi: Pi, watcher: Watcher, tmp_path: Path) -> None:
    (one,) = watcher.present(lambda found: [one.state for one in found] == ["idle"])
    assert one.data == {
        "agent": "pi",
        "pid": pi.process.pid,
        "cwd": str(tmp_path)[:300],
        "model": "fake/fake",
        "name": None,
    }
    assert (one.reason, one.head, one.client_id.split("-")[1]) == (
        "startup",
        "main",
        str(pi.process.pid),
    )


@pytest.mark.parametrize("kind", ["steer", "follow_up"])
def test_an_idle_pi_takes_a_text_as_its_next_prompt(pi: Pi, watcher: Watcher, kind: str) -> None:
    watcher.present(bool)
    answer = watcher.ask(kind, text="Look at the clock")
    assert answer.kind == "taken"
    pi.until(lambda told: told["type"] == "agent_end")
    watcher.until_entry(lambda entry: "You said: Look at the clock" in str(entry))


@pytest.mark.parametrize(
    ("kind", "answers"),
    [("steer", ["Hello", "Then this"]), ("follow_up", ["Hello", "First", "Then this"])],
)
def test_a_working_pi_takes_a_text_into_its_turn_or_behind_the_turn(
    pi: Pi, watcher: Watcher, tmp_path: Path, kind: str, answers: list[str]
) -> None:
    watcher.present(bool)
    _works(pi, watcher, tmp_path)
    assert watcher.ask(kind, text="Then this").kind == "taken"
    (tmp_path / "go").write_text("gone", "utf-8")
    pi.until(lambda told: told["type"] == "agent_end")
    watcher.until_entry(lambda entry: "You said: Then this" in str(entry))
    assert _answers(watcher.entries) == answers


def test_a_prompt_of_the_queue_leaves_the_queue(pi: Pi, watcher: Watcher) -> None:
    watcher.present(bool)
    client, session = watcher.client, watcher.session
    client.signal(session, "follow_up", data="From the queue", queue=True, queue_id="p1")
    watcher.until_entry(lambda entry: "You said: From the queue" in str(entry))
    watcher.present(lambda found: not client.queue(session))


def test_a_client_ends_the_turn(pi: Pi, watcher: Watcher) -> None:
    watcher.present(bool)
    pi.ask("prompt", message="Stay [hang]")
    pi.until(
        lambda told: told["type"] == "message_start" and told["message"]["role"] == "assistant"
    )
    watcher.present(lambda found: [one.state for one in found] == ["thinking"])
    assert watcher.ask("abort").kind == "taken"
    pi.until(lambda told: told["type"] == "agent_end")
    watcher.present(lambda found: [one.state for one in found] == ["idle"])


def test_pi_says_why_a_signal_is_refused(pi: Pi, watcher: Watcher) -> None:
    watcher.present(bool)
    answers = [
        watcher.ask("abort"),
        watcher.ask("steer"),
        watcher.ask("label", entry_id="none", label="a"),
        watcher.ask("label"),
    ]
    assert [one.kind for one in answers] == ["refused"] * 4
    assert [one.data["reason"] for one in answers] == [
        "idle",
        "data has no text",
        "Entry none not found",
        "data has no entry_id",
    ]


def test_a_label_goes_through_pi(pi: Pi, watcher: Watcher) -> None:
    watcher.present(bool)
    watcher.until_entry(lambda entry: "You said: Hello" in str(entry))
    target, leaf = str(watcher.entries[-2]["id"]), str(watcher.entries[-1]["id"])
    assert watcher.ask("label", entry_id=target, label="start").kind == "taken"
    lines = [json.loads(line) for line in pi.file().read_text("utf-8").splitlines()]
    (label,) = [line for line in lines if line["type"] == "label"]
    assert (label["targetId"], label["label"], label["parentId"]) == (target, "start", leaf)
    assert len(str(label["id"])) == 8  # an id of pi's own
    # pi goes on from its label, as a program does that knows the entry.
    pi.prompt("Again")
    lines = [json.loads(line) for line in pi.file().read_text("utf-8").splitlines()]
    assert [line["id"] for line in lines if line.get("parentId") == leaf] == [label["id"]]


def test_one_of_two_processes_takes_a_signal(
    pi: Pi, watcher: Watcher, start_pi: Callable[..., Pi]
) -> None:
    (first,) = watcher.present(bool)
    second = start_pi("--session", str(pi.file()))
    found = watcher.present(lambda found: len(found) == 2)
    assert found[0].client_id == first.client_id
    answer = watcher.ask("steer", text="For one of you")
    assert answer.origin["client_id"] == first.client_id
    pi.until(lambda told: told["type"] == "agent_end")
    answer = watcher.ask("steer", text="For the other", to=found[1].client_id)
    assert answer.origin["client_id"] == found[1].client_id
    second.until(lambda told: told["type"] == "agent_end")
    watcher.until_entry(lambda entry: "You said: For the other" in str(entry))
    assert sorted(_answers(watcher.entries)) == ["For one of you", "For the other", "Hello"]
