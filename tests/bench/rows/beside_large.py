"""Row 22: appends of one client while a large session of another agent is forked, exported, verified and searched.

The appends are durable and come one by one, a few milliseconds apart, to a session of their own. Each deed has its
round on a daemon that has just started: the appends are timed for a while before it, and then until it has ended.
"""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from tests.bench.harness.bench import Bench, Measured, Pair, Row, figure
from tests.bench.harness.errors import BenchError
from tests.bench.harness.figures import percentile
from tests.bench.harness.link import Link
from tests.bench.harness.proc import peak_kib, process_of
from tests.bench.harness.results import Contender, RowResult
from tests.bench.harness.rounds import Entrant, Sample, contest
from tests.bench.harness.servers import SESSIOND, Daemon, daemon

__all__ = ["ROW"]

MIB: Final = 1024 * 1024
SIZE, SIZE_QUICK, SIZE_FULL = 300 * MIB, 20 * MIB, 1000 * MIB
ROUNDS_MAX: Final = 3
BEFORE: Final = 500
PAUSE_SECONDS: Final = 0.004
DEED_SECONDS: Final = 1_800
ID: Final = "5e55d001-0000-4000-8000-000000000001"
OUTPUT: Final = "some output of a command, line by line\n" * 500
ALONE: Final = Contender("the same appends before", "")
DEEDS: Final = ("fork", "export", "verify", "search")


def large_root(cache: Path, size: int) -> Path:
    """Return a folder of Claude Code's projects with one session of a size, which is made once."""
    root = cache / f"large-{size}"
    path = root / "-p" / f"{ID}.jsonl"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=root, delete=False) as file:
            for line in _lines(size):
                file.write(line)
        Path(file.name).replace(path)
    return root


def _lines(size: int) -> Iterator[bytes]:
    at = number = 0
    above: str | None = None
    while at < size:
        for role, content in (
            ("user", f"turn {number} zebra{number}"),
            ("assistant", [{"type": "tool_use", "id": f"c{number}", "name": "Bash", "input": {}}]),
            ("user", [{"type": "tool_result", "tool_use_id": f"c{number}", "content": OUTPUT}]),
            ("assistant", [{"type": "text", "text": f"done {number}"}]),
        ):
            message: dict[str, Any] = {"role": role, "content": content}
            if role == "assistant":
                message |= {"id": f"m{number}", "model": "m-1"}
            uuid = f"{number:08x}-{len(message):04x}-4000-8000-{at:012x}"
            line = {"parentUuid": above, "isSidechain": False, "type": role, "uuid": uuid}
            line |= {"timestamp": "2026-01-15T10:30:00.000Z", "cwd": "/p", "sessionId": ID}
            written = json.dumps(line | {"version": "2.1.330", "message": message}).encode() + b"\n"
            yield written
            above, at, number = uuid, at + len(written), number + 1


def beside(bench: Bench, size: int, deed: str) -> Sample:
    """Time appends before and during a deed, on a daemon that has just listed the session."""
    root = large_root(bench.cache, size)
    with daemon(bench.folder, bench.cores.server) as ours, ours.connect() as link:
        link.ask("catalog/roots", {"action": "add", "path": str(root), "kind": "claude-code"}, Any)
        link.ask("session/list", {"limit": 1}, Any)
        session = ours.create(link, "immediate").id
        before = [_append(link, session) for _ in range(BEFORE)]
        during, ended = list[float](), list[float]()
        thread = threading.Thread(target=_do, args=(ours, deed, bench.folder, ended))
        start = time.perf_counter()
        thread.start()
        while thread.is_alive():
            during.append(_append(link, session))
        thread.join()
        if not ended:
            raise BenchError(f"{deed} did not end")
        return {
            "p99_us": percentile(during, 0.99),
            "max_us": max(during),
            "alone_p99_us": percentile(before, 0.99),
            "alone_max_us": max(before),
            "seconds": ended[0] - start,
            "peak_mib": peak_kib(process_of(link)) / 1024,
        }


def _append(link: Link, session: str) -> float:
    time.sleep(PAUSE_SECONDS)
    start = time.perf_counter_ns()
    entry = {"type": "message", "message": {"role": "user", "content": "beside"}}
    link.ask("append", {"session_id": session, "entries": [entry]}, Any)
    return (time.perf_counter_ns() - start) / 1000


def _do(ours: Daemon, deed: str, folder: Path, ended: list[float]) -> None:
    asked: dict[str, dict[str, Any]] = {
        "fork": {"session_id": ID},
        "export": {"session_id": ID, "format": "markdown"},
        "verify": {"session_id": ID},
        "search": {"query": "zebra4"},
    }
    with tempfile.TemporaryDirectory(dir=folder) as target, ours.connect() as link:
        link.wait_up_to(DEED_SECONDS)
        if deed == "export":
            asked[deed]["path"] = str(Path(target, "page.md"))
        link.ask(f"session/{deed}", asked[deed], Any)
        ended.append(time.perf_counter())


def measure(bench: Bench, result: RowResult) -> None:
    """Measure each deed, and compare the appends during it with those before."""
    size = SIZE_QUICK if bench.quick else SIZE_FULL if bench.full else SIZE
    bench.tell(f"a session of {size // MIB} MiB")
    large_root(bench.cache, size)
    entrants = [Entrant(deed, partial(beside, bench, size, deed)) for deed in DEEDS]
    rounds = min(bench.rounds, ROUNDS_MAX)
    measured: Measured = contest(entrants, rounds, lambda what: bench.tell(f"beside: {what}"))
    for deed in DEEDS:
        found = measured[deed]
        both = {
            "during": found,
            "before": {name: found[f"alone_{name}"] for name in ("p99_us", "max_us")},
        }
        for metric in ("p99_us", "max_us"):
            case = f"appends during a {deed} of {size // MIB} MiB"
            pair = Pair("during", "before", ALONE)
            result.figures.append(figure(both, pair, metric, case=case))
        for metric in ("seconds", "peak_mib"):
            pair = Pair("during", None, SESSIOND)
            result.figures.append(figure(both, pair, metric, case=f"{deed} of {size // MIB} MiB"))


ROW = Row(
    22, "appends beside a large session that is forked, exported, verified, searched", measure
)
