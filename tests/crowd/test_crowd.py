"""The small forms of `make stuck-client` and `make crowd`, and the checks of their watcher."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from tests.crowd.cast import Broken, Watcher
from tests.crowd.greedy import crowd_out
from tests.crowd.many import watch
from tests.crowd.run import CONNECTION_KIB_MAX, GROWTH_KIB_MAX
from tests.crowd.stuck import Load, run

# Many times what an outbox and a socket hold together.
LOAD: Final = Load(entries=20_000, size=2048)


@pytest.fixture
def _on_linux(absent: Any) -> None:
    if not Path("/proc/self/status").exists():
        absent("no /proc to read a process's memory from")


@pytest.mark.search
@pytest.mark.usefixtures("_on_linux")
def test_a_stopped_subscriber_costs_little_memory_and_gets_every_entry_in_order() -> None:
    alone = run(LOAD, stuck=False)
    beside = run(LOAD, stuck=True)
    assert beside.peak_kib - alone.peak_kib < GROWTH_KIB_MAX
    heard = beside.heard
    assert heard is not None
    assert (heard.entries, heard.lagged, heard.synced) == (LOAD.entries, 1, 1)
    # Neither did the catching up.
    assert beside.peak_after_kib is not None
    assert beside.peak_after_kib - alone.peak_kib < GROWTH_KIB_MAX


@pytest.mark.search
@pytest.mark.usefixtures("_on_linux")
def test_every_one_of_many_subscribers_gets_every_event_in_order() -> None:
    found = watch(connections=200, appends=200)
    assert found.events == 200 * 200
    # The first connections pay for what all share, and here they are fewer than in `make crowd`.
    assert found.idle_kib < 2 * CONNECTION_KIB_MAX


@pytest.mark.search
def test_two_connections_that_watch_all_they_may_refuse_no_call_of_another() -> None:
    asked, _ = crowd_out(0, rounds=4)
    assert asked == ["watch", "watch"]


def event(seq: int, content: str) -> bytes:
    entry = {"message": {"content": content}}
    return msgspec.json.encode({"method": "session/event", "params": {"seq": seq, "entry": entry}})


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ([event(1, "w-0 x"), event(3, "w-1 x")], "seq 3 came after 1"),
        ([event(1, "w-0 x"), event(1, "w-0 x")], "seq 1 came after 1"),
        ([event(1, "w-0 x"), event(2, "w-2 x")], "at seq 2: 2 x of w for 1"),
        ([event(1, "w-0 x"), event(2, "w-0 x")], "at seq 2: 0 x of w for 1"),
        ([event(1, "w-0 x"), event(2, "v-0 x"), event(3, "w-1 x")], None),
    ],
)
def test_a_watcher_notices_what_is_missing_doubled_or_out_of_order(
    socket_path: Path, events: list[bytes], why: str | None
) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(socket_path))
        listener.listen()
        watcher = Watcher(socket_path, len(events))
        served, _ = listener.accept()
        with served, watcher:
            served.sendall(b"\n".join(events) + b"\n")
            if why is None:
                watcher.take()
                assert watcher.is_done
            else:
                with pytest.raises(Broken, match=why):
                    watcher.take()
