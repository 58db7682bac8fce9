"""Row 11: the context of a session of 100,000 entries that keeps 200: cold, cached, next turn.

Cold and cached are compared with pi's own function and its JSON, in process. A turn with `known` is
compared with that turn in a short session: neither its bytes nor its time grow with the session.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import msgspec
from msgspec import Raw, Struct

from tests.bench.harness.bench import Bench, Pair, Row, figure
from tests.bench.harness.compacted import KEPT, compacted_native, compacted_pi
from tests.bench.harness.errors import BenchError
from tests.bench.harness.figures import at_most
from tests.bench.harness.link import Link
from tests.bench.harness.processes import Worker
from tests.bench.harness.results import Contender, RowResult
from tests.bench.harness.rounds import Entrant, Sample
from tests.bench.harness.servers import SESSIOND, daemon, new_home
from tests.bench.harness.workload import SESSION_ID, messages
from tests.bench.peers.against_pi import contest_with_pi
from tests.bench.peers.pi import CONTEXT_IN_OF_0_73, PI_1_5, PiDone

__all__ = ["ROW"]

ENTRIES, ENTRIES_QUICK, SHORT = 100_000, 20_000, 1000
TIMES, TURNS = 50, 60
SHORT_SESSION = Contender("sessiond, session of 1,000 entries", SESSIOND.version)
VIEWS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("stored", {}),
    ("repaired, for openai", {"repair": True, "shape": "openai"}),
    ("repaired, for anthropic", {"repair": True, "shape": "anthropic"}),
)


class Built(Struct):
    """The part of a context that a client needs to ask for the next one."""

    messages: list[Raw]
    leaf_id: str
    unchanged: int


def build(link: Link, **more: Any) -> Raw:
    """Ask for the context; the answer as it came."""
    return link.ask("session/build_context", {"session_id": SESSION_ID, **more}, Raw)


def cold(bench: Bench, entries: int) -> Sample:
    """Measure the first context after a fresh daemon has opened the file."""
    home = new_home(bench.folder)
    compacted_native(bench.cache, home, entries)
    with daemon(bench.folder, bench.cores.server, home) as ours, ours.connect() as link:
        ours.open(link, SESSION_ID)
        start = time.perf_counter()
        answer = build(link)
        first = time.perf_counter() - start
        start = time.perf_counter()
        for _ in range(TIMES):
            build(link)
        again = (time.perf_counter() - start) / TIMES
    count = len(msgspec.json.decode(answer, type=Built).messages)
    if count != KEPT + 1:
        raise BenchError(f"{count} messages in the context, not {KEPT + 1}")
    return {"cold_ms": first * 1000, "cached_ms": again * 1000}


def pis(worker: Worker, path: str) -> Sample:
    """pi builds the context of an open session, and its JSON."""
    done = worker.ask({"do": "context", "path": path}, PiDone)
    if done.count != KEPT + 1:
        raise BenchError(f"{done.count} messages in pi's context, not {KEPT + 1}")
    return {"cold_ms": done.ms, "cached_ms": done.ms}


def turns(bench: Bench, entries: int, view: dict[str, Any]) -> Sample:
    """Measure appends, each followed by a context for a client that holds the one before."""
    home = new_home(bench.folder)
    compacted_native(bench.cache, home, entries)
    seconds = 0.0
    size = 0
    with daemon(bench.folder, bench.cores.server, home) as ours, ours.connect() as link:
        held = msgspec.json.decode(build(link, **view), type=Built)
        count = len(held.messages)
        for message in messages("300 B", TURNS):
            said = {"session_id": SESSION_ID, "durability": "os", "message": Raw(message)}
            link.ask("session/append", said, Raw)
            known = {"leaf_id": held.leaf_id, "count": count}
            start = time.perf_counter()
            answer = build(link, known=known, **view)
            seconds += time.perf_counter() - start
            size += len(bytes(answer))
            held = msgspec.json.decode(answer, type=Built)
            if not held.unchanged:
                raise BenchError("the whole context came again")
            count = held.unchanged + len(held.messages)
    return {"us_each": seconds / TURNS * 1e6, "bytes_each": size / TURNS}


def measure(bench: Bench, result: RowResult) -> None:
    """Cold and cached against pi; then turns, in three views, against a short session."""
    entries = ENTRIES_QUICK if bench.quick else ENTRIES
    bench.tell(f"files of {entries:,} entries")
    case = f"{entries:,} entries, {KEPT} kept"
    measured, peer = contest_with_pi(
        bench,
        result,
        case,
        partial(cold, bench, entries),
        lambda worker: partial(pis, worker, str(compacted_pi(bench.cache, bench.folder, entries))),
    )
    pair = Pair("ours", peer, PI_1_5)
    for metric, goal in (("cold_ms", at_most(1 / 30)), ("cached_ms", at_most(1 / 500))):
        made = figure(measured, pair, metric, case=case, goal=goal)
        factor = CONTEXT_IN_OF_0_73
        result.figures.append(msgspec.structs.replace(made, peer_factor=factor))
    for name, view in VIEWS:
        case = f"next turn, {name}, {entries:,} entries"
        measured = bench.contest(
            case,
            [
                Entrant("short", partial(turns, bench, SHORT, view)),
                Entrant("long", partial(turns, bench, entries, view)),
            ],
        )
        pair = Pair("long", "short", SHORT_SESSION)
        for metric, goal in (("us_each", at_most(1.3)), ("bytes_each", at_most(1.05))):
            result.figures.append(figure(measured, pair, metric, case=case, goal=goal))


ROW = Row(11, "build_context in a long session: cold, cached, next turn", measure)
