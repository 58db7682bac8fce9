"""`make stuck-client` and `make crowd`: the full forms, with their figures.

    python -m tests.crowd.run stuck --entries 200000 --pairs 7
    python -m tests.crowd.run many --connections 1000 --appends 1000
    python -m tests.crowd.run greedy --minutes 2 --seed 7

Exit status 1 when something promised is not so, or a bound is passed.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from statistics import median
from typing import Final

from tests.crowd.cast import Broken
from tests.crowd.greedy import crowd_out
from tests.crowd.many import watch
from tests.crowd.stuck import Load, run

GROWTH_KIB_MAX: Final = 32 * 1024
CONNECTION_KIB_MAX: Final = 20


def main(words: Sequence[str] | None = None) -> int:
    """0 = all of it held."""
    options = _options(words)
    _say(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    try:
        if options.what == "stuck":
            return _stuck(Load(options.entries, options.size), options.pairs)
        if options.what == "greedy":
            return _greedy(options.minutes, options.seed)
        return _many(options.connections, options.appends)
    except Broken as broken:
        _say(f"BROKEN: {broken}")
        return 1


def _stuck(load: Load, pairs: int) -> int:
    """Interleaved pairs; who comes first alternates."""
    ratios: list[float] = []
    growths: list[int] = []
    costs: list[float] = []
    for pair in range(pairs):
        order = (False, True) if pair % 2 == 0 else (True, False)
        outcomes = {stuck: run(load, stuck=stuck) for stuck in order}
        alone, beside = outcomes[False], outcomes[True]
        ratios.append(alone.seconds / beside.seconds)
        costs.append(alone.cpu_seconds / beside.cpu_seconds)
        growths.append(beside.peak_kib - alone.peak_kib)
        assert beside.heard is not None
        assert beside.catch_up_seconds is not None
        _say(
            f"pair {pair + 1}: {load.entries / alone.seconds:,.0f} appends/s without, "
            f"{load.entries / beside.seconds:,.0f} with a stopped subscriber; daemon at most "
            f"{alone.peak_kib / 1024:.1f} and {beside.peak_kib / 1024:.1f} MiB; "
            f"{beside.heard.entries:,} entries in order {beside.catch_up_seconds:.1f} s after "
            f"SIGCONT, lagged {beside.heard.lagged}, then {(beside.peak_after_kib or 0) / 1024:.1f} MiB"
        )
    _say(
        f"rate with / without: median {median(ratios):.3f} of {pairs} "
        f"(min {min(ratios):.3f}, max {max(ratios):.3f})"
    )
    _say(
        f"the daemon's processor time without / with: median {median(costs):.3f} "
        f"(min {min(costs):.3f}, max {max(costs):.3f})"
    )
    _say(f"memory with - without: at most {max(growths) / 1024:.1f} MiB, of 32 allowed")
    return int(max(growths) >= GROWTH_KIB_MAX)


def _many(connections: int, appends: int) -> int:
    found = watch(connections, appends)
    _say(
        f"{found.connections:,} subscribers, {appends:,} appends: {found.events:,} events in order "
        f"in {found.seconds:.1f} s ({found.events / found.seconds:,.0f}/s), "
        f"{found.demotions} fell behind"
    )
    _say(
        f"memory of a connection: {found.idle_kib:.1f} KiB idle, {found.subscribed_kib:.1f} "
        f"subscribed, {found.watched_kib:.1f} after the events; of {CONNECTION_KIB_MAX} allowed"
    )
    return int(found.idle_kib > CONNECTION_KIB_MAX)


def _greedy(minutes: float, seed: int) -> int:
    end = time.monotonic() + minutes * 60
    while True:
        try:
            asked, seconds = crowd_out(seed)
        except (Broken, TimeoutError) as broken:
            raise Broken(f"seed {seed}: {broken}") from broken
        _say(
            f"seed {seed}: {asked[0]} and {asked[1]}: an ordinary call took {seconds:.1f} s at most"
        )
        seed += 1
        if time.monotonic() >= end:
            return 0


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="crowd", description="stuck and many subscribers")
    kinds = parser.add_subparsers(dest="what", required=True)
    stuck = kinds.add_parser("stuck")
    stuck.add_argument("--entries", type=int, default=200_000)
    stuck.add_argument("--size", type=int, default=2048)
    stuck.add_argument("--pairs", type=int, default=7)
    many = kinds.add_parser("many")
    many.add_argument("--connections", type=int, default=1000)
    many.add_argument("--appends", type=int, default=1000)
    greedy = kinds.add_parser("greedy")
    greedy.add_argument("--minutes", type=float, default=2.0)
    greedy.add_argument("--seed", type=int, default=0)
    return parser.parse_args(words)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
