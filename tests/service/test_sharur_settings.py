"""Settings of sharur's sessions: its figures hold in its files, and what a session sets itself is kept there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from sessiond.config.configuration import Configuration
from sessiond.model.settings import CompactionSettings
from sessiond.service.policies import Policies
from sessiond.testing.daemon import Refusal
from sessiond.testing.wire import Wire
from tests.kit.calls import call
from tests.kit.house import House, put_sample
from tests.kit.readers.sharur import load
from tests.kit.roots import add_root
from tests.service.test_sharur_files import uid
from tests.service.test_sharur_in_place import agrees, user

pytestmark = pytest.mark.parametrize("anyio_backend", ["asyncio"], scope="session")

Json = Any
SAMPLES = {"operator": 8_192, "pi": 16_384, "piglet": 16_384, "sharur": 2_048}
OURS = {"enabled": True, "reserve_tokens": 1000, "keep_recent_tokens": 3000}
THEIRS = {"enabled": True, "reserveTokens": 1000, "keepRecentTokens": 3000}


def stated(house: House, name: str, **members: Json) -> Path:
    """Put a sample on the disk, with more members in its first line; return its path."""
    path = put_sample(house, name)
    first, _, rest = house.disk.content(path).partition(b"\n")
    house.disk.put(path, json.dumps(json.loads(first) | members).encode() + b"\n" + rest)
    return path


async def settings(wire: Wire, session_id: str) -> tuple[Json, Json]:
    session = await call(wire, "session/get", "session", session_id=session_id)
    return session["compaction"], session["dry_run"]


@pytest.mark.parametrize(("program", "reserve"), SAMPLES.items())
async def test_the_figures_of_a_program_hold_in_its_own_files(
    house: House, program: str, reserve: int
) -> None:
    path = put_sample(house, program)
    usual = Policies(Configuration().compaction.settings())
    house.environment = replace(house.environment, policies=usual)
    async with house.daemon() as daemon, daemon.connect() as wire:
        own = await call(wire, "session/open", "session.id", path=str(path))
        usage = await wire.call("session/usage", session_id=own)
        assert usage["reserve"] == reserve
        window = usage["tokens"] + reserve
        for more, is_full in ((0, False), (-1, usage["tokens"] > 0 and program != "piglet")):
            asked = {"session_id": own, "context_window": window + more}
            assert (await wire.call("session/usage", **asked))["should_compact"] is is_full
    # What a user has configured for all sessions comes first.
    policies = Policies(CompactionSettings(reserve_tokens=7))
    house.environment = replace(house.environment, policies=policies)
    async with house.daemon() as daemon, daemon.connect() as wire:
        own = await call(wire, "session/open", "session.id", path=str(path))
        assert (await wire.call("session/usage", session_id=own))["reserve"] == 7


async def test_what_is_kept_of_a_file_of_sharur_is_at_least_8192_tokens(house: House) -> None:
    path = put_sample(house, "sharur-branch")
    async with house.daemon() as daemon, daemon.connect() as wire:
        own = await call(wire, "session/open", "session.id", path=str(path))
        # Each message has 1200 tokens by sharur's estimate.
        for _ in range(20):
            await wire.call("session/append", session_id=own, message=user("x" * 4000))
        rows = await call(wire, "session/path", "entries", session_id=own)
        plan = await call(wire, "session/plan_compaction", "plan", session_id=own)
        ids = [row["entry"]["id"] for row in rows]
        assert len(ids) - ids.index(plan["first_kept_entry_id"]) == 7
        assert 6 * 1200 < 8192 <= 7 * 1200


async def test_settings_are_kept_in_sharurs_file_and_sharur_reads_it(house: House) -> None:
    path = put_sample(house, "sharur")
    title = "Fix the retry bug in client.go"
    async with house.daemon() as daemon, daemon.connect() as wire:
        own = await call(wire, "session/open", "session.id", path=str(path))
        before = house.disk.content(path)
        changed = {"compaction": OURS, "dry_run": True, "system_prompt": "Be <brief>."}
        session = await call(wire, "session/update", "session", session_id=own, **changed)
        assert {name: session[name] for name in changed} == changed
        assert session["title"] == title
        assert (await wire.call("session/usage", session_id=own))["reserve"] == 1000
        data = house.disk.content(path)
        assert data.startswith(before)
        stored = json.loads(data.splitlines()[-1])
        assert (stored["compaction"], stored["dryRun"]) == (THEIRS, True)
        assert (stored["systemPrompt"], stored["name"]) == ("Be <brief>.", title)
        assert load(data).name == title
        await agrees(wire, own, load(data))
        # A later name leaves the settings as they are, and null clears one.
        await wire.call("session/update", session_id=own, title="Other")
        assert await settings(wire, own) == (OURS, True)
        await wire.call("session/update", session_id=own, compaction=None)
        assert await settings(wire, own) == (None, True)
        assert load(house.disk.content(path)).name == "Other"
        with pytest.raises(Refusal, match="dry_run and system_prompt"):
            await wire.call("session/update", session_id=own, tags=["x"])
        key = {"session_id": own, "idempotency_key": "once"}
        once = {"entry": {"type": "session_info", "dry_run": False}, **key}
        assert not (await wire.call("session/append", **once))["duplicate"]
        assert (await wire.call("session/append", **once))["duplicate"]
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await settings(wire, own) == (None, False)
        session = await call(wire, "session/get", "session", session_id=own)
        assert (session["system_prompt"], session["title"]) == ("Be <brief>.", "Other")


@pytest.mark.parametrize("name", ["sharur", "sharur-branch", "sharur-legacy-kind"])
async def test_settings_in_the_first_line_are_read_and_kept_by_copies(
    house: House, name: str
) -> None:
    path = stated(house, name, compaction=THEIRS, dryRun=True)
    async with house.daemon() as daemon, daemon.connect() as wire:
        own = await call(wire, "session/open", "session.id", path=str(path))
        assert await settings(wire, own) == (OURS, True)
        other = await call(wire, "session/create", "session.id", cwd="/p")
        merged = {"other_session_id": other, "text": "both", "into": "new"}
        asked: list[tuple[str, Json]] = [
            *(("session/fork", {"entries": one}) for one in ("path", "all", "context", "none")),
            ("session/rebase", {"indices": [0]}),
            ("session/merge", merged),
            ("session/fork", {"dialect": "native"}),
        ]
        for method, params in asked:
            made = await wire.call(method, session_id=own, **params)
            assert await settings(wire, made["session"]["id"]) == (OURS, True), (method, params)
            if params.get("dialect") is None:
                first = house.disk.content(Path(made["session"]["path"])).splitlines()[0]
                assert json.loads(first)["compaction"] == THEIRS
        # Back into sharur's format, and to where an import of it goes.
        made = await wire.call(
            "session/fork", session_id=made["session"]["id"], dialect="sharur", entries="all"
        )
        assert await settings(wire, made["session"]["id"]) == (OURS, True)
        assert not any("facts" in note for note in made.get("notes", ()))
        content = (await wire.call("session/export", session_id=own, format="sharur"))["content"]
        made = await wire.call("session/import", content=content)
        assert await settings(wire, made["session"]["id"]) == (OURS, True)


async def test_a_fork_has_the_settings_of_the_session_also_behind_older_ones_on_its_path(
    house: House,
) -> None:
    path = put_sample(house, "sharur")
    async with house.daemon() as daemon, daemon.connect() as wire:
        own = await call(wire, "session/open", "session.id", path=str(path))
        await wire.call("session/update", session_id=own, compaction={"reserve_tokens": 1})
        await wire.call("session/append", session_id=own, message=user("more"))
        at = await call(wire, "session/get", "session.leaf_id", session_id=own)
        await wire.call("session/branch", session_id=own, entry_id=uid(3))
        await wire.call("session/update", session_id=own, compaction=OURS, dry_run=True)
        made = await call(wire, "session/fork", "session", session_id=own, at=at)
        assert await settings(wire, made["id"]) == (OURS, True)
        theirs = load(house.disk.content(Path(made["path"])))
        assert theirs.name == made["title"] == "Fix the retry bug in client.go"


async def test_a_session_in_a_root_of_sharur_begins_with_its_settings(
    real_house: House, tmp_path: Path
) -> None:
    root = (tmp_path / "root").resolve()
    root.mkdir()
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root, "sharur")
        given = {"compaction": OURS, "dry_run": False, "title": "T"}
        params = {"cwd": "/p", "root": str(root), "persist": "immediate"}
        made = await call(wire, "session/create", "session", **params, **given)
        first = json.loads(Path(made["path"]).read_text())
        assert (first["compaction"], first["dryRun"]) == (THEIRS, False)
        assert await settings(wire, made["id"]) == (OURS, False)
        await wire.call("session/update", session_id=made["id"], dry_run=True)
        session = await call(wire, "session/get", "session", session_id=made["id"])
        assert (session["title"], session["dry_run"]) == ("T", True)
        assert load(Path(made["path"]).read_bytes()).name == "T"
        made = await call(wire, "session/create", "session", **params, compaction={})
        assert made["compaction"] == {}
