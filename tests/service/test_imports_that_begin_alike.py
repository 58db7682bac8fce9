"""Imports of sessions that are here already, and of those that only begin as one that is here."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from sessiond.testing.wire import Wire
from tests.kit.agent_roots import CLAUDE, SAMPLES, claude_root
from tests.kit.agents import claude_line
from tests.kit.calls import call, create_with
from tests.kit.house import House
from tests.kit.roots import add_root, ids, pi_file

WORKERS = [f"5e562000-0000-4000-8000-00000000000{number}" for number in range(3)]


def lines(*entries: Any) -> str:
    return "".join(json.dumps(entry) + "\n" for entry in entries)


def claude(session_id: str, *texts: str) -> str:
    """Return a file of Claude Code; the first message of each is of the same moment."""
    made = [
        claude_line(number, number - 1 if number > 1 else None, text)
        | {"sessionId": session_id, "uuid": f"{session_id[:8]}-{number}"}
        for number, text in enumerate(texts, 1)
    ]
    for above, line in pairwise(made):
        line["parentUuid"] = above["uuid"]
    return lines(*made)


def construct(document_id: str | None, *answers: str) -> str:
    """Return a document of Construct whose time and first words are always the same."""
    turns = [
        {"id": f"turn-{number}", "status": "done", "timestamp": f"2026-01-10T08:00:0{number}Z"}
        | {"request": [{"type": "text", "content": "Review this."}]}
        | {"response": [{"type": "text", "content": answer}]}
        for number, answer in enumerate(answers, 1)
    ]
    named = {} if document_id is None else {"id": document_id}
    return json.dumps(named | {"created_at": "2026-01-10T08:00:00Z", "turns": turns})


def nova(tokens: int) -> str:
    """Return a state of Nova, always of the same session."""
    state = {"session_id": "4f1d2a00", "created_at": "2026-01-10T08:00:00", "tokens_used": tokens}
    return json.dumps(state | {"last_updated": "2026-01-10T09:00:00", "turn_count": 1})


async def taken(wire: Wire, content: str, **more: Any) -> tuple[bool, str | None, int, int]:
    """Import a content unless it is here; return whether, why not, and how many sessions have it, or a part."""
    found = await wire.call("session/import", content=content, **{"if_exists": "skip"} | more)
    return (
        found["imported"],
        found["same_by"],
        len(found["same_as"]),
        len(found["grown_from"]),
    )


NEW = (True, None, 0, 0)
GROWN = (True, None, 0, 1)
BY_ID = (False, "id", 1, 0)
BY_CONTENT = (False, "content", 1, 0)

A, B = WORKERS[0], WORKERS[1]
HELLO = ("Review this.", "nothing found")
ENTRY = '{"type":"message","id":"00000009","parentId":null,"timestamp":"2026-01-15T10:31:00.000Z"'
MORE = ENTRY + ',"message":{"role":"user","content":"more"}}\n'
PI, OTHER_PI = pi_file("pi-session-1", *HELLO).decode(), pi_file("pi-session-2", *HELLO).decode()

SERIES: dict[str, list[tuple[str, tuple[bool, str | None, int, int]]]] = {
    "workers that one script started": [
        (claude(A, "Review this.", "one"), NEW),
        (claude(B, "Review this.", "two"), NEW),
        (claude(WORKERS[2], "Review this.", "one"), NEW),
        (claude(B, "Review this.", "two"), BY_ID),
    ],
    "a session that grew": [
        (claude(A, *HELLO), NEW),
        (claude(A, *HELLO, "go on"), GROWN),
        (claude(A, *HELLO, "go on"), BY_ID),
        (claude(A, *HELLO), (False, "id", 2, 0)),
    ],
    "a session under the id of another talk": [
        (claude(A, *HELLO), NEW),
        (
            claude(A, *HELLO)
            .replace('"5e562000-', '"5e56200f-')
            .replace("5e56200f-0000", "5e562000-0000"),
            NEW,
        ),
    ],
    "documents of Construct": [
        (construct("doc-a", "one"), NEW),
        (construct("doc-b", "one"), NEW),
        (construct("doc-a", "one"), BY_ID),
        (construct("doc-a", "one", "two"), GROWN),
        (construct("doc-a", "one", "two"), BY_ID),
    ],
    "documents of Construct without an id": [
        (construct(None, "one"), NEW),
        (construct(None, "two"), NEW),
        (construct(None, "one", "two"), NEW),
        (construct(None, "one"), BY_CONTENT),
    ],
    "a state of Nova": [(nova(5), NEW), (nova(5), BY_ID), (nova(6), NEW)],
    "a file of pi": [
        (PI, NEW),
        (PI, BY_CONTENT),
        (PI + MORE, NEW),
        (PI + MORE, BY_CONTENT),
        (PI, BY_CONTENT),
    ],
}


@pytest.mark.parametrize("what", SERIES)
async def test_only_an_id_or_the_same_lines_make_two_sessions_one(house: House, what: str) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        for number, (content, wanted) in enumerate(SERIES[what]):
            planned = await taken(wire, content, dry_run=True)
            assert planned == (False, *wanted[1:]), number
            assert await taken(wire, content) == wanted, number


async def test_a_copy_that_went_on_here_is_the_source_still(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        first = await call(wire, "session/import", "session.id", content=claude(A, *HELLO))
        await call(wire, "append", session_id=first, message={"role": "user", "content": "on"})
        assert await taken(wire, claude(A, *HELLO)) == BY_ID


async def test_an_export_is_known_by_the_id_of_its_session(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "entry-1", "entry-2", persist="immediate")
        content = await call(wire, "session/export", "content")
        assert await taken(wire, content) == BY_ID
        # The same words under another id are another session.
        assert await taken(wire, content.replace("session-a", "session-z")) == NEW
        fork = await call(wire, "session/fork", "session.id", at="entry-2")
        content = await call(wire, "session/export", "content", session_id=fork)
        assert await taken(wire, content) == BY_ID
        # A copy of a fork is known by the id of the fork.
        assert await taken(wire, content.replace(fork, "session-y")) == NEW
        assert await taken(wire, content.replace(fork, "session-y")) == BY_ID


@pytest.mark.parametrize("name", ["claude-branch-compact.jsonl", "claude-parallel-rewind.jsonl"])
async def test_what_lies_in_a_root_is_here(real_house: House, tmp_path: Path, name: str) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, claude_root(tmp_path.resolve()))
        assert len(await ids(wire)) == 3
        found = await wire.call("session/import", path=str(SAMPLES / name), if_exists="skip")
        assert (found["imported"], found["same_by"]) == (False, "id")
        assert found["same_as"][0] in {CLAUDE.format(1), CLAUDE.format(2)}
