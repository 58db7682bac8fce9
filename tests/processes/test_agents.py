"""Client processes that offer to summarise: one is killed, one fails, one answers, none is left."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.kit.link import Link, Refused, request
from tests.kit.sessions import SESSION
from tests.processes.harness.daemon import Daemon

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).with_name("summary_writer.py")
Writer = subprocess.Popen[str]


@pytest.fixture
def writer(daemon: Daemon) -> Iterator[Callable[[str, str], Writer]]:
    """Yield a function that starts summarizer processes in order; end each at the latest here."""
    with ExitStack() as at_end:

        def start(name: str, manner: str) -> Writer:
            command = [sys.executable, str(PROGRAM), str(daemon.socket_path), name, manner]
            child = at_end.enter_context(
                subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            )
            at_end.callback(child.kill)
            assert word(child) == "ready"
            return child

        yield start


def word(child: Writer) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


def grown(link: Link) -> None:
    """Make a session with entries to summarise."""
    settings = {"keep_recent_tokens": 1}
    link.ask("session/create", cwd="/p", session_id=SESSION, compaction=settings)
    for number in range(3):
        link.say(SESSION, f"message {number}")


def stored(link: Link) -> list[dict[str, Any]]:
    page = link.ask("session/entries", session_id=SESSION, types=["compaction"])
    return [row["entry"] for row in page["entries"]]


def test_a_writer_is_killed_half_way_and_the_next_ones_are_asked_until_none_is_left(
    daemon: Daemon, writer: Callable[[str, str], Writer]
) -> None:
    with daemon.connect() as link:
        grown(link)
        # The caller's own name has the first turn, then they come in the order of their offers.
        others = [writer("fails", "raises"), writer("answers", "answers")]
        own = writer("caller", "hangs")
        link.ask("initialize", client_id="caller")
        link.send(request("run", "compact", session_id=SESSION))
        assert word(own) == "asked"
        assert stored(link) == []
        own.kill()
        own.wait(30)
        assert [word(child) for child in others] == ["asked", "asked"]
        done = link.answer("run")
        (entry,) = stored(link)
        assert (entry["id"], entry["summary"]) == (done["entry"]["id"], "answers")
        # Nobody answers: the plan comes back, and what is written by it is taken.
        others[1].kill()
        others[1].wait(30)
        for number in range(2):
            link.say(SESSION, f"more {number}")
        with pytest.raises(Refused) as refused:
            link.ask("compact", session_id=SESSION)
        assert refused.value.kind == "summarizer_unavailable"
        assert refused.value.data["tried"] == [{"by": "fails", "reason": "refused"}]
        plan_id = refused.value.data["plan"]["plan_id"]
        link.ask("compact", session_id=SESSION, plan_id=plan_id, summary="by hand")
        assert [one["summary"] for one in stored(link)] == ["answers", "by hand"]


def test_a_daemon_that_is_stopped_while_clients_are_asked_ends_and_says_so(
    daemon: Daemon, writer: Callable[[str, str], Writer]
) -> None:
    with daemon.connect() as link, daemon.connect() as hook:
        grown(link)
        own = writer("hangs", "hangs")
        hook.ask("initialize", capabilities={"hooks": ["before_branch"]})
        link.send(request("run", "compact", session_id=SESSION))
        assert word(own) == "asked"
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
        own.kill()
        own.wait(30)
    daemon.start()
    with daemon.connect() as link:
        assert stored(link) == []
        heads = link.ask("session/heads", session_id=SESSION)["heads"]
        assert [head["seq"] for head in heads] == [3]
