"""A source without a bound costs its own sessions only, and is named."""

from __future__ import annotations

from collections import deque
from pathlib import Path

import pytest
import zstandard

from sessiond.errors import TooLarge
from sessiond.journal.disk.files import Files
from sessiond.limits import AGENT_LIST_LINES
from sessiond.service.sources.agents.sampling import HeldFile
from sessiond.service.sources.agents.sources import open_sample, open_source
from tests.kit.agent_roots import CLAUDE, claude_line, claude_root
from tests.kit.calls import call, create, refused
from tests.kit.house import House
from tests.kit.limits import set_limits
from tests.kit.opencode import ENDLESS, database
from tests.kit.roots import add_root, ids
from tests.kit.sessions import HI, SESSION


async def test_a_database_without_an_end_is_named_and_stops_no_other_session(
    real_house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, OPENCODE_ROWS_BYTES_MAX=50_000)
    endless, claude = tmp_path / "opencode", claude_root(tmp_path)
    endless.mkdir()
    path = database(endless / "opencode.db", sql=ENDLESS)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, endless, "opencode")
        await add_root(wire, claude)
        await create(wire, SESSION, persist="immediate")
        await call(wire, "append", message=HI)
        listed = await wire.call("session/list")
        assert {CLAUDE.format(1), SESSION} < {one["id"] for one in listed["sessions"]}
        (unread,) = listed["unreadable"]
        assert unread["path"] == str(path.resolve())
        assert "more rows than sessiond reads at once" in unread["reason"]
        found = await wire.call("session/search", query="ping")
        assert found["hits"]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("filler", [b"\n", b" \r\n", b"x\n"])
def test_a_list_looks_at_few_lines_of_a_large_file(
    filler: bytes, packed: bool, tmp_path: Path
) -> None:
    first, last = (claude_line(f"u-{at}", None, f"words {at}") for at in range(2))
    content = first + filler * 1_000_000 + last
    path = tmp_path / "rollout.jsonl"
    path.write_bytes(zstandard.compress(content) if packed else content)
    sample, is_part = open_sample(HeldFile(Files(), path))
    lines: list[bytes] = []
    while more := sample.more():
        lines += more
    sample.close()
    assert is_part
    assert lines[0] + b"\n" == first
    assert packed or lines[-1] + b"\n" == last
    # The beginning is looked through in pieces.
    assert len(lines) <= (2 if filler.isspace() else 6 * 2 * AGENT_LIST_LINES)


def test_a_packed_file_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_limits(monkeypatch, IMPORT_BYTES_MAX=50_000)
    path = tmp_path / "rollout.jsonl"
    path.write_bytes(zstandard.compress(claude_line("u-1", None, "words") * 1000))
    source = open_source(Files(), path)
    with pytest.raises(TooLarge):
        deque(iter(source.more, []), maxlen=0)
    source.close()


async def test_lines_that_are_no_records_have_a_bound(
    real_house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, AGENT_STRAY_LINES_MAX=50)
    claude = claude_root(tmp_path)
    path = next(claude.rglob(f"{CLAUDE.format(1)}.jsonl"))
    other = CLAUDE.format(3)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, claude)
        before = await wire.call("session/build_context", session_id=other)
        with path.open("ab") as file:
            file.write(b"\n" * 60)
        refusal = await wire.refusal("session/build_context", session_id=CLAUDE.format(1))
        assert refusal.data["errno"] == "EFBIG"
        assert "more than 50 lines of it are no records" in refusal.message
        # Lists, searches and other sessions go on.
        assert CLAUDE.format(1) in await ids(wire)
        found = await wire.call("session/search", query="ping")
        assert CLAUDE.format(1) in {hit["session_id"] for hit in found["hits"]}, found
        assert await wire.call("session/build_context", session_id=other) == before


async def test_a_session_that_is_open_stays_served_beyond_the_bound(
    real_house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, AGENT_STRAY_LINES_MAX=50)
    claude = claude_root(tmp_path)
    session_id = CLAUDE.format(2)
    path = next(claude.rglob(f"{session_id}.jsonl"))
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, claude)
        await wire.call("subscribe", session_id=session_id)
        before = await wire.call("session/build_context", session_id=session_id)
        with path.open("ab") as file:
            file.write(b"\n" * 60)
        assert await refused(wire, "session/verify", "errno", session_id=session_id) == "EFBIG"
        assert await wire.call("session/build_context", session_id=session_id) == before
