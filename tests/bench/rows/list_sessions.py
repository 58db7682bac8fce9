"""Row 13: listing 1,000 sessions (164 MB), the first time and afterwards, against pi.

The first list of ours is counted from the start of the daemon's process, because its scan begins
then: start-up is in the figure. pi keeps nothing between lists, so both cases have one peer.

Then the folders of five programs as roots: 2,000 sessions of 102 KB, with `--full` 10,000, which is
1 GB. pi lists its own folder of these, once for itself against ours with that root alone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct

from tests.bench.harness.bench import Bench, Pair, Row, figure
from tests.bench.harness.errors import BenchError
from tests.bench.harness.figures import at_most
from tests.bench.harness.link import Link
from tests.bench.harness.mixed import KINDS, mixed
from tests.bench.harness.processes import Worker
from tests.bench.harness.results import RowResult
from tests.bench.harness.rounds import Sample
from tests.bench.harness.servers import Session, daemon, new_home, sessions_folder
from tests.bench.harness.stored import many_native, many_pi
from tests.bench.peers.against_pi import contest_with_pi
from tests.bench.peers.pi import PI, PiDone

__all__ = ["ROW"]

SESSIONS, SESSIONS_QUICK = 1000, 100
ENTRIES = 114
AGAIN = 20
MIXED, MIXED_QUICK, MIXED_FULL = 2000, 100, 10_000
MIXED_ENTRIES = 70
# The first search reads the words of all sessions.
SEARCH_SECONDS = 600
# A list has at most so many sessions; the first one reads all files nevertheless.
PAGE = 1000


class _Listed(Struct):
    sessions: list[Session]


def _list(link: Link, sessions: int) -> None:
    found = link.ask("session/list", {"limit": sessions}, _Listed).sessions
    if len({session.id for session in found}) != sessions:
        raise BenchError(f"{sessions} sessions in the folder, {len(found)} in the list")


def ours_lists(bench: Bench, source: Path, sessions: int) -> Sample:
    """Measure the first list of a daemon that has never seen these files, and later lists."""
    home = new_home(bench.folder)
    for path in source.iterdir():
        os.link(path, sessions_folder(home) / path.name)
    start = time.perf_counter()
    with daemon(bench.folder, bench.cores.server, home) as ours, ours.connect() as link:
        _list(link, sessions)
        first = time.perf_counter() - start
        start = time.perf_counter()
        for _ in range(AGAIN):
            _list(link, sessions)
        again = (time.perf_counter() - start) / AGAIN
    return {"first": first * 1000, "again": again * 1000}


def pi_lists(worker: Worker, source: Path, sessions: int) -> Sample:
    """pi parses every file at every list."""
    done = worker.ask({"do": "list", "folder": str(source)}, PiDone)
    if done.count != sessions:
        raise BenchError(f"{sessions} sessions in the folder, {done.count} in pi's list")
    return {"first": done.ms, "again": done.ms}


class _Anything(Struct):
    """An answer of which only the time counts."""


class _Hits(Struct):
    hits: list[_Anything]


class _Nodes(Struct):
    nodes: list[_Anything]


def _found(answer: _Listed | _Hits | _Nodes) -> int:
    match answer:
        case _Listed(sessions=found) | _Hits(hits=found) | _Nodes(nodes=found):
            return len(found)


def _list_page(link: Link) -> int:
    return len(link.ask("session/list", {"limit": PAGE}, _Listed).sessions)


def ours_lists_roots(bench: Bench, folder: Path, kinds: Sequence[str], sessions: int) -> Sample:
    """Measure a daemon that has never seen these roots: lists, searches and forests."""
    start = time.perf_counter()
    with daemon(bench.folder, bench.cores.server) as ours, ours.connect() as link:
        link.wait_up_to(SEARCH_SECONDS)
        for kind in kinds:
            asked = {"action": "add", "path": str(folder / kind), "kind": kind}
            link.ask("catalog/roots", asked, _Anything)
        found = _list_page(link)
        first = time.perf_counter() - start
        if found != min(sessions, PAGE):
            raise BenchError(f"{sessions} sessions in the roots, {found} in the list")

        def asking(method: str, params: dict[str, Any], wanted: type[Any], times: int) -> float:
            start = time.perf_counter()
            answers = [link.ask(method, params, wanted) for _ in range(times)]
            each = (time.perf_counter() - start) / times * 1000
            if not all(map(_found, answers)):
                raise BenchError(f"{method} found nothing")
            return each

        said = {"query": "session keeps every", "limit": 20}
        return {
            "first": first * 1000,
            "again": asking("session/list", {"limit": PAGE}, _Listed, AGAIN),
            "first_search": asking("session/search", said, _Hits, 1),
            "search": asking("session/search", said, _Hits, AGAIN),
            "forest": asking("catalog/forest", {"scope": "all"}, _Nodes, 3),
        }


def _measure_roots(bench: Bench, result: RowResult) -> None:
    sessions = MIXED_FULL if bench.full else MIXED_QUICK if bench.quick else MIXED
    folder = mixed(
        bench.cache,
        sessions,
        MIXED_ENTRIES,
        partial(daemon, bench.folder, bench.cores.server),
    )
    size = sum(path.stat().st_size for path in folder.rglob("*.jsonl"))
    share = sessions // len(KINDS)
    measured, peer = contest_with_pi(
        bench,
        result,
        f"a root of pi, {share:,} sessions",
        partial(ours_lists_roots, bench, folder, ["pi"], share),
        lambda worker: partial(pi_lists, worker, folder / "pi", share),
    )
    pair = Pair("ours", peer, PI)
    for metric, case in (("first", "from start-up to the first list"), ("again", "later lists")):
        named = f"{case}, a root of pi with {share:,} sessions"
        result.figures.append(figure(measured, pair, metric, case=named))
    measured, peer = contest_with_pi(
        bench,
        result,
        f"{sessions:,} sessions of five programs, {size / 1e6:.0f} MB",
        partial(ours_lists_roots, bench, folder, KINDS, sessions),
        lambda worker: partial(pi_lists, worker, folder / "pi", share),
    )
    for metric, case in (
        ("first", "from start-up to the first list"),
        ("again", "later lists"),
        ("first_search", "the first search"),
        ("search", "later searches"),
        ("forest", "the forest"),
    ):
        # pi has only lists to compare with.
        against = peer if metric in {"first", "again"} else None
        named = f"{case}, {sessions:,} sessions of five programs, {size / 1e6:.0f} MB"
        named += " (pi: its fifth)" if against else ""
        result.figures.append(figure(measured, Pair("ours", against, PI), metric, case=named))


def measure(bench: Bench, result: RowResult) -> None:
    """Measure the profile's own sessions, then the roots."""
    _measure_own(bench, result)
    _measure_roots(bench, result)


def _measure_own(bench: Bench, result: RowResult) -> None:
    sessions = SESSIONS_QUICK if bench.quick else SESSIONS
    bench.tell(f"{sessions:,} files")
    source = many_native(bench.cache, sessions, ENTRIES)
    size = sum(path.stat().st_size for path in source.iterdir())
    measured, peer = contest_with_pi(
        bench,
        result,
        f"{sessions:,} sessions, {size / 1e6:.0f} MB",
        partial(ours_lists, bench, source, sessions),
        lambda worker: partial(pi_lists, worker, many_pi(bench.cache, sessions, ENTRIES), sessions),
    )
    pair = Pair("ours", peer, PI)
    for metric, case, goal in (
        ("first", "from start-up to the first list", at_most(1 / 3)),
        ("again", "every later list", at_most(1 / 400)),
    ):
        named = f"{case}, {sessions:,} sessions"
        result.figures.append(figure(measured, pair, metric, case=named, goal=goal))


ROW = Row(13, "list 1,000 sessions, and roots, against pi in process", measure)
