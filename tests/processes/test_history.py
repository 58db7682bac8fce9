"""The checker of faults under load finds every kind of fault in histories written by hand."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from tests.processes.harness.history import Acknowledged, Seen, Stored, faults, stored_in


class History:
    """Three writers, six entries, two subscribers, and nothing wrong, until a test spoils it."""

    def __init__(self) -> None:
        texts = ["a0", "b0", "c0", "c1", "a1", "b1"]
        ids = [f"id-{text}" for text in texts]
        self.stored = [
            Stored(id_, parent, text, f"bytes of {text}")
            for id_, parent, text in zip(ids, [None, *ids], texts, strict=False)
        ]
        self.acknowledged = [
            ack("b", 2, "b0"),
            ack("a", 1, "a0"),
            ack("c", 3, "c0", "c1"),
            ack("a", 5, "a1"),
            ack("b", 6, "b1"),
        ]
        seen = [Seen(seq, line.id, line.digest) for seq, line in enumerate(self.stored, 1)]
        self.subscribers = {"one": [*seen], "two": [*seen]}

    def faults(self) -> list[str]:
        return faults(self.stored, self.acknowledged, self.subscribers)


def ack(by: str, first: int, *texts: str) -> Acknowledged:
    seqs = tuple(range(first, first + len(texts)))
    return Acknowledged(by, texts, seqs, tuple(f"id-{text}" for text in texts))


def test_a_good_history_has_no_fault() -> None:
    assert History().faults() == []


def test_an_empty_history_has_no_fault() -> None:
    assert faults([], [], {"one": []}) == []


def lose_the_last(history: History) -> None:
    del history.stored[-1]
    for seen in history.subscribers.values():
        del seen[-1]


def lose_one_unseen(history: History) -> None:
    history.acknowledged.append(ack("d", 7, "d0"))


def store_twice_under_two_ids(history: History) -> None:
    again = msgspec.structs.replace(history.stored[1], id="id-x", parent_id="id-b1")
    history.stored.append(again)
    for seen in history.subscribers.values():
        seen.append(Seen(7, again.id, again.digest))


def store_twice_under_one_id(history: History) -> None:
    history.stored.append(msgspec.structs.replace(history.stored[1], parent_id="id-b1"))
    for seen in history.subscribers.values():
        seen.append(Seen(7, history.stored[1].id, history.stored[1].digest))


def store_in_another_order(history: History) -> None:
    first, second = history.stored[4:]
    history.stored[4:] = [second, first]


def acknowledge_another_id(history: History) -> None:
    history.acknowledged[0] = msgspec.structs.replace(history.acknowledged[0], ids=("id-x",))


def store_what_nobody_was_told(history: History) -> None:
    history.stored.append(Stored("id-x", "id-b1", "x", "bytes of x"))
    for seen in history.subscribers.values():
        seen.append(Seen(7, "id-x", "bytes of x"))


def fork(history: History) -> None:
    history.stored[4] = msgspec.structs.replace(history.stored[4], parent_id="id-b0")


def overtake(history: History) -> None:
    history.acknowledged[1], history.acknowledged[3] = (
        history.acknowledged[3],
        history.acknowledged[1],
    )


def part_an_append(history: History) -> None:
    whole = history.acknowledged[2]
    history.acknowledged[2] = msgspec.structs.replace(whole, seqs=(3, 5))


def skip_at_one(history: History) -> None:
    del history.subscribers["two"][2]


def skip_the_first(history: History) -> None:
    del history.subscribers["two"][0]


def skip_the_last(history: History) -> None:
    del history.subscribers["two"][-1]


def see_nothing(history: History) -> None:
    history.subscribers["two"].clear()


def see_twice(history: History) -> None:
    history.subscribers["two"].insert(3, history.subscribers["two"][2])


def see_the_end_twice(history: History) -> None:
    history.subscribers["two"].append(history.subscribers["two"][-1])


def see_in_another_order(history: History) -> None:
    seen = history.subscribers["two"]
    seen[2], seen[3] = seen[3], seen[2]


def see_other_bytes(history: History) -> None:
    seen = history.subscribers["two"]
    seen[2] = msgspec.structs.replace(seen[2], digest="other bytes")


def see_another_entry(history: History) -> None:
    seen = history.subscribers["two"]
    seen[2] = msgspec.structs.replace(seen[2], id="id-x")


def see_what_is_not_stored(history: History) -> None:
    history.subscribers["two"].append(Seen(7, "id-x", "bytes of x"))


def be_told_of_another_log(history: History) -> None:
    history.subscribers["two"].insert(3, Seen(None, "", "truncated"))


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lose_the_last, "b1 was acknowledged and is lost"),
        (lose_one_unseen, "d0 was acknowledged and is lost"),
        (store_twice_under_two_ids, "b0 is stored 2 times, at [2, 7]"),
        (store_twice_under_one_id, "id-b0 is an id of 2 entries"),
        (store_in_another_order, "a1 was acknowledged as id-a1 at 5 and is at 6"),
        (acknowledge_another_id, "b0 was acknowledged as id-x at 2 and is at 2"),
        (store_what_nobody_was_told, "x is stored at [7] and nobody was told"),
        (fork, "a1 at 5 does not follow the entry before it"),
        (overtake, "a0 at 1 is before what a sent first"),
        (part_an_append, "the entries of one append are at (3, 5)"),
        (skip_at_one, "two: missed 3"),
        (skip_the_first, "two: missed 1"),
        (skip_the_last, "two: missed 6"),
        (see_nothing, "two: missed 1 to 6"),
        (see_twice, "two: saw 3 again or too late"),
        (see_the_end_twice, "two: saw 6 again or too late"),
        (see_in_another_order, "two: missed 3"),
        (see_other_bytes, "two: saw another entry at 3 than is stored"),
        (see_another_entry, "two: saw another entry at 3 than is stored"),
        (see_what_is_not_stored, "two: saw 7, which is not stored"),
        (be_told_of_another_log, "two: was told after 3 that the log is another one"),
    ],
)
def test_a_spoiled_history_is_told(spoil: Callable[[History], None], words: str) -> None:
    history = History()
    spoil(history)
    assert words in history.faults()


HEADER = b'{"type":"session_header"}\n'
LINE = (
    b'{"type":"message","id":"i%d","parent_id":null,"message":{"role":"user","content":"t%d:xx"}}'
)


def test_a_file_is_read_line_by_line() -> None:
    stored, found = stored_in(HEADER + LINE % (1, 1) + b"\n" + LINE % (2, 2) + b"\n")
    assert [(line.id, line.parent_id, line.text) for line in stored] == [
        ("i1", None, "t1"),
        ("i2", None, "t2"),
    ]
    assert stored[0].digest != stored[1].digest
    assert found == []


def test_a_torn_file_and_a_bad_line_are_told() -> None:
    stored, found = stored_in(HEADER + b"{}\n" + LINE % (2, 2) + b"\n" + LINE % (3, 3))
    assert [line.text for line in stored] == ["", "t2"]
    assert len(found) == 2
    assert "line 1 is not an entry" in found[1]
    assert "ends in the middle" in found[0]
