"""Dispatch: which handler runs, what becomes of its result, and what of its failure."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import UNSET, Raw, Struct

from sessiond.errors import Cancelled, InvalidRequest, PermissionDenied, TooLarge
from sessiond.limits import BATCH_MEMBERS_MAX
from sessiond.rpc.dispatch import DEFERRED, Call, Dispatcher, Exchange, Method
from sessiond.rpc.params import Params
from tests.kit.limits import set_limits


class Inner(Struct, forbid_unknown_fields=True):
    leaf_id: str


class Item(Struct, forbid_unknown_fields=True):
    message: str


class EchoParams(Params):
    text: str = ""
    expected: Inner | None = None
    entries: tuple[Item, ...] = ()
    counts: dict[str, int] | None = None


class NeedParams(Params):
    session_id: str


class RawParams(Params):
    payload: Raw


class Result(Struct):
    text: str


class Peer:
    """Keeps what was put, as JSON values and as bytes."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.flushes = 0
        self.has_room = True

    def put(self, body: bytes) -> None:
        self.bodies.append(body)

    def admits(self, size: int) -> bool:
        return self.has_room

    def flush(self) -> None:
        self.flushes += 1

    def take(self) -> list[Any]:
        values = [json.loads(body) for body in self.bodies]
        self.bodies.clear()
        return values


class Rig:
    """A dispatcher with one connection; `pending` are the calls that were deferred."""

    def __init__(self) -> None:
        self.pending: list[Call[str]] = []
        self.cancelled: list[Call[str]] = []
        self.logged: list[tuple[str, str, Exception]] = []
        self.peer = Peer()
        self.dispatcher = Dispatcher(
            self._methods(),
            log_exception=lambda *what: self.logged.append(what),
            allow=self._allow,
        )
        self.exchange: Exchange[str] = self.dispatcher.connection(self.peer, "client-1")

    def _methods(self) -> list[Method[str, Any]]:
        def method(
            name: str, handle: Callable[..., Any], params: Any = EchoParams, **more: Any
        ) -> Method[str, Any]:
            return Method(name=name, params=params, result=Result, handle=handle, **more)

        return [
            method("echo", self._echo, aliases=("session/echo", "say")),
            method("need", lambda client, params, call: Result(params.session_id), NeedParams),
            method("payload", lambda client, params, call: params.payload, RawParams),
            method("later", self._later),
            method("wait", self._wait),
            method("boom", self._boom),
            method("bad_result", lambda client, params, call: object()),
            method("null", lambda client, params, call: None),
            method("answers_itself", self._answer_now),
            method("defer_and_fail", self._defer_and_fail),
            method("answer_and_fail", self._answer_and_fail),
            method("forbidden", self._echo, access="write"),
            method("change", self._echo, access="write"),
            method("initialize", self._echo, lenient=True),
        ]

    def _allow(self, client: str, method: Method[str, Any]) -> None:
        assert client == "client-1"
        if method.name == "forbidden":
            raise PermissionDenied("read only", need="write")

    def _echo(self, client: str, params: EchoParams, call: Call[str]) -> Result:
        return Result(params.text)

    def _later(self, client: str, params: EchoParams, call: Call[str]) -> Any:
        self.pending.append(call)
        return DEFERRED

    def _wait(self, client: str, params: EchoParams, call: Call[str]) -> Any:
        def give_up() -> None:
            self.cancelled.append(call)
            if params.text != "too late":
                call.fail(Cancelled("given up"))

        call.defer(give_up)
        self.pending.append(call)
        return DEFERRED

    def _boom(self, client: str, params: EchoParams, call: Call[str]) -> Any:
        raise KeyError("secret content")

    def _answer_now(self, client: str, params: EchoParams, call: Call[str]) -> Any:
        call.answer(b'{"text":"early"}')
        return DEFERRED

    def _defer_and_fail(self, client: str, params: EchoParams, call: Call[str]) -> Any:
        call.defer(None)
        raise InvalidRequest("no")

    def _answer_and_fail(self, client: str, params: EchoParams, call: Call[str]) -> Any:
        call.answer(Result("said"))
        raise KeyError("too late")

    def send(self, text: str | bytes) -> list[Any]:
        self.exchange.receive(text.encode() if isinstance(text, str) else text)
        return self.peer.take()

    def call(self, method: str, params: str | None = None, id_text: str = "1") -> Any:
        tail = "" if params is None else f',"params":{params}'
        (answer,) = self.send(f'{{"jsonrpc":"2.0","id":{id_text},"method":"{method}"{tail}}}')
        return answer


@pytest.fixture
def rig() -> Rig:
    return Rig()


def failed(answer: Any) -> tuple[int, Any]:
    assert set(answer) == {"jsonrpc", "id", "error"}
    return answer["error"]["code"], answer["error"]["data"]


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


# -- deferred calls --------------------------------------------------------------------------


def test_a_deferred_call_is_answered_when_it_is_settled_and_flushed_by_who_settles(
    rig: Rig,
) -> None:
    assert rig.send('{"id":"a","method":"later"}') == []
    assert rig.call("echo", id_text="2")["id"] == 2
    (call,) = rig.pending
    assert call.client == "client-1"
    assert call.id == b'"a"'
    assert call.origin_id == Raw(b'"a"')
    assert not call.is_notification
    assert rig.exchange.in_flight == 1
    call.answer(Result("done"))
    assert rig.exchange.in_flight == 0
    assert rig.peer.flushes == 0
    call.flush()
    assert rig.peer.flushes == 1
    assert rig.peer.take() == [{"jsonrpc": "2.0", "id": "a", "result": {"text": "done"}}]


def test_a_call_that_was_settled_before_deferred_was_returned_is_not_in_flight(rig: Rig) -> None:
    assert rig.call("answers_itself")["result"] == {"text": "early"}
    assert rig.exchange.in_flight == 0


def test_a_handler_that_fails_after_deferring_is_answered_once(rig: Rig) -> None:
    assert failed(rig.call("defer_and_fail"))[0] == -32600
    assert rig.exchange.in_flight == 0


def test_a_handler_that_fails_after_answering_is_logged_and_its_answer_stands(rig: Rig) -> None:
    assert rig.call("answer_and_fail")["result"] == {"text": "said"}
    assert [what[1] for what in rig.logged] == ["answer_and_fail"]


def test_settling_twice_is_a_bug(rig: Rig) -> None:
    rig.send('{"id":1,"method":"later"}')
    (call,) = rig.pending
    call.answer(None)
    with pytest.raises(AssertionError):
        call.fail(Cancelled("again"))


def test_a_deferred_result_that_cannot_be_encoded_does_not_hurt_who_settles(rig: Rig) -> None:
    rig.send('{"id":1,"method":"later"}')
    rig.pending[0].answer(object())
    (answer,) = rig.peer.take()
    assert failed(answer)[0] == -32603
    assert rig.exchange.in_flight == 0


# -- cancellation ------------------------------------------------------------------------------


def test_cancelling_calls_what_the_handler_gave_and_the_call_leaves_the_table(rig: Rig) -> None:
    rig.send('{"id":5,"method":"wait"}')
    (answer,) = rig.send('{"method":"$/cancelRequest","params":{"id":5}}')
    assert (answer["id"], failed(answer)[0]) == (5, -32800)
    assert rig.exchange.in_flight == 0
    assert rig.send('{"method":"$/cancelRequest","params":{"id":5}}') == []


@pytest.mark.parametrize(
    ("sent", "cancelled", "same"),
    [
        ("1", "1", True),
        ("1", "1.0", True),
        ("1", '"1"', False),
        ('"1"', "1", False),
        ('"A"', '"\\u0041"', True),
        ("1", "2", False),
        ("null", "null", True),
        ("1", "true", False),
        ("1", "[1]", False),
    ],
)
def test_ids_are_compared_as_json_values(
    rig: Rig, sent: str, cancelled: str, *, same: bool
) -> None:
    rig.send(f'{{"id":{sent},"method":"wait"}}')
    rig.send(f'{{"method":"$/cancelRequest","params":{{"id":{cancelled}}}}}')
    assert bool(rig.cancelled) is same
    assert rig.exchange.in_flight == (0 if same else 1)


@pytest.mark.parametrize("unheard", ["1e400", "-1e999"])
def test_an_id_that_no_decoder_can_hold_keeps_no_other_from_being_cancelled(
    rig: Rig, unheard: str
) -> None:
    rig.send(f'{{"id":{unheard},"method":"wait"}}')
    assert rig.pending[0].origin_id == Raw(unheard.encode())
    rig.send('{"id":"a","method":"wait"}')
    (answer,) = rig.send('{"method":"$/cancelRequest","params":{"id":"a"}}')
    assert (answer["id"], failed(answer)[0]) == ("a", -32800)
    assert rig.exchange.in_flight == 1


@pytest.mark.parametrize("text", ["null", '"' + "x" * 255 + '"'])
def test_an_id_that_is_null_or_long_is_not_told_to_others(rig: Rig, text: str) -> None:
    assert rig.send(f'{{"id":{text},"method":"later"}}') == []
    assert rig.pending[0].origin_id is UNSET


def test_a_call_that_is_too_late_to_cancel_completes_and_answers(rig: Rig) -> None:
    rig.send('{"id":1,"method":"wait","params":{"text":"too late"}}')
    assert rig.send('{"method":"$/cancelRequest","params":{"id":1}}') == []
    assert rig.exchange.in_flight == 1
    rig.pending[0].answer(Result("stored"))
    assert rig.peer.take()[0]["result"] == {"text": "stored"}


def test_cancelling_never_reaches_a_call_of_another_connection(rig: Rig) -> None:
    other = rig.dispatcher.connection(Peer(), "client-1")
    rig.send('{"id":1,"method":"wait"}')
    other.receive(b'{"method":"$/cancelRequest","params":{"id":1}}')
    assert rig.cancelled == []
    assert rig.exchange.in_flight == 1


def test_a_call_that_gave_no_way_to_cancel_goes_on(rig: Rig) -> None:
    rig.send('{"id":1,"method":"later"}')
    assert rig.send('{"id":2,"method":"$/cancelRequest","params":{"id":1,"more":true}}') == [
        {"jsonrpc": "2.0", "id": 2, "result": None}
    ]
    assert rig.exchange.in_flight == 1


def test_a_cancel_request_without_an_id_is_invalid(rig: Rig) -> None:
    assert failed(rig.call("$/cancelRequest", "{}"))[0] == -32602
    assert rig.send('{"method":"$/cancelRequest"}') == []


def test_cancel_all_reaches_every_call_that_can_be_cancelled(rig: Rig) -> None:
    rig.send('[{"id":1,"method":"wait"},{"id":2,"method":"later"},{"id":3,"method":"wait"}]')
    rig.exchange.cancel_all()
    assert [call.id for call in rig.cancelled] == [b"1", b"3"]
    assert rig.exchange.in_flight == 1
    rig.pending[1].answer(None)
    (batch,) = rig.peer.take()
    assert [answer["id"] for answer in batch] == [1, 2, 3]


# -- batches -------------------------------------------------------------------------------------


def test_a_batch_is_answered_as_one_array_in_the_order_of_its_members(rig: Rig) -> None:
    (batch,) = rig.send(
        '[{"id":1,"method":"echo"},{"method":"echo"},7,{"id":"x","method":"nope"},'
        '{"id":2,"result":0},{"id":3,"method":"echo","params":{"text":"c"}}]'
    )
    assert [(a["id"], a.get("result"), a.get("error", {}).get("code")) for a in batch] == [
        (1, {"text": ""}, None),
        (None, None, -32600),
        ("x", None, -32601),
        (3, {"text": "c"}, None),
    ]


def test_a_batch_waits_for_its_last_member(rig: Rig) -> None:
    members = [f'{{"id":{n},"method":"later"}}' for n in range(3)]
    assert rig.send(f"[{','.join(members)},{{'id':9}}]".replace("'", '"')) == []
    for call in (rig.pending[2], rig.pending[0]):
        call.answer(Result("x"))
        assert rig.peer.bodies == []
    assert rig.exchange.in_flight == 1
    rig.pending[1].fail(Cancelled("gone"))
    (batch,) = rig.peer.take()
    assert [answer["id"] for answer in batch] == [0, 1, 2, 9]
    assert "error" in batch[1]


def test_a_batch_of_notifications_is_not_answered(rig: Rig) -> None:
    assert rig.send('[{"method":"echo"},{"method":"nope"}]') == []
    assert rig.send('[{"id":1,"result":2}]') == []


def test_an_empty_batch_and_one_too_large_are_one_error_with_id_null(rig: Rig) -> None:
    (empty,) = rig.send("[]")
    assert (empty["id"], failed(empty)[0]) == (None, -32600)
    (full,) = rig.send("[" + ",".join(['{"id":1,"method":"echo"}'] * (BATCH_MEMBERS_MAX + 1)) + "]")
    assert full["id"] is None
    code, data = failed(full)
    assert (code, data["limit"]) == (-32014, BATCH_MEMBERS_MAX)
    (good,) = rig.send("[" + ",".join(['{"id":1,"method":"echo"}'] * BATCH_MEMBERS_MAX) + "]")
    assert len(good) == BATCH_MEMBERS_MAX


def test_a_batch_whose_answers_together_are_too_large_keeps_the_first(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, SMALL_ANSWER_BYTES=100, RESULT_BYTES_MAX=100)
    params = '{"text":"' + "x" * 40 + '"}'
    (batch,) = rig.send(
        f'[{{"id":1,"method":"echo","params":{params}}},'
        f'{{"id":2,"method":"echo","params":{params}}}]'
    )
    assert batch[0]["result"] == {"text": "x" * 40}
    assert (batch[1]["id"], failed(batch[1])[0]) == (2, -32014)


# -- the table -------------------------------------------------------------------------------------


def test_two_methods_may_not_share_a_name() -> None:
    method = Method[str, EchoParams](
        name="a", params=EchoParams, result=None, handle=lambda *_: None, aliases=("b",)
    )
    other = Method[str, EchoParams](
        name="b", params=EchoParams, result=None, handle=lambda *_: None
    )
    with pytest.raises(AssertionError, match="two methods are called b"):
        Dispatcher([method, other], log_exception=lambda *_: None, allow=lambda *_: None)
