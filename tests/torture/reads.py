"""Every answer is what the file says as of one moment between its question and it.

Law: each answer becomes a question to the replay, to be asked at every seq from a first
to a last one; one fitting seq is enough. Where an answer names its seq, that is the only one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from msgspec import Struct

from tests.torture import shown
from tests.torture.order import Windows
from tests.torture.records import Answered, Refused
from tests.torture.replay import Replay
from tests.torture.story import MUTATIONS, Op, Story

__all__ = ["After", "Question", "questions", "replayed"]

Test = Callable[[Replay], str | None]
"""A test that returns a misfit in words, or None if all fits."""
Sight = Callable[[Replay, dict[str, Any], dict[str, Any]], str | None]
"""A test of a replay with the params of a request and the sight of its answer."""


class Question(Struct, eq=False):
    """A fact that an actor was told, and the lines between which it must have been true."""

    name: str
    first: int
    last: int
    test: Test


class After(Struct, frozen=True):
    """The effect of a line: the moved head, and its leaf right after the line."""

    head: str | None
    leaf_id: str | None


def questions(story: Story, windows: Windows) -> list[Question]:
    """Return all questions about a session."""
    found: list[Question] = []
    own = _own_windows(story)
    for op in story.ops:
        floor, ceiling = windows.floor(op.asked), windows.ceiling(op.ended)
        above, below = own.get(op, (0, ceiling))
        floor, ceiling = max(floor, above), min(ceiling, below)
        match op.outcome:
            case Answered() if op.act.method in MUTATIONS:
                known = windows.looked(op.asked)
                found += _of_mutation(op, op.outcome.sight, floor, ceiling, known)
            case Answered():
                found += _of_answer(op, op.outcome.sight, floor, ceiling)
            case Refused():
                found += _of_refusal(op, op.outcome, floor, ceiling)
            case _:
                pass
    return found


def _own_windows(story: Story) -> dict[Op, tuple[int, int]]:
    """Return the lines between which each read of a raw connection must see the session.

    These are behind the connection's own earlier mutations and before its later ones.
    """
    by_conn: defaultdict[str, list[Op]] = defaultdict(list)
    for op in story.ops:
        if op.kind == "raw":
            by_conn[op.conn].append(op)
    found: dict[Op, tuple[int, int]] = {}
    for ops in by_conn.values():
        above, below = 0, 1 << 60
        highest: list[int] = []
        for op in ops:
            highest.append(above)
            above = max([above, *op.seqs])
        for op, at_least in zip(reversed(ops), reversed(highest), strict=True):
            if op.act.method not in MUTATIONS:
                found[op] = (at_least, below)
            elif op.is_first:
                below = min(below, op.seqs[0] - 1)
    return found


def replayed(replay: Replay, asked: list[Question]) -> tuple[list[After], list[str]]:
    """Replay the file and ask each question at its time; what lines did, and what did not fit."""
    starting: defaultdict[int, list[Question]] = defaultdict(list)
    found: list[str] = []
    for question in asked:
        if question.first > question.last or question.last > len(replay.rows):
            found.append(
                f"{question.name} shows what nobody could: {question.first} to {question.last}"
            )
        else:
            starting[max(0, question.first)].append(question)
    after = [After(None, None)]
    open_: list[Question] = []
    for seq in range(len(replay.rows) + 1):
        if seq:
            found += replay.advance()
            row = replay.rows[seq - 1]
            moved = row.head in replay.heads and replay.heads[row.head][1] == seq
            dropped = row.type == "leaf" and not moved
            is_head = moved or dropped
            leaf = replay.leaf_id(row.head) if moved else None
            after.append(After(row.head if is_head else None, leaf if is_head else ""))
        open_ += starting.pop(seq, ())
        still: list[Question] = []
        for question in open_:
            wrong = question.test(replay)
            if wrong is not None and seq >= question.last:
                found.append(
                    f"{question.name}: {wrong} (lines {question.first} to {question.last})"
                )
            elif wrong is not None:
                still.append(question)
        open_ = still
    return after, found


# -- what is asked -------------------------------------------------------------------------

# Answers that say as of which line they are, and those that do not.
_NAMED: Final[dict[str, Sight]] = {
    "session/entries": shown.entries,
    "session/build_context": shown.context,
    "session/tree": shown.tree,
    "session/get": shown.session,
}
_UNNAMED: Final[dict[str, Sight]] = {
    "session/path": shown.path,
    "session/entry": shown.entry,
    "session/heads": shown.heads,
    "session/labels": shown.labels,
}


def _of_answer(op: Op, sight: dict[str, Any], floor: int, ceiling: int) -> list[Question]:
    method, params = op.act.method, op.act.params
    if sight.get("not_modified"):
        return []
    if (test := _NAMED.get(method)) is not None:
        return [_exactly(op.name, sight["seq"], floor, ceiling, partial(_ask, test, params, sight))]
    if (test := _UNNAMED.get(method)) is not None:
        return [Question(op.name, floor, ceiling, partial(_ask, test, params, sight))]
    return []


def _ask(test: Sight, params: dict[str, Any], sight: dict[str, Any], replay: Replay) -> str | None:
    return test(replay, params, sight)


def _exactly(name: str, seq: int, floor: int, ceiling: int, test: Test) -> Question:
    """Return a question about one seq; about none if that line cannot have been the last then."""
    if floor <= seq <= ceiling:
        return Question(name, seq, seq, test)
    return Question(f"{name} at {seq}", floor, min(ceiling, floor - 1), test)


def _of_mutation(
    op: Op, sight: dict[str, Any], floor: int, ceiling: int, known: int
) -> list[Question]:
    params, name = op.act.params, op.name
    if op.act.method in {"session/label", "session/update"} or not op.seqs:
        return []
    head = sight.get("head", params.get("head", "main"))
    if op.is_duplicate:
        return [
            Question(name, floor, ceiling, lambda replay: shown.leaf(replay, head, sight, floor))
        ]
    found: list[Question] = []
    before, last = op.seqs[0] - 1, op.seqs[-1]
    if not params.get("drop"):
        found.append(
            Question(name, last, last, lambda replay: shown.leaf(replay, head, sight, last))
        )
    expected = params.get("expected")
    if expected is not None:
        asked_head = params.get("head", "main")
        if params.get("on_conflict") == "branch":
            # Only a head that has left its place is a conflict, not a line behind `seq`.
            expected = {"leaf_id": expected["leaf_id"]}
        branched = head != asked_head
        found.append(
            Question(
                f"{name} with expected",
                before,
                before,
                lambda replay: shown.held(replay, asked_head, expected, known, holds=not branched),
            )
        )
    return found


def _of_refusal(op: Op, refused: Refused, floor: int, ceiling: int) -> list[Question]:
    params, name = op.act.params, op.name
    head = params.get("head", "main")
    match refused.kind:
        case "precondition_failed":
            actual = refused.data["actual"]
            seq = actual["seq"]
            expected = params["expected"]

            def test(replay: Replay) -> str | None:
                wrong = shown.leaf(replay, head, actual, floor)
                return wrong or shown.held(replay, head, expected, floor, holds=False)

            return [_exactly(f"the refusal of {name}", seq, floor, ceiling, test)]
        case "head_not_found":
            return [
                Question(
                    f"the refusal of {name}",
                    floor,
                    ceiling,
                    lambda replay: f"{head} is there" if head in replay.heads else None,
                )
            ]
        case "entry_not_found" if refused.data.get("entry_id"):
            entry_id = refused.data["entry_id"]
            return [
                Question(
                    f"the refusal of {name}",
                    floor,
                    ceiling,
                    lambda replay: f"{entry_id} is there" if replay.node(entry_id) else None,
                )
            ]
        case _:
            return []
