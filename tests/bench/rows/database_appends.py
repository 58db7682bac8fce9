"""Row 18: durable appends of daemons whose sessions are in PostgreSQL.

Against a bare psycopg loop that inserts the same lines, against one daemon on files, and one session of
several daemons against one daemon. The server flushes each commit; a second case waits for other commits
before it flushes (commit_delay), as a disk that takes 2 ms does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import Final, NamedTuple

from tests.bench.harness.appends import IN_FLIGHT, ONE_BY_ONE, Shape, appends
from tests.bench.harness.bench import Bench, Pair, Row, figure
from tests.bench.harness.database import bare_inserts, on_database, psycopg_contender, server
from tests.bench.harness.errors import BenchError, Missing
from tests.bench.harness.figures import Goal, at_least, percentile
from tests.bench.harness.load import crowd
from tests.bench.harness.results import Contender, RowResult
from tests.bench.harness.rounds import Entrant, Sample
from tests.bench.harness.servers import SESSIOND, Daemon, Session, daemon
from tests.bench.harness.workload import append_frames, messages
from tests.kit.link import Link
from tests.postgresql.cluster import Cluster

__all__ = ["ROW"]

DAEMONS: Final = 4
EVENTS: Final = 300
SHAPES: Final[tuple[tuple[Shape, int, Goal], ...]] = (
    (ONE_BY_ONE, 600, at_least(0.5)),
    (IN_FLIGHT, 6000, at_least(0.5)),
)
FILES: Final = Contender("sessiond on files", SESSIOND.version)
APART: Final = Contender("sessions of their own", SESSIOND.version)
ALONE: Final = Contender("one daemon, one client", SESSIOND.version)


def by_several(daemons: Sequence[Daemon], bodies: list[bytes], *, is_one_session: bool) -> Sample:
    """Append one by one at each of the daemons at once: to one session, or to a session of each."""
    frames = append_frames(bodies)
    with ExitStack() as stack:
        links = [stack.enter_context(one.connect()) for one in daemons]
        made = [one.create(link, "immediate") for one, link in zip(daemons, links, strict=True)]
        sessions = [made[0]] * len(made) if is_one_session else made
        hands = frames.dealt(len(links))
        loads = [hand.of_session(session.id) for hand, session in zip(hands, sessions, strict=True)]
        timing = crowd(links, loads)
        stored = sum(_seq(daemons[0], one) for one in {session.id for session in sessions})
    if stored != len(bodies):
        raise BenchError(f"{stored} of {len(bodies)} entries are there")
    return timing.sample()


def _seq(daemon: Daemon, session_id: str) -> int:
    with daemon.connect() as link:
        return daemon.open(link, session_id).seq


def events(writer: Daemon, reader: Daemon, name: Session) -> Sample:
    """Measure the time from an answer at one daemon to the event at another one."""
    answered: list[float] = []
    came: list[float] = []
    with Link(writer.socket_path) as writing, Link(reader.socket_path) as watching:
        watching.ask("subscribe", session_id=name.id)

        def watch() -> None:
            while len(came) < EVENTS:
                if watching.message()["method"] == "session/event":
                    came.append(time.perf_counter())

        watcher = threading.Thread(target=watch)
        watcher.start()
        for number in range(EVENTS):
            writing.say(name.id, f"event {number}")
            answered.append(time.perf_counter())
            time.sleep(0.03)
        watcher.join()
    behind = [max(0.0, (at - since) * 1000) for since, at in zip(answered, came, strict=True)]
    return {"p50_ms": percentile(behind, 0.5), "p99_ms": percentile(behind, 0.99)}


def measure(bench: Bench, result: RowResult) -> None:
    """Measure one daemon in two ways, then several, then events, then a slow flush."""
    with ExitStack() as stack:
        try:
            cluster = stack.enter_context(server(bench))
        except Missing as missing:
            result.missing.append(str(missing))
            return
        alone = stack.enter_context(on_database(bench, cluster))
        several = [
            stack.enter_context(on_database(bench, cluster, is_one_of_several=True))
            for _ in range(DAEMONS)
        ]
        files = stack.enter_context(daemon(bench.folder, bench.cores.server))
        rivals = _Rivals(alone, cluster, files)
        for mix in bench.mixes:
            _one_daemon(bench, result, rivals, mix)
        _several_daemons(bench, result, several)
        _events(bench, result, several)
        cluster.configure(commit_delay="2000", commit_siblings="0")
        _one_daemon(bench, result, rivals, bench.mixes[0], "commit_delay 2 ms, ")


class _Rivals(NamedTuple):
    """A daemon on a database, the server, and a daemon on files."""

    ours: Daemon
    cluster: Cluster
    files: Daemon


def _one_daemon(
    bench: Bench, result: RowResult, rivals: _Rivals, mix: str, where: str = ""
) -> None:
    ours, cluster, files = rivals
    for shape, number, goal in SHAPES:
        bodies = messages(mix, bench.scaled(number, mix))
        frames = append_frames(bodies)
        entrants = [
            Entrant("psycopg", partial(bare_inserts, cluster, bodies, shape.in_flight)),
            Entrant("database", partial(appends, ours, shape, frames, persist="immediate")),
            Entrant("files", partial(appends, files, shape, frames, persist="immediate")),
        ]
        case = f"{where}{shape.name}, {mix}"
        measured = bench.contest(case, entrants)
        bare = Pair("database", "psycopg", psycopg_contender())
        result.figures.append(figure(measured, bare, "rate", case=case, goal=goal))
        beside = Pair("database", "files", FILES)
        result.figures.append(figure(measured, beside, "rate", case=f"{case}, beside files"))


def _several_daemons(bench: Bench, result: RowResult, daemons: Sequence[Daemon]) -> None:
    bodies = messages(bench.mixes[0], bench.scaled(1200))
    entrants = [Entrant("1", partial(by_several, daemons[:1], bodies, is_one_session=True))]
    for number in (2, DAEMONS):
        for is_one in (False, True):
            name = f"{number} daemons, {'one session' if is_one else 'own sessions'}"
            run = partial(by_several, daemons[:number], bodies, is_one_session=is_one)
            entrants.append(Entrant(name, run))
    measured = bench.contest("several daemons", entrants)
    for entrant in entrants[1:]:
        goal = at_least(0.5) if entrant.name == f"{DAEMONS} daemons, one session" else None
        pair = Pair(entrant.name, "1", ALONE)
        result.figures.append(figure(measured, pair, "rate", case=entrant.name, goal=goal))
    # Each daemon has one writer with as many appends, so a writer that waits for long shows here.
    fair = Pair(f"{DAEMONS} daemons, one session", f"{DAEMONS} daemons, own sessions", APART)
    case = f"{DAEMONS} daemons, one session, slowest of a hundred"
    result.figures.append(figure(measured, fair, "p99_us", case=case))


def _events(bench: Bench, result: RowResult, daemons: Sequence[Daemon]) -> None:
    def run() -> Sample:
        with daemons[0].connect() as link:
            return events(daemons[0], daemons[1], daemons[0].create(link, "immediate"))

    measured = bench.contest("events", [Entrant("events", run)])
    alone = Pair("events", None, ALONE)
    for metric in ("p50_ms", "p99_ms"):
        result.figures.append(
            figure(measured, alone, metric, case="from an answer to its event at another daemon")
        )


ROW = Row(18, "durable appends with sessions in PostgreSQL, against bare inserts", measure)
