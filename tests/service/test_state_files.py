"""Files of the state store: damaged ones are put aside, and a disk that fails changes nothing."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import msgspec
import pytest
from anyio import to_thread

from sessiond.journal.disk.files import Files
from sessiond.journal.profile.names import aside_name
from sessiond.testing.disk import FaultDisk
from tests.kit.calls import refused_answer
from tests.kit.house import House, arrived
from tests.kit.state import NS, a_document, document_path, put, put_document, values

STAMP = "2026-01-15T10-30-00-000000"


# -- damaged files ------------------------------------------------------------------------------


BAD = {
    "empty": b"",
    "no JSON": b'{"theme": "dark"',
    "not UTF-8": a_document().replace(b'"value": 1', b'"value": "\xff"'),
    "a list": b"[1, 2]",
    "plain JSON": b'{"theme": "dark"}',
    "of another namespace": a_document("other"),
    "without a number": a_document(revision=None),
    "with a revision ahead": a_document(revision=2),
    "with a bad key": a_document().replace(b'"a"', b'"../a"'),
    "with garbage behind": a_document() + b"\0\0\0",
    "of version 0": a_document(version=0),
}


@pytest.mark.parametrize("content", BAD.values(), ids=BAD)
async def test_a_file_that_is_no_document_is_put_aside_and_reported(
    house: House, content: bytes
) -> None:
    reports: list[str] = []
    house.environment = msgspec.structs.replace(house.environment, report_trouble=reports.append)
    path = put_document(house, content)
    put_document(house, a_document("fine"), "fine")
    for _ in range(2):
        async with house.daemon() as daemon, daemon.connect() as wire:
            listed = await wire.call("state/list")
            (aside,) = listed["aside"]
            assert aside["namespace"] == NS
            assert house.disk.content(Path(aside["path"])) == content
            assert await values(wire) in ({}, {"b": 1})
            assert (await wire.call("state/get", namespace="fine", key="a"))["value"] == 1
            await put(wire, "b", 1)
    (report,) = [text for text in reports if NS in text]
    assert str(path) in report
    assert "dark" not in report


async def test_a_document_of_a_newer_version_stays_and_is_not_written(house: House) -> None:
    path = put_document(house, newer := a_document(version=2, records=[]))
    async with house.daemon() as daemon, daemon.connect() as wire:
        for method, more in (("state/get", {}), ("state/set", {"value": 1}), ("state/delete", {})):
            refused = await wire.refusal(method, namespace=NS, key="a", **more)
            assert (refused.data["kind"], refused.data["errno"]) == ("storage_error", "EINVAL")
        assert (await wire.call("state/list"))["namespaces"] == []
    assert house.disk.content(path) == newer


async def test_a_file_changed_by_another_program_is_put_aside_by_the_next_write(
    real_house: House,
) -> None:
    path = document_path(real_house)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await put(wire, "a", 1)
        await put(wire, "b", 2)
        path.write_bytes(b"theirs")
        await put(wire, "c", 3)
        (aside,) = (await wire.call("state/list"))["aside"]
        assert Path(aside["path"]).read_bytes() == b"theirs"
        path.unlink()
        await put(wire, "d", 4)
    assert set(json.loads(path.read_bytes())["records"]) == {"a", "b", "c", "d"}
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


async def test_two_files_of_one_time_are_put_aside_under_two_names(house: House) -> None:
    path = put_document(house, b"one")
    # The stamps of the next daemon are counted from 0.
    taken = aside_name(path, STAMP, 1)
    house.disk.put(taken, b"earlier")
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert len((await wire.call("state/list"))["aside"]) == 2
    assert house.disk.content(taken) == b"earlier"


# -- a disk that fails --------------------------------------------------------------------------


async def test_a_full_disk_refuses_and_changes_nothing(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await put(wire, "a", 1)
        await other.call("state/subscribe")
        before = house.disk.content(document_path(house))
        house.disk.capacity = 0
        for method, more in (("state/set", {"value": 2}), ("state/delete", {})):
            refused = await wire.refusal(method, namespace=NS, key="a", **more)
            assert (refused.data["kind"], refused.data["errno"]) == ("storage_error", "ENOSPC")
            assert refused.data["retryable"]
        assert await values(wire) == {"a": 1}
        assert house.disk.content(document_path(house)) == before
        assert [path.name for path in house.disk.paths if path.parent == house.layout.state] == [
            f"{NS}.json"
        ]
        house.disk.heal()
        await put(wire, "a", 2)
        assert (await other.next_notification())["params"]["change"] == "set"


async def test_a_batch_that_the_disk_refuses_answers_each_call_by_itself(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        first = await put(wire, "a", 1)
        with house.disk.hold("fsync") as gate:
            busy = await wire.request("state/set", namespace=NS, key="busy", value=1)
            await arrived(gate)
            asked = [
                await wire.request("state/set", namespace=NS, key="b", value=2),
                await wire.request("state/get", namespace=NS, key="b"),
                await wire.request(
                    "state/set", namespace=NS, key="a", value=2, expected_revision=first + 99
                ),
                await wire.request("state/delete", namespace=NS, key="c"),
            ]
            await wire.call("server/ping")
            house.disk.fail("rename", nth=2, errno=errno.EIO)
        await wire.answer(busy)
        assert await refused_answer(wire, asked[0]) == "storage_error"
        assert (await wire.answer(asked[1]))["revision"] == 0
        assert await refused_answer(wire, asked[2]) == "revision_mismatch"
        assert (await wire.answer(asked[3]))["deleted"] is False


async def test_a_namespace_that_could_not_be_read_is_read_again_when_it_is_used(
    house: House,
) -> None:
    put_document(house, a_document())
    fault = house.disk.fail("pread", errno=errno.EIO)
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert fault.hit
        house.disk.fail("pread", errno=errno.EIO)
        refused = await wire.refusal("state/set", namespace=NS, key="b", value=2)
        assert refused.data["errno"] == "EIO"
        assert await values(wire) == {"a": 1}
        await put(wire, "b", 2)


async def test_a_folder_that_cannot_be_listed_hides_no_value(house: House) -> None:
    put_document(house, a_document())
    probe = Probe(house.disk, house.layout.state)
    one = House(house.home, probe)
    probe.fails = True
    async with one.daemon() as daemon, daemon.connect() as wire:
        for _ in range(2):
            refused = await wire.refusal("state/get", namespace=NS, key="a")
            assert refused.data["errno"] == "EIO"
            refused = await wire.refusal("state/list")
            assert refused.data["errno"] == "EIO"
        probe.fails = False
        assert await values(wire) == {"a": 1}
        assert await put(wire, "b", 2) > 3


class Probe(FaultDisk):
    """A disk that cannot list one folder."""

    def __init__(self, disk: FaultDisk, folder: Path) -> None:
        super().__init__()
        self.__dict__.update(disk.kill().__dict__)
        self.folder = folder
        self.fails = False

    def listdir(self, folder: Path) -> list[str]:
        if self.fails and folder == self.folder:
            raise OSError(errno.EIO, "input/output error")
        return super().listdir(folder)


async def test_what_a_killed_daemon_left_half_written_is_removed(real_house: House) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await put(wire, "a", 1)
    half = real_house.layout.state / f".sessiond-{'0' * 32}.new"
    half.write_bytes(b"half")
    found = await to_thread.run_sync(lambda: list(real_house.layout.half_made(Files())))
    assert found == [half]
