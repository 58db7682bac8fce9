"""Contexts of random sessions, repaired and shaped for a provider: its API accepts them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessiond.session.providers.shapes import Shape, View
from tests.kit.provider_rules import Message, anthropic_troubles, openai_troubles
from tests.kit.sessions import calling, resolving
from tests.kit.views import viewed

OPENAI, ANTHROPIC = View(repair=True, shape="openai"), View(repair=True, shape="anthropic")
RULES = {"openai": openai_troubles, "anthropic": anthropic_troubles}
IDS = ["a", "b", "call_1|fc_1", "x" * 70, "", "ü", "x" * 70 + "!", "call_1_fc_1"]
NAMES = ["read", "functions.read", "n" * 200, "", "läs"]
TEXTS = ["hi", "", " \n", "é😀\u2028", "\ud83d alone"]
ARGUMENTS = ["no object", None, {"a": 1}, '{"a": 1.50}', {"a": "\udc00"}, [1], {"n": 10**40}]
DATA = ["AA==", "iVBORw0KGgoAAAA=", "/9j/4AAQ", "R0lGODlhAQ==", "UklGRhAA", ""]
TYPES = ["image/png", "image/jpg", "image/svg+xml", "", "text/plain"]
URLS = ["https://x/y.png", "file:///y.png", "", "data:image/png;base64,AA==", "data:image/png,x"]

ID = st.sampled_from(IDS)
TEXT = st.sampled_from(TEXTS)
TEXT_BLOCK = st.builds(lambda said: {"type": "text", "text": said}, TEXT)
IMAGE = st.one_of(
    st.builds(
        lambda data, kind: {"type": "image", "data": data, "mimeType": kind},
        st.sampled_from(DATA),
        st.sampled_from(TYPES),
    ),
    st.builds(lambda url: {"type": "image_url", "image_url": {"url": url}}, st.sampled_from(URLS)),
)
OWN = st.sampled_from(
    [
        {"type": word, "x": 1}
        for word in (
            *("document", "search_result", "server_tool_use", "web_search_tool_result"),
            *("redacted_thinking", "input_audio", "file", "refusal", "hologram"),
        )
    ]
)
THOUGHT = st.builds(
    lambda said, signature: {"type": "thinking", "thinking": said, **signature},
    TEXT,
    st.sampled_from([{}, {"thinkingSignature": "s"}, {"signature": "s", "redacted": True}]),
)
CALL = st.builds(
    lambda word, call, name, arguments: (
        {"type": word, "id": call, "name": name} | ({} if arguments is None else arguments)
    ),
    st.sampled_from(["toolCall", "tool_use", "tool_call"]),
    ID,
    st.sampled_from(NAMES),
    st.sampled_from([None if one is None else {"arguments": one} for one in ARGUMENTS]),
)
INSIDE = st.lists(st.one_of(TEXT_BLOCK, IMAGE, OWN), max_size=3)
RESULT_BLOCK = st.builds(
    lambda call, inside, failed: {
        "type": "tool_result",
        "tool_use_id": call,
        "content": inside,
        "is_error": failed,
    },
    ID,
    INSIDE,
    st.booleans(),
)


def content(*blocks: st.SearchStrategy[Message]) -> st.SearchStrategy[Any]:
    return st.one_of(TEXT, st.lists(st.one_of(TEXT_BLOCK, IMAGE, OWN, *blocks), max_size=4))


def message(role: str, said: st.SearchStrategy[Any], **more: Any) -> st.SearchStrategy[Message]:
    return said.map(lambda content: {"role": role, "content": content, **more})


MESSAGE = st.one_of(
    message("user", content(RESULT_BLOCK, CALL, THOUGHT)),
    message("assistant", content(THOUGHT, CALL)),
    message("assistant", content(THOUGHT, CALL)),
    message("assistant", st.lists(CALL, min_size=1, max_size=3)),
    message("assistant", content(THOUGHT, CALL), provider="openai", model="gpt-x"),
    st.builds(
        lambda call, inside, failed: {
            "role": "toolResult",
            "toolCallId": call,
            "content": inside,
            "isError": failed,
        },
        ID,
        INSIDE,
        st.booleans(),
    ),
    message("system", TEXT),
    message("custom", content()),
    message("critic", TEXT),
    st.builds(lambda said: {"role": "compaction_summary", "summary": said}, TEXT),
    st.builds(lambda said: {"role": "bashExecution", "command": "ls", "output": said}, TEXT),
    st.builds(
        lambda call, name: {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": call, "type": "function", "function": {"name": name}}],
        },
        ID,
        st.sampled_from(NAMES),
    ),
)


@pytest.mark.parametrize("shape", ["openai", "anthropic"])
@given(messages=st.lists(MESSAGE, max_size=9))
def test_what_a_provider_is_shown_breaks_none_of_its_rules(
    shape: Shape, messages: list[Message]
) -> None:
    found = viewed(View(repair=True, shape=shape), *messages)
    assert RULES[shape](found) == []


def calls_in(shape: Shape, messages: list[Message]) -> list[tuple[str, str]]:
    """Return the ids of calls and of results, in order."""
    found: list[tuple[str, str]] = []
    for one in viewed(View(repair=True, shape=shape), *messages):
        found += [("call", asked["id"]) for asked in one.get("tool_calls", [])]
        if one["role"] == "tool":
            found.append(("result", one["tool_call_id"]))
        blocks = one["content"] if isinstance(one["content"], list) else []
        for block in blocks:
            if block["type"] == "tool_use":
                found.append(("call", block["id"]))
            elif block["type"] == "tool_result":
                found.append(("result", block["tool_use_id"]))
    return found


@pytest.mark.parametrize("shape", ["openai", "anthropic"])
def test_legal_ids_stay_and_others_are_told_apart(shape: Shape) -> None:
    messages: list[Message] = []
    for one in ("plain", "call_1|fc_1", "call_1!fc_1", "y" * 90 + "1", "y" * 90 + "2", "", ""):
        messages += [calling(one), resolving(one)]
    found = calls_in(shape, messages)
    asked = [one for kind, one in found if kind == "call"]
    assert asked[0] == "plain"
    assert len(set(asked)) == 7
    # Each result follows its call.
    assert [one for kind, one in found if kind == "result"] == asked
    assert calls_in(shape, messages) == found
    assert asked[1].startswith("call_1_fc_1_")


@pytest.mark.parametrize("shape", ["openai", "anthropic"])
def test_an_id_that_was_used_is_given_anew_to_the_later_call_alone(shape: Shape) -> None:
    twice = [calling("0"), resolving("0"), calling("0"), resolving("0")]
    (one, two) = [name for kind, name in calls_in(shape, twice) if kind == "call"]
    assert one == "0"
    assert two != "0"
    assert calls_in(shape, [*twice, calling("0")])[:4] == calls_in(shape, twice)


def test_what_the_assistant_says_before_a_late_result_is_in_one_message_with_the_call() -> None:
    spoke = {"role": "assistant", "content": [{"type": "text", "text": "and"}]}
    found = viewed(OPENAI, spoke, calling("a"), spoke, resolving("a"), spoke)
    assert [one["role"] for one in found] == ["assistant", "assistant", "tool", "assistant"]
    assert found[1]["content"] == "and"


IMAGES = {"type": "image", "data": "iVBORw0KGgoAAAA=", "mimeType": "image/jpeg"}


def test_a_picture_is_what_its_bytes_say_and_no_other_kind_is_shown() -> None:
    odd = [
        IMAGES,
        {"type": "image", "data": "AA==", "mimeType": "image/JPG"},
        {"type": "image", "data": "PHN2Zz4=", "mimeType": "image/svg+xml"},
        {"type": "image", "source": {"type": "url", "url": "file:///etc/passwd"}},
    ]
    (one,) = viewed(ANTHROPIC, {"role": "user", "content": odd})
    assert [block["source"]["media_type"] for block in one["content"]] == [
        "image/png",
        "image/jpeg",
    ]
    (one,) = viewed(OPENAI, {"role": "user", "content": odd})
    urls = [block["image_url"]["url"][:16] for block in one["content"]]
    assert urls == ["data:image/png;b", "data:image/jpeg;"]


def test_the_result_of_a_call_that_failed_is_text_with_its_pictures_behind() -> None:
    failed = resolving("a", isError=True) | {"content": [IMAGES]}
    *_, turn = viewed(ANTHROPIC, calling("a"), failed)
    told, picture = turn["content"]
    assert (told["type"], told["is_error"]) == ("tool_result", True)
    assert [part["type"] for part in told["content"]] == ["text"]
    assert picture["type"] == "image"


def test_blocks_of_one_side_are_not_shown_on_the_other() -> None:
    document = {"type": "document", "source": {"type": "text"}}
    searched = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    text = {"type": "text", "text": "a"}
    content = [document, searched, {"type": "refusal", "refusal": "no"}, text]
    user, assistant = viewed(
        ANTHROPIC, {"role": "user", "content": content}, {"role": "assistant", "content": content}
    )
    assert [block["type"] for block in user["content"]] == ["text", "document"]
    assert [block["type"] for block in assistant["content"]] == ["server_tool_use", "text"]
    user, assistant = viewed(
        OPENAI, {"role": "user", "content": content}, {"role": "assistant", "content": content}
    )
    assert user["content"] == "a"
    assert [part["type"] for part in assistant["content"]] == ["text", "refusal"]
