"""A real daemon with a real summarizer command: its summaries, and its failures."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.kit.link import Link, Refused
from tests.kit.patience import PATIENCE_SECONDS
from tests.processes.harness.daemon import Daemon, running

pytestmark = pytest.mark.slow
SECRET = "a word of the conversation"

# Each is given the folder for its traces.
ANSWERS = """
import sys, pathlib
prompt = sys.stdin.buffer.read().decode()
pathlib.Path(sys.argv[1], "prompt").write_text(prompt)
sys.stderr.write(prompt)
sys.stdout.buffer.write(("It was fixed. \\u2028 \\u00e9 " + str(prompt.count("\\n") > 3)).encode() + b"\\n")
"""
HANGS = 'sleep 600 & echo "$$ $!" >"$0/pids"; wait'
LEAVES_A_CHILD = 'sleep 600 & echo "$!" >"$0/pids"; echo said'
FLOODS = """
import sys
block = b"x" * 65536
for _ in range(800):
    sys.stdout.buffer.write(block)
"""


def shell(script: str, folder: Path) -> list[str]:
    return ["sh", "-c", script, str(folder)]


def python(script: str, folder: Path) -> list[str]:
    return [sys.executable, "-c", script, str(folder)]


@contextmanager
def summarized(
    home: Path, socket_path: Path, command: list[str], timeout: float = 60
) -> Iterator[Daemon]:
    """Run a daemon with this summarizer command."""
    config = home / "sessiond.toml"
    config.write_text(
        f"[summarizer]\ncommand = {json.dumps(command)}\ntimeout_seconds = {timeout}\n"
    )
    daemon = Daemon(socket_path, home / "data", options=("--config", str(config)))
    with running(daemon):
        yield daemon
        assert SECRET not in daemon.said()


def grown(link: Link, **settings: Any) -> str:
    """Make a session with entries to summarise; return its id."""
    made = link.ask("session/create", cwd="/p", compaction={"keep_recent_tokens": 1, **settings})
    session_id: str = made["session"]["id"]
    for n in range(3):
        message = {"role": "user", "content": f"{SECRET} {n}"}
        link.ask("append", session_id=session_id, message=message)
    return session_id


def refusal(link: Link, session_id: str) -> dict[str, Any]:
    with pytest.raises(Refused) as refused:
        link.ask("compact", session_id=session_id)
    assert refused.value.kind == "summarizer_unavailable"
    return refused.value.data


def gone(pid: int) -> bool:
    """Return whether a process has ended; an unreaped process has ended, too."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def until_gone(folder: Path) -> None:
    """Every process that wrote its id there has ended."""
    end = time.monotonic() + PATIENCE_SECONDS
    pids = [int(pid) for pid in (folder / "pids").read_text().split()]
    assert pids
    while not all(map(gone, pids)):
        assert time.monotonic() < end, "what the command started goes on"
        time.sleep(0.02)


def test_the_command_reads_the_prompt_and_what_it_says_is_stored(
    home: Path, socket_path: Path
) -> None:
    with (
        summarized(home, socket_path, python(ANSWERS, home)) as daemon,
        daemon.connect() as link,
    ):
        session_id = grown(link)
        done = link.ask("compact", session_id=session_id, instructions="Mind the clock.")
        prompt = (home / "prompt").read_text()
        assert SECRET in prompt
        assert "Mind the clock." in prompt
        context = link.ask("build_context", session_id=session_id)
        assert context["messages"][0]["summary"] == "It was fixed. \u2028 é True"
        assert context["sources"][0] == done["entry"]["id"]


def test_the_command_is_told_what_it_writes_for(home: Path, socket_path: Path) -> None:
    command = shell('echo "$SESSIOND_PURPOSE" >>"$0/purposes"; cat >"$0/prompt"; echo said', home)
    with summarized(home, socket_path, command) as daemon, daemon.connect() as link:
        one, other = grown(link), grown(link)
        link.ask("session/merge", session_id=one, other_session_id=other)
        assert SECRET in (home / "prompt").read_text()
        link.ask("session/rebase", session_id=one, indices=[0, 1], squash={})
        link.ask("compact", session_id=one)
        assert (home / "purposes").read_text().split() == ["merge", "squash", "compaction"]


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (["false"], "exit status 1"),
        (["true"], "empty"),
        (["no-such-program-anywhere"], "not started: No such file or directory"),
        (["/"], "not started: Permission denied"),
        ([sys.executable, "-c", "print(' \\n ')"], "empty"),
        ([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"], "signal 9"),
        ([sys.executable, "-c", r"import os; os.write(1, b'\xff\xfe')"], "not_utf8"),
        ([sys.executable, "-c", "print('half'); raise SystemExit(3)"], "exit status 3"),
        ([sys.executable, "-c", FLOODS], "too_large"),
        (["echo", "$HOME; `date`"], ""),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_command_that_writes_no_summary_is_told_apart(
    home: Path, socket_path: Path, command: list[str], reason: str
) -> None:
    with summarized(home, socket_path, command) as daemon, daemon.connect() as link:
        session_id = grown(link)
        (path,) = daemon.files(session_id)
        before = path.read_bytes()
        if not reason:
            # No shell has looked at it.
            link.ask("compact", session_id=session_id)
            context = link.ask("build_context", session_id=session_id)
            assert context["messages"][0]["summary"] == "$HOME; `date`"
            return
        data = refusal(link, session_id)
        assert data["tried"] == [{"by": "command", "reason": reason}]
        assert path.read_bytes() == before
        link.ask("compact", session_id=session_id, plan_id=data["plan"]["plan_id"], summary="s")


@pytest.mark.parametrize("script", [HANGS, LEAVES_A_CHILD], ids=["hangs", "leaves a child"])
def test_a_command_that_does_not_end_is_killed_with_all_it_started(
    home: Path, socket_path: Path, script: str
) -> None:
    command = shell(script, home)
    with summarized(home, socket_path, command, timeout=4) as daemon, daemon.connect() as link:
        data = refusal(link, grown(link))
        assert data["tried"] == [{"by": "command", "reason": "timeout"}]
        until_gone(home)


@pytest.mark.parametrize("how", ["cancel", "stop"])
def test_a_command_that_nobody_waits_for_is_killed(home: Path, socket_path: Path, how: str) -> None:
    with (
        summarized(home, socket_path, shell(HANGS, home)) as daemon,
        daemon.connect() as link,
    ):
        session_id = grown(link)
        link.send(
            json.dumps(
                {"id": "run", "method": "compact", "params": {"session_id": session_id}}
            ).encode()
            + b"\n"
        )
        end = time.monotonic() + PATIENCE_SECONDS
        while not (home / "pids").exists() or " " not in (home / "pids").read_text():
            assert time.monotonic() < end, "the command was not started"
            time.sleep(0.02)
        if how == "cancel":
            link.send(b'{"method":"$/cancelRequest","params":{"id":"run"}}\n')
        else:
            link.send(b'{"method":"server/stop"}\n')
        messages = [link.message()]
        while messages[-1].get("id") != "run":
            messages.append(link.message())
        kind = messages[-1]["error"]["data"]["kind"]
        assert kind == ("cancelled" if how == "cancel" else "draining")
        until_gone(home)
        if how == "stop":
            assert daemon.end() == 0


def test_the_writer_is_killed_half_way_and_the_next_one_is_asked(
    home: Path, socket_path: Path
) -> None:
    offer = {"capabilities": {"summarize": True}}
    with (
        summarized(home, socket_path, python(ANSWERS, home)) as daemon,
        daemon.connect() as link,
    ):
        session_id = grown(link)
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            # A client of its own, which says when it was asked and then does nothing more.
            try:
                with daemon.connect() as other:
                    other.ask("initialize", **offer)
                    os.write(writer, b"1")
                    other.message()
                    os.write(writer, b"2")
                    time.sleep(600)
            finally:
                os._exit(1)
        assert os.read(reader, 1) == b"1"
        link.send(
            json.dumps(
                {"id": "run", "method": "compact", "params": {"session_id": session_id}}
            ).encode()
            + b"\n"
        )
        assert os.read(reader, 1) == b"2"
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        os.close(reader)
        os.close(writer)
        answer = link.message()
        assert answer["id"] == "run"
        assert answer["result"]["entry"]["seq"] == 4


def test_a_real_session_is_compacted_by_a_command_and_the_same_after_a_restart(
    home: Path, socket_path: Path, shared: Path
) -> None:
    source = shared / "fixtures" / "large-session.jsonl"
    command = python(ANSWERS, home)
    with summarized(home, socket_path, command) as daemon, daemon.connect() as link:
        session_id = link.ask("session/import", path=str(source))["session"]["id"]
        before = link.ask("build_context", session_id=session_id)
        plan = link.ask("session/plan_compaction", session_id=session_id)["plan"]
        done = link.ask("compact", session_id=session_id)
        assert (home / "prompt").read_text() == plan["prompt"]
        assert done["tokens_before"] == before["tokens"]
        assert 0 < done["tokens_after"] < done["tokens_before"]
        after = link.ask("build_context", session_id=session_id)
        assert after["tokens"] == done["tokens_after"]
        place = before["sources"].index(plan["first_kept_entry_id"])
        assert after["sources"] == [done["entry"]["id"], *before["sources"][place:]]
        stored = link.ask("session/entry", session_id=session_id, entry_id=done["entry"]["id"])
        assert stored["entry"]["details"] == {
            "readFiles": plan["files"]["read"],
            "modifiedFiles": plan["files"]["modified"],
        }
        assert plan["files"]["modified"]
    with summarized(home, socket_path, command) as daemon, daemon.connect() as link:
        again = link.ask("build_context", session_id=session_id)
        for context in (again, after):
            context.pop("etag")
        assert again == after
