"""Sessions of other agents where they lie: listed, read and followed, and never written to."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import AsyncGenerator, Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import zstandard

from sessiond.journal.disk.files import Files
from sessiond.journal.source import FileSource
from sessiond.limits import LINE_BYTES_MAX, RECENT_LOOKED_AT, SCAN_SECONDS
from sessiond.service.external.watcher import PollingWatcher
from sessiond.service.sources.agents.neighbours import spans_before
from sessiond.service.sources.agents.sampling import HeldFile
from sessiond.service.sources.agents.sources import open_sample
from sessiond.testing.wire import Wire
from tests.kit.agent_roots import (
    CLAUDE,
    CODEX,
    GEMINI,
    SAMPLES,
    add_all,
    claude_line,
    claude_root,
    claude_talk,
    codex_root,
)
from tests.kit.calls import call, create, say, session_info
from tests.kit.house import House
from tests.kit.limits import set_limits
from tests.kit.opencode import FOOTER, RENAME
from tests.kit.provider_rules import anthropic_troubles, openai_troubles
from tests.kit.roots import add_root, ids
from tests.kit.sessions import SESSION

# Title or first words, folder, program, and tokens: in, out, read from the cache, written to it.
LISTED: dict[str, tuple[str, str, str, tuple[int, int, int, int]]] = {
    CLAUDE.format(1): ("Add ping command", "ping", "claude-code", (107, 205, 3200, 1570)),
    CLAUDE.format(2): ("two files", "ping", "claude-code", (33, 170, 1880, 1020)),
    CLAUDE.format(3): ("what is 2+2", "ping", "claude-code", (16, 10, 500, 530)),
    CODEX.format("01"): ("Calc operators", "calc", "codex", (700, 90, 600, 0)),
    CODEX.format("02"): ("name a colour", "calc", "codex", (0, 0, 0, 0)),
    CODEX.format("0a"): ("name a colour", "calc", "codex", (0, 0, 0, 0)),
    CODEX.format("0b"): ("name a colour", "calc", "codex", (0, 0, 0, 0)),
    GEMINI[0]: ("Look at a.txt", "notes", "gemini-cli", (790, 88, 4400, 0)),
    GEMINI[1]: ("long talk", "notes", "gemini-cli", (5700, 406, 0, 0)),
    FOOTER: ("Add a footer", "site", "opencode", (1480, 132, 1100, 960)),
    RENAME: ("Rename page", "site", "opencode", (330, 58, 600, 400)),
}
TASK = "agent-a1b2c3d4e5f6a7b8c"
# What the model sees next: the role and the first words or calls of each message.
CONTEXTS: dict[str, list[tuple[str, str]]] = {
    CLAUDE.format(1): [
        ("compaction_summary", "This session"),
        ("user", "make it smaller"),
        ("assistant", "It is smaller"),
        ("user", "now add a test"),
        ("assistant", "Test added."),
    ],
    CLAUDE.format(2): [
        ("user", "read both files"),
        ("assistant", "toolu_21 toolu_22"),
        ("toolResult", "alpha"),
        ("toolResult", "no such file"),
        ("assistant", "a.txt says"),
    ],
    CLAUDE.format(3): [
        ("compaction_summary", "This session"),
        ("user", "and 3+3"),
        ("assistant", "6"),
        ("user", "and 4+4"),
    ],
    TASK: [
        ("user", ""),
        ("assistant", ""),
        ("toolResult", ""),
        ("assistant", ""),
    ],
    CODEX.format("01"): [
        ("user", "<environment_context>"),
        ("user", "add mul to calc"),
        ("user", "now add div"),
        ("assistant", "Added div."),
    ],
    CODEX.format("02"): [
        ("user", "name a colour"),
        ("assistant", "Red."),
        ("user", "name a city"),
        ("assistant", "Oslo."),
    ],
    CODEX.format("0a"): [
        ("user", "name a colour"),
        ("assistant", "Red."),
        ("user", "name a fruit"),
        ("assistant", "Pear."),
    ],
    CODEX.format("0b"): [
        ("user", "name a colour"),
        ("assistant", "Red."),
        ("user", "name a city"),
        ("assistant", "Oslo."),
    ],
    GEMINI[0]: [
        ("user", ""),
        ("assistant", ""),
        ("toolResult", "a.txt"),
        ("assistant", ""),
        ("user", "keep it, print it"),
        ("assistant", ""),
    ],
    GEMINI[1]: [("user", ""), ("assistant", ""), ("user", ""), ("assistant", "")],
    FOOTER: [
        ("user", "What did we do so far?"),
        ("assistant", "Summary: a footer was added."),
        ("user", "make it grey"),
        ("assistant", "Grey now."),
        ("user", "deploy"),
    ],
    RENAME: [
        ("compaction_summary", ""),
        ("user", "undo that"),
        ("assistant", "Undone."),
    ],
}


async def context(wire: Wire, session_id: str) -> list[tuple[str, str]]:
    """Return the role of each message of a context, and its text or the ids of its calls."""
    found: list[tuple[str, str]] = []
    for message in await call(wire, "session/build_context", "messages", session_id=session_id):
        content = message["summary"] if "summary" in message else message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        said = "".join(block.get("text", "") for block in blocks)
        calls = " ".join(block["id"] for block in blocks if block["type"] == "toolCall")
        found.append((message["role"], said or calls))
    return found


def as_expected(found: list[tuple[str, str]], wanted: list[tuple[str, str]]) -> bool:
    pairs = zip(found, wanted, strict=False)
    return len(found) == len(wanted) and all(
        role == own and words.startswith(begins) for (role, words), (own, begins) in pairs
    )


def state_of(folder: Path) -> dict[str, tuple[int, int, int, bytes]]:
    """Return the names below a folder, and of each file the times, the size and the content."""
    found: dict[str, tuple[int, int, int, bytes]] = {}
    for path in sorted(folder.rglob("*")):
        seen = path.stat()
        content = path.read_bytes() if path.is_file() else b""
        found[str(path)] = (seen.st_mtime_ns, seen.st_ctime_ns, seen.st_ino, content)
    return found


async def test_a_list_shows_the_sessions_of_all_agents(real_house: House, tmp_path: Path) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_all(wire, tmp_path.resolve())
        page = await wire.call("session/list")
        found = {one["id"]: one for one in page["sessions"]}
        assert found.keys() == LISTED.keys()
        assert page["unreadable"] == []
        for session_id, (title, folder, program, tokens) in LISTED.items():
            one = found[session_id]
            assert (one["title"] or one["first_message"]) == title
            assert one["cwd"] == f"/home/ann/{folder}"
            assert one["agent_program"] == one["agent"] == program
            assert (one["read_only"], one["read_only_reason"]) == (True, "other_agent")
            assert "partial" not in one
            used = one["usage"] or dict.fromkeys(TOKENS, 0)
            assert tuple(used[name] for name in TOKENS) == tokens, session_id
        assert await ids(wire, program="codex") == [CODEX.format(end) for end in CODEX_ENDS]


TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
CODEX_ENDS = ("01", "02", "0a", "0b")


@pytest.mark.parametrize("session_id", CONTEXTS)
async def test_the_context_of_a_sample_is_the_one_that_its_agent_gives(
    real_house: House, tmp_path: Path, session_id: str
) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_all(wire, tmp_path.resolve())
        await ids(wire)
        found = await context(wire, session_id)
        assert as_expected(found, CONTEXTS[session_id]), found


async def test_a_session_that_was_started_for_a_task_is_below_its_parent(
    real_house: House, tmp_path: Path
) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, claude_root(tmp_path.resolve()))
        assert TASK not in await ids(wire)
        page = await wire.call("session/list", subagents=True)
        (task,) = [one for one in page["sessions"] if one["id"] == TASK]
        assert task["lineage"] == {"parent_id": CLAUDE.format(1), "subagent": True}
        assert (task["title"], task["message_count"]) == ("Find main.rs", 4)


CHANGES: dict[str, dict[str, Any]] = {
    "append": {"message": {"role": "user", "content": "x"}},
    "session/branch": {"entry_id": None},
    "session/navigate": {"entry_id": None},
    "session/rewind": {"to": None},
    "session/reset": {},
    "session/update": {"title": "x"},
    "session/label": {"entry_id": "c1a0de00-0000-4000-8000-000000000021", "label": "x"},
    "session/compact": {},
    "session/archive": {},
    "session/delete": {},
    "session/repair": {"dry_run": False},
    "session/decide": {"decision": "x"},
    "session/flush": {"durability": "disk"},
    "session/prune": {},
}


@pytest.mark.parametrize("method", CHANGES)
async def test_a_change_is_refused_and_names_the_way_to_a_copy(
    real_house: House, tmp_path: Path, method: str
) -> None:
    root = claude_root(tmp_path.resolve())
    before = state_of(root)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root)
        session_id = (await ids(wire))[1]
        refused = await wire.refusal(method, session_id=session_id, **CHANGES[method])
        assert refused.data["kind"] == "session_read_only", refused
        assert refused.data["reason"] == "other_agent"
        assert "session/fork" in refused.data["use"]
        assert await ids(wire) == [CLAUDE.format(number) for number in (1, 2, 3)]
        assert await context(wire, session_id)
    assert state_of(root) == before


class OnlyReads(Files):
    """A disk that lets nothing write, lock or sync below a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.held: set[int] = set()

    def open_read(self, path: Path) -> int:
        fd = super().open_read(path)
        self.held.discard(fd)
        if path.is_relative_to(self.folder):
            self.held.add(fd)
        return fd

    def _refuse(self, path: Path) -> None:
        assert not path.is_relative_to(self.folder), "a file of another agent was to be written"

    def create(self, path: Path) -> int:
        self._refuse(path)
        return self._own(super().create(path))

    def open_update(self, path: Path) -> int:
        self._refuse(path)
        return self._own(super().open_update(path))

    def open_append(self, path: Path) -> int:
        self._refuse(path)
        return self._own(super().open_append(path))

    def _own(self, fd: int) -> int:
        self.held.discard(fd)
        return fd

    def lock(self, fd: int) -> bool:
        assert fd not in self.held, "a file of another agent was to be locked"
        return super().lock(fd)

    def fsync(self, fd: int) -> None:
        assert fd not in self.held, "a file of another agent was to be synced"
        super().fsync(fd)

    def fdatasync(self, fd: int) -> None:
        assert fd not in self.held, "a file of another agent was to be synced"
        super().fdatasync(fd)

    def rename(self, old: Path, new: Path) -> None:
        self._refuse(old)
        self._refuse(new)
        super().rename(old, new)

    def unlink(self, path: Path) -> None:
        self._refuse(path)
        super().unlink(path)

    def make_folder(self, path: Path) -> bool:
        self._refuse(path)
        return super().make_folder(path)


READS: dict[str, dict[str, Any]] = {
    "session/get": {},
    "session/entries": {},
    "session/path": {},
    "session/tree": {},
    "session/turns": {},
    "session/build_context": {},
    "session/export": {},
    "session/stats": {},
    "session/usage": {},
    "session/verify": {},
    "session/queue": {},
    "subscribe": {"after": {"seq": 0}},
    "session/flush": {},
    "session/unsubscribe": {},
    "session/close": {},
}


async def test_nothing_is_written_locked_or_synced_below_a_root(home: Path, tmp_path: Path) -> None:
    folder = tmp_path.resolve() / "agents"
    folder.mkdir()
    house = House(home, OnlyReads(folder))
    async with house.daemon() as daemon, daemon.connect() as wire:
        roots = await add_all(wire, folder)
        before = state_of(folder)
        for session_id in await ids(wire):
            for method, params in READS.items():
                await wire.call(method, session_id=session_id, **params)
            for method in ("session/delete", "session/archive"):
                refused = await wire.refusal(method, session_id=session_id)
                assert refused.data["kind"] == "session_read_only"
        await wire.call("session/search", query="name")
        await wire.call("catalog/forest")
        for root in roots:
            await wire.call("catalog/roots", action="remove", path=str(root))
    assert state_of(folder) == before


class Followed:
    """A daemon that looks at files all the time, and a session that a connection subscribed to."""

    def __init__(self, wire: Wire, path: Path) -> None:
        self.wire = wire
        self.path = path

    async def event(self) -> dict[str, Any]:
        """Return the parameters of the next notification."""
        return dict((await self.wire.next_notification())["params"])


@pytest.fixture
async def followed(real_house: House, tmp_path: Path) -> AsyncGenerator[Followed]:
    root = claude_root(tmp_path.resolve())
    path = root / "-home-ann-ping" / f"{CLAUDE.format(3)}.jsonl"
    watcher = PollingWatcher(real_house.files, 0.01)
    async with real_house.daemon(watcher) as daemon, daemon.connect() as wire:
        await add_root(wire, root)
        await ids(wire)
        await wire.call("subscribe", session_id=CLAUDE.format(3))
        yield Followed(wire, path)


async def test_a_line_comes_as_an_event_once_it_is_whole(followed: Followed) -> None:
    line = claude_line("c1a0de00-0000-4000-8000-00000000aaaa", None, "whole")
    with followed.path.open("ab", buffering=0) as file:
        # The last line of the sample is half a line, which its writer ends here.
        file.write(b'"}\n{"type":"mode","mode":"x"}\n' + line[:40])
        seqs = [(await followed.event())["seq"] for _ in range(2)]
        info = await session_info(followed.wire, CLAUDE.format(3))
        assert seqs == [8, 9] == [8, info["seq"]]
        file.write(line[40:])
    event = await followed.event()
    assert event["entry"]["message"]["content"] == "whole"
    assert (event["seq"], event["origin"]) == (10, {"external": True})


async def test_a_later_part_of_an_answer_joins_the_part_that_a_client_has_seen(
    followed: Followed,
) -> None:
    def part(number: int, text: str) -> bytes:
        said = {"id": "msg_x", "role": "assistant", "content": [{"type": "text", "text": text}]}
        parent = f"c1a0de00-0000-4000-8000-00000000f{number - 1:03}" if number else None
        uuid = f"c1a0de00-0000-4000-8000-00000000f{number:03}"
        return claude_line(uuid, parent, "", type="assistant", message=said)

    with followed.path.open("ab", buffering=0) as file:
        file.write(b"\n" + part(0, "one "))
        await followed.event()
        assert await context(followed.wire, CLAUDE.format(3)) == [("assistant", "one ")]
        file.write(part(1, "two"))
        await followed.event()
    assert await context(followed.wire, CLAUDE.format(3)) == [("assistant", "one two")]


@pytest.mark.parametrize("session_id", CONTEXTS)
async def test_a_fork_is_a_native_session_with_the_context_of_its_source(
    real_house: House, tmp_path: Path, session_id: str
) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_all(wire, tmp_path.resolve())
        await ids(wire)
        fork = (await wire.call("session/fork", session_id=session_id))["session"]
        assert (fork["dialect"], fork["read_only"]) == ("native", False)
        assert fork["lineage"]["parent_id"] == session_id
        assert as_expected(await context(wire, fork["id"]), CONTEXTS[session_id])
        await must_be_legal(wire, fork["id"])


@pytest.mark.parametrize("entries", ["all", "context", "path"])
@pytest.mark.parametrize("session_id", LISTED)
async def test_a_fork_of_any_part_is_legal_for_each_provider(
    real_house: House, tmp_path: Path, session_id: str, entries: str
) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_all(wire, tmp_path.resolve())
        await ids(wire)
        fork = await wire.call("session/fork", session_id=session_id, entries=entries)
        forked = fork["session"]["id"]
        assert fork["session"]["problems"] == 0
        assert as_expected(await context(wire, forked), CONTEXTS[session_id])
        await must_be_legal(wire, forked)


@pytest.mark.parametrize("session_id", CONTEXTS)
async def test_a_rebase_of_any_messages_is_a_native_session(
    real_house: House, tmp_path: Path, session_id: str
) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_all(wire, tmp_path.resolve())
        await ids(wire)
        count = (await session_info(wire, session_id))["message_count"]
        numbers = list(range(count))
        choices = (numbers, numbers[::-1], numbers[::2], numbers[1::2])
        for chosen, squashed in product(choices, (False, True)):
            squash = {"squash": {"summary": "in short"}} if squashed else {}
            made = await wire.call(
                "session/rebase", session_id=session_id, indices=chosen, **squash
            )
            rebased = made["session"]
            assert (rebased["problems"], rebased["dialect"]) == (0, "native")
            assert rebased["lineage"]["rebased_from"] == session_id
            exported = (await wire.call("session/export", session_id=rebased["id"]))["content"]
            assert '"responseId"' not in exported
            assert '"tool_result"' not in exported
            if squashed:
                assert [words for _, words in await context(wire, rebased["id"])] == ["in short"]
            elif chosen == numbers:
                # Calls that are chosen without their results stay without, as in any rebase.
                await must_be_legal(wire, rebased["id"])


async def must_be_legal(wire: Wire, session_id: str) -> None:
    """Check the context behind one more prompt by the rules of each provider."""
    await say(wire, "go on", session_id=session_id)
    for shape, troubles in (("anthropic", anthropic_troubles), ("openai", openai_troubles)):
        shown = await wire.call("session/build_context", session_id=session_id, shape=shape)
        assert troubles(shown["messages"]) == []


async def test_a_fork_at_an_entry_names_the_entry_and_what_was_left_out(
    real_house: House, tmp_path: Path
) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, claude_root(tmp_path.resolve()))
        await ids(wire)
        at = "c1a0de00-0000-4000-8000-000000000005"
        fork = await wire.call("session/fork", session_id=CLAUDE.format(1), at=at, ids="renew")
        lineage = fork["session"]["lineage"]
        assert (lineage["parent_id"], lineage["at_entry"]) == (CLAUDE.format(1), at)
        path = await wire.call("session/path", session_id=fork["session"]["id"])
        said = [(one["entry"]["message"]["role"], one["entry"]["id"]) for one in path["entries"]]
        assert [role for role, _ in said] == ["user", "assistant", "toolResult", "assistant"]
        source = await wire.call("session/entries", session_id=CLAUDE.format(1))
        assert not {one["entry"]["id"] for one in source["entries"]} & {one for _, one in said}


def replace(path: Path) -> None:
    """Rename an equal file over a file."""
    other = path.with_suffix(".tmp")
    shutil.copyfile(path, other)
    other.replace(path)


def change(path: Path) -> None:
    """Change a byte of a file."""
    with path.open("r+b") as file:
        file.seek(path.read_bytes().index(b"2+2"))
        file.write(b"3")


def write_anew(path: Path) -> None:
    """Write other, longer lines over those of a file."""
    line = claude_line("c1a0de00-0000-4000-8000-00000000a000", None, "new " * 99)
    with path.open("r+b") as file:
        file.write(line * (path.stat().st_size // len(line) + 1))


REWRITES: dict[str, Callable[[Path], None]] = {
    "written anew": write_anew,
    "shortened": partial(os.truncate, length=1000),
    "another file": replace,
    "in place": change,
}


@pytest.mark.parametrize("how", REWRITES)
async def test_a_file_that_was_written_anew_is_another_log(followed: Followed, how: str) -> None:
    before = await session_info(followed.wire, CLAUDE.format(3))
    REWRITES[how](followed.path)
    told = await followed.wire.next_notification()
    assert told["method"] == "session/replaced"
    now = await session_info(followed.wire, CLAUDE.format(3))
    assert now["epoch"] != before["epoch"]
    assert now["id"] == before["id"]


async def test_an_epoch_outlives_a_restart_and_growth(real_house: House, tmp_path: Path) -> None:
    root = claude_root(tmp_path.resolve())
    path = root / "-home-ann-ping" / f"{CLAUDE.format(2)}.jsonl"
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root)
        await ids(wire)
        told = await wire.call("subscribe", session_id=CLAUDE.format(2))
        cursor = {"epoch": told["epoch"], "seq": told["seq"]}
    with path.open("ab") as file:
        file.write(claude_line("c1a0de00-0000-4000-8000-00000000bbbb", None, "meanwhile"))
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await ids(wire)
        again = await wire.call("subscribe", session_id=CLAUDE.format(2), after=cursor)
        assert again["epoch"] == cursor["epoch"]
        event = (await wire.next_notification())["params"]
        assert event["entry"]["message"]["content"] == "meanwhile"
        assert event["seq"] == cursor["seq"] + 1


def large(path: Path, turns: int) -> None:
    """Write a session of Claude Code whose lists read only a part."""
    title = {"type": "custom-title", "customTitle": "a long talk", "sessionId": path.stem}
    path.write_bytes(claude_talk(turns) + json.dumps(title).encode() + b"\n")


async def test_a_list_reads_the_beginning_and_the_end_of_a_large_file(
    real_house: House, tmp_path: Path
) -> None:
    root = tmp_path.resolve() / "claude" / "projects"
    path = root / "-p" / f"{CLAUDE.format(9)}.jsonl"
    path.parent.mkdir(parents=True)
    large(path, 2000)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root)
        (shown,) = (await wire.call("session/list"))["sessions"]
        assert shown["partial"] is True
        assert (shown["title"], shown["first_message"][:6]) == ("a long talk", "turn 0")
        assert shown["message_total"] < 200
        whole = await session_info(wire, path.stem)
        assert whole["message_total"] == 2000
        # No client has seen a line of the session yet, so the epoch in the list is the session's.
        assert whole["epoch"] == shown["epoch"]
        assert "partial" not in whole
    with path.open("ab") as file:
        file.write(claude_line("c1a0de00-0000-4000-8000-00000000cccc", None, "zebra"))
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        (shown,) = (await wire.call("session/list"))["sessions"]
        assert (shown["partial"], shown["epoch"]) == (True, whole["epoch"])
        again = await session_info(wire, path.stem)
        assert (again["epoch"], again["message_total"]) == (whole["epoch"], 2001)
        for words in ("zebra", "turn 1234"):
            (hit,) = (await wire.call("session/search", query=words))["hits"]
            entry = await wire.call("session/entry", session_id=path.stem, entry_id=hit["entry_id"])
            assert hit["seq"] == entry["seq"]


async def test_a_search_finds_what_came_and_forgets_what_went(
    real_house: House, tmp_path: Path
) -> None:
    root = claude_root(tmp_path.resolve())
    path = root / "-home-ann-ping" / f"{CLAUDE.format(2)}.jsonl"

    async def found(words: str) -> list[str]:
        hits = (await wire.call("session/search", query=words))["hits"]
        return [hit["session_id"] for hit in hits]

    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root)
        assert await found("zebra") == []
        with path.open("ab") as file:
            file.write(claude_line("c1a0de00-0000-4000-8000-00000000dddd", None, "zebra"))
        real_house.seconds += SCAN_SECONDS
        assert await found("zebra") == [CLAUDE.format(2)]
        path.unlink()
        assert await found("zebra") == []
        assert CLAUDE.format(2) not in await ids(wire)
        assert await found("what is")
        await wire.call("catalog/roots", action="remove", path=str(root))
        assert await found("what is") == []


async def test_segments_and_copies_of_a_rollout_are_one_session(
    real_house: House, tmp_path: Path
) -> None:
    root = codex_root(tmp_path.resolve())
    day = root / "2026" / "11" / "02"
    (first,) = day.glob("*0002.jsonl")
    archived = root.parent / "archived_sessions"
    archived.mkdir()
    shutil.copyfile(first, archived / first.name)
    packed = zstandard.compress(first.read_bytes())
    (day / f"{first.name}.zst").write_bytes(packed)
    later = day / f"{first.stem.replace('10-20', '11-20')}_{CODEX.format('ff')}.jsonl"
    shutil.copyfile(first, later)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        for folder in (archived, root):
            await add_root(wire, folder)
        page = await wire.call("session/list")
        shown = {one["id"]: one["path"] for one in page["sessions"]}
        assert shown.keys() == {CODEX.format(end) for end in CODEX_ENDS}
        assert shown[CODEX.format("02")] == str(later)
        assert page["unreadable"] == []
        for path in (later, first):
            path.unlink()
        page = await wire.call("session/list")
        shown = {one["id"]: one["path"] for one in page["sessions"]}
        assert shown[CODEX.format("02")] == str(archived / first.name)
        (archived / first.name).unlink()
        assert CODEX.format("02") in await ids(wire)
        assert as_expected(await context(wire, CODEX.format("02")), CONTEXTS[CODEX.format("02")])


async def test_a_fork_without_its_base_says_so(real_house: House, tmp_path: Path) -> None:
    root = codex_root(tmp_path.resolve())
    (base,) = root.glob("*/*/*/*000a.jsonl")
    base.unlink()
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root)
        await ids(wire)
        found = await wire.call("session/verify", session_id=CODEX.format("0b"))
        assert "orphan" in {one["kind"] for one in found["problems"]}
        assert len(await context(wire, CODEX.format("0b"))) == 2


async def test_files_that_say_nothing_are_no_sessions_and_no_trouble(
    real_house: House, tmp_path: Path
) -> None:
    root = claude_root(tmp_path.resolve())
    project = root / "-home-ann-ping"
    empty = project / f"{CLAUDE.format(7)}.jsonl"
    empty.touch()
    (project / "notes.jsonl").write_text("{}\n")
    (project / "sessions-index.json").write_text("{}")
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root)
        page = await wire.call("session/list")
        assert len(page["sessions"]) == 3
        assert page["unreadable"] == []
        refused = await wire.refusal("session/open", path=str(empty))
        assert (refused.data["kind"], refused.data["retryable"]) == ("session_not_found", True)
        empty.write_bytes(claude_line("c1a0de00-0000-4000-8000-00000000eeee", None, "begun"))
        real_house.seconds += SCAN_SECONDS
        assert CLAUDE.format(7) in await ids(wire)


async def test_no_session_is_made_in_a_root_of_another_agent(
    real_house: House, tmp_path: Path
) -> None:
    root = claude_root(tmp_path.resolve())
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root)
        refused = await wire.refusal("session/create", cwd="/p", root=str(root))
        assert (refused.data["kind"], refused.data["path"]) == ("invalid_params", "root")


async def test_no_number_of_newer_sessions_of_other_agents_hides_the_own_one(
    real_house: House, tmp_path: Path
) -> None:
    root = tmp_path.resolve() / "claude" / "projects"
    (root / "-p").mkdir(parents=True)
    for number in range(RECENT_LOOKED_AT + 1):
        path = root / "-p" / f"5e55a1d0-0000-4000-8000-{number:012}.jsonl"
        shutil.copyfile(SAMPLES / "claude-branch-compact.jsonl", path)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, cwd="/home/ann/ping", persist="immediate")
        await say(wire, role="assistant")
        await add_root(wire, root)
        found = await wire.call("session/continue_recent", cwd="/home/ann/ping")
        assert (found["created"], found["session"]["id"]) == (False, SESSION)


async def test_the_size_of_a_context_is_that_of_the_last_request(
    real_house: House, tmp_path: Path
) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, claude_root(tmp_path.resolve()))
        await ids(wire)
        at = "c1a0de00-0000-4000-8000-000000000003"
        for entry_id, tokens in ((None, 15 + 350 + 30), (at, 12 + 1000 + 90)):
            place = {} if entry_id is None else {"entry_id": entry_id}
            built = await wire.call("session/build_context", session_id=CLAUDE.format(1), **place)
            assert built["tokens"] == tokens


async def test_a_search_takes_only_so_much_of_one_session(
    real_house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, AGENT_TEXT_CHARS_MAX=1500)
    root = tmp_path.resolve() / "claude" / "projects"
    path = root / "-p" / f"{CLAUDE.format(9)}.jsonl"
    path.parent.mkdir(parents=True)
    large(path, 3)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root)
        found = [
            len((await wire.call("session/search", query=f"turn {turn}"))["hits"])
            for turn in range(3)
        ]
        assert found == [1, 0, 0]


LISTED_PROGRAM = {session_id: program for session_id, (_, _, program, _) in LISTED.items()}
LISTED_PROGRAM[TASK] = "claude-code"


@pytest.mark.parametrize("dialect", ["pi", "operator", "piglet", "sharur"])
@pytest.mark.parametrize("session_id", CONTEXTS)
async def test_a_fork_is_written_in_the_format_of_the_program_that_goes_on(
    real_house: House, tmp_path: Path, session_id: str, dialect: str
) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_all(wire, tmp_path.resolve())
        await ids(wire)
        fork = await wire.call("session/fork", session_id=session_id, dialect=dialect)
        session = fork["session"]
        assert (session["dialect"], session["read_only"], session["problems"]) == (
            dialect,
            False,
            0,
        )
        assert "converted from native" in fork["notes"]
        built = await wire.call("session/build_context", session_id=session["id"])
        assert CONTEXTS[session_id][-1][1] in json.dumps(built["messages"][-1])
        whole = await wire.call(
            "session/fork", session_id=session_id, dialect=dialect, entries="all"
        )
        exported = await wire.call("session/export", session_id=session_id, format=dialect)
        assert exported["content"].count("\n") == whole["session"]["seq"] + 1
        assert exported["notes"][0] == f"converted from {LISTED_PROGRAM[session_id]}"


async def test_a_damaged_rollout_is_named_and_hides_no_other(
    real_house: House, tmp_path: Path
) -> None:
    root = codex_root(tmp_path.resolve())
    damaged = root / "rollout-2026-11-02T12-00-00-x.jsonl.zst"
    damaged.write_bytes(zstandard.compress(b"x" * 5000)[:-9])
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root)
        page = await wire.call("session/list")
        assert len(page["sessions"]) == len(CODEX_ENDS)
        assert [one["path"] for one in page["unreadable"]] == [str(damaged)]


@pytest.mark.parametrize("method", ["session/get", "session/verify"])
async def test_a_file_that_is_written_anew_while_it_is_read_is_an_error_of_the_disk(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    root = claude_root(tmp_path.resolve())
    house = House(home, Files())
    reads = FileSource.more

    def more(source: FileSource) -> list[bytes]:
        if source.read_bytes:
            replace(source.path)
        return reads(source)

    async with house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root)
        before = await ids(wire)
        monkeypatch.setattr(FileSource, "more", more)
        refused = await wire.refusal(method, session_id=before[1])
        assert (refused.data["kind"], refused.data["errno"]) == ("storage_error", "ESTALE")
        monkeypatch.undo()
        house.seconds += SCAN_SECONDS
        assert await ids(wire) == before


class Listing(Files):
    """A disk that notes the folders that were listed."""

    def __init__(self) -> None:
        self.listed: list[Path] = []

    def listdir(self, folder: Path) -> list[str]:
        self.listed.append(folder)
        return super().listdir(folder)


def test_a_fork_finds_its_beginning_by_the_day_in_its_id(tmp_path: Path) -> None:
    root = codex_root(tmp_path)
    (fork,) = root.glob("*/*/*/*000b.jsonl")
    (base,) = root.glob("*/*/*/*000a.jsonl")
    first = fork.read_bytes().splitlines()[0]
    # The id of the samples is of 2026-07-11.
    day = root / "2026" / "07" / "11"
    for other in (day, root / "2025" / "01" / "01"):
        other.mkdir(parents=True)
    moved = base.rename(day / base.name)
    disk = Listing()
    spans = spans_before(fork, first, disk)
    assert spans is not None
    assert [(span.path, span.end) for span in spans] == [(moved, 1583)]
    assert disk.listed == [fork.parent, day]
    # Elsewhere it is found too.
    away = moved.rename(root / "2025" / "01" / "01" / base.name)
    assert [span.path for span in spans_before(fork, first, disk) or ()] == [away]


def test_a_sample_of_a_file_that_grows_meanwhile_is_a_sample(tmp_path: Path) -> None:
    path = tmp_path / f"{CLAUDE.format(9)}.jsonl"
    large(path, 400)
    source, is_part = open_sample(HeldFile(Files(), path))
    with path.open("ab") as file:
        file.write(claude_line("c1a0de00-0000-4000-8000-00000000cccc", None, "zebra"))
    assert is_part
    found = [line for lines in iter(source.more, []) for line in lines]
    assert b'"turn 0 ' in found[0]
    assert b"a long talk" in found[-1]
    source.close()


def test_a_file_without_a_line_has_no_sample(tmp_path: Path) -> None:
    path = tmp_path / "zeros.jsonl"
    path.touch()
    os.truncate(path, 3 * LINE_BYTES_MAX)
    reads: list[int] = []

    class Reading(Files):
        def pread(self, fd: int, count: int, offset: int) -> bytes:
            reads.append(count)
            return super().pread(fd, count, offset)

    source, _ = open_sample(HeldFile(Reading(), path))
    assert source.more() == []
    source.close()
    assert sum(reads) <= LINE_BYTES_MAX + 2**20
    assert max(reads) <= 2**20


async def test_a_name_that_codex_gives_later_is_the_title(
    real_house: House, tmp_path: Path
) -> None:
    root = codex_root(tmp_path.resolve())
    index, thread = root.parent / "session_index.jsonl", CODEX.format("02")

    def name(said: str) -> None:
        with index.open("a") as file:
            file.write(json.dumps({"id": thread, "thread_name": said, "updated_at": "x"}) + "\n")

    async def title() -> str | None:
        real_house.seconds += SCAN_SECONDS
        rows = (await wire.call("session/list"))["sessions"]
        found: str | None = next(row["title"] for row in rows if row["id"] == thread)
        return found

    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root)
        assert await title() is None
        name("Colours")
        assert await title() == "Colours"
        name("Colours and cities")
        assert await title() == "Colours and cities"
    name("Cities")
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        assert await title() == "Cities"
        epoch = (await session_info(wire, thread))["epoch"]
        name("Towns")
        assert (await session_info(wire, thread))["epoch"] == epoch
