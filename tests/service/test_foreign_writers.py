"""Programs that do not know sessiond write to the file of an open session."""

from __future__ import annotations

import errno
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sessiond.journal.journal import Journal
from sessiond.journal.store import Found
from sessiond.limits import OVERTAKEN_MAX
from sessiond.service.log.open_session import OpenSession
from sessiond.testing.daemon import Wire
from tests.kit.calls import call, refused_answer, session_info, watch
from tests.kit.house import House, arrived
from tests.kit.limits import set_limits
from tests.kit.sessions import SESSION

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]

IDS = "entries[].{seq,entry.id}"
HEADERS = {
    "native": b'{"type":"session_header","version":1,"id":"session-a","timestamp":"2026-01-15T10:30:00.000Z","cwd":"/p"}\n',
    "pi": b'{"type":"session","version":3,"id":"session-a","timestamp":"2026-01-15T10:30:00.000Z","cwd":"/p"}\n',
}


def message_of(dialect: str, text: str = "x") -> dict[str, Any]:
    message: dict[str, Any] = {"role": "user", "content": text}
    return message if dialect == "native" else {**message, "timestamp": 1}


def line(dialect: str, entry_id: str, parent_id: str | None) -> bytes:
    """Return a line as a program of this dialect writes it."""
    parent = "parent_id" if dialect == "native" else "parentId"
    entry = {
        "type": "message",
        "id": entry_id,
        parent: parent_id,
        "timestamp": "2026-01-15T11:00:00.000Z",
        "message": message_of(dialect),
    }
    return json.dumps(entry).encode() + b"\n"


def begun(house: House, dialect: str) -> Path:
    """Make a session of two entries."""
    lines = [
        HEADERS[dialect],
        line(dialect, "aaaaaaa1", None),
        line(dialect, "aaaaaaa2", "aaaaaaa1"),
    ]
    return house.put(b"".join(lines))


async def event(wire: Wire) -> dict[str, Any]:
    """Return the next event: its seq, the id of its entry, and whether the entry is foreign."""
    told = await wire.next_notification()
    assert told["method"] == "session/event", told
    params = told["params"]
    origin = params.get("origin", {})
    return {
        "seq": params["seq"],
        "id": params["entry"]["id"],
        "leaf": params.get("leaf_id"),
        "external": origin.get("external", False),
    }


async def after_a_restart(house: House) -> list[tuple[int, str]]:
    async with house.daemon() as daemon, daemon.connect() as wire:
        info = await session_info(wire)
        assert not info["read_only"]
        found: list[tuple[int, str]] = await call(wire, "session/entries", IDS)
        return found


# -- what an append meets ------------------------------------------------------------------------


async def test_what_others_wrote_is_made_into_events_only_for_subscribers(
    house: House, dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    events_of = OpenSession.events_of

    def counted(opened: OpenSession, found: Sequence[Found], first: int) -> Any:
        made.append(first)
        return events_of(opened, found, first)

    monkeypatch.setattr(OpenSession, "events_of", counted)
    path = begun(house, dialect)
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as watcher:
        await session_info(wire)
        house.disk.write_as_another(path, line(dialect, "bbbbbbb1", "aaaaaaa1"))
        await call(wire, "append", message=message_of(dialect, "ours"))
        assert made == []
        await watch(watcher)
        house.disk.write_as_another(path, line(dialect, "bbbbbbb2", "bbbbbbb1"))
        await call(wire, "append", message=message_of(dialect, "ours"))
        assert made == [5]
        assert (await event(watcher))["id"] == "bbbbbbb2"
        assert [seq for seq, _ in await call(wire, "session/entries", IDS)] == [1, 2, 3, 4, 5, 6]


async def test_what_others_wrote_comes_first_and_the_append_stands_on_it(
    house: House, dialect: str
) -> None:
    path = begun(house, dialect)
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as watcher:
        await watch(watcher)
        house.disk.write_as_another(path, line(dialect, "bbbbbbb1", "aaaaaaa1"))
        answer = await call(wire, "append", message=message_of(dialect, "ours"))
        assert (answer["seq"], answer["entries"][0]["parent_id"]) == (4, "bbbbbbb1")
        assert await event(watcher) == {
            "seq": 3,
            "id": "bbbbbbb1",
            "leaf": "bbbbbbb1",
            "external": True,
        }
        assert (await event(watcher))["external"] is False
        live = await call(wire, "session/entries", IDS)
    assert await after_a_restart(house) == live


async def test_lines_that_land_between_the_look_and_the_write_get_their_seqs_first(
    house: House, dialect: str
) -> None:
    path = begun(house, dialect)
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as watcher:
        await watch(watcher)
        theirs = line(dialect, "bbbbbbb1", "aaaaaaa2") + line(dialect, "bbbbbbb2", "bbbbbbb1")
        house.disk.land(path, theirs)
        expected = {"leaf_id": "aaaaaaa2", "seq": 2}
        message = message_of(dialect, "ours")
        answer = await call(wire, "append", message=message, expected=expected)
        # It was made without knowing of them, and says where it came to be.
        assert (answer["seq"], answer["entries"][0]["seq"]) == (5, 5)
        assert answer["entries"][0]["parent_id"] == "aaaaaaa2"
        assert [(await event(watcher))["id"] for _ in range(2)] == ["bbbbbbb1", "bbbbbbb2"]
        ours = await event(watcher)
        assert (ours["seq"], ours["id"], ours["external"]) == (5, answer["leaf_id"], False)
        assert (await call(wire, "append", message=message_of(dialect, "ours")))["seq"] == 6
        for seq, entry_id in enumerate(("bbbbbbb1", "bbbbbbb2", answer["leaf_id"]), 3):
            # Read where each one stands in the file.
            one = await call(wire, "session/entry", entry_id=entry_id)
            assert (one["seq"], one["entry"]["id"]) == (seq, entry_id)
        live = await call(wire, "session/entries", IDS)
    assert await after_a_restart(house) == live


async def test_refusals_of_a_batch_that_came_later_name_the_right_lines(house: House) -> None:
    path = begun(house, "native")
    real = house.disk.write

    def busy(fd: int, data: bytes | memoryview) -> int:
        if b"cccccccc" in bytes(data):
            house.disk.land(path, line("native", "bbbbbbb1", "aaaaaaa2"))
        return real(fd, data)

    house.disk.write = busy  # type: ignore[method-assign]
    async with house.daemon() as daemon, daemon.connect() as wire:
        message = message_of("native")
        with house.disk.hold("write") as gate:
            # The first holds the writer up, so that the others are one batch.
            first = await wire.request("append", session_id=SESSION, message=message)
            await arrived(gate)
            entry = {"type": "message", "id": "cccccccc", "message": message}
            second = await wire.request("append", session_id=SESSION, entry=entry)
            conflict = {**entry, "message": message_of("native", "another")}
            third = await wire.request("append", session_id=SESSION, entry=conflict)
            moved = await wire.request(
                "append", session_id=SESSION, message=message, expected={"leaf_id": "aaaaaaa2"}
            )
            named = await wire.request(
                "session/label", session_id=SESSION, entry_id="cccccccc", label="l"
            )
            await wire.call("server/ping")
        await wire.answer(first)
        seqs = [(await wire.answer(second))["seq"]]
        for number, member in ((third, "stored_seq"), (moved, "actual.seq")):
            seqs.append(await refused_answer(wire, number, member))
        seqs.append((await wire.answer(named))["seq"])
        assert seqs == [5, 5, 5, 6]


async def test_an_append_that_was_glued_to_half_a_line_is_stored_once_and_whole(
    house: House, dialect: str
) -> None:
    path = begun(house, dialect)
    theirs = line(dialect, "bbbbbbb1", "aaaaaaa2")
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as watcher:
        await watch(watcher)
        house.disk.land(path, theirs[:30])
        entries = [{"type": "message", "message": message_of(dialect, "ours")} for _ in range(2)]
        answer = await call(wire, "append", entries=entries)
        content = house.disk.content(path)
        # The half, closed with blanks; the place of our second line; both of ours, whole.
        assert [row["seq"] for row in answer["entries"]] == [5, 6]
        assert content.count(b"ours") == 2
        assert theirs[:30] + b" " in content
        assert [(await event(watcher))["seq"] for _ in range(2)] == [5, 6]
        info = await session_info(wire)
        assert (info["seq"], info["problems"], info["read_only"]) == (6, 1, False)
        live = await call(wire, "session/entries", IDS)
    assert await after_a_restart(house) == live


async def test_half_a_line_that_is_whole_but_for_its_newline_is_whole(
    house: House, dialect: str
) -> None:
    path = begun(house, dialect)
    async with house.daemon() as daemon, daemon.connect() as wire:
        await call(wire, "append", message=message_of(dialect, "ours"))
        house.disk.write_as_another(path, line(dialect, "bbbbbbb1", "aaaaaaa2")[:-1])
        answer = await call(wire, "append", message=message_of(dialect, "ours"))
        assert (answer["seq"], answer["entries"][0]["parent_id"]) == (5, "bbbbbbb1")
        info = await session_info(wire)
        assert info["problems"] == 0
        live = await call(wire, "session/entries", IDS)
    assert await after_a_restart(house) == live


async def test_an_append_waits_for_half_a_line_until_it_is_whole(
    house: House, dialect: str
) -> None:
    path = begun(house, dialect)
    theirs = line(dialect, "bbbbbbb1", "aaaaaaa2")
    async with house.daemon() as daemon, daemon.connect() as wire:
        await call(wire, "append", message=message_of(dialect, "ours"))
        house.disk.write_as_another(path, theirs[:30])
        waiting = await wire.request("append", session_id=SESSION, message=message_of(dialect))
        with house.disk.hold("stat") as looking:
            await arrived(looking)
            house.disk.write_as_another(path, theirs[30:])
        answer = await wire.answer(waiting)
        assert (answer["seq"], answer["entries"][0]["parent_id"]) == (5, "bbbbbbb1")
        assert theirs in house.disk.content(path)
        live = await call(wire, "session/entries", IDS)
    assert await after_a_restart(house) == live


@pytest.mark.parametrize("grows", [False, True])
async def test_nobody_waits_for_half_a_line_for_long(
    house: House, dialect: str, monkeypatch: pytest.MonkeyPatch, grows: bool
) -> None:
    set_limits(
        monkeypatch,
        HALF_LINE_SECONDS=30.0 if grows else 0.1,
        HALF_LINE_WAIT_SECONDS=0.1 if grows else 30.0,
    )
    path = begun(house, dialect)
    async with house.daemon() as daemon, daemon.connect() as wire:
        await call(wire, "append", message=message_of(dialect, "ours"))
        house.disk.write_as_another(path, b'{"type":"message","id":"bbb')
        assert (await call(wire, "append", message=message_of(dialect, "ours")))["seq"] == 5
        # What comes too late is a line that is none, and no damage either.
        house.disk.write_as_another(path, b'bbbb1"}\n')
        assert (await call(wire, "append", message=message_of(dialect, "ours")))["seq"] == 7
        info = await session_info(wire)
        assert (info["problems"], info["read_only"]) == (2, False)
        live = await call(wire, "session/entries", IDS)
    assert await after_a_restart(house) == live


async def test_no_look_closes_half_a_line_however_old(
    house: House, dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, HALF_LINE_SECONDS=0.0)
    path = begun(house, dialect)
    async with house.daemon() as daemon, daemon.connect() as wire:
        await watch(wire)
        house.disk.write_as_another(path, b'{"half')
        left, writes = house.disk.content(path), house.disk.counts["write"]
        actor = daemon.service.find(SESSION)
        assert actor is not None
        for _ in range(3):
            await actor.writer.look()
            await call(wire, "session/entries", IDS)
        assert actor.opened.journal.half_bytes == len(b'{"half')
        assert (house.disk.content(path), house.disk.counts["write"]) == (left, writes)
        await call(wire, "append", message=message_of(dialect, "ours"))
    assert house.disk.content(path).startswith(left + b" \n{")


async def test_who_writes_without_end_does_not_keep_an_append_from_being_stored(
    house: House, dialect: str
) -> None:
    path = begun(house, dialect)
    numbers = iter(range(1_000_000))
    real = house.disk.stat

    def busy(name: Path) -> Any:
        if name == path:
            house.disk.write_as_another(path, line(dialect, f"b{next(numbers):07}", "aaaaaaa2"))
        return real(name)

    async with house.daemon() as daemon, daemon.connect() as wire:
        await call(wire, "session/get")
        house.disk.__dict__["stat"] = busy
        answer = await call(wire, "append", message=message_of(dialect, "ours"))
        del house.disk.__dict__["stat"]
        live = await call(wire, "session/entries", IDS)
        assert (answer["seq"], answer["leaf_id"]) in live
    assert await after_a_restart(house) == live


@pytest.mark.parametrize("labels", [OVERTAKEN_MAX - 1, OVERTAKEN_MAX])
async def test_expected_guards_until_others_were_first_too_often(house: House, labels: int) -> None:
    path = begun(house, "native")
    label = b'{"type":"label","id":"b%d","parent_id":"aaaaaaa2","timestamp":"","target_id":"aaaaaaa1","label":"l"}\n'
    # One line for each look. A label moves no head; the last line moves main.
    theirs = [*(label % n for n in range(labels)), line("native", "bbbbbbb1", "aaaaaaa2")]
    real = house.disk.stat

    def busy(name: Path) -> Any:
        if name == path and theirs:
            house.disk.write_as_another(path, theirs.pop(0))
        return real(name)

    async with house.daemon() as daemon, daemon.connect() as wire:
        await call(wire, "session/get")
        house.disk.__dict__["stat"] = busy
        params = {"message": message_of("native"), "expected": {"leaf_id": "aaaaaaa2"}}
        if labels < OVERTAKEN_MAX:
            refusal = await wire.refusal("append", session_id=SESSION, **params)
            assert refusal.data["missed"] == ["bbbbbbb1"]
        else:
            answer = await call(wire, "append", **params)
            assert answer["seq"] == labels + 4
            assert answer["entries"][0]["parent_id"] == "aaaaaaa2"
        assert theirs == []


@pytest.mark.parametrize("refused", [False, True])
async def test_what_lands_between_the_pieces_of_a_write_is_an_event_and_no_damage(
    house: House, dialect: str, *, refused: bool
) -> None:
    path = begun(house, dialect)
    real = house.disk.write

    def write(fd: int, data: bytes | memoryview) -> int:
        if b"cccccccc" not in bytes(data):
            return real(fd, data)
        del house.disk.__dict__["write"]
        written = real(fd, data[:40])
        house.disk.write_as_another(path, line(dialect, "bbbbbbb1", "aaaaaaa2"))
        if refused:
            house.disk.fail("write", errno=errno.ENOSPC)
        return written

    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as watcher:
        await watch(watcher)
        house.disk.write = write  # type: ignore[method-assign]
        entry = {"type": "message", "id": "cccccccc", "message": message_of(dialect, "ours")}
        if refused:
            told = await wire.refusal("append", session_id=SESSION, entry=entry)
            assert told.data["errno"] == "ENOSPC"
        answer = await call(wire, "append", entry=entry)
        assert answer["duplicate"] is False
        assert [(await event(watcher))["id"] for _ in range(2)] == ["bbbbbbb1", "cccccccc"]
        info = await session_info(wire)
        assert (info["problems"], info["read_only"]) == (0, False)
        assert house.disk.content(path).count(b"cccccccc") == 1
        live = await call(wire, "session/entries", IDS)
    assert await after_a_restart(house) == live


# -- more than is taken in at a time --------------------------------------------------------------


@pytest.fixture
def pieces(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Little is taken in at a time; how many lines each time."""
    set_limits(monkeypatch, INTAKE_BYTES=500)
    taken: list[int] = []
    real = Journal.take_found

    def take_found(journal: Journal) -> list[Found]:
        found = real(journal)
        taken.append(len(found))
        return found

    monkeypatch.setattr(Journal, "take_found", take_found)
    return taken


def many(dialect: str, first: int, count: int) -> bytes:
    return b"".join(line(dialect, f"b{n:07}", "aaaaaaa2") for n in range(first, first + count))


async def test_much_that_others_wrote_is_taken_in_by_pieces_each_line_once_and_in_order(
    house: House, dialect: str, pieces: list[int]
) -> None:
    path = begun(house, dialect)
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as watcher:
        await watch(watcher)
        house.disk.write_as_another(path, many(dialect, 0, 40))
        # More of it comes while the first is taken in, and so do appends.
        with house.disk.hold("fdatasync") as gate:
            asked = [
                await wire.request("append", session_id=SESSION, message=message_of(dialect))
                for _ in range(3)
            ]
            await arrived(gate)
            house.disk.write_as_another(path, many(dialect, 40, 20))
        answers = [await wire.answer(number) for number in asked]
        heard = [await event(watcher) for _ in range(63)]
        live = await call(wire, "session/entries", IDS)
        assert [(one["seq"], one["id"]) for one in heard] == live[2:]
        assert [one["id"] for one in heard if one["external"]] == [f"b{n:07}" for n in range(60)]
        assert [(one["seq"], one["leaf_id"]) for one in answers] == [
            (one["seq"], one["id"]) for one in heard if not one["external"]
        ]
        assert max(pieces) <= 4
    assert await after_a_restart(house) == live


async def test_a_line_that_is_longer_than_a_piece_is_one_line(
    house: House, dialect: str, pieces: list[int]
) -> None:
    path = begun(house, dialect)
    long = line(dialect, "bbbbbbb1", "aaaaaaa2").replace(b'"x"', b'"' + b"x" * 5000 + b'"')
    async with house.daemon() as daemon, daemon.connect() as wire:
        await call(wire, "session/get")
        house.disk.write_as_another(path, long + many(dialect, 0, 5))
        assert (await call(wire, "append", message=message_of(dialect, "ours")))["seq"] == 9
        live = await call(wire, "session/entries", IDS)
        assert [entry_id for _, entry_id in live[2:4]] == ["bbbbbbb1", "b0000000"]
        assert max(pieces) <= 5
    assert await after_a_restart(house) == live


async def test_who_writes_faster_than_can_be_read_is_told_to_whoever_appends(
    house: House, dialect: str, pieces: list[int]
) -> None:
    path = begun(house, dialect)
    numbers = iter(range(0, 1_000_000, 10))
    real = house.disk.stat

    def busy(name: Path) -> Any:
        if name == path:
            house.disk.write_as_another(path, many(dialect, next(numbers), 10))
        return real(name)

    async with house.daemon() as daemon, daemon.connect() as wire:
        await call(wire, "session/get")
        house.disk.__dict__["stat"] = busy
        entry = {"type": "message", "id": "cccccccc", "message": message_of(dialect, "ours")}
        refusal = await wire.refusal("append", session_id=SESSION, entry=entry)
        del house.disk.__dict__["stat"]
        assert (refusal.data["errno"], refusal.data["retryable"]) == ("EBUSY", True)
        assert b"cccccccc" not in house.disk.content(path)
        answer = await call(wire, "append", entry=entry)
        assert answer["duplicate"] is False
        stored = house.disk.content(path).split(b"\n")
        assert len(stored) - 2 == answer["seq"]
        assert b"cccccccc" in stored[-2]
        assert max(pieces) <= 4


async def test_an_id_that_a_foreign_line_has_is_not_given_again(house: House) -> None:
    path = begun(house, "native")
    async with house.daemon() as daemon, daemon.connect() as wire:
        await call(wire, "session/get")
        house.disk.write_as_another(path, line("native", "e1", "aaaaaaa2"))
        answer = await call(wire, "append", message=message_of("native", "ours"))
        assert (answer["duplicate"], answer["leaf_id"]) == (False, "e2")


async def test_expected_does_not_hold_once_others_have_written(house: House, dialect: str) -> None:
    path = begun(house, dialect)
    async with house.daemon() as daemon, daemon.connect() as wire:
        await call(wire, "session/get")
        house.disk.write_as_another(path, line(dialect, "bbbbbbb1", "aaaaaaa1"))
        refusal = await wire.refusal(
            "append",
            session_id=SESSION,
            message=message_of(dialect),
            expected={"leaf_id": "aaaaaaa2"},
        )
        assert (refusal.data["kind"], refusal.data["missed"]) == (
            "precondition_failed",
            ["bbbbbbb1"],
        )


async def test_lines_of_an_append_that_is_not_whole_are_told_and_make_no_whole_one(
    house: House,
) -> None:
    path = begun(house, "native")
    entries = [{"type": "message", "message": message_of("native")} for _ in range(3)]
    async with house.daemon() as daemon, daemon.connect() as wire:
        await call(wire, "session/get")
        first, second = (
            line("native", f"ccccccc{n}", None)[:-2] + b',"atom":[%d,3]}\n' % n for n in (1, 2)
        )
        house.disk.write_as_another(path, first + second)
        answer = await call(wire, "append", entries=entries)
        assert [row["seq"] for row in answer["entries"]] == [5, 6, 7]
        live = await session_info(wire)
    async with house.daemon() as daemon, daemon.connect() as wire:
        again = await session_info(wire)
    for info in (live, again):
        assert (info["seq"], info["problems"], info["read_only"]) == (7, 1, False)
