"""Views of a context: mended without a rewrite, and ready for a provider."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessiond.dialects.native.dialect import NATIVE
from sessiond.session.providers.shapes import NOTHING, View, show
from sessiond.session.providers.tool_pairing import INTERRUPTED, ContextMessage, mended
from tests.kit.lines import pi_vectors
from tests.kit.views import in_context, viewed


def calls(spelling: str, *names: str) -> dict[str, Any]:
    if spelling == "function":
        function = {"name": "ls", "arguments": "{}"}
        made = [{"id": name, "type": "function", "function": function} for name in names]
        return {"role": "assistant", "content": None, "tool_calls": made}
    blocks = [{"type": spelling, "id": name, "name": "ls"} for name in names]
    return {"role": "assistant", "content": blocks}


def result(spelling: str, *names: str) -> dict[str, Any]:
    match spelling:
        case "tool_use":
            blocks = [
                {"type": "tool_result", "tool_use_id": name, "content": "x"} for name in names
            ]
            return {"role": "user", "content": blocks}
        case "tool_call":
            blocks = [{"type": "tool_result", "id": name, "content": "x"} for name in names]
            return {"role": "tool", "contents": blocks}
        case "function":
            return {"role": "tool", "tool_call_id": names[0], "content": "x"}
        case _:
            return {"role": "toolResult", "toolCallId": names[0], "content": "x"}


SPELLINGS = ["toolCall", "tool_use", "tool_call", "function"]
CALL_IDS = st.sampled_from(["a", "b", "c", "d"])
CONTEXTS = st.lists(
    st.one_of(
        st.tuples(
            st.just("call"),
            st.sampled_from(SPELLINGS),
            st.lists(CALL_IDS, min_size=1, max_size=2, unique=True),
        ),
        st.tuples(
            st.just("result"),
            st.sampled_from(SPELLINGS),
            st.lists(CALL_IDS, min_size=1, max_size=2, unique=True),
        ),
        st.tuples(st.just("user"), st.just(""), st.just([])),
    ),
    max_size=8,
)


def message(step: tuple[str, str, list[str]]) -> dict[str, Any]:
    kind, spelling, names = step
    if kind == "call":
        return calls(spelling, *names)
    return result(spelling, *names) if kind == "result" else {"role": "user", "content": "go"}


@given(context=CONTEXTS)
def test_what_is_mended_has_one_result_a_call_and_a_call_a_result(
    context: list[tuple[str, str, list[str]]],
) -> None:
    given_ = [in_context(message(step), f"e{n}") for n, step in enumerate(context)]
    found = mended(given_)
    waiting: list[str] = []
    for one in found:
        # The bytes say what the reading says.
        assert [block.id for block in in_context(json.loads(one.body)).reading.blocks] == [
            block.id for block in one.reading.blocks
        ]
        for block in one.reading.blocks:
            if block.kind == "tool_call":
                waiting.append(block.id)
            elif block.kind == "tool_result":
                waiting.remove(block.id)
    assert waiting == []
    assert mended(found) == found
    # Messages that needed no repair are unchanged.
    kept = [one for one in found if one in given_]
    assert [one for one in given_ if one in kept] == kept


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_an_interrupted_call_is_answered_in_its_own_words(spelling: str) -> None:
    found = mended(
        [in_context(calls(spelling, "a", "b"), "e1"), in_context(result(spelling, "b"), "e2")]
    )
    assert [one.source for one in found] == ["e1", "e1", "e2"]
    made = json.loads(found[1].body)
    # The made result has the members of a real result.
    assert set(made) - set(result(spelling, "a")) <= {"toolName", "isError"}
    (block,) = found[1].reading.blocks
    assert (block.kind, block.id, block.text, block.is_error) == (
        "tool_result",
        "a",
        INTERRUPTED,
        spelling != "function",
    ) or spelling == "function"


def test_a_result_answers_the_last_call_of_its_id() -> None:
    steps = [calls("toolCall", "a"), calls("toolCall", "a"), result("toolCall", "a")]
    found = mended([in_context(step, f"e{n}") for n, step in enumerate(steps)])
    assert [one.source for one in found] == ["e0", "e0", "e1", "e2"]


def test_of_a_message_with_results_only_what_has_a_call_stays() -> None:
    mixed = result("tool_use", "a", "z")
    mixed["content"].append({"type": "text", "text": "and"})
    found = mended([in_context(calls("tool_use", "a")), in_context(mixed)])
    blocks = json.loads(found[1].body)["content"]
    assert [block.get("tool_use_id", block["type"]) for block in blocks] == ["a", "text"]
    alone = result("tool_use", "z")
    alone["content"].append({"type": "text", "text": "and"})
    (left,) = mended([in_context(alone)])
    assert json.loads(left.body) == {"role": "user", "content": [{"type": "text", "text": "and"}]}


IMAGES = [
    {"type": "image", "data": "AA==", "mimeType": "image/png"},
    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}},
    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
]


CALL = {"id": "c", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
USE = {"type": "tool_use", "id": "c", "name": "ls", "input": {}}


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_in_whoevers_words_is_shown(image: dict[str, Any]) -> None:
    said = {"role": "user", "content": [image]}
    assert viewed(View(shape="openai"), said) == [{"role": "user", "content": [IMAGES[2]]}]
    assert viewed(View(shape="anthropic"), said) == [{"role": "user", "content": [IMAGES[1]]}]
    given_ = {"role": "toolResult", "toolCallId": "c", "content": [image]}
    tool, shown = viewed(View(shape="openai"), given_)
    assert tool == {"role": "tool", "tool_call_id": "c", "content": ""}
    assert shown == {"role": "user", "content": [IMAGES[2]]}
    ((block,),) = [one["content"] for one in viewed(View(shape="anthropic"), given_)]
    assert block == {"type": "tool_result", "tool_use_id": "c", "content": [IMAGES[1]]}


def test_what_a_provider_has_no_word_for_is_left_out() -> None:
    nothing: list[dict[str, Any]] = [
        {"role": "assistant", "content": [{"type": "text", "text": ""}]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}]},
        {"role": "user", "content": ""},
        {"role": "user", "content": [{"type": "image", "path": "/x.png"}]},
        {"role": "critic", "content": "no"},
        {"role": "bashExecution", "command": "ls", "output": "", "excludeFromContext": True},
    ]
    assert viewed(View(shape="openai"), *nothing) == []
    assert viewed(View(shape="anthropic"), *nothing) == []
    system = {"role": "system", "content": "be"}
    assert viewed(View(shape="openai"), system) == [system]
    assert viewed(View(shape="anthropic"), system) == []


def test_anthropics_turns_begin_with_the_user_and_alternate() -> None:
    texts = [
        ("assistant", "a"),
        ("assistant", "b"),
        ("user", "c"),
        ("user", "d"),
        ("assistant", "e"),
    ]
    found = viewed(
        View(shape="anthropic"), *({"role": role, "content": text} for role, text in texts)
    )
    assert [one["role"] for one in found] == ["user", "assistant", "user", "assistant"]
    assert [block["text"] for one in found[1:] for block in one["content"]] == list("abcde")


SPELLED: list[tuple[dict[str, Any], Any, Any]] = [
    # Without types, as piglet has them.
    (
        {"role": "assistant", "content": [{"text": "a"}, {"id": "c", "name": "ls"}]},
        {"role": "assistant", "content": "a", "tool_calls": [CALL]},
        {"role": "assistant", "content": [{"type": "text", "text": "a"}, USE]},
    ),
    # sharur puts images into a member of their own, beside the text.
    (
        {"role": "user", "content": "a", "images": [{"mimeType": "image/png", "data": "AA=="}]},
        {"role": "user", "content": [{"type": "text", "text": "a"}, IMAGES[2]]},
        {"role": "user", "content": [{"type": "text", "text": "a"}, IMAGES[1]]},
    ),
    (
        {
            "role": "assistant",
            "content": "a",
            "thinking": "hm",
            "toolCalls": [{"id": "c", "name": "ls"}],
        },
        {"role": "assistant", "content": "a", "tool_calls": [CALL]},
        {"role": "assistant", "content": [{"type": "text", "text": "a"}, USE]},
    ),
    # Operator's contents.
    (
        {"role": "user", "contents": [{"type": "text", "content": "a"}]},
        {"role": "user", "content": "a"},
        {"role": "user", "content": [{"type": "text", "text": "a"}]},
    ),
    # An image that is elsewhere.
    (
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x/y"}}]},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x/y"}}]},
        {
            "role": "user",
            "content": [{"type": "image", "source": {"type": "url", "url": "https://x/y"}}],
        },
    ),
]


@pytest.mark.parametrize(("message", "openai", "anthropic"), SPELLED)
def test_a_message_in_whoevers_words_is_understood(
    message: dict[str, Any], openai: Any, anthropic: Any
) -> None:
    assert viewed(View(shape="openai"), message)[-1] == openai
    assert viewed(View(shape="anthropic"), message)[-1] == anthropic


def test_blocks_that_only_one_api_knows_go_to_it_as_they_are() -> None:
    document = {"type": "document", "source": {"n": 1.50}}
    audio = {"type": "input_audio", "input_audio": {"data": "AA=="}}
    said = {"role": "user", "content": [document, audio, {"type": "hologram"}]}
    assert viewed(View(shape="openai"), said) == [{"role": "user", "content": [audio]}]
    assert viewed(View(shape="anthropic"), said) == [{"role": "user", "content": [document]}]
    refusal = {"type": "refusal", "refusal": "no"}
    said = {"role": "assistant", "content": [refusal]}
    assert viewed(View(shape="openai"), said) == [said]
    assert viewed(View(shape="anthropic"), said) == []


def test_a_custom_message_is_told_in_the_place_of_who_says_it() -> None:
    note = {"role": "custom", "custom_type": "x", "content": "note", "display": True}
    for shape in ("openai", "anthropic"):
        for role, told_as in ((None, "user"), ("user", "user"), ("assistant", "assistant")):
            said = note | ({} if role is None else {"custom_role": role})
            assert (
                viewed(View(shape=shape), {"role": "user", "content": "a"}, said)[-1]["role"]
                == told_as
            )


def test_thoughts_go_to_the_provider_that_had_them_only() -> None:
    thought = {"type": "thinking", "thinking": "hm", "thinkingSignature": "sig"}
    hidden = {"type": "thinking", "thinking": "", "thinkingSignature": "data", "redacted": True}
    stored = {"type": "redacted_thinking", "data": "raw"}
    text = {"type": "text", "text": "a"}
    own = {"type": "thinking", "thinking": "hm", "signature": "sig"}
    said = {"role": "assistant", "content": [thought, hidden, stored, text, thought]}
    spoken = [own, {"type": "redacted_thinking", "data": "data"}, stored, text]
    named = [{}, {"provider": "anthropic"}, {"provider": "bedrock", "model": "claude-x"}]
    for names in named:
        assert viewed(View(shape="anthropic"), said | names)[1]["content"] == spoken
    other = said | {"provider": "openai", "model": "gpt"}
    assert viewed(View(shape="anthropic"), other)[1]["content"] == [stored, text]
    assert viewed(View(shape="openai"), said) == [{"role": "assistant", "content": "a"}]


def test_images_of_results_stand_behind_all_results_of_the_turn() -> None:
    first = result("toolCall", "a") | {"content": [IMAGES[0]]}
    messages = [calls("toolCall", "a", "b"), first, result("toolCall", "b")]
    found = viewed(View(shape="openai"), *messages, {"role": "user", "content": "go"})
    assert [one["role"] for one in found] == ["assistant", "tool", "tool", "user", "user"]
    assert found[3]["content"] == [IMAGES[2]]


def test_a_result_that_comes_late_stands_with_its_call() -> None:
    messages = [
        calls("toolCall", "a"),
        {"role": "user", "content": "wait"},
        result("toolCall", "a"),
        {"role": "assistant", "content": "done"},
    ]
    roles = [one["role"] for one in viewed(View(shape="openai"), *messages)]
    assert roles == ["assistant", "tool", "user", "assistant"]
    _, _, turn, _ = viewed(View(shape="anthropic"), *messages)
    assert [block["type"] for block in turn["content"]] == ["tool_result", "text"]


def test_arguments_are_an_object_whatever_they_were() -> None:
    blocks = [
        {"type": "toolCall", "id": "a", "name": "n", "arguments": "no object"},
        {"type": "toolCall", "id": "b", "name": "n"},
        {"type": "toolCall", "id": "c", "name": "n", "arguments": {"x": [1.50]}},
    ]
    (said,) = viewed(View(shape="openai"), {"role": "assistant", "content": blocks})
    arguments = [call["function"]["arguments"] for call in said["tool_calls"]]
    assert arguments == ["{}", "{}", '{"x": [1.5]}']
    _, said = viewed(View(shape="anthropic"), {"role": "assistant", "content": blocks})
    assert [block["input"] for block in said["content"]] == [{}, {}, {"x": [1.5]}]


ODD_ARGUMENTS = [
    # As stored, and as a provider gets it if that differs: half characters and newlines change.
    (rb'{"n":123456789012345678901234567890,"x":1.50}', None),
    (rb'{"2":0,"1":1e400,"a":-0}', None),
    (rb'{"a":"\ud83d"}', rb'{"a":"\ufffd"}'),
    (rb'{"a":"\ud83d\ude00 \\ud83d"}', None),
    (rb'"{\"a\": 1.50}"', b'{"a": 1.50}'),
    (rb'"{\"a\":\n1.50}"', b'{"a":1.50}'),
    (rb'"{\"a\": NaN}"', b"{}"),
    (rb'"{\"a\":"', b"{}"),
    (b"[1]", b"{}"),
    (b"null", b"{}"),
]


@pytest.mark.parametrize(("stored", "given_"), ODD_ARGUMENTS)
def test_arguments_go_to_a_provider_as_they_were_written(
    stored: bytes, given_: bytes | None
) -> None:
    body = (
        b'{"role":"assistant","content":[{"type":"toolCall","id":"c","name":"n","arguments":'
        + stored
        + b"}]}"
    )
    reading = NATIVE.read(body)
    assert reading is not None
    calls = ContextMessage("e1", body, reading)
    expected = stored if given_ is None else given_
    for shape in ("openai", "anthropic"):
        part = show(View(shape=shape), [calls], NOTHING)
        assert part is not None
        (_, shown) = [*part.settled, *part.rest][-1]
        if shape == "openai":
            (call,) = json.loads(shown)["tool_calls"]
            assert call["function"]["arguments"].encode() == expected
        else:
            assert b'"input":' + expected + b"}" in shown
        assert b"\n" not in shown


def test_what_is_told_in_the_users_place_is_told_in_pis_words(shared: Path) -> None:
    (vector,) = pi_vectors(shared, "convertToLlm")
    expected = [
        content if isinstance(content, str) else content[0]["text"]
        for content in (message["content"] for message in vector["expected"])
    ]
    found = viewed(View(shape="openai"), *vector["input"]["messages"])
    assert [(one["role"], one["content"]) for one in found] == [("user", text) for text in expected]
    (merged,) = viewed(View(shape="anthropic"), *vector["input"]["messages"])
    assert [block["text"] for block in merged["content"]] == expected
