"""The cost of the first list of many files, equal on every machine, and whose id is whose."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from sessiond.catalog.guarded import GuardedDatabase
from sessiond.journal.disk.files import Files
from sessiond.limits import AGENT_LIST_BYTES_MAX, ROOT_FIGURES_SECONDS, SCAN_SECONDS
from sessiond.model.ids import derive_session_id
from sessiond.service.files.guarded_files import guarded
from sessiond.service.files.in_place import AgentFiles
from sessiond.service.files.rows import Rows
from sessiond.service.thread_pool import ThreadPool
from sessiond.testing.wire import Wire
from tests.kit.agent_roots import CLAUDE, claude_talk
from tests.kit.family import FAMILY, family_file
from tests.kit.fleet import Fleet
from tests.kit.house import House
from tests.kit.limits import set_limits
from tests.kit.roots import add_root, pi_file, put

FEW, MANY = 10, 30
KINDS: Final = ("claude-code", "codex", "gemini-cli", "pi")
MOST: Final = {"claude-code": 900, "codex": 1110, "gemini-cli": 790, "pi": 490}
"""Python calls that reading a small file of each kind may cost; they are about 830, 1020 to 1070, 735 and 450."""


class Counting(Files):
    """The machine's disk, with counts of openings of each file and of the bytes that were read of it."""

    def __init__(self) -> None:
        self.opened = Counter[Path]()
        self.read = Counter[Path]()
        self._at: dict[int, Path] = {}

    def open_read(self, path: Path) -> int:
        fd = super().open_read(path)
        self._at[fd] = path
        self.opened[path] += 1
        return fd

    def pread(self, fd: int, count: int, offset: int) -> bytes:
        data = super().pread(fd, count, offset)
        self.read[self._at.get(fd, Path())] += len(data)
        return data


class Counted:
    """Counts of a daemon's calls: looks, hand-overs to threads, uses of the catalog, Python calls of the reading."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.calls = Counter[str]()
        looks = type(guarded(Files(), lambda _: "", ThreadPool(1)))
        self._count(patch, looks, "_look")
        self._count(patch, ThreadPool, "submit")
        self._count(patch, GuardedDatabase, "use")
        read = Rows.read_new

        def read_new(rows: Rows, *asked: Any) -> Any:
            sys.setprofile(self._called)
            try:
                return read(rows, *asked)
            finally:
                sys.setprofile(None)

        patch.setattr(Rows, "read_new", read_new)

    def _count(self, patch: pytest.MonkeyPatch, owner: type, name: str) -> None:
        method: Callable[..., Any] = getattr(owner, name)

        def counted(*asked: Any, **more: Any) -> Any:
            self.calls[name] += 1
            return method(*asked, **more)

        patch.setattr(owner, name, counted)

    def _called(self, _frame: object, event: str, _what: object) -> None:
        self.calls["python"] += event == "call"


def files_of(kind: str, home: Path, count: int) -> tuple[Path, list[Path]]:
    """Return a root with small files of one kind in one folder, all alike."""
    root = (home / kind).resolve()
    fleet = Fleet(home / "fleet", mean_bytes=1)
    made_of = [fleet.add() for _ in range(10)]
    model = next(one for one in made_of if one.kind == kind and one.parent is None)
    content, at = model.path.read_bytes(), model.path.relative_to(fleet.roots[kind])
    made: list[Path] = []
    for number in range(count):
        name = f"{number:08x}{model.id[8:]}"
        path = (root / at).with_name(
            at.name.replace(model.id, name).replace(model.id[:8], name[:8])
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.replace(model.id.encode(), name.encode()))
        os.utime(path, (number + 1, number + 1))
        made.append(path)
    return root, made


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no folder be looked at again only because it was made a moment ago."""
    set_limits(monkeypatch, SAME_TIME_SECONDS=0.0)


async def listed(wire: Wire) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = (await wire.call("session/list", limit=1000))["sessions"]
    return rows


@pytest.mark.parametrize("kind", KINDS)
async def test_a_first_list_opens_each_file_once_in_one_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    found: list[Counter[str]] = []
    for count in (FEW, MANY):
        home = tmp_path / str(count)
        root, files = files_of(kind, home, count)
        disk = Counting()
        with monkeypatch.context() as patch:
            counted = Counted(patch)
            async with House(home / "home", disk).daemon() as daemon, daemon.connect() as wire:
                await add_root(wire, root, kind)
                assert len(await listed(wire)) == count
        assert {disk.opened[path] for path in files} == {1}
        assert all(disk.read[path] == path.stat().st_size for path in files)
        found.append(counted.calls)
    each = {name: (found[1][name] - found[0][name]) / (MANY - FEW) for name in found[0]}
    sys.stdout.write(f"{kind}: {each}\n")
    # Codex and Gemini CLI keep a name, or a folder, in another file.
    assert each["_look"] <= (1 if kind in {"claude-code", "pi"} else 2), each
    assert each["submit"] <= 1 / 10, each
    assert each["use"] <= 1 / 10, each
    assert each["python"] <= MOST[kind], each


async def test_to_add_a_root_takes_no_thread_for_each_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[int] = []
    for count in (FEW, MANY):
        home = tmp_path / str(count)
        root = (home / "claude").resolve()
        for number in range(count):
            talk = put(root / f"-p{number}", CLAUDE.format(1), claude_talk(1))
            put(talk.with_suffix("") / "subagents", "agent-1", claude_talk(1))
        async with House(home / "home", Files()).daemon() as daemon, daemon.connect() as wire:
            with monkeypatch.context() as patch:
                counted = Counted(patch)
                added = await add_root(wire, root, "claude-code")
        assert added["sessions"] == 2 * count
        found.append(counted.calls["submit"])
    assert found[0] == found[1]


async def test_who_adds_root_after_root_waits_for_the_files_of_each_root_once(
    home: Path, tmp_path: Path
) -> None:
    roots = [(tmp_path / name).resolve() for name in "abcd"]
    for root in roots:
        put(root, "session-1", pi_file("session-1", "hi"))
    house = House(home, Files())

    async def told(wire: Wire, **asked: Any) -> list[int]:
        answer = await wire.call("catalog/roots", **asked)
        return [one["sessions"] for one in answer["roots"] if one["added"]]

    async with house.daemon() as daemon, daemon.connect() as wire:
        for number, root in enumerate(roots[:2], 1):
            assert await told(wire, action="add", path=str(root), kind="pi") == [1] * number
            put(root, "session-2", pi_file("session-2", "hi"))
        assert await told(wire, action="add", path=str(roots[2]), kind="pi") == [1, 1, 1]
        assert await told(wire) == [2, 2, 1]
        put(roots[0], "session-3", pi_file("session-3", "hi"))
        house.seconds += ROOT_FIGURES_SECONDS
        assert await told(wire, action="add", path=str(roots[3]), kind="pi") == [3, 2, 1, 1]
        assert await told(wire, action="remove", path=str(roots[1])) == [3, 1, 1]
        assert await told(wire, action="add", path=str(roots[1]), kind="pi") == [3, 1, 1, 2]


@pytest.mark.parametrize("kind", KINDS[:3])
async def test_a_first_list_reads_of_a_large_file_no_more_than_its_bound(
    home: Path, tmp_path: Path, kind: str
) -> None:
    fleet = Fleet(tmp_path.resolve() / "fleet", mean_bytes=300_000)
    fleet.fill(20)
    talks = (one for one in fleet.sessions.values() if one.kind == kind and one.parent is None)
    large = [one for one in talks if one.path.stat().st_size > AGENT_LIST_BYTES_MAX]
    assert large
    disk = Counting()
    async with House(home, disk).daemon() as daemon, daemon.connect() as wire:
        # The figures are read whole once they are asked for, or nobody has written to the file for a while.
        await add_root(wire, fleet.roots[kind], kind)
        rows = {one["id"]: one for one in await listed(wire)}
        for one in large:
            assert disk.read[one.path] <= AGENT_LIST_BYTES_MAX
            assert disk.opened[one.path] == 1
            assert rows[one.id]["partial"] is True
            assert rows[one.id]["first_message"]


@pytest.mark.parametrize("kind", FAMILY)
async def test_a_first_list_reads_as_little_of_a_large_file_of_pis_family(
    home: Path, tmp_path: Path, kind: str
) -> None:
    root = (tmp_path / kind).resolve()
    files = [
        put(root, f"{number}", family_file(kind, messages, size, number=number))
        for number, (messages, size) in enumerate(((200, 500), (40, 5_000), (2_000, 2_000)), 1)
    ]
    disk = Counting()
    async with House(home, disk).daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root, kind)
        rows = {one["path"]: one for one in await listed(wire)}
        for path in files:
            assert path.stat().st_size > AGENT_LIST_BYTES_MAX
            assert disk.read[path] <= AGENT_LIST_BYTES_MAX
            assert disk.opened[path] == 1
            assert rows[str(path)]["partial"] is True
            assert rows[str(path)]["first_message"].startswith("turn 0 ")
            assert rows[str(path)]["status"] == "done"
            assert (rows[str(path)]["problems"], rows[str(path)]["read_only"]) == (0, False)


async def test_a_first_list_reads_the_files_of_the_profile_whole(home: Path) -> None:
    house = House(home, Files())
    async with house.daemon() as daemon, daemon.connect() as wire:
        made = (await wire.call("session/create", cwd="/p"))["session"]["id"]
        said = [
            {"type": "message", "message": {"role": role, "content": "x" * 1000}}
            for role in ("user", "assistant") * 100
        ]
        await wire.call("session/append", session_id=made, entries=said)
        await wire.call("session/update", session_id=made, title="kept", tags=["mine"])
        await wire.call("session/append", session_id=made, entries=said)
    house.layout.catalog.unlink()
    async with house.daemon() as daemon, daemon.connect() as wire:
        (row,) = await listed(wire)
        assert (row["title"], row["tags"], row["message_total"]) == ("kept", ["mine"], 400)
        assert "partial" not in row


@pytest.mark.parametrize("is_newest", [False, True])
@pytest.mark.parametrize("batch", [1, 100])
async def test_the_owner_of_an_id_does_not_follow_the_times_of_the_files(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int, is_newest: bool
) -> None:
    set_limits(monkeypatch, SCAN_BATCH_ROWS=batch)
    root = (tmp_path / "pi").resolve()
    label = b'{"type":"label","id":"20000000","parentId":"10000000","timestamp":"2026-01-01T00:00:00.000Z","targetId":"10000000","label":"kept"}\n'
    first = put(root / "a", "one", pi_file("session-p1", "first"))
    second = put(root / "b", "two", pi_file("session-p1", "second") + label)
    third = put(root / "c", "three", pi_file("session-p3", "third"))
    for at, path in enumerate((first, third, second) if is_newest else (second, third, first)):
        os.utime(path, (100 - at, 100 - at))
    house = House(home, Files())
    async with house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root, "pi")
        rows = await listed(wire)
        shown = {one["path"]: (one["id"], one["first_message"]) for one in rows}
        assert shown == {
            str(first): ("session-p1", "first"),
            str(second): (derive_session_id(str(second)), "second"),
            str(third): ("session-p3", "third"),
        }
        house.seconds += SCAN_SECONDS
        assert {one["path"]: one["id"] for one in await listed(wire)} == {
            path: name for path, (name, _) in shown.items()
        }
        for session_id, words in shown.values():
            page = await wire.call("session/build_context", session_id=session_id)
            assert words in str(page)


@pytest.mark.parametrize("is_newest", [False, True])
async def test_a_session_of_an_agent_has_its_id_whichever_file_is_newer(
    home: Path, tmp_path: Path, is_newest: bool
) -> None:
    claude = (tmp_path / "claude" / "projects").resolve()
    own = put(claude / "-p", CLAUDE.format(1), claude_talk(1))
    other = put((tmp_path / "pi").resolve(), "copy", pi_file(CLAUDE.format(1), "other"))
    os.utime(own, (5, 5) if is_newest else (50, 50))
    os.utime(other, (10, 10))
    async with House(home, Files()).daemon() as daemon, daemon.connect() as wire:
        await wire.call("catalog/roots", action="add", path=str(other.parent), kind="pi")
        await add_root(wire, claude)
        found = {one["path"]: one["id"] for one in await listed(wire)}
        assert found == {
            str(own): CLAUDE.format(1),
            str(other): derive_session_id(str(other)),
        }


class Replacing(Files):
    """A disk on which a program puts another file into the place of one that was just opened."""

    def __init__(self, path: Path, by: Path) -> None:
        self._path, self._by = path, by

    def open_read(self, path: Path) -> int:
        fd = super().open_read(path)
        if path == self._path and self._by.exists():
            self._by.rename(path)
        return fd


@pytest.mark.parametrize("turns", [2, 200])
def test_a_list_shows_one_of_two_files_and_never_a_mixture(tmp_path: Path, turns: int) -> None:
    path = put(tmp_path, CLAUDE.format(1), claude_talk(turns))
    by = put(tmp_path, "other", claude_talk(turns).replace(b"turn ", b"step "))
    files = AgentFiles(Replacing(path, by), tmp_path)
    for word in ("turn", "step"):
        with files.hold(path) as held:
            found = files.recognise(path, held)
            assert found is not None
            log, indexer, is_part = files.summary(found, found.header.id, held)
            count = log.line_count - 1
            lines = b"".join(log.read(1, count))
            log.close()
        assert is_part is (turns == 200)
        assert (indexer.session.first_message or "").startswith(f"{word} 0 ")
        assert lines.count(b'"%b ' % word.encode()) == count
