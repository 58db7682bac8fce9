"""Files of roots that their programs move while a session is open, or while nobody lists."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from msgspec import Struct

from sessiond.service.external.watcher import PollingWatcher
from sessiond.testing.daemon import Daemon
from sessiond.testing.wire import Wire
from tests.kit.agent_roots import (
    CLAUDE,
    CODEX,
    GEMINI,
    claude_line,
    claude_root,
    codex_root,
    gemini_root,
)
from tests.kit.agents import codex_said, read_lines, write_lines
from tests.kit.calls import append, call, events, let_go, watch
from tests.kit.gemini import model, user
from tests.kit.house import House
from tests.kit.limits import set_limits
from tests.kit.patience import eventually
from tests.kit.roots import add_root, ids, pi_file, put

CLAUDE_ID = CLAUDE.format(2)
CODEX_ID = CODEX.format("02")


@pytest.fixture
async def daemon(real_house: House, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Daemon]:
    """Run a daemon that looks at files and folders all the time."""
    set_limits(monkeypatch, ROOT_POLL_SECONDS=0.01, CATALOG_FLUSH_SECONDS=0.01, MISS_SECONDS=0.01)
    async with real_house.daemon(PollingWatcher(real_house.files, 0.01)) as running:
        yield running


def filed_anew(path: Path) -> Path:
    """Return the same file name in the folder of another project, as Claude Code does for a worktree."""
    folder = path.parent.with_name(f"{path.parent.name}--claude-worktrees-cart")
    folder.mkdir(exist_ok=True)
    return folder / path.name


def claude_answer(path: Path, text: str) -> None:
    """Write a message into a file of Claude Code, as that program does."""
    with path.open("ab") as file:
        file.write(claude_line(f"later-{len(text)}", None, text, sessionId=CLAUDE_ID))


def codex_answer(path: Path, text: str) -> None:
    """Write a message into a rollout, as Codex does."""
    with path.open("ab") as file:
        file.write(json.dumps(codex_said(text)).encode() + b"\n")


def moved(path: Path) -> Path:
    """Move a file of Claude Code to the folder of another project."""
    return path.rename(filed_anew(path))


def copied(path: Path) -> Path:
    """Copy a file of Claude Code to the folder of another project, and remove it, as programs that sync do."""
    there = Path(shutil.copy2(path, filed_anew(path)))
    path.unlink()
    return there


def archived(path: Path) -> Path:
    """Move a rollout into the archive of Codex."""
    return path.rename(path.parents[4] / "archived_sessions" / path.name)


def continued(path: Path) -> Path:
    """Copy a rollout to a later segment, with which Codex goes on."""
    later = path.with_name(f"{path.stem.replace('10-20', '11-20')}_{CODEX.format('ff')}.jsonl")
    return Path(shutil.copy2(path, later))


def compressed(path: Path) -> Path:
    """Compress a rollout, as Codex does with old ones."""
    packed = path.with_name(f"{path.name}.zst")
    packed.write_bytes(zstandard.compress(path.read_bytes()))
    path.unlink()
    return packed


Place = tuple[list[Path], Path, str]


def claude_file(home: Path) -> Place:
    """Return the root of Claude Code, a session's file in it, and the session's id."""
    root = claude_root(home)
    return [root], root / "-home-ann-ping" / f"{CLAUDE_ID}.jsonl", CLAUDE_ID


def codex_file(home: Path) -> Place:
    """Return the roots of Codex, a session's file in one of them, and the session's id."""
    root = codex_root(home)
    archive = root.parent / "archived_sessions"
    archive.mkdir()
    (path,) = root.glob("*/*/*/*0002.jsonl")
    return [root, archive], path, CODEX_ID


def gemini_file(home: Path) -> Place:
    """Return the root of Gemini CLI, a session that an older version wrote as one document, and the session's id."""
    root = gemini_root(home)
    (path,) = root.glob("*/chats/*7d3c1a20.jsonl")
    document = read_lines(path)[0] | {"messages": [user("u1", "one"), model("g1", "two")]}
    path.unlink()
    path.with_suffix(".json").write_text(json.dumps(document))
    return [root], path.with_suffix(".json"), GEMINI[0]


def as_lines(path: Path) -> Path:
    """Write a document of Gemini CLI anew as lines, as its later versions do."""
    document = json.loads(path.read_bytes())
    messages = document.pop("messages")
    path.unlink()
    return write_lines(path.with_suffix(".jsonl"), [document, *messages])


def gemini_answer(path: Path, text: str) -> None:
    """Write a message into a file of Gemini CLI, as that program does."""
    with path.open("ab") as file:
        file.write(json.dumps(user("u2", text)).encode() + b"\n")


class Move(Struct):
    """A way in which a program moves a session's file; `is_same` tells that the file stays the same one."""

    make: Callable[[Path], Place]
    move: Callable[[Path], Path]
    write: Callable[[Path, str], None] | None
    is_same: bool


MOVES = {
    "claude-code, moved": Move(claude_file, moved, claude_answer, is_same=True),
    "claude-code, copied": Move(claude_file, copied, claude_answer, is_same=False),
    "codex, archived": Move(codex_file, archived, codex_answer, is_same=True),
    "codex, continued": Move(codex_file, continued, codex_answer, is_same=False),
    "codex, compressed": Move(codex_file, compressed, None, is_same=False),
    "gemini-cli, as lines": Move(gemini_file, as_lines, gemini_answer, is_same=False),
}


async def shown(wire: Wire, session_id: str) -> list[str]:
    """Return the paths at which a list has a session."""
    page = await wire.call("session/list")
    assert page["unreadable"] == []
    return [one["path"] for one in page["sessions"] if one["id"] == session_id]


async def add_all(wire: Wire, roots: list[Path]) -> None:
    """Make folders roots, and list what is in them."""
    for root in roots:
        await add_root(wire, root, "codex" if root.name == "archived_sessions" else None)
    await ids(wire)


async def followed(wire: Wire, place: Place) -> dict[str, Any]:
    """Make folders roots, and subscribe to a session of theirs; return what the session is."""
    roots, _, session_id = place
    await add_all(wire, roots)
    await watch(wire, session_id=session_id)
    return dict(await call(wire, "session/get", "session", session_id=session_id))


async def last_words(wire: Wire, session_id: str) -> str:
    """Return the last message of a context."""
    return json.dumps(
        (await call(wire, "session/build_context", "messages", session_id=session_id))[-1]
    )


@pytest.mark.parametrize("is_listed", [False, True], ids=["nobody lists", "listed"])
@pytest.mark.parametrize("how", MOVES)
async def test_an_open_session_goes_on_where_its_file_is(
    daemon: Daemon, tmp_path: Path, how: str, is_listed: bool
) -> None:
    way = MOVES[how]
    place = way.make(tmp_path.resolve())
    _, path, session_id = place
    async with daemon.connect() as wire:
        before = await followed(wire, place)
        there = way.move(path)
        # Nothing of the file that is open tells of a later segment.
        if is_listed or path.exists():
            assert await shown(wire, session_id) == [str(there)]
        if not way.is_same:
            assert (await events(wire, 1))[0][0] == "replaced"
        if way.write is not None:
            way.write(there, "at the new place")
            message = await wire.next_notification()
            while "at the new place" not in json.dumps(message):
                message = await wire.next_notification()
            assert "at the new place" in await last_words(wire, session_id)
        now = await call(wire, "session/get", "session", session_id=session_id)
        assert now["path"] == str(there)
        assert (now["epoch"] == before["epoch"]) is way.is_same
        assert await shown(wire, session_id) == [str(there)]


async def test_a_file_that_comes_back_later_is_found_although_nobody_lists(
    daemon: Daemon, tmp_path: Path
) -> None:
    place = claude_file(tmp_path.resolve())
    _, path, session_id = place
    async with daemon.connect() as wire:
        await followed(wire, place)
        away = path.rename(tmp_path / "away")
        actor = daemon.service.registry.by_id[session_id]
        await eventually(lambda: actor.is_without_file)
        # Behind a look at all roots, which finds nothing.
        await daemon.service.live_catalog.look_for_files()
        there = filed_anew(path)
        away.rename(there)
        claude_answer(there, "later")
        assert (await events(wire, 1))[0][0] == "later-5"
        assert await shown(wire, session_id) == [str(there)]


@pytest.mark.parametrize("how", ["claude-code, moved", "codex, archived", "codex, compressed"])
async def test_a_session_is_found_by_its_id_where_its_file_is_by_now(
    real_house: House, tmp_path: Path, how: str
) -> None:
    way = MOVES[how]
    roots, path, session_id = way.make(tmp_path.resolve())
    async with real_house.daemon() as running, running.connect() as wire:
        await add_all(wire, roots)
        assert await shown(wire, session_id) == [str(path)]
        there = way.move(path)
        assert await call(wire, "session/get", "session.path", session_id=session_id) == str(there)
        await let_go(running, wire, session_id)
        assert await shown(wire, session_id) == [str(there)]


async def test_a_native_file_of_a_root_that_was_moved_takes_appends_where_it_is(
    daemon: Daemon, tmp_path: Path
) -> None:
    root = tmp_path.resolve() / "pi"
    path = put(
        root / "--p--", "2026-01-01_pi-session-1.jsonl", pi_file("pi-session-1", "one", "two")
    )
    async with daemon.connect() as wire:
        await followed(wire, ([root], path, "pi-session-1"))
        (root / "--q--").mkdir()
        there = path.rename(root / "--q--" / path.name)
        assert (await events(wire, 1))[0][0] == "replaced"
        await append(wire, "e-1", session_id="pi-session-1")
        assert b"e-1" in there.read_bytes()
        assert not path.exists()
        assert await shown(wire, "pi-session-1") == [str(there)]
