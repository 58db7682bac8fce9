"""retention/run: what is old and unused goes to the trash, and nothing else."""

from __future__ import annotations

import errno
import os
from datetime import datetime
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread

from sessiond.config.configuration import Sources
from sessiond.daemon.reload import Tuning
from sessiond.daemon.retention_timer import keep_retaining
from sessiond.journal.profile.lock import owned
from sessiond.service.registry.registry import SessionRegistry
from sessiond.testing.daemon import Refusal, Wire
from tests.kit.calls import call, create, part_of, refused, say
from tests.kit.house import House, arrived
from tests.kit.limits import set_limits
from tests.kit.roots import ids
from tests.kit.sessions import HI, TIME, stored_message

PI = b'{"type":"session","version":3,"id":"session-p","timestamp":"2020-01-15T10:30:00.000Z","cwd":"/p"}\n'


def put(house: House, name: str, day: str, timestamp: str = TIME) -> Path:
    """Put a session whose file was written on this day; today is 2026-01-15."""
    path = house.put([stored_message("n1", None, "assistant", timestamp=timestamp)], name)
    house.disk.set_time(path, datetime.fromisoformat(f"{day}T10:30:00Z").timestamp())
    return path


async def run(wire: Wire, hours: float = 48, **more: Any) -> list[str]:
    answer = await wire.call("retention/run", max_age_hours=hours, **more)
    assert answer["dry_run"] is more.get("dry_run", True)
    return [one["id"] for one in answer["sessions"]]


async def test_what_is_older_goes_and_only_when_it_is_meant(house: House) -> None:
    put(house, "session-new", "2026-01-14")
    for name, day in (("session-old", "2026-01-13"), ("session-older", "2025-01-01")):
        put(house, name, day)
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await run(wire) == ["session-older"]
        assert await run(wire, 47.9) == ["session-older", "session-old"]
        assert house.trashed() == []
        assert await run(wire, 47.9, dry_run=False) == ["session-older", "session-old"]
        assert len(house.trashed()) == 2
        listed = await call(wire, "session/list", "sessions[].id")
        assert listed == ["session-new"]
        assert await run(wire, 47.9, dry_run=False) == []
        assert await run(wire, 1e12) == []


async def test_the_time_of_a_file_decides_and_not_what_entries_say_of_themselves(
    house: House,
) -> None:
    put(house, "session-old", "2025-01-01", timestamp="2033-01-01T00:00:00Z")
    put(house, "session-now", "2026-01-15", timestamp="2001-01-01T00:00:00Z")
    async with house.daemon() as daemon, daemon.connect() as wire:
        # Written two seconds ago, by a client that says otherwise.
        entry = {"type": "message", "timestamp": "2020-01-01T00:00:00Z", "message": HI}
        await create(wire, "session-a", persist="immediate")
        await wire.call("append", session_id="session-a", entry=entry)
        await wire.call("session/close", session_id="session-a")
        house.disk.seconds += 2
        assert await run(wire, 24) == ["session-old"]
        assert await run(wire, 24, dry_run=False) == ["session-old"]
        listed = await call(wire, "session/list", "sessions[].id")
        assert listed == ["session-a", "session-now"]
        # Nobody writes to them for a day.
        house.disk.seconds += 24 * 3600
        assert await run(wire, 24, dry_run=False) == ["session-now", "session-a"]


async def test_what_is_archived_watched_a_draft_or_anothers_stays(
    house: House, tmp_path: Path
) -> None:
    for name in ("session-arch", "session-seen", "session-idle"):
        put(house, name, "2025-01-01")
    foreign = tmp_path / "theirs.jsonl"
    house.disk.make_folder(tmp_path) if not house.disk.exists(tmp_path) else None
    house.disk.put(foreign, PI)
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as watcher:
        await wire.call("session/archive", session_id="session-arch")
        await watcher.call("subscribe", session_id="session-seen")
        await wire.call("session/get", session_id="session-idle")
        await create(wire, "session-draft")
        assert await run(wire, dry_run=False) == ["session-idle"]
        left = {path.name.split("_")[-1] for path in house.session_files()}
        assert left == {"session-seen.jsonl", "session-draft.jsonl"}
        assert house.disk.content(foreign) == PI


async def test_a_session_that_is_archived_since_it_was_listed_stays(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(house, "session-old", "2025-01-01")
    retired = SessionRegistry.retire
    async with house.daemon() as daemon, daemon.connect() as wire:
        # The list of the run was made before.
        late = daemon.service.registry

        def retire(registry: SessionRegistry, session_id: str, *args: Any) -> Any:
            assert registry is late
            path = house.session_files()[0]
            house.disk.rename(path, house.layout.archive / path.name)
            return retired(registry, session_id, *args)

        monkeypatch.setattr(SessionRegistry, "retire", retire)
        assert await run(wire, dry_run=False) == []
    assert house.trashed() == []


async def test_an_old_session_that_comes_back_from_the_archive_stays(house: House) -> None:
    path = put(house, "session-back", "2025-01-01")
    async with house.daemon() as daemon, daemon.connect() as wire:
        await wire.call("session/archive", session_id="session-back")
        await wire.call("session/unarchive", session_id="session-back")
        # A second time moves nothing, so the file's age stays.
        house.disk.seconds += 3600
        await wire.call("session/unarchive", session_id="session-back")
        await wire.call("session/close", session_id="session-back")
        assert await run(wire, 24, dry_run=False) == []
        assert await run(wire, 0.5, dry_run=False) == ["session-back"]
    assert not house.disk.exists(path)


async def test_what_cannot_go_is_told_and_the_others_go(house: House) -> None:
    held = put(house, "session-held", "2025-01-01")
    put(house, "session-free", "2025-01-02")
    async with house.daemon() as daemon, daemon.connect() as wire:
        with owned(house.disk, held, house.layout.locks):
            answer = await wire.call("retention/run", max_age_hours=48, dry_run=False)
        assert part_of(answer, "sessions[].id") == ["session-free"]
        failed = part_of(answer, "failed[].{session_id,kind}")
        assert failed == [("session-held", "session_locked")]
        house.disk.fail("rename", errno=errno.EROFS)
        answer = await wire.call("retention/run", max_age_hours=48, dry_run=False)
        assert part_of(answer, "failed[].kind") == ["storage_error"]


async def test_what_somebody_wrote_to_since_the_look_stays(house: House) -> None:
    put(house, "session-aa", "2025-01-01")
    busy = put(house, "session-bb", "2025-01-02")
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        with house.disk.hold("rename") as gate:
            number = await wire.request("retention/run", max_age_hours=48, dry_run=False)
            await arrived(gate)
            await say(other, session_id="session-bb")
            await other.call("session/close", session_id="session-bb")
            gate.open.set()
            answer = await wire.answer(number)
        assert part_of(answer, "sessions[].id") == ["session-aa"]
        assert house.disk.exists(busy)


@pytest.mark.parametrize("hours", [0, -1, "1", None])
async def test_an_age_is_a_number_above_zero(house: House, hours: Any) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        refusal = await refused(wire, "retention/run", "path", max_age_hours=hours)
        assert refusal == "max_age_hours"


async def test_a_read_client_may_look_and_not_do_it(house: House) -> None:
    put(house, "session-old", "2025-01-01")
    async with house.daemon() as daemon, daemon.connect() as wire:
        await wire.call("initialize", access="read")
        assert await run(wire) == ["session-old"]
        with pytest.raises(Refusal, match="permission_denied"):
            await run(wire, dry_run=False)
    assert house.trashed() == []


@pytest.mark.parametrize("preset", ["none", "nova"])
async def test_the_preset_of_nova_removes_what_is_a_day_old_by_itself_and_never_what_is_open(
    house: House, monkeypatch: pytest.MonkeyPatch, preset: str
) -> None:
    put(house, "session-new", "2026-01-15")
    for name in ("session-old", "session-watched"):
        put(house, name, "2026-01-13")
    set_limits(monkeypatch, CATALOG_FLUSH_SECONDS=0.0)
    sources = Sources({**os.environ, "SESSIOND_RETENTION_PRESET": preset})
    tuning = await to_thread.run_sync(Tuning, sources, 4096)
    async with (
        house.daemon() as daemon,
        daemon.connect() as wire,
        anyio.create_task_group() as tasks,
    ):
        tuning.govern(daemon.service)
        await wire.call("subscribe", session_id="session-watched")
        await wire.call("catalog/subscribe")
        tasks.start_soon(keep_retaining, daemon.service, tuning)
        kept = {"session-new", "session-watched"}
        if preset == "nova":
            told = (await wire.next_notification())["params"]
            assert (told["session_id"], told["change"]) == ("session-old", "deleted")
        else:
            await wire.call("server/ping")
            kept.add("session-old")
        assert await ids(wire) == sorted(kept)
        assert len(house.trashed()) == 3 - len(kept)
        tasks.cancel_scope.cancel()


async def test_the_preset_of_nova_holds_a_hundred_sessions_and_deletes_none_for_it(
    house: House,
) -> None:
    sources = Sources({**os.environ, "SESSIOND_RETENTION_PRESET": "nova"})
    tuning = await to_thread.run_sync(Tuning, sources, 4096)
    names = {f"session-{number:03}" for number in range(102)}
    async with house.daemon() as daemon, daemon.connect() as wire:
        tuning.govern(daemon.service)
        for name in sorted(names):
            await create(wire, name, persist="immediate")
        assert len((await wire.call("server/stats"))["sessions"]) == 100
        assert house.trashed() == []
        assert await ids(wire, limit=200) == sorted(names)
        assert await call(wire, "session/get", "session.seq", session_id="session-000") == 0
