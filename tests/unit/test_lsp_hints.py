"""Inlay hints: tokens and labels."""

from __future__ import annotations

from typing import Any

import pytest

from sessiond.lsp.features.hints import estimate, hints, tokens
from tests.kit.lsp_views import node, placed


@pytest.mark.parametrize(
    ("entry", "shown"),
    [
        ({"message": {"usage": {"input": 2775, "output": 141}}}, "2,775 in, 141 out"),
        ({"message": {"usage": {"inputTokens": 9, "outputTokens": 1}}}, "9 in, 1 out"),
        ({"message": {"usage": {"totalTokens": 1}}}, "1 token"),
        ({"tokens_before": 50000}, "50,000 tokens before"),
        ({"tokens_before": 50000, "tokens_after": 900}, "50,000 tokens before, 900 after"),
        ({"tokens_before": 1, "tokens_after": 1}, "1 token before, 1 after"),
        ({"message": {"content": "abcde"}}, "about 2 tokens"),
        ({"summary": "abcd"}, "about 1 token"),
        ({"message": {"content": "", "usage": {"input": "many"}}}, ""),
        ({"message": 7}, ""),
    ],
)
def test_stated_tokens_come_before_an_estimate(entry: dict[str, Any], shown: str) -> None:
    assert tokens(entry) == shown


@pytest.mark.parametrize(
    ("message", "count"),
    [
        ({"content": "\U0001f600" * 2}, 1),
        ({"content": [{"type": "text", "text": "abcd"}, {"type": "thinking", "thinking": "a"}]}, 2),
        ({"content": [{"type": "image", "data": "x" * 9999}]}, 1200),
        (
            {
                "content": [
                    {"type": "toolCall", "id": "long-id", "name": "ls", "arguments": {"a": 1}}
                ]
            },
            3,
        ),
        ({"contents": [{"type": "tool_result", "content": "abcdefgh"}]}, 2),
        ({"role": "user", "content": None}, 0),
        ("text", 0),
    ],
)
def test_an_estimate_counts_what_a_message_says(message: Any, count: int) -> None:
    assert estimate(message) == count


def test_a_hint_stands_at_the_beginning_of_its_line() -> None:
    nodes = [node("a", None, 1, label="odd\u202elabel"), node("b", "a", 2), node("c", "b", 3)]
    found = list(hints(placed(*nodes).rows, {1: "9 in, 1 out", 2: "about 3 tokens", 3: ""}))
    assert [(hint.position.line, hint.position.character, hint.label) for hint in found] == [
        (1, 0, "9 in, 1 out  #odd label"),
        (2, 0, "about 3 tokens"),
    ]
