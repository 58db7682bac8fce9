"""New sessions in roots: in the root's dialect, where and when the root's program has the file."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest
from anyio import to_thread

from sessiond.catalog.rows import Mark
from sessiond.dialects import DIALECTS
from sessiond.dialects.places import PLACES, Home, places_of
from sessiond.journal.disk.files import Files, FileStat
from sessiond.service.files.startup_cleanup import settle_notes
from sessiond.testing.daemon import Refusal
from sessiond.testing.wire import Wire
from tests.kit.calls import call, session_info
from tests.kit.catalogs import become_read_only
from tests.kit.house import House
from tests.kit.roots import add_root, ids, pi_file, put

HI = {"role": "user", "content": "hi", "timestamp": 1769936401000}
ID = "019a0000-0000-7000-8000-000000000001"
NAMES = {
    "native": r"2026-01-15T10-30-00-000000_ID\.jsonl",
    "pi": r"2026-01-15T10-30-00-000Z_ID\.jsonl",
    # Operator's names have the local time.
    "operator": r"2026-01-1[456]T\d\d-\d\d-00-000000_ID\.jsonl",
    "piglet": r"ID\.jsonl",
    "sharur": r"2026-01-15T10-30-00-000Z_ID\.jsonl",
}


def test_every_dialect_has_its_places() -> None:
    assert PLACES.keys() == {dialect.name for dialect in DIALECTS} == NAMES.keys()


@pytest.mark.parametrize(
    ("environ", "homes"),
    [
        ({}, ["/h/.pi/agent/sessions"]),
        ({"PI_CODING_AGENT_DIR": "/a"}, ["/a/sessions"]),
        (
            {"PI_CODING_AGENT_DIR": "~/a", "PI_CODING_AGENT_SESSION_DIR": "/s/"},
            ["/s", "/h/a/sessions"],
        ),
    ],
)
def test_pi_is_looked_for_where_its_environment_says(
    environ: dict[str, str], homes: list[str]
) -> None:
    found = places_of("pi").homes(environ, "/h")
    assert [home.folder for home in found] == homes
    # A folder that is named for the sessions has no folders of projects.
    assert [home.by_project for home in found] == [home == found[-1] for home in found]


def test_the_other_programs_are_looked_for_in_their_folders() -> None:
    found = {
        kind: [home.folder for home in places_of(kind).homes({"XDG_CONFIG_HOME": "/c"}, "/h")]
        for kind in ("native", "operator", "piglet", "sharur")
    }
    assert found == {
        "native": [],
        "operator": ["/h/.operator/profiles/*/sessions"],
        "piglet": ["/c/piglet/sessions"],
        "sharur": ["/h/.sharur/sessions"],
    }
    assert places_of("piglet").homes({}, "/h")[0].folder == "/h/.config/piglet/sessions"


@pytest.mark.parametrize(
    ("kind", "cwd", "name"),
    [
        ("pi", "/home/u/my proj:x", "--home-u-my proj-x--"),
        ("pi", "/", "----"),
        ("pi", r"C:\x\y", "--C--x-y--"),
        ("sharur", "/home/u/p", "--home-u-p--"),
    ],
)
def test_projects_have_the_folders_that_their_program_looks_in(
    kind: str, cwd: str, name: str
) -> None:
    project_folder = places_of(kind).project_folder
    assert project_folder is not None
    assert project_folder(cwd) == name


async def create_in(wire: Wire, root: Path, **more: Any) -> dict[str, Any]:
    params = {"cwd": "/p/work", "session_id": ID, "root": str(root)} | more
    return dict(await call(wire, "session/create", "session", **params))


@pytest.mark.parametrize("kind", [dialect.name for dialect in DIALECTS])
async def test_a_new_session_has_the_dialect_and_the_name_of_the_roots_program(
    real_house: House, tmp_path: Path, kind: str
) -> None:
    root = (tmp_path / "root").resolve()
    root.mkdir()
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root, kind)
        made = await create_in(wire, root, persist="immediate")
        path = Path(made["path"])
        assert (made["dialect"], made["persisted"], path.parent) == (kind, True, root)
        assert re.fullmatch(NAMES[kind].replace("ID", ID), path.name)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert await ids(wire, program=kind) == [ID]
        with pytest.raises(Refusal, match="exists"):
            await create_in(wire, root)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        assert await ids(wire, root=str(root)) == [ID]


async def test_a_draft_comes_into_the_root_with_the_first_message_as_pi_has_it(
    real_house: House, tmp_path: Path
) -> None:
    root = (tmp_path / "pi").resolve()
    put(root / "--other--", "x", pi_file("session-x", "x"))
    umask = os.umask(0o022)
    os.umask(umask)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root)
        made = await create_in(wire, root)
        assert (made["persisted"], made["persist"]) == (False, "on_assistant")
        custom = {"type": "custom", "custom_type": "x", "data": 1}
        await wire.call("session/append", session_id=ID, entry=custom)
        assert await ids(wire) == ["session-x"]
        with pytest.raises(Refusal, match="outside the profile"):
            await wire.call("session/archive", session_id=ID)
    # The draft knows its place after a restart too, and without the catalog.
    for path in real_house.layout.root.glob("catalog.sqlite*"):
        path.unlink()
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await wire.call("catalog/subscribe")
        await call(wire, "append", session_id=ID, message=HI)
        assert await ids(wire) == [ID, "session-x"]
        told = (await wire.next_notification())["params"]
        assert (told["session_id"], told["change"]) == (ID, "created")
        folder = root / "--p-work--"
        (path,) = folder.iterdir()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o755 & ~umask
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        assert [line["type"] for line in lines] == ["session", "custom", "message"]
        assert (lines[0]["version"], lines[0]["cwd"]) == (3, "/p/work")
        await call(wire, "append", session_id=ID, message=HI | {"content": "more"})
        assert len(path.read_text().splitlines()) == 4
    assert list(real_house.layout.pending.iterdir()) == []
    assert list(real_house.layout.sessions.iterdir()) == []


async def test_the_default_folder_of_a_program_has_folders_of_projects_although_it_is_empty(
    real_house: House, tmp_path: Path
) -> None:
    root = (tmp_path / "pi").resolve()
    root.mkdir()
    homes = [("pi", Home(str(root), by_project=True))]
    real_house.environment = msgspec.structs.replace(real_house.environment, homes=lambda: homes)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root)
        made = await create_in(wire, root, persist="immediate")
        assert Path(made["path"]).parent == root / "--p-work--"


async def test_what_a_root_cannot_hold_is_refused_and_nothing_is_made(
    real_house: House, tmp_path: Path
) -> None:
    root = (tmp_path / "pi").resolve()
    root.mkdir()
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        with pytest.raises(Refusal, match="is no root"):
            await create_in(wire, root)
        with pytest.raises(Refusal, match="root must be absolute"):
            await create_in(wire, Path("pi"))
        await add_root(wire, root, "pi")
        for more, path in (
            ({"title": "T"}, "title"),
            ({"tags": ["x"]}, "tags"),
            ({"metadata": {"a": 1}}, "metadata"),
            ({"persist": "never"}, "persist"),
        ):
            with pytest.raises(Refusal) as refusal:
                await create_in(wire, root, **more)
            assert refusal.value.data.get("path") == path, refusal.value
        root.rmdir()
        with pytest.raises(Refusal, match="No such file"):
            await create_in(wire, root)
        assert not root.exists()
        assert await ids(wire, drafts=True) == []


async def test_a_draft_waits_for_a_root_that_is_gone(real_house: House, tmp_path: Path) -> None:
    root = (tmp_path / "pi").resolve()
    root.mkdir()
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root, "pi")
        await create_in(wire, root)
        away = root.rename(root.with_name("away"))
        await call(wire, "append", session_id=ID, message=HI)
        assert not root.exists()
        assert await ids(wire, drafts=True) == [ID]
        away.rename(root)
        await call(wire, "append", session_id=ID, message=HI)
        assert len(list(root.iterdir())) == 1


MESSAGES = {
    "operator": {"contents": [], "id": "m", "timestamp": 1768473000.0, "role": "assistant"},
    "pi": HI,
    "sharur": HI | {"timestamp": "2026-01-15T10:30:00Z"},
}
"""A message that brings a draft into a root, of each program whose files come later than sessions."""
FIRST: dict[str, dict[str, Any]] = {
    kind: {"session_id": ID, "message": message, "idempotency_key": "k"}
    for kind, message in MESSAGES.items()
}
"""Appends of those messages, as a client sends and repeats them."""


@pytest.mark.parametrize(
    ("kind", "asked"),
    [("operator", "append"), ("pi", "open"), ("sharur", "create"), ("pi", "former root")],
)
async def test_a_kill_right_after_a_draft_came_into_its_root_loses_nothing(
    real_house: House, tmp_path: Path, kind: str, asked: str
) -> None:
    root = (tmp_path / "root").resolve()
    root.mkdir()
    # The profile of the moment of the kill, which comes right after the answer.
    kept = root.with_name("kept")
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root, kind)
        made = await create_in(wire, root)
        assert made["persisted"] is False
        if asked == "former root":
            # No look at the roots finds the file: the note of the draft alone tells the place.
            await wire.call("catalog/roots", action="remove", path=str(root))
        assert await call(wire, "session/append", "durability", **FIRST[kind]) == "disk"
        assert len(list(root.rglob("*.jsonl"))) == 1
        await to_thread.run_sync(shutil.copytree, real_house.layout.root, kept)
    shutil.rmtree(real_house.layout.root)
    kept.rename(real_house.layout.root)
    async with real_house.daemon(scanned=False) as daemon, daemon.connect() as wire:
        await to_thread.run_sync(settle_notes, daemon.store)
        found: dict[str, Any] = {"created": False, "session": made}
        if asked == "open":
            found = await wire.call("session/open", session_id=ID, create=True, cwd="/p/work")
        elif asked == "create":
            there = {"session_id": ID, "root": str(root), "if_exists": "open"}
            found = await wire.call("session/create", cwd="/p/work", **there)
        assert (found["created"], found["session"]["epoch"]) == (False, made["epoch"])
        assert await call(wire, "session/append", "duplicate", **FIRST[kind]) is True
        session = await session_info(wire, ID)
        assert (session["message_count"], session["epoch"]) == (1, made["epoch"])
        assert [session["path"]] == [str(path) for path in root.rglob("*.jsonl")]
        assert await ids(wire, drafts=True) == ([] if asked == "former root" else [ID])
    assert list(real_house.layout.pending.iterdir()) == []


async def test_a_note_that_names_another_sessions_file_is_only_removed(
    real_house: House, tmp_path: Path
) -> None:
    path = put((tmp_path / "pi").resolve(), "x", pi_file("session-x", "x"))
    layout = real_house.layout
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        for draft_id, note in (
            (ID, {"path": str(path), "appears": "said"}),
            ("session-damaged", {}),
        ):
            layout.note_path(draft_id).write_text(json.dumps(note))
        await to_thread.run_sync(settle_notes, daemon.store)
        assert list(layout.pending.iterdir()) == []
        with pytest.raises(Refusal, match="no session"):
            await wire.call("session/get", session_id=ID)


async def test_a_note_goes_only_after_the_record_of_its_path_is_in_the_file(
    real_house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = (tmp_path / "pi").resolve()
    root.mkdir()
    note = real_house.layout.note_path(ID)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root, "pi")
        await create_in(wire, root)
        await call(wire, "append", session_id=ID, message=HI)
        store = daemon.store
        (path,) = root.rglob("*.jsonl")
        opened = daemon.service.registry.by_id[ID].opened
        with monkeypatch.context() as patch:
            await to_thread.run_sync(become_read_only, store.catalog.file, patch)
            await to_thread.run_sync(store.catalog.raise_revision, 1)
            assert store.catalog.file.stands_in
            await to_thread.run_sync(store.settle, opened)
            assert note.exists()
        await to_thread.run_sync(store.catalog.file.look)
        draft = str(real_house.layout.pending_path(ID))
        await to_thread.run_sync(store.catalog.place, ID, draft, Mark("e", 0, ""))
        await to_thread.run_sync(store.settle, opened)
        known = await to_thread.run_sync(store.profile.records.known, ID)
        assert (known and known.path, note.exists()) == (str(path), False)


class TwoDisks(Files):
    """A machine on which one folder is on another disk."""

    def __init__(self, other: Path) -> None:
        self.other = other

    def stat(self, path: Path) -> FileStat:
        found = super().stat(path)
        if path != self.other:
            return found
        values = list(path.stat())
        values[2] += 1
        # A list has no times in nanoseconds.
        return os.stat_result(values, {"st_mtime_ns": found.st_mtime_ns})


async def test_a_root_on_another_disk_has_no_drafts(home: Path, tmp_path: Path) -> None:
    root = (tmp_path / "pi").resolve()
    root.mkdir()
    house = House(home, TwoDisks(root))
    async with house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root, "pi")
        made = await create_in(wire, root)
        assert (made["persisted"], made["persist"]) == (True, "immediate")
        assert Path(made["path"]).parent == root
