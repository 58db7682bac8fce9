"""The results of a run, as in the result file and in the report.

Law: the file keeps every round of every contender; ratios and verdicts are
derived from those, never stored, so that two files can always be compared.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Struct, field

from tests.bench.harness.figures import Goal, Spread, ratios, spread

__all__ = ["Contender", "Figure", "Machine", "RowResult", "Run", "load_run", "save_run"]

FORMAT = 1


class Contender(Struct, frozen=True):
    """A measured program and its version."""

    name: str
    version: str


class Figure(Struct, kw_only=True):
    """A line of the table: a metric of a case, with every round of both sides."""

    case: str
    metric: str
    ours: list[float]
    peer: list[float] = field(default_factory=list)
    peer_is: Contender | None = None
    peer_factor: float = 1.0
    """Recorded factor from the measured peer to the one the goal names."""
    goal: Goal | None = None
    absolute: bool = False
    """The goal bounds ours itself: a count that drifts with no machine has no peer."""
    notes: list[str] = field(default_factory=list)

    @property
    def judged(self) -> Spread | None:
        """Spread that is compared with the goal."""
        if self.absolute:
            return spread(self.ours) if self.ours else None
        return self.ratio

    @property
    def ratio(self) -> Spread | None:
        """Ours by the peer's, round by round; None without a peer."""
        if not self.ours or not self.peer:
            return None
        return spread(ratios(self.ours, [value * self.peer_factor for value in self.peer]))

    @property
    def verdict(self) -> str:
        """pass, short, or why it is neither."""
        judged = self.judged
        if judged is None:
            return "no peer" if self.ours else "not run"
        if self.goal is None:
            return "-"
        return "pass" if self.goal.met(judged.median) else "short"


class RowResult(Struct, kw_only=True):
    """The result of a row of the goals table."""

    number: int
    title: str
    figures: list[Figure] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    failed: str | None = None
    seconds: float = 0.0


class Machine(Struct, frozen=True, kw_only=True):
    """The machine of a run, without host name and paths."""

    cpu: str
    cores: int
    server_core: int | None
    client_core: int | None
    kernel: str
    python: str
    filesystem: str


class Run(Struct, kw_only=True):
    """A call of `make bench`."""

    format: int = FORMAT
    commit: str
    modified: bool
    """True if the working tree differs from the commit."""
    started_at: str
    quick: bool
    rounds: int
    machine: Machine
    versions: dict[str, str]
    rows: list[RowResult] = field(default_factory=list)
    seconds: float = 0.0


def save_run(run: Run, path: Path) -> None:
    """Write the result file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(run), indent=1) + b"\n")


def load_run(path: Path) -> Run:
    """Read a result file. Raises msgspec.MsgspecError, OSError."""
    return msgspec.json.decode(path.read_bytes(), type=Run)
