"""The dispatcher: answers, failures and notifications."""

from __future__ import annotations

import json

import pytest
from msgspec import UNSET

from sessiond.errors import TooLarge
from tests.kit.limits import set_limits
from tests.unit.dispatch_rig import (
    Result,
    Rig,
    failed,
)

# -- answers ---------------------------------------------------------------------------


def test_a_result_is_encoded_and_put_at_once_but_not_flushed(rig: Rig) -> None:
    answer = rig.call("echo", '{"text":"hi"}')
    assert answer == {"jsonrpc": "2.0", "id": 1, "result": {"text": "hi"}}
    assert rig.peer.flushes == 0
    assert rig.exchange.in_flight == 0


def test_a_raw_result_goes_out_byte_for_byte(rig: Rig) -> None:
    rig.exchange.receive(b'{"id":1,"method":"payload","params":{"payload":{"n":1.50, "a":1}}}')
    assert rig.peer.bodies == [b'{"jsonrpc":"2.0","id":1,"result":{"n":1.50, "a":1}}']


def test_none_is_the_result_null(rig: Rig) -> None:
    assert rig.call("null") == {"jsonrpc": "2.0", "id": 1, "result": None}


@pytest.mark.parametrize("name", ["echo", "session/echo", "say"])
def test_a_method_is_found_by_its_name_and_by_each_alias(rig: Rig, name: str) -> None:
    assert rig.call(name)["result"] == {"text": ""}


def test_a_method_is_not_found_by_anything_less(rig: Rig) -> None:
    for name in ("Echo", "echo ", "session/ech", "", "$/unknown"):
        code, data = failed(rig.call(name))
        assert code == -32601
        assert data["kind"] == "method_not_found"


@pytest.mark.parametrize("params", [None, "null", "[]", " [ \t] ", "{}", '{"_meta":{"x":[1]}}'])
def test_parameters_may_be_absent_null_empty_or_only_meta(rig: Rig, params: str | None) -> None:
    assert rig.call("echo", params)["result"] == {"text": ""}


@pytest.mark.parametrize(
    ("params", "path"),
    [
        ('{"text":1}', "text"),
        ('{"zz":1}', "zz"),
        ('{"expected":{"leaf_id":"a","zz":1}}', "expected.zz"),
        ('{"expected":{}}', "expected.leaf_id"),
        ('{"expected":7}', "expected"),
        ('{"entries":[{"message":1}]}', "entries[0].message"),
        ('{"entries":[{"message":"a"},{}]}', "entries[1].message"),
        ('{"entries":[{"message":"a","zz":1}]}', "entries[0].zz"),
        ('{"entries":[5]}', "entries[0]"),
        ('{"counts":{"a":"x"}}', "counts[...]"),
        ('["a"]', ""),
        ("[{}]", ""),
        ("7", ""),
        ('"x"', ""),
        ('{"we - at `$ird`":1}', None),
    ],
)
def test_parameters_that_do_not_fit_are_named_by_path(
    rig: Rig, params: str, path: str | None
) -> None:
    code, data = failed(rig.call("echo", params))
    assert code == -32602
    assert data["kind"] == "invalid_params"
    if path is not None:
        assert data["path"] == path


def test_a_missing_parameter_is_named(rig: Rig) -> None:
    for params in (None, "null", "[]", "{}"):
        assert failed(rig.call("need", params)) == (
            -32602,
            {"kind": "invalid_params", "retryable": False, "path": "session_id"},
        )


def test_a_long_unknown_field_is_cut_in_the_answer(rig: Rig) -> None:
    _, data = failed(rig.call("echo", '{"' + "z" * 5000 + '":1}'))
    assert len(data["path"]) <= 300


def test_a_lenient_method_takes_unknown_parameters(rig: Rig) -> None:
    answer = rig.call("initialize", '{"processId":1,"capabilities":{},"text":"t"}')
    assert answer["result"] == {"text": "t"}
    assert failed(rig.call("initialize", '{"text":5}'))[0] == -32602


def test_a_method_that_is_not_allowed_is_refused_before_its_parameters_are_read(rig: Rig) -> None:
    code, data = failed(rig.call("forbidden", '{"zz":1}'))
    assert code == -32013
    assert data["need"] == "write"


# -- failures ----------------------------------------------------------------------------


def test_an_unforeseen_exception_becomes_internal_and_a_log_line_without_the_params(
    rig: Rig,
) -> None:
    answer = rig.call("boom", '{"text":"private"}')
    code, data = failed(answer)
    assert code == -32603
    ((incident_id, method, error),) = rig.logged
    assert data["incident_id"] == incident_id
    assert method == "boom"
    assert isinstance(error, KeyError)
    assert "secret" not in json.dumps(answer)
    rig.call("boom")
    assert rig.logged[1][0] != incident_id


def test_a_result_that_cannot_be_encoded_is_internal(rig: Rig) -> None:
    assert failed(rig.call("bad_result"))[0] == -32603
    assert len(rig.logged) == 1
    assert rig.exchange.in_flight == 0


def test_an_answer_over_the_limit_is_too_large(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    set_limits(monkeypatch, SMALL_ANSWER_BYTES=50, RESULT_BYTES_MAX=50)
    text = "x" * 60
    assert failed(rig.call("echo", f'{{"text":"{text}"}}'))[0] == -32014


def test_a_large_answer_that_finds_no_room_is_refused_to_who_can_ask_again_only(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, SMALL_ANSWER_BYTES=50)
    rig.peer.has_room = False
    large, small = [f'{{"text":"{"x" * size}"}}' for size in (60, 20)]
    code, data = failed(rig.call("echo", large))
    assert (code, data["kind"], data["retryable"]) == (-32001, "overloaded", True)
    assert rig.call("echo", small)["result"] == {"text": "x" * 20}
    assert rig.call("change", large)["result"] == {"text": "x" * 60}


def test_an_error_of_the_framer_is_answered_with_id_null(rig: Rig) -> None:
    rig.exchange.receive(TooLarge("too large", limit=5))
    (answer,) = rig.peer.take()
    assert answer["id"] is None
    assert failed(answer)[0] == -32014


def test_what_is_no_message_is_answered_too(rig: Rig) -> None:
    (answer,) = rig.send("hello")
    assert (answer["id"], failed(answer)[0]) == (None, -32700)
    (answer,) = rig.send('{"id":"a","method":5}')
    assert (answer["id"], failed(answer)[0]) == ("a", -32600)


@pytest.mark.parametrize("text", ["true", "false", "[1]", "{}", '{"a":1}'])
def test_an_id_of_another_type_is_an_invalid_request_with_id_null(rig: Rig, text: str) -> None:
    message = f'{{"id":{text},"method":"echo","params":{{"text":"never"}}}}'
    (answer,) = rig.send(message)
    assert (answer["id"], failed(answer)[0]) == (None, -32600)
    ((answer, good),) = rig.send(f'[{message},{{"id":1,"method":"echo"}}]')
    assert (answer["id"], failed(answer)[0], good["id"]) == (None, -32600, 1)


def test_parameters_nested_too_deeply_end_one_request(rig: Rig) -> None:
    deep = "[" * 100_000 + "]" * 100_000
    (answer,) = rig.send(f'{{"id":1,"method":"payload","params":{{"payload":{deep}}}}}')
    assert failed(answer)[0] == -32700
    assert rig.call("echo")["result"] == {"text": ""}


# -- notifications -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message",
    [
        '{"method":"echo"}',
        '{"method":"echo","params":{"zz":1}}',
        '{"method":"unknown"}',
        '{"method":"$/setTrace","params":{"value":"off"}}',
        '{"method":"boom"}',
        '{"method":"forbidden"}',
        '{"method":"bad_result"}',
        '{"id":9,"result":{}}',
        '{"id":9,"error":{"code":1,"message":"m"}}',
    ],
)
def test_notifications_and_answers_are_never_answered(rig: Rig, message: str) -> None:
    assert rig.send(message) == []


def test_a_deferred_notification_is_in_flight_and_swallows_its_answer(rig: Rig) -> None:
    assert rig.send('{"method":"later"}') == []
    (call,) = rig.pending
    assert call.is_notification
    assert call.id is None
    assert call.origin_id is UNSET
    assert rig.exchange.in_flight == 1
    call.answer(Result("x"))
    assert rig.peer.bodies == []
    assert rig.exchange.in_flight == 0
