"""Files of users beside session files: no call of sessiond and no start removes or replaces one."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from anyio import to_thread

from sessiond.service.files.startup_cleanup import remove_half_made
from sessiond.testing.daemon import Refusal
from tests.kit.calls import call, create_with, refused, say
from tests.kit.house import House
from tests.kit.limits import set_limits
from tests.kit.sessions import SESSION, native_file
from tests.service.damage import GOOD

STAMP = "2026-01-15T10-30-00-000000"
# Zero bytes, as only a power cut leaves them.
TORN = b'{"type":"mess\0'
# Endings of names that users and other programs give; sessiond gives none of them.
THEIRS = (
    *(".bak", ".notes.md", ".py", ".new", ".2", ".from-elsewhere", ".torn", ".torn-notes"),
    *(f".torn-{STAMP}.txt", f".torn-{STAMP}-old", f".torn-{STAMP}-1", f".before-repair-{STAMP}"),
    *(f"~.torn-{STAMP}", "-wal", "", f".torn-{STAMP}\n"),
)


def their_files(path: Path, endings: tuple[str, ...] = THEIRS) -> dict[Path, object]:
    """Put files, a folder, a link and a dangling link of a user beside a session file."""
    for ending in endings:
        if ending:
            path.with_name(path.name + ending).write_bytes(b"of the user: " + ending.encode())
    folder = path.with_name(f"{path.name}.d")
    folder.mkdir(exist_ok=True)
    (folder / "notes.md").write_bytes(b"notes")
    # Exactly as sessiond names copies of torn ends, but no regular files.
    path.with_name(f"{path.name}.torn-{STAMP}-7").mkdir(exist_ok=True)
    for number, target in ((8, path.with_name(f"{path.name}.bak")), (9, folder / "nowhere")):
        link = path.with_name(f"{path.name}.torn-{STAMP}-{number}")
        if not os.path.lexists(link):
            link.symlink_to(target)
    return seen(path.parent, path)


def seen(folder: Path, *besides: Path) -> dict[Path, object]:
    """Return everything in a folder: the content of files and the target of links."""
    found: dict[Path, object] = {}
    for path in set(folder.rglob("*")) - set(besides):
        if path.is_symlink():
            found[path] = path.readlink()
        else:
            found[path] = "folder" if path.is_dir() else path.read_bytes()
    return found


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """Return a folder of the user outside the profile."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    return folder


# -- delete and purge ------------------------------------------------------------------------


async def test_delete_and_purge_take_only_what_sessiond_made_of_a_file_outside_the_profile(
    real_house: House, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, HALF_LINE_SECONDS=0.05)
    project = elsewhere
    chat = project / "chat"
    chat.write_bytes(native_file([], SESSION) + TORN)
    theirs = their_files(chat, (*THEIRS, ".md"))
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        opened = (await wire.call("session/open", path=str(chat)))["session"]["id"]
        # The first change cuts the torn end.
        await say(wire, session_id=opened)
        (torn,) = set(project.iterdir()) - {chat} - set(theirs)
        assert torn.read_bytes() == TORN
        await wire.call("session/delete", session_id=opened)
        assert seen(project) == theirs
        trashed = [path.read_bytes() for path in real_house.layout.trash.iterdir()]
        # The file, its torn end, and a note of where it lay.
        assert len(trashed) == 3
        assert TORN in trashed
        assert any(data.startswith(native_file([], SESSION)) for data in trashed)
        await wire.call("session/purge", session_id=opened)
        assert seen(project) == theirs
        assert list(real_house.layout.trash.iterdir()) == []


async def test_delete_and_purge_leave_files_of_the_user_in_the_folders_of_the_profile(
    real_house: House,
) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        made = await create_with(wire, "n1", persist="immediate")
        path = Path(made["session"]["path"])
        theirs = their_files(path)
        await call(wire, "session/delete")
        assert seen(path.parent) == theirs
        trashed = real_house.layout.trash / path.name
        # An earlier version moved such files, and a user may have moved some by hand.
        ours = {".2", ".from-elsewhere", f".before-repair-{STAMP}"}
        in_trash = their_files(trashed, tuple(e for e in THEIRS if e not in ours))
        await call(wire, "session/purge")
        assert seen(real_house.layout.trash) == in_trash
        assert seen(path.parent) == theirs
        assert await refused(wire, "session/purge") == "session_not_found"


async def test_a_purge_takes_everything_that_sessiond_put_into_the_trash(real_house: House) -> None:
    ours = [
        *("", ".2", ".17", f".torn-{STAMP}", f".torn-{STAMP}-2", f".torn-{STAMP}.3"),
        *(f".before-repair-{STAMP}", f".before-repair-{STAMP}.2", ".from-chat", ".from-a.b c.2"),
        *(f".from-chat.torn-{STAMP}", f".from-chat.before-repair-{STAMP}"),
    ]
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        for own in (f"{STAMP}_{SESSION}.jsonl", f"{SESSION}.jsonl"):
            for ending in ours:
                if not (ending.startswith(".from-") and own.startswith(SESSION)):
                    (real_house.layout.trash / f"{own}{ending}").write_bytes(b"x")
        await call(wire, "session/purge")
        assert list(real_house.layout.trash.iterdir()) == []


async def test_a_purge_removes_the_rest_when_one_file_cannot_be_removed(house: House) -> None:
    path = house.put(GOOD + TORN)
    async with house.daemon() as daemon, daemon.connect() as wire:
        await say(wire)
        await call(wire, "session/delete")
        trash = house.layout.trash
        house.disk.put(trash / f"{path.name}.before-repair-{STAMP}", b"x")
        assert len(house.disk.listdir(trash)) == 3
        house.disk.fail("unlink", errno=errno.EPERM)
        refused = await wire.refusal("session/purge", session_id=SESSION)
        (left,) = house.disk.listdir(trash)
        assert (refused.data["errno"], refused.data["path"]) == ("EPERM", str(trash / left))
        assert house.disk.crash().listdir(trash) == [left]
        await call(wire, "session/purge")
        assert house.disk.listdir(trash) == []


async def test_what_took_the_place_of_a_session_file_outside_the_profile_is_not_deleted(
    real_house: House, elsewhere: Path
) -> None:
    chat = elsewhere / "chat"
    chat.write_bytes(native_file([], SESSION))
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await wire.call("session/open", path=str(chat))
        await call(wire, "session/close")
        chat.write_bytes(b"print('a program of the user')\n")
        refusal = await refused(wire, "session/delete", "{kind,path}")
        assert refusal == ("session_corrupt", str(chat))
        assert chat.read_bytes() == b"print('a program of the user')\n"
        assert list(real_house.layout.trash.iterdir()) == []


async def test_a_pipe_at_the_place_of_a_session_is_not_moved(real_house: House) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        pipe = real_house.layout.session_path(SESSION, STAMP)
        os.mkfifo(pipe)
        refusal = await refused(wire, "session/delete", "{kind,errno}")
        assert refusal == ("storage_error", "EINVAL")
        assert pipe.is_fifo()


# -- names that are being made ---------------------------------------------------------------


async def test_an_export_leaves_what_stands_beside_its_path(
    real_house: House, elsewhere: Path
) -> None:
    copy = elsewhere / "copy.jsonl"
    theirs = their_files(copy)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1", persist="immediate")
        await call(wire, "session/export", path=str(copy))
    assert seen(elsewhere, copy) == theirs
    assert copy.read_bytes().count(b"\n") == 2
    assert copy.stat().st_nlink == 1


@pytest.mark.parametrize("kind", ["dangling link", "circle", "folder", "file"])
async def test_an_export_replaces_nothing_that_has_its_name(
    real_house: House, elsewhere: Path, kind: str
) -> None:
    copy = elsewhere / "copy.jsonl"
    make: dict[str, Callable[[], object]] = {
        "dangling link": lambda: copy.symlink_to(elsewhere / "nowhere"),
        "circle": lambda: copy.symlink_to(copy),
        "folder": copy.mkdir,
        "file": lambda: copy.write_bytes(b"mine"),
    }
    make[kind]()
    before = seen(elsewhere)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1", persist="immediate")
        refusal = await refused(wire, "session/export", "{kind,errno}", path=str(copy))
        assert refusal == ("storage_error", "EEXIST")
    assert seen(elsewhere) == before


async def test_an_export_to_a_name_as_long_as_a_name_may_be_succeeds(
    real_house: House, elsewhere: Path
) -> None:
    copy = elsewhere / ("x" * 255)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1", persist="immediate")
        await call(wire, "session/export", path=str(copy))
    assert copy.read_bytes().count(b"\n") == 2


async def test_of_twenty_exports_to_one_new_path_one_succeeds(
    real_house: House, elsewhere: Path
) -> None:
    copy = elsewhere / "copy.jsonl"
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        made = await create_with(wire, "n1", persist="immediate")
        source = Path(made["session"]["path"])
        asked = [
            await wire.request("session/export", session_id=SESSION, path=str(copy))
            for _ in range(20)
        ]
        refused: list[str] = []
        for number in asked:
            try:
                assert (await wire.answer(number))["path"] == str(copy)
            except Refusal as refusal:
                refused.append(refusal.data["errno"])
        assert refused == ["EEXIST"] * 19
        assert copy.read_bytes() == source.read_bytes()
    assert list(elsewhere.iterdir()) == [copy]


async def test_an_export_replaces_nothing_that_gets_its_name_meanwhile(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        made = await create_with(wire, "n1", persist="immediate")
        copy = Path(made["session"]["path"]).with_name("copy.jsonl")
        fsync = house.disk.fsync

        def synced(fd: int) -> None:
            fsync(fd)
            if copy not in house.disk.paths:
                house.disk.put(copy, GOOD)

        monkeypatch.setattr(house.disk, "fsync", synced)
        assert await refused(wire, "session/export", "errno", path=str(copy)) == "EEXIST"
        assert house.disk.content(copy) == GOOD


async def test_a_repair_leaves_what_stands_beside_the_file(real_house: House) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        made = await create_with(wire, "n1", persist="immediate")
        path = Path(made["session"]["path"])
        await call(wire, "session/close")
        path.write_bytes(path.read_bytes() + b"garbage\n")
        theirs = their_files(path)
        assert (await call(wire, "session/repair", dry_run=False))["repaired"]
        assert seen(path.parent, path) == theirs
        assert path.read_bytes().count(b"\n") == 2


async def test_a_repair_replaces_no_file_that_another_program_has_put_there_meanwhile(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = house.put(GOOD + b"garbage\n")
    link = house.disk.link

    def linked(old: Path, new: Path) -> None:
        if old == path:
            house.disk.put(path, GOOD)
        link(old, new)

    monkeypatch.setattr(house.disk, "link", linked)
    async with house.daemon() as daemon, daemon.connect() as wire:
        refusal = await refused(wire, "session/repair", "{kind,errno}", dry_run=False)
        assert refusal == ("storage_error", "ESTALE")
        assert house.disk.content(path) == GOOD
        assert [p for p in house.disk.paths if p.suffix == ".new"] == []


async def test_no_start_removes_a_file_of_a_user(real_house: House) -> None:
    layout = real_house.layout
    own = f"{STAMP}_{SESSION}.jsonl"
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1", persist="immediate")
    theirs: dict[Path, object] = {}
    for folder in (layout.sessions, layout.archive, layout.pending, layout.trash):
        for name in (own, "x.jsonl", f"{SESSION}.jsonl", "notes"):
            theirs |= their_files(folder / name, (".new", ".new.new", ".jsonl.new"))
        # Nearly as sessiond names what it has not finished.
        for name in (".sessiond-.new", f".sessiond-{'0' * 31}.new", f".sessiond-{'g' * 32}.new"):
            (folder / name).write_bytes(b"mine")
        (folder / f".sessiond-{'0' * 32}.new").mkdir()
        (folder / f".sessiond-{'1' * 32}.new").symlink_to(folder / "notes.new")
    before = seen(layout.root)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await to_thread.run_sync(remove_half_made, daemon.store)
        await wire.call("session/list", drafts=True)
        after = seen(layout.root)
    assert {path: after.get(path) for path in theirs} == {path: before[path] for path in theirs}
    assert set(before) <= set(after) | {layout.daemon_lock}


async def test_what_a_crash_left_unfinished_is_removed_at_the_next_start(real_house: House) -> None:
    layout = real_house.layout
    async with real_house.daemon() as daemon:
        left = [
            folder / f".sessiond-{'0123456789abcdef' * 2}.new"
            for folder in (layout.sessions, layout.archive, layout.pending, layout.trash)
        ]
        for path in left:
            path.write_bytes(b"words of a session")
        await to_thread.run_sync(remove_half_made, daemon.store)
        assert [path for path in left if path.exists()] == []


# -- other places where a name must be free --------------------------------------------------


async def test_a_dangling_link_is_not_replaced_in_the_archive_the_trash_or_beside_a_torn_end(
    real_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, HALF_LINE_SECONDS=0.05)
    layout = real_house.layout
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        made = await create_with(wire, "n1", persist="immediate")
        path = Path(made["session"]["path"])
        nowhere = layout.root / "nowhere"
        archived, trashed = layout.archive / path.name, layout.trash / path.name
        for link in (archived, trashed):
            link.symlink_to(nowhere)
        assert await refused(wire, "session/archive", "errno") == "EEXIST"
        assert archived.readlink() == nowhere
        archived.unlink()
        await call(wire, "session/close")
        path.write_bytes(path.read_bytes() + TORN)
        links = [path.with_name(f"{path.name}.torn-2026-01-15T10-30-00-{n:06d}") for n in range(9)]
        for link in links:
            link.symlink_to(nowhere)
        await say(wire)
        await call(wire, "session/delete")
        kept = sorted(p.name for p in layout.trash.iterdir() if not p.is_symlink())
        assert len(kept) == 2
        assert [link.readlink() for link in (trashed, *links)] == [nowhere] * 10


async def test_a_session_with_a_dangling_link_of_its_name_in_the_archive_is_deleted_with_the_link(
    real_house: House,
) -> None:
    layout = real_house.layout
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        made = await create_with(wire, "n1", persist="immediate")
        path = Path(made["session"]["path"])
        link = layout.archive / path.name
        link.symlink_to(layout.root / "nowhere")
        await call(wire, "session/delete")
        assert not path.exists()
        assert not os.path.lexists(link)
        links = [one for one in layout.trash.iterdir() if one.is_symlink()]
        assert [one.readlink() for one in links] == [layout.root / "nowhere"]
        assert await refused(wire, "session/get") == "session_not_found"
        await call(wire, "session/purge")
        assert list(layout.trash.iterdir()) == []
