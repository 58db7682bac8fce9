"""The surroundings of a row: number of rounds, work folder, cores, and progress.

Law: a row only measures; it decides neither how often nor where. Its files are in the work
folder, which is removed at the end of the run, or in the cache.
"""

from __future__ import annotations

import fcntl
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from tests.bench.harness.figures import Goal, spread
from tests.bench.harness.machine import Cores, find_cores
from tests.bench.harness.processes import REPOSITORY
from tests.bench.harness.results import Contender, Figure, RowResult
from tests.bench.harness.rounds import Entrant, contest
from tests.bench.harness.workload import MIXES

__all__ = ["Bench", "Measured", "Pair", "Row", "bench", "figure"]

CACHE = ".bench"
Measured = dict[str, dict[str, list[float]]]
"""entrant → metric → one value a round."""


class Bench:
    """The surroundings of one run."""

    def __init__(
        self, *, rounds: int, quick: bool, folder: Path, cache: Path, full: bool = False
    ) -> None:
        self.rounds = rounds
        self.quick = quick
        self.full = full
        """True where a row that has a larger measurement shall make it."""
        self.folder = folder
        self.cache = cache
        self.cores: Cores = find_cores()
        self.where = ""

    @property
    def mixes(self) -> Sequence[str]:
        """The entry mixes to measure with."""
        return MIXES[:1] if self.quick else MIXES

    def scaled(self, count: int, mix: str = "mix") -> int:
        """Return the number of requests of a measurement; fewer than `count` for large messages."""
        count = count // 5 if mix == "20 KB" else count
        return max(count // 3 if self.quick else count, 1)

    def tell(self, what: str) -> None:
        """Print a line of progress."""
        sys.stderr.write(f"{self.where}: {what}\n")
        sys.stderr.flush()

    def contest(self, case: str, entrants: Sequence[Entrant]) -> Measured:
        """Interleaved rounds of these entrants."""
        return contest(entrants, self.rounds, lambda what: self.tell(f"{case}: {what}"))


class Row(Struct, frozen=True):
    """A row of the goals table; `measure` adds its figures to the result."""

    number: int
    title: str
    measure: Callable[[Bench, RowResult], None]


@contextmanager
def bench(*, rounds: int, quick: bool, full: bool = False) -> Iterator[Bench]:
    """Make a work folder and a cache in the checkout, so on a disk and not in memory."""
    root = REPOSITORY / CACHE
    root.mkdir(exist_ok=True)
    # The folder keeps itself out of the repository.
    (root / ".gitignore").write_text("*\n", encoding="utf-8")
    cache = root / "cache"
    cache.mkdir(exist_ok=True)
    with _alone(root / "lock"):
        folder = Path(tempfile.mkdtemp(prefix="work-", dir=root))
        try:
            yield Bench(rounds=rounds, quick=quick, folder=folder, cache=cache, full=full)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Two runs at once measure each other: the second waits for the first."""
    with path.open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.stderr.write("another run is under way in this checkout; waiting for it\n")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class Pair(Struct, frozen=True):
    """The entrants that a figure compares; without a peer, ours stands alone."""

    ours: str
    peer: str | None
    peer_is: Contender


def figure(
    measured: Measured, pair: Pair, metric: str, *, case: str, goal: Goal | None = None
) -> Figure:
    """Return a figure from the measurements, with a note if the generator was the limit."""
    made = Figure(
        case=case,
        metric=metric,
        ours=measured[pair.ours][metric],
        peer=measured[pair.peer][metric] if pair.peer is not None else [],
        peer_is=pair.peer_is,
        goal=goal,
    )
    for name, metrics in measured.items():
        busy = metrics.get("generator_busy")
        if busy and name in {pair.ours, pair.peer} and spread(busy).median > 0.9:
            made.notes.append(f"load generator {spread(busy).median:.0%} busy against {name}")
    return made
