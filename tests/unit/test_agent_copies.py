"""A copy of a session of Codex or Gemini CLI says what the session says where its file lies."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from sessiond.dialects.agents.codex import CodexReading
from sessiond.dialects.agents.gemini_cli import GeminiCliReading
from sessiond.dialects.agents.reading import Reading
from sessiond.errors import SessionCorrupt
from sessiond.model.formats import AgentFormatName
from tests.kit.agents import CHATS, CODEX, codex_event, codex_item, codex_line, codex_said
from tests.kit.lines import spelled
from tests.kit.readings import Copy, read, variants

SEEDS = 200
READINGS: dict[AgentFormatName, Callable[[], Reading]] = {
    "codex": CodexReading,
    "gemini-cli": GeminiCliReading,
}
SAMPLES: list[tuple[AgentFormatName, Path]] = [
    *(("codex", path) for path in sorted(CODEX.glob("*.jsonl"))),
    *(("gemini-cli", path) for path in sorted(CHATS.glob("*.jsonl"))),
]


def require_equal(agent: AgentFormatName, lines: list[bytes]) -> None:
    """Hold the copy of a file against the session in place."""
    copy = Copy(agent, b"\n".join(lines) + b"\n")
    found = read(READINGS[agent](), lines)
    # A prompt between results comes behind them in place, and stays between them in the copy.
    assert sorted(copy.texts()) == sorted(found.texts())
    assert copy.session.problems == []
    assert copy.session.facts == found.session.facts
    assert copy.session.first_message == found.session.first_message
    if found.session.has_assistant:
        assert copy.session.usage == found.usage
    assert b"responseId" not in b"".join(copy.lines)


@pytest.mark.parametrize(("agent", "path"), SAMPLES, ids=lambda one: str(one)[-10:-6])
def test_the_copy_of_a_sample_and_of_its_variants_has_the_same_context(
    agent: AgentFormatName, path: Path
) -> None:
    lines = path.read_bytes().splitlines()
    require_equal(agent, lines)
    # In place, a rewind takes off what lines behind its target added to messages before the target.
    rest = [line for line in lines[1:] if b"$rewindTo" not in line]
    for variant in variants(rest, path.stem, 60):
        # A variant may say nothing at all.
        with suppress(SessionCorrupt):
            require_equal(agent, [lines[0], *variant])


def rollout(chance: random.Random) -> list[Any]:
    """Return the lines of a rollout with answers in parts, turns, rollbacks and compactions."""
    lines: list[Any] = [codex_line("session_meta", id="x", cwd="/p", model_provider="openai")]
    lines += [codex_said("t0"), codex_said("t0", "assistant")]
    for number in range(1, chance.randrange(5, 40)):
        words, call = f"t{number}", f"c{number % 7}"
        item = codex_item("function_call", name="n", arguments="{}", call_id=call)
        output = codex_item("function_call_output", output=words, call_id=call)
        back = codex_event("thread_rolled_back", num_turns=chance.randrange(3))
        last = {"input_tokens": chance.randrange(9), "output_tokens": chance.randrange(9)}
        last["total_tokens"] = sum(last.values())
        tokens = {
            "total_token_usage": {"total_tokens": number // 2},
            "last_token_usage": last,
        }
        history = [codex_said(words)["payload"], codex_said(words, "assistant")["payload"]]
        lines += chance.choice(
            [
                [codex_event("task_started"), codex_said(words)],
                [codex_said(words), codex_event("user_message")],
                [codex_said(f"<environment_context>{words}")],
                [codex_said(words, "assistant")],
                [codex_said(words, "assistant"), item, output],
                [item],
                [output],
                [codex_event("token_count", info=tokens)],
                [codex_line("turn_context", model=f"m{number % 3}")],
                [back],
                [codex_line("compacted", message=words)],
                [codex_line("compacted", replacement_history=history)],
            ]
        )
    return lines


def _message(chance: random.Random) -> Any:
    number = chance.randrange(8)
    said = "".join(chance.choice("ab") for _ in range(chance.randrange(1, 4)))
    if chance.random() < 0.4:
        return {"id": f"u{number}", "type": "user", "content": said}
    message: dict[str, Any] = {"id": f"g{number}", "type": "gemini", "content": said, "model": "m"}
    if chance.random() < 0.5:
        message["tokens"] = {"input": chance.randrange(5), "output": chance.randrange(1, 5)}
    if chance.random() < 0.5:
        names = [f"c{number}{at}" for at in range(chance.randrange(1, 3))]
        status = chance.choice(["success", "executing", "cancelled"])
        message["toolCalls"] = [{"id": name, "name": "n", "status": status} for name in names]
    return message


def chat(chance: random.Random) -> list[Any]:
    """Return the lines of a chat with messages written again, rewinds and replaced lists."""
    lines: list[Any] = [{"sessionId": "s", "projectHash": "h", "kind": "main"}]
    shown: list[Any] = []
    for number in range(chance.randrange(5, 40)):
        message = _message(chance)
        match chance.randrange(8):
            case 0:
                lines.append({"$rewindTo": chance.choice([*shown, message])["id"]})
            case 1:
                kept = shown[: chance.randrange(len(shown) + 1)]
                lines.append({"$set": {"messages": [*kept, *chance.choice([[], [message]])]}})
            case 2:
                lines.append({"$set": {"summary": f"t{number}"}})
            case 3 if shown:
                more = {"content": shown[-1]["content"] + "c"} if chance.random() < 0.5 else {}
                lines.append(shown[-1] | {"tokens": {"input": number, "output": number}} | more)
            case _:
                lines.append(message)
                shown.append(message)
    return lines


@pytest.mark.parametrize(("agent", "make"), [("codex", rollout), ("gemini-cli", chat)])
def test_copies_of_any_sessions_have_the_same_context(
    agent: AgentFormatName, make: Callable[[random.Random], list[Any]]
) -> None:
    for seed in range(SEEDS):
        require_equal(agent, spelled(*make(random.Random(seed))))
