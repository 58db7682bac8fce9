"""A report of progress gives a call its whole time again; silence ends the call."""

from __future__ import annotations

import pytest

from sessiond_client import Timeout
from sessiond_client.calls import Call
from tests.kit.client_rig import exchange_with


def patient_call(told: list[int]) -> Call:
    return Call(
        "session/get",
        {},
        deadline=30.0,
        new_id=lambda: "id",
        on_progress=lambda done, _total, _unit: told.append(done),
        patience=30.0,
    )


def test_a_report_of_progress_gives_a_call_its_time_again() -> None:
    told: list[int] = []
    call = patient_call(told)
    exchange, daemon = exchange_with(call)
    (request,) = daemon.connect()
    token = request["params"]["_meta"]["progress_token"]
    for number in range(1, 4):
        daemon.now = 20.0 * number
        value = {"kind": "report", "done": number, "total": 9, "unit": "bytes"}
        daemon.say(method="$/progress", params={"token": token, "value": value})
        exchange.tick(daemon.now)
    assert told == [1, 2, 3]
    assert not call.is_settled
    exchange.tick(89.0)
    assert not call.is_settled
    exchange.tick(90.0)
    with pytest.raises(Timeout):
        call.outcome()


def test_a_call_without_a_report_ends_in_time() -> None:
    call = patient_call([])
    exchange, daemon = exchange_with(call)
    daemon.connect()
    exchange.tick(30.0)
    with pytest.raises(Timeout):
        call.outcome()
