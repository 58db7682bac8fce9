"""Copies of random sessions: their entries, the absence of problems, and what a model sees.

Law: the source is a list of entries that any program could have written; what a copy holds is
said here from that list alone.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessiond.model.row import Kind
from sessiond.rpc.progress import NO_PROGRESS
from sessiond.service.context.context_cache import build_context
from sessiond.service.copying.forking import Fork, fork
from sessiond.service.copying.header import Birth
from sessiond.service.copying.merging import merge_plan
from sessiond.service.copying.rebasing import by_ids, rebase
from sessiond.service.copying.source import CopyDeps, Source
from sessiond.service.log.open_session import OpenSession
from sessiond.session.settings import SETTINGS
from tests.kit.in_memory import HEADER, NATIVE_HEADER, TIME, opened, opened_lines
from tests.kit.limits import set_limits

Json = dict[str, Any]
HEADERS = {
    "native": NATIVE_HEADER,
    "pi": HEADER,
    "operator": {**HEADER, "timestamp": 1784000000.25},
}
DIALECTS = pytest.mark.parametrize("dialect", HEADERS)
# The members that describe the place of an entry, in either dialect.
PLACE = {
    *("parent_id", "parentId", "head", "atom", "atom_of"),
    *("first_kept_entry_id", "firstKeptEntryId"),
}
TO_PI = {
    "parent_id": "parentId",
    "custom_type": "customType",
    "target_id": "targetId",
    "from_id": "fromId",
    "first_kept_entry_id": "firstKeptEntryId",
    "model_id": "modelId",
    "thinking_level": "thinkingLevel",
}
RECORDS = {"native": {"label", "session_info", "leaf"}, "pi": set[str](), "operator": {"leaf"}}
WORDS = ("user", "assistant", "toolResult", "custom", "state", "note", "level", "model")
OTHERS = ("left", "label", "info", "facts", "facts", "leaf", "short", "short", "instead", "instead")
few = settings(max_examples=25)


class Written:
    """The entries that a program has written so far."""

    def __init__(self, dialect: str) -> None:
        self.dialect = dialect
        self.entries: list[Json] = []
        self.nodes: list[str] = []
        self.parents: dict[str, str | None] = {}

    def __repr__(self) -> str:
        return "\n".join(map(json.dumps, self.entries))

    def path(self, entry_id: str | None) -> list[str]:
        """Return the path from the root down to an entry."""
        found: list[str] = []
        while entry_id is not None:
            found.append(entry_id)
            entry_id = self.parents[entry_id]
        return found[::-1]

    def write(self, word: str, parent_id: str | None, head: str, **own: Any) -> None:
        entry_id = f"n{len(self.entries)}"
        entry = {"type": word, "id": entry_id, "parent_id": parent_id, "timestamp": TIME, **own}
        if self.dialect == "native" and head != "main":
            entry["head"] = head
        if self.dialect == "pi":
            entry = {TO_PI.get(name, name): value for name, value in entry.items()}
        if self.dialect == "operator":
            entry["timestamp"] = 1784000000.25
        self.entries.append(entry)
        if word not in RECORDS[self.dialect]:
            self.nodes.append(entry_id)
            self.parents[entry_id] = parent_id


@st.composite
def writings(draw: st.DrawFn, dialect: str) -> Written:
    """Draw a tree of all kinds of entries, with heads and labels."""
    written = Written(dialect)
    for _ in range(draw(st.integers(1, 14))):
        nodes = written.nodes
        parent_id = draw(st.sampled_from([None, *nodes, *nodes[-1:] * 4 * len(nodes)]))
        head = draw(st.sampled_from(["main", "main", "side"]))
        _write(draw, written, draw(st.sampled_from([*WORDS, *OTHERS])), parent_id, head)
    return written


def _write(draw: st.DrawFn, written: Written, kind: str, parent_id: str | None, head: str) -> None:
    target = draw(st.sampled_from(written.nodes)) if written.nodes else None
    path = written.path(parent_id)
    number = len(written.entries)
    word: str = "session_info"
    own: Json = {"name": f"name {number}"}
    if kind in WORDS:
        word, own = _said(draw, kind, number)
    elif kind == "left":
        word = "branch_summary"
        own = {"summary": draw(st.sampled_from(["", "s"])), "from_id": target}
    elif kind == "short" and path:
        word, own = "compaction", {"summary": f"S{number}", "tokens_before": 1}
        own["first_kept_entry_id"] = draw(st.sampled_from(path))
    elif kind == "label" and target is not None:
        word, own = "label", {"target_id": target, "label": draw(st.sampled_from(["a", "b", None]))}
    elif kind == "facts" and written.dialect == "native":
        names = draw(st.sets(st.sampled_from(SETTINGS), min_size=1))
        own = {name: draw(st.sampled_from([None, f"{name}-{number}"])) for name in sorted(names)}
    elif kind == "leaf" and written.dialect != "pi":
        word, own = "leaf", {"target_id": target}
    elif kind == "instead" and written.dialect == "native":
        messages = [{"role": "user", "content": f"{number}.{n}"} for n in range(3)]
        word, own = "compaction", {"messages": messages[draw(st.integers(0, 3)) :]}
    written.write(word, parent_id, head, **own)


def _said(draw: st.DrawFn, kind: str, number: int) -> tuple[str, Json]:
    """Draw the type and members of an entry that refers to no other entry."""
    if kind in {"user", "assistant", "toolResult"}:
        message: Json = {"role": kind, "content": [{"type": "text", "text": f"{number}"}]}
        if kind == "assistant" and draw(st.booleans()):
            message |= {"model": f"model-{number}", "provider": "p"}
        return "message", {"message": message}
    own: dict[str, tuple[str, Json]] = {
        "custom": ("custom", {"custom_type": "other", "data": number}),
        "state": (
            "custom",
            {"custom_type": "sessiond.decision", "data": {"decision": f"{number}"}},
        ),
        "note": ("custom_message", {"custom_type": "x", "content": "c", "display": True}),
        "level": ("thinking_level_change", {"thinking_level": f"level-{number}"}),
        "model": ("model_change", {"provider": "p", "model_id": f"model-{number}"}),
    }
    return own[kind]


class Copied:
    """A session and the lines of its copy, opened again."""

    def __init__(self, written: Written, leaf: str | None) -> None:
        self.written = written
        self.opened = opened(written.entries, HEADERS[written.dialect])
        session = self.opened.session
        assert session.problem_count == 0
        self.leaf = session.ids[leaf] if leaf is not None else 0
        self.source = Source(
            self.opened, session.seq, self.leaf, self.opened.whole(), self.opened.stated
        )
        ids = (f"e{n}" for n in itertools.count())
        means = CopyDeps(TIME, lambda: next(ids), NO_PROGRESS)
        self.birth = Birth("the-copy", means)

    def fork(self, entries: Any, **axes: Any) -> OpenSession:
        axes = {"at_message": None, "keep_messages": None, "labels": True} | axes
        axes = {"state": entries == "all", "renew": False} | axes
        return self.made(fork(self.source, Fork(entries, self.leaf, **axes), self.birth))

    def rebase(self, chosen: list[str]) -> OpenSession:
        return self.made(rebase(self.source, by_ids(self.source, chosen), None, self.birth))

    def made(self, chunks: Iterator[list[bytes]]) -> OpenSession:
        """Return the copy; check that it has no problems and that the source is unchanged."""
        before = [*self.opened.journal.read(0, self.source.upto)]
        copy = opened_lines([line for chunk in chunks for line in chunk])
        assert copy.session.problem_count == 0, copy.session.problems
        assert self.opened.journal.read(0, self.source.upto) == before
        return copy

    def labels(self, ids: set[str]) -> dict[str, str]:
        session = self.opened.session
        shown = {session.names[seq]: state.label for seq, state in session.labels.items()}
        return {name: label for name, label in shown.items() if name in ids}


def nodes_of(found: OpenSession) -> list[tuple[str, str | None]]:
    """Return the nodes of a session without labels, in the order of the file: ids and parents."""
    session = found.session
    return [
        (session.names[seq], session.id_of(session.parents[seq]))
        for seq in range(1, session.seq + 1)
        if session.is_node(seq) and session.kinds[seq] != Kind.LABEL
    ]


def labels_of(found: OpenSession) -> dict[str, str]:
    session = found.session
    return {session.names[seq]: state.label for seq, state in session.labels.items()}


def seen(found: OpenSession, leaf: int | None = None) -> Any:
    """Return what a model sees at main or at `leaf`, except the first kept id of compactions."""
    session = found.session
    context = build_context(found, session.heads["main"].leaf if leaf is None else leaf)
    messages = [json.loads(body) for body in context.messages()]
    for message in messages:
        message.pop("first_kept_entry_id", None)
    return (
        messages,
        found.stated.at(session, context.leaf).model_name,
        found.stated.at(session, context.leaf).thinking_level or "off",
    )


def says(found: OpenSession) -> dict[str, Json]:
    """Return the content of the entries by their ids, without their places."""
    lines = [json.loads(line) for line in found.journal.read(1, found.session.seq)]
    return {one["id"]: {k: v for k, v in one.items() if k not in PLACE} for one in lines}


def drawn_copy(data: st.DataObject, dialect: str) -> Copied:
    written = data.draw(writings(dialect))
    return Copied(written, data.draw(st.sampled_from([None, *written.nodes])))


def without_labels(copied: Copied, ids: list[str]) -> list[str]:
    session = copied.opened.session
    return [name for name in ids if session.kinds[session.ids[name]] != Kind.LABEL]


@DIALECTS
@few
@given(data=st.data())
def test_a_path_has_its_entries_its_labels_and_its_context(
    dialect: str, data: st.DataObject
) -> None:
    copied = drawn_copy(data, dialect)
    leaf = copied.opened.session.id_of(copied.leaf)
    path = without_labels(copied, copied.written.path(leaf))
    copy = copied.fork("path")
    assert [one for one in nodes_of(copy) if one[0] in path] == [
        *zip(path, [None, *path], strict=False)
    ]
    assert {name for name, _ in nodes_of(copy)} == set(path)
    assert labels_of(copy) == copied.labels(set(path))
    assert seen(copy) == seen(copied.opened, copied.leaf)
    theirs = says(copied.opened)
    assert all(said == theirs[name] for name, said in says(copy).items() if name in theirs)


@DIALECTS
@few
@given(data=st.data())
def test_state_stands_beside_a_path_and_changes_nothing_of_it(
    dialect: str, data: st.DataObject
) -> None:
    copied = drawn_copy(data, dialect)
    path = without_labels(copied, copied.written.path(copied.opened.session.id_of(copied.leaf)))
    copy = copied.fork("path", state=True)
    spelled = (
        "sessiond.decision" in json.dumps(one) and one["id"] for one in copied.written.entries
    )
    state = {name for name in spelled if name}
    assert {name for name, _ in nodes_of(copy)} == state | set(path)
    if path:
        assert seen(copy) == seen(copied.opened, copied.leaf)


@DIALECTS
@few
@given(data=st.data())
def test_everything_is_the_same_lines(dialect: str, data: st.DataObject) -> None:
    copied = drawn_copy(data, dialect)
    copy = copied.fork("all")
    upto = copied.source.upto
    assert copy.journal.read(1, upto) == copied.opened.journal.read(1, upto)
    assert copy.session.heads == copied.opened.session.heads
    assert labels_of(copy) == labels_of(copied.opened)
    if dialect == "native":
        bare = copied.fork("all", labels=False)
        assert labels_of(bare) == {}
        assert nodes_of(bare) == nodes_of(copy)


@DIALECTS
@few
@given(data=st.data())
def test_the_first_messages_of_a_context_are_those(dialect: str, data: st.DataObject) -> None:
    copied = drawn_copy(data, dialect)
    messages, model, level = seen(copied.opened, copied.leaf)
    assert seen(copied.fork("context")) == (messages, model, level)
    keep = data.draw(st.integers(1, len(messages) + 1))
    assert seen(copied.fork("context", keep_messages=keep))[0] == messages[:keep]


@DIALECTS
@few
@given(data=st.data())
def test_new_ids_are_all_new_and_mean_the_same(dialect: str, data: st.DataObject) -> None:
    copied = drawn_copy(data, dialect)
    entries = data.draw(st.sampled_from(["path", "all", "context"]))
    kept, renewed = copied.fork(entries), copied.fork(entries, renew=True)
    assert not set(renewed.session.ids) & set(copied.opened.session.ids)
    names = dict(zip(kept.session.names, renewed.session.names, strict=True))
    assert [(names[one], names[parent or ""] or None) for one, parent in nodes_of(kept)] == (
        nodes_of(renewed)
    )
    assert {names[name]: label for name, label in labels_of(kept).items()} == labels_of(renewed)
    assert kept.session.kept_from == renewed.session.kept_from
    assert kept.session.heads == renewed.session.heads


@DIALECTS
@few
@given(data=st.data())
def test_a_merge_quotes_the_newest_messages_of_a_context(dialect: str, data: st.DataObject) -> None:
    copied = drawn_copy(data, dialect)
    count = data.draw(st.integers(1, 6))
    with pytest.MonkeyPatch.context() as patch:
        set_limits(patch, MERGE_MESSAGES_MAX=count)
        (told,) = merge_plan([copied.source]).sources
    context = build_context(copied.opened, copied.leaf)
    assert told.entry_ids == list(dict.fromkeys(context.sources[: context.count][-count:]))


@DIALECTS
@few
@given(data=st.data())
def test_what_is_rebased_stands_as_it_was_chosen(dialect: str, data: st.DataObject) -> None:
    copied = drawn_copy(data, dialect)
    nodes = without_labels(copied, copied.written.nodes)
    if not nodes:
        return
    chosen = data.draw(st.lists(st.sampled_from(nodes), unique=True, min_size=1))
    if data.draw(st.booleans()):
        chosen.sort(key=nodes.index)
    copy = copied.rebase(chosen)
    assert nodes_of(copy) == [*zip(chosen, [None, *chosen], strict=False)]
    assert labels_of(copy) == copied.labels(set(chosen))
    theirs = says(copied.opened)
    assert all(said == theirs[name] for name, said in says(copy).items() if name in theirs)
    # A compaction in the copy keeps only entries that it kept in the source, all before itself.
    ours, source = copy.session, copied.opened.session
    for compaction, first in ours.kept_from.items():
        name = ours.names[compaction]
        if first:
            at = source.ids[ours.names[first]]
            assert source.kept_from[source.ids[name]] <= at < source.ids[name]
            assert ours.names[first] in chosen[: chosen.index(name)]
        # The context of the copy never begins with a tool result, unless the source's does.
        begins, began = (
            next((one for one in context.sources[: context.count] if one != name), None)
            for context in (
                build_context(found, found.session.ids[name]) for found in (copy, copied.opened)
            )
        )
        assert begins == began or begins is None or source.kinds[source.ids[begins]] != Kind.TOOL
