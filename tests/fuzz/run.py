"""`make fuzz MINUTES=n`: every attack in turn, with new random seeds, until the time is over.

    python -m tests.fuzz.run MINUTES [SEED]

Prints each fault with its seed, and the number of rounds of each attack. The exit status is 1 if
there was a fault. `MINUTES=0 SEED=7` runs one round of each attack with that seed.
"""

from __future__ import annotations

import secrets
import sys
import tempfile
import time
from collections import Counter
from itertools import cycle
from pathlib import Path
from typing import Final

from tests.fuzz.campaign import ROUNDS

# Rounds count up from their seed, so seeds are far enough apart that rounds never overlap.
_SEEDS: Final = 1_000_000_000
_BETWEEN: Final = 1000


def main(minutes: float, seed: int) -> int:
    """Run the attacks and return the number of faults."""
    end = time.monotonic() + minutes * 60
    rounds: Counter[str] = Counter()
    faults = 0
    for attack, size in cycle(ROUNDS):
        if rounds[attack.__name__] and time.monotonic() >= end:
            break
        with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
            try:
                for fault in attack(Path(folder), seed, size):
                    faults += 1
                    print(ascii(fault), flush=True)
            except Exception as error:  # noqa: BLE001 - whatever it was, the next round may go on
                faults += 1
                print(f"{attack.__name__}, seed {seed}: {error!r:.2000}", flush=True)
        rounds[attack.__name__] += 1
        seed += _BETWEEN
    told = ", ".join(f"{count} rounds of {name}" for name, count in rounds.items())
    print(f"{told}; {faults} faults")
    return faults


if __name__ == "__main__":
    first = int(sys.argv[2]) if len(sys.argv) > 2 else secrets.randbelow(_SEEDS)
    print(f"seed {first}", flush=True)
    sys.exit(1 if main(float(sys.argv[1]), first) else 0)
