"""The access that calls need: every method with every access, and parameters that need more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sessiond.methods import METHODS
from sessiond.rpc.dispatch import Method
from sessiond.service.client import Client
from sessiond.testing.daemon import Refusal, running_daemon
from sessiond.testing.wire import Wire

RANK = {"status": 0, "read": 1, "write": 2}


async def refusal(wire: Wire, method: str, **params: Any) -> Refusal | None:
    try:
        await wire.call(method, **params)
    except Refusal as refused:
        return refused
    return None


@pytest.mark.parametrize("access", ["status", "read"])
async def test_what_an_access_does_not_allow_is_refused_by_every_name(
    home: Path, access: str
) -> None:
    beyond: list[Method[Client, Any]] = [
        method for method in METHODS if RANK[method.access] > RANK[access]
    ]
    assert beyond
    async with running_daemon(home) as daemon, daemon.connect() as wire:
        await wire.call("initialize", access=access)
        for method in beyond:
            for name in (method.name, *method.aliases):
                refused = await refusal(wire, name, session_id="not-there")
                assert refused is not None, f"{name} was carried out"
                assert refused.data["kind"] == "permission_denied", name
                assert refused.data["need"] == method.access


@pytest.mark.parametrize("access", ["status", "read", "write"])
async def test_what_an_access_allows_is_not_refused_for_it(home: Path, access: str) -> None:
    async with running_daemon(home) as daemon, daemon.connect() as wire:
        await wire.call("initialize", access=access)
        for method in METHODS:
            if RANK[method.access] > RANK[access] or method.name in {"exit", "server/stop"}:
                continue
            params = {"bodies": False} if method.name == "session/subscribe" else {}
            refused = await refusal(wire, method.name, **params)
            assert refused is None or refused.data["kind"] != "permission_denied", method.name
            if method.name == "initialize":
                await wire.call("initialize", access=access)


@pytest.mark.parametrize(
    ("access", "method", "params", "need"),
    [
        ("read", "session/open", {"session_id": "new-session", "create": True}, "write"),
        ("read", "session/export", {"session_id": "new-session", "path": "/a"}, "write"),
        ("status", "session/subscribe", {"session_id": "new-session"}, "read"),
        (
            "status",
            "session/subscribe",
            {"session_id": "new-session", "bodies": False, "signals": True},
            "read",
        ),
    ],
)
async def test_parameters_may_ask_for_more(
    home: Path, access: str, method: str, params: dict[str, Any], need: str
) -> None:
    async with running_daemon(home) as daemon, daemon.connect() as wire:
        await wire.call("initialize", access=access)
        refused = await refusal(wire, method, **params)
        assert refused is not None
        assert (refused.data["kind"], refused.data["need"]) == ("permission_denied", need)


@pytest.mark.parametrize(
    ("method", "params"),
    [("secret/get", {"namespace": "app", "key": "token"}), ("server/stop", {})],
)
async def test_only_a_client_that_may_write_learns_a_secret_or_ends_the_daemon(
    home: Path, method: str, params: dict[str, Any]
) -> None:
    async with running_daemon(home) as daemon:
        for access in ("status", "read", "write"):
            async with daemon.connect() as wire:
                await wire.call("initialize", access=access)
                refused = await refusal(wire, method, **params)
            if access == "write":
                assert refused is None
            else:
                assert refused is not None, f"{method} was carried out"
                told = (refused.data["kind"], refused.data["need"])
                assert told == ("permission_denied", "write")
