"""Searches in roots: up to a limit, from the newest sessions, and no subagents unasked."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import anyio
import pytest

from sessiond.catalog.fulltext import Indexed, TextIndex
from sessiond.catalog.rows import Known
from sessiond.daemon.retention_timer import keep_index
from sessiond.errors import StorageError
from sessiond.journal.disk.files import Files
from sessiond.limits import SCAN_SECONDS
from sessiond.service.files import line_texts
from sessiond.service.files.in_place import AgentFile, AgentFiles
from sessiond.service.sources.agents.sampling import HeldFile
from sessiond.testing.daemon import Daemon
from sessiond.testing.wire import Refusal, Wire
from tests.kit.agent_roots import CLAUDE, claude_root
from tests.kit.agents import claude_line, write_lines
from tests.kit.calls import call, create, say
from tests.kit.house import House
from tests.kit.limits import set_limits
from tests.kit.patience import eventually
from tests.kit.roots import add_root, ids, pi_file, put
from tests.kit.sessions import SESSION

INDEXED = "roots[].{indexed_chars,index_full}"
FILE = f"-p/{CLAUDE}.jsonl"
TEXT = "needle {}"
CHARS = len(TEXT.format(0))
TASK = "agent-a1b2c3d4e5f6a7b8c"
OLD, MIDDLE, NEW = (CLAUDE.format(at) for at in range(3))


def root_with(home: Path, count: int = 3) -> Path:
    """Return a folder of Claude Code's projects with a session for each hour, each with one prompt."""
    root = home / "claude" / "projects"
    for at in range(count):
        path = write_lines(root / FILE.format(at), [claude_line(1, None, TEXT.format(at))])
        os.utime(path, (at * 3600, at * 3600))
    return root


async def found(wire: Wire, query: str = "needle", **more: Any) -> list[str]:
    """Return the sessions with a hit."""
    hits = (await wire.call("session/search", query=query, **more))["hits"]
    return sorted({hit["session_id"] for hit in hits})


async def test_the_oldest_sessions_of_a_full_root_are_listed_and_not_searched(
    real_house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, ROOT_TEXT_CHARS_MAX=2 * CHARS)
    root = root_with(tmp_path.resolve())
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root)
        assert await call(wire, "catalog/roots", INDEXED) == [(0, False)]
        assert await found(wire) == [MIDDLE, NEW]
        assert await ids(wire) == [OLD, MIDDLE, NEW]
        assert await call(wire, "catalog/roots", INDEXED) == [(2 * CHARS, True)]
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        assert await call(wire, "catalog/roots", INDEXED) == [(2 * CHARS, True)]
        assert await found(wire) == [MIDDLE, NEW]


async def test_a_root_within_its_limit_is_searched_whole(
    real_house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, ROOT_TEXT_CHARS_MAX=3 * CHARS)
    root = root_with(tmp_path.resolve())
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root)
        assert await found(wire) == [OLD, MIDDLE, NEW]
        assert await call(wire, "catalog/roots", INDEXED) == [(3 * CHARS, False)]


async def test_a_smaller_session_does_not_pass_an_older_one_that_has_no_room(
    real_house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, ROOT_TEXT_CHARS_MAX=2 * CHARS)
    root = root_with(tmp_path.resolve())
    path = write_lines(root / FILE.format(1), [claude_line(1, None, "needle " + "x" * CHARS)])
    os.utime(path, (3600, 3600))
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root)
        assert await found(wire) == [NEW]
        assert await call(wire, "catalog/roots", INDEXED) == [(CHARS, True)]


async def test_a_session_that_was_left_out_comes_back_when_there_is_room(
    real_house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, ROOT_TEXT_CHARS_MAX=2 * CHARS)
    root = root_with(tmp_path.resolve())
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root)
        assert await found(wire) == [MIDDLE, NEW]
        (root / FILE.format(2)).unlink()
        assert await found(wire) == [OLD, MIDDLE]
        assert await call(wire, "catalog/roots", INDEXED) == [(2 * CHARS, False)]


async def test_a_session_that_grows_takes_the_room_of_the_oldest(
    real_house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, ROOT_TEXT_CHARS_MAX=2 * CHARS)
    root = root_with(tmp_path.resolve())
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root)
        assert await found(wire) == [MIDDLE, NEW]
        lines = [claude_line(1, None, TEXT.format(0)), claude_line(2, 1, "")]
        os.utime(write_lines(root / FILE.format(0), lines), (10**6, 10**6))
        real_house.seconds += SCAN_SECONDS
        assert await found(wire) == [OLD, NEW]
        assert await call(wire, "catalog/roots", INDEXED) == [(2 * CHARS, True)]


async def test_sessions_that_have_no_room_are_not_read_again_and_again(
    real_house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, ROOT_TEXT_CHARS_MAX=2 * CHARS)
    root = root_with(tmp_path.resolve(), 6)
    read: list[str] = []
    searched = AgentFiles.searched

    def counted(files: AgentFiles, file: AgentFile, held: HeldFile) -> Any:
        read.append(file.path.stem)
        return searched(files, file, held)

    monkeypatch.setattr(AgentFiles, "searched", counted)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root)
        assert await found(wire) == [CLAUDE.format(4), CLAUDE.format(5)]
        assert read == [CLAUDE.format(at) for at in (5, 4, 3)]
        await found(wire)
        assert len(read) == 3


async def test_every_root_has_room_of_its_own_and_the_profile_has_no_bound(
    real_house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Room for one session of pi, whose header has words too, and for two of Claude Code.
    said = "needle " + "x" * 100
    set_limits(monkeypatch, ROOT_TEXT_CHARS_MAX=len(said) * 2)
    read: list[str] = []
    read_file = line_texts.file_texts

    def counted(files: Files, known: Known, indexed: Indexed | None) -> Any:
        read.append(known.session_id)
        return read_file(files, known, indexed)

    monkeypatch.setattr(line_texts, "file_texts", counted)
    home = tmp_path.resolve()
    for at in range(3):
        path = put(home / "pi", f"x_theirs-{at}", pi_file(f"theirs-{at}", said, "a"))
        os.utime(path, (at, at))
        write_lines(home / "claude" / "projects" / FILE.format(at), [claude_line(1, None, said)])
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, SESSION, persist="immediate")
        await say(wire, "needle " * 99, session_id=SESSION)
        await add_root(wire, home / "pi", "pi")
        await add_root(wire, home / "claude" / "projects")
        hits = await found(wire)
        assert SESSION in hits
        assert [one for one in hits if one.startswith("theirs")] == ["theirs-2"]
        assert len(hits) == 1 + 1 + 2
        assert sorted(read) == [SESSION, "theirs-1", "theirs-2"]
        await found(wire)
        assert len(read) == 3


async def test_lines_that_come_later_take_room_too(real_house: House, tmp_path: Path) -> None:
    root = root_with(tmp_path.resolve())
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root)
        await found(wire)
        lines = [claude_line(1, None, TEXT.format(0)), claude_line(2, 1, TEXT.format(9))]
        os.utime(write_lines(root / FILE.format(0), lines), (1, 1))
        real_house.seconds += SCAN_SECONDS
        assert await found(wire, TEXT.format(9)) == [OLD]
        assert await call(wire, "catalog/roots", INDEXED) == [(4 * CHARS, False)]


async def test_the_roots_can_be_seen_although_the_search_index_cannot_be_read(
    real_house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = root_with(tmp_path.resolve())

    def amounts(_: TextIndex) -> None:
        raise StorageError("locked", errno="EBUSY", path="search.sqlite")

    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root)
        await found(wire)
        monkeypatch.setattr(TextIndex, "amounts", amounts)
        assert await call(wire, "catalog/roots", INDEXED) == [(0, False)]


async def test_the_roots_make_no_search_index(real_house: House, tmp_path: Path) -> None:
    root = root_with(tmp_path.resolve())
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root)
        await ids(wire)
        await wire.call("catalog/roots")
        index = real_house.layout.root / "search.sqlite"
        assert not index.exists()


async def test_a_file_that_is_just_being_written_is_searched_first_and_to_its_end(
    real_house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, ROOT_TEXT_CHARS_MAX=CHARS + len("zebra"))
    root = root_with(tmp_path.resolve(), 2)
    soon = real_house.files.now() + 3600
    os.utime(root / FILE.format(0), (soon, soon))
    monkeypatch.setattr(real_house.files, "now", lambda: soon)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root)
        assert await found(wire) == [OLD]
        lines = [claude_line(1, None, TEXT.format(0)), claude_line(2, 1, "zebra")]
        os.utime(write_lines(root / FILE.format(0), lines), (soon, soon))
        real_house.seconds += SCAN_SECONDS
        assert await found(wire, "zebra") == [OLD]


async def test_a_search_leaves_out_what_was_started_for_a_task_unless_asked(
    real_house: House, tmp_path: Path
) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, claude_root(tmp_path.resolve()))
        everywhere = await found(wire, "main.rs", subagents=True)
        assert TASK in everywhere
        everywhere.remove(TASK)
        assert await found(wire, "main.rs") == everywhere


# -- roots of which no outputs are searched -------------------------------------------------------


def root_with_output(home: Path) -> Path:
    """Return a folder of Claude Code's projects with a session that has a prompt, and an output with a word of its own."""
    root = home / "claude" / "projects"
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "qzvjxpassword"}
    lines = [claude_line(1, None, "needle"), claude_line(2, 1, [result])]
    path = write_lines(root / FILE.format(0), lines)
    os.utime(path, (3600, 3600))
    return root


async def outputs_of_roots(wire: Wire) -> list[bool]:
    return [one["outputs"] for one in (await wire.call("catalog/roots"))["roots"]]


async def words_found(wire: Wire) -> list[bool]:
    """Return whether the prompt is found, and whether the output is."""
    return [bool(await found(wire, word)) for word in ("needle", "qzvjxpassword")]


def has_word(house: House) -> bool:
    """Return whether the word of the output stands in a file of the search index."""
    folder = house.layout.search.parent
    return any(b"qzvjxpassword" in path.read_bytes() for path in folder.glob("search.sqlite*"))


async def test_outputs_of_a_root_are_searched_or_not_as_the_root_says(
    real_house: House, tmp_path: Path
) -> None:
    root = str(root_with_output(tmp_path.resolve()))
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await wire.call("catalog/roots", action="add", path=root, outputs=False)
        assert await outputs_of_roots(wire) == [False]
        assert await words_found(wire) == [True, False]
        assert await call(wire, "catalog/roots", INDEXED) == [(len("needle"), False)]
        assert not has_word(real_house)
        # A name of the root without a word on outputs changes nothing.
        await wire.call("catalog/roots", action="add", path=root)
        assert await words_found(wire) == [True, False]
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        assert await outputs_of_roots(wire) == [False]
        assert await words_found(wire) == [True, False]
        await wire.call("catalog/roots", action="add", path=root, outputs=True)
        assert await words_found(wire) == [True, True]
        assert await outputs_of_roots(wire) == [True]


async def test_outputs_that_are_not_to_be_searched_any_more_are_erased(
    real_house: House, tmp_path: Path
) -> None:
    root = str(root_with_output(tmp_path.resolve()))
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await wire.call("catalog/roots", action="add", path=root)
        assert await words_found(wire) == [True, True]
        indexed = len("needle") + len("qzvjxpassword")
        assert await call(wire, "catalog/roots", INDEXED) == [(indexed, False)]
        assert has_word(real_house)
        reads = count_texts(daemon)
        await wire.call("catalog/roots", action="add", path=root, outputs=False)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(keep_index, daemon.service)
            # The work in the background does it; no search has to ask.
            await eventually(lambda: not has_word(real_house))
            tasks.cancel_scope.cancel()
        assert reads == []
        assert await words_found(wire) == [True, False]
        assert await call(wire, "catalog/roots", INDEXED) == [(len("needle"), False)]


def count_texts(daemon: Daemon) -> list[str]:
    """Return a list of the sessions that are read for the index from now on."""
    read, behind = list[str](), daemon.store.texts_behind

    def noted(known: Known, indexed: Indexed | None) -> Any:
        read.append(known.session_id)
        return behind(known, indexed)

    daemon.store.texts_behind = noted
    return read


async def test_the_configuration_says_of_which_roots_no_outputs_are_searched(
    real_house: House, tmp_path: Path
) -> None:
    root = str(root_with_output(tmp_path.resolve()))
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        roots = daemon.service.roots
        await roots.configure({"claude-code": [root]}, [root])
        assert await outputs_of_roots(wire) == [False]
        assert await words_found(wire) == [True, False]
        with pytest.raises(Refusal, match=r"search\.no_outputs"):
            await wire.call("catalog/roots", action="add", path=root, outputs=True)
        await roots.configure({"claude-code": [root]}, [])
        assert await words_found(wire) == [True, True]
        # It counts for a root that a client has added, too.
        await roots.configure({}, [root])
        await wire.call("catalog/roots", action="add", path=root)
        assert await outputs_of_roots(wire) == [False]
        assert await words_found(wire) == [True, False]
        with pytest.raises(Refusal, match="no meaning for action remove"):
            await wire.call("catalog/roots", action="remove", path=root, outputs=True)
