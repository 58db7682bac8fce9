"""The hypothesis tests, run with new random examples.

Law: `make test` uses fixed examples. A finding of a round here becomes an @example of its test,
or a test of its own, so that `make test` finds it from then on.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

__all__ = ["properties"]

_REPOSITORY: Final = Path(__file__).resolve().parents[2]
_NOTHING_FAILED, _SOMETHING_FAILED = 0, 1
# One process, like the other attacks; no search for a smaller example: the seed repeats it.
_PYTEST: Final = (
    *("-m", "pytest", "-q", "-m", "hypothesis", "--tb=no", "-rfE", "--timeout=600"),
    *("-p", "no:randomly", "-p", "no:cacheprovider", "--hypothesis-profile=luck"),
)


def properties(folder: Path, seed: int, size: int) -> Iterator[str]:
    """Run every property test, once for each seed."""
    for at in range(seed, seed + size):
        yield from drawn(_REPOSITORY / "tests", folder, at)


def drawn(tests: Path, folder: Path, seed: int) -> Iterator[str]:
    """Run the property tests below a folder with one seed, and give those that failed."""
    places = (f"--hypothesis-seed={seed}", f"--basetemp={folder / f'properties-{seed}'}", tests)
    ended = subprocess.run(
        [sys.executable, *_PYTEST, *map(str, places)],
        cwd=_REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    found = [line for line in ended.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if ended.returncode == _SOMETHING_FAILED and found:
        yield from (f"properties, seed {seed}: {line}" for line in found)
    elif ended.returncode != _NOTHING_FAILED:
        yield f"properties, seed {seed}: pytest ended with {ended.returncode}: {ended.stderr[-500:]}"
