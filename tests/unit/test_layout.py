"""The folders and names of a profile: made, found again, and never taken for something else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sessiond.errors import StorageError
from sessiond.journal.files import Files
from sessiond.journal.layout import Layout, data_home, is_profile
from sessiond.testing.disk import FaultDisk

STAMP = "2026-01-15T10-30-00-000000"
LATER = "2026-01-15T10-30-00-000001"
LAYOUT = Layout(Path("/home/sessiond"))


@pytest.fixture
def disk() -> FaultDisk:
    return FaultDisk(LAYOUT.sessions, LAYOUT.archive, LAYOUT.pending)


@pytest.mark.parametrize("session_id", ["abcdefgh", "a_b_c_d_e", "-_-_-_-_", "x" * 128])
def test_a_name_says_which_session_it_is(session_id: str) -> None:
    path = LAYOUT.session_path(session_id, STAMP)
    assert path.name == f"{STAMP}_{session_id}.jsonl"
    assert LAYOUT.id_of(path) == session_id
    archived = LAYOUT.archive / path.name
    assert LAYOUT.id_of(archived) == session_id
    draft = LAYOUT.pending_path(session_id)
    assert LAYOUT.id_of(draft) == session_id
    assert [LAYOUT.is_pending(one) for one in (path, archived, draft)] == [False, False, True]
    assert [LAYOUT.is_archived(one) for one in (path, archived, draft)] == [False, True, False]


@pytest.mark.parametrize(
    "path",
    [
        LAYOUT.sessions / "abcdefgh.jsonl",
        LAYOUT.sessions / f"{STAMP}_short.jsonl",
        LAYOUT.sessions / f"{STAMP}_abcdefgh.jsonl.new",
        LAYOUT.sessions / f"{STAMP}_abcdefgh.jsonl.torn-{LATER}",
        LAYOUT.sessions / f"{STAMP}_abcdefgh",
        LAYOUT.sessions / "2026-01-15T10-30-00-000Z_abcdefgh.jsonl",
        LAYOUT.sessions / f"{STAMP}\n_abcdefgh.jsonl",
        LAYOUT.sessions / f"{STAMP}_abcdefgh\n.jsonl",
        LAYOUT.pending / f"{STAMP}_abcdefgh.json",
        LAYOUT.pending / "short.jsonl",
        LAYOUT.root / f"{STAMP}_abcdefgh.jsonl",
        Path("/elsewhere") / f"{STAMP}_abcdefgh.jsonl",
    ],
)
def test_any_other_file_has_no_session_id_of_ours(path: Path) -> None:
    assert LAYOUT.id_of(path) is None


def test_an_id_that_could_leave_the_folder_never_becomes_a_path(disk: FaultDisk) -> None:
    for session_id in ("../../x", "/etc/passwd", "abcdefgh\n", "a/bcdefgh", ""):
        with pytest.raises(AssertionError):
            LAYOUT.session_path(session_id, STAMP)
        with pytest.raises(AssertionError):
            LAYOUT.pending_path(session_id)
        assert LAYOUT.find(disk, session_id) is None


def test_a_session_is_found_before_a_draft_and_the_older_copy_first(disk: FaultDisk) -> None:
    assert LAYOUT.find(disk, "abcdefgh") is None
    disk.put(LAYOUT.pending_path("abcdefgh"), b"h\n")
    assert LAYOUT.find(disk, "abcdefgh") == LAYOUT.pending_path("abcdefgh")
    for stamp in (LATER, STAMP):
        disk.put(LAYOUT.session_path("abcdefgh", stamp), b"h\n")
    disk.put(LAYOUT.session_path("x_abcdefgh", "2025-01-15T10-30-00-000000"), b"h\n")
    assert LAYOUT.find(disk, "abcdefgh") == LAYOUT.session_path("abcdefgh", STAMP)


def test_an_archived_session_is_found_unless_another_file_has_its_id(disk: FaultDisk) -> None:
    draft = LAYOUT.pending_path("abcdefgh")
    session = LAYOUT.session_path("abcdefgh", LATER)
    archived = LAYOUT.archive / LAYOUT.session_path("abcdefgh", STAMP).name
    other = LAYOUT.archive / LAYOUT.session_path("x_abcdefgh", STAMP).name
    for path in (draft, archived, other):
        disk.put(path, b"h\n")
    assert LAYOUT.find(disk, "abcdefgh") == archived
    disk.put(session, b"h\n")
    assert LAYOUT.find_all(disk, "abcdefgh") == [session, archived, draft]


def test_ids_are_listed_once_the_latest_first_and_archived_ones_last(disk: FaultDisk) -> None:
    name = LAYOUT.session_path("archived-one", "2026-02-01T00-00-00-000000").name
    disk.put(LAYOUT.archive / name, b"")
    disk.put(LAYOUT.session_path("older-one", STAMP), b"")
    disk.put(LAYOUT.session_path("newer-one", LATER), b"")
    disk.put(LAYOUT.session_path("older-one", "2026-01-01T00-00-00-000000"), b"")
    disk.put(LAYOUT.pending_path("draft-one"), b"")
    disk.put(LAYOUT.sessions / "notes.txt", b"")
    assert LAYOUT.session_ids(disk) == ["newer-one", "older-one", "archived-one"]


def test_a_scan_gives_what_may_be_a_session_and_drafts_on_request(disk: FaultDisk) -> None:
    session, draft = LAYOUT.session_path("abcdefgh", STAMP), LAYOUT.pending_path("draft-one")
    dropped = LAYOUT.sessions / "from-somewhere.jsonl"
    archived = LAYOUT.archive / dropped.name
    for path in (session, draft, dropped, archived):
        disk.put(path, b"h\n")
        disk.put(path.with_name(path.name + ".torn-x"), b"")
        disk.put(path.with_name(path.name + ".new"), b"")
        disk.put(path.with_name("." + path.name), b"")
    assert set(LAYOUT.scan(disk, drafts=False)) == {session, dropped, archived}
    assert set(LAYOUT.scan(disk, drafts=True)) == {session, dropped, archived, draft}


def test_what_a_crash_left_half_made_is_known_by_its_name(disk: FaultDisk) -> None:
    own = [LAYOUT.session_path("abcdefgh", STAMP), LAYOUT.pending_path("draft-one")]
    own += [LAYOUT.archive / own[0].name, LAYOUT.trash / own[0].name]
    disk.make_folder(LAYOUT.trash)
    for path in (*own, LAYOUT.sessions / "notes.jsonl", LAYOUT.sessions / "of-somebody.txt"):
        disk.put(path, b"h\n")
        disk.put(path.with_name(path.name + ".new"), b"")
    disk.put(LAYOUT.trash / f"{own[0].name}.torn-{STAMP}", b"")
    assert set(LAYOUT.half_made(disk)) == {path.with_name(path.name + ".new") for path in own}


def test_folders_that_are_not_there_are_empty() -> None:
    disk = FaultDisk()
    assert LAYOUT.session_ids(disk) == []
    assert list(LAYOUT.scan(disk, drafts=True)) == []
    assert LAYOUT.find(disk, "abcdefgh") is None


def test_a_folder_that_cannot_be_read_is_an_error_with_its_name(disk: FaultDisk) -> None:
    disk.fail("listdir")
    with pytest.raises(StorageError) as caught:
        LAYOUT.session_ids(disk)
    assert caught.value.data()["errno"] == "EIO"
    assert caught.value.data()["path"] == str(LAYOUT.sessions)


def test_folders_survive_a_power_cut_once_they_are_made() -> None:
    disk = FaultDisk("/home")
    LAYOUT.make_folders(disk)
    rebooted = disk.crash()
    for folder in (LAYOUT.sessions, LAYOUT.archive, LAYOUT.pending, LAYOUT.trash, LAYOUT.locks):
        assert rebooted.exists(folder)


def test_making_folders_can_be_cut_off_anywhere_and_repeated() -> None:
    nth = 0
    while True:
        nth += 1
        disk = FaultDisk(LAYOUT.home)
        fault = disk.fail(None, nth=nth)
        try:
            LAYOUT.make_folders(disk)
        except StorageError:
            assert fault.hit
        disk.heal()
        LAYOUT.make_folders(disk)
        rebooted = disk.crash()
        assert rebooted.exists(LAYOUT.sessions)
        assert rebooted.exists(LAYOUT.locks)
        if not fault.hit:
            break
    assert nth == 16


def test_a_home_that_somebody_chose_keeps_its_mode_and_a_file_in_the_way_its_content(
    tmp_path: Path,
) -> None:
    tmp_path.chmod(0o755)
    layout = Layout(tmp_path)
    layout.make_folders(Files())
    assert tmp_path.stat().st_mode & 0o777 == 0o755
    layout.sessions.rmdir()
    layout.sessions.write_bytes(b"notes")
    layout.sessions.chmod(0o644)
    with pytest.raises(StorageError, match="--home") as caught:
        layout.make_folders(Files())
    assert caught.value.data()["errno"] == "EEXIST"
    assert layout.sessions.read_bytes() == b"notes"
    assert layout.sessions.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("name", ["default", "a", "Work-2", "x.y_z", "a" * 64])
def test_profiles_are_plain_names(name: str) -> None:
    assert is_profile(name)
    assert Layout(Path("/h"), name).root == Path("/h/profiles") / name


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "a\n", "-x", ".x", "a" * 65, "ä"])
def test_what_could_leave_the_folder_is_no_profile(name: str) -> None:
    assert not is_profile(name)
    with pytest.raises(AssertionError):
        Layout(Path("/h"), name)


def test_the_home_is_what_the_environment_says_else_the_platform(home: Path) -> None:
    assert data_home({"SESSIOND_HOME": "/data"}) == Path("/data")
    assert data_home({"SESSIOND_HOME": "~/data"}) == home / "data"
    assert data_home({"SESSIOND_HOME": ""}).is_relative_to(home)
    assert data_home({}).name == "sessiond"


def test_the_journal_imports_no_library_but_msgspec() -> None:
    code = (
        "import sys, pkgutil, importlib, sessiond.journal as j\n"
        "for m in pkgutil.iter_modules(j.__path__): importlib.import_module(j.__name__+'.'+m.name)\n"
        "bad = {'anyio', 'platformdirs', 'json'} & set(sys.modules)\n"
        "sys.exit(str(bad) if bad else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
