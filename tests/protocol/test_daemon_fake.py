"""The daemon that tests run on is a daemon: it serves, drains, and its files stay."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from sessiond.rpc.framing import Framing
from sessiond.testing.daemon import NOW, Refusal, running_daemon
from tests.kit.calls import create

pytestmark = pytest.mark.both_loops


@pytest.mark.parametrize("framing", list(Framing))
async def test_a_daemon_in_a_test_serves_in_both_framings(home: Path, framing: Framing) -> None:
    async with running_daemon(home) as daemon, daemon.connect(framing) as wire:
        made = await wire.call("session/create", cwd="/p")
        assert (made["session"]["id"], made["session"]["created_at"]) == ("session-1", NOW)
        await wire.call("subscribe", session_id="session-1")
        answer = await wire.call("append", session_id="session-1", message={"role": "user"})
        assert answer["leaf_id"] == "e1"
        assert (await wire.next_notification())["params"]["entry"]["id"] == "e1"
        with pytest.raises(Refusal) as refused:
            await wire.call("no/such")
        assert refused.value.data["kind"] == "method_not_found"
        wire.end_input()
        with pytest.raises(anyio.EndOfStream):
            await wire.receive()


async def test_what_one_daemon_stored_the_next_one_on_the_same_home_reads(home: Path) -> None:
    async with running_daemon(home) as daemon, daemon.connect() as wire:
        await create(wire, "my-session")
        await wire.call("append", session_id="my-session", message={"role": "assistant"})
    async with running_daemon(home) as daemon, daemon.connect() as wire:
        listed = await wire.call("session/list")
        assert [session["id"] for session in listed["sessions"]] == ["my-session"]


async def test_server_stop_ends_a_daemon_in_a_test_too(home: Path) -> None:
    async with running_daemon(home) as daemon, daemon.connect() as wire:
        await wire.call("server/stop")
        assert (await wire.next_notification())["method"] == "server/draining"
        await daemon.ended.wait()


async def test_a_bug_that_was_met_is_raised_when_the_daemon_ends(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def meet_one() -> None:
        async with running_daemon(home) as daemon, daemon.connect() as wire:
            monkeypatch.setattr(daemon.service, "statistics", _fail)
            with pytest.raises(Refusal) as refused:
                await wire.call("server/stats")
            assert refused.value.data["kind"] == "internal"

    with pytest.raises(RuntimeError, match="a bug"):
        await meet_one()


def _fail() -> None:
    raise RuntimeError("a bug")
