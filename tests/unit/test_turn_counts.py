"""The column of turns equals a walk up the tree, however lines come into the index."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from sessiond.dialects.native.dialect import NATIVE
from sessiond.service.log.line_indexer import LineIndexer
from sessiond.session.index import Session
from sessiond.session.turns.boundaries import turns_down, turns_up

CONVERSATION = ("user", "assistant", "tool")
KINDS = st.sampled_from([*CONVERSATION, *CONVERSATION, "system", "custom", "label", "leaf", "bad"])
# How far back the parent stands: mostly the line before, so that there are chains.
BACK = st.sampled_from([1, 1, 1, 1, 1, 1, 1, 2, 5, 100])
LINES = st.lists(st.tuples(KINDS, BACK), max_size=60)


def line_of(seq: int, kind: str, back: int) -> bytes:
    """Return the line of an entry; its id is its seq."""
    parent = f"n{seq - back}" if seq > back else None
    envelope: dict[str, Any] = {"id": f"n{seq}", "parent_id": parent, "timestamp": 1.5}
    match kind:
        case "bad":
            return b"{"
        case "custom":
            return msgspec.json.encode({"type": "custom", "custom_type": "x"} | envelope)
        case "label":
            return msgspec.json.encode({"type": "label", "target_id": "n1"} | envelope)
        case "leaf":
            return msgspec.json.encode({"type": "leaf", "target_id": parent} | envelope)
        case _:
            message = {"role": kind, "content": "x"}
            return msgspec.json.encode({"type": "message", "message": message} | envelope)


@given(LINES, st.booleans())
@example([("system", 1)] * 3 + [("assistant", 1), ("user", 1)] * 9, True)
@example([("user", 1)] * 300, True)
def test_the_column_equals_a_walk_up_the_tree(lines: list[tuple[str, int]], in_runs: bool) -> None:
    session = Session(NATIVE.rules)
    indexer = LineIndexer(session, NATIVE, {"session-a"})
    made = [line_of(seq, *given) for seq, given in enumerate(lines, 1)]
    if in_runs:
        indexer.take_lines(1, [line + b"\n" for line in made])
    else:
        for seq, line in enumerate(made, 1):
            indexer.take(seq, line)
    roles = {seq: kind for seq, (kind, _) in enumerate(lines, 1)}
    assert len(session.turn_counts) == len(lines) + 1
    for seq in range(1, len(lines) + 1):
        count = 0
        for at in session.path(seq) if session.is_node(seq) else ():
            role = roles.get(at, "")
            count += role == "user" or (not count and role in CONVERSATION)
        assert session.turn_counts[seq] == count, seq
    for head in session.heads.values():
        down = [*turns_down(session, session.path(head.leaf), lambda _: False)]
        assert len(down) == session.turn_counts[head.leaf]
        assert [*turns_up(session, head.leaf, lambda _: False)] == down[::-1]
