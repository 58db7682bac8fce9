"""`make torture MINUTES=n`: everything at once against a real daemon, and a proof afterwards.

    python -m tests.torture.run --minutes 2           rounds until the time is over, one at least
    python -m tests.torture.run --seconds 20          one short round
    python -m tests.torture.run --rounds 3 --seed 7   so many; the seed decides what is drawn

Exit 0 = no violation, 1 = some; they are told in words, and the folder with all logs and
files is kept.
"""

from __future__ import annotations

import argparse
import json
import secrets
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.processes import single_daemon
from tests.processes.harness.daemon import SESSIOND
from tests.torture.killer import rage
from tests.torture.round import Outcome, Round
from tests.torture.tally import Tally

__all__ = ["main"]

ROUND_SECONDS: Final = 25.0
SHOWN: Final = 25
PROGRESS_SECONDS: Final = 5.0


def main(words: Sequence[str] | None = None) -> int:
    """Run rounds; 1 if any had a violation."""
    options = _options(words)
    seed: int = options.seed if options.seed is not None else secrets.randbelow(1_000_000)
    sys.stderr.write(f"torture: SEED={seed}\n")
    tally, began = Tally(), time.monotonic()
    violations: list[str] = []
    number = 0
    while True:
        outcome = _one(options, seed + number, _seconds(options, began), tally)
        number += 1
        if outcome.violations:
            violations += [f"{one} ({outcome.folder})" for one in outcome.violations]
            _tell(outcome, seed + number - 1)
            break
        if _is_over(options, number, began):
            break
    _report(tally, violations, number, seed, as_json=options.json)
    return 1 if violations else 0


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="torture", description="attack sessiond, then prove")
    parser.add_argument("--minutes", type=float, default=2.0, help="at least one whole round")
    parser.add_argument("--rounds", type=int, help="so many, whatever the time")
    parser.add_argument("--seconds", type=float, help="one round of so many seconds of chaos")
    parser.add_argument("--seed", type=int, help="of what is drawn; printed at the start")
    parser.add_argument("--folder", type=Path, help="where rounds work; a short path")
    parser.add_argument(
        "--single", action="store_true", help="the round's daemons stage every append by itself"
    )
    parser.add_argument("--json", action="store_true", help="the counts for scripts")
    return parser.parse_args(words)


def _seconds(options: argparse.Namespace, began: float) -> float:
    if options.seconds is not None:
        return float(options.seconds)
    if options.rounds is not None:
        return ROUND_SECONDS
    left: float = options.minutes * 60 - (time.monotonic() - began)
    return min(ROUND_SECONDS, max(8.0, left * 0.7))


def _is_over(options: argparse.Namespace, number: int, began: float) -> bool:
    if options.rounds is not None:
        return bool(number >= options.rounds)
    if options.seconds is not None:
        return True
    # A round that would be mostly beginning and end proves little.
    return bool(time.monotonic() - began > options.minutes * 60 - 12)


def _one(options: argparse.Namespace, seed: int, seconds: float, tally: Tally) -> Outcome:
    began = last = time.monotonic()

    def progress(what: str) -> None:
        nonlocal last
        if what == "check" or time.monotonic() - last >= PROGRESS_SECONDS:
            last = time.monotonic()
            sys.stderr.write(f"torture: seed {seed}, {last - began:.0f} s: {what}\n")

    program = (sys.executable, single_daemon.__file__) if options.single else (SESSIOND,)
    round_ = Round(seed, rage(seconds), where=options.folder, program=program)
    outcome = round_.run(tally, progress)
    took = time.monotonic() - began
    sys.stderr.write(
        f"torture: seed {seed}: {outcome.lines} lines in {took:.0f} s,"
        f" {len(outcome.violations)} violations\n"
    )
    return outcome


def _tell(outcome: Outcome, seed: int) -> None:
    for violation in outcome.violations[:SHOWN]:
        sys.stderr.write(f"VIOLATION: {violation}\n")
    if len(outcome.violations) > SHOWN:
        sys.stderr.write(f"and {len(outcome.violations) - SHOWN} more\n")
    sys.stderr.write(f"seed {seed}; logs and files are in {outcome.folder}\n")


def _report(tally: Tally, violations: list[str], rounds: int, seed: int, *, as_json: bool) -> None:
    if as_json:
        said = {"seed": seed, "rounds": rounds, "counts": tally.counts, "violations": violations}
        sys.stdout.write(json.dumps(said) + "\n")
        return
    sys.stdout.write(tally.report())
    sys.stdout.write(f"{'rounds':16}{rounds:>9}\n{'violations':16}{len(violations):>9}\n")


if __name__ == "__main__":
    raise SystemExit(main())
