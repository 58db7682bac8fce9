"""The attackers' own tools, on streams and answers whose verdict is plain: they must find faults."""

from __future__ import annotations

import json
import random
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessiond.model.times import utc_time
from sessiond.rpc.framing import Framer
from tests.fuzz.account import faults
from tests.fuzz.corpus import bodies
from tests.fuzz.frames import Attack, attacks
from tests.fuzz.judge import NotStrict, strict
from tests.fuzz.mutations import mutated_body
from tests.fuzz.params import fits
from tests.fuzz.streams import debts
from tests.kit.repairs import repair_faults

PING = b'{"id":1,"method":"server/ping"}'
PONG = b'{"jsonrpc":"2.0","id":1,"result":{}}'
NO_JSON = (
    b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no","data":'
    b'{"kind":"parse_error","retryable":false}}}'
)
CONFLICT = (
    NO_JSON.replace(b"null", b"1")
    .replace(b"-32700", b"-32032")
    .replace(b'"parse_error"', b'"idempotency_conflict","entry_id":"q2"')
)


def entry(entry_id: str, parent_id: str | None = None) -> bytes:
    return json.dumps({"type": "custom", "id": entry_id, "parent_id": parent_id}).encode()


def verdict(stream: bytes, *answers: bytes) -> list[str]:
    return list(faults(b"".join(one + b"\n" for one in answers), debts(stream), is_framed=False))


@pytest.mark.parametrize(
    ("stream", "answers"),
    [
        (PING, [PONG]),
        (PING + b"\r\n\n" + b'{"method":"server/ping"}', [PONG]),
        (PING + b"\n" + PING.replace(b"1", b"2"), [PONG.replace(b":1", b":2"), PONG]),
        (PING + b"\nnonsense", [NO_JSON, PONG]),
        (b"[" + PING + b",1," + PING + b"]", None),
        (b'[{"method":"x"}]', []),
        # The conflict of a prompt that waits: no entry is stored.
        (PING, [CONFLICT]),
        (rb'[{"method":"x","id\ud800":1}]', []),
        (b'{"id":1,"result":1}', []),
        (b'{"id":-0.0e1,"method":"server/ping"}', [PONG.replace(b":1,", b":-0.0e1,")]),
        (b"GET / HTTP/1.1\r\n\r\n", []),
        (b"Content-Length: -1\r\n\r\n" + PING, []),
    ],
)
def test_what_is_paid_is_no_fault(stream: bytes, answers: list[bytes] | None) -> None:
    if answers is None:
        refused = NO_JSON.replace(b"-32700", b"-32600").replace(b"parse_error", b"invalid_request")
        answers = [b"[" + b",".join([PONG, refused, PONG]) + b"]"]
    assert verdict(stream, *answers) == []


@pytest.mark.parametrize(
    ("stream", "answers", "fault"),
    [
        (PING, [], "no answer"),
        (PING, [PONG, PONG], "an answer to nothing"),
        (PING, [PONG.replace(b":1", b":1.0")], "no answer"),
        (PING, [PONG.replace(b":1", b':"1"')], "no answer"),
        (b'{"method":"server/ping"}', [PONG], "an answer to nothing"),
        (b"{nonsense", [], "no answer"),
        (b"[" + PING + b"]", [PONG], "no answer"),
        (rb'[{"id":1,"method":"x","params":"\ud800"},{"method":"x"}]', [], "no answer"),
        (b"[%b,%b]" % (PING, PING.replace(b"1", b"2")), [b"[%b]" % PONG], "no answer"),
        (PING, [PONG[:-1]], "no strict JSON"),
        (PING, [PONG.replace(b"{}", b'"\xff"')], "no strict JSON"),
        (PING, [PONG.replace(b"{}", b"NaN")], "no strict JSON"),
        (PING, [PONG.replace(b"}}", b'},"more":1}')], "not the members"),
        (PING, [PONG.replace(b'"result"', b'"id":1,"result"')], "not the members"),
        (PING, [PONG.replace(b"2.0", b"1.0")], "another JSON-RPC"),
        (b"{nonsense", [NO_JSON.replace(b"parse_error", b"internal")], "is not internal"),
        (b"{nonsense", [NO_JSON.replace(b"false", b"true")], "is not parse_error"),
        (b"{nonsense", [NO_JSON.replace(b',"data"', b',"date"')], "no error object"),
        (
            PING,
            [
                NO_JSON.replace(b"null", b"1")
                .replace(b"-32700", b"-32603")
                .replace(b"parse_error", b"internal")
            ],
            "it is a bug",
        ),
        (
            PING,
            [
                NO_JSON.replace(b"null", b"1")
                .replace(b"-32700", b"-32602")
                .replace(b"parse_error", b"invalid_params")
            ],
            "invalid_params without path",
        ),
        (
            PING,
            [CONFLICT.replace(b"entry_id", b"queue_id")],
            "idempotency_conflict without entry_id",
        ),
    ],
)
def test_what_is_not_paid_is(stream: bytes, answers: list[bytes], fault: str) -> None:
    assert any(fault in found for found in verdict(stream, *answers))


@pytest.mark.parametrize(
    "text", [b"01", b"[1,]", b'"\n"', b"NaN", b"\xff", b"{} {}", b"", b'"\\x"']
)
def test_what_is_no_strict_json(text: bytes) -> None:
    with pytest.raises(NotStrict):
        strict(text)


@given(st.randoms(use_true_random=False))
def test_the_framer_finds_the_bodies_that_the_judge_finds(dice: random.Random) -> None:
    """Two readers that know nothing of each other; in lines there is no doubt about any byte."""
    body = mutated_body(dice.choice(bodies()), dice, list(bodies()))
    stream = b"{}\n" + body
    framer = Framer()
    found = [*framer.feed(stream), *framer.end()]
    lines = [line for line in stream.split(b"\n") if line.strip(b" \t\r\n")]
    assert len(found) == len(lines)
    assert len(debts(stream).debts) <= len(found)


@pytest.mark.parametrize(
    ("made", "moved", "fault"),
    [
        ("abcb", 0, None),
        ("acb", 0, "lost"),
        ("acbb", 0, "another place"),
        ("acbb", 1, None),
        ("cabb", 1, None),
        ("bcab", 0, "another place"),
        ("cbab", 1, "another place"),
        ("cbab", 2, None),
        ("xabycb", 0, None),
    ],
)
@pytest.mark.parametrize("parent", [None, "a"])
def test_a_repair_may_leave_out_and_move_what_it_says(
    made: str, moved: int, fault: str | None, parent: str | None
) -> None:
    """Of two entries that are the same, one may get another parent, and the other one stay."""
    found = [
        *repair_faults([entry(one) for one in "abcb"], [entry(one, parent) for one in made], moved)
    ]
    assert found == [] if fault is None else fault in found[0]


def test_the_same_seed_is_the_same_attack() -> None:
    def first(seed: int) -> list[Attack]:
        return list(islice(attacks(random.Random(seed)), 5))

    assert first(7) == first(7)
    assert first(7) != first(8)


@pytest.mark.parametrize(
    "text",
    [
        *("2026-01-15T10:30:00Z", "2026-01-15T10:30:00", "2026-01-15t10:30:00.5+01:00"),
        *("2026-02-30T10:30:00", "2026-01-15", "2026-01-15T10:30", "2026-12-31T23:59:60", "Z", ""),
    ],
)
def test_the_schema_takes_the_times_that_a_client_may_send(text: str) -> None:
    is_taken = utc_time(text) is not None
    assert fits("session/list", {"updated_after": text}) is is_taken
