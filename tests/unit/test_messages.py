"""Envelopes: what a body is taken for, and how answers are spelled."""

from __future__ import annotations

import json
import tracemalloc

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from sessiond.errors import (
    InvalidParams,
    InvalidRequest,
    ParseFailed,
    PreconditionFailed,
    SessiondError,
    TooLarge,
)
from sessiond.limits import BATCH_MEMBERS_MAX, HALVES_BYTES_MAX
from sessiond.rpc.messages import (
    Batch,
    Refused,
    Request,
    Response,
    decode,
    error_body,
    notification_body,
    result_body,
)

IDS = [
    b"0",
    b"-0",
    b"1",
    b"1.0",
    b"1e2",
    b"-7.50",
    b"123456789012345678901234567890",
    b'""',
    b'"1"',
    b'"\\u0041\\/"',
    b'"\xc3\xa9"',
    b"null",
]


@pytest.mark.parametrize("text", IDS)
def test_an_id_is_kept_exactly_as_it_was_sent(text: bytes) -> None:
    message = decode(b'{"jsonrpc":"2.0", "id" : ' + text + b' ,"method":"m"}')
    assert isinstance(message, Request)
    assert isinstance(message.id, Raw)
    assert bytes(message.id) == text
    answer = result_body(message.id, b"{}")
    assert answer == b'{"jsonrpc":"2.0","id":' + text + b',"result":{}}'


def test_a_request_without_jsonrpc_and_without_params_is_taken() -> None:
    message = decode(b'{"method":"server/ping"}')
    assert isinstance(message, Request)
    assert message.method == "server/ping"
    assert message.id is UNSET
    assert bytes(message.params) == b"{}"


def test_params_stay_the_bytes_that_were_sent() -> None:
    message = decode(b'{"method":"m","params":{"b":1.50, "a" : "\\u0041"},"more":1}')
    assert isinstance(message, Request)
    assert bytes(message.params) == b'{"b":1.50, "a" : "\\u0041"}'


REFUSED: dict[str, tuple[bytes, type[SessiondError], bytes | None]] = {
    "nothing": (b"", ParseFailed, None),
    "a word": (b"hello", ParseFailed, None),
    "half an object": (b'{"id":1,"method":"m"', ParseFailed, None),
    "two objects": (b'{"id":1,"method":"m"} {}', ParseFailed, None),
    "a NUL byte": (b'{"id":1,"method":"m\x00"}', ParseFailed, None),
    "a NUL byte in params": (b'{"id":1,"method":"m","params":{"a":"\x00"}}', ParseFailed, None),
    "a raw newline in a string": (b'{"id":1,"method":"a\nb"}', ParseFailed, None),
    "NaN": (b'{"id":1,"method":"m","params":{"a":NaN}}', ParseFailed, None),
    "two values": (b"42 {}", ParseFailed, None),
    "a word behind a value": (b"null and void", ParseFailed, None),
    "an open string": (b'"abc', ParseFailed, None),
    "half an array": (b'[{"id":1,"method":"m"}', ParseFailed, None),
    "garbage in an array": (b"[1,2,x]", ParseFailed, None),
    "half a surrogate pair": (
        rb'{"id":1,"method":"m","params":{"a":"\ud800"}}',
        InvalidRequest,
        b"1",
    ),
    "the other half": (
        rb'{"id":1,"method":"m","params":{"a":"\ud83d\ude00\ude00"}}',
        InvalidRequest,
        b"1",
    ),
    "half a pair behind a backslash": (rb'{"id":1,"method":"\\\ud83d"}', InvalidRequest, b"1"),
    "half a pair as an id": (rb'{"id":"\ud800","method":"m"}', InvalidRequest, None),
    "half a pair and no id": (rb'{"method":"m\ud800"}', InvalidRequest, None),
    "half a pair in another mistake": (rb'{"id":7,"method":1,"x":"\ud800"}', InvalidRequest, b"7"),
    "half a pair beside a bad id": (rb'{"id":[],"method":"\ud800"}', InvalidRequest, None),
    "half a pair in half an object": (rb'{"id":1,"method":"\ud800"', ParseFailed, None),
    "half a pair in a long frame": (
        rb'{"id":1,"method":"\ud800","x":"' + b"x" * HALVES_BYTES_MAX + b'"}',
        ParseFailed,
        None,
    ),
    "nested too deeply": (b'{"id":1,"params":' + b"[" * 100_000, ParseFailed, None),
    "arrays nested too deeply": (b"[" * 100_000 + b"]" * 100_000, ParseFailed, None),
    "objects nested too deeply": (
        b'{"id":1,"method":"m","params":' + b'{"a":' * 50_000 + b"1" + b"}" * 50_001,
        ParseFailed,
        None,
    ),
    "a number": (b"42", InvalidRequest, None),
    "a string": (b'"method"', InvalidRequest, None),
    "null": (b"null", InvalidRequest, None),
    "an empty object": (b"{}", InvalidRequest, None),
    "an empty array": (b" [ ] ", InvalidRequest, None),
    "a method of another type": (b'{"id":7,"method":1}', InvalidRequest, b"7"),
    "another version": (b'{"jsonrpc":"1.0","id":"x","method":"m"}', InvalidRequest, b'"x"'),
    "a version of another type": (b'{"jsonrpc":2.0,"id":7,"method":"m"}', InvalidRequest, b"7"),
    "nothing but an id": (b'{"id":7}', InvalidRequest, b"7"),
    "a result and an error": (b'{"id":7,"result":1,"error":{}}', InvalidRequest, b"7"),
    "an answer without an id": (b'{"result":1}', InvalidRequest, None),
    "an answer with a bad id": (b'{"id":[7],"result":1}', InvalidRequest, None),
    "a batch over the limit": (
        b"[" + b"1," * BATCH_MEMBERS_MAX + b"1]",
        TooLarge,
        None,
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_message_is_refused_with_its_id_where_it_has_one(name: str) -> None:
    body, error, id_text = REFUSED[name]
    refused = decode(body)
    assert isinstance(refused, Refused)
    assert type(refused.error) is error
    assert refused.id == id_text


@given(st.binary(max_size=200))
def test_decoding_never_raises_whatever_the_bytes(body: bytes) -> None:
    assert isinstance(decode(body), Request | Response | Batch | Refused)


@given(st.recursive(st.none() | st.integers() | st.text(), st.lists) | st.text())
def test_decoding_never_raises_whatever_the_json(value: object) -> None:
    body = json.dumps({"id": value, "method": value, "params": value}).encode()
    assert isinstance(decode(body), Request | Refused)


def test_a_refusal_repeats_nothing_that_was_sent() -> None:
    for body in (b'{"secret": tru', b'{"id":1,"method":{"secret":1}}', b'["secret",]'):
        refused = decode(body)
        assert isinstance(refused, Refused)
        assert "secret" not in refused.error.message


def test_an_answer_to_a_request_of_ours_is_told_apart() -> None:
    good = decode(b'{"jsonrpc":"2.0","id":3,"result":{"summary":"s"}}')
    assert isinstance(good, Response)
    assert good.id == b"3"
    assert isinstance(good.result, Raw)
    assert bytes(good.result) == b'{"summary":"s"}'
    assert good.error is UNSET
    bad = decode(b'{"id":"3","error":{"code":1}}')
    assert isinstance(bad, Response)
    assert isinstance(bad.error, Raw)


def test_a_batch_keeps_the_order_of_its_members() -> None:
    batch = decode(b' [{"id":1,"method":"a"}, 5, {"method":"b"},{"id":2,"result":0},{"id":[]} ]')
    assert isinstance(batch, Batch)
    kinds = [type(member) for member in batch.members]
    assert kinds == [Request, Refused, Request, Response, Refused]


def test_a_batch_may_have_the_limit_of_members() -> None:
    batch = decode(b"[" + b",".join([b'{"method":"m"}'] * BATCH_MEMBERS_MAX) + b"]")
    assert isinstance(batch, Batch)
    assert len(batch.members) == BATCH_MEMBERS_MAX


def test_a_batch_of_millions_is_refused_without_holding_its_members() -> None:
    body = b"[" + b"1," * 1_000_000 + b"1]"
    tracemalloc.start()
    try:
        refused = decode(body)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert isinstance(refused, Refused)
    assert type(refused.error) is TooLarge
    assert refused.error.data()["limit"] == BATCH_MEMBERS_MAX
    assert peak_bytes < 200_000


def test_answers_say_jsonrpc_first_and_exactly_one_of_result_and_error() -> None:
    error = PreconditionFailed("moved", expected=None, actual={"leaf_id": "a", "seq": 3}, missed=[])
    body = error_body(b'"x"', error)
    assert body.startswith(b'{"jsonrpc":"2.0","id":"x","error":{"code":-32031,')
    assert json.loads(body) == {
        "jsonrpc": "2.0",
        "id": "x",
        "error": {
            "code": -32031,
            "message": "moved",
            "data": {
                "kind": "precondition_failed",
                "retryable": False,
                "expected": None,
                "actual": {"leaf_id": "a", "seq": 3},
                "missed": [],
            },
        },
    }
    assert list(json.loads(result_body(b"1", b"null"))) == ["jsonrpc", "id", "result"]
    assert json.loads(error_body(None, InvalidParams("x", path="a.b")))["id"] is None


def test_results_and_params_are_spliced_byte_for_byte() -> None:
    text = b'{"n":1.50, "x" : [ ]}'
    assert text in result_body(b"1", text)
    assert result_body(b"1", msgspec.Raw(text)) == result_body(b"1", text)
    assert notification_body("session/event", text) == (
        b'{"jsonrpc":"2.0","method":"session/event","params":' + text + b"}"
    )


def test_a_batch_with_half_a_surrogate_pair_is_refused_under_each_id() -> None:
    """None of it is done: which of them the text belongs to is not looked into."""
    found = decode(rb'[{"id":1,"method":"m","params":["\ud83d"]},{"id":2,"method":"m"},1]')
    assert isinstance(found, Batch)
    refused = [member for member in found.members if isinstance(member, Refused)]
    assert [member.id for member in refused] == [b"1", b"2", None]
    assert {type(member.error) for member in refused} == {InvalidRequest}


def test_half_a_surrogate_pair_in_an_answer_is_mended_for_nobody_is_told_of_it() -> None:
    mended = Response(b"1", Raw(rb'"\ufffd"'))
    assert decode(rb'{"id":1,"result":"\ud800"}') == mended
    assert decode(rb'[{"id":1,"result":"\ud800"}]') == Batch([mended])
