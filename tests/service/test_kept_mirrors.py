"""Kept lines of other agents' large files: opened without a reading of the file, and never as another file's."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from anyio import to_thread

from sessiond.dialects.agents.transcript import Taken, Transcript
from sessiond.journal.disk.files import Files
from sessiond.limits import SCAN_SECONDS
from sessiond.service.external.watcher import PollingWatcher
from sessiond.service.files.startup_cleanup import remove_stray_indexes
from sessiond.testing.daemon import Daemon
from sessiond.testing.disk import FaultDisk
from sessiond.testing.wire import Wire
from tests.kit.agents import (
    claude_line,
    codex_asked,
    codex_event,
    codex_item,
    codex_line,
    codex_said,
    codex_tokens,
)
from tests.kit.calls import let_go
from tests.kit.house import House
from tests.kit.limits import set_limits
from tests.kit.patience import eventually
from tests.kit.roots import add_root

pytestmark = [
    pytest.mark.limits(KEPT_INDEX_FILE_BYTES=100_000),
    pytest.mark.parametrize("anyio_backend", ["asyncio"], scope="session"),
]

WORD: Final = "walrus"
SAID: Final = f"{WORD} " * 150
TURNS: Final = 300
# What tells the agent and the header of a large file, and its end.
KNOWN: Final = 70_000
CLAUDE: Final = "5e55a1d0-0000-4000-8000-0000000000aa"
CODEX: Final = "019f8001-0000-7000-8000-000000000001"
GEMINI: Final = "7d3c1a20-0000-4000-8000-000000000001"


def claude(first: int, last: int) -> list[Any]:
    """Return turns: an answer in two parts that share its usage, a call, a result, and a compaction now and then."""
    lines: list[Any] = []
    for n in range(first, last):
        at, above = 10 * n, 10 * (n - 1) + 4 if n else None
        if n % 50 == 49:
            boundary = {
                "type": "system",
                "subtype": "compact_boundary",
                "content": "c",
                "logicalParentUuid": f"u-{above}",
            }
            lines.append(
                claude_line(
                    at + 5,
                    None,
                    "",
                    **boundary,
                    compactMetadata={"trigger": "auto", "preTokens": 9},
                )
            )
            lines.append(claude_line(at + 6, at + 5, f"summary {n}", isCompactSummary=True))
            above = at + 6
        lines.append(claude_line(at + 1, above, f"{SAID}{n}"))
        usage = {"input_tokens": 10, "output_tokens": n}
        for part, content in enumerate(
            (
                {"type": "text", "text": f"so {n}"},
                {"type": "tool_use", "id": f"t{n}", "name": "Bash", "input": {}},
            ),
            2,
        ):
            line = claude_line(at + part, at + part - 1, "", "assistant")
            line["message"] |= {"id": f"msg_{n}", "content": [content], "usage": usage}
            lines.append(line)
        result = [{"type": "tool_result", "tool_use_id": f"t{n}", "content": "done"}]
        lines.append(claude_line(at + 4, at + 3, result))
    return lines


def codex(first: int, last: int) -> list[Any]:
    lines: list[Any] = (
        []
        if first
        else [codex_line("session_meta", id=CODEX, timestamp="2026-01-15T10:00:00.000Z", cwd="/p")]
    )
    for n in range(first, last):
        lines += [codex_line("turn_context", turn_id=f"turn-{n}", model=f"m-{n % 3}", cwd="/p")]
        lines += codex_asked(f"{SAID}{n}")
        lines.append(codex_item("function_call", name="shell", arguments="{}", call_id=f"c{n}"))
        lines.append(codex_item("function_call_output", call_id=f"c{n}", output="done"))
        lines.append(codex_said(f"so {n}", "assistant"))
        lines.append(codex_tokens(100 * (n + 1), sent=90, got=10))
        if n % 40 == 39:
            lines.append(codex_line("compacted", message=f"summary {n}"))
        if n % 30 == 29:
            lines.append(codex_event("thread_rolled_back", num_turns=1))
    return lines


def gemini(first: int, last: int) -> list[Any]:
    lines: list[Any] = (
        []
        if first
        else [
            {
                "sessionId": GEMINI,
                "projectHash": "h",
                "startTime": "2026-11-03T11:00:00.000Z",
                "kind": "main",
            }
        ]
    )
    time = {"timestamp": "2026-11-03T11:00:00.000Z"}
    for n in range(first, last):
        lines.append({"id": f"q{n}", **time, "type": "user", "content": [{"text": f"{SAID}{n}"}]})
        tokens = {"input": 10, "output": n, "total": 10 + n}
        answer = {"id": f"a{n}", **time, "type": "gemini", "content": f"so {n}", "tokens": tokens}
        lines += [answer, {**answer, "content": f"so {n} and more"}]
        if n % 40 == 39:
            lines.append({"$rewindTo": f"q{n}"})
    return lines


def content(seen: dict[str, Any]) -> dict[str, Any]:
    """Return what clients saw that does not tell one reading from another."""
    session = {**seen["info"]["session"], "epoch": ""}
    return {**seen, "info": session, "context": {**seen["context"], "etag": ""}}


Turns = Callable[[int, int], list[Any]]
AGENTS: Final[dict[str, tuple[str, str, Turns]]] = {
    "claude-code": (CLAUDE, f"claude/-p/{CLAUDE}.jsonl", claude),
    "codex": (CODEX, f"codex/2026/01/15/rollout-2026-01-15T10-00-00-{CODEX}.jsonl", codex),
    "gemini-cli": (GEMINI, f"gemini/p/chats/session-{GEMINI}.jsonl", gemini),
}


def spelled(lines: Sequence[Any]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


class Source:
    """A large file of another agent in a home on a disk in memory, and what clients see of its session."""

    def __init__(self, house: House, agent: str) -> None:
        self.house = house
        self.session_id, name, self.turns = AGENTS[agent]
        self.path = house.home.parent / name
        folders = [each for each in self.path.parents if not house.disk.exists(each)]
        for folder in reversed(folders):
            house.disk.make_folder(folder)
            house.disk.fsync_folder(folder.parent)
        house.disk.put(self.path, spelled(self.turns(0, TURNS)))
        house.disk.seconds += 60.0

    @property
    def size(self) -> int:
        return len(self.house.disk.content(self.path))

    def append(self, data: bytes) -> None:
        self.house.disk.write_as_another(self.path, data)
        self.house.disk.seconds += 60.0

    def kept(self) -> dict[str, bytes]:
        """Return what is kept, by the names of the files."""
        folder, disk = self.house.layout.indexes, self.house.disk
        return {path.name: disk.content(path) for path in disk.paths if path.parent == folder}

    def words(self) -> list[Path]:
        """Return the files of the profile that have a word of the session."""
        disk = self.house.disk
        inside = [path for path in disk.paths if path.is_relative_to(self.house.layout.root)]
        return [path for path in inside if WORD.encode() in disk.content(path)]

    async def opened(self, wire: Wire) -> dict[str, Any]:
        """Open the file, and return everything that clients see of its session."""
        info = (await wire.call("session/open", path=str(self.path)))["session"]
        assert info["id"] == self.session_id
        return await self.shown(wire)

    async def shown(self, wire: Wire) -> dict[str, Any]:
        ask: dict[str, Any] = {"session_id": self.session_id}
        methods = {
            "info": "session/get",
            "heads": "session/heads",
            "labels": "session/labels",
            "context": "build_context",
        }
        found = {name: await wire.call(method, **ask) for name, method in methods.items()}
        entries: list[Any] = []
        after: int | None = 0
        while after is not None:
            page = await wire.call("session/entries", **ask, after_seq=after, limit=1000)
            entries += page["entries"]
            after = page["next_seq"]
        return found | {"entries": entries}

    async def has_grown(self, wire: Wire, before: dict[str, Any], more: bytes) -> bool:
        """Return whether clients see the entries of more lines than before."""
        seen = await self.shown(wire)
        return len(seen["entries"]) - len(before["entries"]) == more.count(b"\n")

    async def seen_once(self) -> dict[str, Any]:
        """Open and close the session in a daemon of its own; return what clients saw."""
        async with self.house.daemon(scanned=False) as daemon, daemon.connect() as wire:
            seen = await self.opened(wire)
            await let_go(daemon, wire, self.session_id)
        return seen

    async def seen_anew(self) -> dict[str, Any]:
        """Return what clients see where nothing is kept."""
        for name in self.kept():
            self.house.disk.unlink(self.house.layout.indexes / name)
        return await self.seen_once()


@pytest.fixture(params=AGENTS)
def source(request: pytest.FixtureRequest, house: House) -> Source:
    return Source(house, request.param)


@pytest.fixture
def one(house: House) -> Source:
    return Source(house, "claude-code")


@contextmanager
def counted(source: Source) -> Iterator[tuple[list[int], list[int]]]:
    """Yield the sizes of the reads of the file in the block, and the numbers of lines that were translated."""
    disk, sizes, lines = source.house.disk, list[int](), list[int]()
    pread, take, inode = disk.pread, Transcript.take, disk.stat(source.path).st_ino

    def read(fd: int, count: int, offset: int) -> bytes:
        data = pread(fd, count, offset)
        if disk.fstat(fd).st_ino == inode:
            sizes.append(len(data))
        return data

    def taken(
        self: Transcript, some: Sequence[bytes], *, is_last: bool, first: int | None = None
    ) -> Iterator[Taken]:
        lines.append(len(some))
        return take(self, some, is_last=is_last, first=first)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disk, "pread", read)
        patch.setattr(Transcript, "take", taken)
        yield sizes, lines


async def test_an_unchanged_file_is_not_read_after_a_restart(source: Source) -> None:
    seen = await source.seen_once()
    assert set(source.kept()) == {f"{source.session_id}.lines", f"{source.session_id}.index"}
    assert source.size > 4 * KNOWN
    with counted(source) as (read, _):
        assert await source.seen_once() == seen
    assert sum(read) <= KNOWN
    # The second closing had nothing to keep anew.
    with counted(source) as (read, _):
        assert await source.seen_once() == seen
    assert sum(read) <= KNOWN


async def test_the_last_entries_are_there_without_the_ones_before(source: Source) -> None:
    seen = await source.seen_once()
    async with source.house.daemon(scanned=False) as daemon, daemon.connect() as wire:
        with counted(source) as (read, _):
            ask = {"session_id": source.session_id, "before_seq": 2**53 - 1, "limit": 3}
            last = await wire.call("session/entries", **ask)
        assert sum(read) <= KNOWN
    assert last["entries"] == seen["entries"][:-4:-1]


async def test_a_file_that_grew_is_read_on(source: Source) -> None:
    seen = await source.seen_once()
    for turn in range(TURNS, TURNS + 10, 5):
        before, more = source.size, spelled(source.turns(turn, turn + 5))
        count, known = more.count(b"\n"), len(seen["entries"])
        source.append(more)
        with counted(source) as (read, lines):
            seen = await source.seen_once()
        # The known bytes are read for their checksum, and translated no more.
        assert before + len(more) <= sum(read) <= before + len(more) + KNOWN
        assert sum(lines) < count + 150
        assert len(seen["entries"]) == known + count
    assert seen == await source.seen_anew()


async def test_a_file_that_grows_behind_a_restart_is_followed(source: Source) -> None:
    await source.seen_once()
    house, watcher = source.house, PollingWatcher(source.house.files, 0.01)
    async with house.daemon(watcher, scanned=False) as daemon, daemon.connect() as wire:
        before = await source.opened(wire)
        await wire.call("subscribe", session_id=source.session_id)
        with counted(source) as (read, _):
            source.append(more := spelled(source.turns(TURNS, TURNS + 5)))
            await eventually(lambda: source.has_grown(wire, before, more))
            seen = await source.shown(wire)
            assert len(more) <= sum(read) <= len(more) + KNOWN
        assert seen["entries"][: len(before["entries"])] == before["entries"]
        await let_go(daemon, wire, source.session_id)
    with counted(source) as (read, _):
        assert await source.seen_once() == seen
    assert sum(read) <= KNOWN
    assert seen == await source.seen_anew()


@pytest.mark.parametrize("cut", [1, 40])
async def test_half_a_line_at_the_end_is_completed_behind_a_restart(
    source: Source, cut: int
) -> None:
    line = spelled(source.turns(TURNS, TURNS + 1)).split(b"\n")[0] + b"\n"
    source.append(line[:-cut])
    seen = await source.seen_once()
    with counted(source) as (read, _):
        assert await source.seen_once() == seen
    assert sum(read) <= KNOWN
    assert seen["info"]["session"]["problems"] == 1
    source.append(line[-cut:])
    seen = await source.seen_once()
    assert seen["info"]["session"]["problems"] == 0
    assert seen == await source.seen_anew()


# -- what is thrown away --------------------------------------------------------------------------


def overwrite(source: Source, by: bytes = b"osprey") -> None:
    """Change a word of the file in place."""
    disk = source.house.disk
    fd = disk.open_update(source.path)
    disk.pwrite(fd, by, source.house.disk.content(source.path).rindex(WORD.encode(), 0, 200_000))
    disk.close(fd)


def overwrite_and_set_the_time_back(source: Source) -> None:
    before = source.house.disk.stat(source.path).st_mtime_ns
    overwrite(source)
    source.house.disk.set_time(source.path, before / 1e9)


def overwrite_and_grow(source: Source) -> None:
    overwrite(source)
    source.append(spelled(source.turns(TURNS, TURNS + 1)))


def replace_by_rename(source: Source) -> None:
    """Put a file with the same bytes in the place of the file."""
    disk = source.house.disk
    other = source.path.with_name("other")
    disk.put(other, disk.content(source.path))
    disk.rename(other, source.path)


def replace_by_a_longer_one(source: Source) -> None:
    disk = source.house.disk
    other = source.path.with_name("other")
    disk.put(other, disk.content(source.path) + spelled(source.turns(TURNS, TURNS + 1)))
    disk.rename(other, source.path)


def shorten(source: Source) -> None:
    disk = source.house.disk
    fd = disk.open_update(source.path)
    disk.truncate(fd, disk.content(source.path).index(b"\n", 250_000) + 1)
    disk.close(fd)


CHANGES: Final = [
    overwrite,
    overwrite_and_set_the_time_back,
    overwrite_and_grow,
    replace_by_rename,
    replace_by_a_longer_one,
    shorten,
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
async def test_a_file_that_changed_is_read_anew(
    one: Source, change: Callable[[Source], None]
) -> None:
    seen = await one.seen_once()
    change(one)
    one.house.disk.seconds += 60.0
    with counted(one) as (_, lines):
        found = await one.seen_once()
    assert sum(lines) >= one.house.disk.content(one.path).count(b"\n")
    assert found["info"]["session"]["epoch"] != seen["info"]["session"]["epoch"] or (
        change is replace_by_rename or change is replace_by_a_longer_one
    )
    anew = await one.seen_anew()
    assert content(found) == content(anew)


async def test_a_touched_file_is_read_for_its_checksum_alone(one: Source) -> None:
    seen = await one.seen_once()
    one.house.disk.set_time(one.path, one.house.disk.seconds - 9)
    with counted(one) as (read, lines):
        assert await one.seen_once() == seen
    assert sum(lines) < 200
    assert one.size <= sum(read) <= one.size + KNOWN
    with counted(one) as (read, _):
        assert await one.seen_once() == seen
    assert sum(read) <= KNOWN


async def test_what_a_file_has_no_more_leaves_the_disk_as_soon_as_it_is_read(one: Source) -> None:
    await one.seen_once()
    data = spelled(one.turns(0, TURNS)).replace(WORD.encode(), b"osprey")
    one.house.disk.put(one.path, data[: data.index(b"\n", 200_000) + 1])
    assert one.words()
    async with one.house.daemon(scanned=False) as daemon, daemon.connect() as wire:
        await one.opened(wire)
        assert one.words() == []


async def test_a_session_that_begins_otherwise_by_now_is_read_anew(house: House) -> None:
    """The folder of a chat of Gemini CLI stands in a file beside it."""
    one = Source(house, "gemini-cli")
    root = one.path.parent.parent / ".project_root"
    epochs: set[str] = set()
    seen: dict[str, Any] = {}
    for folder in ("/one", "/two"):
        house.disk.put(root, folder.encode())
        seen = await one.seen_once()
        assert seen["info"]["session"]["cwd"] == folder
        epochs.add(seen["info"]["session"]["epoch"])
    # The first line is another one, so it is another log.
    assert len(epochs) == 2
    assert seen == await one.seen_anew()


@pytest.mark.parametrize("change", [overwrite, shorten], ids=lambda change: change.__name__)
async def test_a_change_behind_a_restart_is_found(
    one: Source, change: Callable[[Source], None]
) -> None:
    await one.seen_once()
    house, watcher = one.house, PollingWatcher(one.house.files, 0.01)
    async with house.daemon(watcher, scanned=False) as daemon, daemon.connect() as wire:
        before = await one.opened(wire)
        await wire.call("subscribe", session_id=one.session_id)
        house.disk.set_time(one.path, house.disk.seconds - 9)
        log = daemon.service.registry.by_id[one.session_id].opened.journal
        await eventually(lambda: to_thread.run_sync(lambda: not log.has_grown()))
        assert (await one.shown(wire))["info"] == before["info"]
        change(one)
        house.disk.seconds += 60.0
        note = await wire.next_notification()
        while note["method"] != "session/replaced":
            note = await wire.next_notification()
        await wire.call("session/open", session_id=one.session_id)
        found = await one.shown(wire)
        await let_go(daemon, wire, one.session_id)
    assert content(found) == content(await one.seen_anew())


DAMAGES: Final[dict[str, Callable[[bytes], bytes]]] = {
    "empty": lambda _: b"",
    "cut": lambda data: data[:-1],
    "cut in the middle": lambda data: data[: len(data) // 2],
    "one bit": lambda data: data[:2000] + bytes([data[2000] ^ 1]) + data[2001:],
    "zeros at the end": lambda data: data[:-50] + bytes(50),
    "longer": lambda data: data + data[-50:],
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("suffix", ["lines", "index"])
async def test_what_is_kept_and_damaged_is_thrown_away(
    one: Source, suffix: str, damage: str
) -> None:
    seen, disk = await one.seen_once(), one.house.disk
    path = one.house.layout.indexes / f"{one.session_id}.{suffix}"
    data = DAMAGES[damage](disk.content(path))
    fd = disk.open_update(path)
    disk.truncate(fd, 0)
    disk.pwrite(fd, data, 0)
    disk.close(fd)
    disk.seconds += 60.0
    with counted(one) as (_, lines):
        assert await one.seen_once() == seen
    assert sum(lines) >= disk.content(one.path).count(b"\n")
    with counted(one) as (read, _):
        assert await one.seen_once() == seen
    assert sum(read) <= KNOWN


async def test_what_is_kept_of_another_file_is_thrown_away(house: House) -> None:
    """A copy that has the name of another session, as a backup may bring back."""
    one, other = Source(house, "claude-code"), Source(house, "codex")
    await one.seen_once()
    seen = await other.seen_once()
    for suffix in ("lines", "index"):
        own, strange = (
            house.layout.indexes / f"{each.session_id}.{suffix}" for each in (other, one)
        )
        house.disk.rename(strange, own)
    assert await other.seen_once() == seen


OPERATIONS: Final = ("pwrite", "truncate", "fdatasync", "create", "write", "fsync", "rename")


@pytest.mark.parametrize("op", OPERATIONS)
async def test_a_failure_while_lines_are_kept_costs_what_is_kept_alone(
    one: Source, op: str
) -> None:
    disk = one.house.disk
    async with one.house.daemon(scanned=False) as daemon, daemon.connect() as wire:
        seen = await one.opened(wire)
        disk.fail(op, errno=errno.ENOSPC)
        await let_go(daemon, wire, one.session_id)
        disk.heal()
        assert await one.opened(wire) == seen
        await let_go(daemon, wire, one.session_id)
    assert await one.seen_once() == seen


@pytest.mark.parametrize("names", range(1, 7))
@pytest.mark.parametrize("keep", [0, 5000])
async def test_a_power_cut_leaves_nothing_wrong(home: Path, keep: int, names: int) -> None:
    """A crash behind the closing leaves a part of the names, and of the bytes a part with zeros behind."""
    house = House(home, FaultDisk(home.parent))
    one = Source(house, "claude-code")
    seen = await one.seen_once()
    kept, own = one.kept(), {f"{one.session_id}.lines", f"{one.session_id}.index"}
    house.files = house.disk.crash(keep=keep, names=names, zeros=10**9)
    house.disk.seconds += 60.0
    left = one.kept()
    # The lines are synced before there is an index of them.
    assert own - left.keys() or all(left[name] == kept[name] for name in own)
    assert content(await one.seen_once()) == content(seen)


async def test_a_kill_while_the_lines_are_written_leaves_nothing_that_is_believed(
    one: Source,
) -> None:
    seen, disk = await one.seen_once(), one.house.disk
    overwrite(one)
    disk.seconds += 60.0
    async with one.house.daemon(scanned=False) as daemon, daemon.connect() as wire:
        changed = await one.opened(wire)
        assert changed["entries"] != seen["entries"]
        killed = disk.kill()
    # The new lines are there, and the index of the old ones, or none.
    one.house.files = killed
    assert f"{one.session_id}.lines" in one.kept()
    found = await one.seen_once()
    assert found["entries"] == changed["entries"]


# -- what goes with its session -------------------------------------------------------------------


async def test_a_forgotten_session_leaves_no_line(one: Source) -> None:
    await one.seen_once()
    assert one.words()
    async with one.house.daemon() as daemon, daemon.connect() as wire:
        await one.opened(wire)
        await wire.call("session/forget", session_id=one.session_id)
        assert one.kept() == {}
        assert one.words() == []
        await eventually(lambda: daemon.service.registry.is_free(one.session_id))
    assert one.words() == []


async def test_what_is_forgotten_while_a_session_is_open_does_not_come_back(one: Source) -> None:
    async with one.house.daemon(scanned=False) as daemon, daemon.connect() as wire:
        seen = await one.opened(wire)
        files = daemon.store
        await to_thread.run_sync(files.profile.indexes.forget, one.session_id)
        assert one.words() == []
        assert await one.shown(wire) == seen
        await let_go(daemon, wire, one.session_id)
    assert one.kept() == {}


async def test_a_small_file_leaves_no_line(one: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    set_limits(monkeypatch, KEPT_INDEX_FILE_BYTES=one.size + 1)
    await one.seen_once()
    assert one.kept() == {}


@pytest.mark.parametrize("gone", [True, False])
async def test_a_start_removes_the_lines_of_a_file_that_is_gone(one: Source, *, gone: bool) -> None:
    await one.seen_once()
    if gone:
        one.house.disk.unlink(one.path)
    async with one.house.daemon(scanned=False) as daemon:
        await to_thread.run_sync(remove_stray_indexes, daemon.store)
        assert bool(one.kept()) != gone


async def test_a_start_removes_lines_without_an_index(one: Source) -> None:
    await one.seen_once()
    one.house.disk.unlink(one.house.layout.index_path(one.session_id))
    async with one.house.daemon(scanned=False) as daemon:
        await to_thread.run_sync(remove_stray_indexes, daemon.store)
    assert one.kept() == {}


async def test_a_file_that_is_removed_while_its_session_is_open_leaves_no_line(one: Source) -> None:
    async with one.house.daemon(scanned=False) as daemon, daemon.connect() as wire:
        await one.opened(wire)
        one.house.disk.unlink(one.path)
        await let_go(daemon, wire, one.session_id)
    assert one.kept() == {}
    assert one.words() == []


async def test_the_lines_that_were_kept_longest_ago_make_room(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = [Source(house, agent) for agent in AGENTS]
    sizes: list[int] = []
    for source in sources:
        await source.seen_once()
        sizes.append(len(source.kept()[f"{source.session_id}.lines"]))
    set_limits(monkeypatch, KEPT_COPIES_BYTES_MAX=sum(sizes[1:]) + 100)
    sources[0].house.disk.seconds += 60.0
    sources[2].append(spelled(sources[2].turns(TURNS, TURNS + 1)))
    set_limits(monkeypatch, KEPT_COPIES_BYTES_MAX=sum(sizes[1:]) + 100_000)
    await sources[2].seen_once()
    kept = {f"{each.session_id}.{end}" for each in sources[1:] for end in ("lines", "index")}
    assert set(house_kept(house)) == kept


def house_kept(house: House) -> list[str]:
    return [path.name for path in house.disk.paths if path.parent == house.layout.indexes]


# -- roots, on the disk of this machine -----------------------------------------------------------


class Root:
    """A root with a large session of Claude Code, which was opened and closed once."""

    def __init__(self, house: House, folder: Path) -> None:
        self.house = house
        self.folder = folder / "claude"
        self.path = folder / AGENTS["claude-code"][1]
        self.path.parent.mkdir(parents=True)
        self.path.write_bytes(spelled(claude(0, TURNS)))
        os.utime(self.path, (1, 1))

    async def keep(self, daemon: Daemon, wire: Wire) -> None:
        await add_root(wire, self.folder, "claude-code")
        await self.scan(wire)
        await wire.call("session/open", session_id=CLAUDE)
        await let_go(daemon, wire, CLAUDE)
        assert self.words() == {f"{CLAUDE}.lines", f"{CLAUDE}.index"}

    async def scan(self, wire: Wire) -> None:
        """Let a list look at every file."""
        self.house.seconds += SCAN_SECONDS
        await wire.call("session/list")

    def words(self) -> set[str]:
        """Return the names of the kept files that have a word of the session."""
        folder = self.house.layout.indexes
        found = folder.iterdir() if folder.exists() else ()
        return {path.name for path in found if WORD.encode() in path.read_bytes()}


@pytest.fixture
def root(real_house: House, tmp_path: Path) -> Root:
    return Root(real_house, tmp_path)


def removed(root: Root) -> None:
    root.path.unlink()


def replaced(root: Root) -> None:
    other = root.path.with_suffix(".new")
    other.write_bytes(root.path.read_bytes().replace(WORD.encode(), b"osprey"))
    os.utime(other, (2, 2))
    other.rename(root.path)


def emptied(root: Root) -> None:
    root.path.write_bytes(spelled(claude(0, 1)).replace(WORD.encode(), b"osprey"))
    os.utime(root.path, (2, 2))


def rewritten(root: Root) -> None:
    data = root.path.read_bytes().replace(WORD.encode(), b"osprey")
    with root.path.open("r+b") as file:
        file.write(data)
    os.utime(root.path, (2, 2))


@pytest.mark.parametrize(
    "change", [removed, replaced, emptied, rewritten], ids=lambda one: one.__name__
)
async def test_lines_that_a_scan_finds_gone_or_changed_leave_the_disk(
    root: Root, change: Callable[[Root], None]
) -> None:
    async with root.house.daemon() as daemon, daemon.connect() as wire:
        await root.keep(daemon, wire)
        change(root)
        await root.scan(wire)
        assert root.words() == set()


async def test_lines_of_a_file_that_grew_stay(root: Root) -> None:
    async with root.house.daemon() as daemon, daemon.connect() as wire:
        await root.keep(daemon, wire)
        kept = root.words()
        with root.path.open("ab") as file:
            file.write(spelled(claude(TURNS, TURNS + 1)))
        os.utime(root.path, (2, 2))
        await root.scan(wire)
        assert root.words() == kept


@pytest.mark.parametrize("is_open", [False, True])
async def test_a_root_that_is_removed_takes_its_lines_along(root: Root, *, is_open: bool) -> None:
    async with root.house.daemon() as daemon, daemon.connect() as wire:
        await root.keep(daemon, wire)
        if is_open:
            await wire.call("session/open", session_id=CLAUDE)
        await wire.call("catalog/roots", action="remove", path=str(root.folder))
        await root.scan(wire)
        assert root.words() == set()
    assert root.words() == set()


async def test_kept_lines_are_only_for_their_user(root: Root) -> None:
    async with root.house.daemon() as daemon, daemon.connect() as wire:
        await root.keep(daemon, wire)
    folder = root.house.layout.indexes
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}


async def test_a_session_of_a_root_opens_in_the_next_daemon_without_a_reading(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with root.house.daemon() as daemon, daemon.connect() as wire:
        await root.keep(daemon, wire)
    read = 0
    pread, inode = Files.pread, root.path.stat().st_ino

    def counting(self: Files, fd: int, count: int, offset: int) -> bytes:
        nonlocal read
        data = pread(self, fd, count, offset)
        read += len(data) if os.fstat(fd).st_ino == inode else 0
        return data

    monkeypatch.setattr(Files, "pread", counting)
    async with root.house.daemon(scanned=False) as daemon, daemon.connect() as wire:
        await to_thread.run_sync(remove_stray_indexes, daemon.store)
        await wire.call("session/entries", session_id=CLAUDE, before_seq=2**53 - 1, limit=3)
    assert 0 < read <= KNOWN
