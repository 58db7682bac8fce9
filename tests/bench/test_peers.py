"""The peers that a row talks to, as far as they can be tried without the real program."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.bench.harness.errors import BenchError, Missing
from tests.bench.harness.processes import Program, started, working
from tests.bench.harness.stored import pi_file
from tests.bench.harness.workload import SESSION_ID, messages, pi_header
from tests.bench.peers import openai_sdk
from tests.bench.peers.openai_peer import Done, add
from tests.bench.peers.openai_sdk import openai_adds, openai_worker, require_in_database
from tests.bench.peers.pi_rpc import PiRpc, append_commands, name_commands

# Answers as pi does: an event first, then the answer; a command without a name or message is refused.
PI = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    answer = {"id": asked["id"], "type": "response", "command": asked["type"]}
    if asked["type"] == "end":
        sys.exit("pi has had enough")
    if asked["type"] == "switch_session":
        with open(asked["sessionPath"]) as file:
            cwd = json.loads(file.readline())["cwd"]
        asked["name"] = cwd
    known = "name" in asked or "message" in asked
    more = {"success": True} if known else {"success": False, "error": "Unknown command"}
    print(json.dumps({"type": "event", "id": asked["id"]}))
    print(json.dumps({**answer, **more}, separators=(",", ":")), flush=True)
"""
AGENTS = """
import json, sqlite3
class SQLiteSession:
    def __init__(self, session_id, path):
        self.db = sqlite3.connect(path)
        self.db.execute("CREATE TABLE agent_messages (message_data TEXT)")
    async def add_items(self, items):
        rows = [(json.dumps(item),) for item in items]
        self.db.executemany("INSERT INTO agent_messages VALUES (?)", rows)
        self.db.commit()
    def close(self):
        self.db.close()
"""


class FakeSession:
    """A session that counts the calls that are open."""

    def __init__(self) -> None:
        self.stored: list[Any] = []
        self.open = self.most = 0

    async def add_items(self, items: list[Any]) -> None:
        self.open += 1
        self.most = max(self.most, self.open)
        await asyncio.sleep(0)
        self.stored += items
        self.open -= 1

    def close(self) -> None:
        """Do nothing: this session has no database."""


@pytest.mark.parametrize("at_once", [1, 8])
def test_the_sdk_gets_each_message_once_and_so_many_calls_at_a_time(at_once: int) -> None:
    session = FakeSession()
    asyncio.run(add(session, list(range(50)), at_once))
    assert sorted(session.stored) == list(range(50))
    assert session.most == at_once


def test_items_that_are_not_in_the_database_are_no_rate(tmp_path: Path) -> None:
    path = tmp_path / "items.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE agent_messages (message_data TEXT)")
        database.executemany("INSERT INTO agent_messages VALUES (?)", [("{}",), ("{}",)])
    database.close()
    require_in_database(path, 2)
    with pytest.raises(BenchError, match="3 items were added, 2 are in the database"):
        require_in_database(path, 3)


def test_the_sdk_works_in_a_process_of_its_own_and_leaves_no_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "agents.py").write_text(AGENTS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(openai_sdk, "version", lambda package: "0")
    source = tmp_path / "messages.jsonl"
    source.write_bytes(b"".join(body + b"\n" for body in messages("mix", 30)))
    with openai_worker(tmp_path, None) as worker:
        assert openai_adds(worker, source, 30, 4)["rate"] > 0
        with pytest.raises(BenchError, match="31 items were added, 30"):
            openai_adds(worker, source, 31, 1)
    assert [path.name for path in tmp_path.glob("*.db*")] == ["openai-2.db"]


def test_the_sdk_that_is_not_installed_is_missing_with_its_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(package: str) -> str:
        raise PackageNotFoundError(package)

    monkeypatch.setattr(openai_sdk, "version", absent)
    assert "not installed" in openai_sdk.openai_contender().version
    with pytest.raises(Missing, match="group extras"), openai_worker(tmp_path, None):
        pass


@pytest.fixture
def pi(tmp_path: Path) -> Iterator[PiRpc]:
    log = tmp_path / "pi.log"
    words = [sys.executable, "-c", PI]
    with started(Program(name="pi", command=words, log=log, core=None, pipes=True)) as process:
        yield PiRpc(process, log, tmp_path)


def test_commands_of_pi_carry_the_messages_and_each_is_timed(pi: PiRpc) -> None:
    bodies = messages("mix", 20)
    names = [msgspec.json.decode(line) for line in name_commands(bodies)]
    assert [one["name"].encode() for one in names] == bodies
    appends = [msgspec.json.decode(line) for line in append_commands(bodies)]
    assert [one["message"].removeprefix("/append ").encode() for one in appends] == bodies
    assert {one["id"] for one in names} == {str(number) for number in range(1, 21)}
    assert len(pi.timed(name_commands(bodies) + append_commands(bodies))) == 40


def test_a_command_that_pi_refuses_is_no_time(pi: PiRpc) -> None:
    with pytest.raises(BenchError, match="pi answered: Unknown command"):
        pi.timed([b'{"id":"1","type":"unheard_of"}\n'])


def test_a_pi_that_ends_is_no_time(pi: PiRpc) -> None:
    with pytest.raises(BenchError, match="pi ended: pi has had enough"):
        pi.ask(b'{"id":"1","type":"end"}\n')


def test_pi_gets_a_copy_of_a_session_in_a_folder_that_is_there(pi: PiRpc, tmp_path: Path) -> None:
    source = pi_file(tmp_path, 30)
    before = source.read_bytes()
    with pi.copy_of(source) as path:
        header, _, rest = path.read_bytes().partition(b"\n")
        assert header + b"\n" == pi_header(SESSION_ID, cwd=str(tmp_path))
        assert rest == before.partition(b"\n")[2]
        with path.open("ab") as file:
            file.write(b"more\n")
    assert not path.exists()
    assert source.read_bytes() == before


def test_a_loop_on_a_slow_disk_copies_the_same_lines(tmp_path: Path) -> None:
    source = tmp_path / "lines.jsonl"
    source.write_bytes(b"one\ntwo\n")
    words = [sys.executable, "-m", "tests.bench.peers.disk_loop"]
    program = Program(name="loop", command=words, log=tmp_path / "log", core=None, pipes=True)
    with working(program) as worker:
        for delay_ms in (0, 1):
            copy = tmp_path / f"copy-{delay_ms}"
            asked = {"lines": str(source), "to": str(copy), "delay_ms": delay_ms}
            assert worker.ask(asked, Done).count == 2
            assert copy.read_bytes() == b"one\ntwo\n"
        assert worker.pid != os.getpid()
