"""A real daemon with a real summarizer command: its summaries, and its failures."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.kit.link import request
from tests.kit.patience import soon
from tests.kit.sessions import SESSION
from tests.processes.harness.child import Start
from tests.processes.harness.daemon import Daemon, running

pytestmark = [pytest.mark.slow]
WRITER = Path(__file__).with_name("summary_writer.py")
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


TEXTS = tuple(f"{SECRET} {n}" for n in range(3))
GROWN: dict[str, Any] = {"persist": "on_assistant", "compaction": {"keep_recent_tokens": 1}}


def until_gone(folder: Path) -> None:
    """Wait until every process has ended that wrote its id there; one that nobody reaped has, too."""
    pids = (folder / "pids").read_text().split()
    assert pids
    for pid in pids:
        stat = Path("/proc", pid, "stat")
        with suppress(OSError):
            soon(lambda: stat.read_text().rpartition(")")[2].split()[0] == "Z")  # noqa: B023


def test_the_command_reads_the_prompt_and_what_it_says_is_stored(
    home: Path, socket_path: Path
) -> None:
    with (
        summarized(home, socket_path, [sys.executable, "-c", ANSWERS, str(home)]) as daemon,
        daemon.connect() as link,
    ):
        link.create(*TEXTS, **GROWN)
        done = link.ask("compact", session_id=SESSION, instructions="Mind the clock.")
        prompt = (home / "prompt").read_text()
        assert SECRET in prompt
        assert "Mind the clock." in prompt
        context = link.ask("build_context", session_id=SESSION)
        assert context["messages"][0]["summary"] == "It was fixed. \u2028 é True"
        assert context["sources"][0] == done["entry"]["id"]


def test_the_command_is_told_what_it_writes_for(home: Path, socket_path: Path) -> None:
    script = 'echo "$SESSIOND_PURPOSE" >>"$0/purposes"; cat >"$0/prompt"; echo said'
    command = ["sh", "-c", script, str(home)]
    with summarized(home, socket_path, command) as daemon, daemon.connect() as link:
        link.create(*TEXTS, **GROWN)
        link.create(*TEXTS, session_id="session-b", **GROWN)
        link.ask("session/merge", session_id=SESSION, other_session_id="session-b")
        assert SECRET in (home / "prompt").read_text()
        link.ask("session/rebase", session_id=SESSION, indices=[0, 1], squash={})
        link.ask("compact", session_id=SESSION)
        link.ask("session/navigate", session_id=SESSION, entry_id=None, summarize=True)
        purposes = (home / "purposes").read_text().split()
        assert purposes == ["merge", "squash", "compaction", "branch"]


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
        link.create(*TEXTS, **GROWN)
        (path,) = daemon.files(SESSION)
        before = path.read_bytes()
        if not reason:
            # No shell has looked at it.
            link.ask("compact", session_id=SESSION)
            context = link.ask("build_context", session_id=SESSION)
            assert context["messages"][0]["summary"] == "$HOME; `date`"
            return
        refused = link.refusal("compact", session_id=SESSION)
        assert refused.kind == "summarizer_unavailable"
        assert refused.data["tried"] == [{"by": "command", "reason": reason}]
        assert path.read_bytes() == before
        link.ask(
            "compact", session_id=SESSION, plan_id=refused.data["plan"]["plan_id"], summary="s"
        )


@pytest.mark.parametrize("script", [HANGS, LEAVES_A_CHILD], ids=["hangs", "leaves a child"])
def test_a_command_that_does_not_end_is_killed_with_all_it_started(
    home: Path, socket_path: Path, script: str
) -> None:
    command = ["sh", "-c", script, str(home)]
    with summarized(home, socket_path, command, timeout=4) as daemon, daemon.connect() as link:
        link.create(*TEXTS, **GROWN)
        refused = link.refusal("compact", session_id=SESSION)
        assert refused.kind == "summarizer_unavailable"
        assert refused.data["tried"] == [{"by": "command", "reason": "timeout"}]
        until_gone(home)


@pytest.mark.parametrize("how", ["cancel", "stop"])
def test_a_command_that_nobody_waits_for_is_killed(home: Path, socket_path: Path, how: str) -> None:
    with (
        summarized(home, socket_path, ["sh", "-c", HANGS, str(home)]) as daemon,
        daemon.connect() as link,
    ):
        link.create(*TEXTS, **GROWN)
        link.send(request("run", "compact", session_id=SESSION))
        soon(lambda: (home / "pids").exists() and " " in (home / "pids").read_text())
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
    home: Path, socket_path: Path, started: Start
) -> None:
    with (
        summarized(home, socket_path, [sys.executable, "-c", ANSWERS, str(home)]) as daemon,
        daemon.connect() as link,
    ):
        link.create(*TEXTS, **GROWN)
        # A client of its own, which says when it was asked and then does nothing more.
        writer = started(sys.executable, WRITER, daemon.socket_path, "writer", "hangs")
        assert writer.word() == "ready"
        link.send(request("run", "compact", session_id=SESSION))
        assert writer.word() == "asked"
        writer.end()
        answer = link.message()
        assert answer["id"] == "run"
        assert answer["result"]["entry"]["seq"] == 4


def test_a_real_session_is_compacted_by_a_command_and_the_same_after_a_restart(
    home: Path, socket_path: Path, shared: Path
) -> None:
    source = shared / "fixtures" / "large-session.jsonl"
    command = [sys.executable, "-c", ANSWERS, str(home)]
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
