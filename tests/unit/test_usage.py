"""The usage that messages report, in every spelling, and messages that report none."""

from __future__ import annotations

import pytest

from sessiond.dialects.usage import usage_of
from sessiond.model.usage import Usage

SPELLINGS: dict[str, tuple[str, Usage]] = {
    "pi": (
        '{"input":10,"output":5,"cacheRead":3,"cacheWrite":2,"totalTokens":20,"cost":{"input":0.25,"total":0.5}}',
        Usage(10, 5, 3, 2, 20, 0.5),
    ),
    "native": (
        '{"input_tokens":10,"output_tokens":5,"cache_read_tokens":3,"cache_write_tokens":2,"cost":0.5}',
        Usage(10, 5, 3, 2, 20, 0.5),
    ),
    "anthropic": (
        '{"input_tokens":10,"output_tokens":5,"cache_read_input_tokens":3,"cache_creation_input_tokens":2}',
        Usage(10, 5, 3, 2, 20, 0.0),
    ),
    "openai": (
        '{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"prompt_tokens_details":{"cached_tokens":4}}',
        Usage(6, 5, 4, 0, 15, 0.0),
    ),
    "camel case": (
        '{"inputTokens":10,"outputTokens":5,"cacheReadTokens":3,"cacheWriteTokens":2,"cost":{"input":0.25,"output":0.25}}',
        Usage(10, 5, 3, 2, 20, 0.5),
    ),
    "only what was sent": ('{"input":10}', Usage(10, 0, 0, 0, 10, 0.0)),
    "garbage among sense": (
        '{"input":-1,"output":"x","cacheRead":true,"cacheWrite":1e99,"total_tokens":7,"cost":{"total":null}}',
        Usage(0, 0, 0, 0, 7, 0.0),
    ),
    "fractions": ('{"input":10.0,"output":5,"totalTokens":15}', Usage(10, 5, 0, 0, 15, 0.0)),
    "an empty object's like": ('{"x":1}', Usage()),
}


def line(usage: str) -> bytes:
    message = f'{{"role":"assistant","content":"the word \\"usage\\"","usage":{usage}}}'
    return f'{{"type":"message","id":"a","message":{message}}}'.encode()


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_spelling_is_understood(spelling: str) -> None:
    text, usage = SPELLINGS[spelling]
    assert usage_of(line(text)) == usage


@pytest.mark.parametrize("text", ["null", "[]", "5", '"x"', "{}", "[[[[]]]]", "true"])
def test_what_is_no_usage_counts_nothing(text: str) -> None:
    assert usage_of(line(text)) is None


@pytest.mark.parametrize(
    "text",
    [b"", b'"usage"', b'{"usage":{"input":1}}', b'{"message":"usage"}', b'{"message":{"usage"'],
)
def test_a_line_without_a_message_has_none(text: bytes) -> None:
    assert usage_of(text) is None
