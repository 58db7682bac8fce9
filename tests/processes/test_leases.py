"""Processes that contend for a head, through the death of the one that has it and of the daemon."""

from __future__ import annotations

import signal
import sys
from itertools import groupby
from pathlib import Path

import pytest

from tests.kit.sessions import SESSION
from tests.processes.harness.child import Start
from tests.processes.harness.daemon import Daemon

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).with_name("lease_holder.py")
NAMES = ("first", "second", "third")


def test_a_head_goes_from_one_to_the_next_whoever_is_killed(daemon: Daemon, started: Start) -> None:
    with daemon.connect() as link:
        link.create()
    command = (sys.executable, PROGRAM, daemon.socket_path, SESSION)
    first = started(*command, "first")
    epochs = [int(first.word())]
    second = started(*command, "second")
    with daemon.connect() as link:
        # It writes, and nobody else does.
        while link.ask("session/get", session_id=SESSION)["session"]["seq"] < 20:
            pass
        message = {"role": "user", "content": "from outside"}
        refused = link.refusal("session/append", session_id=SESSION, message=message)
        assert (refused.kind, refused.data["epoch"]) == ("lease_held", epochs[0])
    first.end()
    epochs.append(int(second.word()))
    # The one that has it now loses it with the daemon, is told so, and had written nothing since.
    daemon.restart(signal.SIGKILL)
    assert second.word() == "lease_lost"
    third = started(*command, "third")
    epochs.append(int(third.word()))
    assert epochs == sorted(set(epochs))
    third.end()
    with daemon.connect() as link:
        # In line like the others: when it has the head, nothing of them is on its way any more.
        link.ask("session/acquire", session_id=SESSION, ttl_ms=10_000, wait_ms=120_000)
        said = [content.split() for content in link.contents(SESSION)]
    # Each wrote in its own time only: first, second, third, and never again.
    turns = [turn for turn, _ in groupby((name, int(epoch)) for name, epoch, _ in said)]
    assert turns == [turn for turn in zip(NAMES, epochs, strict=True) if turn in turns]
    assert turns[0] == ("first", epochs[0])
