"""`make bench`: measure the rows of the goals table against their peers, in one run.

    python tests/bench/run.py                      all rows, seven rounds
    python tests/bench/run.py --rows 1,4 --quick   two of them, short
    python tests/bench/run.py --compare A.json B.json

The table goes to standard output (`--json`: the result file's content instead), progress
to standard error, every round to a file in bench-results/.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from tests.bench.harness.bench import Bench, Row, bench
from tests.bench.harness.errors import BenchError, Missing
from tests.bench.harness.machine import commit, machine, on_core, versions
from tests.bench.harness.processes import REPOSITORY
from tests.bench.harness.report import comparison, report
from tests.bench.harness.results import RowResult, Run, load_run, save_run
from tests.bench.table import ROWS

__all__ = ["main"]

RESULTS = REPOSITORY / "bench-results"
ROUNDS, ROUNDS_QUICK = 7, 3


def main(words: Sequence[str] | None = None) -> int:
    """0 = measured, 1 = a row failed (or, with --gate, a goal was missed), 2 = bad arguments."""
    options = _options(words)
    if options.compare:
        before, after = map(load_run, options.compare)
        sys.stdout.write(comparison(before, after))
        return 0
    rows = [row for row in ROWS if options.rows is None or row.number in options.rows]
    rounds = options.rounds or (ROUNDS_QUICK if options.quick else ROUNDS)
    with bench(rounds=rounds, quick=options.quick, full=options.full) as surroundings:
        run = _measured(surroundings, rows)
    path = RESULTS / f"{run.started_at.replace(':', '')}-{run.commit[:12]}.json"
    save_run(run, path)
    sys.stdout.write(msgspec.json.encode(run).decode() + "\n" if options.json else report(run))
    sys.stderr.write(f"every round: {path.relative_to(REPOSITORY)}\n")
    return _exit_code(run, gate=options.gate)


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench", description="measure sessiond against its peers")
    numbers = ",".join(str(row.number) for row in ROWS)
    parser.add_argument("--rows", type=_numbers, help=f"only these, of {numbers}")
    parser.add_argument("--rounds", type=int, help=f"instead of {ROUNDS}")
    parser.add_argument("--quick", action="store_true", help="smaller, three rounds, the mix only")
    parser.add_argument(
        "--full",
        action="store_true",
        help="row 13 with 10,000 sessions, 1 GB; row 21 with 100,000; row 22 with 1 GB",
    )
    parser.add_argument("--json", action="store_true", help="the whole result, not the table")
    parser.add_argument("--gate", action="store_true", help="fail if a goal is missed")
    parser.add_argument(
        "--compare", nargs=2, type=Path, metavar=("A", "B"), help="two result files"
    )
    options = parser.parse_args(words)
    if options.rounds is not None and options.rounds < 1:
        parser.error("--rounds starts at 1")
    return options


def _numbers(text: str) -> frozenset[int]:
    """Return the rows of `--rows 1,4`."""
    try:
        numbers = frozenset(map(int, text.split(",")))
    except ValueError as error:
        raise argparse.ArgumentTypeError("numbers with commas between them") from error
    if unknown := numbers - {row.number for row in ROWS}:
        raise argparse.ArgumentTypeError(f"no row {min(unknown)}")
    return numbers


def _measured(surroundings: Bench, rows: Sequence[Row]) -> Run:
    start = time.monotonic()
    head, modified = commit(REPOSITORY)
    run = Run(
        commit=head,
        modified=modified,
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        quick=surroundings.quick,
        rounds=surroundings.rounds,
        machine=machine(surroundings.cores, surroundings.folder),
        versions=versions(),
    )
    with on_core(surroundings.cores.client):
        run.rows = [_measured_row(surroundings, row) for row in rows]
    run.seconds = time.monotonic() - start
    return run


def _measured_row(surroundings: Bench, row: Row) -> RowResult:
    """Measure a row; an error goes into its result, and the other rows go on."""
    result = RowResult(number=row.number, title=row.title)
    surroundings.where = f"row {row.number}"
    start = time.monotonic()
    try:
        row.measure(surroundings, result)
    except Missing as missing:
        result.missing.append(str(missing))
        result.failed = "a contender is missing"
    except BlockingIOError:
        result.failed = "a server stopped answering"
    except (BenchError, OSError, msgspec.MsgspecError) as error:
        result.failed = str(error) or type(error).__name__
    result.seconds = time.monotonic() - start
    return result


def _exit_code(run: Run, *, gate: bool) -> int:
    failed = any(row.failed for row in run.rows)
    short = any(figure.verdict == "short" for row in run.rows for figure in row.figures)
    return int(failed or (gate and short))


if __name__ == "__main__":
    sys.exit(main())
