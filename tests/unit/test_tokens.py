"""Estimates: what the replaced programs would estimate, to the token."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from sessiond.dialects import payload, usage
from sessiond.dialects.lenient_json import fields, lenient
from sessiond.dialects.native.dialect import NATIVE
from sessiond.dialects.pi.dialect import PI
from sessiond.dialects.usual import usual_reading
from sessiond.model.parsed_message import ParsedMessage
from sessiond.session.context.stringify import compact_json, cut_units, utf16_units
from sessiond.session.context.tokens import BYTES, CHARACTERS, Counted, spent
from tests.kit.lines import parsed, pi_vectors
from tests.kit.node import node_program


def reading(message: dict[str, Any]) -> ParsedMessage:
    found = parsed(PI, message)
    assert found == parsed(NATIVE, message)
    return found


def assistant(**more: Any) -> dict[str, Any]:
    usage = {"input": 100, "output": 20, "cacheRead": 3, "cacheWrite": 4, "totalTokens": 0}
    return {"role": "assistant", "content": [], "usage": usage, "stopReason": "stop"} | more


# -- what pi itself says ---------------------------------------------------------------------


def test_every_recorded_estimate_is_what_pi_made_of_it(shared: Path) -> None:
    estimates = pi_vectors(shared, "tokens")
    assert len(estimates) == 9
    for vector in estimates:
        message = reading(vector["input"]["message"])
        assert CHARACTERS.message(message) == vector["expected"], vector["name"]


@pytest.mark.parametrize(
    ("message", "tokens"),
    [
        ({"role": "bashExecution", "command": "ls", "output": "abc"}, 2),
        ({"role": "compactionSummary", "summary": "abcde"}, 2),
        ({"role": "branch_summary", "summary": "abcde"}, 2),
        ({"role": "custom", "content": "abcd"}, 1),
        ({"role": "system", "content": "abcd"}, 1),
        ({"role": "tool", "tool_call_id": "c", "content": "abcde"}, 2),
        ({"role": "assistant", "content": [{"type": "thinking", "thinking": "abcde"}]}, 2),
        ({"role": "assistant", "content": [{"type": "image", "data": "x"}]}, 0),
        (
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "c", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
                ],
            },
            2,
        ),
        (
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "c",
                        "content": [{"type": "text", "text": "abcde"}, {"type": "image"}],
                    }
                ],
            },
            1202,
        ),
        ({"role": "user"}, 0),
    ],
)
def test_what_counts_of_a_message_follows_its_role(message: dict[str, Any], tokens: int) -> None:
    assert CHARACTERS.message(reading(message)) == tokens


def test_the_usage_of_a_good_answer_is_all_of_its_request() -> None:
    assert spent(reading(assistant())) == 127
    assert spent(reading(assistant(usage={"input": 5, "output": 6, "totalTokens": 99}))) == 99
    for reason in ("aborted", "error", "abort"):
        assert spent(reading(assistant(stopReason=reason))) == 0
        assert spent(reading({"stop_reason": reason, **assistant(stopReason="")})) == 0
    assert spent(reading(assistant(usage=None))) == 0
    assert spent(reading(assistant(role="user"))) == 0


# -- sharur ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "tokens"),
    [
        ({"role": "user", "content": "hello"}, 1),
        ({"role": "user", "content": "héllo"}, 7),
        (
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "hello"},
                    {"type": "image", "mimeType": "image/png", "data": "x" * 750},
                ],
            },
            1230,
        ),
        ({"role": "user", "content": "u" * 40}, 12),
        ({"role": "assistant", "content": "a" * 400}, 120),
        ({"role": "tool", "toolCallId": "call_1", "content": "t" * 400}, 121),
        ({"role": "assistant", "content": "a", "usage": {"totalTokens": 10}}, 12),
    ],
)
def test_sharurs_estimates_are_the_recorded_ones(message: dict[str, Any], tokens: int) -> None:
    assert BYTES.message(reading(message)) == tokens


# -- a tokenizer of somebody else's ------------------------------------------------------------


def test_a_tokenizer_counts_the_texts_and_nothing_below_zero() -> None:
    words = Counted("words", lambda text: len(text.split()))
    said = {"role": "user", "content": [{"type": "text", "text": "a b c"}, {"type": "image"}]}
    assert words.message(reading(said)) == 3 + 1200
    assert Counted("bad", lambda _text: -5).message(reading(said)) == 1200


# -- as JavaScript writes it -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "compact"),
    [
        (b'{ "a" : 1.50 , "b":[ 1 , true,null ] }', '{"a":1.5,"b":[1,true,null]}'),
        (rb'"\u00e9\/\u2028\u0007\n"', '"é/\u2028\\u0007\\n"'),
        (rb'"\ud83d"', r'"\ud83d"'),
        (b"1e21", "1e+21"),
        (b"123456789012345678901234", "1.2345678901234569e+23"),
        (b"100000000000000000000", "100000000000000000000"),
        (b"1e-7", "1e-7"),
        (b"0.000001", "0.000001"),
        (b"-0.0", "0"),
        (b"-1.25e2", "-125"),
        (b"1e999", "null"),
        (b"1" + b"0" * 400, "null"),
        (b'{"a":1,"a":2}', '{"a":2}'),
        (b"{not json", "{not json"),
        (b"[" * 5000 + b"]" * 5000, "[" * 5000 + "]" * 5000),
    ],
)
def test_a_value_is_written_as_javascript_writes_it(written: bytes, compact: str) -> None:
    assert compact_json(Raw(written)) == compact


@pytest.mark.slow
def test_numbers_and_texts_are_written_as_node_writes_them(
    program: Callable[[str], str],
) -> None:
    node = node_program() or program("node")
    numbers = [10.0**power * digit for power in range(-30, 30) for digit in (1, 1.5, 7.123456789)]
    texts = [chr(code) for code in range(0x30)] + ["\u2028", "\x7f", "😀", "é"]
    source = json.dumps([*numbers, *texts])
    script = f"process.stdout.write(JSON.stringify({source}))"
    done = subprocess.run([node, "-e", script], capture_output=True, check=True, timeout=60)
    assert compact_json(Raw(source.encode())) == done.stdout.decode()


@given(text=st.text())
def test_characters_are_counted_as_javascript_counts_them(text: str) -> None:
    assert utf16_units(text) == len(text.encode("utf-16-le")) // 2
    for units in range(utf16_units(text) + 2):
        kept = cut_units(text, units)
        assert text.startswith(kept)
        # A character that would be cut in half is left out.
        assert units - 1 <= utf16_units(kept) <= units or kept == text


# -- the short way and the long way --------------------------------------------------------------

TEXTS = st.text(max_size=5)
BLOCKS = st.lists(
    st.one_of(
        st.fixed_dictionaries(
            {"type": st.just("text")}, optional={"text": TEXTS, "content": TEXTS}
        ),
        st.fixed_dictionaries({"type": st.just("thinking")}, optional={"thinking": TEXTS}),
        st.fixed_dictionaries(
            {"type": st.sampled_from(["toolCall", "tool_use"])},
            optional={
                "id": TEXTS,
                "name": TEXTS,
                "arguments": st.dictionaries(TEXTS, st.integers(), max_size=2),
                "input": st.just({}),
                "args": st.just({"a": 1}),
                "function": st.just({"name": "f", "arguments": "{}"}),
            },
        ),
        st.fixed_dictionaries(
            {"type": st.sampled_from(["tool_result", "toolResult"]), "tool_use_id": TEXTS},
            optional={
                "content": st.one_of(TEXTS, st.just([{"type": "text", "text": "a"}]), st.none()),
                "is_error": st.one_of(st.booleans(), st.none()),
                "isError": st.booleans(),
                "toolCallId": TEXTS,
                "tool_call_id": TEXTS,
                "toolName": TEXTS,
                "name": TEXTS,
                "id": TEXTS,
            },
        ),
        st.fixed_dictionaries({"type": st.sampled_from(["image", "zz", 5])}),
        st.none(),
    ),
    max_size=3,
)
COUNTS = st.dictionaries(
    st.sampled_from(
        [
            *usage._INPUT,
            *usage._OUTPUT,
            *usage._CACHE_READ,
            *usage._CACHE_WRITE,
            *usage._TOTAL,
            "prompt_tokens_details",
        ]
    ),
    st.one_of(st.integers(-5, 50), st.just("x"), st.none(), st.just({"cached_tokens": 2})),
)
# As Anthropic and Operator say it, with one thing more.
STATED = st.one_of(
    *(
        st.fixed_dictionaries(dict.fromkeys(names, st.integers(0, 50)))
        for names in (
            (
                "input_tokens",
                "output_tokens",
                "cache_read_input_tokens",
                "cache_creation_input_tokens",
            ),
            ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"),
            ("input", "output", "cacheRead", "cacheWrite", "totalTokens"),
        )
    )
)
MESSAGES = st.fixed_dictionaries(
    {
        "role": st.sampled_from(
            ["user", "assistant", "toolResult", "tool", "custom", "bashExecution"]
        )
    },
    optional={
        "content": st.one_of(TEXTS, BLOCKS, st.none()),
        "contents": BLOCKS,
        "summary": TEXTS,
        "model": st.one_of(TEXTS, st.none()),
        "provider": TEXTS,
        "usage": st.one_of(COUNTS, st.none()),
        "stopReason": st.one_of(TEXTS, st.integers()),
        "stop_reason": st.one_of(TEXTS, st.none(), st.integers()),
        "toolCallId": TEXTS,
        "tool_call_id": TEXTS,
        "toolName": TEXTS,
        "name": TEXTS,
        "id": TEXTS,
        "isError": st.one_of(st.booleans(), st.none()),
        "is_error": st.booleans(),
        "tool_calls": BLOCKS,
        "custom_role": st.sampled_from(["user", "assistant", None]),
        "timestamp": st.integers(),
    },
)


@settings(max_examples=300)
@given(message=MESSAGES)
def test_a_message_of_the_usual_shape_says_the_same_either_way(message: dict[str, Any]) -> None:
    encoded = Raw(json.dumps(message).encode())
    usual = usual_reading(encoded)
    if usual is not None:
        assert usual == payload._read(fields(encoded))


@settings(max_examples=300)
@given(stated=STATED, more=COUNTS)
def test_a_usage_of_the_usual_members_counts_the_same_either_way(
    stated: dict[str, Any], more: dict[str, Any]
) -> None:
    for counts in (stated, more, stated | more, more | stated):
        encoded = Raw(json.dumps(counts).encode())
        found = lenient(encoded)
        assert usage.usage_in(encoded) == (usage._usage(found) if found else None)


def test_the_usual_shapes_of_claude_are_read_the_short_way() -> None:
    call = {"type": "tool_use", "id": "t1", "name": "Read", "input": {"file": "a"}}
    answer = {"type": "tool_result", "tool_use_id": "t1", "content": "b", "is_error": True}
    counts = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 7}
    stated = {"input_tokens": 3, "output_tokens": 5, **counts}
    for message in (
        {"role": "assistant", "content": [call], "stop_reason": "tool_use", "usage": stated},
        {"role": "user", "content": [answer]},
        {"role": "user", "content": [answer | {"content": [{"type": "text", "text": "b"}]}]},
    ):
        encoded = Raw(json.dumps(message).encode())
        assert usual_reading(encoded) == payload._read(fields(encoded))


def test_the_usual_shapes_of_pi_are_read_the_short_way(shared: Path) -> None:
    lines = (shared / "fixtures" / "large-session.jsonl").read_bytes().splitlines()
    said = [json.loads(line)["message"] for line in lines if b'"type":"message"' in line]
    read = [usual_reading(Raw(json.dumps(message).encode())) for message in said]
    assert sum(found is not None for found in read) > 0.8 * len(read) > 500
