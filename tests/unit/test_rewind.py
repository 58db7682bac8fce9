"""Rewinding: where a head goes, which entries are named, what is refused, what a replay shows."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from sessiond.dialects.base import Dialect
from sessiond.dialects.native.dialect import NATIVE
from sessiond.dialects.pi.dialect import PI
from sessiond.errors import EntryInvalid, EntryNotFound, HeadNotFound, PreconditionFailed
from sessiond.limits import REWOUND_IDS_MAX
from sessiond.model.entries import Message
from sessiond.session.append import append
from sessiond.session.append_request import AppendRequest, Expected
from sessiond.session.draft import Draft
from sessiond.session.index import Session
from sessiond.session.moves import BranchRequest, Condition, Rewound, branch, label, rewind
from tests.kit.lines import folded

DIALECTS = pytest.mark.parametrize("dialect", [NATIVE, PI], ids=lambda dialect: dialect.name)


class Desk:
    """A session of any dialect with its lines, as a writer would drive it."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.session = Session(dialect.rules)
        self.lines: list[bytes] = []
        self._numbers = itertools.count(1)

    def do(self, stage: Callable[[Draft], Any]) -> Any:
        draft = Draft(
            self.session,
            self.dialect,
            new_id=lambda: f"e{next(self._numbers)}",
            now="2026-01-15T10:30:00.000Z",
            stored={},
        )
        result = stage(draft)
        lines = list(draft.lines)
        self.lines += lines
        draft.commit()
        return result

    def say(self, count: int = 1) -> list[str]:
        """Append `count` messages below main's leaf; return their ids."""
        message = Raw(b'{"role":"user","content":"a"}')
        request = AppendRequest("session-1", [Message(message=message) for _ in range(count)])
        receipt = self.do(lambda draft: append(draft, request))
        return [entry.id for entry in receipt.entries]

    def rewind(
        self, to: str | None, head: str = "main", expected: Expected | None = None
    ) -> Rewound:
        result = self.do(lambda draft: rewind(draft, to, head, Condition(expected)))
        assert isinstance(result, Rewound)
        return result

    def path(self, session: Session | None = None) -> list[str]:
        """Return the ids on main's path, without the nodes that record moves in some dialects."""
        found = session or self.session
        names = [found.names[seq] for seq in found.path(found.heads["main"].leaf)]
        return [name for name in names if name not in self.moves()]

    def moves(self) -> set[str]:
        kinds = {"leaf", "custom"}
        rows = [self.dialect.row(line) for line in self.lines]
        return {
            row.id
            for row, line in zip(rows, self.lines, strict=True)
            if json.loads(line)["type"] in kinds
        }

    def replayed(self) -> Session:
        return folded(self.dialect, self.lines)


@DIALECTS
def test_what_followed_is_named_oldest_first_and_off_the_path(dialect: Dialect) -> None:
    desk = Desk(dialect)
    first, *rest = desk.say(4)
    moved = desk.rewind(first)
    assert (moved.rewound, moved.rewound_count) == (rest, 3)
    assert desk.path() == [first]
    (fresh,) = desk.say()
    assert desk.path() == [first, fresh]
    # The client goes on from the leaf of the answer: in pi files the move itself is an entry.
    assert moved.leaf_id == (first if dialect is NATIVE else "e5")


@DIALECTS
def test_rewinding_to_the_beginning_leaves_an_empty_path(dialect: Dialect) -> None:
    desk = Desk(dialect)
    said = desk.say(2)
    moved = desk.rewind(None)
    assert moved.rewound == said
    assert desk.path() == []


def test_the_record_says_that_it_was_a_rewind() -> None:
    desk = Desk(NATIVE)
    first, _ = desk.say(2)
    desk.rewind(first)
    assert b'"target_id":"e1","reason":"rewind"' in desk.lines[-1]
    theirs = Desk(PI)
    first, _ = theirs.say(2)
    theirs.rewind(first)
    assert b'"customType":"sessiond.leaf","data":{"reason":"rewind"}' in theirs.lines[-1]
    assert b'"parentId":"e1"' in theirs.lines[-1]


@DIALECTS
def test_an_entry_of_another_branch_is_refused_and_nothing_is_stored(dialect: Dialect) -> None:
    desk = Desk(dialect)
    first, second = desk.say(2)
    desk.do(lambda draft: branch(draft, BranchRequest(first)))
    lines = len(desk.lines)
    with pytest.raises(EntryInvalid) as refused:
        desk.rewind(second)
    assert refused.value.data()["path"] == "to"
    with pytest.raises(EntryNotFound):
        desk.rewind("nowhere")
    with pytest.raises(HeadNotFound):
        desk.rewind(first, head="nobody")
    with pytest.raises(PreconditionFailed):
        desk.rewind(first, expected=Expected(leaf_id=second))
    assert len(desk.lines) == lines


def test_a_record_is_nowhere_to_rewind_to() -> None:
    desk = Desk(NATIVE)
    (first,) = desk.say()
    desk.do(lambda draft: label(draft, first, "here"))
    with pytest.raises(EntryNotFound):
        desk.rewind("e2")


def test_a_named_head_is_rewound_alone() -> None:
    desk = Desk(NATIVE)
    first, second = desk.say(2)
    desk.do(lambda draft: branch(draft, BranchRequest(second, head="other")))
    assert desk.rewind(first, head="other").rewound == [second]
    assert desk.session.heads["other"].leaf == 1
    assert desk.path() == [first, second]


def test_of_very_many_the_oldest_are_named_and_all_are_counted() -> None:
    desk = Desk(NATIVE)
    for _ in range(21):
        desk.say(512)
    moved = desk.rewind(None)
    assert moved.rewound_count == 21 * 512
    assert moved.rewound == desk.session.names[1 : REWOUND_IDS_MAX + 1]


@DIALECTS
@given(data=st.data())
def test_a_replay_is_where_the_rewinds_left_it(dialect: Dialect, data: st.DataObject) -> None:
    desk = Desk(dialect)
    path: list[str] = []
    for _ in range(data.draw(st.integers(1, 8))):
        if data.draw(st.booleans()):
            path += desk.say(data.draw(st.integers(1, 3)))
        else:
            keep = data.draw(st.integers(0, len(path)))
            moved = desk.rewind(path[keep - 1] if keep else None)
            ours = [entry for entry in moved.rewound if entry not in desk.moves()]
            assert ours == path[keep:]
            del path[keep:]
        assert desk.path() == path
        assert desk.path(desk.replayed()) == path
        assert desk.replayed().heads == desk.session.heads
