"""Roots: folders of other programs are listed, searched and watched beside the profile's own."""

from __future__ import annotations

import json
import os
import re
import shutil
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from anyio import to_thread
from anyio.lowlevel import checkpoint

from sessiond.catalog.guarded import GuardedDatabase
from sessiond.dialects.places import Home
from sessiond.journal.disk.files import Files, FileStat
from sessiond.model.ids import derive_session_id
from sessiond.service.files.scanning.folder_scanner import FolderScanner
from sessiond.service.files.scanning.root_folders import RootFolders
from sessiond.testing.daemon import Refusal
from tests.kit.calls import append, create, session_info
from tests.kit.house import House
from tests.kit.limits import set_limits
from tests.kit.roots import SAMPLES, add_root, ids, one_root, pi_file, pi_line, put

WORK = "--p-work--"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return pi's folder with two projects."""
    folder = tmp_path / "pi" / "sessions"
    put(folder / "--p--", "2026-01-01T00-00-00-000Z_session-p1", pi_file("session-p1", "a", "b"))
    put(folder / WORK, "any name", pi_file("session-p2", "find me", "c", cwd="/p/work"))
    return folder.resolve()


# -- lists and searches -------------------------------------------------------------------------


async def test_the_files_of_a_root_are_listed_filtered_and_searched(
    real_house: House, root: Path
) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, "session-a", persist="immediate")
        found = await add_root(wire, root)
        sizes = [path.stat().st_size for path in root.rglob("*.jsonl")]
        assert found == {
            "path": str(root),
            "kind": "pi",
            "sessions": 2,
            "bytes": sum(sizes),
            "added": True,
            "configured": False,
            "reason": None,
            "indexed_chars": 0,
            "index_full": False,
            "outputs": True,
        }
        assert await ids(wire) == ["session-a", "session-p1", "session-p2"]
        assert await ids(wire, program="pi") == ["session-p1", "session-p2"]
        assert await ids(wire, program="native") == ["session-a"]
        assert await ids(wire, root=str(root)) == ["session-p1", "session-p2"]
        assert await ids(wire, root=str(root), cwd="/p/work") == ["session-p2"]
        (hit,) = (await wire.call("session/search", query="find me"))["hits"]
        assert hit["session_id"] == "session-p2"
        forest = await wire.call("catalog/forest", scope="all")
        assert len(forest["nodes"]) == 3
        recent = await wire.call("session/continue_recent", cwd="/p/work")
        assert (recent["created"], recent["session"]["id"]) == (False, "session-p2")
        info = await session_info(wire, "session-p2")
        assert (info["agent_program"], info["path"]) == ("pi", str(root / WORK / "any name.jsonl"))


async def test_roots_are_durable_and_unchanged_files_are_not_opened_again(
    home: Path, root: Path
) -> None:
    files = Counting(home)
    async with files.house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root)
        before = (await wire.call("session/list"))["sessions"]
        assert len(before) == 2
    files.opened.clear()
    async with files.house.daemon() as daemon, daemon.connect() as wire:
        assert (await wire.call("session/list"))["sessions"] == before
        assert [path for path in files.opened if root in path.parents] == []


async def test_a_list_of_unchanged_roots_looks_at_no_file_in_them(
    home: Path, tmp_path: Path
) -> None:
    files = Counting(home)
    folder = tmp_path.resolve() / "many"
    for number in range(30):
        session_id = f"session-{number:02}"
        put(folder / f"--p{number % 3}--", session_id, pi_file(session_id, "x"))
    folders = [folder, *folder.iterdir()]
    for each in folders:
        os.utime(each, (0, 0))
    async with files.house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, folder)
        assert len(await ids(wire)) == 30
        files.looked.clear()
        assert len(await ids(wire)) == 30
        # One look at each folder's time; where the profile's own folders are new, another one.
        looked = [path for path in files.looked if folder in (path, *path.parents)]
        assert set(looked) == set(folders)
        assert len(looked) <= 2 * len(folders)


async def test_what_another_program_adds_appends_and_removes_is_seen(
    real_house: House, root: Path
) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root)
        await ids(wire)
        new = put(root / "--new--", "n", pi_file("session-p3", "x"), old=False)
        assert await ids(wire) == ["session-p1", "session-p2", "session-p3"]
        with new.open("ab") as file:
            file.write(json.dumps(pi_line("10000009", "10000000", "more")).encode() + b"\n")
        real_house.seconds += 2
        page = await wire.call("session/list", root=str(new.parent))
        assert page["sessions"][0]["message_count"] == 2
        shutil.rmtree(root / WORK)
        assert await ids(wire) == ["session-p1", "session-p3"]


async def test_a_file_that_was_no_session_yet_is_looked_at_again(
    real_house: House, root: Path
) -> None:
    """A program that makes a file and then writes the header is met between the two."""
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root)
        path = put(root, "half", b"", old=False)
        assert await ids(wire) == ["session-p1", "session-p2"]
        path.write_bytes(pi_file("session-p4", "x"))
        real_house.seconds += 2
        assert await ids(wire) == ["session-p1", "session-p2", "session-p4"]


# -- files that are hard to list ----------------------------------------------------------------


async def test_what_cannot_be_read_is_told_and_in_the_way_of_nothing(
    real_house: House, root: Path
) -> None:
    put(root, "no session", b"{}\n")
    put(root, "empty", b"")
    (root / "a folder.jsonl").mkdir()
    (root / "loop.jsonl").symlink_to(root / "loop.jsonl")
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root)
        page = await wire.call("session/list")
        assert len(page["sessions"]) == 2
        told = [Path(one["path"]).name for one in page["unreadable"]]
        assert told == ["empty.jsonl", "loop.jsonl", "no session.jsonl"]


async def test_a_root_that_vanishes_takes_its_sessions_out_of_lists_until_it_is_back(
    real_house: House, root: Path
) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root)
        before = (await wire.call("session/list"))["sessions"]
        away = root.with_name("away")
        root.rename(away)
        page = await wire.call("session/list")
        assert page["sessions"] == []
        assert [one["path"] for one in page["unreadable"]] == [str(root)]
        found = one_root(await wire.call("catalog/roots"), root)
        assert (found["sessions"], found["reason"]) == (
            0,
            "cannot be read: No such file or directory",
        )
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        assert await ids(wire) == []
        away.rename(root)
        # The epochs too: a client's cursors are still good.
        assert (await wire.call("session/list"))["sessions"] == before


class Denied(Files):
    """A disk on which one folder cannot be listed, and nothing in it be looked at."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.denied = False

    def _check(self, path: Path | str) -> None:
        if self.denied and self.folder in (Path(path), *Path(path).parents):
            raise PermissionError(13, "Permission denied")

    def stats(self, folder: Path) -> dict[str, FileStat]:
        self._check(folder)
        return super().stats(folder)

    def exists(self, path: Path | str) -> bool:
        self._check(Path(path).parent)
        return super().exists(path)

    def open_read(self, path: Path) -> int:
        self._check(path)
        return super().open_read(path)


async def test_a_root_that_must_not_be_read_does_not_fail_a_list(home: Path, root: Path) -> None:
    files = Denied(root)
    house = House(home, files)
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, "session-a", persist="immediate")
        await add_root(wire, root)
        assert len(await ids(wire)) == 3
    files.denied = True
    async with house.daemon() as daemon, daemon.connect() as wire:
        page = await wire.call("session/list")
        assert [one["id"] for one in page["sessions"]] == ["session-a"]
        told = {one["path"]: one["reason"] for one in page["unreadable"]}
        assert told == {str(root): "cannot be read: Permission denied"}


async def test_two_files_of_one_id_are_two_sessions_and_stay_so(
    real_house: House, root: Path
) -> None:
    copy = put(root, "copy", pi_file("session-p1", "other"))
    other = next((root / "--p--").iterdir())
    derived = derive_session_id(str(other))
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root)
        first = {one["path"]: one["id"] for one in (await wire.call("session/list"))["sessions"]}
        assert (first[str(copy)], first[str(other)]) == ("session-p1", derived)
    # Neither a start nor the end of the file with the id gives the other another id.
    copy.unlink()
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        now = {one["path"]: one["id"] for one in (await wire.call("session/list"))["sessions"]}
        assert now[str(other)] == derived
        opened = await wire.call("session/open", path=str(other))
        assert opened["session"]["id"] == derived
        assert opened["session"]["lineage"]["header_id"] == "session-p1"


async def test_links_roots_in_roots_and_the_profile_list_each_file_once(
    real_house: House, root: Path, tmp_path: Path
) -> None:
    outside = put(tmp_path / "outside", "o", pi_file("session-o", "x")).resolve()
    (root / "link.jsonl").symlink_to(root / WORK / "any name.jsonl")
    (root / "outside.jsonl").symlink_to(outside)
    (root / "again").symlink_to(root / WORK)
    (root / "circle").symlink_to(root)
    spelled = tmp_path / "spelled"
    spelled.symlink_to(root)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        (root / "own").symlink_to(real_house.layout.sessions)
        await create(wire, "session-a", persist="immediate")
        await add_root(wire, root)
        for same in (spelled, root / WORK):
            await wire.call("catalog/roots", action="add", path=str(same), kind="pi")
        added = [one for one in (await wire.call("catalog/roots"))["roots"] if one["added"]]
        assert [one["path"] for one in added] == [str(root), str(root / WORK)]
        assert await ids(wire) == ["session-a", "session-o", "session-p1", "session-p2"]
        assert await ids(wire, root=str(spelled)) == ["session-o", "session-p1", "session-p2"]
        by_path = (await wire.call("session/open", path=str(outside)))["session"]
        assert by_path["id"] == "session-o"
        for inside in (real_house.layout.root, real_house.layout.archive):
            with pytest.raises(Refusal, match="part of the profile"):
                await wire.call("catalog/roots", action="add", path=str(inside), kind="native")
        # What a root that is removed shares with another root stays.
        await wire.call("catalog/roots", action="remove", path=str(root))
        assert await ids(wire) == ["session-a", "session-p2"]


# -- changes of the roots -----------------------------------------------------------------------


async def test_many_files_that_go_at_once_leave_lists_all(
    real_house: House, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scan stores its findings a batch at a time, and these files are more than one batch."""
    set_limits(monkeypatch, SCAN_BATCH_ROWS=2)
    for number in range(7):
        put(root / WORK, f"many {number}", pi_file(f"session-m{number}", "a", "b"))
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, "session-a", persist="immediate")
        await add_root(wire, root)
        assert len(await ids(wire)) == 10
        for path in (root / WORK).glob("many *"):
            path.unlink()
        assert await ids(wire) == ["session-a", "session-p1", "session-p2"]
        for number in range(7):
            put(root / WORK, f"more {number}", pi_file(f"session-n{number}", "a", "b"))
        assert len(await ids(wire)) == 10
        await wire.call("catalog/roots", action="remove", path=str(root))
        assert await ids(wire) == ["session-a"]


async def test_a_removed_root_leaves_lists_search_and_the_words_of_the_catalog(
    real_house: House, root: Path
) -> None:
    before = {path: path.read_bytes() for path in root.rglob("*.jsonl")}
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root)
        await wire.call("session/search", query="find me")
        # One session of the root is open and was changed.
        message = {"role": "user", "content": "more", "timestamp": 1769936401000}
        await wire.call("session/append", session_id="session-p1", message=message)
        epoch = (await session_info(wire, "session-p2"))["epoch"]
        await wire.call("catalog/subscribe")
        answer = await wire.call("catalog/roots", action="remove", path=str(root))
        assert [one for one in answer["roots"] if one["added"]] == []
        assert await ids(wire) == []
        assert (await wire.call("session/search", query="find me"))["hits"] == []
        hints = {(await wire.next_notification())["params"]["session_id"] for _ in range(2)}
        assert hints == {"session-p1", "session-p2"}
        # The file can still be opened by its path, where a client's cursors are still good.
        path = str(root / WORK / "any name.jsonl")
        assert (await wire.call("session/open", path=path))["session"]["epoch"] == epoch
        assert await ids(wire) == []
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        assert await ids(wire) == []
    for name in ("catalog.sqlite", "search.sqlite"):
        for kept in real_house.layout.root.glob(f"{name}*"):
            assert b"find me" not in kept.read_bytes(), kept
    for file, data in before.items():
        assert file.read_bytes().startswith(data)


async def test_a_root_that_left_the_configuration_while_no_daemon_ran_is_not_listed(
    real_house: House, root: Path
) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await daemon.service.roots.configure({"pi": [str(root)]}, [])
        assert await ids(wire) == ["session-p1", "session-p2"]
        with pytest.raises(Refusal, match=r"take it out of roots\.pi there"):
            await wire.call("catalog/roots", action="remove", path=str(root))
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        assert await ids(wire) == []


async def test_open_sessions_come_into_lists_with_their_root(real_house: House, root: Path) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        path = str(root / WORK / "any name.jsonl")
        await wire.call("session/open", path=path)
        assert await ids(wire) == []
        await add_root(wire, root)
        assert await ids(wire) == ["session-p1", "session-p2"]


async def test_what_the_programs_of_this_machine_have_is_found_and_not_opened(
    home: Path, root: Path, tmp_path: Path
) -> None:
    files = Counting(home)
    (tmp_path / "op" / "ana" / "sessions").mkdir(parents=True)
    put(tmp_path / "op" / "ben" / "sessions", "x", b"whatever")
    homes = [
        ("pi", Home(str(root), by_project=True)),
        ("pi", Home(str(tmp_path / "missing"))),
        ("native", Home(f"{tmp_path}/op/*/sessions")),
    ]
    files.house.environment = msgspec.structs.replace(files.house.environment, homes=lambda: homes)
    async with files.house.daemon() as daemon, daemon.connect() as wire:
        files.opened.clear()
        found = (await wire.call("catalog/roots"))["roots"]
        assert [(one["kind"], one["sessions"], one["added"]) for one in found] == [
            ("pi", 2, False),
            ("native", 0, False),
            ("native", 1, False),
        ]
        assert [path for path in files.opened if tmp_path in path.parents] == []
        assert await ids(wire) == []
        # The kind follows from the place.
        assert (await add_root(wire, root))["kind"] == "pi"


async def test_adding_says_what_is_missing(real_house: House, root: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        for params, path, text in (
            ({"action": "add"}, "path", "needs the path"),
            ({"action": "remove"}, "path", "needs the path"),
            ({"action": "add", "path": "x"}, "path", "absolute"),
            ({"path": str(root)}, "path", "no meaning for action list"),
            ({"action": "remove", "path": str(root), "kind": "pi"}, "kind", "no meaning"),
            ({"action": "remove", "path": str(root)}, "path", "is no root"),
            ({"action": "add", "path": str(tmp_path / "none")}, "path", "No such file"),
            ({"action": "add", "path": str(root), "kind": "vi"}, "kind", "native, pi"),
            ({"action": "add", "path": str(empty)}, "kind", "name it with kind"),
        ):
            with pytest.raises(Refusal, match=text) as refusal:
                await wire.call("catalog/roots", **params)
            assert refusal.value.data["path"] == path, params
        await wire.call("catalog/roots", action="add", path=str(empty), kind="native")
        with pytest.raises(Refusal, match="kind native already"):
            await wire.call("catalog/roots", action="add", path=str(empty), kind="pi")
        await wire.call("initialize", access="status")
        await wire.call("catalog/roots")
        with pytest.raises(Refusal, match="access"):
            await wire.call("catalog/roots", action="remove", path=str(empty))


async def test_a_damaged_list_of_roots_is_reported_and_kept(real_house: House, root: Path) -> None:
    real_house.layout.root.mkdir(parents=True)
    real_house.layout.roots.write_bytes(b"{half")
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        assert await ids(wire) == []
        with pytest.raises(Refusal, match="is damaged"):
            await add_root(wire, root)
        assert real_house.layout.roots.read_bytes() == b"{half"
        real_house.layout.roots.unlink()
        await add_root(wire, root)
        assert len(await ids(wire)) == 2


# -- one session of a root ----------------------------------------------------------------------


async def test_a_session_of_a_root_is_changed_deleted_and_restored_where_it_lies(
    real_house: House, root: Path
) -> None:
    path = root / WORK / "any name.jsonl"
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root)
        assert await ids(wire) == ["session-p1", "session-p2"]
        with pytest.raises(Refusal, match="outside the profile"):
            await wire.call("session/archive", session_id="session-p2")
        with pytest.raises(Refusal, match="remove the root"):
            await wire.call("session/forget", session_id="session-p2")
        await wire.call("session/delete", session_id="session-p2")
        assert not path.exists()
        assert await ids(wire) == ["session-p1"]
        restored = (await wire.call("session/restore", session_id="session-p2"))["session"]
        assert restored["path"] == str(path)
        assert await ids(wire) == ["session-p1", "session-p2"]
        done = await wire.call("retention/run", max_age_hours=0.001, dry_run=False)
        assert done["sessions"] == []


async def test_samples_of_other_programs_are_listed_as_they_are(
    real_house: House, tmp_path: Path
) -> None:
    folder = tmp_path.resolve() / "samples"
    shutil.copytree(SAMPLES / "pi", folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, folder, "pi")
        page = await wire.call("session/list")
        shown = {Path(one["path"]).name: one for one in page["sessions"]}
        assert shown.keys() == before.keys()
        old = shown["pi-v1-linear.jsonl"]
        assert (old["read_only_reason"], old["message_total"]) == ("older_version", 4)
        recent = await wire.call("session/continue_recent", cwd=old["cwd"])
        assert recent["session"]["id"] != old["id"]
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize("kind", ["pi", "operator", "piglet", "sharur"])
async def test_the_first_list_reads_each_file_of_a_root_in_one_opening(
    home: Path, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = Counting(home)
    folder, count = tmp_path.resolve() / "samples", 12
    content = (SAMPLES / kind / f"{kind}.jsonl").read_bytes()
    header_id = re.search(rb'"id":"([^"]+)"', content)
    assert header_id is not None
    folder.mkdir()
    for number in range(count):
        name = f"session-{number:02}"
        path = folder / f"{name}.jsonl"
        path.write_bytes(content.replace(header_id[1], name.encode()))
        os.utime(path, (1, 1))
    uses: list[object] = []
    use = GuardedDatabase.use

    def counted(file: GuardedDatabase, work: Callable[..., Any]) -> Any:
        uses.append(work)
        return use(file, work)

    async with files.house.daemon() as daemon, daemon.connect() as wire:
        await wire.call("catalog/roots", action="add", path=str(folder), kind=kind)
        files.opened.clear()
        files.looked.clear()
        monkeypatch.setattr(GuardedDatabase, "use", counted)
        assert await ids(wire) == [f"session-{number:02}" for number in range(count)]
        opened = Counter(path for path in files.opened if folder in path.parents)
        looked = Counter(path for path in files.looked if folder in path.parents)
        assert set(opened.values()) == {1}
        assert len(opened) == len(looked) == count
        # One look right before the opening, beside the one at the whole folder.
        assert set(looked.values()) == {1}
        # The records are read together, and all rows are stored together.
        assert len(uses) <= 10


async def test_what_a_daemon_recorded_of_a_root_stays_whatever_became_of_the_files(
    real_house: House, root: Path
) -> None:
    path = root / WORK / "any name.jsonl"
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root)
        before = {one["id"]: one for one in (await wire.call("session/list"))["sessions"]}
    # While no daemon runs, one file grows and a copy of another comes under another name.
    with path.open("ab") as file:
        line = pi_line("10000009", "10000001", "more")
        file.write(json.dumps(line).encode() + b"\n")
    shutil.copy(path, root / WORK / "a copy.jsonl")
    async with real_house.daemon(scanned=False) as daemon, daemon.connect() as wire:
        sessions = (await wire.call("session/list"))["sessions"]
        found = {one["path"]: one for one in sessions}
        grown = found[str(path)]
        assert grown["id"] == "session-p2"
        assert grown["epoch"] == before["session-p2"]["epoch"]
        assert grown["message_total"] == before["session-p2"]["message_total"] + 1
        copy = str(root / WORK / "a copy.jsonl")
        assert found[copy]["id"] == derive_session_id(copy)
        assert len(sessions) == len(before) + 1
        epochs = {one["id"]: one["epoch"] for one in sessions}
        await wire.call("catalog/roots", action="remove", path=str(root))
        assert (await wire.call("session/list"))["sessions"] == []
        await add_root(wire, root)
        sessions = (await wire.call("session/list"))["sessions"]
        assert {one["id"]: one["epoch"] for one in sessions} == epochs


@pytest.mark.parametrize("is_first", [False, True], ids=["later scan", "first scan of its roots"])
async def test_a_root_that_is_removed_while_a_scan_looks_at_it_leaves_the_list(
    real_house: House, root: Path, monkeypatch: pytest.MonkeyPatch, is_first: bool
) -> None:
    looking, removed = threading.Event(), threading.Event()
    look = RootFolders.look

    def look_later(folders: RootFolders, *args: Any, **more: Any) -> Any:
        looking.set()
        assert removed.wait(20)
        return look(folders, *args, **more)

    async with real_house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await add_root(wire, root)
        assert await ids(wire) == ["session-p1", "session-p2"]
        await wire.call("session/open", session_id="session-p2")
        put(root / WORK, "new", pi_file("session-p3", "c"))
        if is_first:
            (root.parent / "other").mkdir()
            await add_root(wire, root.parent / "other", "pi")
        monkeypatch.setattr(RootFolders, "look", look_later)
        listing = await other.request("session/list")
        assert await to_thread.run_sync(looking.wait, 20)
        await append(wire, "last", "words of the last moment", session_id="session-p2")
        await wire.call("catalog/roots", action="remove", path=str(root))
        removed.set()
        await other.answer(listing)
        assert await ids(wire) == []
        assert (await wire.call("session/search", query="moment"))["hits"] == []
        await add_root(wire, root)
        assert await ids(wire) == ["session-p1", "session-p2", "session-p3"]


async def test_a_row_on_the_way_when_its_root_is_removed_leaves_the_list(
    real_house: House, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looking, said, storing, look, store = (threading.Event() for _ in range(5))
    scanned: list[None] = []
    run, miss = FolderScanner.run, FolderScanner.miss

    def run_later(scanner: FolderScanner, *args: Any) -> None:
        looking.set()
        assert look.wait(20)
        run(scanner, *args)
        scanned.append(None)

    def store_later(scanner: FolderScanner, *args: Any) -> None:
        # The row with the last words was made, and is not stored yet.
        if said.is_set():
            storing.set()
            assert store.wait(20)
        miss(scanner, *args)

    async with real_house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await add_root(wire, root)
        assert await ids(wire) == ["session-p1", "session-p2"]
        await wire.call("session/open", session_id="session-p2")
        with monkeypatch.context() as patched:
            patched.setattr(FolderScanner, "run", run_later)
            patched.setattr(FolderScanner, "miss", store_later)
            # Behind the patch: no scan that began before finds the file.
            put(root / WORK, "new", pi_file("session-p3", "c"))
            # Two lists wait for scans, then a third one stores a row of the open session.
            lists = [await other.request("session/list") for _ in range(2)]
            while len(daemon.service.live_catalog._waiting) < 2:
                await checkpoint()
            assert await to_thread.run_sync(looking.wait, 20)
            said.set()
            await append(wire, "last", "words", session_id="session-p2")
            lists.append(await other.request("session/list"))
            assert await to_thread.run_sync(storing.wait, 20)
            removal = await wire.request("catalog/roots", action="remove", path=str(root))
            while daemon.store.profile.roots.current:
                await checkpoint()
            look.set()
            while len(scanned) < 2:
                await checkpoint()
            store.set()
            await wire.answer(removal)
            for listing in lists:
                await other.answer(listing)
        assert await ids(wire) == []


async def test_a_file_in_the_place_of_a_link_is_listed(real_house: House, root: Path) -> None:
    link = root / WORK / "link.jsonl"
    link.symlink_to(root / WORK / "any name.jsonl")
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root)
        assert await ids(wire) == ["session-p1", "session-p2"]
        put(root / WORK, "new", pi_file("session-p3", "c")).replace(link)
        assert await ids(wire) == ["session-p1", "session-p2", "session-p3"]


class Counting(Files):
    """A disk that counts its calls, and its house."""

    def __init__(self, home: Path) -> None:
        self.calls: Counter[str] = Counter()
        self.opened: list[Path] = []
        self.looked: list[Path] = []
        self.house = House(home, self)

    def stat(self, path: Path) -> FileStat:
        self.calls["stat"] += 1
        self.looked.append(path)
        return super().stat(path)

    def lstat(self, path: Path) -> FileStat:
        self.calls["lstat"] += 1
        self.looked.append(path)
        return super().lstat(path)

    def stats(self, folder: Path) -> dict[str, FileStat]:
        self.calls["stats"] += 1
        self.looked.append(folder)
        return super().stats(folder)

    def open_read(self, path: Path) -> int:
        self.calls["open_read"] += 1
        self.opened.append(path)
        return super().open_read(path)

    def open_update(self, path: Path) -> int:
        self.opened.append(path)
        return super().open_update(path)
