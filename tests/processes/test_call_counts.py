"""The number of Python calls that an append costs the daemon, equal on every machine.

The figures are signs of the CPU time per append, which `make bench` measures.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.kit.link import Link, request
from tests.kit.sessions import SESSION
from tests.processes import counted_daemon
from tests.processes.harness.daemon import Daemon

WARM_UP, PERIODS = 2, 5
IN_FLIGHT: Final = 64
CONTENT: Final = "x" * 268
"""Makes a message of 300 bytes."""

MOST: Final = {
    "in memory, 64 in flight": 68.0,
    "durable, 64 in flight": 75.0,
    "durable, one at a time": 435.0,
}
"""Python calls per append that each case may cost the loop thread; the aims are 20, 24 and 120."""


class Counted:
    """A daemon that counts its calls, and what it counted once it has ended."""

    def __init__(self, socket_path: Path, home: Path) -> None:
        self._target = home / "calls.json"
        program = [sys.executable, counted_daemon.__file__, str(self._target)]
        self.daemon = Daemon(socket_path, home / "data", program=program)

    def end(self) -> list[counted_daemon.Calls]:
        """Stop the daemon and return the periods in which appends were measured."""
        with self.daemon.connect() as link:
            link.ask("server/stop")
            link.rest()
        assert self.daemon.end() == 0, self.daemon.said()
        periods: list[counted_daemon.Calls] = json.loads(self._target.read_text("utf-8"))
        # Before the first ping the session is made, behind the last one the daemon ends.
        return periods[1 + WARM_UP : -1]


@pytest.fixture
def counted(socket_path: Path, home: Path) -> Iterator[Counted]:
    """Run a daemon that counts its calls."""
    counted = Counted(socket_path, home)
    counted.daemon.start()
    yield counted
    counted.daemon.discard()


def appends(count: int) -> bytes:
    """Return so many requests for an append."""
    message = {"role": "user", "content": CONTENT}
    return b"".join(
        request(f"append-{n}", "session/append", session_id=SESSION, message=message)
        for n in range(count)
    )


def store(link: Link, count: int, *, at_once: int) -> None:
    """Append so many messages, always `at_once` in one piece, and wait for the answers to each."""
    data = appends(at_once)
    for _ in range(count // at_once):
        link.send(data)
        for _ in range(at_once):
            assert "result" in link.message()


def figures(periods: list[counted_daemon.Calls], thread: str, kind: str) -> float:
    """Return the calls per append of the cheapest period: load splits batches and adds calls."""
    return min(sum(period[thread][kind].values()) for period in periods) / IN_FLIGHT


def report(periods: list[counted_daemon.Calls]) -> str:
    """Return where the Python calls of the loop thread go, per append, the most frequent first."""
    total: Counter[str] = Counter()
    for period in periods:
        total.update(period["loop"]["python"])
    appended = IN_FLIGHT * len(periods)
    return "\n".join(f"{count / appended:8.2f}  {name}" for name, count in total.most_common(90))


@pytest.mark.parametrize(
    ("case", "persist", "at_once"),
    [
        ("in memory, 64 in flight", "never", IN_FLIGHT),
        ("durable, 64 in flight", "immediate", IN_FLIGHT),
        ("durable, one at a time", "immediate", 1),
    ],
)
def test_an_append_costs_no_more_calls_than_it_may(
    counted: Counted, case: str, persist: str, at_once: int
) -> None:
    with counted.daemon.connect() as link:
        link.ask("session/create", cwd="/p", session_id=SESSION, persist=persist)
        for _ in range(WARM_UP + PERIODS + 1):
            link.ask("server/ping")
            store(link, IN_FLIGHT, at_once=at_once)
    periods = counted.end()
    assert len(periods) == PERIODS
    calls = {
        f"{kind} calls, {thread}": round(figures(periods, thread, kind), 1)
        for thread in ("loop", "others")
        for kind in ("python", "c")
    }
    sys.stdout.write(f"{case}: {calls}\n")
    assert calls["python calls, loop"] <= MOST[case], f"{calls}\n{report(periods)}"
