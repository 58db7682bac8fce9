"""Memory is never ahead of the disk, and failed requests change nothing, also after a reopening."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio.lowlevel
import msgspec
import pytest

from sessiond.session.draft import Draft
from sessiond.testing.daemon import Refusal, Wire
from sessiond.testing.disk import FaultDisk
from tests.kit.calls import append_all, create, refused, refused_answer
from tests.kit.house import House, arrived
from tests.kit.sessions import SESSION, entry

pytestmark = [pytest.mark.both_loops]

READS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("build_context", {}),
    ("session/entries", {"after_seq": 0}),
    ("session/path", {}),
    ("session/tree", {}),
    ("session/heads", {}),
    ("session/get", {}),
)


async def look(wire: Wire) -> bytes:
    """Return all that a session shows, as bytes to compare and to search."""
    shown: dict[str, Any] = {}
    for method, params in READS:
        shown[method] = await wire.call(method, session_id=SESSION, **params)
    shown["session/list"] = (await wire.call("session/list", drafts=True))["sessions"]
    for info in [shown["session/get"]["session"], *shown["session/list"]]:
        # These fields change when a draft is promoted, and say nothing about entries.
        del info["path"], info["persisted"], info["persist"]
    return msgspec.json.encode(shown)


async def start(wire: Wire, filled: bool) -> None:
    """Make a session without entries, or with entries and state of every kind."""
    await create(wire)
    if filled:
        await append_all(wire, entry("old1"), entry("old2", role="assistant"))
        await wire.call("session/label", session_id=SESSION, entry_id="old1", label="start")
        await wire.call("branch", session_id=SESSION, entry_id="old1", head="side")


# -- before it is durable ------------------------------------------------------------


async def test_nothing_shows_an_entry_before_it_is_durable(house: House) -> None:
    async with (
        house.daemon() as daemon,
        daemon.connect() as wire,
        daemon.connect() as watcher,
        daemon.connect() as other,
    ):
        await start(wire, filled=True)
        await watcher.call("subscribe", session_id=SESSION)
        before = await look(other)
        with house.disk.hold("fdatasync") as gate:
            asked = await wire.request("append", session_id=SESSION, entry=entry("new"))
            await arrived(gate)
            assert await look(other) == before
            for method, params in (
                ("session/entry", {"session_id": SESSION, "entry_id": "new"}),
                ("build_context", {"session_id": SESSION, "entry_id": "new"}),
                ("session/open", {"entry_id": "new"}),
            ):
                hidden = await refused(other, method, **params)
                assert hidden in {"entry_not_found", "session_not_found"}
            # A replay that starts now ends before it.
            again = await other.call("subscribe", session_id=SESSION, after={"seq": 0})
            assert again["seq"] == 4
            while (await other.next_notification())["method"] != "session/synced":
                pass
            await watcher.call("server/ping")
            assert watcher.notifications == []
        assert (await wire.answer(asked))["seq"] == 5
        assert (await watcher.next_notification())["params"]["entry"]["id"] == "new"
        assert (await other.next_notification())["params"]["entry"]["id"] == "new"
        assert b'"new"' in await look(other)


async def rest_on_it(wire: Wire) -> list[int]:
    """Return requests whose answers would show the entry "new"."""
    new = {"session_id": SESSION, "entry": entry("new")}
    return [
        await wire.request("append", **new),  # a duplicate
        await wire.request("append", **new | {"entry": entry("new", "other")}),  # a conflict
        await wire.request(
            "append", session_id=SESSION, message={"role": "user"}, expected={"leaf_id": None}
        ),
        await wire.request("branch", session_id=SESSION, entry_id="new", head="there"),
        await wire.request("session/label", session_id=SESSION, entry_id="new", label="x"),
    ]


async def test_what_is_stored_is_answered_and_there_although_a_bug_keeps_it_from_the_index(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    bug, commit = ZeroDivisionError(), Draft.commit

    def failing(_draft: Draft) -> None:
        monkeypatch.setattr(Draft, "commit", commit)
        raise bug

    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await start(wire, filled=True)
        monkeypatch.setattr(Draft, "commit", failing)
        said = {"role": "user", "content": "new"}
        receipt = await wire.call("append", session_id=SESSION, message=said)
        assert (receipt["seq"], receipt["durability"]) == (5, "disk")
        while not house.bugs:
            await anyio.lowlevel.checkpoint()
        # The bug has closed the session, which is read again.
        assert b'"new"' in await look(other)
        assert house.bugs == [bug]
        house.bugs.clear()


async def test_what_rests_on_an_entry_is_not_answered_before_it_is_durable(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await start(wire, filled=False)
        with house.disk.hold("fdatasync") as first, house.disk.hold("write") as writes:
            writes.open.set()
            blocker = await wire.request("append", session_id=SESSION, entry=entry("block"))
            await arrived(first)
            # One batch: the entry and what rests on it.
            asked = await wire.request("append", session_id=SESSION, entry=entry("new"))
            await wire.call("server/ping")
            resting = await rest_on_it(other)
            await other.call("server/ping")
            assert other.notifications == []
        await wire.answer(blocker)
        assert (await wire.answer(asked))["seq"] == 2
        assert (await other.answer(resting[0]))["duplicate"]
        assert await refused_answer(other, resting[1]) == "idempotency_conflict"
        stale = await refused_answer(other, resting[2], "actual")
        assert stale == {"leaf_id": "new", "seq": 2}
        assert (await other.answer(resting[3]))["leaf_id"] == "new"
        await other.answer(resting[4])


async def test_what_rests_on_an_entry_that_was_not_stored_is_a_storage_error_too(
    house: House,
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await start(wire, filled=False)
        with house.disk.hold("fdatasync") as gate:
            blocker = await wire.request("append", session_id=SESSION, entry=entry("block"))
            await arrived(gate)
            asked = await wire.request("append", session_id=SESSION, entry=entry("new"))
            await wire.call("server/ping")
            resting = await rest_on_it(other)
            await other.call("server/ping")
            # The sync that is held back is already counted: this is the next one.
            house.disk.fail("fdatasync")
        await wire.answer(blocker)
        for to, number in [(wire, asked), *((other, number) for number in resting)]:
            with pytest.raises(Refusal) as failed:
                await to.answer(number)
            assert (failed.value.code, failed.value.data["errno"]) == (-32060, "EIO")
        assert b'"new"' not in await look(other)
    assert [line["id"] for line in house.stored()[1:]] == ["block"]


# -- failures ----------------------------------------------------------------------------


async def test_a_failed_sync_fails_everyone_who_waited_and_a_retry_is_stored_once(
    house: House,
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await start(wire, filled=True)
        await other.call("subscribe", session_id=SESSION)
        before = await look(wire)
        with house.disk.hold("fdatasync") as gate:
            house.disk.fail("fdatasync", errno=28)
            first = await wire.request("append", session_id=SESSION, entry=entry("n0"))
            await arrived(gate)
        assert await refused_answer(wire, first, "") == {
            "kind": "storage_error",
            "retryable": True,
            "errno": "ENOSPC",
            "path": str(house.session_files()[0]),
        }
        assert await look(wire) == before
        answers = [await append_all(wire, entry("n0")), await append_all(wire, entry("n0"))]
        assert [answer["duplicate"] for answer in answers] == [False, True]
        assert answers[0]["entries"] == answers[1]["entries"]
        await other.call("server/ping")
        assert [event["params"]["entry"]["id"] for event in other.notifications] == ["n0"]
        after = await look(wire)
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await look(wire) == after
    assert [line["id"] for line in house.stored()].count("n0") == 1


FAULTS: dict[str, Callable[[FaultDisk], object]] = {
    "write": lambda disk: disk.fail("write", errno=5),
    "half a write": lambda disk: disk.fail("write", errno=28, partial=40),
    "all of a write": lambda disk: disk.fail("write", errno=5, partial=10_000),
    "sync": lambda disk: disk.fail("fdatasync", errno=5),
    "sync that kept half": lambda disk: disk.fail("fdatasync", errno=5, partial=40),
    "sync and the repair": lambda disk: (
        disk.fail("fdatasync", errno=5),
        disk.fail("truncate", errno=5),
    ),
}


@pytest.mark.parametrize("filled", [False, True], ids=["empty", "with entries"])
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_failed_append_changes_nothing_here_or_after_reopening(
    house: House, fault: str, filled: bool
) -> None:
    batch = [entry("n1"), entry("n2", role="assistant"), entry("n3")]
    async with house.daemon() as daemon, daemon.connect() as wire:
        await start(wire, filled)
        before = await look(wire)
        FAULTS[fault](house.disk)
        failed = await refused(wire, "append", "{kind,retryable}", entries=batch)
        assert failed == ("storage_error", True)
        assert await look(wire) == before
        house.disk.heal()
    # What a new daemon reads is what this one showed.
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await look(wire) == before
        retried = await append_all(wire, *batch)
        assert not retried["duplicate"]
        after = await look(wire)
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await look(wire) == after
        assert (await append_all(wire, *batch))["duplicate"]
    assert [line["id"] for line in house.stored()][-3:] == ["n1", "n2", "n3"]


@pytest.mark.parametrize("fault", FAULTS)
async def test_after_a_failed_append_the_same_daemon_takes_the_retry(
    house: House, fault: str
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await start(wire, filled=True)
        FAULTS[fault](house.disk)
        await refused(wire, "append", entry=entry("n1"))
        house.disk.heal()
        assert not (await append_all(wire, entry("n1")))["duplicate"]
        after = await look(wire)
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await look(wire) == after


BAD: dict[str, dict[str, Any]] = {
    "no role": {"type": "message", "id": "n2", "message": {"content": "x"}},
    "an unknown target": {"type": "label", "id": "n2", "target_id": "nowhere", "label": "x"},
    "a kept entry elsewhere": {
        "type": "compaction",
        "id": "n2",
        "summary": "s",
        "first_kept_entry_id": "nowhere",
    },
    "unguarded messages": {"type": "compaction", "id": "n2", "messages": []},
}


@pytest.mark.parametrize("filled", [False, True], ids=["empty", "with entries"])
@pytest.mark.parametrize("bad", BAD)
async def test_a_refused_entry_in_the_middle_of_an_atom_refuses_all_of_it(
    house: House, bad: str, filled: bool
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await start(wire, filled)
        before = await look(wire)
        entries = [entry("n1"), BAD[bad], entry("n3")]
        failed = await refused(wire, "append", entries=entries)
        assert failed in {"entry_invalid", "entry_not_found"}
        assert await look(wire) == before
        good = await append_all(wire, entry("n1"), entry("n2"), entry("n3"))
        assert [entry["id"] for entry in good["entries"]] == ["n1", "n2", "n3"]
        after = await look(wire)
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await look(wire) == after
    assert [line["atom"] for line in house.stored()[-3:]] == [[1, 3], [2, 3], [3, 3]]


async def test_an_id_that_a_caller_brings_is_given_to_no_other_entry_of_the_call(
    house: House,
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await start(wire, filled=False)
        unnamed = {"type": "message", "message": {"role": "user"}}
        # The next id that the daemon would give is e1.
        answer = await append_all(wire, unnamed, entry("e1"), unnamed)
        assert [entry["id"] for entry in answer["entries"]] == ["e2", "e1", "e3"]


async def test_a_refused_call_in_a_batch_leaves_the_others_of_the_batch_whole(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await start(wire, filled=False)
        with house.disk.hold("fdatasync") as gate:
            asked = [await wire.request("append", session_id=SESSION, entry=entry("a"))]
            await arrived(gate)
            calls = (
                [entry("b1"), entry("b2")],
                [entry("c1"), BAD["no role"]],
                [entry("d1")],
            )
            asked += [
                await wire.request("append", session_id=SESSION, entries=entries)
                for entries in calls
            ]
            await wire.call("server/ping")
        await wire.answer(asked[0])
        assert (await wire.answer(asked[1]))["seq"] == 3
        assert await refused_answer(wire, asked[2], "path") == "entries[1].message.role"
        last = await wire.answer(asked[3])
        assert last["entries"][0]["parent_id"] == "b2"
    assert [line["id"] for line in house.stored()[1:]] == ["a", "b1", "b2", "d1"]


async def test_a_retry_whose_stored_entry_cannot_be_read_fails_alone(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await start(wire, filled=True)
        actor = daemon.service.actor(SESSION)
        house.disk.fail("pread")
        assert await refused(wire, "append", entry=entry("old1")) == "storage_error"
        assert (await append_all(wire, entry("n1")))["seq"] == 5
        assert daemon.service.actor(SESSION) is actor


async def test_what_a_power_cut_leaves_is_what_was_acknowledged(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await start(wire, filled=True)
        shown = await look(wire)
        with house.disk.hold("fdatasync") as gate:
            asked = await wire.request("append", session_id=SESSION, entry=entry("lost"))
            await arrived(gate)
            left = house.disk.crash()
        await wire.answer(asked)
    house.files = left
    # The first daemon lived on and noted a later line; without its notes the epoch is new.
    house.environment = msgspec.structs.replace(house.environment, new_epoch=lambda: "epoch-1")
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await look(wire) == shown


async def test_durability_os_is_visible_at_once_and_said_so(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await start(wire, filled=False)
        syncs = house.disk.syncs
        first = await append_all(wire, entry("n1"), durability="os")
        assert (first["durability"], house.disk.syncs) == ("os", syncs)
        again = await append_all(wire, entry("n1"), durability="os")
        assert (again["durability"], house.disk.syncs) == ("os", syncs)
        assert (await append_all(wire, entry("n2")))["durability"] == "disk"
        # That sync covered both.
        again = await append_all(wire, entry("n1"))
        assert (again["durability"], house.disk.syncs) == ("disk", syncs + 1)


async def test_a_retry_that_asks_for_the_disk_brings_there_what_was_stored_without(
    house: House,
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await start(wire, filled=True)
        first = await append_all(wire, entry("n1"), entry("n2"), durability="os")
        syncs = house.disk.syncs
        again = await append_all(wire, entry("n1"), entry("n2"))
        assert (again["durability"], again["duplicate"]) == ("disk", True)
        assert (again["entries"], again["seq"]) == (first["entries"], first["seq"])
        assert house.disk.syncs == syncs + 1
        # What is synced is not synced again.
        assert (await append_all(wire, entry("n1"), entry("n2")))["durability"] == "disk"
        assert house.disk.syncs == syncs + 1
        shown = await wire.call("session/entries", session_id=SESSION)
        left = house.disk.crash()
    house.files = left
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await wire.call("session/entries", session_id=SESSION) == shown


async def test_retries_share_one_sync_and_are_not_answered_before_it(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await start(wire, filled=True)
        for entry_id in ("n1", "n2", "n3"):
            await append_all(wire, entry(entry_id), durability="os")
        syncs = house.disk.syncs
        with house.disk.hold("fdatasync") as gate:
            first = await wire.request("append", session_id=SESSION, entry=entry("n1"))
            await arrived(gate)
            asked = [
                await wire.request("append", session_id=SESSION, entry=entry(entry_id))
                for entry_id in ("n1", "n2", "n3")
            ]
            ping = await wire.request("server/ping")
            assert msgspec.json.decode(await wire.receive())["id"] == ping
        for number in [first, *asked]:
            answer = await wire.answer(number)
            assert (answer["durability"], answer["duplicate"]) == ("disk", True)
        assert house.disk.syncs == syncs + 1


async def test_a_retry_in_the_batch_of_its_entry_brings_both_to_the_disk(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await start(wire, filled=False)
        with house.disk.hold("fdatasync") as gate:
            await wire.request("append", session_id=SESSION, entry=entry("block"))
            await arrived(gate)
            asked = [
                await wire.request(
                    "append", session_id=SESSION, entry=entry("n1"), durability=durability
                )
                for durability in ("os", "disk")
            ]
            await wire.call("server/ping")
        answers = [await wire.answer(number) for number in asked]
        assert [answer["durability"] for answer in answers] == ["disk", "disk"]
        assert [answer["duplicate"] for answer in answers] == [False, True]
    house.files = house.disk.crash()
    assert [line["id"] for line in house.stored()[1:]] == ["block", "n1"]


async def test_a_retry_whose_sync_fails_is_refused_and_can_be_repeated(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await start(wire, filled=True)
        await append_all(wire, entry("n1"), durability="os")
        house.disk.fail("fdatasync")
        failed = await refused(wire, "append", "{kind,retryable}", entry=entry("n1"))
        assert failed == ("storage_error", True)
        again = await append_all(wire, entry("n1"))
        assert (again["durability"], again["duplicate"]) == ("disk", True)
        left = house.disk.crash()
    house.files = left
    assert [line["id"] for line in house.stored()].count("n1") == 1


async def test_a_retry_is_not_said_to_be_on_a_disk_that_has_lost_the_file(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await start(wire, filled=True)
        await append_all(wire, entry("n1"), durability="os")
        (path,) = house.session_files()
        kept = path.with_suffix(".kept")
        house.disk.rename(path, kept)
        assert await refused(wire, "append", "errno", entry=entry("n1")) == "ENOENT"
        house.disk.rename(kept, path)
        assert (await append_all(wire, entry("n1")))["durability"] == "disk"


async def test_entries_that_no_sync_covered_are_synced_when_the_session_is_closed(
    house: House,
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await start(wire, filled=False)
        await append_all(wire, entry("n1", role="assistant"), durability="os")
    house.files = house.disk.crash(names=100)
    assert [line["id"] for line in house.stored()[1:]] == ["n1"]
