"""Copies of sessions in roots: beside their source, or in a named root, where the root's program finds them."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sessiond.dialects.places import Home
from sessiond.model.formats import FORMATS
from sessiond.service.files.roots import roots as roots_module
from sessiond.testing.daemon import Refusal
from sessiond.testing.wire import Wire
from tests.kit.agent_roots import claude_root
from tests.kit.calls import call
from tests.kit.house import House
from tests.kit.readers.operator import OperatorReader
from tests.kit.readers.piglet import PigletFile
from tests.kit.readers.sharur import load
from tests.kit.roots import SAMPLES, add_root, ids, pi_file, put
from tests.kit.sessions import native_file
from tests.service.test_root_creation import NAMES

# A file says what it says whichever loop runs.
pytestmark = pytest.mark.parametrize("anyio_backend", ["asyncio"], scope="session")

ID = "019a0000-0000-7000-8000-00000000000f"
WRITTEN = ("pi", "operator", "piglet", "sharur")
FOLDERS = {"pi": "--home-ana-shop--", "sharur": "--home-ana-shop--"}
"""Folders of a project, which some programs have in their roots."""


def source_in(root: Path, kind: str) -> Path:
    """Put a session of a program into its root, where the program keeps such a session."""
    data = (
        native_file([], "session-native")
        if kind == "native"
        else (SAMPLES / kind / f"{kind}.jsonl").read_bytes()
    )
    return put(root / FOLDERS.get(kind, ""), f"2026-01-01_{kind}", data)


def listed_by_program(kind: str, folder: Path) -> dict[str, Path]:
    """Return the sessions of a folder as the root's own program lists them, by id, each of them readable."""
    found: dict[str, Path] = {}
    for path in sorted(folder.glob("*.jsonl")):
        data = path.read_bytes()
        match kind:
            case "operator":
                session_id = str(OperatorReader(data).header["id"])
            case "piglet":
                session_id = str(PigletFile(data).meta["id"])
            case "sharur":
                session_id = load(data).session_id
            case _:
                session_id = str(json.loads(data.splitlines()[0])["id"])
        found[session_id] = path
    return found


async def only(wire: Wire) -> str:
    (found,) = await ids(wire)
    return found


@pytest.mark.parametrize("kind", FORMATS)
async def test_a_copy_lies_beside_its_source_where_its_program_finds_it(
    real_house: House, tmp_path: Path, kind: str
) -> None:
    source = source_in((tmp_path / "root").resolve(), kind)
    before = source.read_bytes()
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, tmp_path.resolve() / "root", kind)
        own = await only(wire)
        other = await wire.call("session/create", cwd="/p", persist="immediate")
        merged = {"other_session_id": other["session"]["id"], "text": "both", "into": "new"}
        asked: list[tuple[str, dict[str, Any]]] = [
            ("session/fork", {"new_session_id": ID}),
            ("session/fork", {"entries": "all"}),
            ("session/fork", {"entries": "context", "link": "none"}),
            ("session/fork", {"entries": "none"}),
        ]
        if kind != "native":
            asked.append(("session/rebase", {"indices": [0]}))
            asked.append(("session/merge", merged))
        for method, params in asked:
            made = await call(wire, method, "session", session_id=own, **params)
            path = Path(made["path"])
            assert (path.parent, made["dialect"]) == (source.parent, kind), (method, params)
            assert re.fullmatch(NAMES[kind].replace("ID", made["id"]), path.name)
            assert listed_by_program(kind, source.parent)[made["id"]] == path
            assert made["id"] in await ids(wire, program=kind)
        with pytest.raises(Refusal, match="exists"):
            await wire.call("session/fork", session_id=own, new_session_id=ID)
        assert len(listed_by_program(kind, source.parent)) == 1 + len(asked)
    assert source.read_bytes() == before
    profile = real_house.layout
    assert len(list(profile.sessions.iterdir())) == 1
    assert list(profile.pending.iterdir()) == []


@pytest.mark.parametrize("kind", WRITTEN)
async def test_a_fork_goes_to_a_named_root_in_the_format_of_its_program(
    real_house: House, tmp_path: Path, kind: str
) -> None:
    root = (tmp_path / "root").resolve()
    root.mkdir()
    homes = [(kind, Home(str(root), by_project=kind in FOLDERS))]
    real_house.environment = msgspec.structs.replace(real_house.environment, homes=lambda: homes)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root, kind)
        claude = claude_root(tmp_path.resolve())
        made = await wire.call("session/create", cwd="/home/ana/shop", persist="immediate")
        native = made["session"]["id"]
        said = [{"role": role, "content": f"{role} said"} for role in ("user", "assistant")]
        await wire.call(
            "session/append",
            session_id=native,
            entries=[{"type": "message", "message": one} for one in said],
        )
        would = await call(
            wire, "session/fork", "session", session_id=native, root=str(root), dry_run=True
        )
        assert (would["dialect"], would["path"], list(root.iterdir())) == (kind, None, [])
        # The default of a session in the profile is the profile.
        made = await call(wire, "session/fork", "session", session_id=native)
        assert Path(made["path"]).parent == real_house.layout.sessions
        made = await call(
            wire, "session/fork", "session", session_id=native, root=str(root), new_session_id=ID
        )
        folder = root / FOLDERS.get(kind, "")
        assert (made["dialect"], Path(made["path"]).parent) == (kind, folder)
        assert listed_by_program(kind, folder) == {ID: Path(made["path"])}
        assert made["message_count"] == 2
        # A session of an agent whose files are only read.
        await add_root(wire, claude)
        (agents, *_) = await ids(wire, root=str(claude))
        made = await call(wire, "session/fork", "session", session_id=agents)
        assert (made["dialect"], Path(made["path"]).parent) == (
            "native",
            real_house.layout.sessions,
        )
        made = await call(
            wire, "session/fork", "session", session_id=agents, root=str(root), cwd="/home/ana/shop"
        )
        assert Path(made["path"]).parent == folder
        assert made["id"] in listed_by_program(kind, folder)


async def test_a_fork_that_a_root_cannot_have_is_refused_and_nothing_is_made(
    real_house: House, tmp_path: Path
) -> None:
    root, claude = (tmp_path / "pi").resolve(), claude_root(tmp_path.resolve())
    root.mkdir()
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root, "pi")
        made = await wire.call("session/create", cwd="/p", persist="immediate")
        before = await ids(wire)
        await add_root(wire, claude)
        for params, path, said in (
            ({"root": str(claude)}, "root", "only read"),
            ({"root": str(tmp_path / "none")}, "root", "is no root"),
            ({"root": "pi"}, "root", "absolute"),
            ({"root": str(root), "dialect": "sharur"}, "dialect", "files of pi"),
        ):
            for dry_run in (True, False):
                with pytest.raises(Refusal, match=said) as refusal:
                    await wire.call(
                        "session/fork", session_id=made["session"]["id"], dry_run=dry_run, **params
                    )
                assert refusal.value.data.get("path") == path
        assert list(root.iterdir()) == []
        assert await ids(wire, program="native") == before


async def test_a_fork_of_another_project_or_format_leaves_the_folder_of_its_source(
    real_house: House, tmp_path: Path
) -> None:
    root = (tmp_path / "sharur").resolve()
    source_in(root, "sharur")
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root, "sharur")
        own = await only(wire)
        fork = ("session/fork", "session.path")
        path = Path(await call(wire, *fork, session_id=own, cwd="/p/other"))
        assert path.parent == root / "--p-other--"
        path = Path(await call(wire, *fork, session_id=own, dialect="native"))
        assert path.parent == real_house.layout.sessions
        # A project that nothing names has no folder.
        elsewhere = (tmp_path / "elsewhere").resolve()
        put(elsewhere / "--q--", "other", pi_file("session-x", "x"))
        await add_root(wire, elsewhere, "pi")
        with pytest.raises(Refusal, match="send cwd"):
            await wire.call("session/fork", session_id=own, root=str(elsewhere))


async def test_a_fork_of_a_draft_goes_where_the_draft_will_lie(
    real_house: House, tmp_path: Path
) -> None:
    root = (tmp_path / "pi").resolve()
    root.mkdir()
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root, "pi")
        made = await wire.call("session/create", cwd="/p", root=str(root))
        own = made["session"]["id"]
        path = Path(await call(wire, "session/fork", "session.path", session_id=own))
        assert path.parent == root


async def test_a_fork_of_a_file_behind_a_link_in_a_root_lies_beside_it(
    real_house: House, tmp_path: Path
) -> None:
    root, away = (tmp_path / "pi").resolve(), (tmp_path / "away").resolve()
    source = put(away, "x", pi_file("session-x", "x"))
    root.mkdir()
    (root / "--p--").symlink_to(away)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root, "pi")
        path = Path(await call(wire, "session/fork", "session.path", session_id=await only(wire)))
        assert path.parent == source.parent


async def test_a_fork_of_a_session_in_a_root_that_cannot_be_written_goes_to_the_profile(
    real_house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = (tmp_path / "pi").resolve()
    put(root, "x", pi_file("session-x", "x"))
    root.chmod(0o500)
    if os.access(root, os.W_OK):
        # The user of the tests is root, who may write anywhere.
        monkeypatch.setattr(roots_module, "_is_writable", lambda folder, _disk: folder != root)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root, "pi")
        path = Path(await call(wire, "session/fork", "session.path", session_id=await only(wire)))
        assert path.parent == real_house.layout.sessions
