"""The session of a pi with the extension: its entries, its files, other programs in the file."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sessiond_client import connect_blocking
from tests.interop.pi.conftest import Pi, Watcher
from tests.processes.harness.daemon import SESSIOND, Daemon

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(180)]

GOTO = Path(__file__).with_name("goto.ts")


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def _texts(pi: Pi) -> str:
    return json.dumps(pi.ask("get_messages")["messages"])


def test_tail_shows_every_entry_once(server: Daemon, start_pi: Callable[..., Pi]) -> None:
    server.connect().close()
    pi = start_pi("-e", str(GOTO))
    pi.prompt("Hello")
    path = pi.file()
    session = _lines(path)[0]["id"]
    command = [SESSIOND, "--socket", str(server.socket_path), "tail", "-f", "-n", "1000", "--json"]
    with subprocess.Popen(
        [*command, session], stdout=subprocess.PIPE, env=server.environment
    ) as tail:
        try:
            pi.prompt('List [call bash {"command": "echo listed"}]')
            pi.prompt("Much " * 30_000)
            pi.ask("compact")
            target = next(line["id"] for line in _lines(path) if line["type"] == "message")
            pi.ask("prompt", message=f"/goto {target}")
            pi.prompt("On the other branch")
            expected = [line["id"] for line in _lines(path)[1:]]
            assert tail.stdout is not None
            seen: list[str] = []
            while seen[-1:] != expected[-1:]:
                seen.append(json.loads(tail.stdout.readline())["entry"]["id"])
        finally:
            tail.terminate()
    assert seen == expected
    types = Counter(line["type"] for line in _lines(path))
    assert types["compaction"] == 1
    parents = Counter(line["parentId"] for line in _lines(path)[1:])
    assert max(parents.values()) == 2  # the branch
    roles = [line["message"]["role"] for line in _lines(path) if line["type"] == "message"]
    assert "toolResult" in roles


def test_the_extension_follows_pi_to_another_session(pi: Pi, watcher: Watcher) -> None:
    watcher.present(bool)
    first = pi.file()
    pi.ask("new_session")
    watcher.present(lambda found: not found)
    pi.prompt("In the new session")
    second = Watcher(watcher.client, pi.file())
    second.present(lambda found: [one.reason for one in found] == ["new"])
    pi.ask("switch_session", sessionPath=str(first))
    watcher.present(lambda found: [one.reason for one in found] == ["resume"])
    second.present(lambda found: not found)
    while "present:" not in "".join(pi.notices()[-1:]):
        pi.ask("prompt", message="/sessiond")
    assert "no other client" in pi.notices()[-1]


def test_a_killed_pi_is_gone_and_a_fork_goes_on(
    pi: Pi, watcher: Watcher, start_pi: Callable[..., Pi], tmp_path: Path
) -> None:
    watcher.present(bool)
    pi.process.kill()
    watcher.present(lambda found: not found)
    client = watcher.client
    fork = client.fork(watcher.session)
    said = {"role": "user", "content": [{"type": "text", "text": "From another agent"}]}
    client.append(fork.id, message={**said, "timestamp": 1})
    copy = tmp_path / "copy.jsonl"
    client.export(fork.id, format="pi", path=str(copy))
    other = start_pi("--session", str(copy))
    assert "You said: Hello" in _texts(other)
    assert "From another agent" in _texts(other)
    other.prompt("And on")
    assert "You said: And on" in _texts(other)


def test_the_user_is_told_once_of_entries_of_other_programs(pi: Pi, watcher: Watcher) -> None:
    watcher.present(bool)
    said = {"role": "user", "content": [{"type": "text", "text": "From an editor"}], "timestamp": 1}
    for _ in range(2):
        watcher.client.append(watcher.session, message=said)
    pi.until(lambda told: told.get("statusText") == "sessiond: 2 unread")
    pi.ask("prompt", message="/sessiond")
    (notice, status) = pi.notices()
    assert notice.startswith("Another program added entries")
    assert "2 entries of other programs" in status
    assert "From an editor" not in _texts(pi)
    pi.ask("prompt", message="/sessiond reload")
    assert "From an editor" in _texts(pi)
    watcher.present(lambda found: [one.reason for one in found] == ["resume"])
    pi.ask("prompt", message="/sessiond")
    assert "other programs" not in pi.notices()[-1]


def test_entries_added_while_pi_was_away_are_read_at_the_start(
    pi: Pi, watcher: Watcher, start_pi: Callable[..., Pi]
) -> None:
    watcher.present(bool)
    path = pi.file()
    assert pi.end() == 0
    watcher.present(lambda found: not found)
    said = {"role": "user", "content": [{"type": "text", "text": "Meanwhile"}], "timestamp": 1}
    watcher.client.append(watcher.session, message=said)
    again = start_pi("--session", str(path))
    watcher.present(bool)
    again.ask("prompt", message="/sessiond")
    assert "Meanwhile" in _texts(again)
    assert [notice for notice in again.notices() if "nother program" in notice] == []


def test_a_session_without_a_file_is_no_session(
    server: Daemon, start_pi: Callable[..., Pi]
) -> None:
    server.connect().close()
    pi = start_pi("--no-session")
    pi.prompt("Hello")
    pi.ask("prompt", message="/sessiond")
    with connect_blocking(server.socket_path) as client:
        assert client.list().sessions == []
    assert pi.end() == 0
