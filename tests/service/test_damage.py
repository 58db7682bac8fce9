"""Every kind of damage in a real file: verify's report, the opening, and the result of a repair."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from anyio import to_thread

from sessiond.journal.disk.files import Files
from sessiond.model.problems import PROBLEM_KINDS
from sessiond.service.files.checking.verifying import verify_file
from sessiond.testing.daemon import Wire
from tests.kit.calls import call, refused
from tests.kit.house import House
from tests.kit.limits import set_limits
from tests.kit.sessions import HI, OWN, SESSION
from tests.service.damage import FOREIGN, GOOD, HEADER, NATIVE, ONE, PI, Damage, line

NAME = f"2026-01-01T00-00-00-000000_{SESSION}.jsonl"
"""Name of the file of the session."""
PAGE = Path(__file__).parents[2] / "protocol.md"
# Only verify looks for these.
ONLY_VERIFIED = {"long_line", "bad_time", "other_spelling", "other_id"}
# To an opening, half an append may still go on.
HALF_APPENDS = {"broken_atom", "incomplete_atom"}


async def look(wire: Wire, damage: Damage, dialect: str) -> None:
    """Check verify's report, with line and kind, and that verify changes no file."""
    found = await call(wire, "session/verify")
    assert [(one["line"], one["kind"]) for one in found["problems"]] == damage.problems
    assert all(one["detail"] for one in found["problems"])
    assert (found["ok"], found["problem_count"]) == (not damage.problems, len(damage.problems))
    assert found["dialect"] == (None if damage.opens == "refused" else dialect)
    assert found["bytes"] == len(damage.content)
    assert found["repairable"] is damage.is_repairable


def check_opening(damage: Damage, problems: int) -> None:
    """Check that an opening counts the problems that verify reports."""
    kinds = [kind for _, kind in damage.problems]
    if HALF_APPENDS.isdisjoint(kinds):
        assert problems == sum(kind not in ONLY_VERIFIED for kind in kinds)


@pytest.mark.parametrize("case", NATIVE)
async def test_in_a_native_file(house: House, case: str) -> None:
    damage = NATIVE[case]
    path = house.put(damage.content, killed=True)
    async with house.daemon() as daemon, daemon.connect() as wire:
        await look(wire, damage, "native")
        assert house.disk.content(path) == damage.content
        if damage.opens == "refused":
            await unopened(wire)
            assert house.disk.content(path) == damage.content
            return
        found = await call(wire, "session/verify")
        assert found["lines"] == len(damage.content.splitlines())
        assert found["read_only"] is any(kind == "bad_line" for _, kind in damage.problems)
        plan = await call(wire, "session/repair")
        assert (plan["dry_run"], plan["repaired"]) == (True, False)
        assert plan["dropped_lines"] == damage.dropped
        assert plan["dropped"] == len(damage.dropped)
        assert plan["kept"] == found["lines"] - len(damage.dropped)
        assert plan["problems"] == found["problems"]
        assert (plan["reason"] is None) is damage.is_repairable
        assert house.disk.content(path) == damage.content
        assert [one for one in house.disk.paths if one.parent != house.layout.locks] == [path]
        info = await call(wire, "session/open", "session", session_id=SESSION)
        assert info["read_only"] is (damage.opens == "read_only")
        check_opening(damage, info["problems"])
        # Verify says of an open session what it says of a closed one.
        await look(wire, damage, "native")
        await call(wire, "session/entries")
        assert house.disk.content(path) == damage.content
        if damage.opens == "read_only":
            told = await refused(wire, "append", "{kind,repairable}", message=HI)
            assert told == ("session_corrupt", True)
        else:
            assert (await call(wire, "append", message=HI))["durability"] == "disk"
        beside = [one for one in house.disk.paths if one.name.startswith(f"{path.name}.")]
        assert all(one.name.startswith(f"{path.name}.torn-") for one in beside)
        # What was cut is kept to the byte.
        torn = b"".join(house.disk.content(one) for one in reversed(beside))
        kept = damage.content.removesuffix(torn)
        assert house.disk.content(path).startswith(kept)
        assert bool(torn) is (damage.opens == "cut")
        assert len(kept) + len(torn) == len(damage.content)


async def unopened(wire: Wire) -> None:
    """Check that open, repair and append are refused, and that each refusal says why."""
    for method in ("session/open", "session/repair", "append"):
        params = {"message": HI} if method == "append" else {}
        told = await refused(wire, method, "{kind,line,repairable}", session_id=SESSION, **params)
        assert told == ("session_corrupt", 1, False)


@pytest.mark.parametrize(
    ("dialect", "case"), [(dialect, case) for dialect, cases in FOREIGN.items() for case in cases]
)
async def test_in_a_file_of_another_program_nothing_is_shortened_and_damage_keeps_nobody_from_writing(
    house: House, dialect: str, case: str
) -> None:
    damage = FOREIGN[dialect][case]
    path = house.put(damage.content)
    async with house.daemon() as daemon, daemon.connect() as wire:
        await look(wire, damage, dialect)
        if damage.opens == "refused":
            await unopened(wire)
            assert house.disk.content(path) == damage.content
            return
        plan = await call(wire, "session/repair")
        assert (plan["dropped"], plan["kept"]) == (0, len(damage.content.splitlines()))
        assert plan["reason"]
        info = await call(wire, "session/open", "session", session_id=SESSION)
        check_opening(damage, info["problems"])
        if damage.opens == "older":
            kind = await refused(wire, "append", message=OWN[dialect])
            assert kind == "session_read_only"
            assert house.disk.content(path) == damage.content
            return
        assert (await call(wire, "append", message=OWN[dialect]))["durability"] == "disk"
        assert house.disk.content(path).startswith(damage.content)


async def test_a_child_of_a_line_that_was_left_out_is_a_root_and_not_hidden(house: House) -> None:
    house.put(NATIVE["children of a bad line"].content)
    async with house.daemon() as daemon, daemon.connect() as wire:
        await call(wire, "session/repair", dry_run=False)
        nodes = (await call(wire, "session/tree"))["nodes"]
        assert [(node["id"], node["parent_id"]) for node in nodes] == [("n2", "n1"), ("n3", "n2")]
        assert nodes[0]["resolved_parent_id"] is None
        assert "resolved_parent_id" not in nodes[1]
        found = await call(wire, "session/verify")
        assert [(one["line"], one["kind"]) for one in found["problems"]] == [(2, "orphan")]
        assert not found["repairable"]


async def test_a_line_that_is_longer_than_a_frame_is_told_and_kept(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, FRAME_BYTES_MAX=1000)
    house.put(GOOD + line(b"n3", b'"n2"', b',"x":"%s"' % (b"x" * 1000)))
    async with house.daemon() as daemon, daemon.connect() as wire:
        found = await call(wire, "session/verify")
        assert [(one["line"], one["kind"]) for one in found["problems"]] == [(4, "long_line")]
        assert (found["repairable"], found["read_only"]) == (False, False)


# -- what stands where a file belongs, on the disk of this machine ---------------------------


@pytest.fixture
def place(real_house: House) -> Path:
    """Return the file of a session."""
    real_house.layout.make_folders(real_house.files)
    path = real_house.layout.sessions / NAME
    path.write_bytes(GOOD + b"garbage\n")
    return path


async def test_a_link_stays_and_the_file_behind_it_is_repaired(
    real_house: House, place: Path, tmp_path: Path
) -> None:
    behind = tmp_path / "elsewhere.jsonl"
    place.rename(behind)
    place.symlink_to(behind)

    def repaired(backup: Path) -> None:
        assert place.is_symlink()
        assert behind.read_bytes() == GOOD
        assert (backup.is_symlink(), backup.read_bytes()) == (False, GOOD + b"garbage\n")
        assert sorted(one.name for one in tmp_path.glob("elsewhere*")) == [behind.name]

    async with real_house.daemon() as daemon, daemon.connect() as wire:
        (problem,) = (await call(wire, "session/verify"))["problems"]
        assert problem["kind"] == "bad_line"
        done = await call(wire, "session/repair", dry_run=False)
        await to_thread.run_sync(repaired, Path(done["backup"]))
        assert (await call(wire, "append", message=HI))["durability"] == "disk"


# The errno of the refusal to read it, and how it is made.
NO_FILES: dict[str, Callable[[Path], None]] = {
    "EISDIR": Path.mkdir,
    "EINVAL": os.mkfifo,
    # A link to itself, and one that leads nowhere.
    "ELOOP": partial(Path.symlink_to, target=NAME),
    "ENOENT": partial(Path.symlink_to, target="nowhere"),
}


@pytest.mark.parametrize("no_file", NO_FILES)
async def test_what_is_no_file_is_neither_read_nor_touched(
    real_house: House, place: Path, no_file: str
) -> None:
    place.unlink()
    NO_FILES[no_file](place)
    mode = (await to_thread.run_sync(place.lstat)).st_mode
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        for method, params in (
            ("session/verify", {}),
            ("session/repair", {}),
            ("session/repair", {"dry_run": False}),
            ("session/open", {}),
        ):
            told = await refused(wire, method, "{kind,errno}", session_id=SESSION, **params)
            assert told == ("storage_error", no_file), method
    assert (await to_thread.run_sync(place.lstat)).st_mode == mode


# -- files that stand beside each other ------------------------------------------------------


async def test_a_file_that_may_not_be_read_is_told_by_its_errno(house: House) -> None:
    # In memory: whoever runs the tests as root may read everything.
    path = house.put(GOOD + b"garbage\n")
    async with house.daemon() as daemon, daemon.connect() as wire:
        for method in ("session/verify", "session/repair"):
            house.disk.fail("open_read", errno=errno.EACCES)
            assert await refused(wire, method, "{errno,retryable}") == ("EACCES", False)
        assert house.disk.content(path) == GOOD + b"garbage\n"


async def test_of_two_files_with_one_id_the_older_name_is_the_session(house: House) -> None:
    path = house.put(GOOD + b"garbage\n")
    copy = path.with_name(path.name.replace("2026-01-01", "2026-01-02"))
    house.disk.put(copy, HEADER + ONE)
    async with house.daemon() as daemon, daemon.connect() as wire:
        listed = await wire.call("session/list")
        assert [one["id"] for one in listed["sessions"]] == [SESSION]
        assert [Path(one["path"]).name for one in listed["unreadable"]] == [copy.name]
        assert (await call(wire, "session/repair", dry_run=False))["kept"] == 3
        assert [house.disk.content(one) for one in (path, copy)] == [GOOD, HEADER + ONE]


async def test_beside_a_session_the_draft_of_its_id_is_not_it(house: House) -> None:
    path = house.put(GOOD)
    draft = house.layout.pending_path(SESSION)
    house.disk.put(draft, HEADER)
    async with house.daemon() as daemon, daemon.connect() as wire:
        info = (await call(wire, "session/get"))["session"]
        assert (info["path"], info["persisted"]) == (str(path), True)
        await call(wire, "session/delete")
        # Both go: what is deleted is not there again as a draft.
        gone = [one for one in house.disk.paths if one.parent == house.layout.trash]
        assert len(gone) == 2
        assert not house.disk.exists(draft)


def test_every_kind_happens_here_and_has_its_row() -> None:
    happened = {kind for damage in (*NATIVE.values(), *PI.values()) for _, kind in damage.problems}
    # Imports of other agents' sessions alone leave lines out (test_codex_imports), and in such sessions
    # alone the whole records of a damaged line are entries (test_damaged_agent_files).
    assert happened | {"long_line", "not_copied", "damaged_line"} == set(PROBLEM_KINDS)
    text = PAGE.read_text("utf-8")
    section = text[text.index("The kinds, all there are.") : text.index("## session/repair")]
    rows = re.findall(r"^\| (\w+) \| (?!what it is)", section, re.MULTILINE)
    assert sorted(rows) == sorted(PROBLEM_KINDS)


def test_zero_bytes_are_called_so(tmp_path: Path) -> None:
    for case in ("zero bytes in a line", "zero bytes at the end"):
        path = tmp_path / "session.jsonl"
        path.write_bytes(NATIVE[case].content)
        (problem,) = verify_file(Files(), path).problems
        assert "power loss" in problem.detail
