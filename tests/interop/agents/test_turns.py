"""The example agents take prompts, survive bad models and tools, and do as signals say."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.interop.agents.conftest import SESSION, Talk
from tests.kit.patience import soon

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(120)]


def spoken(message: dict[str, Any]) -> str:
    """Return role, stop reason, and text of a message."""
    content = message["content"]
    text = (
        content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
    )
    return " ".join(filter(None, (message["role"], message.get("stopReason"), text)))


def calling(command: str) -> str:
    return f"[call run {json.dumps({'command': command})}]"


def test_a_turn_has_the_prompt_the_call_its_result_and_the_answer(talk: Talk) -> None:
    talk.start()
    talk.prompt(f"{calling('echo from the tool; exit 3')} Run it.")
    said = talk.rest()
    assert [spoken(message) for message in said[1:]] == [
        "assistant toolUse",
        "toolResult from the tool\n",
        "assistant stop You said: Run it.",
    ]
    assert said[1]["content"][0]["id"] == said[2]["toolCallId"]
    assert said[2]["isError"] is True


@pytest.mark.parametrize("trouble", ["[garbage]", "[words 2][cut]", "[status 500]"])
def test_a_model_that_fails_ends_the_turn_with_an_error_and_the_next_prompt_works(
    talk: Talk, trouble: str
) -> None:
    talk.start()
    talk.prompt(f"{trouble} First secret.")
    talk.prompt("Second.")
    said = talk.rest()
    assert [message["role"] for message in said] == ["user", "assistant"] * 2
    assert said[1]["stopReason"] == "error"
    assert "secret" not in said[1]["errorMessage"]
    assert spoken(said[3]) == "assistant stop You said: Second."


def test_an_abort_ends_the_answer_and_what_was_said_is_kept(talk: Talk) -> None:
    talk.start()
    talk.prompt("[words 3][hang] Never ends.")
    talk.deltas(3)
    talk.client.signal(SESSION, "abort")
    said = talk.rest()
    assert spoken(said[1]) == "assistant aborted word0 word1 word2 "
    talk.prompt("Still there?")
    assert spoken(talk.rest()[-1]) == "assistant stop You said: Still there?"


def test_an_abort_ends_a_tool_with_all_its_processes(talk: Talk, tmp_path: Path) -> None:
    talk.start("agent", "--tool-seconds", "1000")
    pids = tmp_path / "pids"
    os.mkfifo(pids)
    talk.prompt(f"{calling(f'sleep 1000 & echo $! $$ > {pids}; wait')} Sleep.")
    running = [int(pid) for pid in pids.read_text("ascii").split()]
    talk.client.signal(SESSION, "abort")
    assert spoken(talk.rest()[-1]) == "assistant aborted"
    assert len(running) == 2
    # A killed process takes its time to be gone.
    soon(lambda: not any(map(_is_running, running)))


def _is_running(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text("ascii")
    except FileNotFoundError:
        return False


def test_a_tool_that_never_returns_is_ended_and_the_turn_goes_on(talk: Talk) -> None:
    talk.start()
    talk.prompt(f"{calling('echo begun; sleep 1000')} Wait.")
    said = talk.rest()
    assert spoken(said[2]) == "toolResult begun\n\n(ended after 1 seconds)"
    assert spoken(said[3]) == "assistant stop You said: Wait."


def test_a_tool_that_writes_without_end_is_cut(talk: Talk) -> None:
    talk.start("agent", "--tool-seconds", "100")
    talk.prompt(f"{calling('yes')} Say yes.")
    result = spoken(talk.rest()[2])
    assert result.endswith("(cut after 65536 bytes)")
    assert len(result) < 66_000


def test_a_call_of_an_unknown_tool_is_answered_with_an_error(talk: Talk) -> None:
    talk.start()
    talk.prompt('[call fly {"to": "the moon"}] Fly.')
    said = talk.rest()
    assert said[2]["isError"] is True
    assert spoken(said[3]) == "assistant stop You said: Fly."


def test_a_steer_is_taken_before_the_next_request_to_the_model(talk: Talk, tmp_path: Path) -> None:
    talk.start("agent", "--tool-seconds", "1000")
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    talk.prompt(f"{calling(f'cat {gate}')} Work.")
    with gate.open("w", encoding="ascii") as open_gate:
        talk.prompt("Later.")
        talk.prompt("Rather rest.", kind="steer")
        open_gate.write("done")
    said = [spoken(message) for message in talk.rest()]
    assert said[2:] == [
        "toolResult done",
        "user Rather rest.",
        "assistant stop You said: Rather rest.",
        "user Later.",
        "assistant stop You said: Later.",
    ]


def test_the_turn_of_a_killed_agent_is_finished_by_the_next_one(talk: Talk, tmp_path: Path) -> None:
    first = talk.start("first", "--tool-seconds", "1000")
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    talk.prompt(f"{calling(f'echo > {gate}; cat {gate}')} Work.")
    gate.read_text("ascii")
    first.kill()
    talk.start("second")
    said = talk.rest("second")
    # The command that the killed agent left ends now.
    gate.write_text("", "ascii")
    assert [spoken(message) for message in said[1:]] == [
        "assistant toolUse",
        "assistant stop You said: Work.",
    ]


def test_a_long_session_is_compacted_by_a_summary_of_the_model(talk: Talk) -> None:
    small = {"context_window": 1200, "reserve_tokens": 500, "keep_recent_tokens": 100}
    talk.client.update(SESSION, compaction=small)
    talk.start()
    for number in range(4):
        talk.prompt(f"[words 200] Prompt {number}.")
        talk.rest()
    path = [one.entry for one in talk.client.path(SESSION, limit=1000).entries]
    summaries = [entry["summary"] for entry in path if entry["type"] == "compaction"]
    assert summaries
    assert all(summary.startswith("You said: ") for summary in summaries)
