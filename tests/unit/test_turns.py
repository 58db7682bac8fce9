"""Turns are read alike of every dialect; the rules of protocol.md one by one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sessiond.dialects.base import current_lines
from sessiond.dialects.native.dialect import NATIVE
from sessiond.model.row import Kind
from sessiond.service.log.turn_reader import turn_entry
from sessiond.session.turns.boundaries import turns_down
from sessiond.session.turns.turn import make_turn
from tests.kit.lines import indexer_of, line_of
from tests.kit.sessions import calling

SAMPLES = Path(__file__).parent.parent / "samples"


def turns_in(name: str) -> list[dict[str, Any]]:
    """Return the turns on the path to main of a sample, in the dialect's current version."""
    path = SAMPLES / name
    lines = path.read_bytes().splitlines()
    lines = list(current_lines(indexer_of(lines[:1], path).dialect, lines))
    indexer = indexer_of(lines, path)
    session, dialect = indexer.session, indexer.dialect
    leaf = session.heads["main"].leaf
    made = []
    for span in turns_down(session, session.path(leaf), lambda _: False):
        entries = [
            turn_entry(dialect, session.names[seq], session.kinds[seq], lines[seq])
            for seq in span.seqs
        ]
        turn = make_turn(entries, is_last=span.last == leaf)
        made.append(json.loads(msgspec.json.encode(turn)))
    return made


def brief(block: dict[str, Any]) -> str:
    """Return a block in a few words."""
    state = block.get("meta", {}).get("state")
    named = f"{block['meta']['name']} {state}: " if state else ""
    return f"{block['type']}: {named}{block['content'].strip()}"


NATIVE_KINDS = {
    "user": Kind.USER,
    "assistant": Kind.ASSISTANT,
    "tool": Kind.TOOL,
    "toolResult": Kind.TOOL,
}
PLAN_A = [
    "thinking: check",
    "text: Checking.",
    "tool: read done: v1",
    "tool: read done: 1.0",
    "text: Plan A: ship Friday.",
    "status: Explored docs and splitting.",
    "custom: Reminder: freeze on Thursday",
]
CLOCK = [
    "thinking: look",
    "text: Reading.",
    "tool: read done: def test_cart(): ...",
    "text: It depends on time.",
    "status: The user explored freezing the clock.",
]
AUTH = [
    "thinking: need to read auth.go first",
    "text: Reading the handler.",
    "tool: read done: package auth",
    "text: The flow starts in auth.go.",
    "status: tried JWT, switching to OAuth",
]
RETRY = [
    "thinking: read first",
    "text: Looking.",
    "tool: read done: package client",
    "tool: grep done: Error: no match",
    "text: I will wrap it.",
    "tool: edit done: ok",
    "text: Done.",
]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("native/foreign-lines.jsonl", [("done", ["text: hi"], ["text: hello"])]),
        ("operator/operator-doc-spelling.jsonl", [("done", ["text: hi"], ["text: hello"])]),
        (
            "operator/operator.jsonl",
            [
                ("done", ["text: Plan the release"], PLAN_A),
                ("done", ["text: Plan B please"], ["text: Plan B: ship Monday."]),
            ],
        ),
        (
            "pi/pi.jsonl",
            [
                ("done", ["text: Fix the flaky test"], CLOCK),
                ("done", ["text: Instead inject a clock"], ["text: Injected."]),
            ],
        ),
        (
            "pi/pi-v1-linear.jsonl",
            [
                ("done", ["text: one"], ["text: two", "custom: three", "status: one+two"]),
                ("pending", ["text: four"], []),
            ],
        ),
        (
            "piglet/piglet.jsonl",
            [
                ("done", ["text: explain the auth flow & cookies"], AUTH),
                (
                    "done",
                    ["text: use OAuth instead", "image: iVBORw0KGgo="],
                    ["text: OAuth it is.", "status: ", "custom: note from the memory extension"],
                ),
                ("pending", ["text: add tests"], []),
            ],
        ),
        (
            "sharur/sharur.jsonl",
            [
                ("done", ["text: Fix the retry bug in client.go"], RETRY),
                (
                    "pending",
                    ["text: Alternative: use a library"],
                    ["status: went back from the docs path", "custom: injected by an extension"],
                ),
            ],
        ),
    ],
)
def test_a_file_of_each_program_is_read_as_turns(
    name: str, shown: list[tuple[str, list[str], list[str]]]
) -> None:
    found = [
        (turn["status"], [*map(brief, turn["request"])], [*map(brief, turn["response"])])
        for turn in turns_in(name)
    ]
    assert found == shown


def test_times_and_usage_are_sums_over_the_turn() -> None:
    first, second = turns_in("pi/pi.jsonl")
    assert (first["started_at"], first["ended_at"]) == (
        "2026-02-01T09:00:01.000Z",
        "2026-02-01T09:00:06.000Z",
    )
    assert (first["usage"]["total_tokens"], second["usage"]["total_tokens"]) == (5832, 2916)


def turn_of(*messages: dict[str, Any], is_last: bool = True) -> dict[str, Any]:
    """Return the turn of these messages, each with the members of its entry beside `message`."""
    roles = NATIVE_KINDS
    entries = []
    for number, one in enumerate(messages):
        beside = one.pop("beside", {})
        kind = roles.get(one["role"], Kind.OTHER_ROLE)
        line = line_of(type="message", id=f"e{number}", message=one, **beside)
        entries.append(turn_entry(NATIVE, f"e{number}", kind, line))
    made: dict[str, Any] = json.loads(msgspec.json.encode(make_turn(entries, is_last=is_last)))
    return made


ASK = {"role": "user", "content": "go"}


@pytest.mark.parametrize(
    ("messages", "status", "states"),
    [
        ([ASK], "pending", []),
        ([ASK, {"role": "assistant", "content": "ok"}], "done", []),
        ([ASK, calling("a", "b")], "pending", ["running", "running"]),
        (
            [ASK, calling("a", "b"), {"role": "tool", "tool_call_id": "b", "content": "out"}],
            "pending",
            ["running", "done"],
        ),
        (
            [ASK, calling("a"), {"role": "tool", "tool_call_id": "a", "content": "out"}],
            "pending",
            ["done"],
        ),
        (
            [
                ASK,
                calling("a"),
                {"role": "tool", "tool_call_id": "a", "content": "out", "is_error": True},
            ],
            "pending",
            ["error"],
        ),
        (
            [ASK, calling("a"), {"role": "tool", "tool_call_id": "x", "content": "out"}],
            "pending",
            ["running", "done"],
        ),
        ([ASK, calling("a", stopReason="aborted")], "error", ["error"]),
        ([ASK, calling("a"), {"role": "assistant", "content": "ok"}], "done", ["error"]),
        ([ASK, calling("a", beside={"turn_status": "done"})], "done", ["error"]),
        ([{**ASK, "beside": {"turn_status": "error"}}, calling("a")], "pending", ["running"]),
        (
            [
                ASK,
                calling("a", beside={"blocks": []}),
                {"role": "tool", "tool_call_id": "a", "content": "out"},
            ],
            "pending",
            [],
        ),
        ([ASK, calling("a", beside={"blocks": []})], "pending", []),
    ],
)
def test_the_last_message_decides_on_the_status(
    messages: list[dict[str, Any]], status: str, states: list[str]
) -> None:
    made = turn_of(*(dict(one) for one in messages))
    assert made["status"] == status
    found = [block["meta"]["state"] for block in made["response"] if block["type"] == "tool"]
    assert found == states
    assert (made["ended_at"] is None) == (status == "pending")


def test_a_turn_that_another_one_follows_is_over() -> None:
    made = turn_of(ASK, calling("a"), is_last=False)
    assert made["status"] == "done"
    assert made["response"][0]["meta"]["state"] == "error"
    assert turn_of(ASK, is_last=False)["status"] == "done"


def test_every_part_of_a_message_has_its_block() -> None:
    function = {"name": "ls", "arguments": '{"path":1.50}'}
    broken = {"name": "ls", "arguments": "{no"}
    made = turn_of(
        {
            "role": "user",
            "content": [
                {"type": "text", "text": ""},
                {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
                {"type": "document", "n": 1.50},
            ],
        },
        {"role": "system", "content": "be brief"},
        {"role": "bashExecution", "command": "make", "output": "no rule", "exitCode": 2},
        {"role": "assistant", "tool_calls": [{"id": "f", "function": function}]},
        {"role": "assistant", "tool_calls": [{"id": "g", "function": broken}]},
        {"role": "assistant", "tool_calls": [{"function": function}]},
        {
            "role": "toolResult",
            "toolCallId": "f",
            "content": [{"type": "image", "data": "QQ==", "mimeType": "image/png"}],
        },
        {"role": "assistant", "content": [], "stopReason": "error", "errorMessage": "no credit"},
    )
    assert made["request"] == [
        {"type": "image", "content": "", "meta": {"url": "https://x/y.png"}},
        {
            "type": "custom",
            "content": "",
            "meta": {"type": "document", "block": {"type": "document", "n": 1.5}},
        },
    ]
    bash = {"name": "bash", "input": {"command": "make"}, "state": "error", "exit_code": 2}
    made_call = {"name": "ls", "id": "f", "input": {"path": 1.5}, "state": "done"}
    unresolved = {"name": "ls", "id": "g", "input": "{no", "state": "error"}
    without_id = {"name": "ls", "input": {"path": 1.5}, "state": "error"}
    assert made["response"] == [
        {"type": "tool", "content": "no rule", "meta": bash},
        {"type": "tool", "content": "", "meta": made_call},
        {"type": "tool", "content": "", "meta": unresolved},
        {"type": "tool", "content": "", "meta": without_id},
        {"type": "image", "content": "QQ==", "meta": {"mime_type": "image/png"}},
        {"type": "error", "content": "no credit"},
    ]
