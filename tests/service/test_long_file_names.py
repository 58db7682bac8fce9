"""Files with names as long as a name may be: what sessiond names after such a file has a name, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from sessiond.testing.wire import Wire
from tests.kit.agents import copied
from tests.kit.calls import call, say
from tests.kit.house import House
from tests.kit.limits import set_limits
from tests.kit.opencode import database
from tests.kit.roots import add_root
from tests.kit.sessions import SESSION, native_file
from tests.service.damage import GOOD, line

SAMPLES = Path(__file__).resolve().parent.parent / "samples"
SUFFIX = ".jsonl"
# As only a power cut leaves bytes at the end.
TORN = b'{"type":"mess\0'
NAME_BYTES_MAX = 255
# From about the first length at which an ending of sessiond's makes the name too long.
LENGTHS = [NAME_BYTES_MAX - 42, NAME_BYTES_MAX - 32, NAME_BYTES_MAX - 5, NAME_BYTES_MAX]


def long_name(length: int, letter: str = "x") -> str:
    """Return the name of a session's file, of so many bytes."""
    size = len(letter.encode())
    return f"{letter * ((length - len(SUFFIX)) // size)}{SUFFIX}".rjust(length // size, "x")


@pytest.fixture(params=["profile", "root"])
async def folder(request: pytest.FixtureRequest, real_house: House, tmp_path: Path) -> Path:
    """Return a folder of files of users: the profile's own, or a root."""
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        if request.param == "profile":
            return real_house.layout.sessions
        folder = tmp_path / "root"
        folder.mkdir()
        await add_root(wire, folder, "native")
        return folder


def contents(folder: Path) -> list[bytes]:
    """Return the contents of the files in a folder, the origin notes left out."""
    return sorted(path.read_bytes() for path in folder.iterdir() if ".origin" not in path.name)


async def trashed(wire: Wire) -> list[tuple[str, str]]:
    """Return the id and the origin of each session that the trash shows."""
    shown = await call(wire, "session/trash", "sessions")
    return [(one["session_id"], one["origin"]) for one in shown]


@pytest.mark.parametrize(
    "name",
    [*map(long_name, LENGTHS), long_name(NAME_BYTES_MAX, "\N{LATIN SMALL LETTER E WITH ACUTE}")],
    ids=[*map(str, LENGTHS), "two bytes a letter"],
)
async def test_a_torn_end_of_a_file_with_a_long_name_goes_and_comes_back_with_it(
    real_house: House, folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, HALF_LINE_SECONDS=0.05)
    path = folder / name
    path.write_bytes(native_file([], SESSION) + TORN)
    # Another file whose name begins alike keeps its torn end.
    other = folder / f"y{path.name[1:]}"
    other.write_bytes(native_file([], "session-b") + TORN[1:])
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        assert (await say(wire, "n1"))["durability"] == "disk"
        await say(wire, "n1", session_id="session-b")
        names = set(folder.iterdir())
        before = contents(folder)
        assert {TORN, TORN[1:]} < set(before)
        await call(wire, "session/delete")
        assert await trashed(wire) == [(SESSION, str(path))]
        assert contents(folder) == sorted([other.read_bytes(), TORN[1:]])
        await call(wire, "session/restore")
        assert (set(folder.iterdir()), contents(folder)) == (names, before)
        await call(wire, "session/delete")
        await call(wire, "session/purge")
        assert list(real_house.layout.trash.iterdir()) == []
        assert contents(folder) == sorted([other.read_bytes(), TORN[1:]])


@pytest.mark.parametrize("length", LENGTHS)
async def test_the_file_from_before_a_repair_is_no_deleted_session(
    real_house: House, folder: Path, length: int
) -> None:
    path = folder / long_name(length)
    damaged = GOOD + b"no line\n" + line(b"n3", b'"n2"')
    path.write_bytes(damaged)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        done = await call(wire, "session/repair", dry_run=False)
        assert Path(done["backup"]).read_bytes() == damaged
        assert await trashed(wire) == []
        assert (await say(wire, "n4"))["durability"] == "disk"
        await call(wire, "session/delete")
        assert await trashed(wire) == [(SESSION, str(path))]
        await call(wire, "session/restore")
        assert contents(real_house.layout.trash) == [damaged]
        await call(wire, "session/delete")
        await call(wire, "session/purge")
        assert list(real_house.layout.trash.iterdir()) == []


async def test_two_files_with_one_long_beginning_lie_in_the_trash_apart(
    real_house: House, folder: Path
) -> None:
    paths = [folder / f"{'x' * 248}{letter}{SUFFIX}" for letter in "ab"]
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        for path in paths:
            path.write_bytes(GOOD)
            await call(wire, "session/open", path=str(path))
            await call(wire, "session/delete")
            assert not path.exists()
        assert len(contents(real_house.layout.trash)) == 2
        await call(wire, "session/purge")
        assert list(real_house.layout.trash.iterdir()) == []


async def test_a_file_of_piglet_whose_lock_no_program_can_name_takes_appends(
    real_house: House, tmp_path: Path
) -> None:
    path = tmp_path / long_name(NAME_BYTES_MAX)
    path.write_bytes((SAMPLES / "piglet" / "piglet.jsonl").read_bytes())
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        info = (await wire.call("session/open", path=str(path)))["session"]
        await say(wire, session_id=info["id"])
        assert b'"hi"' in path.read_bytes().splitlines()[-1]


async def test_a_database_of_opencode_with_a_long_name_is_imported(
    real_house: House, tmp_path: Path
) -> None:
    # SQLite has no file beside a database whose name leaves no room for an ending.
    path = database(tmp_path / f"{'x' * (NAME_BYTES_MAX - 3)}.db")
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        assert (await copied(wire, path))["report"]["dropped"] == 0
