"""The number of Python calls that an append costs the daemon, equal on every machine.

The figures are signs of the CPU time per append, which `make bench` measures.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from tests.kit.sessions import SESSION
from tests.processes import counted_daemon
from tests.processes.harness.daemon import Daemon

WARM_UP, PERIODS = 2, 5
IN_FLIGHT: Final = 64
FEW, MANY = 4, 20
"""Subscribers."""
CONTENT: Final = "x" * 268
"""Makes a message of 300 bytes."""

MOST: Final = {
    "in memory, 64 in flight": 16.0,
    "durable, 64 in flight": 16.0,
    "in memory, one at a time": 98.0,
    "durable, one at a time": 115.0,
}
"""Python calls per append that each case may cost the loop thread.

They are about 14, 14, 90 to 95.5 (with Python 3.11.7) and 110.
"""


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
def counted(socket_path: Path, home: Path) -> Iterator[Callable[[], Counted]]:
    """Start daemons that count their calls, one after another."""
    with ExitStack() as at_end:

        def start() -> Counted:
            one = Counted(socket_path, home)
            one.daemon.start()
            at_end.callback(one.daemon.discard)
            return one

        yield start


def figures(periods: list[counted_daemon.Calls], thread: str, kind: str) -> float:
    """Return the calls per append of the cheapest period: load splits batches and adds calls."""
    return min(sum(period[thread][kind].values()) for period in periods) / IN_FLIGHT


def store(daemon: Daemon, persist: str, *, at_once: int, watchers: int = 0) -> None:
    """Append in every period, always `at_once` in one piece, and wait for the answers to each.

    So many connections watch the session meanwhile, and read all they get.
    """
    params = {"session_id": SESSION, "message": {"role": "user", "content": CONTENT}}
    requests = [
        {"jsonrpc": "2.0", "id": f"append-{n}", "method": "session/append", "params": params}
        for n in range(at_once)
    ]
    # Spelled as clients in most languages spell it: without blanks.
    data = b"".join(json.dumps(one, separators=(",", ":")).encode() + b"\n" for one in requests)
    with daemon.connect() as link, ExitStack() as links:
        link.create(persist=persist)
        watching = [links.enter_context(daemon.connect()) for _ in range(watchers)]
        for one in watching:
            one.ask("session/subscribe", session_id=SESSION)
        for _ in range(WARM_UP + PERIODS + 1):
            link.ask("server/ping")
            for _ in range(IN_FLIGHT // at_once):
                link.send(data)
                for _ in range(at_once):
                    assert "result" in link.message()
            for one in watching:
                assert [one.message()["method"] for _ in range(IN_FLIGHT)][-1] == "session/event"


@pytest.mark.parametrize("at_once", [1, IN_FLIGHT])
def test_an_event_costs_little_for_each_subscriber(
    counted: Callable[[], Counted], at_once: int
) -> None:
    """The difference that subscribers make; the frames themselves are made once for all."""
    found: list[float] = []
    for watchers in (FEW, MANY):
        one = counted()
        store(one.daemon, "never", at_once=at_once, watchers=watchers)
        found.append(figures(one.end(), "loop", "python"))
    each = (found[1] - found[0]) / (MANY - FEW)
    sys.stdout.write(f"event and subscriber, {at_once} at once: {each:.2f}\n")
    # A delivery and the send, which is two calls; and what a busy machine adds. A burst is one delivery.
    assert each <= (4 if at_once == 1 else 0.3), found


@pytest.mark.parametrize(
    ("case", "persist", "at_once"),
    [
        ("in memory, 64 in flight", "never", IN_FLIGHT),
        ("durable, 64 in flight", "immediate", IN_FLIGHT),
        ("in memory, one at a time", "never", 1),
        ("durable, one at a time", "immediate", 1),
    ],
)
def test_an_append_costs_no_more_calls_than_it_may(
    counted: Callable[[], Counted], case: str, persist: str, at_once: int
) -> None:
    one = counted()
    store(one.daemon, persist, at_once=at_once)
    periods = one.end()
    assert len(periods) == PERIODS
    calls = {
        f"{kind} calls, {thread}": round(figures(periods, thread, kind), 1)
        for thread in ("loop", "others")
        for kind in ("python", "c")
    }
    sys.stdout.write(f"{case}: {calls}\n")
    # Where the Python calls of the loop thread go, per append, the most frequent first.
    total: Counter[str] = Counter()
    for period in periods:
        total.update(period["loop"]["python"])
    most = [f"{count / IN_FLIGHT / PERIODS:8.2f}  {name}" for name, count in total.most_common(120)]
    assert calls["python calls, loop"] <= MOST[case], "\n".join([str(calls), *most])
