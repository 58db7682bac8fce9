"""The opening of a long session by a fresh daemon, up to the point where a client works in it."""

from __future__ import annotations

import time

from msgspec import Raw

from tests.bench.harness.bench import Bench
from tests.bench.harness.compacted import compacted_native
from tests.bench.harness.errors import BenchError
from tests.bench.harness.readback import require_in_file
from tests.bench.harness.rounds import Sample
from tests.bench.harness.servers import Daemon, daemon, new_home
from tests.bench.harness.workload import SESSION_ID

__all__ = ["opened_by", "ours_opens"]

_APPEND = {"session_id": SESSION_ID, "message": {"role": "user", "content": "next"}}


def ours_opens(bench: Bench, entries: int, *, closed_before: bool = False) -> Sample:
    """Measure the answer of session/open, a context and one append together.

    The session has `entries` messages and a compaction. The daemon has never seen its file, or
    with `closed_before` an earlier daemon has opened and closed the session.
    """
    home = new_home(bench.folder)
    path = compacted_native(bench.cache, home, entries)
    size = path.stat().st_size
    if closed_before:
        with daemon(bench.folder, bench.cores.server, home) as earlier, earlier.connect() as link:
            earlier.open(link, SESSION_ID)
    with daemon(bench.folder, bench.cores.server, home) as ours:
        sample, seq = opened_by(ours)
    if seq != entries + 1:
        raise BenchError(f"{entries + 1} entries in the file, {seq} in the session")
    require_in_file(path, 1, offset=size)
    path.unlink()
    return sample


def opened_by(ours: Daemon) -> tuple[Sample, int]:
    """Measure the answer of session/open, a context and one append; return also the seq that was opened."""
    with ours.connect() as link:
        start = time.perf_counter()
        session = ours.open(link, SESSION_ID)
        opened = time.perf_counter()
        link.ask("session/build_context", {"session_id": SESSION_ID}, Raw)
        link.ask("session/append", _APPEND, Raw)
        end = time.perf_counter()
    return {"ms": (end - start) * 1000, "open_ms": (opened - start) * 1000}, session.seq
