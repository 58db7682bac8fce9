"""docs/clients.md: what the page tells authors of clients to send and to expect."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from sessiond.errors import ERRORS
from sessiond.methods import METHODS
from sessiond.schema.error_data import ERROR_DATA
from sessiond.testing.daemon import Daemon, running_daemon
from sessiond.testing.wire import Wire

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = (REPOSITORY / "docs" / "clients.md").read_text("utf-8")
NAMES = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", PAGE, flags=re.MULTILINE | re.DOTALL))
REQUESTS = [
    json.loads(block)
    for block in re.findall(r"^```json\n(.*?)\n```", PAGE, re.MULTILINE | re.DOTALL)
]
SHELL_REQUESTS = [json.loads(text) for text in re.findall(r"^echo '(.*?)' \|", PAGE, re.MULTILINE)]


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncGenerator[Daemon]:
    async with running_daemon(tmp_path) as daemon:
        yield daemon


def test_each_method_on_the_page_is_there() -> None:
    named = [name for name in NAMES if re.fullmatch(r"(session|catalog|server)/\w+", name)]
    told = {"session/event", "session/synced", "session/replaced", "session/lagged"}
    told |= {"session/closed", "server/draining"}
    assert set(named) - told <= {method.name for method in METHODS}
    assert len(named) > len(told)


def test_each_case_of_the_kit_on_the_page_is_there() -> None:
    cases = {path.stem for path in (REPOSITORY / "tests" / "conformance" / "cases").glob("*.json")}
    (proof,) = re.findall(r"^## 7\..*?^## 8\.", PAGE, re.MULTILINE | re.DOTALL)
    named = re.findall(r"`([a-z]+(?:-[a-z]+)+)`", proof)
    assert len(named) > 5
    assert set(named) <= cases


def test_what_the_table_says_of_errors_is_true() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("|")]
    (retried,) = [row for row in rows if row.startswith("| an error with `retryable: true`")]
    (decided,) = [row for row in rows if row.startswith("| `precondition_failed`")]
    by_kind = {error.kind: error for error in ERRORS}
    for row, is_retryable in ((retried, True), (decided, False)):
        kinds = [kind for kind in re.findall(r"`(\w+)`", row.split("|")[1]) if kind in by_kind]
        assert len(kinds) > 2
        for kind in kinds:
            assert by_kind[kind].retryable is is_retryable, kind


def test_the_members_of_errors_on_the_page_are_there() -> None:
    (row,) = [line for line in PAGE.splitlines() if line.startswith("| `precondition_failed`")]
    told = re.findall(r"that of `(\w+)` has ([^,|]+)|error of `(\w+)` has ([^,|]+)", row)
    named = {first or second: one or other for first, one, second, other in told}
    assert set(named) == set(re.findall(r"`(\w+)`", row.split("|")[1]))
    for kind, members in named.items():
        assert set(re.findall(r"`(\w+)`", members)) <= {
            one.rstrip("?") for one in ERROR_DATA[kind]
        }, kind


def test_the_cases_in_which_the_page_says_that_the_daemon_is_killed_kill_it() -> None:
    (said,) = re.findall(r"that also passes\s+(.*?), where the daemon is killed", PAGE, re.DOTALL)
    killed = re.findall(r"`([a-z-]+)`", said)
    assert len(killed) == 2
    for name in killed:
        case = (REPOSITORY / "tests/conformance/cases" / f"{name}.json").read_text("utf-8")
        assert '"restart": "kill"' in case, name


async def test_the_requests_on_the_page_do_what_it_says(daemon: Daemon) -> None:
    async with daemon.connect() as wire:
        (create,) = SHELL_REQUESTS
        created = await wire.call(create["method"], **create["params"])
        session_id = created["session"]["id"]
        append, subscribe = REQUESTS
        answers = [await sent(wire, append, session_id) for _ in range(2)]
        assert [one["duplicate"] for one in answers] == [False, True]
        assert answers[0]["durability"] == "disk"
        assert answers[0]["entries"] == answers[1]["entries"]
        listed = await wire.call("session/list", cwd=create["params"]["cwd"])
        assert [one["id"] for one in listed["sessions"]] == [session_id]
        await sent(wire, subscribe, session_id)
        told = [await wire.next_notification() for _ in range(2)]
        assert [one["method"] for one in told] == ["session/event", "session/synced"]
        resume = {**subscribe["params"], "session_id": session_id, "after": cursor(told[0])}
    async with daemon.connect() as wire:
        assert "replaced" not in await wire.call("session/subscribe", **resume)
        assert (await wire.next_notification())["method"] == "session/synced"


def cursor(event: Any) -> Any:
    """Return the `after` of an event, with the members that the page names."""
    (named,) = re.findall(r'with the members `\{("[^`]*")\}`', PAGE)
    known = {**event["params"], "entry_id": event["params"]["entry"]["id"]}
    after = {name: known.get(name) for name in json.loads(f"[{named}]")}
    assert set(after) == {"seq", "epoch", "entry_id"}
    return after


async def sent(wire: Wire, request: Any, session_id: str) -> Any:
    """Send a request of the page, with the parts that a reader fills in."""
    params = json.loads(
        json.dumps(request["params"], ensure_ascii=False)
        .replace("…", session_id)
        .replace("<32 hex digits>", "a" * 32)
    )
    return await wire.call(request["method"], **params)
