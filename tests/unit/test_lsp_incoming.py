"""Long texts that are cut out of messages: the same lines, and no long step left for the loop."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessiond.lsp.incoming import Incoming, Sizes, cut_texts
from sessiond.lsp.text.text import split

# Pieces of the least size that holds an escape, so that every boundary is met.
SMALL = Sizes(kept_bytes=10, first_bytes=7, piece_bytes=9)
STRINGS = st.text(st.sampled_from('aé\U0001f600\u2028\r\n"\\\ud83d\ude00\x00{'), max_size=40)
STRINGS = STRINGS.map(lambda text: json.loads(json.dumps(text)))
VALUES = st.recursive(
    st.none() | st.integers() | STRINGS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(STRINGS, inner, max_size=3),
    max_leaves=6,
)


def message(method: str, **item: Any) -> bytes:
    params = {"textDocument": {"uri": "file:///x.jsonl", **item}}
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode()


@given(value=VALUES, is_ascii=st.booleans())
def test_keys_and_texts_make_up_the_message(value: object, is_ascii: bool) -> None:
    sent = json.dumps({"value": value}, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass")
    cut = cut_texts(sent, "key-", SMALL)
    assert filled(json.loads(cut.body), cut.texts) == json.loads(sent)
    for lines in cut.texts.values():
        assert list(lines) == split("".join(lines))


def test_every_long_string_is_cut_out_and_no_short_one() -> None:
    cut = cut_texts(b'{"a":"123456789","b":"12345678901","c":["\\n\\n\\n\\n\\n\\n"]}', "k", SMALL)
    assert cut.body == b'{"a":"123456789","b":"k0","c":["k1"]}'
    assert cut.texts == {"k0": ["12345678901"], "k1": ["\n"] * 6}


@pytest.mark.parametrize(
    "broken", [b'{"a":"no end', b'{"a":"bad \\escape, long"}', b'"\xff\\n' * 9, b'"' + b"\x80" * 99]
)
def test_a_broken_string_is_refused(broken: bytes) -> None:
    with pytest.raises(ValueError, match=r"string|escape|decode"):
        cut_texts(broken, "k", SMALL)


@pytest.mark.parametrize("method", ["textDocument/didOpen", "textDocument/didChange"])
def test_no_long_text_is_left_for_the_loop(method: str) -> None:
    text = 'a line with "quotes" and \\ \U0001f600\n' * 100_000
    body = message(method, text=text)
    incoming = Incoming(BytesIO(body))
    short = incoming.read(len(body))
    assert len(short) < 1000
    key = json.loads(short)["params"]["textDocument"]["text"]
    assert list(incoming.lines(key)) == split(text)


def test_a_text_is_given_up_when_the_next_message_is_read() -> None:
    body = message("textDocument/didOpen", text="x" * 1_000_000)
    incoming = Incoming(BytesIO(body + b"next"))
    key = json.loads(incoming.read(len(body)))["params"]["textDocument"]["text"]
    assert incoming.lines(key) == ["x" * 1_000_000]
    assert incoming.read(4) == b"next"
    assert incoming.lines(key) == [key]


@pytest.mark.parametrize(
    "body",
    [
        message("textDocument/didOpen", text="short\n"),
        message("workspace/executeCommand", text="x" * 1_000_000),
        b'{"method":"textDocument/didOpen","text":"' + b"x" * 1_000_000,
        b"[" + b'"x",' * 1_000_000,
    ],
    ids=["short", "another method", "broken", "no object"],
)
def test_every_other_message_stays_as_it_is(body: bytes) -> None:
    assert Incoming(BytesIO(body)).read(len(body)) == body


def test_lines_of_a_text_that_stayed_in_its_message() -> None:
    assert Incoming(BytesIO()).lines("a\r\nb\u2028") == ["a\r\n", "b\u2028"]


def test_pieces_are_small() -> None:
    assert max(Sizes().piece_bytes, Sizes().kept_bytes) <= 256 * 1024


def filled(value: Any, texts: Any) -> Any:
    """Return a message with its texts in the place of their keys."""
    if isinstance(value, str):
        return "".join(texts[value]) if value in texts else value
    if isinstance(value, list):
        return [filled(one, texts) for one in value]
    if isinstance(value, dict):
        return {filled(name, texts): filled(one, texts) for name, one in value.items()}
    return value
