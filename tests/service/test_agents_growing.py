"""Sessions of other agents that grow at full speed, torn at any byte, while clients read them."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from anyio import create_task_group, fail_after, to_thread

from sessiond.limits import SCAN_SECONDS
from sessiond.service.external.watcher import PollingWatcher
from sessiond.testing.wire import Wire
from tests.kit.agent_files.claude_moves import claude_script
from tests.kit.agent_files.codex_moves import codex_script
from tests.kit.agent_files.dice import Sizes
from tests.kit.agent_files.gemini_moves import MOVES as GEMINI_MOVES
from tests.kit.agent_files.gemini_moves import gemini_script
from tests.kit.agent_files.roots import rollout_path, slug_of
from tests.kit.agent_files.writing import write_fast, write_torn
from tests.kit.agreement import KITS, Kit, Pair, Script, contexts, tokens, usage_of
from tests.kit.calls import session_info
from tests.kit.house import House
from tests.kit.patience import PATIENCE_SECONDS
from tests.kit.roots import add_root

TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
PAGE = 500
TIME = "2026-01-16T10:00:00.000Z"
LAST = "the very last words are xylophone"


@dataclass
class Growing:
    """A file that is to grow: its session, its first lines, and the lines that are to come."""

    kit: Kit
    root: Path
    path: Path
    session_id: str
    begun: list[bytes]
    rest: list[bytes]

    @property
    def lines(self) -> list[bytes]:
        """Return all lines."""
        return self.begun + self.rest

    def begin(self) -> None:
        """Write the first lines, and the beginning of the next one."""
        write_fast(self.path, self.begun, self.rest[0][:7])

    def write(self, seed: int) -> int:
        """Write the other lines, torn at any byte; return how often a line was torn."""
        rest = [self.rest[0][7:], *self.rest[1:]]
        # The half lines must be there for a moment, or no reader would ever meet one.
        return write_torn(self.path, rest, seed=seed, pause=partial(time.sleep, 0.0002))


def growing(home: Path, sizes: Sizes) -> list[Growing]:
    """Return a file of each agent, of which only the first move is written."""
    claude = claude_script(1, sizes)
    projects = home / "claude" / "projects"
    named = f"{claude.whose.session_id}.jsonl"
    codex = codex_script(1, sizes)
    moves = {name: move for name, move in GEMINI_MOVES.items() if name != "again"}
    gemini = gemini_script(1, sizes, moves=moves)
    chats = home / "gemini" / "tmp" / "notes" / "chats"
    chats.mkdir(parents=True)
    (chats.parent / ".project_root").write_text(gemini.chat.cwd)
    places: list[tuple[str, Script, Path, Path]] = [
        ("claude", claude, projects, projects / slug_of(claude.whose.cwd) / named),
        ("codex", codex, home / "codex" / "sessions", rollout_path(home / "codex", codex)),
        ("gemini", gemini, home / "gemini" / "tmp", chats / f"session-x-{gemini.session_id[:8]}"),
    ]
    ids = (claude.whose.session_id, codex.thread.thread_id, gemini.session_id)
    found: list[Growing] = []
    for (name, script, root, path), session_id in zip(places, ids, strict=True):
        lines = [line for _, new in script.steps() for line in new]
        lines += last_words(name, lines)
        file = path.with_suffix(".jsonl")
        found.append(Growing(KITS[name], root, file, session_id, lines[:12], lines[12:]))
        found[-1].begin()
    return found


def last_words(name: str, lines: list[bytes]) -> list[bytes]:
    """Return lines that end a file of an agent with words that no other line has."""
    line: dict[str, Any]
    match name:
        case "claude":
            line = json.loads(next(one for one in lines if b'"promptId"' in one))
            line |= {"uuid": "00000000-0000-4000-8000-00000000ffff", "parentUuid": None}
            line["message"] = {"role": "user", "content": LAST}
        case "codex":
            said = [{"type": "input_text", "text": LAST}]
            item = {"type": "message", "role": "user", "content": said}
            line = {"timestamp": TIME, "type": "response_item", "payload": item}
        case _:
            line = {"id": "last", "timestamp": TIME, "type": "user", "content": LAST}
    return [json.dumps(line).encode()]


async def entries_of(wire: Wire, session_id: str) -> list[Any]:
    """Return all entries of a session, in order."""
    found: list[Any] = []
    after: int | None = 0
    while after is not None:
        page = await wire.call(
            "session/entries", session_id=session_id, after_seq=after, limit=PAGE
        )
        assert [one["seq"] for one in page["entries"]] == list(
            range(after + 1, after + 1 + len(page["entries"]))
        )
        found += [one["entry"] for one in page["entries"]]
        after = page["next_seq"]
    return found


async def events_of(
    wire: Wire, last: dict[str, int], lagged: set[str]
) -> dict[str, list[dict[str, Any]]]:
    """Return the events of sessions in the order in which they came, up to the last seq of each.

    On a busy machine the reader may fall behind. The daemon then says so, and goes on with a replay: the
    session is in `lagged` from then on.
    """
    found: dict[str, list[dict[str, Any]]] = {session_id: [] for session_id in last}
    left = set(last)
    while left:
        notice = await wire.next_notification()
        if notice["method"] == "session/lagged":
            lagged.add(notice["params"]["session_id"])
            continue
        if notice["method"] == "session/synced":
            continue
        assert notice["method"] == "session/event", notice
        event = notice["params"]
        found[event["session_id"]].append(event)
        if event["seq"] >= last[event["session_id"]]:
            left.remove(event["session_id"])
    return found


async def hold(wire: Wire, house: House, one: Growing) -> str:
    """Fail unless a grown session is what the second reader finds in its lines; return the epoch."""
    pair = Pair(one.kit).take(one.lines)
    second = one.kit.read(one.lines)
    built = await wire.call("session/build_context", session_id=one.session_id)
    messages = [("", message) for message in built["messages"]]
    mine, theirs = contexts(messages, second, one.kit.agent)
    assert [said for _, said in mine] == [said for _, said in theirs]
    # A list looks at files that changed within a moment once more.
    house.seconds += SCAN_SECONDS
    page = await wire.call("session/list")
    (row,) = [each for each in page["sessions"] if each["id"] == one.session_id]
    assert row["message_total"] == pair.found.session.message_total
    assert row["seq"] == len(one.lines)
    used = row["usage"] or dict.fromkeys(TOKENS, 0)
    assert tuple(used[name] for name in TOKENS) == tokens(usage_of(second, one.kit.agent))
    if second.stated_title is not None:
        assert row["title"] == second.stated_title
    hits = (await wire.call("session/search", query=LAST))["hits"]
    assert one.session_id in {hit["session_id"] for hit in hits}
    epoch: str = row["epoch"]
    return epoch


async def grow(house: House, home: Path, sizes: Sizes, looks: int) -> None:
    """Let a file of each agent grow while clients read; hold the end against the second readers."""
    files = growing(home, sizes)
    last = {one.session_id: len(one.lines) for one in files}
    torn: list[int] = []
    epochs: dict[str, str] = {}
    lagged: set[str] = set()
    watcher = PollingWatcher(house.files, 0.01)
    async with house.daemon(watcher) as daemon, daemon.connect() as wire, daemon.connect() as other:
        for one in files:
            await add_root(wire, one.root)
        await wire.call("session/list")
        for one in files:
            told = await wire.call("subscribe", session_id=one.session_id)
            assert told["seq"] == len(one.begun)
            epochs[one.session_id] = told["epoch"]

        async def write(seed: int, one: Growing) -> None:
            torn.append(await to_thread.run_sync(one.write, seed))

        async def look() -> None:
            """Read the growing sessions in all ways; each answer is whole."""
            for _ in range(looks):
                for one in files:
                    info = await session_info(other, one.session_id)
                    assert info["seq"] <= len(one.lines)
                    page = await other.call("session/list", subagents=True)
                    assert one.session_id in {each["id"] for each in page["sessions"]}
                    assert page["unreadable"] == []
                    await other.call("session/search", query=LAST)
                    await other.call("session/build_context", session_id=one.session_id)

        with fail_after(PATIENCE_SECONDS):
            async with create_task_group() as tasks:
                for seed, one in enumerate(files):
                    tasks.start_soon(write, seed, one)
                tasks.start_soon(look)
                events = await events_of(wire, last, lagged)
        assert all(torn)
        for one in files:
            came = events[one.session_id]
            assert [event["seq"] for event in came] == list(
                range(len(one.begun) + 1, len(one.lines) + 1)
            )
            # Replayed events have no origin.
            origins = [{"external": True}] + [None] * (one.session_id in lagged)
            assert all(event.get("origin") in origins for event in came)
            assert await hold(other, house, one) == epochs[one.session_id]
    async with house.daemon() as daemon, daemon.connect() as wire:
        for one in files:
            assert await hold(wire, house, one) == epochs[one.session_id]
            entries = await entries_of(wire, one.session_id)
            assert len(entries) == len(one.lines)
            came = [event["entry"] for event in events[one.session_id]]
            assert came == entries[len(one.begun) :]


async def test_files_that_grow_torn_at_any_byte_are_told_line_by_line(
    real_house: House, tmp_path: Path
) -> None:
    await grow(real_house, tmp_path.resolve(), Sizes(turns=60), looks=3)


@pytest.mark.search
async def test_long_files_that_grow_torn_at_any_byte_are_told_line_by_line(
    real_house: House, tmp_path: Path
) -> None:
    await grow(real_house, tmp_path.resolve(), Sizes(turns=1500, result_bytes=3000), looks=20)
