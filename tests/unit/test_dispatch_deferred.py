"""The dispatcher: calls that are answered later, cancellation, batches, and its table."""

from __future__ import annotations

import pytest
from msgspec import UNSET, Raw

from sessiond.errors import Cancelled
from sessiond.limits import BATCH_MEMBERS_MAX, SMALL_ANSWER_BYTES
from sessiond.rpc.dispatch import Dispatcher, Method
from tests.kit.limits import set_limits
from tests.unit.dispatch_rig import (
    EchoParams,
    Peer,
    Result,
    Rig,
    failed,
)

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


# -- several answers at once --------------------------------------------------------------------


def test_calls_are_answered_together_in_their_order(rig: Rig) -> None:
    for number in (1, 2, 3):
        rig.send(f'{{"id":{number},"method":"later"}}')
    rig.exchange.calls.answer_all(rig.pending, [b'{"text":"%d"}' % n for n in (1, 2, 3)])
    assert [(one["id"], one["result"]["text"]) for one in rig.peer.take()] == [
        (1, "1"),
        (2, "2"),
        (3, "3"),
    ]
    assert rig.exchange.in_flight == rig.exchange.calls.body_bytes == 0
    assert all(call.settled for call in rig.pending)


def test_answers_given_together_go_where_each_call_wants_its_own(rig: Rig) -> None:
    """One call is a notification, two are members of a batch, one answer is a large one."""
    rig.peer.has_room = False
    rig.send('{"id":1,"method":"later"}')
    rig.send('{"method":"later"}')
    rig.send('[{"id":2,"method":"later"},{"id":3,"method":"later"}]')
    rig.send('{"id":4,"method":"later"}')
    rig.send('{"id":5,"method":"later"}')
    large = b'"' + b"x" * SMALL_ANSWER_BYTES + b'"'
    rig.exchange.calls.answer_all(rig.pending, [b"1", b"0", b"2", b"3", large, b"5"])
    first, pair, refused, last = rig.peer.take()
    assert (first["id"], first["result"]) == (1, 1)
    assert [(one["id"], one["result"]) for one in pair] == [(2, 2), (3, 3)]
    assert (refused["id"], refused["error"]["data"]["kind"]) == (4, "overloaded")
    assert (last["id"], last["result"]) == (5, 5)
    assert rig.exchange.in_flight == rig.exchange.calls.body_bytes == 0
