"""A copy of any session of opencode says what the reading of the session says."""

from __future__ import annotations

import json
import random
from contextlib import suppress
from typing import Any

import pytest

from sessiond.dialects.agents.opencode import OpencodeReading
from sessiond.dialects.agents.opencode_lines import (
    StoredMessage,
    StoredPart,
    session_lines,
)
from sessiond.errors import SessionCorrupt
from sessiond.model.usage import Usage
from tests.kit.opencode import BEGAN, text, tokens, tool
from tests.kit.readings import Copy, check_reading, variants

SEEDS = 100


def stored(number: int, data: Any, parts: list[Any], kind: str | None = None) -> StoredMessage:
    """Return a message as a store has it."""
    spelled = [
        StoredPart(f"prt_{number}_{at}", json.dumps(part).encode()) for at, part in enumerate(parts)
    ]
    content = json.dumps(data).encode()
    return StoredMessage(f"msg_{number}", BEGAN + number, content, spelled, kind, number)


def answer(number: int, chance: random.Random) -> tuple[Any, list[Any]]:
    """Return an answer: words, calls, steps, failures."""
    data: dict[str, Any] = {"role": "assistant", "modelID": "m", "providerID": "p"}
    if chance.random() < 0.8:
        data |= {"finish": "stop", "tokens": tokens(chance.randrange(9), chance.randrange(1, 9))}
    if chance.random() < 0.2:
        data["error"] = {"name": chance.choice(["APIError", "MessageAbortedError"])}
    made = [
        text(f"t{number}"),
        {"type": "reasoning", "text": f"r{number}"},
        {"type": "step-start"},
        tool(f"c{number}a", chance.choice(["completed", "pending", "error"])),
        tool(f"c{number}b"),
    ]
    return data, [chance.choice(made[:3]), *chance.sample(made, chance.randrange(len(made)))]


def version_1(chance: random.Random) -> list[bytes]:
    """Return the lines of a session with compactions and a revert."""
    messages: list[StoredMessage] = []
    count = chance.randrange(1, 25)
    for number in range(count):
        match chance.randrange(5):
            case 0 | 1:
                said = text(f"u{number}", synthetic=chance.random() < 0.2)
                messages.append(stored(number, {"role": "user"}, [said]))
            case 2 if messages and messages[-1].parts:
                tails = [None, "msg_none", *(one.id for one in messages)]
                tail = chance.choice(tails)
                part = {"type": "compaction", "tail_start_id": tail}
                messages.append(stored(number, {"role": "user"}, [part]))
                ended = {"summary": True, "parentID": f"msg_{number}", "finish": "stop"}
                data = {"role": "assistant", "tokens": tokens(3, 1), **ended}
                messages.append(stored(number + 100, data, [text(f"s{number}")]))
            case _:
                data, parts = answer(number, chance)
                messages.append(stored(number, data, parts))
    columns: dict[str, Any] = {"id": "ses_1", "directory": "/p", "time_created": BEGAN}
    if chance.random() < 0.4 and messages:
        one = chance.choice(messages)
        reverted = [None, *(part.id for part in one.parts)]
        revert = {"messageID": one.id, "partID": chance.choice(reverted)}
        columns["revert"] = json.dumps(revert)
    return list(session_lines(columns, messages))


def version_2(chance: random.Random) -> list[bytes]:
    """Return the lines of a session of rows."""
    rows: list[StoredMessage] = []
    for number in range(chance.randrange(1, 25)):
        done = {"status": "completed", "summary": f"s{number}", "tokens": tokens(3, 1)}
        data, _ = answer(number, chance)
        state: dict[str, Any] = {
            "status": "completed",
            "input": {},
            "content": [text(f"o{number}")],
        }
        call: dict[str, Any] = {"type": "tool", "id": f"c{number}", "name": "ls", "state": state}
        kind, said = chance.choice(
            [
                ("user", {"text": f"u{number}"}),
                ("assistant", data | {"content": [text(f"t{number}")]}),
                ("assistant", data | {"content": [call]}),
                ("compaction", done),
                ("compaction", done | {"providerContext": {"id": 1}}),
                ("synthetic", {"text": f"n{number}"}),
                ("shell", {"command": "ls", "output": f"o{number}"}),
                ("model-switched", {"model": {"id": f"m{number}"}}),
            ]
        )
        rows.append(stored(number, said, [], kind))
    return list(session_lines({"id": "ses_1", "title": "t", "time_created": BEGAN}, rows))


def require_equal(lines: list[bytes]) -> None:
    """Hold the copy of a session against its reading."""
    found = check_reading(OpencodeReading, lines)
    copy = Copy.of_lines("opencode", lines)
    # A compaction that names its messages has injected ones as the user's.
    ours, theirs = (
        [one.replace("custom: ", "user: ", 1) for one in read.texts()] for read in (copy, found)
    )
    assert ours == theirs
    assert copy.session.problems == []
    assert copy.session.facts == found.session.facts
    if found.session.has_assistant:
        one, other = copy.session.usage or Usage(), found.usage or Usage()
        assert (one.input_tokens, one.output_tokens) == (other.input_tokens, other.output_tokens)
    assert b"responseId" not in b"".join(copy.lines)


@pytest.mark.search
@pytest.mark.parametrize("make", [version_1, version_2])
def test_a_copy_has_the_context_and_the_tokens_of_the_session(make: Any) -> None:
    for seed in range(SEEDS):
        lines = make(random.Random(seed))
        with suppress(SessionCorrupt):
            require_equal(lines)
        for one in variants(lines[1:], str(seed), 2):
            with suppress(SessionCorrupt):
                require_equal([lines[0], *one])
