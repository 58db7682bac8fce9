"""Verify and repair: every kind of damage is told, and what is good is kept byte for byte."""

from __future__ import annotations

import errno
from contextlib import suppress
from pathlib import Path

import pytest

from sessiond.errors import SessionCorrupt, StorageError
from sessiond.journal.disk.files import Files
from sessiond.journal.profile.lock import owned
from sessiond.limits import LATE_LINE_SECONDS, LATE_LINES_WAIT_SECONDS, PROBLEMS_MAX
from sessiond.service.files.checking.verifying import verify_file
from sessiond.testing.daemon import Refusal
from tests.kit.calls import call, create, refused
from tests.kit.house import House, arrived
from tests.kit.sessions import HI, SESSION
from tests.service.damage import GOOD, HEADER, NATIVE, ONE, PI_HEADER, Damage, line

LATE = (
    b'{"type":"message","id":"late","parent_id":null,"timestamp":"2026-01-15T11:00:00.000Z",'
    b'"message":{"role":"user","content":"hi"}}\n'
)


# Whatever has a header can be repaired, were it only that there is nothing to do.
DAMAGE = {case: damage for case, damage in NATIVE.items() if damage.opens != "refused"}


def repaired(damage: Damage) -> bytes:
    """Return the file that a repair makes."""
    if damage.repaired is not None:
        return damage.repaired
    lines = [text + b"\n" for text in damage.content.removesuffix(b"\n").split(b"\n")]
    kept = b"".join(text for number, text in enumerate(lines, 1) if number not in damage.dropped)
    return kept if kept.endswith(b"\n") else kept + b"\n"


@pytest.mark.parametrize("case", DAMAGE)
async def test_a_repair_keeps_every_good_line_byte_for_byte_and_the_old_file_in_the_trash(
    house: House, case: str
) -> None:
    content, dropped = DAMAGE[case].content, DAMAGE[case].dropped
    path = house.put(content)
    async with house.daemon() as daemon, daemon.connect() as wire:
        done = await call(wire, "session/repair", dry_run=False)
        assert (done["dry_run"], done["repaired"], done["dropped_lines"]) == (
            False,
            DAMAGE[case].is_repairable,
            dropped,
        )
        if not DAMAGE[case].is_repairable:
            assert house.disk.content(path) == content
            assert done["backup"] is None
            return
        assert house.disk.content(path) == repaired(DAMAGE[case])
        backup = Path(done["backup"])
        assert house.disk.content(backup) == content
        assert backup.parent == house.layout.trash
        assert backup.name.startswith(f"{path.name}.before-repair-")
        assert not (await call(wire, "session/verify"))["repairable"]
        assert (await call(wire, "append", message=HI))["durability"] == "disk"
        # Once more: there is nothing left to do.
        again = await call(wire, "session/repair", dry_run=False)
        assert (again["repaired"], again["backup"]) == (False, None)
    # Purging the session, should it ever be deleted, takes the copy too.
    async with house.daemon() as daemon, daemon.connect() as wire:
        await call(wire, "session/delete")
        await call(wire, "session/purge")
        assert [p for p in house.disk.paths if SESSION in p.name] == []
    assert house.disk.open_descriptors == 0


async def test_who_watches_comes_back_and_is_told_that_the_file_is_another(house: House) -> None:
    house.put(HEADER + ONE + b"garbage\n" + line(b"n2", b'"n1"'))
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as watcher:
        seen = await call(watcher, "subscribe")
        assert await refused(wire, "append", message=HI) == "session_corrupt"
        await call(wire, "session/repair", dry_run=False)
        told = await watcher.next_notification()
        assert (told["method"], told["params"]["reason"]) == ("session/closed", "repaired")
        for cursor in ({"epoch": seen["epoch"]}, {"entry_id": "n2"}):
            answer = await call(watcher, "subscribe", after={"seq": 2, **cursor})
            assert answer["epoch"] != seen["epoch"]
            # What lies at that line now is what was seen there, or it is said that it is not.
            assert answer.get("replaced") == ("epoch" if "epoch" in cursor else None)
        answer = await call(watcher, "subscribe", after={"seq": 3, "entry_id": "n2"})
        assert answer["replaced"] == "ahead"
        assert (await call(wire, "append", message=HI))["seq"] == 3


async def test_the_epoch_is_another_even_where_nobody_had_seen_the_damage(house: House) -> None:
    path = house.put(GOOD)
    async with house.daemon() as daemon, daemon.connect() as wire:
        epoch = await call(wire, "session/get", "session.epoch")
        await call(wire, "session/close")
        house.disk.put(path, GOOD + b"garbage\n")
        await call(wire, "session/repair", dry_run=False)
        assert await call(wire, "session/get", "session.epoch") != epoch


@pytest.mark.parametrize("after", [False, True])
async def test_what_others_write_while_it_is_repaired_is_in_the_new_file(
    house: House, monkeypatch: pytest.MonkeyPatch, *, after: bool
) -> None:
    path = house.put(NATIVE["bad lines"].content)
    rename = house.disk.rename

    def renamed(old: Path, new: Path) -> None:
        if new == path and not after:
            house.disk.write_as_another(path, LATE)
        rename(old, new)
        if new == path and after:
            # Whoever has the old file open goes on with it for a moment.
            (backup,) = [one for one in house.disk.paths if ".before-repair-" in one.name]
            house.disk.write_as_another(backup, LATE)

    monkeypatch.setattr(house.disk, "rename", renamed)
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert (await call(wire, "session/repair", dry_run=False))["repaired"]
        assert house.disk.content(path).count(LATE) == 1
        assert (await call(wire, "session/entry", entry_id="late"))["entry"]["id"] == "late"


@pytest.mark.parametrize("pauses", [1, 2, 5])
async def test_what_a_program_writes_late_into_the_old_file_is_in_the_new_one(
    house: House, monkeypatch: pytest.MonkeyPatch, pauses: int
) -> None:
    path = house.put(NATIVE["bad lines"].content)
    late = [line(b"late%d" % number, b"null") for number in range(pauses)]
    written: list[bytes] = []

    def pause(_seconds: float) -> None:
        # The program had opened the file before the repair gave the name to another file.
        if len(written) < pauses:
            (backup,) = [one for one in house.disk.paths if ".before-repair-" in one.name]
            house.disk.write_as_another(backup, late[len(written)])
            written.append(late[len(written)])

    async with house.daemon() as daemon, daemon.connect() as wire:
        monkeypatch.setattr(house.disk, "pause", pause)
        assert (await call(wire, "session/repair", dry_run=False))["repaired"]
        assert written == late
        assert house.disk.content(path).endswith(b"".join(late))
        assert (await call(wire, "append", message=HI))["seq"] > 0


async def test_a_program_that_goes_on_in_the_old_file_does_not_hold_up_a_repair(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = house.put(NATIVE["bad lines"].content)
    paused = 0.0

    def pause(seconds: float) -> None:
        nonlocal paused
        paused += seconds
        (backup,) = [one for one in house.disk.paths if ".before-repair-" in one.name]
        house.disk.write_as_another(backup, LATE)

    async with house.daemon() as daemon, daemon.connect() as wire:
        monkeypatch.setattr(house.disk, "pause", pause)
        assert (await call(wire, "session/repair", dry_run=False))["repaired"]
        assert paused == pytest.approx(LATE_LINES_WAIT_SECONDS)
        assert house.disk.content(path).count(LATE) == LATE_LINES_WAIT_SECONDS / LATE_LINE_SECONDS


async def test_a_repair_without_need_disturbs_nobody(house: House) -> None:
    house.put(GOOD)
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as watcher:
        await call(watcher, "subscribe")
        assert not (await call(wire, "session/repair", dry_run=False))["repaired"]
        await call(wire, "append", message=HI)
        assert (await watcher.next_notification())["params"]["seq"] == 3


async def test_an_archived_session_is_repaired_where_it_lies(house: House) -> None:
    house.put(GOOD + b"garbage\n")
    async with house.daemon() as daemon, daemon.connect() as wire:
        await call(wire, "session/archive")
        assert (await call(wire, "session/repair", dry_run=False))["repaired"]
        info = (await call(wire, "session/get"))["session"]
        assert (info["archived"], info["read_only"]) == (True, False)


# -- what is not repaired --------------------------------------------------------------------


async def test_a_file_of_another_program_is_never_made_anew(house: House) -> None:
    path = house.put(PI_HEADER + b"garbage\n")
    async with house.daemon() as daemon, daemon.connect() as wire:
        found = await call(wire, "session/verify")
        assert [one["kind"] for one in found["problems"]] == ["bad_line"]
        assert (found["dialect"], found["repairable"], found["read_only"]) == ("pi", False, False)
        plan = await call(wire, "session/repair")
        assert (plan["dropped"], plan["kept"]) == (0, 2)
        assert "never made anew" in plan["reason"]
        refusal = await refused(wire, "session/repair", "{kind,line,repairable}", dry_run=False)
        assert refusal == ("session_corrupt", 2, False)
    assert house.disk.content(path) == PI_HEADER + b"garbage\n"


@pytest.mark.parametrize("content", [b"", b"garbage\n" + GOOD, HEADER[:-20], b"\n"])
@pytest.mark.parametrize("dry_run", [True, False])
async def test_without_a_header_verify_says_so_and_repair_what_to_do(
    house: House, content: bytes, *, dry_run: bool
) -> None:
    path = house.put(content)
    async with house.daemon() as daemon, daemon.connect() as wire:
        found = await call(wire, "session/verify")
        assert [(one["line"], one["kind"]) for one in found["problems"]] == [(1, "bad_header")]
        assert (found["ok"], found["dialect"], found["repairable"]) == (False, None, False)
        refusal = await wire.refusal("session/repair", session_id=SESSION, dry_run=dry_run)
        assert (refusal.data["kind"], refusal.data["repairable"]) == ("session_corrupt", False)
        assert "session/delete it" in refusal.message
    assert house.disk.content(path) == content


async def test_a_damaged_file_that_another_process_holds_is_looked_at_and_not_repaired(
    house: House,
) -> None:
    path = house.put(GOOD + b"garbage\n")
    async with house.daemon() as daemon, daemon.connect() as wire:
        with owned(house.disk, path, house.layout.locks):
            assert (await call(wire, "session/repair"))["dropped"] == 1
            refusal = await refused(wire, "session/repair", "{kind,retryable}", dry_run=False)
            assert refusal == ("session_locked", True)
            assert house.disk.content(path) == GOOD + b"garbage\n"
        assert (await call(wire, "session/repair", dry_run=False))["repaired"]


async def test_in_memory_there_is_nothing_to_verify_or_repair(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, persist="never")
        await call(wire, "append", message=HI)
        found = await call(wire, "session/verify")
        assert (found["ok"], found["lines"], found["entries"]) == (True, 2, 1)
        done = await call(wire, "session/repair", dry_run=False)
        assert (done["repaired"], done["kept"]) == (False, 2)
        assert (await call(wire, "append", message=HI))["seq"] == 2


async def test_a_read_client_may_look_and_not_repair(house: House) -> None:
    house.put(GOOD + b"garbage\n")
    async with house.daemon() as daemon, daemon.connect() as wire:
        await wire.call("initialize", access="read")
        assert (await call(wire, "session/repair"))["dropped"] == 1
        assert await refused(wire, "session/repair", dry_run=False) == "permission_denied"


# -- large, live, and without a daemon -------------------------------------------------------


async def test_only_the_first_problems_are_listed_and_all_are_counted(house: House) -> None:
    many = PROBLEMS_MAX + 7
    house.put(HEADER + b"garbage\n" * many + ONE)
    async with house.daemon() as daemon, daemon.connect() as wire:
        found = await call(wire, "session/verify")
        assert (len(found["problems"]), found["problem_count"]) == (PROBLEMS_MAX, many)
        done = await call(wire, "session/repair", dry_run=False)
        assert (len(done["dropped_lines"]), done["dropped"]) == (PROBLEMS_MAX, many)


async def test_progress_is_told_in_bytes(house: House) -> None:
    data = GOOD + line(b"big", b'"n2"', b',"x":"%s"' % (b"x" * 3_000_000))
    house.put(data)
    async with house.daemon() as daemon, daemon.connect() as wire:
        await call(wire, "session/verify", _meta={"progress_token": "t"})
        assert {one["method"] for one in wire.notifications} == {"$/progress"}
        first, *_, last = [one["params"]["value"] for one in wire.notifications]
        size = {"total": len(data), "unit": "bytes"}
        assert first == {"kind": "begin", "done": 0, **size}
        assert last == {"kind": "end", "done": len(data), **size}


async def test_an_append_that_is_being_written_is_no_damage(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await create(wire, persist="immediate")
        await call(wire, "append", message=HI)
        entries = [{"type": "message", "message": HI}] * 3
        with house.disk.hold("fdatasync") as gate:
            house.disk.write_bytes_max = 100
            number = await wire.request("append", session_id=SESSION, entries=entries)
            await arrived(gate)
            found = await call(other, "session/verify")
            assert (found["ok"], found["entries"]) == (True, 1)
            assert (await call(other, "session/repair", dry_run=False))["repaired"] is False
            gate.open.set()
            await wire.answer(number)
        assert (await call(other, "session/verify"))["entries"] == 4


@pytest.mark.parametrize("method", ["session/verify", "session/repair"])
async def test_a_line_counts_of_which_the_system_has_not_told(house: House, method: str) -> None:
    path = house.put(GOOD)
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert (await call(wire, "session/verify"))["ok"] is True
        assert (await call(wire, "session/get", "session.seq")) == 2
        house.disk.write_as_another(path, b"garbage\n")
        found = await call(wire, method)
        assert (found.get("ok", False), found.get("dropped_lines", [4])) == (False, [4])


async def test_verify_sees_what_its_own_connection_sent_before_it(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        await wire.request("append", session_id=SESSION, message=HI)
        assert (await call(wire, "session/verify"))["entries"] == 1


def test_a_file_is_verified_without_a_daemon(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    path.write_bytes(GOOD + b"garbage\n")
    found = verify_file(Files(), path)
    assert (found.ok, found.repairable, found.lines) == (False, True, 4)
    with pytest.raises(StorageError):
        verify_file(Files(), tmp_path)
    with pytest.raises(StorageError):
        verify_file(Files(), tmp_path / "nowhere")


# -- crashes ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "links",
    [
        pytest.param(True, id="linked"),
        pytest.param(False, id="no hard links", marks=pytest.mark.slow),
    ],
)
async def test_whatever_call_of_a_repair_fails_the_old_file_or_the_new_one_is_there(
    house: House, *, links: bool
) -> None:
    content = GOOD + b"garbage\n" + line(b"n4", b'"n2"')
    new = repaired(Damage(content, dropped=[4]))
    nth, failed = 0, True
    while failed:
        nth += 1
        house.files = type(house.disk)(house.home)
        path = house.put(content)
        async with house.daemon() as daemon, daemon.connect() as wire:
            if not links:
                house.disk.fail("link", errno=errno.EPERM)
            fault = house.disk.fail(None, nth=nth)
            with suppress(Refusal):
                await call(wire, "session/repair", dry_run=False)
            failed = fault.hit
            house.disk.heal()
            for names in range(8):
                left = house.disk.crash(names=names)
                assert left.content(path) in {content, new}, (nth, names)
                if left.content(path) == new:
                    backups = [p for p in left.paths if ".before-repair-" in p.name]
                    assert content in [left.content(p) for p in backups]
            # Repeated, it is done; and what is stored then outlives any crash.
            await call(wire, "session/repair", dry_run=False)
            assert house.disk.content(path) == new
            await call(wire, "append", message=HI)
            assert house.disk.crash().content(path).startswith(new)
            assert house.disk.crash().content(path).count(b"\n") == 5
        assert house.disk.open_descriptors == 0
    assert nth > 15


def test_the_errors_of_a_path_name_it(tmp_path: Path) -> None:
    path = tmp_path / "new.jsonl"
    header = b'{"type":"session","version":%d,"id":"x","timestamp":"2026-01-15T10:30:00.000Z","cwd":"/"}\n'
    path.write_bytes(header % 4)
    found = verify_file(Files(), path)
    assert [one.kind for one in found.problems] == ["bad_header"]
    assert "new.jsonl, line 1" in found.problems[0].detail
    assert "version 4" in found.problems[0].detail
    assert SessionCorrupt.kind == "session_corrupt"
    # A file of an older version is whole, and is not written to.
    path.write_bytes(header % 2)
    found = verify_file(Files(), path)
    assert (found.problems, found.read_only, found.repairable) == ([], True, False)
