"""Processes that contend for a head, through the death of the one that has it and of the daemon."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import groupby
from pathlib import Path

import pytest

from tests.kit.link import Refused
from tests.kit.sessions import SESSION
from tests.processes.harness.daemon import Daemon

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).with_name("lease_holder.py")
NAMES = ("first", "second", "third")
Holder = subprocess.Popen[str]


@pytest.fixture
def holder(daemon: Daemon) -> Iterator[Callable[[str], Holder]]:
    """Yield a function that starts processes that want the head; end each at the latest here."""
    with ExitStack() as at_end:

        def start(name: str) -> Holder:
            command = [sys.executable, str(PROGRAM), str(daemon.socket_path), SESSION, name]
            child = at_end.enter_context(
                subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            )
            at_end.callback(child.kill)
            return child

        yield start


def word(child: Holder) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


def test_a_head_goes_from_one_to_the_next_whoever_is_killed(
    daemon: Daemon, holder: Callable[[str], Holder]
) -> None:
    with daemon.connect() as link:
        link.ask("session/create", cwd="/p", session_id=SESSION, persist="immediate")
    first = holder("first")
    epochs = [int(word(first))]
    second = holder("second")
    with daemon.connect() as link:
        # It writes, and nobody else does.
        while link.ask("session/get", session_id=SESSION)["session"]["seq"] < 20:
            pass
        with pytest.raises(Refused) as refused:
            link.say(SESSION, "from outside")
        assert refused.value.data["kind"] == "lease_held"
        assert refused.value.data["epoch"] == epochs[0]
    first.kill()
    first.wait(30)
    epochs.append(int(word(second)))
    # The one that has it now loses it with the daemon, is told so, and had written nothing since.
    daemon.end(signal.SIGKILL)
    daemon.start()
    assert word(second) == "lease_lost"
    third = holder("third")
    epochs.append(int(word(third)))
    assert epochs == sorted(set(epochs))
    third.kill()
    third.wait(30)
    with daemon.connect() as link:
        # In line like the others: when it has the head, nothing of them is on its way any more.
        link.ask("session/acquire", session_id=SESSION, ttl_ms=10_000, wait_ms=30_000)
        said = [content.split() for content in link.contents(SESSION)]
    # Each wrote in its own time only: first, second, third, and never again.
    turns = [turn for turn, _ in groupby((name, int(epoch)) for name, epoch, _ in said)]
    assert turns == [turn for turn in zip(NAMES, epochs, strict=True) if turn in turns]
    assert turns[0] == ("first", epochs[0])
