"""The load is what the goals page says it is."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from tests.bench.harness.workload import (
    MIXES,
    SESSION_ID,
    append_frames,
    messages,
    native_header,
    native_line,
    pi_header,
    pi_line,
)


def test_the_mix_is_75_22_and_3_percent_in_every_hundred() -> None:
    sizes = [len(body) for body in messages("mix", 300)]
    for start in (0, 100, 200):
        assert Counter(sizes[start : start + 100]) == {300: 75, 2048: 22, 20480: 3}


def test_no_burst_of_64_has_more_than_three_large_entries() -> None:
    sizes = [len(body) for body in messages("mix", 400)]
    bursts = [sizes[start : start + 64] for start in range(len(sizes) - 64)]
    assert max(burst.count(20480) for burst in bursts) <= 3


@pytest.mark.parametrize("mix", MIXES)
def test_every_message_is_an_object_with_a_role_and_of_its_exact_size(mix: str) -> None:
    for body in messages(mix, 600):
        assert isinstance(msgspec.json.decode(body)["role"], str)
        assert b"\n" not in body
        assert len(body) in {300, 2048, 20480}


def test_the_same_arguments_give_the_same_bytes() -> None:
    assert messages("mix", 200) == messages("mix", 200)


def test_frames_are_requests_and_every_slice_of_them_ends_at_a_request() -> None:
    bodies = messages("300 B", 10)
    frames = append_frames(bodies, durability="os").of_session("bench-0000000042")
    sent = bytes(frames.part(0, 3)) + bytes(frames.part(3, 4)) + bytes(frames.part(4, 10))
    requests = [msgspec.json.decode(line) for line in sent.splitlines()]
    assert [request["id"] for request in requests] == list(range(1, 11))
    assert {request["params"]["session_id"] for request in requests} == {"bench-0000000042"}
    assert {request["params"]["durability"] for request in requests} == {"os"}
    assert [msgspec.json.encode(request["params"]["message"]) for request in requests] == bodies


def test_dealt_frames_are_the_same_requests_in_equal_hands() -> None:
    frames = append_frames(messages("mix", 25))
    hands = frames.dealt(8)
    assert [len(hand) for hand in hands] == [3] * 8
    assert b"".join(bytes(hand.part(0, 3)) for hand in hands) == bytes(frames.part(0, 24))
    assert bytes(hands[2].part(1, 2)) == bytes(frames.part(7, 8))


def test_stored_lines_are_one_chain_in_both_spellings() -> None:
    bodies = messages("300 B", 3)
    native = [msgspec.json.decode(native_line(index, body)) for index, body in enumerate(bodies)]
    foreign = [msgspec.json.decode(pi_line(index, body)) for index, body in enumerate(bodies)]
    assert [entry["parent_id"] for entry in native] == [None, native[0]["id"], native[1]["id"]]
    assert [entry["parentId"] for entry in foreign] == [None, foreign[0]["id"], foreign[1]["id"]]
    assert msgspec.json.decode(native_header(SESSION_ID))["id"] == SESSION_ID
    assert msgspec.json.decode(pi_header(SESSION_ID))["version"] == 3
    assert msgspec.json.decode(pi_header(SESSION_ID, cwd='/a "b"'))["cwd"] == '/a "b"'
