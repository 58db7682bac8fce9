"""Client processes that offer to summarise: one is killed, one fails, one answers, none is left."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.kit.link import request
from tests.kit.sessions import SESSION
from tests.processes.harness.child import Child, Start
from tests.processes.harness.daemon import Daemon

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).with_name("summary_writer.py")
# Entries to summarise.
TEXTS = ("message 0", "message 1", "message 2")
GROWN: dict[str, Any] = {"persist": "on_assistant", "compaction": {"keep_recent_tokens": 1}}
COMPACTIONS: dict[str, Any] = {"session_id": SESSION, "types": ["compaction"]}


def test_a_writer_is_killed_half_way_and_the_next_ones_are_asked_until_none_is_left(
    daemon: Daemon, started: Start
) -> None:
    with daemon.connect() as link:
        link.create(*TEXTS, **GROWN)
        # The caller's own name has the first turn, then they come in the order of their offers.
        writers: list[Child] = []
        for name, manner in (("fails", "raises"), ("answers", "answers"), ("caller", "hangs")):
            writers.append(started(sys.executable, PROGRAM, daemon.socket_path, name, manner))
            assert writers[-1].word() == "ready"
        *others, own = writers
        link.ask("initialize", client_id="caller")
        link.send(request("run", "compact", session_id=SESSION))
        assert own.word() == "asked"
        assert link.ask("session/entries", **COMPACTIONS)["entries"] == []
        own.end()
        assert [child.word() for child in others] == ["asked", "asked"]
        done = link.answer("run")
        (row,) = link.ask("session/entries", **COMPACTIONS)["entries"]
        entry = row["entry"]
        assert (entry["id"], entry["summary"]) == (done["entry"]["id"], "answers")
        # Nobody answers: the plan comes back, and what is written by it is taken.
        others[1].end()
        for number in range(2):
            link.say(SESSION, f"more {number}")
        refused = link.refusal("compact", session_id=SESSION)
        assert refused.kind == "summarizer_unavailable"
        assert refused.data["tried"] == [{"by": "fails", "reason": "refused"}]
        plan_id = refused.data["plan"]["plan_id"]
        link.ask("compact", session_id=SESSION, plan_id=plan_id, summary="by hand")
        rows = link.ask("session/entries", **COMPACTIONS)["entries"]
        assert [row["entry"]["summary"] for row in rows] == ["answers", "by hand"]


def test_a_daemon_that_is_stopped_while_clients_are_asked_ends_and_says_so(
    daemon: Daemon, started: Start
) -> None:
    with daemon.connect() as link, daemon.connect() as hook:
        link.create(*TEXTS, **GROWN)
        own = started(sys.executable, PROGRAM, daemon.socket_path, "hangs", "hangs")
        assert own.word() == "ready"
        hook.ask("initialize", capabilities={"hooks": ["before_branch"]})
        link.send(request("run", "compact", session_id=SESSION))
        assert own.word() == "asked"
        link.send(request("move", "branch", session_id=SESSION, entry_id=None))
        assert hook.message()["method"] == "client/before_branch"
        # Within the patience of `end`, far below what both may take.
        assert daemon.end(signal.SIGTERM) == 0
        kinds: dict[str, str] = {}
        while len(kinds) < 2:
            message = link.message()
            if "method" not in message:
                kinds[message["id"]] = message["error"]["data"]["kind"]
        assert kinds == {"run": "draining", "move": "draining"}
        own.end()
    daemon.start()
    with daemon.connect() as link:
        assert link.ask("session/entries", **COMPACTIONS)["entries"] == []
        heads = link.ask("session/heads", session_id=SESSION)["heads"]
        assert [head["seq"] for head in heads] == [3]
