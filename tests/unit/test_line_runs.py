"""Lines are indexed in runs or each by itself: nobody can tell which way was taken."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sessiond.dialects import recognise
from sessiond.dialects.base import BadHeader, BadLine, Dialect
from sessiond.dialects.native.dialect import NATIVE
from sessiond.dialects.operator.dialect import OPERATOR, Operator
from sessiond.dialects.pi.dialect import PI
from sessiond.dialects.sharur.dialect import SHARUR, Sharur
from sessiond.journal.splitter import Splitter, without_end
from sessiond.limits import NESTING_MAX
from sessiond.model.entries import Header
from sessiond.model.times import newest, rfc3339
from sessiond.service.log import line_indexer
from sessiond.service.log.line_indexer import LineIndexer
from sessiond.session.atoms import Atoms
from sessiond.session.index import Session
from tests.kit.lines import state_of
from tests.service.damage import NATIVE as NATIVE_DAMAGE
from tests.service.damage import OPERATOR as OPERATOR_DAMAGE
from tests.service.damage import PI as PI_DAMAGE

SAMPLES = sorted((Path(__file__).parent.parent / "samples").rglob("*.jsonl"))
OPERATORS_DAMAGE = {f"of Operator: {name}": damage for name, damage in OPERATOR_DAMAGE.items()}
DAMAGED = {
    name: damage.content
    for name, damage in {**NATIVE_DAMAGE, **PI_DAMAGE, **OPERATORS_DAMAGE}.items()
}
DEEP = "[" * (NESTING_MAX + 1) + "]" * (NESTING_MAX + 1)
LONG = "long " * 500

# An entry of sharur that names this header as its parent is a root.
SHARURS_FILE = SHARUR.for_file(Header(id="missing"))
USUAL_DIALECTS = [NATIVE, PI, OPERATOR, SHARURS_FILE]

BEFORE = object()
"""Stands for the id of the line before."""
IDS = st.sampled_from(["a", "b", "", "ł"]) | st.none()
PARENTS = st.sampled_from(
    [BEFORE, BEFORE, BEFORE, BEFORE, BEFORE, None, "", "a", "b", "missing", 7]
)
TIMES: st.SearchStrategy[Any] = st.sampled_from(
    [
        "2026-01-15T10:30:00.000Z",
        "2026-01-15T10:30:00.001Z",
        "2026-01-15T10:30:00.250831204Z",
        "2026-06-30T23:59:60.500831204Z",
        "2026-02-30T23:59:59.500831204Z",
        "2026-06-30T23:59:60.500Z",
        "2026-07-01T00:00:00.100Z",
        "2026-13-01T00:00:00.000Z",
        "9999-12-31T23:59:59.999Z",
        "0000-01-01T00:00:00.000Z",
        "2026-01-15T10:30:00.000Z\n",
        "2026-01-15T10:30:00-02:00",
        "yesterday",
        "",
        1768473000,
        1768473000.5,
        1e30,
        None,
        True,
        [],
    ]
)
USAGES = st.sampled_from(
    [
        {"input": 2, "output": 1, "totalTokens": 3, "cost": {"total": 0.1}},
        {"prompt_tokens": 5, "completion_tokens": 2, "cost": 0.7},
        {"input": -1},
        {},
        None,
        "many",
    ]
)
MESSAGES: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "role": st.sampled_from(
            ["user", "assistant", "assistant", "tool", "toolResult", "system", ""]
        )
    },
    optional={
        "content": st.sampled_from(["hi", "zażółć \u2028", LONG, [{"type": "text", "text": "x"}]]),
        "model": st.sampled_from(["m1", "m2", "", None, 5]),
        "provider": st.sampled_from(["p1", "", None]),
        "usage": USAGES,
    },
)
MEMBERS = st.fixed_dictionaries(
    {},
    optional={
        "head": st.sampled_from(["main", "side", "", None, 3]),
        "atom": st.sampled_from([[1, 1], [1, 2], [2, 2], [3, 2], None, "x"]),
        "atom_of": st.sampled_from(["session-a", "session-b", None, 4]),
        "extra": st.sampled_from([LONG, {"type": "message"}, "\x7f"]),
    },
)
OTHERS = st.sampled_from(
    [
        {"type": "model_change", "model_id": "m3", "modelId": "m3", "provider": "p"},
        {"type": "thinking_level_change", "thinking_level": "high", "thinkingLevel": "high"},
        {"type": "compaction", "summary": "s", "first_kept_entry_id": "a", "firstKeptEntryId": "a"},
        {"type": "label", "target_id": "a", "targetId": "a", "label": "l"},
        {"type": "session_info", "title": "t", "name": "t"},
        {"type": "leaf", "target_id": "a", "head": "side"},
        {"type": "leaf", "head": "side", "drop": True},
        {"type": "custom", "message": {"role": "user"}},
        {"type": "message", "message": None},
        {"type": "message", "message": "text"},
        {"type": "session_header", "version": 1},
    ]
)
RAW = st.sampled_from(
    [
        b"",
        b"  ",
        b"{",
        b"{} {}",
        b"null",
        b"\0\0\0",
        b'{"type":"message","id":"h" ',
        b'{"type":"message","id":"x","parent_id":null,"message":{"role":"user","content":"\xff"}}',
        b'{"type":"message","id":"x","message":{"role":"user","content":"\\ud83d"}}',
        b'{"type":"message","id":"x","id":"y","message":{"role":"user","role":"assistant"}}',
        b'{"type":"mess\\u0061ge","\\u0069d":"z","message":{"role":"us\\u0065r"}}',
        b'{"type":"message","id":"d","message":{"role":"user","content":%b}}' % DEEP.encode(),
    ]
)


class Line(msgspec.Struct, frozen=True):
    """A line to be spelled: its members, of which the id is a number's without one of its own."""

    members: dict[str, Any]
    entry_id: str | None = None
    parent: Any = BEFORE
    is_terse: bool = True
    end: bytes = b"\n"


LINES = st.builds(
    Line,
    st.builds(
        lambda message, time, more: {
            "type": "message",
            "timestamp": time,
            "message": message,
            **more,
        },
        MESSAGES,
        TIMES,
        st.just({}) | MEMBERS,
    )
    | OTHERS,
    st.none() | IDS,
    PARENTS,
    st.booleans(),
    st.sampled_from([b"\n", b"\n", b"\n", b"\r\n"]),
)
# Lines that a run takes, so that most of what makes a difference is inside of runs.
USUAL = st.lists(
    st.builds(
        lambda role, time, head, model, usage: Line(
            {
                "type": "message",
                "timestamp": time,
                "message": {"role": role, "provider": "", **model, **usage},
                **head,
            }
        ),
        st.sampled_from(["user", "assistant", "assistant", "tool"]),
        TIMES.filter(lambda one: isinstance(one, str) and one.endswith("Z")),
        st.sampled_from([{}, {}, {}, {"head": "side"}]),
        st.sampled_from([{}, {"model": "m1"}, {"model": "m2", "provider": "p"}]),
        st.sampled_from([{}, {"usage": {"input": 2, "output": 1, "totalTokens": 3}}]),
    ),
    min_size=2,
    max_size=8,
)


def spelled(items: Sequence[Line | bytes], dialect: Dialect) -> bytes:
    """Return the bytes of the lines."""
    before: str | None = None
    content = b""
    named = dialect.parent_member
    for number, item in enumerate(items):
        if isinstance(item, bytes):
            content += item + b"\n"
            continue
        entry_id = f"n{number}" if item.entry_id is None else item.entry_id
        parent = before if item.parent is BEFORE else item.parent
        members = {"id": entry_id, named: parent, **item.members}
        encoded = msgspec.json.encode(members)
        content += (encoded if item.is_terse else msgspec.json.format(encoded, indent=0)) + item.end
        before = entry_id
    return content


def everything(indexer: LineIndexer) -> dict[str, Any]:
    """Return all that an indexer knows of its lines."""
    atoms = {name: getattr(indexer.atoms, name) for name in Atoms.__slots__}
    ids = list(indexer.session.ids.items())
    known = state_of(indexer.session)
    return {**known, "ids": ids, "atoms": atoms, "rest": indexer.is_at_rest}


def one_by_one(dialect: Dialect, content: bytes) -> dict[str, Any]:
    indexer = LineIndexer(Session(dialect.rules), dialect, {"session-a"})
    for seq, line in enumerate(Splitter(array("q", [0])).feed(content), 1):
        indexer.take(seq, without_end(line))
    return everything(indexer)


def in_runs(
    dialect: Dialect, content: bytes, cuts: Sequence[int], apart: int, *, ended: bool = True
) -> dict[str, Any]:
    """Return what becomes of the content in chunks that are cut at these offsets.

    With `ended` each line has its newline, as lines of a file have, and none otherwise.
    """
    indexer = LineIndexer(Session(dialect.rules), dialect, {"session-a"})
    splitter = Splitter(array("q", [0]))
    seq, start = 1, 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_indexer, "_LINES_APART", apart)
        for end in [*sorted(cut % (len(content) + 1) for cut in cuts), len(content)]:
            lines = splitter.feed(content[start:end])
            indexer.take_lines(
                seq, lines if ended else [line.removesuffix(b"\n") for line in lines]
            )
            seq, start = seq + len(lines), end
    return everything(indexer)


@settings(max_examples=400)
@given(
    st.lists(LINES.map(lambda one: [one]) | RAW.map(lambda one: [one]) | USUAL, max_size=15),
    st.lists(st.integers(0, 20_000), max_size=4),
    st.sampled_from([1, 1, 3, 16]),
    st.sampled_from(USUAL_DIALECTS),
)
@example(
    [[Line({"type": "message", "message": {"role": "assistant", "model": "m"}})] * 9], [], 1, PI
)
@example(
    [
        [Line({"type": "model_change", "model_id": "m", "provider": "p"})],
        [Line({"type": "message", "message": {"role": "user"}, "head": ""}, is_terse=False)],
    ],
    [],
    1,
    NATIVE,
)
def test_a_run_of_lines_is_indexed_as_each_line_by_itself(
    items: list[list[Line | bytes]], cuts: list[int], apart: int, dialect: Dialect
) -> None:
    content = spelled([item for some in items for item in some], dialect)
    expected = one_by_one(dialect, content)
    assert in_runs(dialect, content, cuts, apart) == expected
    assert in_runs(dialect, content, cuts, apart, ended=False) == expected


@given(st.lists(USUAL, min_size=1, max_size=4), st.sampled_from(USUAL_DIALECTS))
def test_a_run_of_usual_lines_is_indexed_as_each_line_by_itself(
    items: list[list[Line | bytes]], dialect: Dialect
) -> None:
    content = spelled([item for some in items for item in some], dialect)
    assert in_runs(dialect, content, [], 1) == one_by_one(dialect, content)


@given(st.lists(LINES | RAW, min_size=1, max_size=5), st.sampled_from([OPERATOR, SHARURS_FILE]))
@example([Line({"type": "message", "message": {"role": "user"}}, parent="missing")], SHARURS_FILE)
@example([Line({"type": "message", "message": {"role": "user"}}, parent="")], SHARURS_FILE)
def test_a_usual_line_has_the_row_of_its_translation(
    items: list[Line | bytes], dialect: Operator | Sharur
) -> None:
    for line in spelled(items, dialect).split(b"\n")[:-1]:
        try:
            translated = dialect.unusual_row(line)
        except BadLine:
            with pytest.raises(BadLine):
                dialect.row(line)
        else:
            assert dialect.row(line) == translated


@pytest.mark.parametrize("dialect", USUAL_DIALECTS)
@pytest.mark.parametrize("word", ["message", "custom", "session", "new"])
def test_a_line_with_an_empty_id_is_no_entry(dialect: Dialect, word: str) -> None:
    members = {"type": word, "custom_type": "x", "message": {"role": "user", "content": "hi"}}
    lines = spelled([Line(members, "a"), Line(members, "")], dialect).split(b"\n")[:-1]
    assert "" not in dialect.message_lines(lines).ids
    with pytest.raises(BadLine, match="has no id"):
        dialect.row(lines[1])
    assert "" not in dict(one_by_one(dialect, b"\n".join([*lines, b""]))["ids"])


@given(st.lists(TIMES.filter(lambda one: one is None or isinstance(one, str | float)), min_size=1))
@example(["2026-01-15T10:30:00.001Z", "2026-01-15T10:30:00-02:00"])
@example(["2026-06-30T23:59:60.500Z", "2026-07-01T00:00:00.100Z"])
@example([1784000000.25, 1784000001.0])
@example([1784000000.25, 1784000001000.0])
@example([1784000000.25, -1.0, 1e30])
@example([1784000000.25, "2026-06-30T23:59:59.500Z"])
@example(["2026-01-15T10:30:00.000Z\n", "2026-01-15T10:30:00.000Z", None])
def test_the_newest_of_some_times_is_the_newest_of_each_by_itself(times: list[Any]) -> None:
    assert newest(times) == max(map(rfc3339, times))


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_a_sample_is_indexed_alike_in_runs(path: Path) -> None:
    check(path.read_bytes())


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_is_indexed_alike_in_runs(name: str) -> None:
    check(DAMAGED[name])


def check(content: bytes) -> None:
    header, _, rest = content.partition(b"\n")
    try:
        dialect, _ = recognise(header)
    except BadHeader:
        return
    assert in_runs(dialect, rest, range(0, len(rest), 777), 1) == one_by_one(dialect, rest)


@pytest.mark.parametrize("dialect", USUAL_DIALECTS)
def test_usual_lines_are_indexed_without_a_row_each(
    dialect: Dialect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the tests above compare one way with itself."""
    usual: list[Line | bytes] = [Line({"type": "message", "message": {"role": "user"}})] * 1000
    content = spelled(usual, dialect)
    expected = one_by_one(dialect, content)
    folds: list[object] = []
    fold = Session.fold

    def counting(session: Session, row: Any) -> None:
        folds.append(row)
        fold(session, row)

    monkeypatch.setattr(LineIndexer, "take", None)
    monkeypatch.setattr(Session, "fold", counting)
    assert in_runs(dialect, content, [], 1) == expected
    assert len(folds) < 10
