"""Foreign or copied lines of an append with several entries: served, also after a restart."""

from __future__ import annotations

import json

import pytest

from sessiond.journal import repair
from sessiond.service.external.watcher import PollingWatcher
from sessiond.testing.daemon import Wire
from tests.kit.calls import call, create, session_info, watch
from tests.kit.house import House
from tests.kit.sessions import SESSION
from tests.service.damage import GOOD, HEADER, copied, line, part

pytestmark = pytest.mark.both_loops

OTHER = "session-b"
# Changed files are reported soon.
LOOK_SECONDS = 0.01
UNMARKED = line(b"u1", b'"n2"', b',"atom":[1,2]')
FOREIGN = {
    "a line that says nothing of its session": UNMARKED,
    "a line of another session": copied(1),
    "two lines of another session": copied(1) + copied(2),
    "a copied line whose id is known": part(1).replace(b"a3-1", b"n1"),
    "a copied line whose parent is not here": part(1).replace(b'"n2"', b'"nowhere"'),
}


async def state(wire: Wire) -> tuple[list[tuple[int, str]], int, str]:
    """Return the entries, the number of problems, and the epoch."""
    rows = await call(wire, "session/entries", "entries[].{seq,entry.id}")
    info = await session_info(wire)
    assert not info["read_only"]
    return rows, info["problems"], info["epoch"]


async def resumes(wire: Wire, rows: list[tuple[int, str]], epoch: str) -> None:
    """Check that a cursor behind the last entry is accepted and that no event is repeated."""
    seq, entry_id = rows[-1]
    cursor = {"seq": seq, "entry_id": entry_id, "epoch": epoch}
    assert "replaced" not in await watch(wire, after=cursor)
    assert (await wire.next_notification())["method"] == "session/synced"


async def heard(wire: Wire) -> tuple[int, str]:
    """Return seq and id of the next event of a foreign line."""
    told = await wire.next_notification()
    assert (told["method"], told["params"]["origin"]) == ("session/event", {"external": True})
    return told["params"]["seq"], told["params"]["entry"]["id"]


@pytest.mark.parametrize("foreign", FOREIGN)
async def test_a_foreign_part_of_an_append_that_was_served_stays_after_a_restart(
    house: House, foreign: str
) -> None:
    path = house.put(GOOD)
    watcher = PollingWatcher(house.files, LOOK_SECONDS)
    async with house.daemon(watcher) as daemon, daemon.connect() as wire:
        await watch(wire)
        house.disk.write_as_another(path, FOREIGN[foreign])
        events = [await heard(wire) for _ in FOREIGN[foreign].splitlines()]
        live = await state(wire)
        assert live[0][2:] == events
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await state(wire) == live
        await resumes(wire, live[0], live[2])
    assert house.disk.content(path) == GOOD + FOREIGN[foreign]


async def test_a_line_that_tail_copied_out_of_another_session_is_served_alike_by_every_daemon(
    house: House,
) -> None:
    path = house.put(GOOD)
    watcher = PollingWatcher(house.files, LOOK_SECONDS)
    async with house.daemon(watcher) as daemon, daemon.connect() as wire:
        await create(wire, OTHER, persist="immediate")
        entries = [{"type": "message", "message": {"role": "user"}} for _ in range(2)]
        await wire.call("append", session_id=OTHER, entries=entries)
        (other,) = (one for one in house.session_files() if one != path)
        first = house.disk.content(other).splitlines(keepends=True)[1]
        await watch(wire)
        house.disk.write_as_another(path, first)
        assert await heard(wire) == (3, json.loads(first)["id"])
        live = await state(wire)
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await state(wire) == live
        await resumes(wire, live[0], live[2])
        # What follows shows that the other line will not come.
        await call(wire, "append", message={"role": "user"})
        problems = (await state(wire))[1]
        assert problems == live[1] + 1
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert (await state(wire))[1] == problems


async def test_a_foreign_append_that_comes_in_two_pieces_is_whole_now_and_after_a_restart(
    house: House,
) -> None:
    path = house.put(GOOD)
    watcher = PollingWatcher(house.files, LOOK_SECONDS)
    async with house.daemon(watcher) as daemon, daemon.connect() as wire:
        await watch(wire)
        for number in (1, 2):
            house.disk.write_as_another(path, copied(number, 2))
            await heard(wire)
        live = await state(wire)
        assert live[1] == 0
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await state(wire) == live


async def test_lines_of_this_session_that_come_back_out_of_a_copy_of_its_file_are_not_cut(
    house: House,
) -> None:
    path = house.put(GOOD)
    watcher = PollingWatcher(house.files, LOOK_SECONDS)
    async with house.daemon(watcher) as daemon, daemon.connect() as wire:
        await watch(wire)
        # A copy of the file went on by itself, and a part of its last append was copied back.
        house.disk.write_as_another(path, part(1))
        assert await heard(wire) == (3, "a3-1")
        live = await state(wire)
    async with house.daemon() as daemon, daemon.connect() as wire:
        rows, _, epoch = await state(wire)
        assert (rows, epoch) == (live[0], live[2])
        await resumes(wire, live[0], live[2])


async def test_copied_lines_of_this_session_with_half_a_line_behind_them_wait_for_its_end(
    house: House,
) -> None:
    path = house.put(GOOD)
    watcher = PollingWatcher(house.files, LOOK_SECONDS)
    async with house.daemon(watcher) as daemon, daemon.connect() as wire:
        await watch(wire)
        house.disk.write_as_another(path, part(1) + part(2)[:30])
        assert await heard(wire) == (3, "a3-1")
        actor = daemon.service.find(SESSION)
        assert actor is not None
        await actor.writer.look()
        assert house.disk.content(path) == GOOD + part(1) + part(2)[:30]
        house.disk.write_as_another(path, part(2)[30:])
        assert await heard(wire) == (4, "a3-2")
        rows = (await state(wire))[0]
    # At a newline the append is ended, so that no opening takes it for a torn one.
    assert house.disk.content(path) == GOOD + part(1) + part(2) + b" \n"
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert (await state(wire))[0] == rows


async def test_copied_lines_of_this_session_that_a_look_splits_are_not_ended_between(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = house.put(GOOD)
    lines = b"".join(map(part, (1, 2, 3)))
    # A look takes one line.
    monkeypatch.setattr(repair, "INTAKE_BYTES", 1)
    watcher = PollingWatcher(house.files, LOOK_SECONDS)
    async with house.daemon(watcher) as daemon, daemon.connect() as wire:
        await watch(wire)
        house.disk.write_as_another(path, lines)
        assert [await heard(wire) for _ in range(3)] == [(3, "a3-1"), (4, "a3-2"), (5, "a3-3")]
        assert (await state(wire))[1] == 0
    assert house.disk.content(path) == GOOD + lines


@pytest.mark.parametrize("listed", [False, True])
async def test_half_an_append_of_a_killed_daemon_never_was_also_in_lists_and_searches(
    house: House, *, listed: bool
) -> None:
    path = house.put(GOOD)
    async with house.daemon() as daemon, daemon.connect() as wire:
        rows, *_ = await state(wire)
        entries = [
            {"type": "message", "message": {"role": "assistant", "content": "never"}}
            for _ in range(3)
        ]
        await call(wire, "append", entries=entries)
    house.disk.put(path, b"".join(house.disk.content(path).splitlines(keepends=True)[:5]))
    async with house.daemon() as daemon, daemon.connect() as wire:
        if listed:
            (found,) = (await wire.call("session/list"))["sessions"]
            assert (found["seq"], found["message_count"]) == (2, 2)
            assert (await wire.call("session/search", query="never"))["hits"] == []
        seen, problems, _ = await state(wire)
        assert (seen, problems) == (rows, 1)
        await call(wire, "session/label", entry_id="n1", label="x")
    assert house.disk.content(path).startswith(GOOD + b'{"type":"label"')


async def test_a_list_that_looked_first_costs_no_epoch_where_half_an_append_is_cut(
    house: House,
) -> None:
    path = house.put(GOOD)
    async with house.daemon() as daemon, daemon.connect() as wire:
        await wire.call("session/list")
        rows, _, epoch = await state(wire)
    house.disk.write_as_another(path, part(1))
    async with house.daemon() as daemon, daemon.connect() as wire:
        await wire.call("session/list")
        seen, _, same = await state(wire)
        assert (seen, same) == (rows, epoch)
        await resumes(wire, rows, epoch)
        await call(wire, "session/label", entry_id="n1", label="x")
    assert house.disk.content(path).startswith(GOOD + b'{"type":"label"')


async def test_a_repair_leaves_a_foreign_part_of_an_append_where_it_is(house: House) -> None:
    path = house.put(HEADER + b"garbage\n" + GOOD[len(HEADER) :] + copied(1))
    async with house.daemon() as daemon, daemon.connect() as wire:
        done = await call(wire, "session/repair", dry_run=False)
        assert done["dropped_lines"] == [2]
    assert house.disk.content(path) == GOOD + copied(1)


@pytest.mark.parametrize("nested", [False, True])
async def test_a_client_may_not_say_whose_append_an_entry_is(house: House, *, nested: bool) -> None:
    house.put(GOOD)
    kind = "x.own" if nested else "message"
    entry = {"type": kind, "message": {"role": "user"}, "atom_of": SESSION}
    async with house.daemon() as daemon, daemon.connect() as wire:
        refused = await wire.refusal("append", session_id=SESSION, entry=entry)
        assert (refused.code, refused.data["path"]) == (-32602, "entry.atom_of")
