"""Homes that were copied, moved or reached by another path: a daemon touches the home that it was given."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sessiond.catalog.home import bring_home
from sessiond.testing.daemon import running_daemon
from sessiond.testing.wire import Wire
from tests.kit.calls import append, call, create, refused
from tests.kit.roots import add_root, pi_file

KEPT, ARCHIVED, GONE, DRAFT = "session-kept", "session-archived", "session-gone", "session-draft"
ODD, ODD_GONE = "odd-session-1", "odd-session-2"
"""Sessions whose files in the folder of the profile have names that another program gave."""
ALL = {KEPT, ARCHIVED, ODD}


async def fill(home: Path) -> None:
    """Make sessions of every place in a home: stored, archived, deleted, as a draft, and under odd names."""
    folder = home / "profiles" / "default" / "sessions"
    folder.mkdir(parents=True)
    for name in (ODD, ODD_GONE):
        (folder / f"{name}.jsonl").write_bytes(pi_file(name, "one", "two"))
    async with running_daemon(home) as daemon, daemon.connect() as wire:
        for session_id in (KEPT, ARCHIVED, GONE):
            await create(wire, session_id, persist="immediate")
            await append(wire, "e-1", session_id=session_id)
        await create(wire, DRAFT)
        await append(wire, "e-1", session_id=DRAFT)
        await wire.call("session/archive", session_id=ARCHIVED)
        assert {one["id"] for one in await shown(wire)} == ALL | {GONE, ODD_GONE}
        for session_id in (GONE, ODD_GONE):
            await wire.call("session/delete", session_id=session_id)


async def shown(wire: Wire) -> list[dict[str, Any]]:
    """Return the sessions of a list, the archived ones too."""
    return list(await call(wire, "session/list", "sessions", archived=None))


def state_of(home: Path) -> dict[str, bytes]:
    """Return the contents of the files of sessions in a home, by their paths in it."""
    files = (home / "profiles").rglob("*.jsonl*")
    return {str(path.relative_to(home)): path.read_bytes() for path in files}


async def use(home: Path) -> None:
    """List, append, delete and restore in a home, as its user does."""
    async with running_daemon(home) as daemon, daemon.connect() as wire:
        listed = await shown(wire)
        assert {one["id"] for one in listed} == ALL
        assert [one["path"] for one in listed if not one["path"].startswith(f"{home}/")] == []
        for session_id in (KEPT, ODD, DRAFT):
            path = Path(await call(wire, "session/get", "session.path", session_id=session_id))
            assert path.is_relative_to(home)
            await append(wire, "e-2", session_id=session_id)
            assert b"e-2" in path.read_bytes()
        await wire.call("session/unarchive", session_id=ARCHIVED)
        for session_id in (GONE, ODD_GONE):
            await wire.call("session/restore", session_id=session_id)
        for session_id in (KEPT, ODD):
            await wire.call("session/delete", session_id=session_id)
            await wire.call("session/restore", session_id=session_id)
        await wire.call("session/delete", session_id=ARCHIVED)
        await wire.call("session/purge", session_id=ARCHIVED)
        assert {one["id"] for one in await shown(wire)} == {KEPT, ODD, GONE, ODD_GONE}
        assert await refused(wire, "session/get", session_id=ARCHIVED) == "session_not_found"


def as_an_earlier_version(home: Path) -> None:
    """Let a home be one that an earlier version kept: whole paths in notes, and a catalog without its place."""
    profile = home / "profiles" / "default"
    with closing(sqlite3.connect(profile / "catalog.sqlite")) as catalog, catalog:
        assert catalog.execute("DELETE FROM meta WHERE name = 'home'").rowcount == 1
    for note in (profile / "trash").glob("*.origin"):
        name, _, inside = note.read_bytes().partition(b"\0")
        note.write_bytes(name + b"\0" + os.fsencode(profile / os.fsdecode(inside)))


@pytest.mark.parametrize("version", ["today's", "an earlier one"])
async def test_a_copy_of_a_home_is_another_home(tmp_path: Path, version: str) -> None:
    first, second = tmp_path.resolve() / "first", tmp_path.resolve() / "second"
    await fill(first)
    if version != "today's":
        as_an_earlier_version(first)
    before = state_of(first)
    shutil.copytree(first, second)
    await use(second)
    assert state_of(first) == before
    # And the first home is what it was.
    await use(first)


def moved(home: Path) -> Path:
    """Move a home."""
    return home.rename(home.with_name("moved"))


def linked(home: Path) -> Path:
    """Make a link to a home."""
    link = home.with_name("link")
    link.symlink_to(home)
    return link


@pytest.mark.parametrize("version", ["today's", "an earlier one"])
@pytest.mark.parametrize("how", [moved, linked], ids=["moved", "reached by a link"])
async def test_a_home_that_was_only_moved_keeps_its_epochs(
    tmp_path: Path, how: Callable[[Path], Path], version: str
) -> None:
    home = tmp_path.resolve() / "first"
    await fill(home)
    async with running_daemon(home) as daemon, daemon.connect() as wire:
        before = {one["id"]: one["epoch"] for one in await shown(wire)}
    if version != "today's":
        as_an_earlier_version(home)
    there = how(home)
    async with running_daemon(there) as daemon, daemon.connect() as wire:
        listed = await shown(wire)
        assert {one["id"]: one["epoch"] for one in listed} == before
        assert all(one["path"].startswith(f"{there}/") for one in listed)
        await wire.call("session/restore", session_id=GONE)
        assert {one["id"] for one in await shown(wire)} == ALL | {GONE}


def killed_at(step: int, catalog: Path) -> bool:
    """Bring a catalog home in a process that is killed at a statement; return whether it came to that statement."""
    child = os.fork()
    if not child:
        left = step

        def trace(_statement: str) -> None:
            nonlocal left
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1

        connection = sqlite3.connect(catalog)
        connection.set_trace_callback(trace)
        bring_home(connection, catalog.parent)
        os._exit(0)
    return os.waitpid(child, 0)[1] == signal.SIGKILL


@pytest.mark.parametrize("version", ["today's", "an earlier one"])
async def test_a_kill_at_any_step_leaves_a_home_that_the_next_start_finishes(
    tmp_path: Path, version: str
) -> None:
    first = tmp_path.resolve() / "first"
    await fill(first)
    if version != "today's":
        as_an_earlier_version(first)
    before, step, goes_on = state_of(first), 0, True
    while goes_on:
        second = tmp_path.resolve() / f"second-{step}"
        shutil.copytree(first, second)
        goes_on = killed_at(step, second / "profiles" / "default" / "catalog.sqlite")
        if step % 4 == 0 or not goes_on:
            await use(second)
        step += 1
    assert step > len(ALL)
    assert state_of(first) == before


async def test_a_session_of_an_odd_name_is_restored_without_a_record(tmp_path: Path) -> None:
    home = tmp_path.resolve() / "first"
    await fill(home)
    (home / "profiles" / "default" / "catalog.sqlite").unlink()
    async with running_daemon(home) as daemon, daemon.connect() as wire:
        restored = await call(wire, "session/restore", "session.id", session_id=ODD_GONE)
        assert restored == ODD_GONE


def mounted(home: Path) -> Path:
    """Leave a home where it is."""
    return home


async def draft_for(root: Path, home: Path) -> None:
    """Make a draft for a root in a home."""
    async with running_daemon(home) as daemon, daemon.connect() as wire:
        await add_root(wire, root, "pi")
        await create(wire, DRAFT, root=str(root))
        assert not list(root.iterdir())


async def answered(home: Path, text: str) -> Path:
    """Store the first answer of the draft; return where its file is then."""
    async with running_daemon(home) as daemon, daemon.connect() as wire:
        await append(wire, "e-1", session_id=DRAFT)
        said = [{"type": "text", "text": text}]
        await append(wire, f"e-{text}", said, role="assistant", session_id=DRAFT)
        path = Path(await call(wire, "session/get", "session.path", session_id=DRAFT))
        assert text.encode() in path.read_bytes()
        assert [one["path"] for one in await shown(wire) if one["id"] == DRAFT] == [str(path)]
        return path


@pytest.mark.parametrize("order", [("first", "second"), ("second", "first")], ids=" before ".join)
async def test_a_draft_for_a_root_is_placed_there_by_its_own_home(
    tmp_path: Path, order: tuple[str, str]
) -> None:
    root = tmp_path.resolve() / "root"
    root.mkdir()
    await draft_for(root, tmp_path / "first")
    shutil.copytree(tmp_path / "first", tmp_path / "second")
    places = {name: await answered(tmp_path / name, f"by-{name}") for name in order}
    assert places["first"].parent == root
    assert places["second"].parent == tmp_path / "second" / "profiles" / "default" / "sessions"
    assert b"by-second" not in places["first"].read_bytes()
    assert len(list(root.iterdir())) == 1


@pytest.mark.parametrize("how", [mounted, moved, linked])
async def test_a_home_that_is_no_copy_places_its_draft_in_the_root(
    tmp_path: Path, how: Callable[[Path], Path]
) -> None:
    root = tmp_path.resolve() / "root"
    root.mkdir()
    await draft_for(root, tmp_path / "first")
    assert (await answered(how(tmp_path / "first"), "answer")).parent == root


async def test_a_draft_whose_place_in_the_root_is_taken_comes_into_the_profile(
    tmp_path: Path,
) -> None:
    """Where its home was brought back to before the draft's first answer, the file of that answer is in the root."""
    root = tmp_path.resolve() / "root"
    root.mkdir()
    home = tmp_path / "first"
    await draft_for(root, home)
    shutil.copytree(home, tmp_path / "backup")
    lost = await answered(home, "lost")
    before = lost.read_bytes()
    shutil.rmtree(home)
    shutil.copytree(tmp_path / "backup", home)
    place = await answered(home, "other")
    assert place.parent == home / "profiles" / "default" / "sessions"
    assert (lost.read_bytes(), len(list(root.iterdir()))) == (before, 1)


async def test_a_restored_home_places_its_draft_in_the_root(tmp_path: Path) -> None:
    root = tmp_path.resolve() / "root"
    root.mkdir()
    home = tmp_path / "first"
    await draft_for(root, home)
    shutil.copytree(home, tmp_path / "backup")
    shutil.rmtree(home)
    shutil.copytree(tmp_path / "backup", home)
    assert (await answered(home, "answer")).parent == root
