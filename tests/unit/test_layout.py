"""The folders and names of a profile: made, found again, and never taken for something else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sessiond.errors import StorageError
from sessiond.journal.disk.files import Files
from sessiond.journal.profile.layout import Layout, data_home, is_profile
from sessiond.journal.profile.names import (
    is_unfinished,
    torn_end_name,
    torn_ending,
    unfinished_name,
)
from sessiond.testing.disk import FaultDisk

pytestmark = pytest.mark.platform

STAMP = "2026-01-15T10-30-00-000000"
LATER = "2026-01-15T10-30-00-000001"
LAYOUT = Layout(Path("/home/sessiond"))


FOLDERS = (LAYOUT.sessions, LAYOUT.archive, LAYOUT.pending)


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


def test_what_was_being_made_when_sessiond_was_ended_is_known_by_its_whole_name(
    disk: FaultDisk,
) -> None:
    disk.make_folder(LAYOUT.trash)
    folders = (LAYOUT.sessions, LAYOUT.archive, LAYOUT.pending, LAYOUT.trash)
    own = [folder / unfinished_name(disk.random_digits()) for folder in folders]
    session = LAYOUT.session_path("abcdefgh", STAMP).name
    for path in own:
        disk.put(path, b"")
        for name in (session, "abcdefgh.jsonl", "notes.jsonl", path.name.removesuffix(".new")):
            for ending in ("", ".new", ".new.new"):
                if name + ending != path.name:
                    disk.put(path.with_name(name + ending), b"")
        disk.make_folder(path.with_name(unfinished_name("f" * 32)))
    disk.put(LAYOUT.root / own[0].name, b"")
    assert set(LAYOUT.half_made(disk)) == set(own)


OURS_IN_THE_TRASH = (
    *("", ".2", ".10", f".torn-{STAMP}", f".torn-{STAMP}-2", f".torn-{STAMP}-2.2"),
    *(f".before-repair-{STAMP}", f".before-repair-{STAMP}.3"),
)
FROM_ELSEWHERE = (".from-x", ".from-a b\n.txt", f".from-x.torn-{STAMP}", ".from-.from-.2")
NOT_OURS = (
    *(".", ".0", ".1", ".02", ".bak", ".new", ".2.bak", "2", "-2", ".torn-", ".torn-now", ".from-"),
    *(f".torn-{STAMP}.", f".torn-{STAMP}-1", f".torn-{STAMP}-02", f".torn-{STAMP}\n"),
    *(f".torn-{STAMP}.txt", f".before-repair-{STAMP}-2", f".before-repair-{STAMP}~", "\n"),
    *(".torn-" + STAMP.replace("1", "\u0661"), f".notes.torn-{STAMP}"),
)


@pytest.mark.parametrize("session_id", ["abcdefgh", "x_abcdefgh"])
def test_a_name_in_the_trash_says_whose_it_is_only_as_a_whole(session_id: str) -> None:
    session, draft = LAYOUT.session_path(session_id, STAMP), LAYOUT.pending_path(session_id)
    for own in (session, draft):
        for ending in OURS_IN_THE_TRASH:
            assert LAYOUT.trashed_id(LAYOUT.trash / f"{own.name}{ending}") == session_id
        for ending in NOT_OURS:
            assert LAYOUT.trashed_id(LAYOUT.trash / f"{own.name}{ending}") is None
    for ending in FROM_ELSEWHERE:
        assert LAYOUT.trashed_id(LAYOUT.trash / f"{session.name}{ending}") == session_id
        # What lay outside the profile was no draft.
        assert LAYOUT.trashed_id(LAYOUT.trash / f"{draft.name}{ending}") is None
    for name in ("", ".jsonl", "notes.txt", "short.jsonl", f"{STAMP}.jsonl.2.2"):
        assert LAYOUT.trashed_id(LAYOUT.trash / name) is None


def test_every_name_that_is_made_is_recognised(disk: FaultDisk) -> None:
    path = LAYOUT.session_path("abcdefgh", STAMP)
    names = [torn_end_name(path, LATER, number).name for number in range(1, 12)]
    assert len(set(names)) == 11
    assert all(torn_ending(name, path.name) for name in names)
    assert not any(torn_ending(name, path.name[:-1]) for name in names)
    assert is_unfinished(unfinished_name(Files().random_digits()))
    assert is_unfinished(unfinished_name(disk.random_digits()))
    assert Files().random_digits() != Files().random_digits()
    outside = LAYOUT.trash_name(Path("/p/chat"), "abcdefgh", STAMP)
    assert LAYOUT.trashed_id(LAYOUT.trash / outside) == "abcdefgh"


def test_torn_ends_are_listed_of_sessions_and_drafts_alone(disk: FaultDisk) -> None:
    own = [LAYOUT.session_path("abcdefgh", STAMP), LAYOUT.pending_path("draft-one")]
    for path in (*own, LAYOUT.sessions / "notes.jsonl", LAYOUT.sessions / "of-somebody"):
        for ending in (f".torn-{LATER}", f".torn-{LATER}.bak", ".torn-x"):
            disk.put(path.with_name(path.name + ending), b"")
    torn = {path.with_name(f"{path.name}.torn-{LATER}") for path in own}
    assert set(LAYOUT.cut_ends(disk)) == torn


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
    assert nth == 12


def test_a_start_syncs_the_names_that_a_killed_daemon_did_not() -> None:
    disk = FaultDisk(LAYOUT.home)
    LAYOUT.make_folders(disk)
    deleted = LAYOUT.session_path("deleted-one", STAMP)
    disk.put(deleted, b"")
    disk.rename(deleted, LAYOUT.trash / deleted.name)
    after_kill = disk.kill()
    assert after_kill.crash().exists(deleted)
    LAYOUT.make_folders(after_kill)
    rebooted = after_kill.crash()
    assert not rebooted.exists(deleted)
    assert rebooted.exists(LAYOUT.trash / deleted.name)


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
    assert data_home({"SESSIOND_HOME": "data"}) == data_home({})
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
