"""The session's state machine: commands staged, refused, committed and replayed."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from sessiond.dialects.native.dialect import NATIVE
from sessiond.errors import (
    EntryInvalid,
    EntryNotFound,
    HeadNotFound,
    IdempotencyConflict,
    InvalidParams,
    PreconditionFailed,
    SessionCorrupt,
    SessiondError,
)
from sessiond.model.entries import Custom, Entry, Label, Message, Opaque, SessionInfoEntry
from sessiond.service.log.line_indexer import LineIndexer
from sessiond.session.append import append
from sessiond.session.append_request import AppendRequest, Expected
from sessiond.session.compaction.compaction import CompactRequest, compact
from sessiond.session.context.context import plan_context
from sessiond.session.draft import Draft
from sessiond.session.index import Session
from sessiond.session.moves import BranchRequest, branch, drop, label, reset
from sessiond.session.receipts import Receipt
from sessiond.session.tree import ChildIndex, preorder
from tests.kit.lines import state_of

NOW = "2026-01-15T10:30:00.000Z"


class Bench:
    """A native session in memory with its lines, as a writer would drive it."""

    def __init__(self) -> None:
        self.session = Session(NATIVE.rules)
        self.lines: list[bytes] = [b"header"]
        self._ids = (f"e{n}" for n in itertools.count(1))

    def draft(self) -> Draft:
        stored = dict(enumerate(self.lines))
        return Draft(self.session, NATIVE, new_id=lambda: next(self._ids), now=NOW, stored=stored)

    def do(self, stage: Callable[[Draft], Any]) -> Any:
        draft = self.draft()
        result = stage(draft)
        self.store(draft)
        return result

    def store(self, draft: Draft) -> None:
        lines = list(draft.lines)
        self.lines += lines
        draft.commit()

    def append(self, *entries: Entry | Opaque, **more: Any) -> Receipt:
        request = AppendRequest(session_id="session-1", entries=list(entries), **more)
        result = self.do(lambda draft: append(draft, request))
        assert isinstance(result, Receipt)
        return result

    def replayed(self) -> Session:
        again = Session(NATIVE.rules)
        indexer = LineIndexer(again, NATIVE, {"session-1"})
        for seq, line in enumerate(self.lines[1:], 1):
            indexer.take(seq, line)
        return again

    def context(self, head: str = "main") -> list[str]:
        plan = plan_context(self.session, self.session.heads[head].leaf)
        return [self.session.names[seq] for seq in plan.seqs]


def say(text: str, role: str = "user", **more: Any) -> Message:
    return Message(message=Raw(msgspec.json.encode({"role": role, "content": text})), **more)


def tree(bench: Bench) -> list[tuple[str, int]]:
    index = ChildIndex()
    session = bench.session
    index.extend(session, session.seq)
    rows = preorder(
        session, index, seq=session.seq, leaf=session.heads["main"].leaf, when=lambda _: NOW
    )
    return [(session.names[row.seq], row.depth) for row in rows]


def test_appends_chain_below_the_leaf_and_get_dense_seqs() -> None:
    bench = Bench()
    first = bench.append(say("a"))
    second = bench.append(say("b", "assistant"))
    assert [first.seq, second.seq] == [1, 2]
    assert second.entries[0].parent_id == first.leaf_id == "e1"
    assert bench.session.heads["main"].leaf == 2


def test_replay_of_the_lines_gives_the_session_that_was_committed() -> None:
    bench = Bench()
    bench.append(say("a"), say("b", "assistant"))
    bench.do(lambda d: label(d, "e1", "start"))
    bench.append(SessionInfoEntry(name="Title", tags=["x"]))
    bench.do(lambda d: branch(d, BranchRequest("e1", head="side")))
    bench.append(say("c"), head="side")
    bench.do(lambda d: branch(d, BranchRequest("e1", summary="tried b")))
    bench.do(
        lambda d: compact(d, CompactRequest("session-1", summary="s", first_kept_entry_id="e1"))
    )
    bench.do(lambda d: drop(d, "side"))
    bench.do(lambda d: reset(d, "main"))
    assert state_of(bench.replayed(), "_record", "rules") == state_of(
        bench.session, "_record", "rules"
    )


def test_a_draft_leaves_the_session_alone_until_it_is_committed() -> None:
    bench = Bench()
    bench.append(say("a"))
    before = state_of(bench.replayed(), "_record", "rules")
    draft = bench.draft()
    append(draft, AppendRequest("session-1", [say("b")]))
    assert state_of(bench.session, "_record", "rules") == before


@pytest.mark.parametrize("bad", [0, 1, 2])
def test_an_atom_with_a_refused_entry_leaves_no_trace_in_the_draft(bad: int) -> None:
    bench = Bench()
    bench.append(say("a"))
    draft = bench.draft()
    entries: list[Entry | Opaque] = [say("x"), say("y"), say("z")]
    entries[bad] = Label(target_id="nowhere", label="l")
    with pytest.raises(EntryNotFound) as refused:
        append(draft, AppendRequest("session-1", entries))
    assert refused.value.data()["path"] == f"entries[{bad}].target_id"
    assert (draft.lines, draft.rows, draft.seq) == ([], [], 1)
    assert draft.leaf("main") == 1
    append(draft, AppendRequest("session-1", [say("after")]))
    bench.store(draft)
    assert bench.session.parents[2] == 1


def test_entries_of_one_call_are_marked_as_one_atom() -> None:
    bench = Bench()
    bench.append(say("a"), say("b"))
    bench.append(say("c"))
    marks = [msgspec.json.decode(line).get("atom") for line in bench.lines[1:]]
    assert marks == [[1, 2], [2, 2], None]


def test_later_commands_of_a_batch_stand_on_earlier_ones() -> None:
    bench = Bench()
    draft = bench.draft()
    one = append(draft, AppendRequest("session-1", [say("a", id="mine")]))
    two = append(draft, AppendRequest("session-1", [say("b")], expected=Expected(leaf_id="mine")))
    again = append(draft, AppendRequest("session-1", [say("a", id="mine")]))
    assert two.entries[0].parent_id == "mine"
    assert again.duplicate
    assert again.entries == one.entries
    assert again.leaf_id == two.leaf_id


@pytest.mark.parametrize("same_batch", [True, False])
def test_a_retry_by_id_or_key_is_found_and_other_content_is_refused(same_batch: bool) -> None:
    bench = Bench()
    key = {"idempotency_key": "k"}
    draft = bench.draft()

    def call(text: str, **more: Any) -> Receipt:
        nonlocal draft
        if not same_batch:
            bench.store(draft)
            draft = bench.draft()
        return append(draft, AppendRequest("session-1", [say(text)], **more))

    first = call("a", **key)
    call("between")
    retry = call("a", **key)
    assert retry.duplicate
    assert retry.entries == first.entries
    with pytest.raises(IdempotencyConflict) as conflict:
        call("b", **key)
    assert conflict.value.data()["stored_seq"] == 1
    with pytest.raises(IdempotencyConflict):
        call("a", parent_id="e1", **key)


def test_a_key_with_the_first_entries_of_its_call_alone_is_a_conflict() -> None:
    bench = Bench()
    bench.append(say("a"), say("b"), idempotency_key="k")
    assert bench.append(say("a"), say("b"), idempotency_key="k").duplicate
    with pytest.raises(IdempotencyConflict):
        bench.append(say("a"), idempotency_key="k")


def test_insignificant_whitespace_is_no_other_content() -> None:
    bench = Bench()
    bench.append(Message(id="m1", message=Raw(b'{"role":"user","content":1.50}')))
    spaced = Message(id="m1", message=Raw(b'{ "role" : "user",\n "content":1.50 }'))
    assert bench.append(spaced).duplicate
    with pytest.raises(IdempotencyConflict):
        bench.append(Message(id="m1", message=Raw(b'{"role":"user","content":1.5}')))


def test_the_duplicate_check_comes_before_expected() -> None:
    bench = Bench()
    guarded = {"expected": Expected(leaf_id=None)}
    bench.append(say("a", id="m1"), **guarded)
    assert bench.append(say("a", id="m1"), **guarded).duplicate


def test_some_ids_stored_and_others_not_is_a_conflict() -> None:
    bench = Bench()
    bench.append(say("a", id="m1"))
    with pytest.raises(IdempotencyConflict):
        bench.append(say("a", id="m1"), say("b", id="m2"))


def test_expected_says_what_was_missed_oldest_first() -> None:
    bench = Bench()
    for text in "abcd":
        bench.append(say(text))
    with pytest.raises(PreconditionFailed) as failed:
        bench.append(say("x"), expected=Expected(leaf_id="e2"))
    data = failed.value.data()
    assert data["actual"] == {"leaf_id": "e4", "seq": 4}
    assert data["missed"] == ["e3", "e4"]
    bench.do(lambda d: branch(d, BranchRequest("e1")))
    other = bench.append(say("other"))
    with pytest.raises(PreconditionFailed) as failed:
        bench.append(say("x"), expected=Expected(leaf_id="e4"))
    assert failed.value.data()["missed"] == [other.leaf_id]
    with pytest.raises(PreconditionFailed) as failed:
        bench.append(say("x"), expected=Expected(leaf_id="unheard-of"))
    assert failed.value.data()["missed"] == []


def test_a_conflict_can_branch_to_a_head_of_its_own() -> None:
    bench = Bench()
    bench.append(say("a"), say("b"))
    stale = {"expected": Expected(leaf_id="e1"), "branch_on_conflict": True}
    aside = bench.append(say("x"), **stale)
    assert aside.head == "main-2"
    assert aside.entries[0].parent_id == "e1"
    assert bench.session.names[bench.session.heads["main"].leaf] == "e2"
    assert bench.append(say("y"), **stale).head == "main-3"


def test_a_head_needs_a_parent_to_come_into_being() -> None:
    bench = Bench()
    bench.append(say("a"))
    with pytest.raises(HeadNotFound):
        bench.append(say("x"), head="agent")
    made = bench.append(say("x"), say("y"), head="agent", parent_id="e1")
    assert [entry.parent_id for entry in made.entries] == ["e1", made.entries[0].id]
    assert bench.append(say("z"), head="agent").entries[0].parent_id == made.leaf_id
    assert bench.session.names[bench.session.heads["main"].leaf] == "e1"


def test_records_stand_in_no_tree_and_move_no_head() -> None:
    bench = Bench()
    bench.append(say("a"))
    marked = bench.do(lambda d: label(d, "e1", "x"))
    bench.append(SessionInfoEntry(name="t"))
    after = bench.append(say("b"))
    assert after.entries[0].parent_id == "e1"
    assert after.seq == marked.seq + 2
    assert [name for name, _ in tree(bench)] == ["e1", after.leaf_id]
    with pytest.raises(EntryNotFound):
        bench.append(say("c"), parent_id="nope")


def test_an_entry_below_a_record_stands_where_the_record_stands() -> None:
    bench = Bench()
    bench.append(say("a"))
    bench.append(say("b"))
    bench.append(Label(target_id="e1", label="x", id="mark"), parent_id="e1")
    bench.append(SessionInfoEntry(name="t", id="info"), parent_id="mark")
    below = bench.append(say("c", id="c"), parent_id="info")
    assert below.entries[0].parent_id == "info"
    assert tree(bench) == [("e1", 0), ("c", 1), ("e2", 1)]
    move = bench.do(lambda d: branch(d, BranchRequest("e2")))
    bench.append(say("d", id="d"), parent_id=bench.session.names[move.seq])
    start = bench.do(lambda d: reset(d, "main"))
    bench.append(say("r", id="r"), parent_id=bench.session.names[start.seq])
    assert bench.session.path(bench.session.node("d")) == [1, 2, bench.session.node("d")]
    assert tree(bench)[0] == ("r", 0)
    assert state_of(bench.replayed(), "_record", "rules") == state_of(
        bench.session, "_record", "rules"
    )
    assert bench.session.problems == []


def test_a_chain_of_staged_records_is_resolved_in_its_batch() -> None:
    bench = Bench()
    bench.append(say("a"))

    def stage(draft: Draft) -> None:
        for entries, parent_id in (
            ([Label(target_id="e1", label="x", id="mark")], "e1"),
            ([SessionInfoEntry(name="t", id="info")], "mark"),
            ([say("b", id="b")], "info"),
        ):
            append(draft, AppendRequest("session-1", entries, parent_id=parent_id))

    bench.do(stage)
    assert tree(bench) == [("e1", 0), ("b", 1)]
    assert state_of(bench.replayed(), "_record", "rules") == state_of(
        bench.session, "_record", "rules"
    )


def test_labels_are_set_replaced_and_cleared() -> None:
    bench = Bench()
    bench.append(say("a"))
    bench.do(lambda d: label(d, "e1", "x"))
    bench.do(lambda d: label(d, "e1", "y"))
    assert bench.session.labels[1].label == "y"
    bench.do(lambda d: label(d, "e1", ""))
    assert bench.session.labels == {}


def test_reset_starts_a_second_trunk_and_branch_returns() -> None:
    bench = Bench()
    bench.append(say("a"))
    gone = bench.do(lambda d: reset(d, "main"))
    assert gone.leaf_id is None
    assert bench.context() == []
    fresh = bench.append(say("b"))
    assert fresh.entries[0].parent_id is None
    assert bench.do(lambda d: branch(d, BranchRequest("e1"))).leaf_id == "e1"
    assert bench.context() == ["e1"]


def test_a_branch_with_a_summary_says_what_was_left() -> None:
    bench = Bench()
    bench.append(say("a"), say("b"))
    moved = bench.do(lambda d: branch(d, BranchRequest("e1", summary="b was wrong")))
    entry = msgspec.json.decode(bench.lines[-1])
    assert (entry["parent_id"], entry["from_id"]) == ("e1", "e2")
    assert bench.context() == ["e1", moved.leaf_id]


def test_main_cannot_be_dropped_and_a_dropped_head_is_gone() -> None:
    bench = Bench()
    bench.append(say("a"))
    bench.do(lambda d: branch(d, BranchRequest("e1", head="side")))
    bench.do(lambda d: drop(d, "side"))
    with pytest.raises(HeadNotFound):
        bench.append(say("x"), head="side")
    with pytest.raises(HeadNotFound):
        bench.do(lambda d: drop(d, "main"))


def test_a_pointer_compaction_keeps_from_its_first_kept_entry() -> None:
    bench = Bench()
    for text in "abcd":
        bench.append(say(text))
    request = CompactRequest("session-1", summary="a, b", first_kept_entry_id="e3")
    done = bench.do(lambda d: compact(d, request))
    after = bench.append(say("e"))
    assert bench.context() == [done.leaf_id, "e3", "e4", after.leaf_id]
    again = CompactRequest("session-1", summary="all", first_kept_entry_id="e4")
    last = bench.do(lambda d: compact(d, again))
    assert bench.context() == [last.leaf_id, "e4", after.leaf_id]
    bench.do(lambda d: branch(d, BranchRequest("e2")))
    assert bench.context() == ["e1", "e2"]


def test_a_first_kept_entry_off_the_path_is_refused() -> None:
    bench = Bench()
    bench.append(say("a"), say("b"))
    bench.do(lambda d: branch(d, BranchRequest("e1")))
    with pytest.raises(EntryInvalid):
        bench.do(
            lambda d: compact(d, CompactRequest("session-1", summary="s", first_kept_entry_id="e2"))
        )


def test_replacement_messages_need_the_leaf_they_replace() -> None:
    bench = Bench()
    bench.append(say("a"))
    messages = [Raw(b'{"role":"user","content":"short"}')]
    with pytest.raises(InvalidParams):
        bench.do(lambda d: compact(d, CompactRequest("session-1", messages=messages)))
    guarded = CompactRequest("session-1", messages=messages, expected=Expected(leaf_id="e1"))
    done = bench.do(lambda d: compact(d, guarded))
    assert bench.context() == [done.leaf_id]
    with pytest.raises(PreconditionFailed):
        bench.do(lambda d: compact(d, guarded))


@pytest.mark.parametrize(
    "request_",
    [
        CompactRequest("session-1", summary="  "),
        CompactRequest("session-1", messages=[Raw(b"{}")], expected=Expected(leaf_id="e1")),
        CompactRequest("session-1", messages=[], expected=Expected(leaf_id="e1")),
    ],
)
def test_an_empty_compaction_is_refused(request_: CompactRequest) -> None:
    bench = Bench()
    bench.append(say("a"))
    if request_.messages == []:
        bench.do(lambda d: compact(d, request_))
        assert bench.context() == ["e2"]
        return
    with pytest.raises(EntryInvalid):
        bench.do(lambda d: compact(d, request_))


def test_a_session_with_a_bad_line_refuses_mutations_but_knows_its_duplicates() -> None:
    bench = Bench()
    bench.append(say("a", id="m1"))
    bench.session.read_only_line = 2
    for stage in (
        lambda d: append(d, AppendRequest("session-1", [say("x")])),
        lambda d: label(d, "m1", "x"),
        lambda d: reset(d, "main"),
        lambda d: branch(d, BranchRequest("m1")),
    ):
        with pytest.raises(SessionCorrupt):
            bench.do(stage)
    assert bench.append(say("a", id="m1")).duplicate


def test_unknown_types_are_nodes_and_never_in_context() -> None:
    bench = Bench()
    bench.append(say("a"))
    bench.append(Opaque(type="x.y", fields={"any": Raw(b"1.50")}))
    bench.append(Custom(custom_type="t", data=Raw(b"{}")))
    bench.append(say("b"))
    assert bench.session.depths[4] == 4
    assert bench.context() == ["e1", "e4"]
    assert b'"any":1.50' in bench.lines[2]


def test_an_unknown_parent_makes_a_visible_root_and_is_reported() -> None:
    session = Session(NATIVE.rules)
    session.fold(
        NATIVE.row(b'{"type":"message","id":"a","parent_id":"b","message":{"role":"user"}}')
    )
    session.fold(
        NATIVE.row(b'{"type":"message","id":"b","parent_id":"a","message":{"role":"user"}}')
    )
    assert list(session.parents) == [0, 0, 1]
    assert [(p.line, p.kind) for p in session.problems] == [(2, "orphan")]


def test_a_chain_of_200000_entries_is_walked_without_recursion() -> None:
    session = Session(NATIVE.rules)
    line = b'{"type":"message","id":"%d","parent_id":%s,"message":{"role":"user"}}'
    for n in range(1, 200_001):
        session.fold(NATIVE.row(line % (n, b'"%d"' % (n - 1) if n > 1 else b"null")))
    assert session.depths[200_000] == 200_000
    assert len(plan_context(session, 200_000).seqs) == 200_000
    index = ChildIndex()
    index.extend(session, session.seq)
    rows = list(preorder(session, index, seq=session.seq, leaf=200_000, when=lambda _: ""))
    assert (rows[0].depth, rows[-1].depth) == (0, 199_999)


def test_siblings_come_active_first_then_by_time_then_by_seq() -> None:
    bench = Bench()
    bench.append(say("root"))
    for text in "abc":
        bench.append(say(text), parent_id="e1", head=f"h{text}")
    assert tree(bench) == [("e1", 0), ("e2", 1), ("e3", 1), ("e4", 1)]
    bench.do(lambda d: branch(d, BranchRequest("e3")))
    assert tree(bench) == [("e1", 0), ("e3", 1), ("e2", 1), ("e4", 1)]


def test_every_error_of_a_stage_is_one_a_client_understands() -> None:
    bench = Bench()
    for stage in (
        lambda d: branch(d, BranchRequest("nowhere")),
        lambda d: label(d, "nowhere", "x"),
        lambda d: append(d, AppendRequest("session-1", [say("x")], parent_id="nowhere")),
        lambda d: append(d, AppendRequest("session-1", [Message(message=Raw(b"[]"))])),
    ):
        with pytest.raises(SessiondError) as refused:
            bench.do(stage)
        assert refused.value.data()["path"]


@pytest.mark.parametrize(
    ("stands_at", "kept", "problems"),
    [("e2", ["e3"], []), ("e1", [], ["first_kept_off_path"])],
)
def test_a_compaction_keeps_what_is_behind_a_record_that_stands_on_its_path(
    stands_at: str, kept: list[str], problems: list[str]
) -> None:
    session = Session(NATIVE.rules)
    said = (
        '{{"type":"message","id":"{0}","parent_id":"{1}","message":{{"role":"user","content":""}}}}'
    )
    lines = [
        *(said.format(f"e{at}", f"e{at - 1}") for at in (1, 2)),
        f'{{"type":"label","id":"r","parent_id":"{stands_at}","target_id":"e1","label":"x"}}',
        said.format("e3", "e2"),
        '{"type":"compaction","id":"c","parent_id":"e3","summary":"s","first_kept_entry_id":"r"}',
    ]
    indexer = LineIndexer(session, NATIVE, ())
    for seq, line in enumerate(lines, 1):
        indexer.take(seq, line.encode())
    plan = plan_context(session, session.ids["c"])
    assert [session.names[seq] for seq in plan.seqs] == ["c", *kept]
    assert [one.kind for one in session.problems if one.kind != "orphan"] == problems
