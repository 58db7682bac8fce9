"""The checker of the torture run finds every kind of fault in a history written by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.torture.history import SESSION, History
from tests.torture.records import (
    Act,
    Answered,
    Asked,
    Flushed,
    Heard,
    Lagged,
    Refused,
    Seen,
    Sent,
    Synced,
    Trouble,
    Watching,
    Writing,
    Wrote,
)


def test_a_good_history_has_no_fault() -> None:
    assert History().faults() == []


def test_a_subscription_that_nothing_more_was_told_may_have_lagged() -> None:
    # Torture, seed 9958: a stop of the daemon ended the connection between the answer and `lagged`.
    history = History()
    log = history.logs["a#1"]
    history.logs["a#1"] = [one for one in log if not (isinstance(one, Seen) and one.seq >= 5)]
    assert history.faults() == []


@pytest.mark.parametrize(
    ("head", "parent", "expected"),
    [
        ("h", "m6", {"seq": 13}),
        ("h", "m6", {"seq": 14}),
        ("main", "m9", {"leaf_id": "m9", "seq": 13}),
        ("main", "f14", {"leaf_id": "f14"}),
    ],
)
def test_foreign_lines_may_land_between_a_look_and_its_write(
    head: str, parent: str, expected: dict[str, Any]
) -> None:
    # Torture, seed 41129: the head of the append was another than that of the foreign lines.
    history = History()
    append_behind_two(history, head=head, parent=parent, expected=expected)
    assert history.faults() == []


def test_a_refusal_may_not_know_of_what_landed_before_its_batch() -> None:
    history = History()
    n = history.ask("b", "append", Sent("message", "m16"), expected={"leaf_id": "m1"})
    append_behind_two(history, head="h", parent="m6")
    history.refused("b", n, "precondition_failed", actual={"leaf_id": "m9", "seq": 16})
    assert history.faults() == []


def append_behind_two(history: History, **params: Any) -> None:
    """Append behind two foreign lines that came while the request was on its way."""

    def meanwhile() -> None:
        history.beside("f14", "m9")
        history.beside("f15", "f14")

    history.append("b", "m14", meanwhile=meanwhile, **params)


def asked_of(mark: str) -> Callable[[Asked], bool]:
    return lambda one: mark in [sent.mark for sent in one.act.entries]


def sights_with(history: History, name: str) -> list[dict[str, Any]]:
    """Return the sights of b's answers that have a member of this name."""
    answers = (one for one in history.logs["b"] if isinstance(one, Answered))
    return [one.sight for one in answers if name in one.sight]


def seen_at(conn: str, seq: int) -> Callable[[Seen], bool]:
    return lambda one: (one.conn, one.seq) == (conn, seq)


# -- what is stored ------------------------------------------------------------------------


def lose_the_last(history: History) -> None:
    del history.lines[-1]


def lose_one_in_the_middle(history: History) -> None:
    del history.lines[7]


def store_twice(history: History) -> None:
    history.line(history.lines[1], "other", parent="m9")


def store_twice_under_one_id(history: History) -> None:
    history.line(history.lines[1], "m2", parent="m9")


def store_what_was_refused(history: History) -> None:
    history.line(b'{"type":"message","message":{"role":"user","mark":"m5"}}', "r", parent="m9")


def store_what_nobody_sent(history: History) -> None:
    history.line(b'{"type":"message","message":{"role":"user"}}', "strange", parent="m9")


def move_what_nobody_moved(history: History) -> None:
    history.line(b'{"type":"leaf","target_id":"m2","reason":"branch"}', "strange", parent="m9")


def store_half_of_a_lost_atom(history: History) -> None:
    del history.lines[11:]


def change_a_payload(history: History) -> None:
    history.store(b'"content":""', b'"content":"!"')


def change_an_escape(history: History) -> None:
    history.store(b"\\u00e9", "é".encode())


def acknowledge_another_id(history: History) -> None:
    (old,) = (sight for sight in sights_with(history, "entries") if sight["seq"] == 2)
    rows = [{**row, "id": "m3"} for row in old["entries"]]
    history.change(Answered, lambda one: one.sight is old, sight={**old, "entries": rows})


def change_a_parent(history: History) -> None:
    history.store(b'"parent_id":"m2"', b'"parent_id":"m1"')


def forget_an_atom(history: History) -> None:
    history.store(
        b',"atom":[2,2],"message":{"role":"user","mark":"m4"',
        b',"message":{"role":"user","mark":"m4"',
    )
    history.store(b',"atom":[2,2]', b"")


def store_on_another_head(history: History) -> None:
    history.store(b'"head":"h"', b'"head":"g"')


def tear_the_file(history: History) -> None:
    history.lines.append(b'{"type":"mess')
    history.is_torn = True


def break_a_line(history: History) -> None:
    history.lines[9] = b"not JSON"


def lose_what_another_wrote(history: History) -> None:
    history.store(b'"id":"f10"', b'"id":"g10"')


def see_nobody_behind_a_line(history: History) -> None:
    history.change(Seen, seen_at("w#1", 10), external=False)


def see_another_behind_a_line(history: History) -> None:
    history.change(Seen, seen_at("w#1", 9), external=True)


def store_a_retry_again(history: History) -> None:
    (old,) = sights_with(history, "duplicate")
    history.change(Answered, lambda one: one.sight is old, sight={**old, "duplicate": False})


def refuse_a_retry(history: History) -> None:
    n = history.ask("b", "append", Sent("message", "m2", "m2"), expected={"leaf_id": "m1"})
    actual = {"leaf_id": "m9", "seq": 13}
    history.refused("b", n, "precondition_failed", actual=actual)


def have_a_bug(history: History) -> None:
    history.refused("b", history.ask("b", "get"), "internal", incident_id="1")


def complain(history: History) -> None:
    history.log("b", Trouble(history.tick(), "b", "a message cannot be read"))


def lose_the_whole_file(history: History) -> None:
    sight = {"entries": [], "durability": "disk"}
    act = Act("session/append", "s-gone", {}, (Sent("message", "g1"),))
    history.log("b", Asked(history.tick(), "b", 901, act))
    history.told("b", 901, **sight)


# -- when ------------------------------------------------------------------------------------


def tell_before_it_is_asked(history: History) -> None:
    """b knows nine lines before a asks for what becomes the first."""
    history.logs["b"].insert(1, Asked(1, "b", 900, history.logs["b"][1].act))
    history.logs["b"][1] = Asked(2, "b", 900, _get())
    history.logs["b"].insert(2, Answered(3, "b", 900, _shown(9)))


def read_what_is_past(history: History) -> None:
    history.answer("get", **_shown(2))


def overtake_on_a_connection(history: History) -> None:
    """Let `a` ask for r5 before it asks for m1."""
    history.change(Asked, lambda one: one.act.method == "session/branch", t=55)


def answer_before_the_event(history: History) -> None:
    log = history.logs["a#1"]
    at = next(i for i, one in enumerate(log) if isinstance(one, Seen))
    log[at], log[at + 1] = log[at + 1], log[at]


def two_with_one_expectation(history: History) -> None:
    history.append("b", "m14", parent="m9", expected={"leaf_id": "m9"})
    history.append("a#1", "m15", parent="m9", expected={"leaf_id": "m9"})


def count_another_line_as_foreign(history: History) -> None:
    def meanwhile() -> None:
        history.append("a#1", "m15", parent="m9")
        history.beside("f15", "m15")

    history.append("b", "m14", parent="m6", meanwhile=meanwhile, head="h", expected={"seq": 13})


def miss_a_foreign_line_that_was_told(history: History) -> None:
    history.beside("f14", "m9")
    history.append("b", "m14", parent="m9", expected={"leaf_id": "m9"})


def miss_a_foreign_line_that_was_written(history: History) -> None:
    append_behind_two(history, parent="m9", expected={"leaf_id": "m9"})
    asked = _moment(history, "m14")
    history.change(Writing, lambda one: one.id == "f14", t=asked - 2)
    history.change(Wrote, lambda one: one.id == "f14", t=asked - 1)


def refuse_what_was_so(history: History) -> None:
    n = history.ask("b", "append", Sent("message", "m16"), expected={"leaf_id": "m9"})
    history.refused("b", n, "precondition_failed", actual={"leaf_id": "m9", "seq": 13})


def refuse_by_what_never_was(history: History) -> None:
    actual = {"leaf_id": "m3", "seq": 4}
    history.change(Refused, lambda one: one.kind == "precondition_failed", data={"actual": actual})


def miss_an_entry_that_is_there(history: History) -> None:
    n = history.ask("b", "append", Sent("message", "m17"), parent_id="m2")
    history.refused("b", n, "entry_not_found", entry_id="m2")


def miss_a_head_that_is_there(history: History) -> None:
    n = history.ask("b", "append", Sent("message", "m18"), head="h")
    history.refused("b", n, "head_not_found", head="h")


# -- what is shown -----------------------------------------------------------------------------


def show_another_leaf(history: History) -> None:
    history.answer("get", leaf_id="m8")


def show_an_older_head(history: History) -> None:
    heads = [{"name": "main", "leaf_id": "m9", "seq": 9}, {"name": "h", "leaf_id": "m1", "seq": 5}]
    history.answer("heads", heads=heads)


def show_a_page_with_a_hole(history: History) -> None:
    history.answer("entries", rows=[])


def show_a_later_child(history: History) -> None:
    (path,) = sights_with(history, "more")
    rows = path["rows"]
    history.answer("path", rows=[[*rows[0][:2], 3, "l7"], rows[1]])


def show_no_label(history: History) -> None:
    history.answer("labels", labels=[])


def show_another_child(history: History) -> None:
    row = sights_with(history, "row")[0]["row"]
    history.answer("entry", row=[*row[:2], ["m2"], "l7"])


def show_another_tree(history: History) -> None:
    history.answer("tree", nodes=[["m1", None, 1, "message", True, None, 2]])


def keep_too_much_of_a_context(history: History) -> None:
    history.answer("build_context", unchanged=2, count=0)


def show_other_messages(history: History) -> None:
    history.answer("build_context", messages="0")


# -- what is watched ---------------------------------------------------------------------------


def skip_an_event(history: History) -> None:
    history.logs["v"] = [one for one in history.logs["v"] if getattr(one, "seq", 0) != 3]


def skip_the_last_event(history: History) -> None:
    log = history.logs["w#1"]
    history.logs["w#1"] = [one for one in log if not (isinstance(one, Seen) and one.seq == 12)]
    history.change(Watching, lambda one: one.conn == "w#2", after=11)


def skip_the_first_event(history: History) -> None:
    history.logs["v"] = [
        one for one in history.logs["v"] if not (isinstance(one, Seen) and one.seq == 1)
    ]


def see_in_another_order(history: History) -> None:
    log = history.logs["v"]
    third, fourth = (
        at for at, one in enumerate(log) if isinstance(one, Seen) and one.seq in {3, 4}
    )
    log[third], log[fourth] = log[fourth], log[third]


def see_another_entry(history: History) -> None:
    history.change(Seen, seen_at("v", 3), id="m9")


def see_what_is_not_stored(history: History) -> None:
    history.log("v", Seen(history.tick(), "v", SESSION, 14, "m14", "0", "e", "main", "m14"))


def see_twice(history: History) -> None:
    log = history.logs["v"]
    log.append(log[-1])


def see_other_bytes(history: History) -> None:
    history.change(Seen, seen_at("v", 3), digest="0")


def see_another_leaf(history: History) -> None:
    history.change(Seen, seen_at("v", 5), leaf="m2")


def see_what_is_filtered(history: History) -> None:
    history.change(Watching, lambda one: one.conn == "v", types=("label",))


def see_without_asking(history: History) -> None:
    history.log("b", history.logs["v"][-1])
    history.logs["b"][-1] = Seen(history.tick(), "b", SESSION, 13, "r13", "0")


def sync_without_a_replay(history: History) -> None:
    history.log("w#1", Synced(history.tick(), "w#2", SESSION, 13))


def sync_too_far(history: History) -> None:
    history.change(Synced, lambda one: one.conn == "w#2", seq=20)


def flush_too_early(history: History) -> None:
    history.log("a#1", Flushed(history.tick(), "a#1", SESSION, 13))
    log = history.logs["a#1"]
    history.logs["a#1"] = [one for one in log if not (isinstance(one, Seen) and one.seq == 13)]


def lag_behind_what_was_seen(history: History) -> None:
    history.log("a#1", Lagged(history.tick(), "a#1", SESSION, 4))


def refuse_a_cursor(history: History) -> None:
    history.change(Watching, lambda one: one.conn == "w#2", replaced="epoch")


def begin_a_new_epoch(history: History) -> None:
    history.change(Watching, lambda one: one.conn == "w#2", epoch="f")


def drop_a_signal(history: History) -> None:
    log = history.logs["w#1"]
    history.logs["w#1"] = [one for one in log if getattr(one, "mark", "") != "s2"]


def hear_what_nobody_said(history: History) -> None:
    history.change(Heard, lambda one: one.mark == "s2", mark="s4")


def hear_twice(history: History) -> None:
    history.change(Heard, lambda one: one.mark == "s3", mark="s2")


# -- leases --------------------------------------------------------------------------------------


def move_a_leased_head(history: History) -> None:
    """Turn a refusal of `a` into an acknowledgement while `b` has the lease of main."""
    log = history.logs["a#1"]
    at = next(i for i, one in enumerate(log) if isinstance(one, Refused))
    row = {"id": "m9", "parent_id": "m8", "seq": 9}
    sight = {"entries": [row], "leaf_id": "m9", "seq": 9, "head": "main"}
    log[at] = Answered(log[at].t, "a#1", log[at].n, sight)


def lease_twice(history: History) -> None:
    history.change(Asked, _asks("acquire", "a#1"), t=_moment(history, "m8") + 1)
    history.change(
        Answered, lambda one: one.sight.get("lease_id") == "L2", t=_moment(history, "m8") + 2
    )


def store_under_a_lease_that_was_released(history: History) -> None:
    history.append("b", "m19", parent="m9", lease_id="L1")


def store_under_a_lease_of_the_dead(history: History) -> None:
    history.append("a#1", "m20", parent="m9", lease_id="L2")


def give_an_old_epoch(history: History) -> None:
    history.change(
        Answered,
        lambda one: one.sight.get("lease_id") == "L2",
        sight={"lease_id": "L2", "epoch": 5},
    )


def slip_in_between(history: History) -> None:
    """m9 was stored under no lease, between two lines of one."""
    (m9,) = (one.act for one in history.logs["b"] if isinstance(one, Asked) and asked_of("m9")(one))
    history.change(Asked, asked_of("m9"), act=_without_lease(m9))
    history.append("b", "m21", parent="m9", lease_id="L1")


def _without_lease(act: Any) -> Any:
    return type(act)(act.method, act.session, {}, act.entries)


def _asks(method: str, conn: str) -> Callable[[Asked], bool]:
    return lambda one: (one.act.method, one.conn) == (f"session/{method}", conn)


def _moment(history: History, mark: str) -> int:
    return next(
        one.t for one in history.logs["b"] if isinstance(one, Asked) and asked_of(mark)(one)
    )


def _get() -> Any:
    return type(History().logs["b"][1].act)("session/get", SESSION)


def _shown(seq: int) -> dict[str, Any]:
    heads = [{"name": "main", "leaf_id": "m2", "seq": 2}]
    return {"seq": seq, "leaf_id": "m2", "heads": heads, "title": None, "message_total": 2}


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lose_the_last, "acknowledged at 13 and is lost"),
        (lose_one_in_the_middle, "was acknowledged at 8, where message m9 is"),
        (store_twice, "m2 is stored 2 times, at [2, 14]"),
        (store_twice_under_one_id, "m2 is the id of two entries, 2 and 14"),
        (store_what_was_refused, "was refused (precondition_failed), stored at [14]"),
        (store_what_nobody_sent, "message at 14 is stored and nobody sent it"),
        (move_what_nobody_moved, "leaf at 14 is stored and nobody sent it"),
        (store_half_of_a_lost_atom, "only a part is stored, at [11]"),
        (change_a_payload, "message at 1 has other bytes than were sent"),
        (change_an_escape, "has other bytes than were sent"),
        (acknowledge_another_id, "was acknowledged at 2, where message m2 is"),
        (change_a_parent, "the parent of 3 is another than was told"),
        (forget_an_atom, "the atom of 4 is None"),
        (store_on_another_head, "6 is on g, not h"),
        (tear_the_file, "the file ends in the middle of line 14"),
        (break_a_line, "line 10 is no entry"),
        (lose_what_another_wrote, "f10 was written by another program and is lost"),
        (see_nobody_behind_a_line, "w#1: was not told that 10 is another program's"),
        (see_another_behind_a_line, "w#1: was told that 9 is another program's"),
        (store_a_retry_again, "was stored before, and is no duplicate"),
        (refuse_a_retry, "was stored before, and refused with precondition_failed"),
        (lose_the_whole_file, "s-gone was on disk and has no file"),
        (have_a_bug, "was refused with internal"),
        (complain, "b: a message cannot be read"),
        (tell_before_it_is_asked, "1 was asked for when 9 was already told of"),
        (read_what_is_past, "at 2 shows what nobody could: 9"),
        (overtake_on_a_connection, "at 1 is not behind branch"),
        (answer_before_the_event, "was answered before its event"),
        (two_with_one_expectation, "with expected: it was not so"),
        (count_another_line_as_foreign, "with expected: it was not so"),
        (miss_a_foreign_line_that_was_told, "with expected: it was not so"),
        (miss_a_foreign_line_that_was_written, "with expected: it was not so"),
        (refuse_what_was_so, "it was so"),
        (refuse_by_what_never_was, "main is at m4, not m3"),
        (miss_an_entry_that_is_there, "m2 is there"),
        (miss_a_head_that_is_there, "h is there"),
        (show_another_leaf, "main is at m9, not m8"),
        (show_an_older_head, "are elsewhere"),
        (show_a_page_with_a_hole, "3 entries are missing"),
        (show_a_later_child, "the children of 1 are others"),
        (show_no_label, "the labels are others"),
        (show_another_child, "the children of 1 are others"),
        (show_another_tree, "1 is shown otherwise"),
        (keep_too_much_of_a_context, "1 messages are unchanged, not 2"),
        (show_other_messages, "the messages are others"),
        (skip_an_event, "v: missed 1 from 3 on before it saw more"),
        (skip_the_last_event, "w#2: missed 1 from 12 on before it was synced"),
        (skip_the_first_event, "v: missed 1 from 1 on before it saw more"),
        (see_in_another_order, "v: saw 3 again or too late"),
        (see_another_entry, "v: saw another entry at 3 than is stored"),
        (see_what_is_not_stored, "v: saw 14, which is not stored"),
        (see_twice, "v: saw 13 again or too late"),
        (see_other_bytes, "v: saw another entry at 3 than is stored"),
        (see_another_leaf, "v: was told at 5 that h is at m2"),
        (see_what_is_filtered, "v: saw 1, which its filters hold back"),
        (see_without_asking, "b: saw 13 without a subscription"),
        (sync_without_a_replay, "w#2: was synced at 13 without a replay"),
        (sync_too_far, "w#2: was synced at 20, which is not stored"),
        (flush_too_early, "a#1: missed 1 from 13 on before it was flushed"),
        (lag_behind_what_was_seen, "a#1: was lagged at 4 behind 13"),
        (refuse_a_cursor, "w#2: its cursor 12 was refused: epoch"),
        (begin_a_new_epoch, "s-one had 2 epochs"),
        (drop_a_signal, "and nobody told it"),
        (hear_what_nobody_said, "w#1: heard s4, which nobody had said"),
        (hear_twice, "w#1: heard s2 twice"),
        (move_a_leased_head, "moved main while acquire"),
        (lease_twice, "got main while acquire"),
        (store_under_a_lease_that_was_released, "succeeded under a lease that was over"),
        (store_under_a_lease_of_the_dead, "succeeded under a lease of a daemon that was killed"),
        (give_an_old_epoch, "got epoch 5, 5 was given before"),
        (slip_in_between, "9 moves main, leased to acquire"),
    ],
)
def test_a_spoiled_history_is_told(spoil: Callable[[History], None], words: str) -> None:
    history = History()
    spoil(history)
    found = history.faults()
    assert any(words in fault for fault in found), found
