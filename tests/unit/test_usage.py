"""The usage that messages report, in every spelling, and messages that report none."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import Raw

from sessiond.dialects.native.dialect import NATIVE
from sessiond.dialects.pi.dialect import PI
from sessiond.model.entries import Message
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
    "operator": (
        '{"input_tokens":10,"output_tokens":5,"cache_read_tokens":3,"cache_write_tokens":0,"cost":{"cache_read":0.0,"total":0.5}}',
        Usage(10, 5, 3, 0, 18, 0.5),
    ),
    "parts beside another sum": (
        '{"input_tokens":10,"output_tokens":5,"cache_read_tokens":3,"cache_write_tokens":2,"total":7}',
        Usage(10, 5, 3, 2, 7, 0.0),
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
    assert [dialect.row(line(text)).usage for dialect in (NATIVE, PI)] == [usage, usage]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_message_that_is_read_leniently_has_the_same_usage(spelling: str) -> None:
    text, usage = SPELLINGS[spelling]
    half_a_pair = line(text).replace(b"the word", b"\\ud83d")
    assert [dialect.row(half_a_pair).usage for dialect in (NATIVE, PI)] == [usage, usage]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_message_that_is_appended_has_the_same_usage(spelling: str) -> None:
    text, usage = SPELLINGS[spelling]
    message = msgspec.json.decode(line(text), type=dict[str, Raw])["message"]
    assert [facts.usage for facts in NATIVE.plain([message])] == [usage]
    assert NATIVE.row_of(Message(id="a", message=message)).usage == usage


@pytest.mark.parametrize("text", ["null", "[]", "5", '"x"', "{}", "[[[[]]]]", "true"])
def test_what_is_no_usage_counts_nothing(text: str) -> None:
    assert [dialect.row(line(text)).usage for dialect in (NATIVE, PI)] == [None, None]


@pytest.mark.parametrize("role", ["user", "toolResult", "somebody"])
def test_only_answers_report_usage(role: str) -> None:
    assert [
        dialect.row(line('{"input":1}').replace(b"assistant", role.encode())).usage
        for dialect in (NATIVE, PI)
    ] == [None, None]
