"""Four real daemons, one session, eight writers: one order for all, whichever daemon a client is at."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.postgresql.cluster import Cluster
from tests.postgresql.sharing_daemon import SharingDaemon
from tests.processes.harness.daemon import running

pytestmark = [pytest.mark.slow, pytest.mark.search]

SESSION = "my-session"
WRITERS = 8
EACH = 60
SILENCED_MAX = 200

Seen = list[tuple[int, str]]


@pytest.fixture
def daemons(own_cluster: Cluster, tmp_path: Path) -> Iterator[list[SharingDaemon]]:
    """Return four running daemons on one database, with a session."""
    with ExitStack() as ends:
        made = [
            SharingDaemon(
                own_cluster.folder / f"{at}.sock", tmp_path / f"home-{at}", own_cluster.folder
            )
            for at in range(4)
        ]
        for one in made:
            ends.enter_context(running(one))
        with made[0].connect() as link:
            link.ask("session/create", session_id=SESSION, cwd="/p", persist="immediate")
        yield made


def write(daemon: SharingDaemon, name: str) -> dict[str, int]:
    """Append entries one by one, and send each a second time; return their seqs."""
    stored: dict[str, int] = {}
    with daemon.connect() as link:
        for number in range(EACH):
            entry_id = f"{name}-{number}"
            entry = {
                "type": "message",
                "id": entry_id,
                "message": {"role": "user", "content": entry_id},
            }
            first = link.ask("append", session_id=SESSION, entry=entry)["entries"][0]
            again = link.ask("append", session_id=SESSION, entry=entry)
            assert (again["duplicate"], again["entries"][0]["seq"]) == (True, first["seq"])
            stored[entry_id] = first["seq"]
    return stored


def follow(first: SharingDaemon, then: SharingDaemon, until: int, leave_at: int) -> Seen:
    """Follow the session at a daemon, leave, and go on at another daemon up to a seq."""
    seen: Seen = []
    for daemon, last in ((first, leave_at), (then, until)):
        with daemon.connect() as link:
            after: dict[str, Any] = {"seq": 0}
            if seen:
                after = {"seq": seen[-1][0], "entry_id": seen[-1][1]}
            link.ask("subscribe", session_id=SESSION, after=after)
            while not seen or seen[-1][0] < last:
                told = link.message()
                assert told["method"] in {"session/event", "session/synced", "session/lagged"}
                if told["method"] == "session/event":
                    seen.append((told["params"]["seq"], told["params"]["entry"]["id"]))
    return seen


def rows(cluster: Cluster) -> Seen:
    """Return seq and id of the entries, as the database has them."""
    found = cluster.sql("SELECT seq, encode(line, 'hex') FROM sessiond.lines ORDER BY seq")
    lines = [(int(seq), msgspec.json.decode(bytes.fromhex(line))) for seq, line in found]
    return [(seq, line["id"]) for seq, line in lines[1:]]


def shared(
    cluster: Cluster,
    daemons: list[SharingDaemon],
    meanwhile: Callable[[Callable[[], bool]], None] | None = None,
) -> None:
    """Let eight writers and eight subscribers work at four daemons, and judge by the rows.

    `meanwhile` is told by a call whether all of them have ended.
    """
    total = WRITERS * EACH
    with ThreadPoolExecutor(2 * WRITERS) as threads:
        writing = [
            threads.submit(write, daemons[number % 4], f"w{number}") for number in range(WRITERS)
        ]
        following = [
            threads.submit(
                follow, daemons[number % 4], daemons[(number + 1) % 4], total, 40 * (number + 1)
            )
            for number in range(8)
        ]
        if meanwhile is not None:
            everyone: list[Future[Any]] = [*writing, *following]
            meanwhile(lambda: all(one.done() for one in everyone))
        stored = {name: seq for one in writing for name, seq in one.result().items()}
        seen = [one.result() for one in following]
    there = rows(cluster)
    assert [seq for seq, _ in there] == list(range(1, total + 1))
    assert {name: seq for seq, name in there} == stored
    assert all(one == there for one in seen)
    for number in range(WRITERS):
        own = [stored[f"w{number}-{at}"] for at in range(EACH)]
        assert all(before < after for before, after in pairwise(own))


def test_all_writers_and_subscribers_of_four_daemons_see_one_order(
    own_cluster: Cluster, daemons: list[SharingDaemon]
) -> None:
    shared(own_cluster, daemons)


def test_lost_rings_are_delays_alone(own_cluster: Cluster, daemons: list[SharingDaemon]) -> None:
    silenced = 0

    def silence(has_ended: Callable[[], bool]) -> None:
        nonlocal silenced
        while silenced < SILENCED_MAX and not has_ended():
            silenced += own_cluster.silence_bells()

    shared(own_cluster, daemons, silence)
    assert silenced > 0


def test_no_writer_waits_for_ever_behind_the_writers_of_other_daemons(
    own_cluster: Cluster, daemons: list[SharingDaemon]
) -> None:
    """Let three daemons append in floods, while a client at the fourth one appends one by one."""
    is_over = threading.Event()

    def flood(daemon: SharingDaemon) -> None:
        with daemon.connect() as link:
            while not is_over.is_set():
                for number in range(64):
                    message = {"role": "user", "content": "flood"}
                    params = {"session_id": SESSION, "message": message}
                    body = {"jsonrpc": "2.0", "id": number, "method": "append", "params": params}
                    link.send(msgspec.json.encode(body) + b"\n")
                for number in range(64):
                    link.answer(number)

    with ThreadPoolExecutor(3) as threads:
        floods = [threads.submit(flood, one) for one in daemons[1:]]
        try:
            with daemons[0].connect() as link:
                for number in range(100):
                    link.say(SESSION, f"one {number}")
        finally:
            is_over.set()
        for one in floods:
            one.result()
